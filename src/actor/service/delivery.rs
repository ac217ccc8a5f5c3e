//! Own messages and messages for plain recipients: the steps of a [`Job`] on the way to a handler or a mailbox.

use std::any::type_name;
use std::sync::Arc;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Handler, WeakAddr};

use super::Service;
use super::admission::News;
use super::carried::{Carried, send};
use super::job::{Committed, Job, MessageOf, STOPPED, Ticket, Via, Way, produce};
use super::lanes::{ContextRoute, Guard, Handling, Lanes, Payload, Route, request};
use super::subscribers::Lost;
use crate::actor::target::Target;
use crate::engine::{Ending, Handover};

impl Lanes {
    /// The lane for jobs that an actor of type `A` schedules for itself.
    pub(super) fn own<A, J>(&mut self) -> u32
    where
        A: Actor + Handler<MessageOf<J>>,
        A::Context: ToEnvelope<A, MessageOf<J>>,
        J: Job,
    {
        self.find_or_make::<J, fn(A, J)>(type_name::<MessageOf<J>>(), || {
            Route::Context(Box::new(ContextRoute::<A> { deliver: deliver::<A, J>, escort: escort::<A, J> }))
        })
    }

    /// The lane for jobs whose messages go to the mailboxes of recipients as soon as they are due.
    pub(super) fn plain<J>(&mut self) -> u32
    where
        J: Job<To = Target<MessageOf<J>>>,
    {
        self.find_or_make::<J, fn(J)>(type_name::<MessageOf<J>>(), || Route::Recipient {
            post: post::<J>,
            mailbox: |lanes, payload| lanes.stored::<J>(payload).map(|job| job.to().mailbox()),
            line: None,
        })
    }
}

/// Runs the handler of the owner.
fn deliver<A, J>(service: &Service, mut core: Guard<'_>, due: Handover<Payload>, actor: &mut A, ctx: &mut A::Context)
where
    A: Actor + Handler<MessageOf<J>>,
    J: Job,
{
    let Some(taken) = J::take(&mut core, due) else { return };
    let ticket = Ticket { due, id: service.id_if_lost::<J>(&core, due.key) };
    let mut news = News::default();
    let (mut core, produced) = produce::<J>(service, core, taken, Via::Handler);
    let Committed { message, resume, deferred } = J::commit(produced, &mut core, ticket, Via::Handler, &mut news);
    drop(core);
    if J::PRODUCES {
        service.tell(news);
    }
    deferred.discard(service);
    let Some(message) = message else { return };
    let _delivering = service.contain(|| service.hand_over(due.key, due.deadline));
    <A as Handler<MessageOf<J>>>::handle(actor, message.unpack(), ctx).handle(ctx, None);
    if let Some(clocks) = resume {
        service.resume(due.key, clocks);
    }
}

/// Sends a message to its owner through the mailbox.
fn escort<A, J>(service: &Service, mut core: Guard<'_>, due: Handover<Payload>, addr: &WeakAddr<A>) -> Option<Handling>
where
    A: Actor + Handler<MessageOf<J>>,
    A::Context: ToEnvelope<A, MessageOf<J>>,
    J: Job,
{
    let taken = J::take(&mut core, due)?;
    let ticket = Ticket { due, id: service.id_if_lost::<J>(&core, due.key) };
    let (mut core, produced) = produce::<J>(service, core, taken, Via::OwnMailbox);
    let (message, deferred) = J::send_off(produced, &mut core, ticket);
    drop(core);
    deferred.discard(service);
    request(addr, message?)
}

/// A message for a recipient between two steps.
struct Outgoing<J: Job, S> {
    ticket: Ticket,
    way: Way<MessageOf<J>>,
    step: S,
}

impl<J: Job> Outgoing<J, J::Taken> {
    #[inline(always)]
    fn produce(self, service: &Service) -> Outgoing<J, J::Produced> {
        let Self { ticket, way, step } = self;
        let step = if way.is_open {
            J::produce(step, service, Via::Mailbox)
        } else {
            J::give_up(step, Ending::DeadLettered(STOPPED))
        };
        Outgoing { ticket, way, step }
    }
}

impl<J: Job> Outgoing<J, J::Produced> {
    #[inline(always)]
    fn commit(self, guard: &mut Guard<'_>, news: &mut News) -> Outgoing<J, Committed<J>> {
        let Self { ticket, way, step } = self;
        Outgoing { ticket, way, step: J::commit(step, guard, ticket, Via::Mailbox, news) }
    }
}

/// Sends messages to their recipients. The books are closed before the messages can be seen: a handler, on whatever thread,
/// finds room for another timer.
///
/// All are committed before the first is sent. A recipient on another arbiter then finds the next message when it has
/// handled one, and is not woken for each.
fn post<'a, J: Job>(service: &'a Arc<Service>, mut guard: Guard<'a>, due: &mut Vec<Handover<Payload>>) -> Guard<'a> {
    guard.lanes.fetch(due.iter().map(|due| due.payload));
    let mut news = News::default();
    let mut committed = Vec::with_capacity(due.len());
    if J::PRODUCES {
        let taken: Vec<_> = due.drain(..).filter_map(|due| take::<J>(service, &mut guard, due)).collect();
        drop(guard);
        let produced: Vec<_> = taken.into_iter().map(|outgoing| outgoing.produce(service)).collect();
        guard = service.core();
        committed.extend(produced.into_iter().map(|outgoing| outgoing.commit(&mut guard, &mut news)));
    } else {
        for due in due.drain(..) {
            let Some(taken) = take::<J>(service, &mut guard, due) else { continue };
            committed.push(taken.produce(service).commit(&mut guard, &mut news));
        }
    }
    drop(guard);
    if J::PRODUCES {
        service.tell(news);
    }
    let (mut stopped_just_now, mut letters) = (Vec::new(), Vec::new());
    for Outgoing { ticket, way, step: Committed { message, deferred, .. } } in committed {
        let Ticket { due, id } = ticket;
        if let Some((recipient, message)) = way.recipient.as_ref().zip(message) {
            // The clock may be the user's. Whatever it does, the rest is sent.
            let _delivering = service.contain(|| service.hand_over(due.key, due.deadline));
            // If a waker panics the message is in the mailbox all the same.
            let sent = service.contain(|| send(recipient, message)).unwrap_or(Ok(()));
            if let Err(message) = sent {
                stopped_just_now.push(due.key);
                match id {
                    Some(id) => letters.push(Lost::of(id, due.deadline, STOPPED, Some(message))),
                    None => service.drop_contained(message),
                }
            }
        }
        service.drop_contained(way.recipient);
        deferred.discard(service);
    }
    let mut guard = service.core();
    for key in stopped_just_now {
        if let Some(payload) = guard.engine.break_off(key, STOPPED) {
            service.discard(guard, payload);
            guard = service.core();
        }
    }
    if letters.is_empty() {
        return guard;
    }
    drop(guard);
    letters.into_iter().for_each(|lost| service.bury(lost));
    service.core()
}

#[inline(always)]
fn take<J: Job>(service: &Service, guard: &mut Guard<'_>, due: Handover<Payload>) -> Option<Outgoing<J, J::Taken>> {
    let step = J::take(guard, due)?;
    let way = Way::to(J::target_of(&step).and_then(Target::open));
    Some(Outgoing { ticket: Ticket { due, id: service.id_for_letter(guard, due.key) }, way, step })
}

impl Service {
    /// The id of an owner's timer: its message can only get lost where it is produced.
    #[inline(always)]
    fn id_if_lost<J: Job>(&self, guard: &Guard<'_>, key: crate::timing::Key) -> Option<crate::actor::TimerId> {
        if J::PRODUCES { self.id_for_letter(guard, key) } else { None }
    }
}

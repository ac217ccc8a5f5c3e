//! The ways of the messages of a series: to the handler of their owner, through its mailbox, or to a recipient; or back, if
//! they never ran.

use std::any::type_name;
use std::sync::Arc;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Handler, Recipient, WeakAddr};

use super::Service;
use super::admission::News;
use super::carried::{Carried, send};
use super::lanes::{Contents, ContextRoute, Guard, Handling, Lanes, Payload, Route, Unloaded, request};
use super::series::{Begun, Series, Settled, Way, Work};
use super::subscribers::Lost;
use crate::actor::target::Target;
use crate::engine::{DeadLetterReason, Ending, Handover};

const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;

impl Lanes {
    /// The lane for series of messages of type `M` that an actor of type `A` schedules for itself.
    pub(super) fn of_own_series<A, M>(&mut self) -> u32
    where
        A: Actor + Handler<M::Message>,
        A::Context: ToEnvelope<A, M::Message>,
        M: Carried,
    {
        let route = ContextRoute::<A> { deliver: deliver::<A, M>, escort: escort::<A, M> };
        self.find_or_make::<Series<M>, fn(A, Series<M>)>(unload::<M>, type_name::<M::Message>(), || {
            Route::Context(Box::new(route))
        })
    }

    /// The lane for series of messages of type `M` to recipients.
    pub(super) fn of_series<M>(&mut self) -> u32
    where
        M: Carried,
    {
        self.find_or_make::<Series<M>, fn(Series<M>)>(unload::<M>, type_name::<M::Message>(), || Route::Recipient {
            post: post::<M>,
            mailbox: |lanes, payload| lanes.stored::<Series<M>>(payload)?.target.as_ref().map(Target::mailbox),
            line: None,
        })
    }
}

/// The message of a timer that never ran is the next one of the series.
pub(super) fn unload<M>(lanes: &mut Lanes, payload: Payload) -> Option<Unloaded>
where
    M: Carried,
{
    let Series { target, work, .. } = lanes.take::<Series<M>>(payload)?;
    let Work { mut source, ready, .. } = work?;
    if let Some(message) = ready {
        return Some(Unloaded::new(Contents::Message(message.into_any()), Some(Box::new((target, source)))));
    }
    Some(Unloaded::new(Contents::Source(Box::new(move || M::next_of(&mut source).into_any())), Some(Box::new(target))))
}

/// Runs the handler of the owner.
fn deliver<A, M>(
    service: &Service,
    mut core: Guard<'_>,
    due: Handover<Payload>,
    actor: &mut A,
    ctx: &mut <A as Actor>::Context,
) where
    A: Actor + Handler<M::Message>,
    M: Carried,
{
    let Some(begun) = Begun::<M>::take(service, &mut core, due) else { return };
    drop(core);
    let made = begun.make(service, Way::Handler);
    let mut news = News::default();
    let mut core = service.core();
    let settled = made.settle(&mut core, &mut news);
    drop(core);
    service.tell(news);
    settled.leftovers.discard(service);
    let Some(message) = settled.message else { return };
    let _delivering = service.contain(|| service.hand_over(settled.key, settled.deadline));
    <A as Handler<M::Message>>::handle(actor, message.unpack(), ctx).handle(ctx, None);
    if settled.is_between {
        service.resume(settled.key, &settled.recurrence);
    }
}

/// Sends a message to its owner through the mailbox.
fn escort<A, M>(service: &Service, mut core: Guard<'_>, due: Handover<Payload>, addr: &WeakAddr<A>) -> Option<Handling>
where
    A: Actor + Handler<M::Message>,
    A::Context: ToEnvelope<A, M::Message>,
    M: Carried,
{
    let begun = Begun::<M>::take(service, &mut core, due)?;
    drop(core);
    let made = begun.make(service, Way::Escort);
    let mut core = service.core();
    let (message, leftovers) = made.send_off(&mut core);
    drop(core);
    leftovers.discard(service);
    request(addr, message?)
}

/// Sends messages to their recipients. The books are closed before they can be seen, and all are made ready before the
/// first is sent, as in `lanes::post`.
fn post<'a, M>(service: &'a Arc<Service>, mut core: Guard<'a>, due: &mut Vec<Handover<Payload>>) -> Guard<'a>
where
    M: Carried,
{
    let mut begun = Vec::with_capacity(due.len());
    for due in due.drain(..) {
        let target = core.lanes.stored::<Series<M>>(due.payload).and_then(|series| series.target.clone());
        begun.extend(Begun::<M>::take(service, &mut core, due).map(|begun| (begun, target)));
    }
    drop(core);
    let mut made = Vec::with_capacity(begun.len());
    for (begun, target) in begun {
        let recipient = target.as_ref().and_then(Target::open).filter(Recipient::connected);
        let one = match &recipient {
            Some(_) => begun.make(service, Way::Post),
            None => begun.give_up(Ending::DeadLettered(STOPPED)),
        };
        made.push((one, recipient, target));
    }
    let mut news = News::default();
    let mut core = service.core();
    let settled: Vec<_> = made
        .into_iter()
        .map(|(made, recipient, target)| (made.settle(&mut core, &mut news), recipient, target))
        .collect();
    drop(core);
    service.tell(news);
    let (mut stopped_just_now, mut letters) = (Vec::new(), Vec::new());
    for (settled, recipient, target) in settled {
        let Settled { key, deadline, message, id, leftovers, .. } = settled;
        if let Some((recipient, message)) = recipient.as_ref().zip(message) {
            // The clock may be the user's. Whatever it does, the rest is sent.
            let _delivering = service.contain(|| service.hand_over(key, deadline));
            // If a waker panics the message is in the mailbox all the same.
            let sent = service.contain(|| send(recipient, message)).unwrap_or(Ok(()));
            if sent.is_err() {
                stopped_just_now.push(key);
            }
            match (id, sent) {
                (Some(id), Err(message)) => letters.push(Lost::of(id, deadline, STOPPED, Some(message))),
                (_, sent) => drop(service.contain(|| drop(sent))),
            }
        }
        service.contain(|| drop((recipient, target)));
        leftovers.discard(service);
    }
    let mut core = service.core();
    for key in stopped_just_now {
        if let Some(payload) = core.engine.break_off(key, STOPPED) {
            service.discard(core, payload);
            core = service.core();
        }
    }
    if letters.is_empty() {
        return core;
    }
    drop(core);
    letters.into_iter().for_each(|lost| service.bury(lost));
    service.core()
}

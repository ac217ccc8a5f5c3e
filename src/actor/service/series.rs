//! Series: what is stored for a repeating timer, and how its messages are made and handed over.
//!
//! To make a message is code of the user. So each goes through four steps, whichever way it takes:
//!
//! 1. under the lock, what makes the messages is taken out ([`Begun`]);
//! 2. outside of it the message is made, the clocks are read, and what comes next is found ([`Made`]);
//! 3. under the lock the books are closed on this repetition, the next one is set, and what makes the messages goes back
//!    ([`Settled`]). If the timer was cancelled meanwhile nothing is handed over;
//! 4. outside of it the message is handed over.

use std::any::type_name;
use std::sync::Arc;
use std::time::SystemTime;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Handler, Message, Recipient, WeakAddr};

use super::lanes::{Contents, ContextRoute, Guard, Handling, Lanes, Payload, Route, Unloaded, request};
use super::lines::Posting;
use super::repeating::Calendar;
use super::requests::News;
use super::subscribers::Lost;
use super::{Core, Service};
use crate::actor::id::TimerId;
use crate::actor::source::MessageSource;
use crate::actor::target::{Target, send};
use crate::engine::{DeadLetterReason, Ending, Handover, Next, Now, Recurrence, Repeated};
use crate::timing::{Key, Tick};

const STOPPED: DeadLetterReason = DeadLetterReason::RecipientStopped;
const PANICKED: DeadLetterReason = DeadLetterReason::SourcePanicked;

/// What is stored for a repeating timer.
pub(super) struct Series<M>
where
    M: Message + Send,
    M::Result: Send,
{
    /// None if the messages are for the owner itself.
    pub(super) target: Option<Target<M>>,
    /// Its token in the mailbox, or its place as the next of its line.
    pub(super) posting: Option<Posting>,
    /// Out while a message is made.
    pub(super) work: Option<Work<M>>,
}

/// What makes the messages of a timer, and finds its times of day if it has some.
pub(super) struct Work<M> {
    pub(super) source: MessageSource<M>,
    pub(super) calendar: Option<Calendar>,
    /// A message that was made and for which there was no room.
    pub(super) ready: Option<M>,
}

impl<M> Series<M>
where
    M: Message + Send,
    M::Result: Send,
{
    /// What makes the messages is still to be [put in](Self::put_in).
    pub(super) const fn new(target: Option<Target<M>>) -> Self {
        Self { target, posting: None, work: None }
    }

    pub(super) fn put_in(&mut self, work: Work<M>) {
        self.work = Some(work);
    }

    /// There was no room for a message that was made.
    pub(super) fn keep(&mut self, message: M) {
        if let Some(work) = &mut self.work {
            work.ready = Some(message);
        }
    }

    fn put_back(&mut self, work: &mut Option<Work<M>>) {
        self.work = work.take();
    }
}

/// Which way a message takes to where it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The handler is run here, and it will be known when it is done.
    Handler,
    /// The mailbox of its owner; it will be known when the handler is done.
    Escort,
    /// The mailbox of a recipient.
    Post,
}

/// A repetition that is due, and what makes its message.
pub(super) struct Begun<M>
where
    M: Message + Send,
    M::Result: Send,
{
    due: Handover<Payload>,
    recurrence: Recurrence,
    work: Work<M>,
    /// The id of the timer, if anybody wants to hear of it should its message get lost.
    id: Option<TimerId>,
}

/// A repetition whose message was to be made, and what comes next.
pub(super) struct Made<M>
where
    M: Message + Send,
    M::Result: Send,
{
    pub(super) due: Handover<Payload>,
    recurrence: Recurrence,
    pub(super) result: Result<Ready<M>, Ending>,
    work: Option<Work<M>>,
    pub(super) id: Option<TimerId>,
}

/// A message, and what comes after it.
pub(super) struct Ready<M> {
    message: M,
    next: Next,
    pub(super) now: Now,
}

/// A repetition on which the books are closed.
pub(super) struct Settled<M>
where
    M: Message + Send,
    M::Result: Send,
{
    key: Key,
    deadline: Tick,
    recurrence: Recurrence,
    /// What is to be handed over, if anything is.
    pub(super) message: Option<M>,
    /// The next repetition is counted from the end of the handler.
    is_between: bool,
    pub(super) id: Option<TimerId>,
    pub(super) leftovers: Leftovers<M>,
}

/// What is kept only to be dropped where code of the user may run.
pub(super) struct Leftovers<M>
where
    M: Message + Send,
    M::Result: Send,
{
    pub(super) message: Option<M>,
    pub(super) work: Option<Work<M>>,
    pub(super) series: Option<Series<M>>,
    /// The timer ended without its message, and somebody wants to hear of it.
    pub(super) lost: Option<Lost>,
}

impl<M> Leftovers<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// Drops each on its own, so that a panic of one does not come on top of a panic of another.
    pub(super) fn discard(self, service: &Service) {
        let Self { message, work, series, lost } = self;
        lost.into_iter().for_each(|lost| service.bury(lost));
        service.contain(|| drop(message));
        service.contain(|| drop(work));
        service.contain(|| drop(series));
    }
}

impl<M> Begun<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// Takes out what makes the message of a timer that is due; none if the timer was cancelled.
    pub(super) fn take(service: &Service, core: &mut Core, due: Handover<Payload>) -> Option<Self> {
        let id = service.id_for_letter(core, due.key);
        let recurrence = *core.engine.recurrence(due.key)?;
        let series = core.lanes.stored_mut::<Series<M>>(due.payload)?;
        let work = series.work.take()?;
        Some(Self { due, recurrence, work, id })
    }

    /// Makes the message.
    pub(super) fn make(self, service: &Service, way: Way) -> Made<M> {
        let Self { due, recurrence, mut work, id } = self;
        let made = service.contain(|| {
            let now = service.now_for(&recurrence);
            if recurrence.is_over(now) {
                return Err(Ending::Cancelled);
            }
            let message = work.ready.take().unwrap_or_else(|| work.source.next_message());
            Ok(Ready { message, next: work.after_this(&recurrence, now, way), now })
        });
        let result = made.unwrap_or(Err(Ending::DeadLettered(PANICKED)));
        Made { due, recurrence, result, work: Some(work), id }
    }

    /// Makes none.
    pub(super) fn give_up(self, ending: Ending) -> Made<M> {
        let Self { due, recurrence, work, id } = self;
        Made { due, recurrence, result: Err(ending), work: Some(work), id }
    }
}

impl<M> Work<M> {
    fn after_this(&self, recurrence: &Recurrence, now: Now, way: Way) -> Next {
        let Some(calendar) = &self.calendar else {
            return match recurrence.after_this(now, way != Way::Post) {
                // A message may wait long in a mailbox, and what is missed meanwhile shows only afterwards.
                Next::At { .. } if way == Way::Escort => Next::AfterHandler,
                next => next,
            };
        };
        // Should the wall clock have gone back a little, no time of day comes twice.
        let last = now.wall.unwrap_or_default().max(recurrence.wall().unwrap_or_default());
        let next = SystemTime::UNIX_EPOCH.checked_add(last).and_then(calendar);
        let at = next.and_then(|next| next.duration_since(SystemTime::UNIX_EPOCH).ok());
        at.map_or(Next::Never, |at| recurrence.on_wall_clock(at, now))
    }
}

impl<M> Made<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// Closes the books on this repetition and sets the next one, unless the timer was cancelled meanwhile.
    pub(super) fn settle(self, core: &mut Core, news: &mut News) -> Settled<M> {
        let Self { due, recurrence, result, mut work, id } = self;
        let (mut message, mut unused, mut series, mut lost, mut is_between) = (None, None, None, None, false);
        match result {
            Ok(ready) => {
                core.engine.plan(due.key, ready.next);
                let repeated = core.engine.repeat(due.key, ready.now);
                match repeated {
                    Repeated::Gone => {}
                    Repeated::Last(payload) => series = core.lanes.take::<Series<M>>(payload),
                    Repeated::Between => is_between = true,
                    Repeated::Armed(deadline) => core.expect_repetition(deadline, news),
                }
                match repeated {
                    Repeated::Gone => unused = Some(ready.message),
                    _ => message = Some(ready.message),
                }
                if matches!(repeated, Repeated::Between | Repeated::Armed(_))
                    && let Some(series) = core.lanes.stored_mut::<Series<M>>(due.payload)
                {
                    series.put_back(&mut work);
                }
            }
            Err(ending) => {
                (series, lost) = end_series(core, due, ending, id);
                let ready = work.as_mut().and_then(|work| work.ready.take());
                match (&mut lost, ready) {
                    (Some(lost), Some(ready)) => lost.message = Some(Box::new(ready)),
                    (_, ready) => unused = ready,
                }
            }
        }
        let leftovers = Leftovers { message: unused, work, series, lost };
        Settled { key: due.key, deadline: due.deadline, recurrence, message, is_between, id, leftovers }
    }

    /// Plans what comes after this repetition, which is in flight until it has landed.
    pub(super) fn send_off(self, core: &mut Core) -> (Option<M>, Leftovers<M>) {
        let Self { due, result, mut work, id, .. } = self;
        let (mut message, mut unused, mut series, mut lost) = (None, None, None, None);
        match result {
            Ok(ready) if core.engine.payload(due.key) == Some(due.payload) => {
                core.engine.plan(due.key, ready.next);
                if let Some(series) = core.lanes.stored_mut::<Series<M>>(due.payload) {
                    series.put_back(&mut work);
                }
                message = Some(ready.message);
            }
            Ok(ready) => unused = Some(ready.message),
            Err(ending) => (series, lost) = end_series(core, due, ending, id),
        }
        (message, Leftovers { message: unused, work, series, lost })
    }
}

/// Ends a timer whose message was not made.
pub(super) fn end_series<M>(
    core: &mut Core,
    due: Handover<Payload>,
    ending: Ending,
    id: Option<TimerId>,
) -> (Option<Series<M>>, Option<Lost>)
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    let Some(payload) = core.engine.fail(due.key, ending) else { return (None, None) };
    let lost = match (ending, id) {
        (Ending::DeadLettered(reason), Some(id)) => Some(Lost::of::<M>(id, due.deadline, reason, None)),
        _ => None,
    };
    (core.lanes.take(payload), lost)
}

impl Lanes {
    /// The lane for series of messages of type `M` that an actor of type `A` schedules for itself.
    pub(super) fn of_own_series<A, M>(&mut self) -> u32
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let route = ContextRoute::<A> { deliver: deliver::<A, M>, escort: escort::<A, M> };
        self.find_or_make::<Series<M>, fn(A, Series<M>)>(unload::<M>, type_name::<M>(), || {
            Route::Context(Box::new(route))
        })
    }

    /// The lane for series of messages of type `M` to recipients.
    pub(super) fn of_series<M>(&mut self) -> u32
    where
        M: Message + Send + 'static,
        M::Result: Send,
    {
        self.find_or_make::<Series<M>, fn(Series<M>)>(unload::<M>, type_name::<M>(), || Route::Recipient {
            post: post::<M>,
            mailbox: |lanes, payload| lanes.stored::<Series<M>>(payload)?.target.as_ref().map(Target::mailbox),
            line: None,
        })
    }
}

/// The message of a timer that never ran is the next one of the series.
pub(super) fn unload<M>(lanes: &mut Lanes, payload: Payload) -> Option<Unloaded>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    let Series { target, work, .. } = lanes.take::<Series<M>>(payload)?;
    let Work { mut source, ready, .. } = work?;
    if let Some(message) = ready {
        return Some(Unloaded::new(Contents::Message(Box::new(message)), Some(Box::new((target, source)))));
    }
    Some(Unloaded::new(Contents::Source(Box::new(move || Box::new(source.next_message()))), Some(Box::new(target))))
}

/// Runs the handler of the owner.
fn deliver<A, M>(
    service: &Service,
    mut core: Guard<'_>,
    due: Handover<Payload>,
    actor: &mut A,
    ctx: &mut <A as Actor>::Context,
) where
    A: Actor + Handler<M>,
    M: Message + Send + 'static,
    M::Result: Send,
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
    <A as Handler<M>>::handle(actor, message, ctx).handle(ctx, None);
    if settled.is_between {
        service.resume(settled.key, &settled.recurrence);
    }
}

/// Sends a message to its owner through the mailbox.
fn escort<A, M>(service: &Service, mut core: Guard<'_>, due: Handover<Payload>, addr: &WeakAddr<A>) -> Option<Handling>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
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
    M: Message + Send + 'static,
    M::Result: Send,
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

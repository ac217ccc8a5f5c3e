//! Series: what is stored for a repeating timer, and how its messages are made. How they leave is in `series_ways`.
//!
//! To make a message is code of the user. So each goes through four steps, whichever way it takes:
//!
//! 1. under the lock, what makes the messages is taken out ([`Begun`]);
//! 2. outside of it the message is made, the clocks are read, and what comes next is found ([`Made`]);
//! 3. under the lock the books are closed on this repetition, the next one is set, and what makes the messages goes back
//!    ([`Settled`]). If the timer was cancelled meanwhile nothing is handed over;
//! 4. outside of it the message is handed over.

use std::time::SystemTime;

use super::admission::News;
use super::carried::Carried;
use super::lanes::Payload;
use super::lines::Posting;
use super::repeating::Calendar;
use super::subscribers::Lost;
use super::{Core, Service};
use crate::actor::id::TimerId;
use crate::actor::target::Target;
use crate::engine::{DeadLetterReason, Ending, Handover, Next, Now, Recurrence, Repeated};
use crate::timing::{Key, Tick};

const PANICKED: DeadLetterReason = DeadLetterReason::SourcePanicked;

/// What is stored for a repeating timer.
pub(super) struct Series<M>
where
    M: Carried,
{
    /// None if the messages are for the owner itself.
    pub(super) target: Option<Target<M::Message>>,
    /// Its token in the mailbox, or its place as the next of its line.
    pub(super) posting: Option<Posting>,
    /// Out while a message is made.
    pub(super) work: Option<Work<M>>,
}

/// What makes the messages of a timer, and finds its times of day if it has some.
pub(super) struct Work<M: Carried> {
    pub(super) source: M::Source,
    pub(super) calendar: Option<Calendar>,
    /// A message that was made and for which there was no room.
    pub(super) ready: Option<M>,
}

impl<M> Series<M>
where
    M: Carried,
{
    /// What makes the messages is still to be [put in](Self::put_in).
    pub(super) const fn new(target: Option<Target<M::Message>>) -> Self {
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
    M: Carried,
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
    M: Carried,
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
    M: Carried,
{
    pub(super) key: Key,
    pub(super) deadline: Tick,
    pub(super) recurrence: Recurrence,
    /// What is to be handed over, if anything is.
    pub(super) message: Option<M>,
    /// The next repetition is counted from the end of the handler.
    pub(super) is_between: bool,
    pub(super) id: Option<TimerId>,
    pub(super) leftovers: Leftovers<M>,
}

/// What is kept only to be dropped where code of the user may run.
pub(super) struct Leftovers<M>
where
    M: Carried,
{
    pub(super) message: Option<M>,
    pub(super) work: Option<Work<M>>,
    pub(super) series: Option<Series<M>>,
    /// The timer ended without its message, and somebody wants to hear of it.
    pub(super) lost: Option<Lost>,
}

impl<M> Leftovers<M>
where
    M: Carried,
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
    M: Carried,
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
            let message = work.ready.take().unwrap_or_else(|| M::next_of(&mut work.source));
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

impl<M: Carried> Work<M> {
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
    M: Carried,
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
                    (Some(lost), Some(ready)) => lost.message = Some(ready.into_any()),
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
    M: Carried,
{
    let Some(payload) = core.engine.fail(due.key, ending) else { return (None, None) };
    let lost = match (ending, id) {
        (Ending::DeadLettered(reason), Some(id)) => Some(Lost::of::<M>(id, due.deadline, reason, None)),
        _ => None,
    };
    (core.lanes.take(payload), lost)
}

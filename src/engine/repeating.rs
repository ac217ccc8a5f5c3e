//! How a repeating timer goes from one repetition to the next.
//!
//! It keeps its key, its slot and its payload all the while. Between the moment it is due and the moment its next deadline
//! is set somebody makes its message, which is code of the user and takes its time: the timer is [`Stage::Making`], and
//! pending. Whoever comes back with the message [repeats](Engine::repeat) it, and may hand the message over only if the
//! answer is not [`Repeated::Gone`].

use std::time::Duration;

use super::counters::{DeadLetterReason, Outcome};
use super::recurrence::{ClockReading, NextRun, Recurrence};
use super::scheduler::Engine;
use super::timer::{Mark, Stage};
use crate::timing::{Key, Tick};

/// What became of a timer whose message is ready to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated<P> {
    /// It was cancelled meanwhile: the message must not be handed over.
    Gone,
    /// It was the last repetition. The timer has ended as delivered.
    Last(P),
    /// The next repetition waits for this deadline.
    Armed(Tick),
    /// The next repetition is counted from the end of the handler: see [`Engine::resume`].
    Between,
}

/// What became of a timer whose handler is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed<P> {
    /// It was cancelled or moved meanwhile.
    Moved,
    /// It ended, because its end has come.
    Over(P),
    /// The next repetition waits for this deadline.
    Armed(Tick),
}

impl<P: Copy, O> Engine<P, O> {
    /// Lets a pending timer repeat. False, and nothing changes, if no more repeating timers fit in.
    pub fn set_recurrence(&mut self, key: Key, recurrence: Recurrence) -> bool {
        let Some(timer) = self.wheel.get_mut(key) else { return false };
        let fits = self.recurrences.set(key.index(), recurrence);
        if fits {
            timer.marks.set(Mark::Recurrence);
        }
        fits
    }

    /// How a pending timer repeats, if it does.
    pub fn recurrence(&self, key: Key) -> Option<&Recurrence> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::Recurrence))?;
        self.recurrences.get(key.index())
    }

    /// Whether the message of a repeating timer is to be made, or being made, and its timer has not been cancelled.
    pub fn is_making(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::Making)
    }

    /// Says what comes after the present repetition of a timer.
    pub fn plan(&mut self, key: Key, next: NextRun) {
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.plan(next);
        }
    }

    /// The timer was moved to this time, which its deadline is rounded from: it goes on from there. A time
    /// [before the origin](Recurrence::before_origin) of the clock is zero, and so long before it.
    pub fn set_due(&mut self, key: Key, due: Duration, before_origin: Duration) {
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.set_due(due, before_origin);
        }
    }

    /// Says what is to come after a repetition that is in flight, whatever is planned.
    pub fn ask_next(&mut self, key: Key, next: NextRun) {
        let in_flight = self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::InFlight);
        if in_flight && let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.ask(next);
        }
    }

    /// The message of a timer is handed over now: it counts as delivered, and what was [planned](Self::plan) comes next,
    /// accepted whatever the capacity. Nothing comes next once the engine is closed.
    pub fn repeat(&mut self, key: Key, now: ClockReading) -> Repeated<P> {
        match self.take_next(key) {
            None => Repeated::Gone,
            Some(NextRun::Never) => match self.end(key, Outcome::Delivered) {
                Some(payload) => Repeated::Last(payload),
                None => Repeated::Gone,
            },
            Some(next) => {
                self.counters.repeat();
                self.set_next(key, next, now)
            }
        }
    }

    /// What comes after a repetition that is under way, now that it is over; `None` if none is under way.
    pub(super) fn take_next(&mut self, key: Key) -> Option<NextRun> {
        let under_way = self.wheel.get(key).is_some_and(|timer| matches!(timer.stage, Stage::Making | Stage::InFlight));
        let is_closed = self.closed;
        let recurrence = self.recurrence_mut(key).filter(|_| under_way)?;
        Some(if is_closed { NextRun::Never } else { recurrence.advance() })
    }

    /// Another repetition comes, which is accounted for already.
    pub(super) fn set_next(&mut self, key: Key, next: NextRun, now: ClockReading) -> Repeated<P> {
        match next {
            NextRun::At { due, wall } => Repeated::Armed(self.arm(key, due, wall, now)),
            NextRun::AfterHandler | NextRun::Never => {
                self.forget_wall_time(key);
                if let Some(timer) = self.wheel.get_mut(key) {
                    timer.stage = Stage::Between;
                }
                Repeated::Between
            }
        }
    }

    /// The handler is done that the next repetition was to be counted from.
    pub fn resume(&mut self, key: Key, now: ClockReading) -> Resumed<P> {
        if self.wheel.get(key).is_none_or(|timer| timer.stage != Stage::Between) {
            return Resumed::Moved;
        }
        let Some(recurrence) = self.recurrence_mut(key) else { return Resumed::Moved };
        match recurrence.begin_again(now) {
            NextRun::At { due, wall } => Resumed::Armed(self.arm(key, due, wall, now)),
            NextRun::AfterHandler | NextRun::Never => match self.end(key, Outcome::Cancelled) {
                Some(payload) => Resumed::Over(payload),
                None => Resumed::Moved,
            },
        }
    }

    /// A repetition that counts as delivered came back: it is a dead letter, and its timer, if it is still pending, ends.
    /// To be called once for it.
    pub fn break_off(&mut self, key: Key, reason: DeadLetterReason) -> Option<P> {
        self.bounce(key, reason);
        self.give_up(key, Outcome::Cancelled).map(|given_up| given_up.payload)
    }

    /// A timer that was [given up](Self::give_up) as returned turns out to have no message: it is a dead letter.
    pub fn lose_returned(&mut self, reason: DeadLetterReason) {
        self.counters.lose_returned(reason);
    }

    /// Lets the message of a repeating timer be made, which was due.
    pub(super) fn make(&mut self, key: Key) -> Option<P> {
        if self.is_foreign(key) {
            self.leave_owner(key);
        }
        let timer = self.wheel.get_mut(key)?;
        timer.stage = Stage::Making;
        Some(timer.payload)
    }

    /// Puts a timer back into the wheel.
    fn arm(&mut self, key: Key, due: Duration, wall: Option<Duration>, now: ClockReading) -> Tick {
        let length = self.config.tick;
        let tick = length.round_down(now.time);
        self.pass(tick);
        // What is due already does not wait for the next tick.
        let first = if due <= now.time { tick } else { length.round_up(due) }.max(self.now);
        let deadline = self.recurrence_mut(key).map_or(first, |recurrence| recurrence.deadline(length, first));
        self.forget_wall_time(key);
        self.wheel.reschedule(self.now, key, deadline);
        if let Some(timer) = self.wheel.get_mut(key) {
            timer.stage = Stage::Waiting;
        }
        if let Some(at) = wall {
            self.set_wall_time(key, at);
        }
        deadline
    }

    fn forget_wall_time(&mut self, key: Key) {
        if self.wheel.get_mut(key).is_some_and(|timer| timer.marks.clear(Mark::WallTime)) {
            self.wall_times.remove(key.index());
        }
    }

    pub(super) fn recurrence_mut(&mut self, key: Key) -> Option<&mut Recurrence> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::Recurrence))?;
        self.recurrences.get_mut(key.index())
    }
}

//! The step of a repeating timer from one repetition to the next.
//!
//! The timer keeps its key, slot and payload. Between the due time and the next deadline its message is produced by
//! user code, which takes time: the timer is [`Stage::Making`], and pending. The caller then [repeats](Engine::repeat)
//! it, and may hand the message over only if the result is not [`Repeated::Gone`].

use std::time::Duration;

use crate::engine::counters::{DeadLetterReason, Outcome};
use crate::engine::recurrence::{ClockReading, NextRun, Recurrence};
use crate::engine::scheduler::Engine;
use crate::engine::timer::{Mark, Stage};
use crate::timing::{Key, Tick};

/// The state of a repeating timer after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeated<P> {
    /// It was cancelled or moved meanwhile: a message just made must not be handed over.
    Gone,
    /// It has ended: no repetition is left.
    Last(P),
    /// The next repetition waits for this deadline.
    Armed(Tick),
    /// The next deadline is known at the end of the handler: see [`Engine::resume`].
    Between,
}

impl<P: Copy, O> Engine<P, O> {
    /// Makes a pending timer repeat.
    pub(crate) fn set_recurrence(&mut self, key: Key, recurrence: Recurrence) {
        if let Some(timer) = self.wheel.get_mut(key)
            && self.recurrences.set(key.index(), recurrence)
        {
            timer.marks.set(Mark::Recurrence);
        }
    }

    /// Returns the recurrence of a pending timer, if it repeats.
    pub(crate) fn recurrence(&self, key: Key) -> Option<&Recurrence> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::Recurrence))?;
        self.recurrences.get(key.index())
    }

    /// Returns whether the message of a repeating timer is in production and the timer has not been cancelled.
    pub(crate) fn is_making(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::Making)
    }

    /// Puts a timer whose message was produced in flight, for a handler whose end will be known. The repetition is
    /// [counted](Self::repeat_as_planned) then, with the step `next`.
    pub(crate) fn plan(&mut self, key: Key, next: NextRun) -> Repeated<P> {
        let Some(timer) = self.wheel.get_mut(key).filter(|timer| timer.stage == Stage::Making) else {
            return Repeated::Gone;
        };
        timer.stage = Stage::InFlight;
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.plan(next);
        }
        Repeated::Between
    }

    /// Sets the due time of a moved timer, from which its deadline was rounded: the next repetitions follow it.
    pub(crate) fn set_due(&mut self, key: Key, due: Duration) {
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.set_due(due);
        }
    }

    /// Overrides the plan after a repetition that is in flight.
    pub(crate) fn ask_next(&mut self, key: Key, next: NextRun) {
        let in_flight = self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::InFlight);
        if in_flight && let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.ask(next);
        }
    }

    /// Counts the message of a timer as delivered, to be handed over now, and takes the step `next`, accepting the next
    /// repetition whatever the capacity. Once the engine is closed no repetition follows.
    pub(crate) fn repeat(&mut self, key: Key, next: NextRun, now: ClockReading) -> Repeated<P> {
        match self.take_next(key, next) {
            None => Repeated::Gone,
            Some(NextRun::Never) => self.end_as(key, Outcome::Delivered),
            Some(next) => {
                self.counters.repeat();
                self.set_next(key, next, now)
            }
        }
    }

    /// [Repeats](Self::repeat) with the [planned](Self::plan) step.
    pub(crate) fn repeat_as_planned(&mut self, key: Key, now: ClockReading) -> Repeated<P> {
        let planned = self.recurrence(key).map(Recurrence::planned);
        planned.map_or(Repeated::Gone, |planned| self.repeat(key, planned, now))
    }

    /// Takes the step after a repetition in production or in flight; `None` if there is none.
    fn take_next(&mut self, key: Key, next: NextRun) -> Option<NextRun> {
        let under_way = self.wheel.get(key).is_some_and(|timer| matches!(timer.stage, Stage::Making | Stage::InFlight));
        let is_closed = self.closed;
        let recurrence = self.recurrence_mut(key).filter(|_| under_way)?;
        Some(if is_closed { NextRun::Never } else { recurrence.advance(next) })
    }

    /// Takes the step to another repetition, which is already counted.
    fn set_next(&mut self, key: Key, next: NextRun, now: ClockReading) -> Repeated<P> {
        match next {
            NextRun::At { due, wall } => Repeated::Armed(self.arm(key, due, wall, now)),
            NextRun::AfterHandler | NextRun::Never => {
                self.leave_wall_clock(key, Stage::Between);
                Repeated::Between
            }
        }
    }

    /// Resumes a timer after the handler from whose end the next repetition is counted.
    pub(crate) fn resume(&mut self, key: Key, now: ClockReading) -> Repeated<P> {
        if self.wheel.get(key).is_none_or(|timer| timer.stage != Stage::Between) {
            return Repeated::Gone;
        }
        let Some(recurrence) = self.recurrence_mut(key) else { return Repeated::Gone };
        match recurrence.begin_again(now) {
            NextRun::At { due, wall } => Repeated::Armed(self.arm(key, due, wall, now)),
            NextRun::AfterHandler | NextRun::Never => self.end_as(key, Outcome::Cancelled),
        }
    }

    fn end_as(&mut self, key: Key, outcome: Outcome) -> Repeated<P> {
        self.end(key, outcome).map_or(Repeated::Gone, Repeated::Last)
    }

    /// Counts a repetition whose message came back after its delivery as a dead letter, and ends its timer if that is
    /// still pending. To be called once for the message.
    pub(crate) fn break_off(&mut self, key: Key, reason: DeadLetterReason) -> Option<P> {
        self.bounce(key, reason);
        self.give_up(key, Outcome::Cancelled).map(|given_up| given_up.payload)
    }

    /// Counts a timer that was [given up](Self::give_up) as returned, but has no message, as a dead letter.
    pub(crate) fn lose_returned(&mut self, reason: DeadLetterReason) {
        self.counters.lose_returned(reason);
    }

    /// Returns a timer to the wheel.
    fn arm(&mut self, key: Key, due: Duration, wall: Option<Duration>, now: ClockReading) -> Tick {
        let length = self.config.tick;
        let tick = length.round_down(now.time);
        self.pass(tick);
        // A deadline that has passed does not wait for the next tick.
        let first = if due <= now.time { tick } else { length.round_up(due) }.max(self.now);
        let deadline = self.recurrence_mut(key).map_or(first, |recurrence| recurrence.deadline(length, first));
        self.wheel.reschedule(self.now, key, deadline);
        self.leave_wall_clock(key, Stage::Waiting);
        if let Some(at) = wall {
            self.set_wall_time(key, at);
        }
        deadline
    }

    /// Moves a timer to another stage, in which it does not follow the wall clock.
    pub(super) fn leave_wall_clock(&mut self, key: Key, stage: Stage) {
        let Some(timer) = self.wheel.get_mut(key) else { return };
        timer.stage = stage;
        if timer.marks.clear(Mark::WallTime) {
            self.wall_times.remove(key.index());
        }
    }

    pub(super) fn recurrence_mut(&mut self, key: Key) -> Option<&mut Recurrence> {
        self.wheel.get(key).filter(|timer| timer.marks.has(Mark::Recurrence))?;
        self.recurrences.get_mut(key.index())
    }
}

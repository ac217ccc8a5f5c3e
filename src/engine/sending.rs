//! Sends that may be rejected: a message is offered to a mailbox before it is known whether the mailbox takes it.
//!
//! [`begin_send`](Engine::begin_send) counts the message as delivered, so that its handler, on any thread, finds room
//! for another timer. Then exactly one of [`commit_send`](Engine::commit_send), [`requeue_send`](Engine::requeue_send)
//! and [`reject_send`](Engine::reject_send) follows.

use crate::engine::counters::{DeadLetterReason, Outcome};
use crate::engine::recurrence::{ClockReading, NextRun};
use crate::engine::repeating::Repeated;
use crate::engine::scheduler::Engine;
use crate::engine::timer::{Mark, Stage};
use crate::timing::Key;

impl<P: Copy, O> Engine<P, O> {
    /// Puts a repeating timer in flight after its message was produced, for a handler whose end will be known: it is in
    /// flight until [`repeat`](Self::repeat). Returns false if the timer was cancelled meanwhile.
    pub(crate) fn set_off(&mut self, key: Key) -> bool {
        let Some(timer) = self.wheel.get_mut(key).filter(|timer| timer.stage == Stage::Making) else { return false };
        timer.stage = Stage::InFlight;
        true
    }

    /// Begins the offer of a message to a mailbox. Counts it as delivered, and a [planned](Self::plan) next repetition
    /// as accepted. Returns false if the timer was cancelled meanwhile.
    pub(crate) fn begin_send(&mut self, key: Key) -> bool {
        let Some(timer) = self.wheel.get_mut(key) else { return false };
        let repeats = timer.marks.has(Mark::Recurrence);
        if timer.stage != if repeats { Stage::Making } else { Stage::InFlight } {
            return false;
        }
        timer.stage = Stage::InFlight;
        if self.closed {
            self.ask_next(key, NextRun::Never);
        }
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.adopt_plan();
        }
        if self.ends_with_this(key) {
            self.counters.end(Outcome::Delivered)
        } else {
            self.counters.repeat()
        }
        true
    }

    /// Records that the mailbox took the message. A timer that does not repeat ends.
    pub(crate) fn commit_send(&mut self, key: Key, now: ClockReading) -> Repeated<P> {
        if !self.is_in_flight(key) {
            return Repeated::Gone;
        }
        let was_last = self.ends_with_this(key);
        match self.take_next(key, None) {
            None => self.forget(key, Outcome::Delivered).map_or(Repeated::Gone, Repeated::Last),
            Some(NextRun::Never) => {
                let payload = if was_last {
                    self.forget(key, Outcome::Delivered)
                } else {
                    // Cancelled during the send: its next repetition was accepted already.
                    self.end(key, Outcome::Cancelled)
                };
                payload.map_or(Repeated::Gone, Repeated::Last)
            }
            Some(next) => {
                if was_last {
                    self.counters.accept();
                }
                self.set_next(key, next, now)
            }
        }
    }

    /// Records that the mailbox was full and the message waits for room: its timer is in the state
    /// [posted](Self::post).
    pub(crate) fn requeue_send(&mut self, key: Key) {
        if self.take_back_send(key)
            && let Some(timer) = self.wheel.get_mut(key)
        {
            timer.stage = Stage::Posted;
        }
    }

    /// Records that the mailbox rejected the message for good. The timer ends, even if it repeats.
    pub(crate) fn reject_send(&mut self, key: Key, reason: DeadLetterReason) -> Option<P> {
        if self.take_back_send(key) { self.end(key, Outcome::DeadLettered(reason)) } else { None }
    }

    /// Counts the message as pending again.
    fn take_back_send(&mut self, key: Key) -> bool {
        if !self.is_in_flight(key) {
            return false;
        }
        if self.ends_with_this(key) {
            self.counters.take_back()
        } else {
            self.counters.take_repetition_back()
        }
        true
    }

    fn is_in_flight(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::InFlight)
    }

    /// Returns whether no repetition is planned after the present message.
    fn ends_with_this(&self, key: Key) -> bool {
        self.recurrence(key).is_none_or(|recurrence| recurrence.ends_with_this())
    }
}

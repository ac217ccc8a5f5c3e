//! Repetitions on their way: their messages are made and cannot be stopped any more, and what comes after them is not set
//! yet.

use super::accounts::{DeadLetterReason, Ending};
use super::recurrence::{Next, Now};
use super::repeating::Repeated;
use super::scheduler::Engine;
use super::timer::Stage;
use crate::timing::Key;

impl<P: Copy, O> Engine<P, O> {
    /// The message of a timer that repeats is made, and goes to a handler whose end will be known: it is in flight until
    /// [`repeat`](Self::repeat). False if the timer was cancelled meanwhile.
    pub fn set_off(&mut self, key: Key) -> bool {
        let Some(timer) = self.wheel.get_mut(key).filter(|timer| timer.stage == Stage::Making) else { return false };
        timer.stage = Stage::InFlight;
        true
    }

    /// The message of a timer that repeats is made, and is being handed over, which may be refused. It counts as delivered,
    /// and what is [planned](Self::plan) as accepted, until [`turn_back_repetition`](Self::turn_back_repetition) or
    /// [`refuse_repetition`](Self::refuse_repetition); [`arrive_repetition`](Self::arrive_repetition) makes that final.
    /// False if the timer was cancelled meanwhile.
    pub fn depart_repetition(&mut self, key: Key) -> bool {
        if !self.set_off(key) {
            return false;
        }
        if self.closed {
            self.ask_next(key, Next::Never);
        }
        if let Some(recurrence) = self.recurrence_mut(key) {
            recurrence.settle_plan();
        }
        if self.ends_with_this(key) {
            self.accounts.end(Ending::Delivered)
        } else {
            self.accounts.repeat()
        }
        true
    }

    /// A repetition that [departed](Self::depart_repetition) was accepted.
    pub fn arrive_repetition(&mut self, key: Key, now: Now) -> Repeated<P> {
        let was_last = self.ends_with_this(key);
        match self.take_next(key) {
            None => Repeated::Gone,
            Some(Next::Never) => {
                let payload = if was_last {
                    self.forget(key, Ending::Delivered)
                } else {
                    // It was cancelled while it was sent: what would have come next was accepted already.
                    self.end(key, Ending::Cancelled)
                };
                payload.map_or(Repeated::Gone, Repeated::Last)
            }
            Some(next) => {
                if was_last {
                    self.accounts.accept();
                }
                self.set_next(key, next, now)
            }
        }
    }

    /// A repetition that [departed](Self::depart_repetition) was refused for now: it is as if it had been
    /// [posted](Self::post).
    pub fn turn_back_repetition(&mut self, key: Key) {
        if self.take_back_repetition(key)
            && let Some(timer) = self.wheel.get_mut(key)
        {
            timer.stage = Stage::Posted;
        }
    }

    /// A repetition that [departed](Self::depart_repetition) was refused for good, and its timer ends with it.
    pub fn refuse_repetition(&mut self, key: Key, reason: DeadLetterReason) -> Option<P> {
        if self.take_back_repetition(key) { self.end(key, Ending::DeadLettered(reason)) } else { None }
    }

    /// It counts as pending again.
    fn take_back_repetition(&mut self, key: Key) -> bool {
        if self.wheel.get(key).is_none_or(|timer| timer.stage != Stage::InFlight) {
            return false;
        }
        if self.ends_with_this(key) {
            self.accounts.take_back()
        } else {
            self.accounts.take_repetition_back()
        }
        true
    }

    /// Whether nothing is planned after the present repetition.
    fn ends_with_this(&self, key: Key) -> bool {
        self.recurrence(key).is_none_or(|recurrence| recurrence.ends_with_this())
    }
}

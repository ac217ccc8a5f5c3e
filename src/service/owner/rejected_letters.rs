//! Letters about rejected timers, which the driver sends.
//!
//! The call that lost a message does not send the letter: a subscriber that answers it by scheduling again would
//! otherwise fill its own mailbox, which actix empties before anything else. Few letters are kept, and they are sent at
//! intervals, so that such a subscriber costs little.

use std::time::Duration;

use crate::model::dead_letter::DeadLetterEvent;

/// Letters that are kept. Further ones are counted, and their messages dropped.
const KEPT: usize = 1024;

/// The time between two sends.
const PAUSE: Duration = Duration::from_millis(250);

/// Letters about rejected timers, to be sent by the driver.
#[derive(Default)]
pub(crate) struct RejectedLetters {
    kept: Vec<DeadLetterEvent>,
    /// The time of the next send.
    next: Duration,
}

impl RejectedLetters {
    /// Takes the letters to be sent now.
    pub(crate) fn take_due(&mut self, now: Duration) -> Vec<DeadLetterEvent> {
        if self.kept.is_empty() || now < self.next {
            return Vec::new();
        }
        self.next = now.saturating_add(PAUSE);
        self.take_all()
    }

    pub(crate) fn take_all(&mut self) -> Vec<DeadLetterEvent> {
        std::mem::take(&mut self.kept)
    }

    /// Returns the time of the next send, if there is something to send.
    pub(crate) fn due(&self) -> Option<Duration> {
        (!self.kept.is_empty()).then_some(self.next)
    }

    /// Adds a letter, and returns it if there is no room.
    pub(crate) fn add(&mut self, letter: DeadLetterEvent) -> Option<DeadLetterEvent> {
        if self.kept.len() >= KEPT {
            return Some(letter);
        }
        self.kept.push(letter);
        None
    }
}

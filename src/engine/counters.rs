//! Counters: the number of accepted timers, by outcome.

/// The reason why a message could not be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The recipient had stopped, or was dropped, when its message was due.
    RecipientStopped,
    /// The recipient's window was full, and its policy was to discard the message.
    WindowFull,
    /// The timer service stopped without being drained.
    ServiceStopped,
    /// The message source of a repeating timer panicked.
    SourcePanicked,
    /// The timer was rejected, and the call could not hand the message back. To schedule it again, use a method with
    /// the prefix `try_`, such as [`try_schedule`](crate::TimerBuilder::try_schedule): another call may be rejected as well.
    Rejected,
}

impl DeadLetterReason {
    /// All reasons.
    pub const ALL: &'static [Self] =
        &[Self::RecipientStopped, Self::WindowFull, Self::ServiceStopped, Self::SourcePanicked, Self::Rejected];

    /// Returns the reason as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RecipientStopped => "recipient_stopped",
            Self::WindowFull => "window_full",
            Self::ServiceStopped => "service_stopped",
            Self::SourcePanicked => "source_panicked",
            Self::Rejected => "rejected",
        }
    }
}

/// The way in which a timer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Its message was handed over.
    Delivered,
    /// It was cancelled, or its owner ended.
    Cancelled,
    /// Its message could not be handed over.
    DeadLettered(DeadLetterReason),
    /// It was returned by a drain.
    Returned,
}

/// Counters since the start. At every moment
/// `accepted = delivered + cancelled + dead_lettered() + returned + pending`.
///
/// A message that became a dead letter because its timer was rejected counts as accepted, too.
///
/// A repeating timer counts once for each repetition: as accepted when the one before is delivered, and by its outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Counters {
    /// Accepted timers.
    pub accepted: u64,
    /// Messages handed over.
    pub delivered: u64,
    /// Cancelled timers, including those that ended with their owner.
    pub cancelled: u64,
    /// Messages whose recipient had stopped.
    pub recipient_stopped: u64,
    /// Messages discarded because the window of their recipient was full.
    pub window_full: u64,
    /// Messages lost because the service stopped without being drained.
    pub service_stopped: u64,
    /// Messages never made because their source panicked.
    pub source_panicked: u64,
    /// Messages of rejected timers that the call could not hand back.
    pub rejected: u64,
    /// Timers returned by a drain.
    pub returned: u64,
    /// Pending timers.
    pub pending: u64,
    /// Moved deadlines.
    pub rescheduled: u64,
    /// Timers, among the cancelled ones, that ended with their actor after its last address was dropped.
    pub abandoned: u64,
    /// Requests rejected because of the capacity.
    pub rejected_capacity: u64,
    /// Requests rejected because the service is closed, or the requesting actor has stopped.
    pub rejected_closed: u64,
}

impl Counters {
    /// Returns the number of all messages that could not be delivered.
    pub const fn dead_lettered(&self) -> u64 {
        self.recipient_stopped + self.window_full + self.service_stopped + self.source_panicked + self.rejected
    }

    /// Returns the number of dead letters with one reason.
    pub const fn dead_letters(&self, reason: DeadLetterReason) -> u64 {
        match reason {
            DeadLetterReason::RecipientStopped => self.recipient_stopped,
            DeadLetterReason::WindowFull => self.window_full,
            DeadLetterReason::ServiceStopped => self.service_stopped,
            DeadLetterReason::SourcePanicked => self.source_panicked,
            DeadLetterReason::Rejected => self.rejected,
        }
    }

    /// Returns whether every accepted timer is accounted for.
    pub const fn balance(&self) -> bool {
        self.accepted == self.delivered + self.cancelled + self.dead_lettered() + self.returned + self.pending
    }

    pub(crate) fn accept(&mut self) {
        self.accepted += 1;
        self.pending += 1;
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.pending -= 1;
        self.count(outcome);
    }

    /// Counts the message of a rejected timer as a dead letter.
    pub(crate) fn lose_rejected(&mut self) {
        self.accepted += 1;
        self.count(Outcome::DeadLettered(DeadLetterReason::Rejected));
    }

    /// Counts a delivered repetition, and the next one as accepted.
    pub(crate) fn repeat(&mut self) {
        self.accepted += 1;
        self.delivered += 1;
    }

    /// Counts a returned timer that has no message after all as a dead letter.
    pub(crate) fn lose_returned(&mut self, reason: DeadLetterReason) {
        let Some(returned) = self.returned.checked_sub(1) else { return };
        self.returned = returned;
        self.count(Outcome::DeadLettered(reason));
    }

    /// Counts a delivery that failed after all as a dead letter.
    pub(crate) fn bounce(&mut self, reason: DeadLetterReason) {
        let Some(delivered) = self.delivered.checked_sub(1) else { return };
        self.delivered = delivered;
        self.count(Outcome::DeadLettered(reason));
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.delivered += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::DeadLettered(DeadLetterReason::RecipientStopped) => self.recipient_stopped += 1,
            Outcome::DeadLettered(DeadLetterReason::WindowFull) => self.window_full += 1,
            Outcome::DeadLettered(DeadLetterReason::ServiceStopped) => self.service_stopped += 1,
            Outcome::DeadLettered(DeadLetterReason::SourcePanicked) => self.source_panicked += 1,
            Outcome::DeadLettered(DeadLetterReason::Rejected) => self.rejected += 1,
            Outcome::Returned => self.returned += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_is_counted_once() {
        let outcomes = [Outcome::Delivered, Outcome::Cancelled, Outcome::Returned]
            .into_iter()
            .chain(DeadLetterReason::ALL.iter().copied().map(Outcome::DeadLettered));
        for outcome in outcomes {
            let mut counters = Counters::default();
            counters.accept();
            assert!(counters.balance());
            counters.end(outcome);
            assert!(counters.balance(), "{outcome:?}");
            assert_eq!((counters.accepted, counters.pending), (1, 0));
        }
    }

    #[test]
    fn a_delivery_that_fails_is_a_dead_letter_instead() {
        let mut counters = Counters::default();
        counters.accept();
        counters.end(Outcome::Delivered);
        counters.bounce(DeadLetterReason::RecipientStopped);
        assert!(counters.balance());
        assert_eq!((counters.delivered, counters.recipient_stopped), (0, 1));
    }

    #[test]
    fn a_missing_ending_shows() {
        let lost = Counters { accepted: 2, delivered: 1, ..Counters::default() };
        assert!(!lost.balance());
    }
}

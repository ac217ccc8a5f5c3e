//! Slow recipients: recipients with waiting due messages, and the one that has let a message wait longest.
//!
//! A message waits in its lane or, if it is an own one, on its way through the mailbox. A recipient is listed, by its lane,
//! with the deadline of the first message that it lets wait. Following that message would be work for each message; the
//! entry is checked when it comes to the front.
//!
//! A slow recipient is *stuck* when its message has waited for the time in the settings. The driver then publishes and
//! warns, and does so again whenever the wait has doubled: a recipient that stays stuck costs next to nothing. Other
//! stuck recipients follow when it takes messages again.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::engine::OwnerId;
use crate::service::lane::lanes::NOT_SLOW;
use crate::service::state::{Service, State};
use crate::timing::Tick;

/// The least time between two findings.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct SlowRecipients {
    /// Each listed recipient, once; never later than its first message is due.
    by_deadline: BTreeSet<(Tick, OwnerId)>,
    /// The recipient found stuck last, and the wait at which it is found again.
    stuck: Option<(OwnerId, Duration)>,
    /// The earliest time of the next finding.
    not_before: Duration,
}

impl SlowRecipients {
    /// The number of listed recipients.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.by_deadline.len()
    }

    /// Whether `lane`, whose message has `waited`, is found stuck now.
    fn is_newly_stuck(&mut self, lane: OwnerId, now: Duration, waited: Duration, stuck_after: Duration) -> bool {
        if waited < stuck_after {
            self.stuck = None;
            return false;
        }
        if now < self.not_before || waited < self.patience(lane, stuck_after) {
            return false;
        }
        self.stuck = Some((lane, waited.saturating_mul(2)));
        self.not_before = now.saturating_add(EVERY);
        true
    }

    /// Returns the wait that `lane` is granted.
    fn patience(&self, lane: OwnerId, stuck_after: Duration) -> Duration {
        self.stuck.filter(|(stuck, _)| *stuck == lane).map_or(stuck_after, |(_, again)| again)
    }
}

impl State {
    /// Lists a recipient that is not listed yet, if a message waits for it.
    pub(crate) fn note_waiting(&mut self, lane: OwnerId) {
        if self.engine.owner(lane).is_some_and(|lane_state| lane_state.slow_since == NOT_SLOW) {
            self.list_since(lane, self.first_waiting(lane));
        }
    }

    /// Lists a recipient by the deadline of the message that waits for it, if there is one.
    fn list_since(&mut self, lane: OwnerId, first: Option<Tick>) {
        if let Some(lane_state) = self.engine.owner_mut(lane) {
            lane_state.slow_since = first.unwrap_or(NOT_SLOW);
            self.lanes.slow.by_deadline.extend(first.map(|deadline| (deadline, lane)));
        }
    }

    /// Takes a recipient that ends off the list.
    pub(crate) fn unlist_slow(&mut self, lane: OwnerId) {
        if let Some(lane_state) = self.engine.owner_mut(lane) {
            let deadline = std::mem::replace(&mut lane_state.slow_since, NOT_SLOW);
            self.lanes.slow.by_deadline.remove(&(deadline, lane));
        }
    }

    /// Returns the message that has waited longest, as its deadline and its recipient; checks at most `budget` listed
    /// ones. `None` if no message waits, or if all checked recipients have taken theirs.
    fn oldest_waiting(&mut self, budget: usize) -> Option<(Tick, OwnerId)> {
        for _ in 0..budget {
            let (listed, lane) = *self.lanes.slow.by_deadline.first()?;
            match self.first_waiting(lane) {
                Some(deadline) if deadline <= listed => return Some((deadline, lane)),
                first => {
                    self.lanes.slow.by_deadline.pop_first();
                    self.list_since(lane, first);
                }
            }
        }
        None
    }

    /// Returns the deadline of the first message that waits for a recipient, or is in its mailbox alone.
    fn first_waiting(&self, lane: OwnerId) -> Option<Tick> {
        self.engine.owner(lane).filter(|lane_state| !lane_state.has_ended())?;
        let under_way = self.lanes.last_posted(lane).map(|posted| posted.due.deadline);
        under_way.or_else(|| self.engine.oldest_due(lane))
    }
}

impl Service {
    /// Returns the longest wait of a due message for its recipient.
    pub(crate) fn waited(&self, state: &mut State, now: Duration) -> Duration {
        let oldest = state.oldest_waiting(self.check_budget());
        oldest.map_or(Duration::ZERO, |(deadline, _)| now.saturating_sub(self.tick.time_of(deadline)))
    }

    /// Finds a newly stuck recipient and records a warning. Returns the time of the next check.
    pub(crate) fn check_slow_recipients(&self, state: &mut State, now: Duration) -> Option<Duration> {
        let stuck_after = self.settings.stuck_after;
        let Some((deadline, lane)) = state.oldest_waiting(self.check_budget()) else {
            state.lanes.slow.stuck = None;
            // Other recipients could not be checked yet.
            return (!state.lanes.slow.by_deadline.is_empty()).then_some(now);
        };
        let since = self.tick.time_of(deadline);
        let waited = now.saturating_sub(since);
        if state.lanes.slow.is_newly_stuck(lane, now, waited, stuck_after) {
            state.reports.published.ask_to_publish();
            self.note_stuck(state, lane, waited);
        }
        let again = since.saturating_add(state.lanes.slow.patience(lane, stuck_after));
        Some(again.max(state.lanes.slow.not_before))
    }

    /// Twice as many as one turn can list, so that few of the listed have taken their message.
    fn check_budget(&self) -> usize {
        self.settings.expiry_budget.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Key;

    #[test]
    fn one_is_found_stuck_at_each_doubling_and_others_in_turn() {
        let mut slow_recipients = SlowRecipients::default();
        let [one, other] = [1, 2].map(|index| OwnerId(Key::new(index, 0)));
        let secs = Duration::from_secs;
        let mut finds = |owner, now, waited| slow_recipients.is_newly_stuck(owner, secs(now), secs(waited), secs(10));
        assert!(!finds(one, 109, 9));
        assert!(finds(one, 110, 10));
        assert!(!finds(one, 119, 19));
        assert!(finds(one, 120, 20), "twice as long");
        assert!(!finds(other, 129, 15), "another recipient, but too soon");
        assert!(finds(other, 130, 16));
        assert!(!finds(other, 140, 26));
        assert!(!finds(other, 140, 3), "it has gone on");
        assert!(finds(other, 147, 10));
    }
}

//! Laggards: recipients that have not taken yet what is due for them, and which of them has let something wait longest.
//!
//! Something waits in the inbox of its owner, on its way through the mailbox of that (an escort), in a line, or behind a
//! token. Whoever lets the first message wait is listed by the deadline of that. What becomes of it is not followed, that
//! would be work for each message: it is looked at when the entry comes to the front.
//!
//! A laggard is *stuck* when its message has waited for as long as the settings say. The driver looks then, publishes and
//! warns, and again whenever the time has doubled: a recipient that never goes on costs next to nothing. Others that are stuck
//! meanwhile follow when it goes on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Core, Service};
use crate::engine::OwnerId;
use crate::timing::{Key, Tick};

/// The least time from one that is found stuck to the next.
const EVERY: Duration = Duration::from_secs(10);

/// The message that has waited longest for its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Longest {
    pub(crate) deadline: Tick,
    pub(crate) key: Key,
    /// The recipient, or the line of it.
    pub(crate) owner: OwnerId,
}

#[derive(Default)]
pub(crate) struct Laggards {
    /// Each that is listed, once; never later than its first message is due.
    by_deadline: BinaryHeap<Reverse<(Tick, OwnerId)>>,
    /// The one that was found stuck last.
    stuck: Option<Stuck>,
    /// Nobody is found stuck before.
    not_before: Duration,
}

/// One that was found stuck, and is so again once it has let something wait for so long.
#[derive(Debug, Clone, Copy)]
struct Stuck {
    owner: OwnerId,
    again: Duration,
}

impl Laggards {
    /// Whether `owner`, which has let something wait for so long, is found stuck now.
    fn finds_stuck(&mut self, owner: OwnerId, now: Duration, waited: Duration, stuck_after: Duration) -> bool {
        if waited < stuck_after {
            self.stuck = None;
            return false;
        }
        if now < self.not_before || waited < self.patience(owner, stuck_after) {
            return false;
        }
        self.stuck = Some(Stuck { owner, again: waited.saturating_mul(2) });
        self.not_before = now.saturating_add(EVERY);
        true
    }

    /// How long `owner` may let something wait.
    fn patience(&self, owner: OwnerId, stuck_after: Duration) -> Duration {
        self.stuck.filter(|stuck| stuck.owner == owner).map_or(stuck_after, |stuck| stuck.again)
    }
}

impl Core {
    /// Something may have begun to wait for a recipient.
    #[inline]
    pub(crate) fn note_waiting(&mut self, owner: OwnerId) {
        if self.engine.owner(owner).is_some_and(|card| !card.lags) {
            self.list(owner);
        }
    }

    /// The same for the recipient of a line.
    pub(crate) fn note_waiting_in_line(&mut self, mailbox: u64) {
        if let Some(queue) = self.lines.get(mailbox).map(|line| line.queue) {
            self.note_waiting(queue);
        }
    }

    fn list(&mut self, owner: OwnerId) {
        let Some((deadline, _)) = self.first_waiting(owner) else { return };
        if let Some(card) = self.engine.owner_mut(owner) {
            card.lags = true;
            self.laggards.by_deadline.push(Reverse((deadline, owner)));
        }
    }

    /// What has waited longest for its recipient; looks at no more than so many that have been listed. `None` if nothing
    /// waits, or if all that were looked at have gone on.
    pub(crate) fn longest_waiting(&mut self, budget: usize) -> Option<Longest> {
        for _ in 0..budget {
            let Reverse((listed, owner)) = *self.laggards.by_deadline.peek()?;
            match self.first_waiting(owner) {
                Some((deadline, key)) if deadline <= listed => return Some(Longest { deadline, key, owner }),
                first => {
                    self.laggards.by_deadline.pop();
                    if let Some(card) = self.engine.owner_mut(owner) {
                        card.lags = first.is_some();
                    }
                    self.laggards.by_deadline.extend(first.map(|(deadline, _)| Reverse((deadline, owner))));
                }
            }
        }
        None
    }

    /// The first message that waits for a recipient, and its deadline.
    fn first_waiting(&mut self, owner: OwnerId) -> Option<(Tick, Key)> {
        let mailbox = self.engine.owner(owner).filter(|card| !card.ended)?.mailbox;
        let is_line = self.lines.get(mailbox).is_some_and(|line| line.queue == owner);
        let under_way = self.escorts.get(&owner).map(|escort| escort.key);
        let key = if is_line { self.first_of_line(mailbox) } else { under_way };
        let key = key.or_else(|| self.engine.first_due(owner))?;
        Some((self.engine.view(key)?.deadline, key))
    }

    /// The first message that has left the queue of a line, and has not been handled.
    fn first_of_line(&mut self, mailbox: u64) -> Option<Key> {
        while let Some((key, number)) = self.lines.get(mailbox)?.first_token() {
            if self.posting_of(key) == Some(number) {
                return Some(key);
            }
            self.lines.get(mailbox)?.forget_tokens_to(number);
        }
        self.lines.get(mailbox)?.held.map(|(key, _)| key)
    }
}

impl Service {
    /// For how long something has waited for its recipient that is due.
    pub(crate) fn waited(&self, core: &mut Core, now: Duration) -> Duration {
        let longest = core.longest_waiting(self.looks_at());
        longest.map_or(Duration::ZERO, |longest| now.saturating_sub(self.tick.time_of(longest.deadline)))
    }

    /// Looks whether somebody is stuck, and nobody knows yet. Says when to look again.
    pub(crate) fn look_after_laggards(&self, core: &mut Core, now: Duration) -> Option<Duration> {
        let stuck_after = self.settings.stuck_after;
        let Some(longest) = core.longest_waiting(self.looks_at()) else {
            core.laggards.stuck = None;
            // There are others that could not be looked at.
            return (!core.laggards.by_deadline.is_empty()).then_some(now);
        };
        let since = self.tick.time_of(longest.deadline);
        let waited = now.saturating_sub(since);
        if core.laggards.finds_stuck(longest.owner, now, waited, stuck_after) {
            core.published.ask_to_publish();
            self.note_stuck(core, longest, waited);
        }
        let again = since.saturating_add(core.laggards.patience(longest.owner, stuck_after));
        Some(again.max(core.laggards.not_before))
    }

    /// Twice as many as one turn can list: the list never holds many that have gone on.
    fn looks_at(&self) -> usize {
        self.settings.expiry_budget.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_found_stuck_whenever_the_time_has_doubled_and_others_in_turn() {
        let mut laggards = Laggards::default();
        let [one, other] = [1, 2].map(|index| OwnerId(Key::new(index, 0)));
        let secs = Duration::from_secs;
        let mut finds = |owner, now, waited| laggards.finds_stuck(owner, secs(now), secs(waited), secs(10));
        assert!(!finds(one, 109, 9));
        assert!(finds(one, 110, 10));
        assert!(!finds(one, 119, 19));
        assert!(finds(one, 120, 20), "twice as long");
        assert!(!finds(other, 129, 15), "somebody else, but too soon");
        assert!(finds(other, 130, 16));
        assert!(!finds(other, 140, 26));
        assert!(!finds(other, 140, 3), "it has gone on");
        assert!(finds(other, 147, 10));
    }
}

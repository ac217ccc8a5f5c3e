//! The pauses that concern this node, and the failures in a row after which a route is paused.

use std::collections::HashMap;
use std::sync::Arc;

use crate::due_time::DueTime;
use crate::metrics::Counted;
use crate::pause::{Pause, PauseTarget};
use crate::routes::Registered;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Pauses {
    /// As of the last [`Beat`](crate::store::Beat).
    held: Vec<Pause>,
    /// The first end of one of these.
    first_end: Option<DueTime>,
    /// Failures since the last success, by the name of the route. They are counted anew after each of its pauses.
    failures: HashMap<Arc<str>, u32>,
}

impl Pauses {
    /// Takes note of the pauses. Returns whether they are not those of the last beat: looks begin anew then.
    pub(super) fn note(&mut self, held: Vec<Pause>, now: DueTime) -> bool {
        // An end that has come stays until it is noticed: the pauses are as they were.
        let over = self.first_end.filter(|end| *end <= now);
        let ends = held.iter().filter_map(|pause| pause.until).filter(|until| *until > now);
        self.first_end = over.into_iter().chain(ends).min();
        let is_new = self.held != held;
        self.held = held;
        self.failures.retain(|route, _| !is_paused(&self.held, route, now));
        is_new
    }

    /// Returns the next end of a pause that is to be noticed.
    pub(super) const fn next_end(&self) -> Option<DueTime> {
        self.first_end
    }

    /// Returns whether a pause has ended, once: the state after the next beat is another one, since looks before it have left
    /// out the paused routes.
    pub(super) fn has_ended(&mut self, now: DueTime) -> bool {
        let has_ended = self.first_end.take_if(|end| *end <= now).is_some();
        if has_ended {
            self.held.clear();
        }
        has_ended
    }

    /// Returns the number of pauses.
    pub(super) fn count(&self, now: DueTime) -> usize {
        self.held.iter().filter(|pause| pause.holds(now)).count()
    }

    /// Returns whether the node itself is paused.
    pub(super) fn are_of_the_node(&self, now: DueTime) -> bool {
        self.held.iter().any(|pause| matches!(pause.target, PauseTarget::Node(_)) && pause.holds(now))
    }

    /// Counts the failures of a route in a row. Returns whether it is to be paused; if that fails, as many more try it again.
    pub(super) fn judge(&mut self, route: &Registered, end: Counted, now: DueTime) -> bool {
        let limit = route.options.pause_after;
        if limit == 0 || is_paused(&self.held, &route.name, now) {
            return false;
        }
        let failures = self.failures.entry(Arc::clone(&route.name)).or_default();
        *failures = match end {
            Counted::Complete => 0,
            Counted::Retry | Counted::DeadLetter => *failures + 1,
            _ => return false,
        };
        let pauses = *failures >= limit;
        if pauses {
            *failures = 0;
        }
        pauses
    }
}

fn is_paused(held: &[Pause], route: &str, now: DueTime) -> bool {
    held.iter().any(|pause| pause.is_of(route) && pause.holds(now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_end_of_a_pause_is_noticed_although_a_beat_comes_first() {
        let (mut pauses, now) = (Pauses::default(), DueTime::MIN);
        let pause = Pause::route("office").until(now.to_system_time() + Duration::from_secs(1));
        let end = pause.until;
        pauses.note(vec![pause.clone()], now);
        assert!(!pauses.are_of_the_node(now));
        // Looks up to then have left out the route.
        let now = now.saturating_add(Duration::from_secs(2));
        pauses.note(vec![pause], now);
        assert_eq!(pauses.next_end(), end);
        pauses.note(vec![], now);
        assert_eq!(pauses.next_end(), end, "until it is noticed");
        assert!(pauses.has_ended(now) && pauses.next_end().is_none());
    }

    #[test]
    fn a_pause_of_the_node_is_none_of_a_route() {
        let (mut pauses, now) = (Pauses::default(), DueTime::MIN);
        let until = now.to_system_time() + Duration::from_secs(1);
        pauses.note(vec![Pause::node("a").until(until)], now);
        assert!(pauses.are_of_the_node(now) && !pauses.are_of_the_node(now.saturating_add(Duration::from_secs(1))));
    }
}

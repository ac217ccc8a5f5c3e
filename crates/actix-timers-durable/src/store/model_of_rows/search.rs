//! The search: all states, breadth first, so that the first counterexample is a shortest one.

use std::collections::VecDeque;
use std::fmt;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::state::State;
use super::{Event, Failure, World};

pub(super) fn fingerprint(state: &State) -> u64 {
    FxBuildHasher.hash_one(state)
}

impl World {
    /// Searches all states, breadth first. Returns their number.
    pub(super) fn search(&self) -> Result<usize, Counterexample> {
        let begin = self.begin();
        let mut known = FxHashSet::from_iter([fingerprint(&begin)]);
        let mut recovering = FxHashSet::default();
        let mut paths: Vec<(usize, Option<Event>)> = vec![(0, None)];
        let mut queue = VecDeque::from([begin]);
        let mut number = 0;
        while let Some(state) = queue.pop_front() {
            let fail = |failure, events| Counterexample::new(failure, &paths, number, events);
            // Before the end, a loss is seen as well after more time.
            if state.time == self.scenario.end {
                let recovers = self.recovers(&state, &mut recovering);
                recovers.map_err(|(failure, events)| fail(failure, events))?;
            }
            let mut found = Vec::new();
            for event in self.events(&state) {
                let after = self.after(&state, event).map_err(|failure| fail(failure, vec![event]))?;
                if known.insert(fingerprint(&after)) {
                    found.push(event);
                    queue.push_back(after);
                }
            }
            paths.extend(found.into_iter().map(|event| (number, Some(event))));
            number += 1;
        }
        Ok(paths.len())
    }
}

/// A failure, and the shortest way to it.
pub(super) struct Counterexample {
    pub(super) failure: Failure,
    events: Vec<Event>,
    /// The events that lead there and then fail, or the recovery that does not end.
    last: Vec<Event>,
}

impl Counterexample {
    fn new(failure: Failure, paths: &[(usize, Option<Event>)], mut number: usize, last: Vec<Event>) -> Self {
        let mut events = Vec::new();
        while let (before, Some(event)) = paths[number] {
            events.push(event);
            number = before;
        }
        events.reverse();
        Self { failure, events, last }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} by", self.failure)?;
        self.events.iter().try_for_each(|event| writeln!(f, "    {event:?}"))?;
        self.last.iter().try_for_each(|event| writeln!(f, "    > {event:?}"))
    }
}

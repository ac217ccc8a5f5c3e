//! The search: all states, breadth first, so that the first counterexample is a shortest one.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

use super::{Event, Failure, State, World};

impl World {
    /// Searches all states, breadth first. Returns their number.
    pub(super) fn search(&self) -> Result<usize, Counterexample> {
        let fingerprint = |state: &State| {
            let mut hasher = DefaultHasher::new();
            state.hash(&mut hasher);
            hasher.finish()
        };
        let begin = self.begin();
        let mut known = HashMap::from([(fingerprint(&begin), 0)]);
        let mut paths: Vec<(usize, Option<Event>)> = vec![(0, None)];
        // For each state, those from which it follows without an event from outside; and the states of rest.
        let mut before: Vec<Vec<usize>> = vec![Vec::new()];
        let mut ends = Vec::new();
        let mut queue = VecDeque::from([begin]);
        let mut number = 0;
        while let Some(state) = queue.pop_front() {
            let (inside, outside) = (self.events_inside(&state), self.events_outside(&state));
            if inside.is_empty() {
                if let Some(index) = self.unfinished(&state) {
                    return Err(Counterexample::new(Failure::Lost(index), &paths, number, None));
                }
                ends.push(number);
            }
            let events = inside.into_iter().map(|event| (event, true));
            for (event, is_inside) in events.chain(outside.into_iter().map(|event| (event, false))) {
                let after = self
                    .after(&state, event)
                    .map_err(|failure| Counterexample::new(failure, &paths, number, Some(event)))?;
                let next = *known.entry(fingerprint(&after)).or_insert_with(|| {
                    paths.push((number, Some(event)));
                    before.push(Vec::new());
                    queue.push_back(after);
                    paths.len() - 1
                });
                if is_inside {
                    before[next].push(number);
                }
            }
            number += 1;
        }
        let mut can_end = vec![false; paths.len()];
        while let Some(number) = ends.pop() {
            if !std::mem::replace(&mut can_end[number], true) {
                ends.append(&mut before[number]);
            }
        }
        match can_end.iter().position(|can_end| !can_end) {
            Some(number) => Err(Counterexample::new(Failure::NeverRests, &paths, number, None)),
            None => Ok(paths.len()),
        }
    }
}

/// A failure, and the shortest way to it.
pub(super) struct Counterexample {
    pub(super) failure: Failure,
    pub(super) events: Vec<Event>,
}

impl Counterexample {
    fn new(failure: Failure, paths: &[(usize, Option<Event>)], mut number: usize, last: Option<Event>) -> Self {
        let mut events = Vec::from_iter(last);
        while let (before, Some(event)) = paths[number] {
            events.push(event);
            number = before;
        }
        events.reverse();
        Self { failure, events }
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} by", self.failure)?;
        self.events.iter().try_for_each(|event| writeln!(f, "    {event:?}"))
    }
}

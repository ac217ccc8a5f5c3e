//! The seven classic timer schemes of the tests; the crate `schemes` describes them.
//!
//! Some need as many steps per operation as there are timers. They execute fewer operations, a second's worth at most,
//! with the same number of timers pending; the time is still that of one operation.

use std::hint::black_box;

use crate::rounds::Life;
use bench::random::Random;
use schemes::{
    HashedWheelWithRounds, HashedWheelWithSortedLists, HierarchicalWheel, OrderedList, Scheme, SimpleWheel, Tree,
    UnorderedList,
};

/// Buckets of schemes with a single ring. At a tick of a millisecond it turns once in 65 s.
const RING: usize = 65_536;
/// Buckets per level of the hierarchy.
const LEVEL: usize = 256;
/// The maximum number of timers stepped over in one workload of one round.
const STEPS: usize = 50_000_000;
/// Ticks in an hour, which is the longest delay.
const TICKS: usize = 3_600_000;

/// A scheme, with the number of timers that an operation steps over among `n`.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    make: fn() -> Box<dyn Scheme>,
    steps_to_start: fn(usize) -> usize,
    steps_to_expire: fn(usize) -> usize,
}

/// All seven, in their order.
pub(crate) const PLANS: [Plan; 7] = [
    Plan { make: || Box::new(UnorderedList::new()), steps_to_start: |_| 1, steps_to_expire: |n| n },
    Plan { make: || Box::new(OrderedList::new()), steps_to_start: |n| n / 2, steps_to_expire: |_| 1 },
    Plan { make: || Box::new(Tree::new()), steps_to_start: |_| 1, steps_to_expire: |_| 1 },
    // The overflow list is scanned twice at the beginning of a turn.
    Plan {
        make: || Box::new(SimpleWheel::new(RING)),
        steps_to_start: |_| 1,
        steps_to_expire: |n| 2 * (TICKS / RING) + ticks_apart(n),
    },
    Plan {
        make: || Box::new(HashedWheelWithSortedLists::new(RING)),
        steps_to_start: |n| n / RING / 2,
        steps_to_expire: ticks_apart,
    },
    // Each timer is counted down once per turn.
    Plan {
        make: || Box::new(HashedWheelWithRounds::new(RING)),
        steps_to_start: |_| 1,
        steps_to_expire: |n| TICKS / RING + ticks_apart(n),
    },
    Plan { make: || Box::new(HierarchicalWheel::new(LEVEL)), steps_to_start: |_| 1, steps_to_expire: |_| 1 },
];

/// Returns the number of buckets visited between two timers.
const fn ticks_apart(n: usize) -> usize {
    TICKS / n
}

fn operations(size: usize, steps: usize) -> usize {
    size.min(STEPS / steps.max(1)).max(1)
}

impl Plan {
    pub(crate) fn name(&self) -> String {
        format!("scheme {}", (self.make)().name())
    }

    pub(crate) fn live(&self, life: &mut Life, size: usize) {
        let mut random = Random::new(1);
        let starts = operations(size, (self.steps_to_start)(size));
        let (mut scheme, mut handles) = self.filled(size - starts, &mut random);
        life.time("start", starts, || {
            for id in 0..starts as u64 {
                handles.push(scheme.start(random.delay_ms(), id));
            }
        });
        if life.wants("churn") {
            life.time("churn", starts, || {
                for id in 0..starts as u64 {
                    let fresh = scheme.start(random.delay_ms(), id);
                    let old = std::mem::replace(&mut handles[random.index(size)], fresh);
                    assert!(scheme.stop(old));
                }
            });
        }
        assert_eq!(scheme.len(), size);
        random.shuffle(&mut handles);
        life.time("stop", size, || {
            for handle in handles.drain(..) {
                assert!(scheme.stop(handle));
            }
        });
        assert_eq!(scheme.len(), 0);
    }

    /// Advances from one deadline to the next, as if the next were known: a scheme that knows only the current tick
    /// would have to be called at every tick.
    pub(crate) fn expire(&self, life: &mut Life, size: usize) {
        let mut random = Random::new(1);
        let (mut scheme, _) = self.filled(size, &mut random);
        let mut deadlines = Random::new(1);
        let mut deadlines: Vec<u64> = (0..size).map(|_| deadlines.delay_ms()).collect();
        deadlines.sort_unstable();
        // The first 10 s are empty, and would count for as many ticks as a thousandth of the rest.
        let mut due = Vec::new();
        scheme.per_tick(deadlines[0] - 1, &mut due);
        let last = deadlines[operations(size, (self.steps_to_expire)(size)) - 1];
        let expected = deadlines.partition_point(|deadline| *deadline <= last);
        deadlines.truncate(expected);
        deadlines.dedup();
        let expired = life.time("expire", expected, || {
            let mut expired = 0;
            for now in deadlines {
                scheme.per_tick(now, &mut due);
                expired += black_box(&due).len();
                due.clear();
            }
            expired
        });
        assert_eq!(expired, expected);
    }

    /// Returns the scheme with `size` timers, whose delays are those of all subjects.
    fn filled(&self, size: usize, random: &mut Random) -> (Box<dyn Scheme>, Vec<schemes::Handle>) {
        let mut scheme = (self.make)();
        let mut delays: Vec<u64> = (0..size).map(|_| random.delay_ms()).collect();
        if (self.steps_to_start)(size) > 1 {
            // Sorted, each is appended at the end, in constant time.
            delays.sort_unstable();
        }
        let handles = delays.into_iter().zip(0..).map(|(delay, id)| scheme.start(delay, id)).collect();
        (scheme, handles)
    }
}

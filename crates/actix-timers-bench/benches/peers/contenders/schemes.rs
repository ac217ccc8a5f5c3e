//! The seven classic timer schemes, as the tests have them: the crate `schemes` tells what they are.
//!
//! Some need as many steps for one operation as there are timers. Those do fewer operations, with the same number of
//! timers pending: as many as are done in a second or less, and the time is still that of one operation.

use std::hint::black_box;

use crate::rounds::Life;
use bench::random::Random;
use schemes::{
    HashedWheelWithRounds, HashedWheelWithSortedLists, HierarchicalWheel, OrderedList, Scheme, SimpleWheel, Tree,
    UnorderedList,
};

/// Buckets of those that have one ring for all. At a tick of a millisecond it turns once in 65 s.
const RING: usize = 65_536;
/// Buckets of a level of the hierarchy.
const LEVEL: usize = 256;
/// How many timers may be stepped over in one workload of one round.
const STEPS: usize = 50_000_000;
/// Ticks in an hour, which is the longest delay.
const TICKS: usize = 3_600_000;

/// A scheme, and how many timers it steps over in one operation when there are `n`.
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
    // The overflow list is gone through twice when a turn begins.
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
    // Each timer is counted down once in a turn.
    Plan {
        make: || Box::new(HashedWheelWithRounds::new(RING)),
        steps_to_start: |_| 1,
        steps_to_expire: |n| TICKS / RING + ticks_apart(n),
    },
    Plan { make: || Box::new(HierarchicalWheel::new(LEVEL)), steps_to_start: |_| 1, steps_to_expire: |_| 1 },
];

/// Buckets that are looked at between two timers.
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

    /// From one deadline to the next, as if the next were known: those that know no more than the present tick would
    /// have to be asked at every tick.
    pub(crate) fn expire(&self, life: &mut Life, size: usize) {
        let mut random = Random::new(1);
        let (mut scheme, _) = self.filled(size, &mut random);
        let mut deadlines = Random::new(1);
        let mut deadlines: Vec<u64> = (0..size).map(|_| deadlines.delay_ms()).collect();
        deadlines.sort_unstable();
        // The first 10 s have none, and would count for as many ticks as a thousandth of the rest.
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

    /// So many timers, whose delays are those of all subjects.
    fn filled(&self, size: usize, random: &mut Random) -> (Box<dyn Scheme>, Vec<schemes::Handle>) {
        let mut scheme = (self.make)();
        let mut delays: Vec<u64> = (0..size).map(|_| random.delay_ms()).collect();
        if (self.steps_to_start)(size) > 1 {
            // In this order each has its place at the end, and is started at once.
            delays.sort_unstable();
        }
        let handles = delays.into_iter().zip(0..).map(|(delay, id)| scheme.start(delay, id)).collect();
        (scheme, handles)
    }
}

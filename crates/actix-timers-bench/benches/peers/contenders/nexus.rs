//! The crate `nexus-timer`: seven levels of 64 buckets, each eight times as wide as the one below; linked lists of
//! entries, addressed by pointers that are unlinked without a search or a check.
//!
//! As its documentation recommends: the default configuration, with memory that grows in chunks of 4096 entries or with
//! a capacity that is known in advance, and the poll that also moves entries to lower levels. A handle belongs to one
//! wheel and one thread, and has to be given back; a dropped one leaks its entry.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nexus_timer::store::SlabStore;
use nexus_timer::{BoundedWheel, TimerHandle, TimerWheel, Wheel, WheelEntry};

use crate::contenders::structure::{self, Structure};
use crate::rounds::Life;
use bench::random::Random;

type Payload = [u64; 2];

/// Entries per chunk, as in its documentation.
const CHUNK: usize = 4096;

struct Nexus<S: SlabStore<Item = WheelEntry<Payload>>> {
    wheel: TimerWheel<Payload, S>,
    origin: Instant,
}

impl<S: SlabStore<Item = WheelEntry<Payload>>> Structure for Nexus<S> {
    type Key = TimerHandle<Payload>;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> TimerHandle<Payload> {
        self.wheel.schedule(self.origin + Duration::from_millis(deadline), [number; 2])
    }

    #[inline]
    fn remove(&mut self, handle: TimerHandle<Payload>) {
        black_box(self.wheel.cancel(handle).unwrap());
    }

    fn len(&self) -> usize {
        self.wheel.len()
    }
}

pub(crate) fn live(life: &mut Life, size: usize) {
    let origin = Instant::now();
    structure::live(life, size, &mut Nexus { wheel: Wheel::unbounded(CHUNK, origin), origin });
}

/// With room for all, and for the one more that a churn schedules before it cancels.
pub(crate) fn live_bounded(life: &mut Life, size: usize) {
    let origin = Instant::now();
    structure::live(life, size, &mut Nexus { wheel: BoundedWheel::bounded(size + 1, origin), origin });
}

/// Expires entries from one deadline to the next, in bounded turns. Each poll is a microsecond after the deadline, as
/// after a sleep: at the very moment that `next_deadline` names, its division by the tick rounds down, and nothing is due.
pub(crate) fn expire(life: &mut Life, size: usize) {
    const BUDGET: usize = 4096;
    let origin = Instant::now();
    let mut random = Random::new(1);
    let mut wheel: Wheel<Payload> = Wheel::unbounded(CHUNK, origin);
    for n in 0..size as u64 {
        wheel.schedule_forget(origin + random.delay(), [n; 2]);
    }
    let mut due = Vec::with_capacity(BUDGET);
    let expired = life.time("expire", size, || {
        let mut expired = 0;
        while let Some(next) = wheel.next_deadline() {
            let now = next + Duration::from_micros(1);
            wheel.poll_and_rebalance_with_limit(now, BUDGET, &mut due);
            expired += black_box(&due).len();
            due.clear();
        }
        expired
    });
    assert_eq!(expired, size);
}

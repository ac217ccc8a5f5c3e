//! The bare wheel.

use std::hint::black_box;

use actix_timers::timing::{Advance, Key, Wheel, WheelSize};

use crate::contenders::structure::{self, Structure};
use crate::rounds::Life;
use bench::random::Random;

type Payload = [u64; 2];

impl Structure for Wheel<Payload> {
    type Key = Key;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> Key {
        self.insert(0, deadline, [number; 2]).unwrap()
    }

    #[inline]
    fn remove(&mut self, key: Key) {
        black_box(self.cancel(key).unwrap());
    }

    fn len(&self) -> usize {
        self.len()
    }
}

pub(crate) fn live(life: &mut Life, buckets: WheelSize, size: usize) {
    structure::live(life, size, &mut Wheel::<Payload>::new(buckets));
}

/// Expires entries as a driver does: in bounded turns, from one wake-up to the next.
pub(crate) fn expire(life: &mut Life, buckets: WheelSize, size: usize) {
    const BUDGET: usize = 4096;
    let mut random = Random::new(1);
    let mut wheel: Wheel<Payload> = Wheel::new(buckets);
    for n in 0..size as u64 {
        wheel.insert(0, random.delay_ms(), [n; 2]).unwrap();
    }
    let mut due = Vec::with_capacity(BUDGET);
    let expired = life.time("expire", size, || {
        let (mut expired, mut now) = (0, 0);
        while let Some(next) = wheel.next_expiration() {
            now = next.max(now);
            loop {
                let progress = wheel.advance(now, BUDGET, &mut due);
                expired += black_box(&due).len();
                due.clear();
                if progress != Advance::Exhausted {
                    break;
                }
            }
        }
        expired
    });
    assert_eq!(expired, size);
}

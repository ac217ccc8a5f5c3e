//! The bare wheel.

use std::hint::black_box;

use actix_timers::timing::{Advance, Key, Wheel, WheelSize};

use crate::rounds::Life;
use bench::random::Random;

type Payload = [u64; 2];

pub(crate) fn live(life: &mut Life, buckets: WheelSize, size: usize) {
    let mut random = Random::new(1);
    let mut wheel: Wheel<Payload> = Wheel::new(buckets);
    let mut keys: Vec<Key> = Vec::with_capacity(size);
    life.time("start", size, || {
        for n in 0..size as u64 {
            keys.push(wheel.insert(0, random.delay_ms(), [n; 2]).unwrap());
        }
    });
    if life.wants("churn") {
        life.time("churn", size, || {
            for n in 0..size as u64 {
                let fresh = wheel.insert(0, random.delay_ms(), [n; 2]).unwrap();
                let old = std::mem::replace(&mut keys[random.index(size)], fresh);
                black_box(wheel.cancel(old).unwrap());
            }
        });
    }
    if life.wants("steady-start") {
        random.shuffle(&mut keys);
        for key in keys.drain(size / 2..) {
            black_box(wheel.cancel(key).unwrap());
        }
        life.time("steady-start", size - size / 2, || {
            for n in (size / 2) as u64..size as u64 {
                keys.push(wheel.insert(0, random.delay_ms(), [n; 2]).unwrap());
            }
        });
    }
    assert_eq!(wheel.len(), size);
    random.shuffle(&mut keys);
    life.time("stop", size, || {
        for key in keys.drain(..) {
            black_box(wheel.cancel(key).unwrap());
        }
    });
    assert!(wheel.is_empty());
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

//! The bare wheel: entries carry 16 bytes, ticks are milliseconds.

use std::hint::black_box;

use actix_timers::timing::{Advance, Expired, Key, Tick, Wheel, WheelSize};

use crate::Operation;
use bench::random::Random;

const ENTRIES: usize = 100_000;
/// The maximum moves per call, as in the timer actor.
const BUDGET: usize = 1024;
/// A deadline two hours away: at least two levels up in a wheel of any common size, and the first tick of a bucket
/// there.
const FAR: Tick = 1 << 23;

type Payload = [u64; 2];

pub(crate) fn operations() -> Vec<Operation> {
    let operation = |name, counted, work| Operation { name, counted, entries: ENTRIES as u64, work };
    vec![
        operation("wheel start", "counted_start", start),
        operation("wheel stop", "counted_stop", stop),
        operation("wheel churn", "counted_churn", churn),
        operation("wheel cascade", "counted_cascade", cascade),
        operation("wheel fire", "counted_fire", fire),
        operation("wheel cascade and fire", "counted_lifetime", lifetime),
    ]
}

struct Setting {
    random: Random,
    wheel: Wheel<Payload>,
    keys: Vec<Key>,
    due: Vec<Expired<Payload>>,
}

impl Setting {
    fn empty() -> Self {
        Self {
            random: Random::new(1),
            wheel: Wheel::new(WheelSize::default()),
            keys: Vec::with_capacity(ENTRIES),
            due: Vec::with_capacity(2 * ENTRIES),
        }
    }

    /// Returns a wheel with all entries pending, due in 10 s to 1 h.
    fn filled() -> Self {
        let mut setting = Self::empty();
        setting.fill(Random::delay_ms);
        setting
    }

    /// Returns a wheel with all entries pending, due in the ticks after [`FAR`].
    fn far() -> Self {
        let mut setting = Self::empty();
        setting.fill(|random| FAR + 1 + random.below(63));
        setting
    }

    fn fill(&mut self, deadline: impl Fn(&mut Random) -> Tick) {
        for _ in 0..ENTRIES {
            let deadline = deadline(&mut self.random);
            self.keys.push(self.wheel.insert(0, deadline, [deadline; 2]).unwrap());
        }
    }

    fn advance(&mut self, now: Tick) {
        while self.wheel.advance(now, BUDGET, &mut self.due) == Advance::Exhausted {}
    }
}

/// Inserts all, into a new wheel.
fn start() {
    let mut setting = Setting::empty();
    counted_start(&mut setting);
    assert_eq!(setting.wheel.len(), ENTRIES);
}

#[inline(never)]
fn counted_start(setting: &mut Setting) {
    for number in 0..ENTRIES as u64 {
        let deadline = setting.random.delay_ms();
        setting.keys.push(setting.wheel.insert(0, deadline, [number; 2]).unwrap());
    }
}

/// Cancels all, in shuffled order.
fn stop() {
    let mut setting = Setting::filled();
    setting.random.shuffle(&mut setting.keys);
    counted_stop(&mut setting);
    assert!(setting.wheel.is_empty());
}

#[inline(never)]
fn counted_stop(setting: &mut Setting) {
    for key in &setting.keys {
        black_box(setting.wheel.cancel(*key).unwrap());
    }
}

/// Inserts one and cancels a random one, with all others pending.
fn churn() {
    let mut setting = Setting::filled();
    counted_churn(&mut setting);
    assert_eq!(setting.wheel.len(), ENTRIES);
}

#[inline(never)]
fn counted_churn(setting: &mut Setting) {
    for number in 0..ENTRIES as u64 {
        let deadline = setting.random.delay_ms();
        let fresh = setting.wheel.insert(0, deadline, [number; 2]).unwrap();
        let place = setting.random.index(ENTRIES);
        let old = std::mem::replace(&mut setting.keys[place], fresh);
        black_box(setting.wheel.cancel(old).unwrap());
    }
}

/// Cascades all from far above down to the lowest level.
fn cascade() {
    let mut setting = Setting::far();
    counted_cascade(&mut setting);
    assert!(setting.due.is_empty());
    assert!(setting.keys.iter().all(|key| setting.wheel.bucket_of(*key).unwrap().0 == 0));
}

#[inline(never)]
fn counted_cascade(setting: &mut Setting) {
    setting.advance(FAR);
}

/// Expires all entries on the lowest level.
fn fire() {
    let mut setting = Setting::far();
    setting.advance(FAR);
    counted_fire(&mut setting);
    assert_eq!(setting.due.len(), ENTRIES);
}

#[inline(never)]
fn counted_fire(setting: &mut Setting) {
    for now in FAR..=FAR + 64 {
        setting.advance(now);
    }
}

/// Expires all entries due in 10 s to 1 h, each in its tick, with all cascades on the way.
fn lifetime() {
    let mut setting = Setting::filled();
    counted_lifetime(&mut setting);
    assert_eq!(setting.due.len(), ENTRIES);
    assert!(setting.due.is_sorted_by_key(|expired| expired.deadline));
}

#[inline(never)]
fn counted_lifetime(setting: &mut Setting) {
    while let Some(next) = setting.wheel.next_expiration() {
        setting.advance(next);
    }
}

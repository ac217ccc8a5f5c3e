//! Fuzzes operations on a wheel, each compared with a sorted list, on request also with the seven schemes.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 cargo fuzz run wheel -- -max_total_time=60
//! ```
//!
//! libFuzzer begins with short inputs; `-len_control=0 -max_len=2048` starts with hundreds of operations.
//!
//! The checked wheel is that of the random tests (`schemes::checked_wheel`); here coverage guides the choice.

#![no_main]

use actix_timers::timing::{Key, MAX_TICK, Tick};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use schemes::checked_wheel::{CheckedWheel, Fate};

/// The greatest number of operations: more find nothing new, and make failures hard to read.
const MOST_OPERATIONS: usize = 400;

const SIZES: [usize; 8] = [2, 3, 4, 5, 8, 20, 64, 256];

fuzz_target!(|run: Run| run.play());

/// The decoded input.
#[derive(Debug, Arbitrary)]
struct Run {
    size: u8,
    start: Ticks,
    at_the_end: bool,
    with_schemes: bool,
    operations: Vec<Operation>,
}

/// A number of ticks of any magnitude, in two bytes.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Ticks {
    digits: u8,
    zeros: u8,
}

impl Ticks {
    fn get(self) -> Tick {
        Tick::from(self.digits) << (self.zeros % 64)
    }
}

/// An operation; entries are identified by their number, counted back from the latest.
#[derive(Debug, Arbitrary)]
enum Operation {
    Insert { back: Ticks, delay: Ticks },
    InsertPast { age: Ticks },
    Burst { count: u8, delay: Ticks },
    Cancel { entry: u8 },
    Reschedule { entry: u8, delay: Ticks },
    Pass { time: Ticks },
    PassToNext { pace: u8 },
    Expire { budget: Option<u8>, fate: u8 },
    Advance { back: Ticks, budget: Option<u8> },
    Prepare { pace: u8, budget: Option<u8> },
    Detach { entry: u8 },
    Hold { entry: u8 },
    Release { entry: u8 },
    Remove { entry: u8 },
    DeadKey { index: u8, tag: u8 },
    Trim { budget: Option<u8> },
    GetSnapshot,
}

impl Run {
    fn play(&self) {
        let size = SIZES[usize::from(self.size) % SIZES.len()];
        let schemes = if self.with_schemes { schemes::all(size) } else { Vec::new() };
        let mut wheel = CheckedWheel::new(size, schemes);
        let start = self.start.get().min(MAX_TICK);
        let mut now = if self.at_the_end { MAX_TICK - start } else { start };
        for operation in self.operations.iter().take(MOST_OPERATIONS) {
            operation.play(&mut wheel, &mut now);
        }
        wheel.finish();
    }
}

impl Operation {
    fn play(&self, wheel: &mut CheckedWheel, time: &mut Tick) {
        let now = *time;
        let later = |delay: Ticks| now.saturating_add(delay.get());
        let earlier = |back: Ticks| now.saturating_sub(back.get());
        match *self {
            Self::Insert { back, delay } => {
                wheel.insert(earlier(back), later(delay));
            }
            Self::InsertPast { age } => {
                wheel.insert(now, earlier(age));
            }
            Self::Burst { count, delay } => {
                for _ in 0..count {
                    wheel.insert(now, later(delay));
                }
            }
            Self::Pass { time: passed } => *time = later(passed),
            Self::PassToNext { pace } => *time = now.max(wheel.wheel().next_wake(pace.into()).unwrap_or(now)),
            Self::Expire { budget, fate } => {
                let fate = [Fate::Remove, Fate::Loose, Fate::Hold][usize::from(fate) % 3];
                wheel.expire(now, entries(budget), fate);
            }
            Self::Advance { back, budget } => {
                wheel.advance(earlier(back), entries(budget));
            }
            Self::Prepare { pace, budget } => {
                wheel.prepare(now, pace.into(), entries(budget));
            }
            Self::DeadKey { index, tag } => wheel.try_dead_key(now, Key::new(index.into(), tag.into())),
            Self::Trim { budget } => wheel.trim(entries(budget)),
            Self::GetSnapshot => wheel.inspect_buckets(),
            Self::Cancel { entry } => on_entry(wheel, entry, |wheel, number| {
                wheel.cancel(number);
            }),
            Self::Reschedule { entry, delay } => {
                on_entry(wheel, entry, |wheel, number| {
                    wheel.reschedule(now, number, later(delay));
                });
            }
            Self::Detach { entry } => on_entry(wheel, entry, |wheel, number| {
                wheel.detach(number);
            }),
            Self::Hold { entry } => on_entry(wheel, entry, CheckedWheel::hold),
            Self::Release { entry } => on_entry(wheel, entry, CheckedWheel::release),
            Self::Remove { entry } => on_entry(wheel, entry, |wheel, number| {
                wheel.remove(number);
            }),
        }
    }
}

/// Returns a budget: small, or unlimited.
fn entries(budget: Option<u8>) -> usize {
    budget.map_or(usize::MAX, usize::from)
}

fn on_entry(wheel: &mut CheckedWheel, entry: u8, act: impl FnOnce(&mut CheckedWheel, usize)) {
    if let Some(number) = wheel.issued().checked_sub(1 + usize::from(entry)) {
        act(wheel, number);
    }
}

//! Random operations on the wheel, compared with a sorted list and with the seven schemes.
//!
//! `ACTIX_TIMERS_MODEL_OPS` sets the total number of operations, for instance
//!
//! ```text
//! ACTIX_TIMERS_MODEL_OPS=100000000 cargo test --release -p actix-timers-tests --no-default-features \
//!     --test timing wheel_model
//! ```
//!
//! A failing run prints its wheel size and seed; the seed repeats the run.

use actix_timers::timing::{Advance, Key, MAX_TICK, Tick};

use schemes::HierarchicalWheel;
use schemes::checked_wheel::{CheckedWheel, Fate};
use schemes::random::Random;

/// Enough for every kind of operation in every kind of run, at every size, in a second or two.
const DEFAULT_OPERATIONS: u64 = 105_000;

/// The sizes: the smallest, odd and even ones, powers of two, and the default.
const SIZES: [usize; 7] = [2, 3, 4, 8, 20, 64, 256];

/// All seven schemes together are slow: they get one operation in four.
const SCHEMES_SHARE: u64 = 4;

#[test]
fn wheels_of_all_sizes_agree_with_a_sorted_list() {
    for size in SIZES {
        run(size, operations() / SIZES.len() as u64, Vec::new);
    }
}

#[test]
fn all_seven_schemes_fire_the_same_entries_in_the_same_order() {
    // A hundred million operations are for the wheel; beyond some millions the schemes add nothing.
    let operations = (operations() / SCHEMES_SHARE).min(4_000_000);
    for size in SIZES {
        run(size, operations / SIZES.len() as u64, || schemes::all(size));
    }
}

#[test]
fn hierarchies_of_any_level_sizes_fire_in_the_same_order() {
    let hierarchies = || -> Vec<Box<dyn schemes::Scheme>> {
        let sizes: [(&[usize], usize); 4] = [(&[2, 5, 3], 2), (&[7], 3), (&[3, 64], 2), (&[60, 60], 24)];
        sizes.map(|(finest, size)| Box::new(HierarchicalWheel::with_sizes(finest, size)) as _).into()
    };
    run(8, (operations() / SCHEMES_SHARE).min(4_000_000), hierarchies);
}

fn operations() -> u64 {
    std::env::var("ACTIX_TIMERS_MODEL_OPS")
        .map_or(DEFAULT_OPERATIONS, |number| number.parse().unwrap_or_else(|_| panic!("{number} is not a number")))
}

/// Runs new wheels with new seeds until all operations are done.
fn run(size: usize, operations: u64, schemes: impl Fn() -> Vec<Box<dyn schemes::Scheme>>) {
    let (mut done, mut seed, mut moves) = (0, 0, 0);
    while done < operations {
        let named = Named { size, seed };
        let mut player = Player::new(size, seed, schemes());
        // Most runs are short, so that many begin; a few are long, so that wheels get old.
        let longest = if player.random.one_in(50) { 20_000 } else { 1000 };
        let length = 100 + player.random.below(longest).min(operations - done);
        while player.done < length {
            player.play();
        }
        player.wheel.finish();
        done += player.done;
        moves += player.wheel.moves;
        seed += 1;
        drop(named);
    }
    println!("wheel size {size}: {done} operations in {seed} runs, {moves} entries moved");
}

/// Prints the size and seed of a run that panics.
struct Named {
    size: usize,
    seed: u64,
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was wheel size {}, seed {}", self.size, self.seed);
        }
    }
}

/// Chooses the operations on one wheel.
struct Player {
    random: Random,
    wheel: CheckedWheel,
    now: Tick,
    /// The maximum number of bits of delays and time steps: from crowded wheels to the whole range of the numbers.
    bits: u32,
    /// The maximum of budgets and bursts.
    crowd: u64,
    done: u64,
}

impl Player {
    fn new(size: usize, seed: u64, schemes: Vec<Box<dyn schemes::Scheme>>) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x1_0001).wrapping_add(size as u64));
        let level = size.ilog2().max(1);
        let bits = match random.below(8) {
            0 | 1 => level + 1,
            2 | 3 => 2 * level + 1,
            4 | 5 => (4 * level).min(64),
            6 => 40,
            _ => 64,
        };
        let now = match random.below(8) {
            0..=3 => 0,
            4 | 5 => random.magnitude(63),
            // so near to the end of the range that time will reach it
            _ => MAX_TICK - random.magnitude(bits),
        };
        let crowd = [4, 40, 200][random.index(3)];
        Self { random, wheel: CheckedWheel::new(size, schemes), now, bits, crowd, done: 0 }
    }

    fn play(&mut self) {
        self.done += 1;
        match self.random.below(32) {
            0..=10 => self.insert(),
            11 => self.burst(),
            12..=14 => {
                if let Some(number) = self.any() {
                    self.wheel.cancel(number);
                }
            }
            15..=17 => {
                if let Some(number) = self.any() {
                    let deadline = self.deadline();
                    let now = self.present();
                    self.wheel.reschedule(now, number, deadline);
                }
            }
            18..=20 => self.prepare(),
            21 | 22 => self.handle_detached(),
            23 => self.try_dead_key(),
            24 => {
                let budget = self.budget();
                self.wheel.trim(budget);
            }
            25..=27 => {
                self.pass_time();
                self.advance();
            }
            _ => {
                self.pass_time();
                self.expire();
            }
        }
        if self.random.one_in(16) {
            self.wheel.inspect_buckets();
        }
    }

    fn insert(&mut self) {
        let deadline = self.deadline();
        let now = self.present();
        self.wheel.insert(now, deadline);
    }

    /// Many entries with one deadline: a full bucket.
    fn burst(&mut self) {
        let deadline = self.deadline();
        for _ in 0..self.random.below(self.crowd) {
            self.done += 1;
            self.wheel.insert(self.now, deadline);
        }
    }

    /// Acts as a driver at a wake-up: calls with a budget until everything is done, or it is interrupted.
    fn expire(&mut self) {
        let fate = [Fate::Remove, Fate::Remove, Fate::Loose, Fate::Hold][self.random.index(4)];
        let budget = self.budget();
        let now = self.present();
        while self.wheel.expire(now, budget, fate) == Advance::Exhausted && budget > 0 && !self.random.one_in(4) {
            self.done += 1;
        }
    }

    fn advance(&mut self) {
        let budget = self.budget();
        let now = self.present();
        while self.wheel.advance(now, budget) == Advance::Exhausted && budget > 0 && !self.random.one_in(4) {
            self.done += 1;
        }
    }

    fn prepare(&mut self) {
        let pace = self.random.below(self.crowd / 2 + 2) as usize;
        let budget = self.budget();
        let now = self.present();
        self.wheel.prepare(now, pace, budget);
    }

    fn handle_detached(&mut self) {
        let Some(number) = self.any() else {
            return;
        };
        match self.random.below(4) {
            0 => self.wheel.release(number),
            1 => self.wheel.hold(number),
            2 => {
                self.wheel.detach(number);
            }
            _ => {
                self.wheel.remove(number);
            }
        }
    }

    fn try_dead_key(&mut self) {
        let index = self.random.magnitude(32) as u32;
        let tag = self.random.magnitude(32);
        let now = self.present();
        self.wheel.try_dead_key(now, Key::new(index, tag));
    }

    /// Returns the number of any key ever issued, preferably a recent one.
    fn any(&mut self) -> Option<usize> {
        let issued = self.wheel.issued();
        let recent = if self.random.one_in(2) { issued.min(20) } else { issued };
        (issued > 0).then(|| issued - 1 - self.random.index(recent))
    }

    fn deadline(&mut self) -> Tick {
        match self.random.below(16) {
            0 => self.now,
            1 => self.now.saturating_sub(self.random.magnitude(self.bits)),
            2 => self.wheel.earliest().unwrap_or(self.now),
            3 => Tick::MAX - self.random.magnitude(4),
            _ => self.now.saturating_add(self.random.magnitude(self.bits)),
        }
    }

    /// Returns the time passed to an operation: mostly now, at times a clock that went back.
    fn present(&mut self) -> Tick {
        if self.random.one_in(24) { self.now.saturating_sub(self.random.magnitude(self.bits)) } else { self.now }
    }

    fn pass_time(&mut self) {
        let pace = self.random.below(self.crowd) as usize;
        let target = match self.random.below(8) {
            0 => self.now,
            1 => self.wheel.wheel().next_expiration().unwrap_or(self.now),
            2 => self.wheel.wheel().next_wake(pace).unwrap_or(self.now),
            3 => self.wheel.earliest().map_or(self.now, |earliest| earliest - earliest.min(1)),
            4 => self.now.saturating_add(1),
            _ => self.now.saturating_add(self.random.magnitude(self.bits)),
        };
        self.now = self.now.max(target);
    }

    fn budget(&mut self) -> usize {
        match self.random.below(4) {
            0 => usize::MAX,
            1 => self.random.below(4) as usize,
            _ => self.random.below(self.crowd) as usize,
        }
    }
}

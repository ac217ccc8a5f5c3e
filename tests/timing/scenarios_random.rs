//! Conformance scenarios of the wheel: random runs of the whole service against a sorted list.

use std::collections::BTreeSet;

use actix_timers::timing::Key;

use crate::ROUNDS_IN;
use crate::service::Service;
use schemes::random::Random;

/// One row of O-33.
struct Row {
    delays: (u64, u64),
    /// The time of making the timers, and of cancelling the rest.
    time: (u64, u64),
    timers: usize,
    largest_step: u64,
    removals: usize,
    rounds: u64,
}

/// Steps after which a round jumps to its end.
const MOST_STEPS: usize = 20_000;

const ROWS: [Row; 7] = [
    Row { delays: (1, 100), time: (5, 1000), timers: 1000, largest_step: 10, removals: 0, rounds: 300 },
    Row { delays: (20, 1000), time: (10, 100), timers: 1000, largest_step: 5, removals: 0, rounds: 300 },
    Row { delays: (20, 1000), time: (10, 1000), timers: 1000, largest_step: 5, removals: 2, rounds: 300 },
    Row { delays: (2000, 1 << 50), time: (100, 1 << 49), timers: 1000, largest_step: 1 << 31, removals: 0, rounds: 10 },
    Row {
        delays: (1 << 50, 1 << 52),
        time: (100, 1 << 53),
        timers: 1000,
        largest_step: 1 << 48,
        removals: 0,
        rounds: 10,
    },
    Row {
        delays: (2000, 1 << 30),
        time: (100, 1 << 26),
        timers: 10_000,
        largest_step: 1 << 16,
        removals: 3,
        rounds: 10,
    },
    Row { delays: (1, 100), time: (5, 1000), timers: 1000, largest_step: 1, removals: 1, rounds: 100 },
];

/// Seven parameter sets against a sorted list: random timers, random jumps, random removals.
/// Scenario O-33.
#[test]
fn seven_parameter_sets_against_a_sorted_list() {
    for (number, row) in ROWS.iter().enumerate() {
        for round in 0..row.rounds / ROUNDS_IN {
            let size = [3, 8, 64, 256][round as usize % 4];
            run_row(row, size, &mut Random::new(1000 * number as u64 + round));
        }
    }
}

fn run_row(row: &Row, size: usize, random: &mut Random) {
    let (start, end) = row.time;
    let mut service = Service::new(size);
    service.jump_to(start);
    let mut keys = Vec::new();
    let mut pending = BTreeSet::new();
    for name in 0..row.timers {
        let delay = random.between(row.delays.0, row.delays.1);
        keys.push(service.after(delay, name));
        pending.insert((start + delay, name));
    }
    let mut left: Vec<(u64, usize)> = pending.iter().copied().collect();
    let mut steps = 0;
    while service.now() < end {
        steps += 1;
        let step = if steps < MOST_STEPS { random.between(1, row.largest_step) } else { u64::MAX };
        let announced = service.next_wake();
        let time = service.now().saturating_add(step).min(end);
        service.slip_to(time);
        for _ in 0..row.removals.min(left.len()) {
            let (deadline, name) = left.swap_remove(random.index(left.len()));
            let was_pending = pending.remove(&(deadline, name));
            assert_eq!(service.cancel(keys[name]), was_pending, "a cancel stops exactly a pending timer");
        }
        for delivery in service.jump_to(time) {
            let (deadline, name) = pending.pop_first().unwrap_or_else(|| panic!("{delivery:?} was not pending"));
            assert_eq!(delivery.name, name, "in order");
            assert!(deadline <= time && announced.is_some_and(|announced| announced <= deadline));
        }
        assert!(pending.first().is_none_or(|(deadline, _)| *deadline > time), "and never late");
    }
    for (deadline, name) in left {
        assert_eq!(service.cancel(keys[name]), pending.remove(&(deadline, name)));
    }
    assert_eq!((service.pending(), pending.len()), (0, 0));
    assert_eq!(service.jump_to(u64::MAX), []);
}

/// Operations, and operations from inside deliveries, on a wheel of four.
/// Scenario O-34.
#[test]
fn operations_from_inside_deliveries() {
    const LONGEST: u64 = 4u64.pow(6);
    for seed in 1..=2000 / ROUNDS_IN {
        let mut service = Service::new(4);
        let mut model = Model { random: Random::new(seed), keys: Vec::new(), pending: BTreeSet::new() };
        for _ in 0..200 {
            match model.random.below(3) {
                0 => model.schedule(&mut service, LONGEST),
                1 => model.cancel(&mut service),
                _ => {
                    let time = service.now() + model.random.between(1, LONGEST);
                    model.jump(&mut service, time, Some(LONGEST));
                }
            }
            assert_eq!(service.pending(), model.pending.len());
        }
        let end = service.now() + 4 * LONGEST;
        model.jump(&mut service, end, None);
        assert_eq!((service.pending(), model.pending.len(), service.next_wake()), (0, 0, None));
    }
}

/// The model of O-34: all keys ever issued, and the pending timers by deadline and number.
struct Model {
    random: Random,
    keys: Vec<(Key, u64)>,
    pending: BTreeSet<(u64, usize)>,
}

impl Model {
    fn schedule(&mut self, service: &mut Service<usize>, longest: u64) {
        let number = self.keys.len();
        let deadline = service.now() + self.random.between(1, longest);
        self.keys.push((service.at(deadline, number), deadline));
        self.pending.insert((deadline, number));
    }

    fn cancel(&mut self, service: &mut Service<usize>) {
        if self.keys.is_empty() {
            return;
        }
        let number = self.random.index(self.keys.len());
        let (key, deadline) = self.keys[number];
        assert_eq!(service.cancel(key), self.pending.remove(&(deadline, number)));
    }

    /// Jumps to `time`. The deliveries schedule more timers with delays up to `longest`, or none without it.
    fn jump(&mut self, service: &mut Service<usize>, time: u64, longest: Option<u64>) {
        service.jump_to_with(time, |service, number| {
            let (deadline, first) = self.pending.pop_first().unwrap_or_else(|| panic!("{number} was not pending"));
            assert_eq!(first, number, "in order");
            assert!(deadline <= service.now(), "never early");
            assert_eq!(service.pending(), self.pending.len());
            match (self.random.below(4), longest) {
                (1, Some(longest)) => self.schedule(service, longest),
                (2, _) => self.cancel(service),
                (3, _) => {
                    let earliest = self.pending.first().map(|(deadline, _)| *deadline);
                    assert!(service.next_wake() <= earliest && service.next_wake().is_some() == earliest.is_some());
                }
                _ => {}
            }
        });
        assert!(self.pending.first().is_none_or(|(deadline, _)| *deadline > time), "and never late");
    }
}

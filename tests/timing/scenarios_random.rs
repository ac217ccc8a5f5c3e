//! Conformance scenarios of the wheel: random runs of the whole service against a sorted list.

use std::collections::BTreeSet;

use actix_timers::timing::Key;

use crate::ROUNDS_IN;
use crate::service::Service;
use schemes::random::Random;

/// Steps after which a round jumps to its end.
const MOST_STEPS: usize = 20_000;

/// A row of O-33: the shortest and the longest delay, the time of making the timers and of cancelling the rest, the number
/// of timers, the largest step, removals per step, and rounds.
type Row = (u64, u64, u64, u64, usize, u64, usize, u64);

const ROWS: [Row; 7] = [
    (1, 100, 5, 1000, 1000, 10, 0, 300),
    (20, 1000, 10, 100, 1000, 5, 0, 300),
    (20, 1000, 10, 1000, 1000, 5, 2, 300),
    (2000, 1 << 50, 100, 1 << 49, 1000, 1 << 31, 0, 10),
    (1 << 50, 1 << 52, 100, 1 << 53, 1000, 1 << 48, 0, 10),
    (2000, 1 << 30, 100, 1 << 26, 10_000, 1 << 16, 3, 10),
    (1, 100, 5, 1000, 1000, 1, 1, 100),
];

/// Seven parameter sets against a sorted list: random timers, random jumps, random removals.
/// Scenario O-33.
#[test]
fn seven_parameter_sets_against_a_sorted_list() {
    for (number, row) in ROWS.into_iter().enumerate() {
        for round in 0..row.7 / ROUNDS_IN {
            let size = [3, 8, 64, 256][round as usize % 4];
            run_row(row, size, &mut Random::new(1000 * number as u64 + round));
        }
    }
}

fn run_row((shortest, longest, start, end, timers, largest_step, removals, _): Row, size: usize, random: &mut Random) {
    let mut service = Service::new(size);
    service.jump_to(start);
    let mut keys = Vec::new();
    let mut pending = BTreeSet::new();
    for name in 0..timers {
        let delay = random.between(shortest, longest);
        keys.push(service.after(delay, name));
        pending.insert((start + delay, name));
    }
    let mut left: Vec<(u64, usize)> = pending.iter().copied().collect();
    let mut steps = 0;
    while service.now() < end {
        steps += 1;
        let step = if steps < MOST_STEPS { random.between(1, largest_step) } else { u64::MAX };
        let announced = service.next_wake();
        let time = service.now().saturating_add(step).min(end);
        service.slip_to(time);
        for _ in 0..removals.min(left.len()) {
            let (deadline, name) = left.swap_remove(random.index(left.len()));
            let was_pending = pending.remove(&(deadline, name));
            assert_eq!(service.cancel(keys[name]), was_pending, "a cancel stops exactly a pending timer");
        }
        for (delivered, _) in service.jump_to(time) {
            let (deadline, name) = pending.pop_first().unwrap_or_else(|| panic!("{delivered} was not pending"));
            assert_eq!(delivered, name, "in order");
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

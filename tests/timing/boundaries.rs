//! Small wheels, exhaustively: every phase, every delay, every point at which a cascade can be interrupted.
//!
//! Off-by-one errors of timing wheels sit at the edges of buckets and turns. A wheel of two to five buckets has all of
//! these edges within a few dozen ticks, so that every combination can be tried.

use std::ops::RangeInclusive;

use actix_timers::timing::{Advance, MAX_TICK, Tick};

use crate::service::Service;
use schemes::checked_wheel::{CheckedWheel, Fate};

/// The wheels tried are smaller without optimization: most of the cases are those of the largest.
const SIZES: RangeInclusive<usize> = 2..=if cfg!(debug_assertions) { 3 } else { 5 };

/// Every delay from every phase, 38 528 cases: nothing before, one delivery on time, nothing after.
/// Scenario O-11.
#[test]
fn every_delay_from_every_phase() {
    let mut cases = 0;
    for (phase, anchored) in (0..64).flat_map(|phase| [(phase, false), (phase, true)]) {
        for delay in 0..=300 {
            let mut service = Service::new(4);
            if anchored {
                service.anchor(phase);
            }
            service.silent_to(phase);
            service.after(delay, "timer");
            let due = phase + delay;
            if delay > 0 {
                service.silent_to(due - 1);
            }
            assert_eq!(service.run_to(due), [("timer", due)], "phase {phase}, delay {delay}");
            service.silent_to(due + 400);
            cases += 1;
        }
    }
    assert_eq!(cases, 38_528);
}

/// Returns all phases and delays across the edges of three levels of a wheel of `size` buckets.
fn every_phase_and_delay(size: usize) -> impl Iterator<Item = (Tick, Tick)> {
    let turn = size as u64;
    let longest = turn.pow(3) + 2;
    (0..=turn.pow(2)).flat_map(move |phase| (0..=longest).map(move |delay| (phase, delay)))
}

/// Returns a wheel at `phase`, with four entries for one coarse bucket: two for `due`, a later one, a third equal.
fn crowded(size: usize, phase: Tick, due: Tick) -> CheckedWheel {
    let mut wheel = CheckedWheel::new(size, Vec::new());
    wheel.advance(phase, usize::MAX);
    for deadline in [due, due, due + 1, due] {
        wheel.insert(phase, deadline);
    }
    wheel
}

/// When its entries are due, or a tick ahead. Then an entry for the same tick is inserted, one is cancelled, and one moved
/// to the end of the same tick.
#[test]
fn a_cascade_can_be_interrupted_after_every_entry() {
    let mut early = 0;
    for (size, ahead) in SIZES.flat_map(|size| [(size, 0), (size, 1)]) {
        for (phase, delay) in every_phase_and_delay(size).filter(|(_, delay)| *delay >= ahead) {
            let due = phase + delay;
            let now = due - ahead;
            for budget in 0.. {
                let mut wheel = crowded(size, phase, due);
                let interrupted = match ahead {
                    0 => wheel.expire(now, budget, Fate::Loose) == Advance::Exhausted,
                    _ => wheel.prepare(now, 1, budget) == Advance::Exhausted,
                };
                early += if ahead > 0 { wheel.moves } else { 0 };
                wheel.insert(now, due);
                wheel.cancel(1);
                wheel.reschedule(now, 0, due);
                assert_eq!(wheel.expire(due, usize::MAX, Fate::Remove), Advance::Done);
                assert_eq!(wheel.earliest(), Some(due + 1), "only the later entry is left");
                wheel.finish();
                if !interrupted {
                    assert!(budget >= 3 || ahead > 0, "the three that are due make three interruptions at least");
                    break;
                }
            }
        }
    }
    assert!(early > 0, "some buckets were begun early");
}

/// Ways in which the rest of a bucket can leave it while it is being cascaded.
const LEAVES: [fn(&mut CheckedWheel, usize, Tick); 3] = [
    |wheel, number, _| assert!(wheel.cancel(number)),
    |wheel, number, _| assert!(wheel.detach(number)),
    |wheel, number, due| assert!(wheel.reschedule(0, number, due + 1000)),
];

/// A cascade is over as soon as its bucket is empty, however the last entry left.
#[test]
fn a_cascade_can_lose_the_rest_of_its_bucket_after_every_entry() {
    let mut emptied = 0;
    for size in SIZES {
        for ((phase, delay), leave) in every_phase_and_delay(size).flat_map(|case| LEAVES.map(|leave| (case, leave))) {
            let due = phase + delay;
            for budget in 1..4 {
                let mut wheel = crowded(size, phase, due);
                let levels: Vec<_> = (0..4).map(|number| wheel.level_of(number)).collect();
                wheel.prepare(due.saturating_sub(1).max(phase), 1, budget);
                let stayed =
                    |number: &usize| wheel.level_of(*number) == levels[*number] && wheel.level_of(*number) > Some(0);
                let rest: Vec<usize> = (0..4).filter(stayed).collect();
                emptied += usize::from(!rest.is_empty() && rest.len() < 4);
                for number in rest {
                    leave(&mut wheel, number, due);
                }
                wheel.insert(phase, due);
                assert_eq!(wheel.expire(due, usize::MAX, Fate::Remove), Advance::Done);
                wheel.finish();
            }
        }
    }
    assert!(emptied > 500, "buckets were emptied in the middle of their cascades {emptied} times");
}

/// A driver that sleeps from wake to wake and cascades one entry per call, with a new entry after each call.
#[test]
fn a_driver_with_the_smallest_pace_and_budget_keeps_the_order() {
    for size in SIZES {
        for (phase, delay) in every_phase_and_delay(size) {
            let due = phase + delay;
            let mut wheel = crowded(size, phase, due);
            let mut news = 0;
            while let Some(now) = wheel.wheel().next_wake(1).map(|wake| wake.max(phase)) {
                let moves = wheel.moves;
                wheel.prepare(now, 1, 1);
                wheel.expire(now, 1, Fate::Remove);
                let asleep = wheel.wheel().next_wake(1).is_none_or(|next| next > now);
                assert!(wheel.moves > moves || asleep, "no call is for nothing");
                if news < 3 {
                    news += 1;
                    wheel.insert(now, due);
                }
            }
            wheel.finish();
        }
    }
}

#[test]
fn deadlines_at_the_end_of_the_range_are_on_time() {
    for size in [2, 3, 4, 5, 256] {
        let turn = size.min(5) as u64;
        let from_zero = (Tick::MAX - 20..=Tick::MAX).map(|deadline| (0, deadline));
        let near = (MAX_TICK - turn.pow(2) - 1..=MAX_TICK).flat_map(|now| (now..=Tick::MAX).map(move |at| (now, at)));
        for (now, deadline) in from_zero.chain(near) {
            on_time_at_the_end(size, now, deadline);
        }
    }
}

/// Inserts two entries for `deadline`: none expires before it, both expire then, and the wheel remains usable.
fn on_time_at_the_end(size: usize, now: Tick, deadline: Tick) {
    let mut wheel = CheckedWheel::new(size, Vec::new());
    wheel.advance(now, usize::MAX);
    wheel.insert(now, deadline);
    wheel.insert(now, deadline);
    let due = deadline.min(MAX_TICK);
    if due > now {
        wheel.prepare(due - 1, 1, 1);
        assert_eq!(wheel.expire(due - 1, usize::MAX, Fate::Remove), Advance::Done);
        assert_eq!(wheel.earliest(), Some(due), "nothing comes early");
    }
    assert_eq!(wheel.expire(due, 1, Fate::Remove), Advance::Exhausted);
    wheel.expire(due, usize::MAX, Fate::Remove);
    assert_eq!(wheel.earliest(), None, "both have come");
    for deadline in [0, due, Tick::MAX] {
        wheel.insert(due, deadline);
    }
    wheel.finish();
}

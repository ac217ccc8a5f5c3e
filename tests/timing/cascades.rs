//! Full buckets: brought down a little at a time, before their deadline, whatever the driver did before.
//!
//! The latency tail of a hierarchical wheel is a crowded coarse bucket. In these tests a driver sleeps from wake to
//! wake, and they measure the work of each tick.

use std::collections::BTreeMap;

use actix_timers::timing::{Advance, Tick, Wheel, WheelSize};

const PACE: usize = 128;

/// Returns the number of entries cascaded at each wake-up, from now until the wheel is empty.
fn cascades_per_tick(wheel: &mut Wheel<Tick>) -> BTreeMap<Tick, u64> {
    let mut cascades = BTreeMap::new();
    let mut due = Vec::new();
    while let Some(now) = wheel.next_wake(PACE) {
        let before = cascaded(wheel);
        assert_eq!(wheel.prepare(now, PACE, usize::MAX), Advance::Done);
        due.clear();
        assert_eq!(wheel.advance(now, usize::MAX, &mut due), Advance::Done);
        assert!(due.iter().all(|expired| expired.deadline == now), "all come out at their deadlines");
        *cascades.entry(now).or_default() += cascaded(wheel) - before;
    }
    cascades
}

fn cascaded<T>(wheel: &Wheel<T>) -> u64 {
    wheel.level_stats().map(|level| level.cascaded).sum()
}

fn wheel_of(size: usize) -> Wheel<Tick> {
    Wheel::new(WheelSize::new(size).expect("a valid size"))
}

/// Inserts `crowd` entries due in the fifty ticks from `deadline` on.
fn insert_crowd(wheel: &mut Wheel<Tick>, now: Tick, deadline: Tick, crowd: u64) {
    for entry in 0..crowd {
        let deadline = deadline + entry % 50;
        wheel.insert(now, deadline, deadline).expect("the wheel has room");
    }
}

#[test]
fn a_crowd_is_spread_over_the_ticks_before_it_is_due() {
    const CROWD: u64 = 5000;
    // the next bucket, one after an idle time, and at the edges of the second, third and fourth level
    for (size, deadline) in [
        (64, 70),
        (64, 1000),
        (64, 4096),
        (64, 262_144),
        (256, 10_000),
        (256, 65_536),
        (256, 65_600),
        (256, 16_777_216),
    ] {
        let mut wheel = wheel_of(size);
        insert_crowd(&mut wheel, 0, deadline, CROWD);
        let cascades = cascades_per_tick(&mut wheel);
        let fullest = cascades.values().max().copied();
        assert!(fullest < Some(2 * PACE as u64), "size {size}, {deadline}: {fullest:?} entries in one tick");
        let wakes = cascades.len() as u64;
        let levels = wheel.depth() as u64;
        assert!(wakes < 50 + levels * (CROWD / PACE as u64 + 2), "size {size}, {deadline}: {wakes} wake-ups");
    }
}

#[test]
fn a_crowd_larger_than_a_turn_is_begun_a_turn_ahead() {
    let mut wheel = wheel_of(64);
    insert_crowd(&mut wheel, 0, 970, 100_000);
    assert_eq!(wheel.next_expiration(), Some(960));
    assert_eq!(wheel.next_wake(PACE), Some(960 - 64), "there is no room for it before");
    assert_eq!(wheel.prepare(960 - 65, PACE, usize::MAX), Advance::Done);
    assert_eq!(cascaded(&wheel), 0);

    assert_eq!(wheel.prepare(960 - 64, PACE, 10_000), Advance::Exhausted, "it is late already, and goes on at once");
    assert_eq!(cascaded(&wheel), 10_000);
    assert_eq!(wheel.prepare(960 - 64, PACE, usize::MAX), Advance::Done);
    let ahead = 100_000 - cascaded(&wheel);
    assert!(ahead <= 64 * PACE as u64, "the rest fits the pace: {ahead}");
}

#[test]
fn a_small_bucket_waits_for_its_time() {
    let mut wheel = wheel_of(64);
    insert_crowd(&mut wheel, 0, 970, PACE as u64);
    assert_eq!(wheel.next_wake(PACE), Some(960));
    assert_eq!(wheel.next_wake(PACE - 1), Some(959), "one more than the pace, one tick earlier");
    assert_eq!(wheel.prepare(959, PACE, usize::MAX), Advance::Done);
    assert_eq!(cascaded(&wheel), 0);
}

#[test]
fn a_bucket_that_was_begun_is_finished_even_when_it_is_small() {
    let mut wheel = wheel_of(64);
    insert_crowd(&mut wheel, 0, 4096, 4 * PACE as u64);
    let begin = wheel.next_wake(PACE).expect("something waits");
    assert_eq!(begin, 4096 - 8, "each entry has to go down two levels");
    wheel.prepare(begin, PACE, usize::MAX);
    assert!(cascaded(&wheel) > 0);
    for now in begin + 1..4096 {
        wheel.prepare(now, PACE, usize::MAX);
    }
    assert_eq!(wheel.next_expiration(), Some(4096));
    let level_2 = wheel.level_stats().nth(2).expect("the level exists");
    assert_eq!((level_2.entries, level_2.cascades), (0, 1), "all of it is below when its time comes");
}

#[test]
fn a_pace_of_zero_counts_as_one() {
    let mut wheel = wheel_of(64);
    insert_crowd(&mut wheel, 0, 970, 10);
    assert_eq!(wheel.next_wake(0), Some(950));
    assert_eq!(wheel.prepare(950, 0, usize::MAX), Advance::Done);
    assert_eq!(cascaded(&wheel), 1);
    assert_eq!(wheel.next_wake(0), Some(951));
}

#[test]
fn nothing_is_prepared_while_something_earlier_is_due() {
    let mut wheel = wheel_of(64);
    insert_crowd(&mut wheel, 0, 970, 5000);
    wheel.insert(0, 3, 3).expect("the wheel has room");
    assert_eq!(wheel.prepare(959, PACE, usize::MAX), Advance::Done);
    assert_eq!(cascaded(&wheel), 0, "the wheel's clock stays before due entries");
    let mut due = Vec::new();
    wheel.advance(959, usize::MAX, &mut due);
    assert_eq!(due.len(), 1);
    assert_eq!(wheel.prepare(959, PACE, usize::MAX), Advance::Done);
    assert!(5000 - cascaded(&wheel) < PACE as u64, "now all that would not fit the last tick is moved");
}

//! Conformance scenarios of the wheel: cancelling, moving, and scheduling earlier than the driver's next wake-up.

use actix_timers::timing::Key;

use crate::service::{Delivery, Service, delivered};

/// Cancelled before, twice, and after: only the first cancel of each succeeds.
/// Scenario O-17.
#[test]
fn cancel_before_twice_and_after() {
    let mut service = Service::new(256);
    let a = service.after(10_000, "A");
    assert!(service.cancel(a));
    assert!(!service.cancel(a));
    for _ in 0..10 {
        let timer = service.after(1000, "one of ten");
        assert!(service.cancel(timer));
    }
    let b = service.after(10, "B");
    assert_eq!(service.run_to(10), delivered(&[("B", 10)]));
    assert!(!service.cancel(b));
    assert!(!service.cancel(b));
    service.silent_to(20_000);
    assert_eq!(service.pending(), 0);
}

/// Unknown keys, and keys whose storage was reused, cancel nothing.
/// Scenario O-18.
#[test]
fn unknown_keys_and_keys_whose_storage_is_used_again() {
    let mut service = Service::new(256);
    service.after(10_000, "R");
    for stranger in [Key::new(0, 1), Key::new(1, 0), Key::new(77, 77), Key::new(u32::MAX, u64::MAX)] {
        assert!(!service.cancel(stranger));
    }
    let a = service.after(50, "A");
    assert!(service.cancel(a));
    let b = service.after(60, "B");
    assert_eq!(b.index(), a.index(), "B moved into A's storage");
    assert!(!service.cancel(a));
    for _ in 0..10 {
        service.after(6000, "one of ten");
    }
    for _ in 0..262_144 {
        let timer = service.after(1000, "short-lived");
        assert!(service.cancel(timer));
    }
    for _ in 0..30 {
        let timer = service.after(7000, "cancelled twice");
        assert!(service.cancel(timer));
        assert!(!service.cancel(timer));
    }
    assert_eq!(service.pending(), 12);
    assert_eq!(service.run_to(60), delivered(&[("B", 60)]));
    assert_eq!(service.run_to(9999), [Delivery { name: "one of ten", at: 6000 }; 10]);
    assert_eq!(service.run_to(10_000), delivered(&[("R", 10_000)]));
}

/// A head bucket that was emptied by a cancel, and is used again.
/// Scenario O-21.
#[test]
fn dead_head_bucket_used_again() {
    let mut service = Service::new(20);
    let a = service.after(50, "A");
    assert_eq!(service.next_wake(), Some(40), "the bucket from 40 to 59 is the head");
    assert!(service.cancel(a));
    assert_eq!(service.next_wake(), None, "an emptied bucket causes no wake-up");
    service.after(45, "B");
    service.after(5, "D");
    service.silent_to(4);
    assert_eq!(service.run_to(5), delivered(&[("D", 5)]));
    service.silent_to(40);
    service.after(2, "C");
    assert_eq!(service.run_to(42), delivered(&[("C", 42)]));
    service.silent_to(44);
    assert_eq!(service.run_to(45), delivered(&[("B", 45)]));
    service.silent_to(1000);
    assert_eq!(service.pending(), 0);
}

/// A timer earlier than the one the service sleeps for.
/// Scenario O-22.
#[test]
fn insert_earlier_while_asleep() {
    let mut service = Service::new(64);
    service.after(10_000, "foo");
    service.silent_to(0);
    service.after(600, "bar");
    service.silent_to(599);
    assert_eq!(service.run_to(600), delivered(&[("bar", 600)]));
    assert_eq!(service.run_to(10_000), delivered(&[("foo", 10_000)]));

    let mut service = Service::new(64);
    service.after(200, "one");
    service.silent_to(0);
    service.after(100, "two");
    service.after(100, "two");
    service.silent_to(99);
    assert_eq!(service.run_to(100), delivered(&[("two", 100), ("two", 100)]));
    assert_eq!(service.run_to(200), delivered(&[("one", 200)]));
}

/// Ten thousand timers, each earlier than all before it: the driver wakes up once for each remaining one.
/// Scenario O-23.
#[test]
fn ten_thousand_new_heads() {
    let mut service = Service::new(20);
    let mut timers = Vec::new();
    for deadline in (1..=10_000).rev() {
        timers.push((deadline, service.at(deadline, deadline)));
        service.silent_to(0);
    }
    for (_, timer) in timers.iter().filter(|(deadline, _)| deadline % 2 == 0) {
        assert!(service.cancel(*timer));
    }
    let deliveries = service.run_to(10_000);
    assert_eq!(deliveries, (1..=10_000).step_by(2).map(|at| Delivery { name: at, at }).collect::<Vec<_>>());
    assert_eq!(service.pending(), 0);

    let mut times: Vec<u64> = service.wake_ups().iter().map(|wake| wake.at).collect();
    assert!(times.len() <= 5600, "{} wake-ups", times.len());
    times.dedup();
    assert_eq!(times.len(), service.wake_ups().len(), "never twice for one tick");
}

/// Of several resets the last one counts.
/// Scenario O-24.
#[test]
fn several_resets_last_one_counts() {
    let mut service = Service::new(64);
    let one = service.after(200, "one");
    let two = service.after(250, "two");
    assert!(service.reset_to(one, 300));
    assert!(service.reset_to(two, 350));
    assert!(service.reset_to(one, 400));
    assert_eq!(service.pending(), 2);
    service.silent_to(310);
    service.silent_to(349);
    assert_eq!(service.run_to(350), delivered(&[("two", 350)]));
    service.silent_to(399);
    assert_eq!(service.run_to(400), delivered(&[("one", 400)]));
    service.silent_to(5000);
    assert_eq!(service.pending(), 0);
}

/// The head is moved later, with another timer behind it and alone.
/// Scenario O-25.
#[test]
fn the_head_is_moved_later() {
    let mut service = Service::new(64);
    let one = service.after(200, "one");
    service.after(250, "two");
    service.silent_to(0);
    assert!(service.reset_to(one, 300));
    service.silent_to(249);
    assert_eq!(service.run_to(250), delivered(&[("two", 250)]));
    assert_eq!(service.run_to(300), delivered(&[("one", 300)]));

    let mut service = Service::new(64);
    let alone = service.after(200, "alone");
    service.silent_to(0);
    assert!(service.reset_to(alone, 300));
    service.silent_to(299);
    assert_eq!(service.run_to(300), delivered(&[("alone", 300)]));
    assert!(service.wake_ups().iter().all(|wake| wake.at != 200), "the old deadline is forgotten");
}

/// Moved much earlier, and moved across a coarse bucket that has already begun.
/// Scenario O-26.
#[test]
fn moved_across_buckets_already_begun() {
    // the time of scheduling, the deadline, then pairs of a time and the deadline it is moved to at that time
    type Case = (u64, u64, &'static [(u64, u64)], u64);
    let cases: [Case; 4] = [
        (1, 200, &[(4, 10)], 10),
        (1, 200, &[(4, 50), (24, 40)], 40),
        (0, 100, &[(80, 120)], 120),
        (0, 200, &[(80, 120)], 120),
    ];
    for (scheduled, deadline, moves, expected) in cases {
        let mut service = Service::new(64);
        service.silent_to(scheduled);
        let timer = service.at(deadline, "f");
        for (time, deadline) in moves {
            service.silent_to(*time);
            assert!(service.reset_to(timer, *deadline));
        }
        assert_eq!(service.run_to(300), delivered(&[("f", expected)]));
    }
}

/// A delivered, cancelled or unknown timer cannot be reset; a past deadline means now.
/// Scenario O-27.
#[test]
fn reset_of_something_that_is_no_longer_there() {
    let mut service = Service::new(256);
    let a = service.after(100, "A");
    assert_eq!(service.run_to(100), delivered(&[("A", 100)]));
    assert!(!service.reset_to(a, 200));
    let b = service.after(300, "B");
    assert!(service.cancel(b));
    assert!(!service.reset_to(b, 500));
    assert!(!service.reset_to(Key::new(5, 5), 500));
    let c = service.after(1000, "C");
    service.silent_to(150);
    assert!(service.reset_to(c, 40));
    assert_eq!(service.run_to(150), delivered(&[("C", 150)]));
    service.silent_to(5000);
    assert_eq!(service.pending(), 0);
}

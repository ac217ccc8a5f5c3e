//! Conformance scenarios of the wheel: basic firing, order, equal deadlines, far deadlines, boundary ticks.
//!
//! O-11, every delay from every phase, is in `boundaries.rs`.

use crate::service::{Delivery, Service, delivered};
use schemes::random::Random;

/// Seven delays, one millisecond at a time.
/// Scenario O-01.
#[test]
fn seven_delays_one_millisecond_at_a_time() {
    for size in [3, 8, 20] {
        let mut service = Service::new(size);
        let delays = [1, 5, 10, 50, 100, 500, 1000];
        for delay in delays {
            service.after(delay, delay);
        }
        assert_eq!(service.pending(), 7);
        for instant in 1..=1000 {
            let expected: Vec<_> = delays.into_iter().filter(|delay| *delay == instant).map(|at| (at, at)).collect();
            assert_eq!(service.run_to(instant), delivered(&expected));
            assert_eq!(service.pending(), delays.into_iter().filter(|delay| *delay > instant).count());
        }
    }
}

/// 585 timers on a wheel of three, which needs six levels for them.
/// Scenario O-02.
#[test]
fn fires_585_timers_on_a_wheel_of_three() {
    let mut service = Service::new(3);
    let mut delays: Vec<u64> = (0..5).chain((10..100).flat_map(|delay| [delay, delay])).chain(100..500).collect();
    assert_eq!(delays.len(), 585);
    Random::new(2).shuffle(&mut delays);
    for delay in &delays {
        service.after(*delay, *delay);
    }
    assert_eq!(service.wheel().depth(), 6);
    let deliveries = service.run_to(2000);
    assert!(deliveries.iter().all(|delivery| delivery.at == delivery.name));
    delays.sort_unstable();
    assert_eq!(deliveries.iter().map(|delivery| delivery.at).collect::<Vec<_>>(), delays);
    assert_eq!(service.pending(), 0);
}

/// Mixed delays come out in order after one jump over all of them.
/// Scenario O-04.
#[test]
fn mixed_delays_one_jump() {
    let mut service = Service::new(8);
    for (name, delay) in [("last", 5000), ("a0", 0), ("a2", 200), ("a1", 100), ("a5", 500), ("a3", 300), ("a4", 400)] {
        service.after(delay, name);
    }
    let names = ["a0", "a1", "a2", "a3", "a4", "a5", "last"];
    assert_eq!(service.jump_to(5000), names.map(|name| Delivery { name, at: 5000 }));

    let mut service = Service::new(8);
    for (name, delay) in [("b1", 100), ("b2", 101), ("b3", 102), ("last", 103)] {
        service.after(delay, name);
    }
    assert_eq!(service.jump_to(103), ["b1", "b2", "b3", "last"].map(|name| Delivery { name, at: 103 }));
}

/// Inside one coarse tick the order is that of scheduling, and all wait for the end of the tick.
/// Scenario O-05.
#[test]
fn different_deadlines_inside_one_coarse_tick() {
    let mut service = Service::with_tick(100, 4);
    for (name, delay) in [("A", 150), ("B", 110), ("C", 199), ("D", 101)] {
        service.after(delay, name);
    }
    service.silent_to(199);
    assert_eq!(service.run_to(200), delivered(&[("A", 200), ("B", 200), ("C", 200), ("D", 200)]));
}

/// A thousand equal deadlines stay first-in first-out.
/// Scenario O-06.
#[test]
fn a_thousand_equals_stay_in_order() {
    let mut service = Service::new(8);
    for name in 0..1000 {
        service.after(64, name);
    }
    service.silent_to(63);
    let deliveries = service.run_to(64);
    assert_eq!(deliveries, (0..1000).map(|name| Delivery { name, at: 64 }).collect::<Vec<_>>());
}

/// Equals that reach their bucket by different ways, one by a cascade and one directly.
/// Scenario O-07.
#[test]
fn equals_that_reach_the_bucket_by_different_ways() {
    let mut service = Service::new(20);
    service.anchor(10);
    service.after(25, "A");
    service.silent_to(10);
    service.after(15, "B");
    service.silent_to(24);
    assert_eq!(service.run_to(25), delivered(&[("A", 25), ("B", 25)]));
}

/// Powers of two up to 2³², each a tick before it is due and then on time.
/// Scenario O-08.
#[test]
fn powers_of_two_up_to_the_32nd() {
    for size in [3, 20, 64, 256] {
        let mut service = Service::new(size);
        for power in 0..=32u32 {
            service.after(1 << power, power);
        }
        for power in 0..=32u32 {
            let due = 1u64 << power;
            assert_eq!(service.jump_to(due - 1), [], "nothing a tick before 2^{power}");
            assert_eq!(service.jump_to(due), delivered(&[(power, due)]));
        }
        assert_eq!((service.pending(), service.next_wake()), (0, None));
    }
}

/// The service wakes up only for deliveries and for the starts of coarse buckets.
/// Scenario O-09.
#[test]
fn only_the_expected_wake_ups() {
    let mut service = Service::new(64);
    for delay in [1000, 2, 234, 299_008, 60, 10] {
        service.after(delay, delay);
    }
    let mut deliveries = service.step_to(1200);
    service.silent_to(299_007);
    deliveries.extend(service.run_to(299_008));
    assert_eq!(deliveries, [2, 10, 60, 234, 1000, 299_008].map(|at| Delivery { name: at, at }));
    let idle: Vec<u64> = service.wake_ups().iter().filter(|wake| wake.deliveries == 0).map(|wake| wake.at).collect();
    assert_eq!(idle, [192, 960, 262_144], "one for each coarse bucket that has to be cascaded");
}

/// Delays around every power of the wheel size fire on time, from zero and from a phase.
/// Scenario O-10.
#[test]
fn around_every_power_of_the_wheel_size() {
    let delays = [1, 7, 8, 9, 63, 64, 65, 511, 512, 513];
    for start in [0, 5] {
        let mut service = Service::new(8);
        if start > 0 {
            service.anchor(start);
        }
        service.silent_to(start);
        for delay in delays {
            service.after(delay, delay);
        }
        let deliveries = service.step_to(start + 513);
        assert_eq!(deliveries, delays.map(|delay| Delivery { name: delay, at: start + delay }));
    }

    let mut service = Service::with_tick(10, 32);
    let delays = [310, 320, 330, 3190, 3200, 3210, 10_230, 10_240, 10_250];
    for delay in delays {
        service.after(delay, delay);
    }
    assert_eq!(service.run_to(10_250), delays.map(|delay| Delivery { name: delay, at: delay }));
}

/// With a tick of ten milliseconds the deadline is rounded up, not the delay, and never down.
/// Scenario O-12.
#[test]
fn rounding_with_a_ten_millisecond_tick() {
    let mut service = Service::with_tick(10, 5);
    let expected =
        [(1, 10), (9, 10), (10, 10), (11, 20), (49, 50), (50, 50), (51, 60), (249, 250), (250, 250), (251, 260)];
    for (delay, _) in expected {
        service.after(delay, delay);
    }
    assert_eq!(service.run_to(300), delivered(&expected));

    let mut service = Service::with_tick(10, 5);
    service.silent_to(7);
    for delay in [3, 4, 13, 14] {
        service.after(delay, delay);
    }
    assert_eq!(service.run_to(300), delivered(&[(3, 10), (4, 20), (13, 20), (14, 30)]));
}

//! Conformance scenarios of the wheel: past and huge deadlines, reused slots, long idle times, clocks that jump.

use std::time::Duration;

use actix_timers::timing::{TickLength, TimingError};

use crate::service::{Delivery, Service, delivered};
use schemes::random::Random;

/// Past deadlines expire at once, in order, without waiting for a tick.
/// Scenario O-13.
#[test]
fn deadlines_already_past() {
    let mut service = Service::with_tick(20, 512);
    service.silent_to(100);
    for deadline in 95..=99 {
        service.at(deadline, deadline);
    }
    assert_eq!(service.run_to(100), delivered(&[(95, 100), (96, 100), (97, 100), (98, 100), (99, 100)]));

    let mut service = Service::new(64);
    service.after(200, "foo");
    service.silent_to(80);
    service.at(40, "bar");
    assert_eq!(service.run_to(80), delivered(&[("bar", 80)]));
    assert_eq!(service.run_to(1000), delivered(&[("foo", 200)]));
}

/// Absurdly long delays saturate: they never fall due in practice, and can be cancelled.
/// Scenario O-15.
#[test]
fn absurdly_long_delays() {
    const TEN_YEARS: u64 = 315_360_000_000;
    let mut service = Service::new(256);
    service.silent_to(1000);
    let long = [
        Duration::MAX,
        Duration::MAX - Duration::from_millis(1),
        Duration::from_millis(u64::MAX),
        Duration::from_millis(u64::MAX >> 1),
        Duration::from_secs(u64::MAX / 10),
    ];
    let timers = long.map(|delay| service.after_duration(delay, "long"));
    service.after(1, "short");
    assert_eq!(service.run_to(1001), delivered(&[("short", 1001)]));
    assert_eq!(service.jump_to(TEN_YEARS), []);
    for timer in timers {
        assert!(service.cancel(timer));
    }
    assert_eq!(service.pending(), 0);
}

/// Levels grow to the end of the number range and no further; a tick out of range is rejected.
/// Scenario O-16.
#[test]
fn level_growth_at_the_end_of_the_number_range() {
    for size in [2, 3, 20, 1024] {
        let mut service = Service::new(size);
        let far = service.at(u64::MAX - 1, "far");
        assert!(service.wheel().depth() <= 64);
        service.after(5, "near");
        assert_eq!(service.run_to(5), delivered(&[("near", 5)]));
        assert_eq!(service.pending(), 1);
        assert!(service.cancel(far));
    }
    let tick = Duration::from_millis(1 << 63);
    assert_eq!(TickLength::new(tick), Err(TimingError::TickLength(tick)));
}

/// Few slots over many rounds.
/// Scenario O-28.
#[test]
fn two_slots_many_rounds() {
    let mut service = Service::with_tick(10, 2);
    for delay in [5, 15, 25, 35] {
        service.after(delay, delay);
    }
    assert_eq!(service.step_to(50), delivered(&[(5, 10), (15, 20), (25, 30), (35, 40)]));

    let mut service = Service::new(8);
    service.anchor(3);
    service.silent_to(3);
    service.after(7, "A");
    service.after(15, "B");
    service.silent_to(9);
    assert_eq!(service.run_to(17), delivered(&[("A", 10)]));
    assert_eq!(service.run_to(18), delivered(&[("B", 18)]));

    let mut service = Service::new(4);
    service.after(1, 1);
    let again = |service: &mut Service<u32>, times: u32| {
        if times < 1000 {
            service.after(1, times + 1);
        }
    };
    assert_eq!(service.run_to_with(999, again).len(), 999);
    assert_eq!(service.run_to_with(2000, again), delivered(&[(1000, 1000)]));
}

/// Re-armed from inside the delivery by exactly one revolution: into the slot that is being emptied.
/// Scenario O-29.
#[test]
fn re_armed_by_exactly_one_revolution() {
    for (size, delay) in [(8, 8), (8, 64), (8, 512), (4, 16)] {
        let mut service = Service::new(size);
        service.after(delay, 1);
        let deliveries = service.run_to_with(10 * delay, |service, times| {
            if times < 5 {
                service.after(delay, times + 1);
            }
        });
        assert_eq!(deliveries, [1, 2, 3, 4, 5].map(|times| Delivery { name: times, at: times * delay }));
        assert_eq!(service.pending(), 0);
    }
}

/// After days of idling a short delay is short.
/// Scenario O-30.
#[test]
fn idle_for_days_then_a_short_timer() {
    let mut service = Service::new(20);
    assert_eq!(service.jump_to(1_000_000_000), []);
    service.after(5, "short");
    assert_eq!(service.wheel().depth(), 1, "the wheel has followed the clock");
    service.silent_to(1_000_000_004);
    assert_eq!(service.run_to(1_000_000_005), delivered(&[("short", 1_000_000_005)]));

    let mut service = Service::new(64);
    for round in 1..=2u64 {
        let now = round << 35;
        assert_eq!(service.jump_to(now), []);
        service.after(0, "zero");
        assert_eq!(service.run_to(now), delivered(&[("zero", now)]));
    }
    service.after(1, "one");
    assert_eq!(service.run_to((1 << 36) + 1), delivered(&[("one", (1 << 36) + 1)]));
}

/// Thirteen timers on five levels come out in order after one jump over all of them.
/// Scenario O-31.
#[test]
fn thirteen_timers_on_five_levels_one_jump() {
    let mut service = Service::new(4);
    let delays = [257, 256, 255, 65, 64, 63, 17, 16, 15, 5, 4, 3, 1];
    for delay in delays {
        service.after(delay, delay);
    }
    assert_eq!(service.wheel().depth(), 5);
    let mut ascending = delays;
    ascending.reverse();
    assert_eq!(service.jump_to(1000), ascending.map(|name| Delivery { name, at: 1000 }));
    assert_eq!(service.pending(), 0);
    service.after(1, 1);
    assert_eq!(service.jump_to(1001), delivered(&[(1, 1001)]));
}

/// The clock goes back; the service's own does not.
/// Scenario O-32.
#[test]
fn the_clock_goes_back() {
    let mut service = Service::new(64);
    service.silent_to(1_000_000);
    let mut random = Random::new(32);
    let mut deadlines: Vec<u64> = (0..1000).map(|_| 1_000_000 + random.between(1, 864_000_000)).collect();
    for deadline in &deadlines {
        service.at(*deadline, *deadline);
    }
    for back in [3, 192, 12_288, 999_999] {
        assert_eq!(service.jump_to(1_000_000 - back), []);
        assert_eq!(service.now(), 1_000_000);
    }
    const X: u64 = 1_000_010;
    service.after(10, X);
    deadlines.push(X);
    deadlines.sort_unstable();

    let mut deliveries = service.run_to(1_000_005);
    deliveries.extend(service.run_to(deadlines[1000]));
    assert_eq!(deliveries, deadlines.iter().map(|at| Delivery { name: *at, at: *at }).collect::<Vec<_>>());
    assert_eq!(deliveries.len(), 1001);
}

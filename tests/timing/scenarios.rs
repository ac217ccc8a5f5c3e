//! Conformance scenarios of the wheel. Scenarios that actors can observe run through the timer actor, in `actor`;
//! O-11, every delay from every phase, is in `boundaries`, and random runs are in `scenarios_random`.

use crate::service::Service;
use schemes::random::Random;

/// Schedules timers, each at a time and with a delay. Each comes at the first tick not before its deadline, in the order
/// of ticks and requests, and nothing comes at any other instant.
fn each_comes_on_time(mut service: Service<usize>, timers: &[(u64, u64)]) -> Service<usize> {
    let (mut deliveries, mut expected) = (Vec::new(), Vec::new());
    for (name, (now, delay)) in timers.iter().enumerate() {
        deliveries.extend(service.step_to(*now));
        service.after(*delay, name);
        let due = now + delay;
        expected.push((name, if *delay == 0 { due } else { due.next_multiple_of(service.tick()) }));
    }
    expected.sort_by_key(|(_, at)| *at);
    let end = expected[expected.len() - 1].1;
    deliveries.extend(service.step_to(2 * end));
    assert_eq!(deliveries, expected);
    assert_eq!(service.pending(), 0);
    service
}

fn from_zero(delays: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    delays.into_iter().map(|delay| (0, delay)).collect()
}

fn anchored(wheel_size: usize, anchor: u64) -> Service<usize> {
    let mut service = Service::new(wheel_size);
    service.anchor(anchor);
    service
}

/// Scenario O-02.
#[test]
fn fires_585_timers_on_a_wheel_of_three() {
    let mut delays: Vec<u64> = (0..5).chain((10..100).flat_map(|delay| [delay, delay])).chain(100..500).collect();
    assert_eq!(delays.len(), 585);
    Random::new(2).shuffle(&mut delays);
    let service = each_comes_on_time(Service::new(3), &from_zero(delays));
    assert_eq!(service.wheel().depth(), 6);
}

/// Scenario O-06.
#[test]
fn a_thousand_equals_stay_in_order() {
    each_comes_on_time(Service::new(8), &[(0, 64); 1000]);
}

/// One by a cascade and one directly.
/// Scenario O-07.
#[test]
fn equals_that_reach_the_bucket_by_different_ways() {
    each_comes_on_time(anchored(20, 10), &[(0, 25), (10, 15)]);
}

/// From zero, from a phase, and with a coarse tick.
/// Scenario O-10.
#[test]
fn around_every_power_of_the_wheel_size() {
    let delays = [1, 7, 8, 9, 63, 64, 65, 511, 512, 513];
    each_comes_on_time(Service::new(8), &from_zero(delays));
    each_comes_on_time(anchored(8, 5), &delays.map(|delay| (5, delay)));
    let delays = [310, 320, 330, 3190, 3200, 3210, 10_230, 10_240, 10_250];
    each_comes_on_time(Service::with_tick(10, 32), &from_zero(delays));
}

/// The deadline is rounded up, not the delay, and never down.
/// Scenario O-12.
#[test]
fn rounding_with_a_ten_millisecond_tick() {
    each_comes_on_time(Service::with_tick(10, 5), &from_zero([1, 9, 10, 11, 49, 50, 51, 249, 250, 251]));
    each_comes_on_time(Service::with_tick(10, 5), &[3, 4, 13, 14].map(|delay| (7, delay)));
}

/// Also of a timer that is re-armed from inside its delivery.
/// Scenario O-28.
#[test]
fn two_slots_many_rounds() {
    each_comes_on_time(Service::with_tick(10, 2), &from_zero([5, 15, 25, 35]));
    each_comes_on_time(anchored(8, 3), &[(3, 7), (3, 15)]);
    re_armed(4, 1, 1000);
}

/// Into the slot that is being emptied.
/// Scenario O-29.
#[test]
fn re_armed_by_exactly_one_revolution() {
    for (size, delay) in [(8, 8), (8, 64), (8, 512), (4, 16)] {
        re_armed(size, delay, 5);
    }
}

/// A timer is re-armed from inside its delivery, until it has come so often.
fn re_armed(wheel_size: usize, delay: u64, times: u64) {
    let mut service = Service::new(wheel_size);
    service.after(delay, 1);
    let deliveries = service.run_to_with(2 * times * delay, |service, time| {
        if time < times {
            service.after(delay, time + 1);
        }
    });
    assert_eq!(deliveries, (1..=times).map(|time| (time, time * delay)).collect::<Vec<_>>());
    assert_eq!(service.pending(), 0);
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
            assert_eq!(service.jump_to(due), [(power, due)]);
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
    assert_eq!(deliveries, [2, 10, 60, 234, 1000, 299_008].map(|at| (at, at)));
    let idle: Vec<u64> =
        service.wake_ups().iter().filter(|(_, deliveries)| *deliveries == 0).map(|(at, _)| *at).collect();
    assert_eq!(idle, [192, 960, 262_144], "one for each coarse bucket that has to be cascaded");
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
    assert_eq!(service.run_to(40), [("D", 5)]);
    service.after(2, "C");
    assert_eq!(service.run_to(1000), [("C", 42), ("B", 45)]);
    assert_eq!(service.pending(), 0);
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
    assert_eq!(deliveries, (1..=10_000).step_by(2).map(|at| (at, at)).collect::<Vec<_>>());
    assert_eq!(service.pending(), 0);

    let mut times: Vec<u64> = service.wake_ups().iter().map(|(at, _)| *at).collect();
    assert!(times.len() <= 5600, "{} wake-ups", times.len());
    times.dedup();
    assert_eq!(times.len(), service.wake_ups().len(), "never twice for one tick");
}

/// Timers by their deadlines, then the moves: the time, the number of the timer, and its new deadline.
type Moves<'a> = (u64, &'a [u64], &'a [(u64, usize, u64)]);

/// Each comes once, at its last deadline.
fn each_comes_at_its_last_deadline((start, deadlines, moves): Moves<'_>) {
    let mut service = Service::new(64);
    service.silent_to(start);
    let mut expected: Vec<(usize, u64)> = deadlines.iter().copied().enumerate().collect();
    let timers: Vec<_> = expected.iter().map(|(name, deadline)| service.at(*deadline, *name)).collect();
    for (now, name, deadline) in moves {
        service.silent_to(*now);
        assert!(service.reset_to(timers[*name], *deadline));
        expected[*name].1 = *deadline;
        assert_eq!(service.pending(), deadlines.len());
    }
    expected.sort_by_key(|(_, at)| *at);
    assert_eq!(service.run_to(5000), expected);
    let is_old = |at| deadlines.contains(&at) && expected.iter().all(|(_, last)| *last != at);
    assert!(service.wake_ups().iter().all(|(at, _)| !is_old(*at)), "old deadlines are forgotten");
}

/// Scenario O-24.
#[test]
fn several_resets_last_one_counts() {
    each_comes_at_its_last_deadline((0, &[200, 250], &[(0, 0, 300), (0, 1, 350), (0, 0, 400)]));
}

/// With another timer behind it, and alone.
/// Scenario O-25.
#[test]
fn the_head_is_moved_later() {
    each_comes_at_its_last_deadline((0, &[200, 250], &[(0, 0, 300)]));
    each_comes_at_its_last_deadline((0, &[200], &[(0, 0, 300)]));
}

/// Moved much earlier, and moved across a coarse bucket that has already begun.
/// Scenario O-26.
#[test]
fn moved_across_buckets_already_begun() {
    each_comes_at_its_last_deadline((1, &[200], &[(4, 0, 10)]));
    each_comes_at_its_last_deadline((1, &[200], &[(4, 0, 50), (24, 0, 40)]));
    each_comes_at_its_last_deadline((0, &[100], &[(80, 0, 120)]));
    each_comes_at_its_last_deadline((0, &[200], &[(80, 0, 120)]));
}

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
    assert_eq!(service.jump_to(1000), ascending.map(|name| (name, 1000)));
    assert_eq!(service.pending(), 0);
    service.after(1, 1);
    assert_eq!(service.jump_to(1001), [(1, 1001)]);
}

/// An insertion lets the wheel catch up with the clock.
#[test]
fn a_short_delay_after_an_idle_time_needs_no_upper_level() {
    let mut service = Service::new(20);
    for now in [1_000_000_000, 2_000_000_000] {
        service.slip_to(now);
        let timer = service.after(7, "short");
        assert_eq!((service.wheel().depth(), service.wheel().bucket_of(timer)), (1, Some((0, now + 7))));
        assert!(service.cancel(timer));
    }
}

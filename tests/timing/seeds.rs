//! The worked examples of the tutorials that this project grew from, with their numbers.
//!
//! The tutorials explain the seven schemes, Netty's wheel and Kafka's. The textbook implementations are in `schemes`,
//! [`Service`] has the wheel. Three differences are on purpose. Deadlines round up to a tick, so nothing is early.
//! Kafka's placement is relative to now, the wheel's is by turns: an entry due after the current turn waits on the next
//! level. And that level is made on demand.
//!
//! Levels count from 0 here, from 1 in the tutorials.

use schemes::{
    HashedWheelWithRounds, HashedWheelWithSortedLists, HierarchicalWheel, OrderedList, Scheme, SimpleWheel, Tick,
    UnorderedList,
};

use crate::service::Service;

/// Returns the ids that `scheme` expires by `now`.
fn expired(scheme: &mut impl Scheme, now: Tick) -> Vec<u64> {
    let mut expired = Vec::new();
    scheme.per_tick(now, &mut expired);
    expired.into_iter().map(|expiry| expiry.id).collect()
}

/// Seconds since midnight.
const fn time(hours: u64, minutes: u64, seconds: u64) -> Tick {
    (hours * 60 + minutes) * 60 + seconds
}

/// Three levels of ten, 20, 200 and 2000 ms a bucket. The tutorial runs 23 ms at 20 and 230 ms at 220: deadlines are
/// rounded down there.
/// Scenario S-01.
#[test]
fn s01_three_levels_of_ten_buckets_never_early() {
    let mut service = Service::with_tick(20, 10);
    for delay in [5, 23] {
        service.after(delay, delay);
    }
    let far = service.after(230, 230);
    assert_eq!(service.wheel().bucket_of(far), Some((1, 200 / 20)), "in the second level, bucket 200 to 400 ms");

    assert_eq!(service.run_to(199), [(5, 20), (23, 40)]);
    service.silent_to(200);
    assert_eq!(service.wheel().bucket_of(far), Some((0, 240 / 20)), "moved down at 200");
    service.silent_to(239);
    assert_eq!(service.run_to(10_000), [(230, 240)]);
    assert_eq!(service.wheel().level_stats().map(|level| level.cascaded).sum::<u64>(), 1, "one move");

    assert_eq!(service.wheel().bucket_ticks(2), None, "the third level is made on demand");
    service.after(2000, 2000);
    assert_eq!([0, 1, 2].map(|level| service.wheel().bucket_ticks(level)), [1, 10, 100].map(Some));
}

/// Scenario S-02.
#[test]
fn s02_a_bucket_is_free_again_when_its_tick_has_passed() {
    let mut service = Service::new(8);
    let near = service.after(2, "near");
    assert_eq!((service.wheel().bucket_of(near), service.wheel().depth()), (Some((0, 2)), 1));
    let far = service.after(21, "far");
    assert_eq!(service.wheel().bucket_of(far), Some((1, 16)), "21 needs a second level, 8 ms a bucket");
    assert_eq!((service.wheel().bucket_ticks(1), service.wheel().depth()), (Some(8), 2));
    assert_eq!(service.run_to(100), [("near", 2), ("far", 21)]);

    // The tutorial's placement, relative to now: at 1 bucket 0 serves tick 8.
    let mut scheme = HierarchicalWheel::new(8);
    let handles = [2, 21, 1, 8].map(|deadline| scheme.start(deadline, deadline));
    assert_eq!(handles.map(|handle| scheme.level_and_slot(handle)), [(0, 2), (1, 2), (0, 1), (1, 1)].map(Some));
    assert_eq!(expired(&mut scheme, 1), [1]);
    let reused = scheme.start(8, 80);
    assert_eq!(scheme.level_and_slot(reused), Some((0, 0)));
    assert_eq!(expired(&mut scheme, 2), [2]);
    assert_eq!(expired(&mut scheme, 8), [8, 80], "in the order of the starts");
    assert_eq!(expired(&mut scheme, 20), []);
    assert_eq!(expired(&mut scheme, 21), [21]);
}

/// With the clock at 1 the tutorial's level 0 reaches to tick 20, in bucket 0, and the wheel's still to tick 19.
/// Scenario S-02b.
#[test]
fn s02b_the_same_deadline_from_two_phases() {
    for (phase, delay) in [(0, 21), (1, 20)] {
        let mut service = Service::new(20);
        service.silent_to(phase);
        let timer = service.after(delay, "timer");
        assert_eq!(service.wheel().bucket_of(timer), Some((1, 20)), "the next turn, so the second level");
        service.silent_to(20);
        assert_eq!(service.run_to(100), [("timer", 21)]);
    }

    let mut scheme = HierarchicalWheel::new(20);
    let at_0 = [1, 19, 20, 21].map(|deadline| scheme.start(deadline, deadline));
    assert_eq!(at_0.map(|handle| scheme.level_and_slot(handle)), [(0, 1), (0, 19), (1, 1), (1, 1)].map(Some));
    assert_eq!(expired(&mut scheme, 1), [1]);
    let at_1 = [20, 21].map(|deadline| scheme.start(deadline, 10 * deadline));
    assert_eq!(at_1.map(|handle| scheme.level_and_slot(handle)), [(0, 0), (1, 1)].map(Some), "bucket 0 is 20 to 21");
    assert_eq!(expired(&mut scheme, 20), [19, 20, 200]);
    assert_eq!(expired(&mut scheme, 21), [21, 210]);
}

/// Scenario S-03.
#[test]
fn s03_levels_of_1_7_and_49_seconds() {
    let mut service = Service::with_tick(1000, 7);
    let timers = [15, 50].map(|seconds| service.after(seconds * 1000, seconds));
    assert_eq!(timers.map(|timer| service.wheel().bucket_of(timer)), [(1, 14), (2, 49)].map(Some));
    assert_eq!([0, 1, 2, 3].map(|level| service.wheel().bucket_ticks(level)), [Some(1), Some(7), Some(49), None]);
    assert_eq!(service.wheel().horizon(), 343);
    service.silent_to(13_999);
    assert_eq!(service.wheel().bucket_of(timers[0]), Some((1, 14)));
    service.silent_to(14_000);
    assert_eq!(service.wheel().bucket_of(timers[0]), Some((0, 15)), "one second is left");
    assert_eq!(service.run_to(100_000), [(15, 15_000), (50, 50_000)]);

    let mut scheme = HierarchicalWheel::new(7);
    let [_, near, far] = [9, 15, 50].map(|deadline| scheme.start(deadline, deadline));
    assert_eq!([near, far].map(|handle| scheme.level_and_slot(handle)), [(1, 2), (2, 1)].map(Some));
    assert_eq!(expired(&mut scheme, 9), [9]);
    // The clock of the second level is 9 - 9 % 7 = 7, from where a turn reaches to 56.
    let edge = [55, 56].map(|deadline| scheme.start(deadline, deadline));
    assert_eq!(edge.map(|handle| scheme.level_and_slot(handle)), [(1, 0), (2, 1)].map(Some));
    assert_eq!(expired(&mut scheme, 14), []);
    assert_eq!(scheme.level_and_slot(near), Some((0, 1)));
    for deadline in [15, 50, 55, 56] {
        assert_eq!(expired(&mut scheme, deadline - 1), []);
        assert_eq!(expired(&mut scheme, deadline), [deadline]);
    }
}

/// The tutorial's simple wheel puts 15 s into the bucket of 5 s; ours keeps it in the overflow list until its turn.
/// Scenario S-04.
#[test]
fn s04_a_simple_wheel_of_ten_keeps_15_seconds_for_turn_two() {
    let mut scheme = SimpleWheel::new(10);
    for deadline in [1, 3, 9, 15] {
        scheme.start(deadline, deadline);
    }
    let runs: Vec<_> =
        (0..=20).flat_map(|now| expired(&mut scheme, now).into_iter().map(move |id| (now, id))).collect();
    assert_eq!(runs, [1, 3, 9, 15].map(|second| (second, second)), "nothing at 5");

    let mut service = Service::with_tick(1000, 10);
    let timers = [1, 3, 9, 15].map(|second| service.after(second * 1000, second));
    let buckets = [(0, 1), (0, 3), (0, 9), (1, 10)].map(Some);
    assert_eq!(timers.map(|timer| service.wheel().bucket_of(timer)), buckets, "the hierarchy holds 15 s");
    assert_eq!(service.run_to(20_000), [1, 3, 9, 15].map(|second| (second, second * 1000)));
}

/// Scenario S-05.
#[test]
fn s05_two_wake_ups_instead_of_848_empty_ticks() {
    let mut ticking = HashedWheelWithRounds::new(1000);
    for deadline in [200, 850] {
        ticking.start(deadline, deadline);
    }
    let busy: Vec<Tick> = (1..=850).filter(|now| !expired(&mut ticking, *now).is_empty()).collect();
    assert_eq!(busy, [200, 850]);
    assert_eq!((busy[0] - 1, busy[1] - busy[0] - 1), (199, 649), "empty ticks");

    let mut service = Service::with_tick(1000, 1000);
    for seconds in [200, 850] {
        service.after(seconds * 1000, seconds);
    }
    assert_eq!(service.run_to(1_000_000), [(200, 200_000), (850, 850_000)]);
    assert_eq!(service.wake_ups(), [(200_000, 1), (850_000, 1)], "none for nothing");
}

/// Scenario S-06.
#[test]
fn s06_an_unordered_list_looks_at_every_timer_in_every_period() {
    let mut scheme = UnorderedList::new();
    for (id, remaining) in [5, 3, 1, 7, 2, 1].into_iter().enumerate() {
        scheme.start(remaining, id as u64);
    }
    assert_eq!(scheme.steps(), 0, "START: O(1)");
    assert_eq!(expired(&mut scheme, 1), [2, 5], "both of 1 s");
    assert_eq!((scheme.len(), scheme.steps()), (4, 6), "PER TICK: O(n)");
    assert_eq!(expired(&mut scheme, 2), [4], "the one of 2 s");
    assert_eq!((scheme.len(), scheme.steps()), (3, 6 + 4));
    // After the first period 4, 2, 6 and 1 s were left.
    assert_eq!([3, 5, 7].map(|now| expired(&mut scheme, now)), [[1], [0], [3]]);
}

/// Scenario S-07.
#[test]
fn s07_an_ordered_list_expires_its_head_up_to_the_first_later() {
    let mut scheme = OrderedList::new();
    for (id, deadline) in [time(12, 40, 10), time(12, 41, 0), time(12, 43, 0), time(12, 44, 0)].into_iter().enumerate()
    {
        scheme.start(deadline, id as u64);
    }
    let before = scheme.steps();
    scheme.start(time(12, 41, 30), 9);
    assert_eq!(scheme.steps() - before, 3, "START: past two later timers, to an earlier one");

    let mut periods = Vec::new();
    for minute in 40..=44 {
        let before = scheme.steps();
        let ids = expired(&mut scheme, time(12, minute, 0));
        periods.push((minute, ids, scheme.steps() - before));
    }
    let [none, due, inserted, third, last] =
        [(40, vec![], 1), (41, vec![0, 1], 3), (42, vec![9], 2), (43, vec![2], 2), (44, vec![3], 1)];
    assert_eq!(periods, [none, due, inserted, third, last], "due timers, and a look at the first later one");

    for deadline in 1..=1000 {
        scheme.start(time(13, 0, deadline), deadline);
    }
    let before = scheme.steps();
    scheme.start(time(13, 0, 0), 0);
    assert_eq!(scheme.steps() - before, 1000, "START: O(n)");
    assert_eq!(expired(&mut scheme, time(12, 59, 0)), []);
    assert_eq!(scheme.steps() - before, 1000 + 1, "PER TICK: O(1)");
}

/// The tutorial hashes by tens of seconds. Ours takes the deadline modulo the ring: of 31 buckets, so that the three of
/// hash 00 share one here, too.
/// Scenario S-08.
#[test]
fn s08_a_hashed_wheel_with_sorted_lists_after_612_periods() {
    let noon = time(12, 0, 0);
    let bucket = |deadline| (deadline - noon) % 31;
    assert_eq!([time(12, 0, 1), time(12, 2, 5), time(12, 15, 0), time(12, 9, 21)].map(bucket), [1, 1, 1, 3]);
    let mut scheme = HashedWheelWithSortedLists::new(31);
    for deadline in [time(12, 0, 1), time(12, 2, 5), time(12, 15, 0), time(12, 9, 21)] {
        scheme.start(deadline - noon, deadline);
    }
    let periods = time(12, 10, 12) - noon;
    assert_eq!(periods, 612);
    let ids: Vec<u64> = (1..=periods).flat_map(|now| expired(&mut scheme, now)).collect();
    assert_eq!(ids, [time(12, 0, 1), time(12, 2, 5), time(12, 9, 21)]);
    assert_eq!(scheme.len(), 1);
    assert_eq!(expired(&mut scheme, time(12, 15, 0) - noon), [time(12, 15, 0)]);
}

/// The tutorial expires 12:20:01 with its 20th visit, at 12:19:01: a round early.
/// Scenario S-09.
#[test]
fn s09_a_hashed_wheel_with_rounds_is_not_a_round_early() {
    let noon = time(12, 0, 0);
    let mut scheme = HashedWheelWithRounds::new(60);
    let timers = [time(12, 41, 0), time(12, 20, 1)].map(|deadline| scheme.start(deadline - noon, deadline));
    assert_eq!(timers.map(|timer| scheme.rounds_and_slot(timer)), [(41, 0), (20, 1)].map(Some));
    let mut runs = Vec::new();
    for now in 1..=time(1, 0, 0) {
        runs.extend(expired(&mut scheme, now).into_iter().map(|id| (now + noon, id)));
        if now == time(12, 19, 1) - noon {
            // The present visit counts as passed with the next tick.
            assert_eq!(scheme.rounds_and_slot(timers[1]), Some((1, 1)), "19 visits passed, and this is the 20th");
        }
    }
    assert_eq!(runs, [time(12, 20, 1), time(12, 41, 0)].map(|deadline| (deadline, deadline)));
}

/// Scenario S-10.
#[test]
fn s10_hours_minutes_and_seconds_are_levels_of_different_size() {
    let mut scheme = HierarchicalWheel::with_sizes(&[60, 60], 24);
    let timer = scheme.start(time(3, 59, 4), 1);
    let mut places = Vec::new();
    for now in 0..time(3, 59, 4) {
        assert_eq!(expired(&mut scheme, now), []);
        let place = scheme.level_and_slot(timer).unwrap();
        if places.last().is_none_or(|(_, last)| *last != place) {
            places.push((now, place));
        }
    }
    assert_eq!(
        places,
        [(0, (2, 3)), (time(3, 0, 0), (1, 59)), (time(3, 59, 0), (0, 4))],
        "hour 3, minute 59, second 4"
    );
    assert_eq!(expired(&mut scheme, time(3, 59, 4)), [1]);

    // Three levels reach to the end of the day; the hours are a level of 24 buckets, not of 60.
    let mut scheme = HierarchicalWheel::with_sizes(&[60, 60], 24);
    let last = scheme.start(time(23, 59, 59), 1);
    assert_eq!((scheme.level_and_slot(last), scheme.depth()), (Some((2, 23)), 3));
    let tomorrow = scheme.start(time(24, 0, 0), 2);
    assert_eq!((scheme.level_and_slot(tomorrow), scheme.depth()), (Some((3, 1)), 4));
    assert_eq!(expired(&mut scheme, time(23, 59, 59)), [1]);
    assert_eq!(expired(&mut scheme, time(24, 0, 0)), [2]);
}

/// Scenario S-11.
#[test]
fn s11_five_levels_of_60_seconds_span_24_years() {
    const SPAN: u64 = 777_600_000;
    assert_eq!((60u64.pow(5), SPAN / 3600), (SPAN, 216_000));
    let mut service = Service::with_tick(1000, 60);
    let near = [59, 60].map(|seconds| service.after(seconds * 1000, seconds));
    assert_eq!(near.map(|timer| service.wheel().bucket_of(timer)), [(0, 59), (1, 60)].map(Some));
    let far = service.after((SPAN - 1) * 1000, SPAN - 1);
    assert_eq!(service.wheel().bucket_of(far).map(|(level, _)| level), Some(4));
    assert_eq!((service.wheel().depth(), service.wheel().horizon()), (5, SPAN));
    let beyond = service.after(SPAN * 1000, SPAN);
    assert_eq!((service.wheel().bucket_of(beyond), service.wheel().depth()), (Some((5, SPAN)), 6), "made on demand");
    let deadlines = [59, 60, SPAN - 1, SPAN].map(|seconds| (seconds, seconds * 1000));
    assert_eq!(service.run_to(SPAN * 1000), deadlines);
}

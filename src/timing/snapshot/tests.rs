//! Tests of snapshots.

use super::*;
use crate::timing::level::WheelSize;
use crate::timing::tick::MAX_TICK;

#[test]
fn buckets_are_read_from_a_tick_on() {
    let mut wheel = Wheel::new(WheelSize::new(4).unwrap());
    for deadline in [1, 3, 3, 9] {
        wheel.insert(0, deadline, ()).unwrap();
    }
    let counts: Vec<_> = wheel.buckets_from(0, 2).map(|bucket| (bucket.start, bucket.entries)).collect();
    assert_eq!(counts, [(3, 2)]);
    assert_eq!(wheel.buckets_from(1, 0).next().unwrap().start, 8);
}

/// Compares the starts, which are computed from slots, with the deadlines of the entries.
fn check<T>(wheel: &Wheel<T>) {
    let mut seen = 0;
    for stats in wheel.level_stats() {
        let buckets: Vec<BucketSnapshot> = wheel.buckets_from(stats.level, 0).collect();
        assert!(buckets.windows(2).all(|pair| pair[0].start < pair[1].start));
        assert_eq!(buckets.len(), stats.occupied);
        for bucket in buckets {
            let entries: Vec<_> = wheel.entries_of_bucket(stats.level, bucket.start).collect();
            assert_eq!(entries.len(), bucket.entries);
            seen += entries.len();
            for key in entries {
                assert_eq!(wheel.deadline(key).unwrap() / stats.bucket_ticks * stats.bucket_ticks, bucket.start);
                assert_eq!(wheel.bucket_of(key), Some((stats.level, bucket.start)));
            }
            let later = wheel.buckets_from(stats.level, bucket.start + 1).next();
            assert!(later.is_none_or(|later| later.start > bucket.start));
            assert_eq!(wheel.entries_of_bucket(stats.level, bucket.start + 1).count(), {
                let is_next = later.is_some_and(|later| later.start == bucket.start + 1);
                if is_next { later.map_or(0, |later| later.entries) } else { 0 }
            });
        }
    }
    assert_eq!(seen, wheel.level_stats().map(|stats| stats.entries).sum::<usize>());
    let first = wheel.iter().map(|(_, deadline, _)| deadline).min();
    let untils = first.map_or([0, MAX_TICK, wheel.clock()], |first| [first, first.saturating_sub(1), wheel.clock()]);
    for until in untils {
        assert_eq!(wheel.has_due_by(until), first.is_some_and(|first| first <= until));
    }
}

#[test]
fn buckets_are_where_their_entries_say_also_amid_cascades() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for size in [2, 3, 8, 20] {
        let mut wheel = Wheel::new(WheelSize::new(size).unwrap());
        let mut now = 0;
        for _ in 0..600 {
            for _ in 0..next(4) {
                let reach = size.pow(1 + next(4) as u32) as u64;
                wheel.insert(now, now + next(reach), ()).unwrap();
            }
            now += next(size as u64);
            wheel.advance(now, next(6) as usize, &mut Vec::new());
            wheel.prepare(now, 1, next(4) as usize);
            check(&wheel);
        }
    }
}

#[test]
fn a_missing_level_or_bucket_is_empty() {
    let mut wheel = Wheel::new(WheelSize::default());
    check(&wheel);
    wheel.insert(0, u64::MAX, ()).unwrap();
    check(&wheel);
    assert_eq!(wheel.buckets_from(99, 0).count() + wheel.buckets_from(0, u64::MAX).count(), 0);
    assert_eq!(wheel.entries_of_bucket(99, 0).count() + wheel.entries_of_bucket(0, 5).count(), 0);
    assert_eq!(wheel.stats_of_level(99), None);
    let top = wheel.depth() - 1;
    assert_eq!(wheel.buckets_from(top, 0).map(|bucket| bucket.entries).collect::<Vec<_>>(), [1]);
}

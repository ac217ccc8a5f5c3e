//! The seven schemes by example. Random runs against the wheel are in `wheel_model`.

use schemes::random::Random;
use schemes::{Expiry, Scheme, Tick};

/// Returns the expirations of `scheme` up to `now`, as pairs of deadline and id.
fn expired(scheme: &mut dyn Scheme, now: Tick) -> Vec<(Tick, u64)> {
    let mut expired: Vec<Expiry> = Vec::new();
    scheme.per_tick(now, &mut expired);
    expired.into_iter().map(|expiry| (expiry.deadline, expiry.id)).collect()
}

#[test]
fn a_timer_expires_at_its_tick_and_not_before() {
    for mut scheme in schemes::all(8) {
        for deadline in [1, 7, 8, 9, 63, 64, 65, 511, 512] {
            scheme.start(deadline, deadline);
        }
        for now in 0..=512 {
            let expected: &[(Tick, u64)] =
                if [1, 7, 8, 9, 63, 64, 65, 511, 512].contains(&now) { &[(now, now)] } else { &[] };
            assert_eq!(expired(scheme.as_mut(), now), expected, "{} at {now}", scheme.name());
        }
        assert_eq!(scheme.len(), 0);
    }
}

#[test]
fn equal_deadlines_keep_the_order_of_their_starts_on_every_path() {
    for mut scheme in schemes::all(20) {
        // far away at its start, near when the others start: the example that makes the hierarchical scheme sort
        scheme.start(25, 1);
        scheme.start(10, 0);
        assert_eq!(expired(scheme.as_mut(), 10), [(10, 0)]);
        scheme.start(25, 2);
        assert_eq!(expired(scheme.as_mut(), 21), []);
        scheme.start(25, 3);
        assert_eq!(expired(scheme.as_mut(), 25), [(25, 1), (25, 2), (25, 3)], "{}", scheme.name());
    }
}

#[test]
fn a_jump_brings_everything_out_in_order() {
    for mut scheme in schemes::all(4) {
        for deadline in [1_000_000, 257, 64, 17, 64, 5, 3, u64::MAX - 1] {
            scheme.start(deadline, deadline);
        }
        let deadlines = [3, 5, 17, 64, 64, 257, 1_000_000].map(|deadline| (deadline, deadline));
        assert_eq!(expired(scheme.as_mut(), 1 << 40), deadlines, "{}", scheme.name());
        assert_eq!(expired(scheme.as_mut(), u64::MAX - 2), []);
        assert_eq!(expired(scheme.as_mut(), u64::MAX - 1), [(u64::MAX - 1, u64::MAX - 1)]);
    }
}

#[test]
fn a_past_deadline_is_due_in_the_next_call_at_the_same_time() {
    for mut scheme in schemes::all(8) {
        assert_eq!(expired(scheme.as_mut(), 100), []);
        scheme.start(100, 1);
        assert_eq!(expired(scheme.as_mut(), 99), [], "time does not go back");
        assert_eq!(expired(scheme.as_mut(), 100), [(100, 1)], "{}", scheme.name());
    }
}

#[test]
fn a_stopped_timer_is_gone_and_its_handle_stays_dead() {
    for mut scheme in schemes::all(8) {
        let first = scheme.start(10, 1);
        let second = scheme.start(10, 2);
        assert!(scheme.stop(first));
        assert!(!scheme.stop(first));
        let third = scheme.start(10, 3);
        assert!(!scheme.stop(first), "{}: a stale handle stops no other timer", scheme.name());
        assert_eq!(scheme.len(), 2);
        assert_eq!(expired(scheme.as_mut(), 10), [(10, 2), (10, 3)]);
        assert!(!scheme.stop(second) && !scheme.stop(third));
    }
}

#[test]
fn the_dice_are_fair_enough_and_always_the_same() {
    let mut counts = [0; 10];
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        counts[random.index(10)] += 1;
    }
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    assert_eq!(Random::new(7).next(), Random::new(7).next());
    assert_ne!(Random::new(7).next(), Random::new(8).next());
    let magnitudes: Vec<u32> = (0..1000).map(|_| u64::BITS - random.magnitude(64).leading_zeros()).collect();
    assert!((0..=64).all(|bits| magnitudes.contains(&bits)), "every magnitude comes up");
    let mut items: Vec<u64> = (0..100).collect();
    random.shuffle(&mut items);
    assert!(!items.is_sorted());
    items.sort_unstable();
    assert!(items.into_iter().eq(0..100), "nothing is lost");
}

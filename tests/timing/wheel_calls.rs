//! The calls of the wheel one by one, where random runs would not notice a difference.

use actix_timers::timing::{Advance, MAX_TICK, Step, Wheel, WheelSize};

fn wheel_of<T>(size: usize) -> Wheel<T> {
    Wheel::new(WheelSize::new(size).unwrap())
}

#[test]
fn the_value_of_a_live_key_can_be_read_and_changed() {
    let mut wheel = wheel_of(8);
    let key = wheel.insert(0, 100, "first".to_owned()).unwrap();
    wheel.get_mut(key).unwrap().push_str(" and second");
    assert_eq!(wheel.get(key).unwrap(), "first and second");
    assert_eq!(wheel.cancel(key).unwrap(), "first and second");
    assert_eq!(wheel.get(key), None);
    assert_eq!(wheel.get_mut(key), None);
}

#[test]
fn a_short_delay_after_an_idle_time_needs_no_upper_level() {
    let mut wheel = wheel_of(20);
    let key = wheel.insert(1_000_000_000, 1_000_000_005, ()).unwrap();
    assert_eq!((wheel.depth(), wheel.bucket_of(key)), (1, Some((0, 1_000_000_005))));
    assert_eq!(wheel.snapshot().clock, 1_000_000_000);
    wheel.cancel(key);
    let key = wheel.insert(2_000_000_000, 2_000_000_007, ()).unwrap();
    assert_eq!((wheel.snapshot().clock, wheel.bucket_of(key)), (2_000_000_000, Some((0, 2_000_000_007))));
}

#[test]
fn late_insertions_do_not_overtake_overdue_entries() {
    let mut wheel = wheel_of(4);
    wheel.insert(0, 5, "overdue").unwrap();
    wheel.insert(1000, 3, "past").unwrap();
    wheel.insert(1000, 1000, "now").unwrap();
    let mut due = Vec::new();
    assert_eq!(wheel.advance(1000, usize::MAX, &mut due), Advance::Done);
    let due: Vec<_> = due.iter().map(|expired| (expired.deadline, expired.value)).collect();
    assert_eq!(due, [(5, "overdue"), (1000, "past"), (1000, "now")]);
}

#[test]
fn without_a_budget_nothing_moves_and_nothing_is_reported_done() {
    let mut wheel = wheel_of(4);
    let mut budget = 0;
    assert_eq!(wheel.expire(10, &mut budget), Step::Done, "nothing is due");
    let key = wheel.insert(10, 10, ()).unwrap();
    assert_eq!(wheel.expire(10, &mut budget), Step::Exhausted);
    assert_eq!(wheel.advance(10, 0, &mut Vec::new()), Advance::Exhausted);
    assert!(wheel.is_waiting(key));
    budget = 1;
    assert_eq!((wheel.expire(10, &mut budget), budget), (Step::Expired(key), 0));
    assert_eq!(wheel.expire(10, &mut budget), Step::Done);
}

#[test]
fn an_expired_entry_lives_until_it_is_removed_and_can_go_back() {
    let mut wheel = wheel_of(4);
    let mut budget = usize::MAX;
    let key = wheel.insert(0, 1, 'a').unwrap();
    assert_eq!(wheel.remove(key), None, "a waiting timer cannot be removed");
    assert_eq!(wheel.expire(1, &mut budget), Step::Expired(key));
    assert_eq!((wheel.len(), wheel.get(key), wheel.deadline(key)), (1, Some(&'a'), Some(1)));
    assert_eq!((wheel.is_waiting(key), wheel.cancel(key)), (false, None));
    assert!(wheel.reschedule(1, key, 7), "a periodic timer is armed again under its key");
    assert_eq!((wheel.is_waiting(key), wheel.deadline(key)), (true, Some(7)));
    assert_eq!(wheel.expire(7, &mut budget), Step::Expired(key));
    assert_eq!(wheel.remove(key), Some('a'));
    assert!(wheel.is_empty() && !wheel.reschedule(7, key, 9));
}

#[test]
fn the_last_tick_of_all_can_be_reached_and_lived_in() {
    let mut wheel = wheel_of(256);
    wheel.insert(0, u64::MAX, 1).unwrap();
    wheel.insert(0, MAX_TICK, 2).unwrap();
    let mut due = Vec::new();
    assert_eq!(wheel.advance(MAX_TICK - 1, usize::MAX, &mut due), Advance::Done);
    assert_eq!((due.len(), wheel.next_expiration()), (0, Some(MAX_TICK)));
    assert_eq!(wheel.advance(u64::MAX, usize::MAX, &mut due), Advance::Done);
    wheel.insert(u64::MAX, 0, 3).unwrap();
    assert_eq!(wheel.advance(u64::MAX, usize::MAX, &mut due), Advance::Done);
    let due: Vec<_> = due.iter().map(|expired| (expired.deadline, expired.value)).collect();
    assert_eq!(due, [(MAX_TICK, 1), (MAX_TICK, 2), (MAX_TICK, 3)]);
}

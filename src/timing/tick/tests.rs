//! Tests of ticks: limits, rounding, the end of the range.

use super::*;

fn tick(length: Duration) -> TickLength {
    TickLength::new(length).unwrap()
}

#[test]
fn only_ticks_between_a_microsecond_and_a_day_are_accepted() {
    for refused in [
        Duration::ZERO,
        Duration::from_nanos(1),
        MIN_TICK_LENGTH - Duration::from_nanos(1),
        MAX_TICK_LENGTH + Duration::from_nanos(1),
        Duration::MAX,
    ] {
        assert_eq!(TickLength::new(refused), Err(TimingError::TickLength(refused)));
    }
    for accepted in [MIN_TICK_LENGTH, Duration::from_millis(1), MAX_TICK_LENGTH] {
        assert_eq!(tick(accepted).length(), accepted);
    }
    assert_eq!(TickLength::default(), tick(Duration::from_millis(1)));
}

#[test]
fn deadlines_round_up_and_now_rounds_down() {
    let ten = tick(Duration::from_millis(10));
    for (nanos, up, down) in
        [(0, 0, 0), (1, 1, 0), (9_999_999, 1, 0), (10_000_000, 1, 1), (10_000_001, 2, 1), (20_000_000, 2, 2)]
    {
        let time = Duration::from_nanos(nanos);
        assert_eq!((ten.round_up(time), ten.round_down(time)), (up, down), "{time:?}");
    }
}

#[test]
fn the_tick_of_a_deadline_never_begins_before_it() {
    for length in [1_000, 1_001, 999_999, 1_000_000, 7_777_777, 86_400_000_000_000] {
        let tick = tick(Duration::from_nanos(length));
        for nanos in (0..3 * length).step_by((length / 7) as usize + 1).take(50).chain([length - 1, length, length + 1])
        {
            let time = Duration::from_nanos(nanos);
            assert!(tick.time_of(tick.round_up(time)) >= time);
            assert!(tick.time_of(tick.round_down(time)) <= time);
            assert!(tick.round_up(time) - tick.round_down(time) <= 1);
        }
    }
}

#[test]
fn the_end_of_the_range_saturates() {
    let micro = tick(MIN_TICK_LENGTH);
    assert_eq!(micro.round_up(Duration::MAX), MAX_TICK);
    assert_eq!(micro.round_down(Duration::MAX), MAX_TICK - 1, "the last tick never comes");
    let day = tick(MAX_TICK_LENGTH);
    assert_eq!(day.round_up(Duration::MAX), (u64::MAX / 86_400) + 1);
    assert_eq!(day.time_of(MAX_TICK), Duration::MAX);
    assert_eq!(micro.time_of(MAX_TICK), Duration::from_micros(MAX_TICK));
    // The u64 and the u128 branch agree where they meet.
    let edge = Duration::from_nanos(u64::MAX);
    assert_eq!(micro.round_up(edge), u64::MAX.div_ceil(1000));
    assert_eq!(micro.round_up(edge + Duration::from_nanos(1)), (u128::from(u64::MAX) + 1).div_ceil(1000) as u64);
    assert_eq!(micro.round_down(edge + Duration::from_nanos(1)), ((u128::from(u64::MAX) + 1) / 1000) as u64);
}

//! Tests of recurrences: next due times, ends, wall-clock times, memory.

use super::*;

const ALL: [MissedTickBehavior; 3] = [MissedTickBehavior::Skip, MissedTickBehavior::Burst, MissedTickBehavior::Delay];

fn n(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn at(nanos: u64) -> ClockReading {
    ClockReading { time: n(nanos), wall: Some(n(nanos)) }
}

#[test]
fn every_small_grid_agrees_with_counting_along_it() {
    for due in 0..12 {
        for period in 1..8 {
            for now in due..40 {
                // Along the grid, one point after the other.
                let later = (1..).map(|k| due + k * period);
                let coming = later.clone().find(|point| *point > now).unwrap();
                let missed = later.take_while(|point| *point <= now).count();
                let expected = |behaviour| match behaviour {
                    _ if missed == 0 => due + period,
                    MissedTickBehavior::Skip => coming,
                    MissedTickBehavior::Burst => due + period,
                    MissedTickBehavior::Delay => now + period,
                };
                for behaviour in ALL {
                    let next = next_on_grid(n(due), n(period), behaviour, n(now));
                    assert_eq!(next, n(expected(behaviour)), "{behaviour:?} {due} {period} {now}");
                }
            }
        }
    }
}

#[test]
fn the_ends_of_the_range_saturate() {
    let times = [Duration::ZERO, n(1), Duration::from_secs(1 << 40), Duration::MAX - n(1), Duration::MAX];
    for due in times {
        for period in times {
            for now in times {
                for behaviour in ALL {
                    let next = next_on_grid(due, period, behaviour, now);
                    assert!(next >= due.min(now), "{behaviour:?} {due:?} {period:?} {now:?}");
                    let mode = RepeatMode::FixedRate { period, missed: behaviour };
                    let recurrence = Recurrence::new(mode, due).until(Duration::MAX);
                    let now = ClockReading { time: now, wall: Some(now) };
                    assert_ne!(recurrence.after_this(now, true), NextRun::Never);
                }
            }
        }
    }
}

#[test]
fn one_counted_from_its_handler_is_due_after_it_and_not_after_the_end() {
    let mut recurrence = Recurrence::new(RepeatMode::FixedDelay { period: n(10) }, n(5)).until(n(20));
    assert_eq!(recurrence.begin_again(at(10)), NextRun::At { due: n(20), wall: None });
    assert_eq!(recurrence.due, n(20));
    assert_eq!(recurrence.begin_again(at(11)), NextRun::Never);
}

#[test]
fn a_repetition_is_due_at_the_end_and_none_after_it() {
    let mode = RepeatMode::FixedRate { period: n(10), missed: MissedTickBehavior::Burst };
    let until = |end| Recurrence::new(mode, n(10)).until(n(end));
    assert!(until(9).is_empty(at(0)));
    assert!(!until(10).is_empty(at(0)));
    assert_eq!(until(19).after_this(at(10), false), NextRun::Never);
    assert_eq!(until(20).after_this(at(10), false), NextRun::At { due: n(20), wall: None });
    // A repetition that is made up for counts with its due time.
    assert_eq!(until(20).after_this(at(500), false), NextRun::At { due: n(20), wall: None });
    assert_eq!(until(19).after_this(at(500), false), NextRun::Never);
}

#[test]
fn a_step_past_the_end_ends_it_and_an_unevenness_does_not() {
    let recurrence = Recurrence::new(RepeatMode::FixedDelay { period: n(10) }, n(10)).until(n(10));
    assert!(!recurrence.is_over(None, at(10)));
    let wall = |wall| ClockReading { time: n(10), wall: Some(wall) };
    assert!(!recurrence.is_over(None, wall(n(10) + TOLERANCE)));
    assert!(recurrence.is_over(None, wall(n(11) + TOLERANCE)));
    // Of a repetition at a wall-clock time that counts, however late it is.
    assert!(!recurrence.is_over(Some(n(10)), wall(n(500))));
    assert!(recurrence.is_over(Some(n(11)), wall(n(11))));
}

#[test]
fn a_requested_run_comes_before_the_planned_one() {
    let mode = RepeatMode::FixedRate { period: n(10), missed: MissedTickBehavior::Skip };
    let mut recurrence = Recurrence::new(mode, n(10));
    recurrence.ask(NextRun::Never);
    assert_eq!(recurrence.advance(NextRun::At { due: n(20), wall: None }), NextRun::Never);
}

#[test]
fn one_that_was_moved_and_came_early_goes_on_from_when_it_came() {
    let mode = RepeatMode::FixedRate { period: n(10), missed: MissedTickBehavior::Skip };
    let recurrence = Recurrence::new(mode, n(1000));
    assert_eq!(recurrence.after_this(at(100), false), NextRun::At { due: n(110), wall: None });
}

#[test]
fn a_time_of_day_is_as_far_away_as_the_wall_clock_says() {
    let recurrence = Recurrence::new(RepeatMode::Calendar, n(0)).until(n(90));
    let now = ClockReading { time: n(5), wall: Some(n(70)) };
    assert_eq!(recurrence.on_wall_clock(n(80), now), NextRun::At { due: n(15), wall: Some(n(80)) });
    assert_eq!(recurrence.on_wall_clock(n(60), now), NextRun::At { due: n(5), wall: Some(n(60)) });
    assert_eq!(recurrence.on_wall_clock(n(90), now), NextRun::At { due: n(25), wall: Some(n(90)) });
    assert_eq!(recurrence.on_wall_clock(n(91), now), NextRun::Never);
}

#[test]
fn no_time_of_day_comes_after_the_last_repetition() {
    let recurrence = Recurrence::new(RepeatMode::Calendar, n(0)).times(1);
    assert_eq!(recurrence.on_wall_clock(n(80), at(5)), NextRun::Never);
}

#[test]
fn only_an_end_or_a_calendar_needs_the_wall_clock() {
    let periodic = Recurrence::new(RepeatMode::FixedDelay { period: n(10) }, n(10)).times(3).slack(n(2)).at(n(7));
    assert!(!periodic.needs_wall_clock());
    assert!(periodic.until(n(50)).needs_wall_clock());
    assert!(Recurrence::new(RepeatMode::Calendar, n(10)).needs_wall_clock());
}

#[test]
fn slack_moves_a_deadline_to_a_rounder_tick_within_it() {
    let ms = Duration::from_millis;
    let exact = || Recurrence::new(RepeatMode::FixedDelay { period: ms(10) }, ms(1001));
    let tick = TickLength::MILLISECOND;
    assert_eq!(exact().deadline(tick, 1001), 1001);
    assert_eq!(exact().slack(ms(99)).deadline(tick, 1001), 1024);
    assert_eq!(exact().slack(ms(22)).deadline(tick, 1001), 1008);
}

#[test]
fn a_repetition_keeps_its_time_of_day_until_the_next_has_its_own_or_none() {
    let mut recurrence = Recurrence::new(RepeatMode::Calendar, n(10)).at(n(70));
    assert_eq!(recurrence.wall(), Some(n(70)));
    for wall in [Some(n(80)), None, Some(n(30))] {
        recurrence.advance(NextRun::At { due: n(20), wall });
        assert_eq!(recurrence.wall(), wall);
    }
}

/// A record of a heartbeat is small; the bench of sessions depends on it.
#[test]
fn a_plain_recurrence_takes_48_bytes() {
    assert_eq!(size_of::<Recurrence>(), 48);
    let mode = RepeatMode::FixedRate { period: n(10), missed: MissedTickBehavior::Skip };
    let mut recurrence = Recurrence::new(mode, n(0));
    for now in [n(0), n(10), n(25)] {
        let next = recurrence.after_this(at(now.as_nanos() as u64), false);
        recurrence.advance(next);
    }
    assert!(recurrence.details.is_none());
}

//! Timers that follow a cron expression: their times when clocks change, in real time zones and in both directions, and
//! the timer's behaviour when the wall clock is stepped.
#![cfg(feature = "cron")]

use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, Cron, CronError, RescheduleOutcome, ScheduleCron, ScheduleError, Target, TimerActor, TimerContext,
    TimerId, TimerOptions,
};
use jiff::Timestamp;
use support::repeat::{Rejected, times};
use support::{Note, Probe, Way, World, ms, paused, run};

use crate::slow::{open, slow};

fn time(text: &str) -> SystemTime {
    text.parse::<Timestamp>().unwrap().into()
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

/// Returns the first three times of an expression in a zone. All times are of the year 2024, in UTC.
fn occurrences(zone: &str, expression: &str, from: &str) -> [String; 3] {
    let cron = Cron::new(expression).unwrap().in_time_zone(zone).unwrap();
    let mut last = time(&format!("2024-{from}:00Z"));
    [(); 3].map(|()| {
        last = cron.next_after(last).unwrap();
        let text = Timestamp::try_from(last).unwrap().to_string();
        text.strip_prefix("2024-").and_then(|text| text.strip_suffix(":00Z")).unwrap().to_owned()
    })
}

#[test]
fn a_time_in_the_gap_comes_after_it_and_an_interval_skips_it() {
    for (zone, expression, from, expected) in [
        // In Berlin 02:00 is followed by 03:00, which is 01:00 UTC.
        (BERLIN, "30 2 * * *", "03-29T12:00", ["03-30T01:30", "03-31T01:00", "04-01T00:30"]),
        (BERLIN, "30 * * * *", "03-31T00:00", ["03-31T00:30", "03-31T01:30", "03-31T02:30"]),
        (BERLIN, "*/30 2 * * *", "03-30T12:00", ["04-01T00:00", "04-01T00:30", "04-02T00:00"]),
        // In New York 02:00 is followed by 03:00, which is 07:00 UTC.
        (NEW_YORK, "15 2 * * *", "03-09T12:00", ["03-10T07:00", "03-11T06:15", "03-12T06:15"]),
        // On Lord Howe Island 02:00 is followed by 02:30, which is 15:30 UTC.
        (LORD_HOWE, "15 2 * * *", "10-04T16:00", ["10-05T15:30", "10-06T15:15", "10-07T15:15"]),
    ] {
        assert_eq!(occurrences(zone, expression, from), expected, "{expression} in {zone}");
    }
}

/// The day after the gap is none of the expression.
#[test]
fn a_time_in_a_gap_that_ends_at_midnight_comes_after_it() {
    for (expression, then) in
        [("30 23 * * SAT", "04-07T00:30"), ("30 23 30 * *", "05-01T00:30"), ("0 23 * * MON-SAT", "04-02T00:00")]
    {
        let [first, second, _] = occurrences("America/Nuuk", expression, "03-30T12:00");
        assert_eq!([&*first, &*second], ["03-31T01:00", then], "{expression}");
    }
}

/// In Samoa 2011-12-29 was followed by 12-31, and on Kwajalein 1993-08-20 by 08-22.
#[test]
fn a_day_that_a_zone_leaves_out_ends_no_expression() {
    for (zone, expression, from, expected) in [
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"),
        ("Pacific/Apia", "0 0 * * *", "2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z"),
        ("Pacific/Apia", "0 */6 * * *", "2011-12-30T05:00:00Z", "2011-12-30T10:00:00Z"),
        ("Pacific/Apia", "30 9 30 * *", "2011-12-01T00:00:00Z", "2012-01-29T19:30:00Z"),
        ("Pacific/Apia", "30 21 * * *", "2011-12-30T09:00:00Z", "2011-12-31T07:30:00Z"),
        ("Pacific/Apia", "30 22 * * *", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"),
        ("Pacific/Kwajalein", "0 12 * * *", "1993-08-21T00:30:00Z", "1993-08-22T00:00:00Z"),
    ] {
        let cron = Cron::new(expression).unwrap().in_time_zone(zone).unwrap();
        assert_eq!(cron.next_after(time(from)), Some(time(expected)), "{expression} in {zone}");
    }
    let never = Cron::new("0 0 30 2 *").unwrap().in_time_zone("Pacific/Apia").unwrap();
    assert_eq!(never.next_after(time("2011-01-01T00:00:00Z")), None);
}

#[test]
fn a_time_that_comes_twice_counts_once_and_an_interval_twice() {
    for (zone, expression, from, expected) in [
        // In Berlin 03:00 is followed by 02:00, at 01:00 UTC.
        (BERLIN, "30 2 * * *", "10-26T12:00", ["10-27T00:30", "10-28T01:30", "10-29T01:30"]),
        (BERLIN, "30 * * * *", "10-27T00:00", ["10-27T00:30", "10-27T01:30", "10-27T02:30"]),
        // In New York 02:00 is followed by 01:00, at 06:00 UTC.
        (NEW_YORK, "15 1 * * *", "11-02T12:00", ["11-03T05:15", "11-04T06:15", "11-05T06:15"]),
        (NEW_YORK, "*/30 1 * * *", "11-03T05:00", ["11-03T05:30", "11-03T06:00", "11-03T06:30"]),
        // On Lord Howe Island 02:00 is followed by 01:30, at 15:00 UTC.
        (LORD_HOWE, "45 1 * * *", "04-06T12:00", ["04-06T14:45", "04-07T15:15", "04-08T15:15"]),
    ] {
        assert_eq!(occurrences(zone, expression, from), expected, "{expression} in {zone}");
    }
}

#[test]
fn a_time_found_is_never_found_again() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"] {
        for expression in ["*/10 * * * *", "30 1,2 * * *", "0 0 * * *", "*/7 30 2 * * *", "0 9 * * MON-FRI"] {
            let cron = Cron::new(expression).unwrap().in_time_zone(zone).unwrap();
            for from in
                ["2024-03-09T00:00:00.7Z", "2024-03-30T20:00:00Z", "2024-04-06T10:00:00Z", "2024-10-26T20:00:00.2Z"]
            {
                let mut after = time(from);
                for _ in 0..300 {
                    let next = cron.next_after(after).unwrap();
                    assert!(next > after, "{expression} in {zone}: {next:?} after {after:?}");
                    assert_eq!(next.duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos(), 0);
                    after = next;
                }
            }
        }
    }
}

#[test]
fn an_invalid_expression_is_rejected_with_a_reason() {
    for expression in ["", "* * * *", "61 * * * *", "* * * * * * * *", "every day", "0 0 0 0 0", "\u{0}"] {
        let error = Cron::new(expression).unwrap_err();
        assert!(matches!(&error, CronError::Expression { expression: given, .. } if given == expression));
        assert!(error.to_string().contains("is not a cron expression"), "{error}");
    }
    let error = Cron::new("@daily").unwrap().in_time_zone("Europe/Atlantis").unwrap_err();
    assert_eq!(error, CronError::TimeZone("Europe/Atlantis".to_owned()));
    assert_eq!("@daily".parse::<Cron>().unwrap().to_string(), "0 0 * * * (UTC)");
    let local = Cron::new("@hourly").unwrap().in_system_time_zone();
    assert!(local.next_after(time("2024-01-01T00:00:00Z")).is_some());
}

#[test]
fn the_ends_of_time_are_no_trouble() {
    let cron = Cron::new("0 0 * * *").unwrap();
    for far in [u64::MAX / 4, 300_000_000_000, 100_000_000_000].map(Duration::from_secs) {
        let future = SystemTime::UNIX_EPOCH.checked_add(far);
        assert_eq!(future.and_then(|time| cron.next_after(time)), None, "after the year 5000");
        let past = SystemTime::UNIX_EPOCH.checked_sub(far).unwrap();
        assert!(cron.next_after(past).is_none_or(|next| next > past));
    }
    assert_eq!(Cron::new("0 0 30 2 *").unwrap().next_after(SystemTime::UNIX_EPOCH), None);
}

/// Returns a world whose wall clock shows `wall` at the start. Only a manual clock's can be set.
fn world_at(wall: &str) -> World {
    let world = World::manual(TimerActor::builder().wall_clock_check_interval(Duration::from_secs(3600)));
    world.clock().hands.set_wall(time(wall));
    world
}

async fn schedule(
    world: &World,
    way: Way,
    addr: &Addr<Probe<u64>>,
    cron: Cron,
    message: Note<u64>,
) -> Result<TimerId, Rejected<u64>> {
    match way {
        Way::Message => world.timers.addr().send(ScheduleCron::new(addr, cron, message)).await.unwrap(),
        _ => world.repeat_at(way, addr, cron, message).await,
    }
}

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

#[test]
fn a_timer_comes_at_the_times_of_day_through_a_change_of_clocks() {
    for way in Way::ALL {
        paused(async {
            let world = world_at("2024-03-30T00:00:00Z");
            let (addr, log) = world.probe();
            let cron = Cron::new("30 2 * * *").unwrap().in_time_zone(BERLIN).unwrap();
            let id = schedule(&world, way, &addr, cron, Note(1)).await.unwrap();
            assert_eq!(world.timers.get(id).unwrap().period, None);
            world.run_to(72 * HOUR).await;
            assert_eq!(times(&log), [HOUR + HOUR / 2, 25 * HOUR, 48 * HOUR + HOUR / 2], "{way:?}");
            assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            assert_eq!(world.pending(), 0);
        });
    }
}

#[test]
fn an_expression_without_further_times_ends_or_is_rejected() {
    for way in Way::ALL {
        paused(async {
            let world = world_at("2029-12-31T23:59:50Z");
            let (addr, log) = world.probe();
            let once = Cron::new("0 0 0 1 1 * 2030").unwrap();
            let id = schedule(&world, way, &addr, once.clone(), Note(1)).await.unwrap();
            world.run_to(20_000).await;
            assert_eq!(times(&log), [10_000]);
            assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.accepted, counters.delivered, counters.pending), (1, 1, 0));
            for never in [once, Cron::new("0 0 30 2 *").unwrap()] {
                let rejected = schedule(&world, way, &addr, never, Note(7)).await.unwrap_err();
                assert!(matches!(rejected, ScheduleError::NeverDue { .. }));
                assert_eq!(rejected.into_message().next_message(), Note(7));
            }
        });
    }
}

/// The next time comes after the last one and after the present.
#[test]
fn times_that_are_over_do_not_come_again() {
    paused(async {
        let world = world_at("2024-06-01T00:00:00Z");
        let (addr, log) = world.probe();
        let hourly = Cron::new("0 * * * *").unwrap();
        let id = schedule(&world, Way::Direct, &addr, hourly, Note(1)).await.unwrap();
        // Moved back and forth.
        assert!(world.timers.reschedule_after(id, ms(HOUR - 10 * MINUTE)).is_rescheduled());
        world.run_to(2 * HOUR).await;
        assert_eq!(times(&log), [HOUR - 10 * MINUTE, 2 * HOUR]);
        assert!(world.timers.reschedule_after(id, ms(150 * MINUTE)).is_rescheduled());
        world.run_to(5 * HOUR).await;
        assert_eq!(times(&log), [270 * MINUTE, 5 * HOUR]);
        // Missed by the clock.
        world.jump_to(8 * HOUR + 1).await;
        world.run_to(9 * HOUR + 10 * MINUTE).await;
        assert_eq!(times(&log), [8 * HOUR + 1, 9 * HOUR]);
        // A step of the wall clock over 10:00, 11:00 and 12:00.
        world.clock().hands.set_wall(time("2024-06-01T12:50:00Z"));
        world.run_to(9 * HOUR + 19 * MINUTE).await;
        assert_eq!(times(&log), [9 * HOUR + 10 * MINUTE], "once for three");
        world.run_to(9 * HOUR + 20 * MINUTE).await;
        assert_eq!(times(&log), [9 * HOUR + 20 * MINUTE], "at 13:00");
        // A step back by two hours: 14:00 is three hours away.
        world.clock().hands.set_wall(time("2024-06-01T11:00:00Z"));
        world.run_to(12 * HOUR + 20 * MINUTE - 1).await;
        assert_eq!(log.len(), 0);
        world.run_to(12 * HOUR + 20 * MINUTE).await;
        assert_eq!(log.len(), 1);
    });
}

#[test]
fn a_run_moved_during_the_tracked_handler_before_replaces_the_one_at_its_old_time() {
    paused(async {
        let world = world_at("2024-06-01T00:00:00Z");
        let (addr, log, gates) = slow(&world);
        let hourly = Cron::new("0 * * * *").unwrap();
        let id = world.timers.schedule_cron(Target::tracked(&addr), hourly, Note(1));
        world.run_to(HOUR).await;
        assert_eq!(world.timers.reschedule_after(id, ms(5 * MINUTE)), RescheduleOutcome::InProgress);
        open(&gates, 0);
        world.run_to(2 * HOUR - 1).await;
        open(&gates, 0);
        world.run_to(4 * HOUR - 1).await;
        assert_eq!(times(&log), [HOUR, 65 * MINUTE, 3 * HOUR]);
    });
}

#[test]
fn jitter_moves_all_times_of_day_by_the_same_time() {
    paused(async {
        let world = world_at("2024-06-01T00:00:00Z");
        let (addr, log) = world.probe::<u64>();
        let spread = || TimerOptions::new().jitter(ms(30_000));
        let minutely = Cron::new("* * * * *").unwrap();
        world.timers.timer(&addr, spread()).repeat(minutely.clone(), Note(1));
        let own = minutely.clone();
        run(&addr, move |_, ctx| ctx.timer(spread()).repeat(own, Note(2))).await;
        let request = ScheduleCron::new(&addr, minutely, Note(3)).options(spread());
        let id = request.id();
        assert_eq!(world.timers.addr().send(request).await.unwrap().unwrap(), id);
        world.run_to(10 * MINUTE).await;
        let all = log.take();
        for name in 1..=3 {
            let at: Vec<u64> = all.iter().filter(|(own, _)| *own == name).map(|(_, at)| *at).collect();
            assert!(at.len() >= 9 && at.windows(2).all(|pair| pair[1] - pair[0] == MINUTE), "{at:?}");
            assert!(at[0] % MINUTE <= 30_000);
        }
    });
}

//! The clock of the replay.

use std::time::{Duration, SystemTime};

use actix_timers::Clock;
use jiff::Timestamp;
use tokio::time::advance;

use crate::clock::{ReplayClock, Speed};

const FIRST: Timestamp = Timestamp::UNIX_EPOCH;

fn speed(text: &str) -> Speed {
    text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

#[tokio::test(start_paused = true)]
async fn it_stands_until_it_is_started_and_then_runs_at_its_speed() {
    let clock = ReplayClock::new(FIRST, speed("2.5"));
    advance(Duration::from_secs(5)).await;
    assert_eq!(clock.now(), Duration::ZERO);
    clock.start();
    advance(Duration::from_secs(4)).await;
    assert_eq!(clock.now(), Duration::from_secs(10));
    assert_eq!(clock.date(), FIRST + Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_alarm_set_before_the_start_never_rings_early() {
    for text in ["0.001", "1", "3", "7.000001", "100000", "1e9"] {
        let clock = ReplayClock::new(FIRST, speed(text));
        for nanos in [1, 999, 1_000_000, 1_000_000_007, 10u64.pow(15) + 1] {
            let time = Duration::from_nanos(nanos);
            let alarm = clock.alarm(time);
            clock.start();
            alarm.await;
            assert!(clock.now() >= time, "{text} times: {:?} for {time:?}", clock.now());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_shows_the_dates_of_the_file() {
    let clock = ReplayClock::new(FIRST, speed("1000"));
    assert_eq!(clock.wall(), SystemTime::UNIX_EPOCH);
    clock.start();
    advance(Duration::from_millis(90)).await;
    assert_eq!(clock.wall(), SystemTime::UNIX_EPOCH + Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_time_is_no_panic() {
    let clock = ReplayClock::new(FIRST, speed("1e9"));
    clock.start();
    advance(Duration::from_secs(60 * 60 * 24 * 365 * 20)).await;
    assert_eq!(clock.date(), Timestamp::MAX);
    assert!(tokio::time::timeout(Duration::from_secs(1), clock.alarm(Duration::MAX)).await.is_err());
}

//! The metrics agree with the counters of the timer actor.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, scrape};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::{Bell, Ring};

use crate::snapshot;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the value of the series that a line of the page begins with.
fn value<'a>(page: &'a str, series: &str) -> Option<&'a str> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

/// Compares page and snapshot at each step of a mixed load on all levels. The recorder is that of the whole process.
#[test]
fn the_page_agrees_with_the_snapshot_of_the_wheel() {
    support::in_own_process!(the_page_agrees_with_the_snapshot_of_the_wheel, compare);
}

fn compare() {
    const STEPS: u64 = 300;
    let handle = PrometheusBuilder::new().install_recorder().unwrap();
    System::new().block_on(async {
        let clock = ManualClock::new();
        let timers = TimerActor::builder().name("seen").clock(clock.clone()).start().unwrap();
        let bell = Bell.start();
        let mut pending = Vec::new();
        let mut deepest = 0;
        for step in 1..=STEPS {
            // From a millisecond to weeks, and several in one bucket now and then.
            for number in 0..step % 7 {
                let delay = Duration::from_millis(1 << (step * (number + 1) % 32));
                pending.push(timers.schedule_after(&bell, delay, Ring));
            }
            if step.is_multiple_of(3) {
                let id = pending.swap_remove(step as usize * 31 % pending.len());
                timers.cancel(id);
            } else if step.is_multiple_of(4) {
                let _ = timers.reschedule_after(pending[step as usize * 17 % pending.len()], HOUR * step as u32);
            }
            clock.advance(Duration::from_millis(step * step)).await;
            let (seen, page) = scrape(|| (timers.snapshot(), handle.render()));
            let expected = snapshot::lines(&seen);
            deepest = deepest.max(seen.wheel_depth());
            for line in expected.lines() {
                let (series, counted) = line.rsplit_once(' ').unwrap();
                assert_eq!(value(&page, series), Some(counted), "step {step}: {series}");
            }
            let levels = page.lines().filter(|line| line.starts_with("actix_timers_level_entries{")).count();
            assert_eq!(levels, seen.wheel_depth(), "no level but those that exist");
        }
        let counters = timers.snapshot().counters;
        let all_of_it = [counters.delivered, counters.cancelled, counters.rescheduled, counters.pending];
        assert!(deepest >= 3 && all_of_it.iter().all(|&number| number > 20), "{deepest} {all_of_it:?}");
    });
}

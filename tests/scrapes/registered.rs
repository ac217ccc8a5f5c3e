//! Metrics that exist from the first scrape on, metrics that come later, and metrics shared by timer actors of one
//! name.
//!
//! With the recorder of the whole process: later metrics are registered by the first publisher, on any thread.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::metrics::{CATALOGUE, Kind};
use actix_timers::{TimerActor, Timers, scrape};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use support::{Bell, Ring, metric};

fn install_recorder() -> PrometheusHandle {
    PrometheusBuilder::new().install_recorder().unwrap()
}

/// Returns the lines about one timer actor.
fn about(page: &str, timer: &str) -> Vec<String> {
    let label = format!("timer=\"{timer}\"");
    page.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
}

fn value(page: &str, name: &str, timer: &str) -> f64 {
    metric(page, name, &format!("timer=\"{timer}\""))
}

/// From the first scrape on every metric exists, with zeros; the series of a level come with the level.
#[test]
fn all_series_are_there_from_the_start_but_levels() {
    support::in_own_process!(all_series_are_there_from_the_start_but_levels, levels_when_they_are_made);
}

fn levels_when_they_are_made() {
    let recorder = install_recorder();
    support::in_real_time(async {
        let timers = TimerActor::builder().name("new").start().unwrap();
        // Before the driver's first turn.
        let page = recorder.render();
        let lines = about(&page, "new");
        for metric in CATALOGUE {
            let is_there = lines.iter().any(|line| line.starts_with(&format!("{}{{", metric.name)));
            // An exporter shows a histogram once it has a value.
            assert!(is_there || matches!(metric.kind, Kind::Histogram(_)), "{}", metric.name);
        }
        let scraped = || scrape(|| recorder.render());
        let levels = |page: &str| {
            let lines = about(page, "new");
            [0, 1, 2].map(|level| lines.iter().filter(|line| line.contains(&format!("level=\"{level}\""))).count())
        };
        assert_eq!(levels(&page), [6, 0, 0]);
        let bell = Bell.start();
        timers.schedule_after(&bell, Duration::from_millis(10), Ring);
        assert_eq!(levels(&scraped()), [6, 0, 0]);
        // A turn of level 0 is 256 ms long.
        timers.schedule_after(&bell, Duration::from_secs(10), Ring);
        let page = scraped();
        assert_eq!(levels(&page), [6, 6, 0]);
        assert_eq!(metric(&page, "cascades_total", "timer=\"new\",from_level=\"1\""), 0.0);
        drop(timers.drain());
        let page = scraped();
        assert_eq!(levels(&page), [6, 6, 0], "a level stays");
        assert_eq!(metric(&page, "level_entries", "timer=\"new\",level=\"1\""), 0.0);
    });
}

#[test]
fn timer_actors_of_one_name_share_gauges_and_add_up() {
    support::in_own_process!(timer_actors_of_one_name_share_gauges_and_add_up, gauges_of_one_and_the_sum);
}

fn gauges_of_one_and_the_sum() {
    let recorder = install_recorder();
    support::in_real_time(async {
        let bell = Bell.start();
        let one = TimerActor::builder().name("one").start().unwrap();
        let two = [100, 200].map(|room| TimerActor::builder().name("two").capacity(room).start().unwrap());
        for timers in [&one, &two[0], &two[1]] {
            timers.schedule_after(&bell, Duration::from_secs(10), Ring);
        }
        let page = scrape(|| recorder.render());
        for (name, timers) in [("one", 1.0), ("two", 2.0)] {
            let seen = ["pending", "scheduled_total"].map(|metric| value(&page, metric, name));
            assert_eq!(seen, [timers; 2], "{name}");
        }
        assert_eq!(value(&page, "capacity", "two"), 200.0, "the capacity of the last to start");
        assert_eq!(value(&page, "wheel_depth", "two"), 2.0, "the depth of the last to publish");
        assert_eq!(value(&page, "delay_queue_length", "two"), 1.0);
    });
}

#[test]
fn a_successor_continues_the_series_of_its_arbiter() {
    support::in_own_process!(a_successor_continues_the_series_of_its_arbiter, series_of_each_arbiter);
}

fn series_of_each_arbiter() {
    let recorder = install_recorder();
    support::in_real_time(async {
        TimerActor::builder().name("web").install_for_all_arbiters().unwrap();
        let schedule = || {
            let timers = Timers::current().unwrap();
            timers.schedule_after(Bell.start(), Duration::from_secs(10), Ring);
            timers.name().to_owned()
        };
        assert_eq!(schedule(), "web-1");
        for round in [1.0, 2.0] {
            let (tell, told) = tokio::sync::oneshot::channel();
            let worker = Arbiter::new();
            worker.spawn_fn(move || tell.send(schedule()).unwrap());
            assert_eq!(told.await.unwrap(), "web-2");
            let page = scrape(|| recorder.render());
            assert_eq!(["web-1", "web-2"].map(|timer| value(&page, "pending", timer)), [1.0, 1.0]);
            assert_eq!(["web-1", "web-2"].map(|timer| value(&page, "scheduled_total", timer)), [1.0, round]);
            worker.stop();
            worker.join().unwrap();
        }
    });
}

//! A scrape shows counters that add up, and gauges of now, whatever happens meanwhile, on any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    ManualClock, MessageSource, Repeat, ScheduleError, Target, TimerActor, TimerActorBuilder, TimerContext, TimerId,
    TimerOptions, Timers, scrape,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use support::{Bell, Note, Ring, eventually, probe, probe_on, run};

const HOUR: Duration = Duration::from_secs(3600);

fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

fn install(recorder: &PrometheusRecorder, settings: TimerActorBuilder) -> Timers {
    metrics::with_local_recorder(recorder, || settings.start()).unwrap()
}

/// Returns the sum of the series of this name whose labels contain `labels`.
fn sum(page: &str, name: &str, labels: &str) -> f64 {
    let start = format!("actix_timers_{name}{{");
    let value = |line: &str| {
        let (found, value) = line.strip_prefix(&start)?.rsplit_once(' ')?;
        if found.contains(labels) { value.parse::<f64>().ok() } else { None }
    };
    page.lines().filter_map(value).sum()
}

/// Returns the accepted timers, asserting that they equal the ended and the pending ones.
fn balanced(page: &str) -> u64 {
    let ended = ["delivered_total", "cancelled_total", "dead_letters_total", "returned_total", "pending"];
    let accepted = sum(page, "scheduled_total", "");
    assert_eq!(accepted, ended.iter().map(|name| sum(page, name, "")).sum::<f64>(), "{page}");
    accepted as u64
}

/// Threads schedule and cancel a million timers as fast as they can while the driver delivers and another thread
/// scrapes without a pause.
#[test]
fn the_counters_of_busy_timers_add_up() {
    counters_add_up(200_000);
}

#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn the_counters_of_busy_timers_add_up_in_full_size() {
    counters_add_up(1_000_000);
}

fn counters_add_up(all: u64) {
    const PENDING: usize = 1_000;
    let (recorder, handle) = recorder();
    let accepted = AtomicU64::new(0);
    support::in_real_time(async {
        let [own, lasting, short] = [(); 3].map(|()| Arbiter::new());
        let settings = TimerActor::builder().name("busy").capacity(50_000);
        let timers = metrics::with_local_recorder(&recorder, || settings.start_on(&own.handle())).unwrap();
        let bell = Bell::start_in_arbiter(&lasting.handle(), |_| Bell);
        let mortal = Bell::start_in_arbiter(&short.handle(), |_| Bell);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let schedule = |bell: &Addr<Bell>, delay| {
                        let id = Some(timers.schedule_after(bell, delay, Ring));
                        accepted.fetch_add(id.is_some().into(), Ordering::Relaxed);
                        id
                    };
                    let mut pending: Vec<TimerId> = Vec::new();
                    while accepted.load(Ordering::Relaxed) < all {
                        // Due at once, so that the driver always has work.
                        schedule(&bell, Duration::ZERO);
                        schedule(&mortal, Duration::ZERO);
                        pending.extend(schedule(&bell, HOUR));
                        if pending.len() > PENDING {
                            pending.drain(..).for_each(|id| _ = timers.cancel(id));
                        }
                    }
                });
            }
            threads.spawn(|| {
                let (mut before, mut known, mut scrapes) = (0, 0, 0);
                while known < all {
                    if before > all / 2 {
                        // From now on there are dead letters, too.
                        short.stop();
                    }
                    known = accepted.load(Ordering::Relaxed);
                    let now = balanced(&scrape(|| handle.render()));
                    assert!(now >= before, "counters only grow");
                    assert!(now >= known, "the scrape includes all earlier events");
                    (before, scrapes) = (now, scrapes + 1);
                }
                println!("{scrapes} scrapes");
            });
        });
        drop(timers.drain());
        let page = scrape(|| handle.render());
        assert!(balanced(&page) >= all);
        for name in ["scheduled_total", "cancelled_total", "delivered_total", "dead_letters_total", "returned_total"] {
            assert!(sum(&page, name, "") > 0.0, "{name}");
        }
        assert_eq!(sum(&page, "pending", ""), 0.0);
        own.stop();
        lasting.stop();
    });
}

/// Scrapes while timer actors start and stop, and one name is reused again and again.
#[test]
fn the_counters_add_up_while_timer_actors_start_and_stop() {
    const ROUNDS: u64 = 20;
    let (recorder, handle) = recorder();
    let over = AtomicBool::new(false);
    let scraped = AtomicU64::new(0);
    support::in_real_time(async {
        let recipients = Arbiter::new();
        let bell = Bell::start_in_arbiter(&recipients.handle(), |_| Bell);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    balanced(&scrape(|| handle.render()));
                    scraped.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..ROUNDS {
                let before = scraped.load(Ordering::Relaxed);
                let arbiter = Arbiter::new();
                let settings = TimerActor::builder().name("again");
                let timers = metrics::with_local_recorder(&recorder, || settings.start_on(&arbiter.handle())).unwrap();
                timers.schedule_after(&bell, HOUR, Ring);
                while scraped.load(Ordering::Relaxed) < before + 2 {
                    std::thread::yield_now();
                }
                arbiter.stop();
                arbiter.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        let page = scrape(|| handle.render());
        assert_eq!(balanced(&page), ROUNDS, "earlier rounds are not lost");
        assert_eq!(sum(&page, "dead_letters_total", "service_stopped"), ROUNDS as f64);
        assert_eq!(sum(&page, "pending", ""), 0.0);
        recipients.stop();
    });
}

#[test]
fn nothing_is_pending_after_a_handler_that_outlives_its_timer_actor() {
    let (recorder, handle) = recorder();
    support::in_real_time(async {
        let [own, recipients] = [(); 2].map(|()| Arbiter::new());
        let settings = TimerActor::builder().name("outlived");
        let timers = metrics::with_local_recorder(&recorder, || settings.start_on(&own.handle())).unwrap();
        let (go, gate) = std::sync::mpsc::channel();
        let (addr, log) = probe_on(&recipients, |probe, _| probe.hook = Box::new(move |_, _| gate.recv().unwrap()));
        timers.schedule_after(Target::tracked(&addr), Duration::ZERO, Note(1));
        eventually(|| log.len() == 1).await;
        own.stop();
        own.join().unwrap();
        assert_eq!(sum(&handle.render(), "pending", ""), 1.0);
        go.send(()).unwrap();
        recipients.stop();
        recipients.join().unwrap();
        assert_eq!(sum(&handle.render(), "pending", ""), 0.0);
    });
}

/// They are read at the scrape, also if the driver is asleep or stuck. Once it has done its part nothing is overdue; but
/// an actor waits, and so does its own message.
#[test]
fn gauges_are_of_now() {
    let (recorder, handle) = recorder();
    support::in_real_time(async {
        let clock = ManualClock::new();
        // The timer actor of this arbiter, for the timers of contexts.
        let settings = TimerActor::builder().clock(clock.clone());
        let timers = metrics::with_local_recorder(&recorder, || settings.install()).unwrap();
        // In milliseconds; and a thousand times the number of pending timers.
        let seen = || {
            let page = scrape(|| handle.render());
            ["next_expiration_seconds", "oldest_overdue_seconds", "oldest_waiting_seconds", "pending"]
                .map(|name| (sum(&page, name, "") * 1e3).round())
        };
        let (answer, waiting) = tokio::sync::oneshot::channel::<()>();
        let (addr, _log) = probe();
        run(&addr, |_, ctx| {
            ctx.schedule_after(Duration::from_secs(60), Note(1));
            ctx.wait(actix::fut::wrap_future(async { _ = waiting.await }));
        })
        .await;
        let first = seen()[0];
        assert!(first > 0.0 && first <= 60_000.0, "{first}");
        // The driver is not polled here: it sees none of this.
        clock.jump(Duration::from_secs(10));
        assert_eq!(seen(), [first - 10_000.0, 0.0, 0.0, 1_000.0]);
        clock.jump(Duration::from_secs(60));
        let [next, overdue, _, pending] = seen();
        assert_eq!([next, overdue, pending], [0.0, 70_000.0 - first, 1_000.0]);
        clock.settle().await;
        assert_eq!(seen(), [0.0, 0.0, 10_000.0, 1_000.0]);
        drop(answer);
        clock.settle().await;
        assert_eq!(seen(), [0.0; 4]);
        drop(timers);
    });
}

#[test]
fn every_rejection_has_its_reason() {
    let (recorder, handle) = recorder();
    support::in_real_time(async {
        let timers = install(&recorder, TimerActor::builder().capacity(1));
        let bell = Bell.start();
        let never = Repeat::every(Duration::ZERO);
        let invalid = timers.timer(&bell, TimerOptions::new()).try_repeat(never, MessageSource::from_fn(|| Ring));
        assert!(matches!(invalid, Err(ScheduleError::ZeroPeriod { .. })));
        timers.schedule_after(&bell, HOUR, Ring);
        assert!(timers.timer(&bell, TimerOptions::new()).try_schedule(HOUR, Ring).is_err(), "no room");
        drop(timers.drain());
        assert!(timers.timer(&bell, TimerOptions::new()).try_schedule(HOUR, Ring).is_err(), "drained");
        let page = scrape(|| handle.render());
        for reason in ["invalid", "capacity", "stopped"] {
            assert_eq!(sum(&page, "rejected_total", reason), 1.0, "{reason}");
        }
        assert_eq!(sum(&page, "rejected_total", "duplicate_id"), 0.0);
    });
}

#[test]
fn requests_after_a_stop_are_counted() {
    let (recorder, handle) = recorder();
    support::in_real_time(async {
        let arbiter = Arbiter::new();
        let settings = TimerActor::builder().name("gone");
        let timers = metrics::with_local_recorder(&recorder, || settings.start_on(&arbiter.handle())).unwrap();
        let bell = Bell.start();
        arbiter.stop();
        arbiter.join().unwrap();
        for _ in 0..3 {
            assert!(timers.timer(&bell, TimerOptions::new()).try_schedule(HOUR, Ring).is_err(), "stopped");
            timers.schedule_after(&bell, HOUR, Ring);
        }
        // Within a scrape, which none waits for.
        scrape(|| timers.schedule_after(&bell, HOUR, Ring));
        timers.schedule_after(&bell, HOUR, Ring);
        let page = scrape(|| handle.render());
        let counted = [("rejected_total", "stopped"), ("dead_letters_total", "rejected"), ("scheduled_total", "")];
        assert_eq!(counted.map(|(name, labels)| sum(&page, name, labels)), [8.0, 5.0, 5.0]);
    });
}

//! The watchdog on the real clock: it starts, helps a busy arbiter, is counted, and ends with its systems. The guarantees
//! under load are those of the simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerContext, Timers};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use support::{Log, Note, PATIENCE, Probe, Run, StopWatch, eventually, metric, ms, probe_on};

/// Keeps a mailbox from becoming empty until a condition holds.
fn flood(addr: &Addr<Probe<u64>>, over: Arc<dyn Fn() -> bool + Send + Sync>) {
    addr.do_send(Run(Box::new(move |_, ctx| {
        if !over() {
            flood(&ctx.address(), over);
        }
    })));
}

/// Starts a probe that schedules messages to itself; their names are their delays.
fn with_own_messages(delays: &'static [u64]) -> (Addr<Probe<u64>>, Log<u64>) {
    let mut probe = Probe::new(StopWatch::Source(Arc::default()));
    probe.on_start = Box::new(|ctx| delays.iter().for_each(|delay| _ = ctx.schedule_after(ms(*delay), Note(*delay))));
    let log = probe.log.clone();
    (probe.start(), log)
}

#[test]
fn a_flooded_actor_gets_its_own_timers_and_not_early() {
    support::in_real_time(async {
        let began = Instant::now();
        let (addr, log) = with_own_messages(&[10, 20, 30]);
        let (is_over, received) = (Arc::new(AtomicUsize::new(0)), log.clone());
        let over = Arc::clone(&is_over);
        flood(
            &addr,
            Arc::new(move || {
                let arrived = received.len();
                assert!(arrived == 0 || began.elapsed() >= ms(10 * arrived as u64), "never early");
                let is_over = arrived == 3 || began.elapsed() > PATIENCE;
                over.store(if is_over { arrived } else { 0 }, Ordering::SeqCst);
                is_over
            }),
        );
        eventually(|| log.len() == 3).await;
        assert_eq!(is_over.load(Ordering::SeqCst), 3, "they came while the flood was on");
    });
}

/// Runs with a recorder, and returns the number of wake-ups of the watchdog.
fn with_wakeups(run: impl FnOnce(&dyn Fn() -> f64)) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle: PrometheusHandle = recorder.handle();
    let wakeups = || metric(&handle.render(), "wakeups_total", "watch");
    metrics::with_local_recorder(&recorder, || run(&wakeups));
}

/// The thread is blocked all the time, so that its driver cannot run.
fn wait_blocking(log: &Log<u64>, count: usize) {
    let began = Instant::now();
    while log.len() < count {
        assert!(began.elapsed() < PATIENCE, "delivered by another thread");
        // Blocks the arbiter on purpose.
        std::thread::sleep(ms(1));
    }
}

#[test]
fn a_blocked_arbiter_does_not_delay_recipients_elsewhere() {
    with_wakeups(|wakeups| {
        support::in_real_time(async {
            let elsewhere = Arbiter::new();
            let (recipient, log) = probe_on(&elsewhere, |_, _| ());
            let timers = TimerActor::builder().start().unwrap();
            // The watchdog knows a timer actor once it has run.
            timers.schedule_after(&recipient, ms(1), Note(0));
            eventually(|| log.len() == 1).await;
            let before = wakeups();
            let began = Instant::now();
            for delay in [20, 10, 30] {
                timers.schedule_after(&recipient, ms(delay), Note(delay));
            }
            // Its queue moves on, too.
            let narrow = Target::from(&recipient).window(1);
            (31..36).for_each(|name| _ = timers.schedule_after(&narrow, ms(31), Note(name)));
            for delay in [10, 20, 30] {
                wait_blocking(&log, 1 + delay as usize / 10);
                assert!(began.elapsed() >= ms(delay));
            }
            wait_blocking(&log, 4 + 5);
            eventually(|| timers.snapshot().pending() == 0).await;
            assert_eq!(timers.snapshot().counters.delivered, 4 + 5);
            assert_eq!(log.names(), [0, 10, 20, 30, 31, 32, 33, 34, 35]);
            eventually(|| wakeups() > before).await;
            elsewhere.stop();
        });
    });
}

#[test]
fn under_a_paused_clock_nothing_happens() {
    for paused_from_the_start in [true, false] {
        let build = move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(paused_from_the_start).build().unwrap()
        };
        with_wakeups(|wakeups| {
            System::with_tokio_rt(build).block_on(async {
                let elsewhere = Arbiter::new();
                let (recipient, log) = probe_on(&elsewhere, |_, _| ());
                let timers = TimerActor::builder().install().unwrap();
                if !paused_from_the_start {
                    timers.schedule_after(&recipient, ms(1), Note(1));
                    eventually(|| log.names() == [1]).await;
                    tokio::time::pause();
                }
                let (_addr, own) = with_own_messages(&[10]);
                tokio::time::sleep(ms(1)).await;
                timers.schedule_after(&recipient, ms(10), Note(10));
                // Virtual time stands still, then is past the deadlines, but no thread may act before this one does. The
                // watchdog gets real time in which it would act.
                std::thread::sleep(ms(100));
                let mut advance = std::pin::pin!(tokio::time::advance(ms(500)));
                std::future::poll_fn(|cx| {
                    assert!(advance.as_mut().poll(cx).is_pending(), "it has yet to yield");
                    std::task::Poll::Ready(())
                })
                .await;
                // Time for the watchdog, as above.
                std::thread::sleep(ms(100));
                assert_eq!((log.len(), own.len()), (0, 0));
                advance.await;
                eventually(|| (log.len(), own.len()) == (1, 1)).await;
                assert_eq!(wakeups(), 0.0, "paused from the start: {paused_from_the_start}");
                elsewhere.stop();
            });
        });
    }
}

#[test]
fn systems_may_come_and_go() {
    support::in_own_process!(systems_may_come_and_go, come_and_go);
}

/// In a process of its own: the hook counts panics, and the threads are counted.
fn come_and_go() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some("actix-timers-watch") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        report(info);
    }));
    for round in (0..60u64).step_by(2) {
        // Stops it at any stage: before anything is due, while the watchdog is at work, with messages in flight.
        let counters = support::in_real_time(async move {
            let elsewhere = Arbiter::new();
            let (recipient, _log) = probe_on(&elsewhere, |_, _| ());
            let timers = Timers::current().unwrap();
            (0..50).for_each(|delay| _ = timers.schedule_after(&recipient, ms(delay), Note(delay)));
            let (addr, _log) = with_own_messages(&[0, 5, 10, 15, 20, 25, 30, 35, 40, 45]);
            let began = Instant::now();
            flood(&addr, Arc::new(move || began.elapsed() > ms(round)));
            tokio::task::yield_now().await;
            elsewhere.stop();
            timers
        })
        .snapshot()
        .counters;
        assert!(counters.balance() && counters.pending == 0, "{counters:?}");
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("actix-timers-wa")).count(), 1, "one thread for all");
    }
}

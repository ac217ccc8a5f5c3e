//! The kernel's timer: where it is unavailable, and that the clock alone knows it.
//!
//! In a process of its own: it counts open files and reported panics.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{SystemClock, TimerActor};
use support::{Note, Probe, StopWatch, eventually, ms};

static PANICS: AtomicUsize = AtomicUsize::new(0);

fn timers_of_the_kernel() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("timerfd")).count()
}

/// Has some messages delivered; returns the number of panics reported meanwhile, and the number of kernel timers set
/// while another message is pending.
fn panics_and_timers(clock: SystemClock, with_io: bool) -> (usize, usize) {
    let reported = PANICS.load(Ordering::SeqCst);
    let runtime = move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        if with_io { builder.enable_all() } else { builder.enable_time() }.build().unwrap()
    };
    let set = System::with_tokio_rt(runtime).block_on(async {
        let timers = TimerActor::builder().clock(clock).start().unwrap();
        let probe = Probe::new(StopWatch::Source(std::sync::Arc::default()));
        let log = probe.log.clone();
        let probe = probe.start();
        for name in 0..3 {
            timers.schedule_after(&probe, ms(5), Note(name));
            eventually(|| log.len() == 1).await;
            assert_eq!(log.names(), [name]);
        }
        timers.schedule_after(&probe, Duration::from_secs(3600), Note(3));
        for _ in 0..256 {
            tokio::task::yield_now().await;
        }
        timers_of_the_kernel()
    });
    (PANICS.load(Ordering::SeqCst) - reported, set)
}

#[test]
fn a_clock_does_without_a_missing_or_unwanted_kernel_timer() {
    support::in_own_process!(a_clock_does_without_a_missing_or_unwanted_kernel_timer, without_the_kernels_timer);
}

fn without_the_kernels_timer() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        report(info);
    }));
    assert_eq!(panics_and_timers(SystemClock::without_kernel_timer(), false), (0, 0), "unwanted and unavailable");
    assert_eq!(panics_and_timers(SystemClock::new(), false), (1, 0), "tried once for each clock");
    assert_eq!(panics_and_timers(SystemClock::new(), true), (0, 1), "another runtime on the same thread has it");
    assert_eq!(panics_and_timers(SystemClock::without_kernel_timer(), true), (0, 0), "not wanted");
}

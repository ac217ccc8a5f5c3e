//! Sleeps of tokio's runtime with threads: one wheel behind a lock for all of them, the default; or a wheel for each
//! thread, which tokio has behind `--cfg tokio_unstable`.
//!
//! A runtime of one thread, where a task creates and polls the sleeps, and drops them to cancel. With a wheel of its own
//! the thread first puts both into queues, and works these off when it next looks for events, as it does in between and
//! at the end of each workload. There is no actor: actix runs on runtimes without threads, which have one wheel anyway.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::{self, yield_now};
use tokio::time::{Sleep, sleep};

use crate::arguments::Arguments;
use crate::rounds::Life;
use bench::random::Random;

pub(crate) const SHARED_WHEEL: &str = "tokio-workers";
pub(crate) const OWN_WHEELS: &str = "tokio-workers, own wheels";

/// Operations between turns of the runtime, as in the other subjects.
const AT_ONCE: usize = 1_000;
/// The runtime looks for events after 61 turns at the latest.
const TURNS: usize = 64;

/// Whether this build has wheels of the threads.
pub(crate) const HAS_OWN_WHEELS: bool = cfg!(tokio_unstable);

/// Returns a line if a selected subject cannot be measured.
pub(crate) fn left_out(arguments: &Arguments) -> Option<String> {
    let wanted = arguments.wants_any(&["start", "churn", "stop"]) && arguments.wants_layer("context");
    let missing = wanted && arguments.wants_peer(OWN_WHEELS) && !HAS_OWN_WHEELS;
    missing.then(|| format!("{OWN_WHEELS}: not measured without RUSTFLAGS='--cfg tokio_unstable'"))
}

pub(crate) fn live(life: &mut Life, size: usize) {
    keep(life, size, &mut builder());
}

#[cfg(tokio_unstable)]
pub(crate) fn live_with_own_wheels(life: &mut Life, size: usize) {
    keep(life, size, builder().enable_alt_timer());
}

#[cfg(not(tokio_unstable))]
pub(crate) fn live_with_own_wheels(_: &mut Life, _: usize) {
    panic!("this build has no wheels of the threads");
}

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_time();
    builder
}

fn keep(life: &mut Life, size: usize, builder: &mut Builder) {
    let runtime = builder.build().unwrap();
    // A budget of the runtime would let no more than 128 sleeps of a turn do anything.
    let times = runtime.block_on(runtime.spawn(task::unconstrained(work(size)))).unwrap();
    for (workload, took) in ["start", "churn", "stop"].into_iter().zip(times) {
        life.keep(workload, size, took);
    }
}

async fn work(size: usize) -> [Duration; 3] {
    let mut random = Random::new(1);
    let mut sleeps: Vec<Pin<Box<Sleep>>> = Vec::with_capacity(size);
    let started = timed(size, || sleeps.push(pending(random.delay()))).await;
    let churned = timed(size, || {
        let fresh = pending(random.delay());
        cancel(std::mem::replace(&mut sleeps[random.index(size)], fresh));
    });
    let churned = churned.await;
    assert_eq!(sleeps.len(), size);
    random.shuffle(&mut sleeps);
    let stopped = timed(size, || sleeps.pop().into_iter().for_each(cancel)).await;
    assert!(sleeps.is_empty());
    [started, churned, stopped]
}

async fn timed(operations: usize, mut operation: impl FnMut()) -> Duration {
    let began = Instant::now();
    for first in (0..operations).step_by(AT_ONCE) {
        (first..operations.min(first + AT_ONCE)).for_each(|_| operation());
        yield_now().await;
    }
    for _ in 0..TURNS {
        yield_now().await;
    }
    began.elapsed()
}

/// Returns a sleep that waits in the wheel: it enters when it is first polled.
fn pending(delay: Duration) -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(delay));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    sleep
}

fn cancel(sleep: Pin<Box<Sleep>>) {
    assert!(!sleep.is_elapsed());
}

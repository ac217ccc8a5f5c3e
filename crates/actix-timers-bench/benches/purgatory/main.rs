//! The CPU time of a purgatory under the load of Kafka's `TestPurgatoryPerformance`.
//!
//! ```sh
//! cargo bench --bench purgatory                        1 M requests at 10 000 a second: 100 s, twice
//! cargo bench --bench purgatory -- --requests 100000   a first look
//! cargo bench --bench purgatory -- --check             one short pass that verifies the work
//! ```
//!
//! As there: requests arrive at random times (exponential intervals), and each is watched under the same keys, drawn at
//! random from the possible ones. Its condition is met after a random time (log-normal latency), and its time-out is
//! 100 ms. Other than there, requests have no method that completes them: whenever some conditions have become true,
//! one of the keys is checked, which tries the conditions of all waiting requests. One task awaits all of them.
//!
//! CPU time is that of the process: arrivals, conditions and tasks are part of it, as in Kafka's program. The second run
//! lets time-outs be up to 10 ms late, so that they expire together.

// A bench that cannot measure should fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use actix::System;
use actix_timers_purgatory::{Keys, Outcome, Purgatory};
use bench::process::cpu;
use bench::random::Random;
use clap::Parser;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// The load, in requests and milliseconds.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench purgatory --")]
struct Load {
    #[arg(long, default_value = "1000000", default_value_if("check", "true", "2000"))]
    requests: u64,
    /// Requests a second
    #[arg(long, default_value = "10000")]
    rate: f64,
    /// Keys of a request
    #[arg(long, default_value = "100")]
    keys: u64,
    /// Possible keys
    #[arg(long, default_value = "100")]
    key_space: u64,
    #[arg(long, default_value = "100")]
    timeout: u64,
    /// The median latency
    #[arg(long = "pct50", default_value = "20")]
    median: f64,
    /// The third quartile of the latency
    #[arg(long = "pct75", default_value = "60")]
    third_quartile: f64,
    /// One short pass that verifies the work
    #[arg(long)]
    check: bool,
}

/// A uniform number between 0 and 1, never 0.
fn uniform(random: &mut Random) -> f64 {
    (random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64
}

impl Load {
    /// Returns the time between two arrivals.
    fn interval(&self, random: &mut Random) -> f64 {
        -uniform(random).ln() * 1000.0 / self.rate
    }

    /// Returns a latency.
    fn latency(&self, random: &mut Random) -> u64 {
        /// The third quartile of the normal distribution.
        const THIRD_QUARTILE: f64 = 0.674_490;
        let deviation = (self.third_quartile.ln() - self.median.ln()) / THIRD_QUARTILE;
        // By Box and Muller.
        let normal = (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos();
        (self.median.ln() + deviation * normal).exp() as u64
    }
}

struct Run {
    completed: u64,
    expired: u64,
    elapsed: Duration,
    cpu: Duration,
}

async fn run(load: &Load, slack: Duration) -> Run {
    let mut random = Random::new(1);
    // Drawn before, as there, but fewer: they stay in the cache.
    let samples = 100_000;
    let latencies: Vec<u64> = (0..samples).map(|_| load.latency(&mut random)).collect();
    let intervals: Vec<f64> = (0..samples).map(|_| load.interval(&mut random)).collect();
    let keys: Vec<String> = (0..load.keys).map(|_| format!("key{}", random.below(load.key_space))).collect();
    let key = keys[0].clone();
    let keys = Keys::from(keys);
    let purgatory: Purgatory<String> = Purgatory::builder().slack(slack).start().unwrap();
    let mut waits = FuturesUnordered::new();
    let (mut completed, mut expired) = (0, 0);
    // The time that the conditions see.
    let clock = Arc::new(AtomicU64::new(0));
    let mut due = BinaryHeap::new();
    let (mut arrived, mut arrival) = (0, 0.0);
    let (cpu_before, start) = (cpu(), Instant::now());
    while completed + expired < load.requests {
        let now = start.elapsed().as_millis() as u64;
        clock.store(now, Ordering::Relaxed);
        while arrived < load.requests && arrival <= now as f64 {
            let latency = latencies[random.index(samples)];
            let met_at = now + latency;
            if latency < load.timeout {
                due.push(Reverse(met_at));
            }
            let clock = Arc::clone(&clock);
            let condition = move || (clock.load(Ordering::Relaxed) >= met_at).then_some(());
            waits.push(purgatory.wait(keys.clone(), Duration::from_millis(load.timeout), condition));
            arrived += 1;
            arrival += intervals[random.index(samples)];
        }
        let mut is_met = false;
        while due.peek().is_some_and(|Reverse(met_at)| *met_at <= now) {
            due.pop();
            is_met = true;
        }
        if is_met {
            purgatory.check(&key);
        }
        let mut sleep = pin!(tokio::time::sleep(Duration::from_millis(1)));
        poll_fn(|cx| {
            while let Poll::Ready(Some(answer)) = waits.poll_next_unpin(cx) {
                match answer.unwrap() {
                    Outcome::Completed(()) => completed += 1,
                    Outcome::Expired => expired += 1,
                }
            }
            sleep.as_mut().poll(cx)
        })
        .await;
    }
    let (cpu, elapsed) = (cpu() - cpu_before, start.elapsed());
    assert_eq!((purgatory.delayed(), purgatory.watched()), (0, 0), "no watcher is left");
    Run { completed, expired, elapsed, cpu }
}

fn main() {
    let load: Load = bench::arguments::parse();
    println!("{} requests, {} a second, {} keys each", load.requests, load.rate, load.keys);
    println!("{:<28} {:>9} {:>9} {:>9} {:>9}", "subject", "completed", "expired", "elapsed s", "CPU s");
    for (subject, slack) in [("actix-timers", 0), ("actix-timers, slack 10 ms", 10)] {
        let Run { completed, expired, elapsed, cpu } = System::new().block_on(run(&load, Duration::from_millis(slack)));
        let [elapsed, cpu] = [elapsed, cpu].map(|time| time.as_secs_f64());
        println!("{subject:<28} {completed:>9} {expired:>9} {elapsed:>9.1} {cpu:>9.2}");
    }
}

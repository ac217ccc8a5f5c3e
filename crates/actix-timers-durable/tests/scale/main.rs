//! Many durable timers, in real time: by the million with the command in `tests/README.md`. A binary of its own is
//! compiled with optimizations in much less time than all tests of durable timers.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "memory is measured on Linux alone"))]

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::CancelOutcome;
use actix_timers_durable::store::{NewTimer, NodeInfo, OnKey, Op, Progress, Record};
use actix_timers_durable::{
    DueTime, Durable, DurableId, DurableMessage, DurableTimers, EmbeddedStore, HandlerError, MemoryStore, Store,
};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

/// Returns the number of pending timers: `ACTIX_TIMERS_PENDING`, for example 5000000. A fifth of them is overdue; as
/// many are cancelled.
fn pending() -> u32 {
    std::env::var("ACTIX_TIMERS_PENDING").map_or(100_000, |number| number.parse().expect("a number"))
}

#[derive(Serialize, Deserialize)]
struct Shot {
    number: u32,
    text: String,
}

impl Shot {
    fn new(number: u32) -> Self {
        Self { number, text: "x".repeat(60) }
    }
}

impl DurableMessage for Shot {
    const NAME: &'static str = "shot";
}

/// Records its hits.
#[derive(Clone, Default)]
struct Target {
    hits: Arc<Mutex<Vec<(DueTime, u32)>>>,
}

impl Actor for Target {
    type Context = Context<Self>;
}

impl Handler<Durable<Shot>> for Target {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, shot: Durable<Shot>, _: &mut Context<Self>) -> Self::Result {
        assert_eq!(shot.attempt, 1, "{} comes once", shot.number);
        self.hits.lock().unwrap().push((shot.due, shot.number));
        Ok(())
    }
}

const ROUTE: &str = "range";

fn start(store: impl Store, target: &Target) -> DurableTimers {
    // Few enough in memory that there is no room for all of them.
    let builder = DurableTimers::builder(store).loaded(20_000);
    builder.route::<Shot>(ROUTE, target.clone().start()).start().unwrap()
}

/// Waits until at most `left` timers are pending. It does not sleep: each query is a turn of the store's thread.
async fn all_done(timers: &DurableTimers, left: u64) {
    while timers.counts().await.unwrap().pending > left {}
}

/// Cancels each timer during its delivery, or just before, or just after.
fn cancel_while_it_fires(store: impl Store) {
    const ROUND: u32 = 2000;
    /// More than enough turns of the arbiter for messages in a mailbox.
    const LOOKS: u32 = 10_000;
    support::in_real_time(async {
        let target = Target::default();
        let timers = start(store, &target);
        let mut cancelled_in_all = 0;
        for first in (0..pending() / 5).step_by(ROUND as usize) {
            let shots: Vec<_> = (first..first + ROUND).collect();
            let cancelled = join_all(shots.iter().map(|&number| {
                let timers = timers.clone();
                async move {
                    let soon = Duration::from_micros(u64::from(number % 4) * 500);
                    let id = timers.schedule_after(ROUTE, soon, Shot::new(number)).await.unwrap().id();
                    (number, timers.cancel(id).await.unwrap())
                }
            }))
            .await;
            all_done(&timers, 0).await;
            // A timer that is cancelled during its delivery is no longer pending, and its handler still runs.
            let to_hit = cancelled.iter().filter(|(_, outcome)| *outcome != CancelOutcome::Cancelled).count();
            for _ in 0..LOOKS {
                if target.hits.lock().unwrap().len() >= to_hit {
                    break;
                }
                timers.counts().await.unwrap();
            }
            let hits = std::mem::take(&mut *target.hits.lock().unwrap());
            let hit: HashSet<u32> = hits.iter().map(|(_, number)| *number).collect();
            assert_eq!(hit.len(), hits.len(), "none twice");
            for (number, outcome) in cancelled {
                let is_cancelled = outcome == CancelOutcome::Cancelled;
                assert_ne!(is_cancelled, hit.contains(&number), "{number}: {outcome:?}");
                cancelled_in_all += u32::from(is_cancelled);
            }
        }
        println!("{cancelled_in_all} of {} were cancelled", pending() / 5);
        timers.stop().await.unwrap();
    });
}

#[test]
fn many_cancels_that_race_with_delivery_are_true() {
    cancel_while_it_fires(MemoryStore::new());
}

#[test]
fn many_cancels_in_files_that_race_with_delivery_are_true() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    cancel_while_it_fires(EmbeddedStore::open(directory.path()).unwrap());
}

/// The log of a store whose transactions follow each other: that of a checkpoint beside it, and one that waits.
const LONGEST_LOG: u64 = 160 << 20;

/// Puts timers into a store, due at these times after `from`.
fn fill(directory: &Path, from: SystemTime, numbers: std::ops::Range<u32>, due: impl Fn(u32) -> Duration) {
    let mut store = EmbeddedStore::open(directory).unwrap();
    let now = DueTime::reached_at(from);
    store.join(&NodeInfo::default(), now).unwrap();
    let put = |number: u32| {
        let due = DueTime::at_or_after(from + due(number)).unwrap();
        let record = Record {
            id: DurableId::new(due),
            progress: Progress::first(due),
            route: ROUTE.into(),
            message_type: Shot::NAME.into(),
            message_version: Shot::VERSION,
            payload: Shot::new(number).encode().unwrap().into(),
            ..support::store::record(0, 0)
        };
        NewTimer { record: Arc::new(record), on_key: OnKey::KeepExisting }
    };
    for start in numbers.clone().step_by(4096) {
        let group = (start..numbers.end.min(start + 4096)).map(put).collect();
        assert!(store.apply(&[Op::Put(group)], now).unwrap()[0].is_ok());
        let log = std::fs::metadata(directory.join("timers.db-wal")).unwrap().len();
        assert!(log < LONGEST_LOG, "{log} bytes of log after {start} timers");
    }
}

/// Returns the peak memory of this process in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse::<u64>().ok());
    peak.unwrap() << 10
}

const CHILD: &str = "ACTIX_TIMERS_SCALE_CHILD";

/// Runs in a process that starts with the given number of pending timers, a fifth of them overdue, and delivers the
/// overdue ones. Does nothing in an ordinary run.
#[cfg(target_os = "linux")]
#[test]
fn in_the_process_that_is_measured() {
    let Ok(count) = std::env::var(CHILD) else { return };
    let count: u32 = count.parse().unwrap();
    let overdue = count / 5;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let now = SystemTime::now();
    // In no order, over an hour before now and over three years from tomorrow on.
    let mixed = |number: u32| u64::from(number.wrapping_mul(2_654_435_761));
    let begin = now - Duration::from_secs(3600);
    fill(directory.path(), begin, 0..overdue, |number| Duration::from_millis(mixed(number) % 3_599_000));
    fill(directory.path(), now, overdue..count, |number| Duration::from_secs(86_400 + mixed(number) % 94_608_000));
    let target = Target::default();
    target.hits.lock().unwrap().reserve_exact(overdue as usize);
    support::in_real_time(async {
        let timers = start(EmbeddedStore::open(directory.path()).unwrap(), &target);
        // Counts end at a limit, and exact ones read all rows.
        while target.hits.lock().unwrap().len() < overdue as usize {
            actix::clock::sleep(Duration::from_millis(20)).await;
        }
        while timers.exact_counts().await.unwrap().pending > u64::from(count - overdue) {}
        timers.stop().await.unwrap();
    });
    let peak = peak_memory();
    let hits = target.hits.lock().unwrap();
    assert!(hits.is_sorted_by_key(|(due, _)| *due));
    let numbers: HashSet<u32> = hits.iter().map(|(_, number)| *number).collect();
    assert!(numbers.len() == overdue as usize && hits.len() == numbers.len() && numbers.iter().all(|it| *it < overdue));
    println!("peak {}", peak - (hits.capacity() * size_of::<(DueTime, u32)>()) as u64);
}

/// The memory that durable timers may use, however many are on disk: the cache of the database, the index of its log, a
/// group of changes, hints. The timers themselves would need ten times as much.
#[cfg(target_os = "linux")]
const MOST: u64 = 120 << 20;

#[cfg(target_os = "linux")]
#[test]
fn many_pending_and_overdue_take_bounded_memory() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "in_the_process_that_is_measured", "--nocapture"]);
    let output = child.env(CHILD, pending().to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let peak = text.lines().find_map(|line| line.strip_prefix("peak ")?.parse::<u64>().ok()).unwrap();
    println!("{} MiB", peak >> 20);
    assert!(peak < MOST, "{peak} bytes of memory");
}

//! Stalls of the disk, which hold up all nodes alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_timers_durable::DurableId;

use crate::book::Book;
use crate::cluster::{Cluster, now};

/// The commits of a client that does nothing else.
pub(crate) struct Stalls {
    longest: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Stalls {
    /// Begins to commit every 10 ms, to the log of the server alone.
    pub(crate) fn watch(cluster: &Cluster) -> Self {
        let (client, longest) = (cluster.client(), Arc::new(AtomicU64::new(0)));
        let noted = Arc::clone(&longest);
        let task = cluster.runtime.spawn(async move {
            loop {
                let began = Instant::now();
                let done = client.batch_execute("SELECT pg_logical_emit_message(true, 'stall', '')").await;
                noted.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                if done.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Self { longest, task }
    }

    /// Asserts that no delivery since a time was later than this and some of the longest commits, but for those of some timers.
    pub(crate) fn assert_punctual(&self, book: &Book, from: u64, limit: Duration, commits: u32, without: &[DurableId]) {
        let stall = Duration::from_micros(self.longest.load(Ordering::Relaxed));
        let latenesses = book.latenesses(&(from..now()), without);
        let latest = Duration::from_micros(latenesses.iter().copied().max().unwrap_or(0));
        let number = latenesses.len();
        eprintln!("{number} deliveries, the latest by {latest:?}; the longest commit of another client {stall:?}");
        assert!(latest <= limit + commits * stall, "a delivery was {latest:?} late");
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

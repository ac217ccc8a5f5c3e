//! Stalls of the disk, which hold up all nodes alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;

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

    /// Returns the longest time of a commit so far.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

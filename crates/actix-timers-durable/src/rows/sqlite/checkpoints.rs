//! Checkpoints on a thread of their own: the log's pages are written to the database beside the transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::faults::{Meaning, meaning};

/// Pages of the log after which a checkpoint begins.
const PAGES: i32 = 4000;
/// Pages of the log after which a checkpoint holds the writer up, so that the log begins anew: while transactions follow
/// each other, no other one ever reaches its end.
const MAX_PAGES: i32 = 16_000;
/// Free pages of the file that are kept for new rows, at least; and the part of the file, one in ...
const SPARE_PAGES: i64 = 4096;
const SPARE_PART: i64 = 4;
/// Pages that are given back to the file system at a time.
const RETURNED: i64 = 512;

#[derive(Debug)]
pub(super) struct Checkpoints {
    thread: Option<JoinHandle<()>>,
    wake: SyncSender<()>,
    is_over: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Checkpoints {
    /// Starts the thread with its connection, for the log of the one that writes.
    pub(super) fn start(writer: &mut Connection, connection: Connection) -> rusqlite::Result<Self> {
        // One that waits is enough.
        let (wake, wakes) = sync_channel(1);
        let failure = Arc::<Mutex<Option<String>>>::default();
        let hook = {
            let wake = wake.clone();
            move |_: &mut _, pages: i32| {
                if pages >= PAGES {
                    let _ = wake.try_send(());
                }
                Ok(())
            }
        };
        writer.wal_hook(Some(hook))?;
        let is_over = Arc::<AtomicBool>::default();
        let (failed, ends) = (Arc::clone(&failure), Arc::clone(&is_over));
        let thread = std::thread::Builder::new()
            .name("timers-checkpoint".to_owned())
            .spawn(move || run(&connection, &wakes, &ends, &failed))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(Self { thread: Some(thread), wake, is_over, failure })
    }

    /// Begins a checkpoint: after it the log begins anew, and needs no more room.
    pub(super) fn begin(&self) {
        let _ = self.wake.try_send(());
    }

    /// Returns the reason why a checkpoint has failed, once.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.failure).take()
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        // The writer's hook has a sender, too.
        self.is_over.store(true, Ordering::Release);
        self.begin();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(failure: &Mutex<Option<String>>) -> std::sync::MutexGuard<'_, Option<String>> {
    failure.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(connection: &Connection, wakes: &Receiver<()>, is_over: &AtomicBool, failure: &Mutex<Option<String>>) {
    while wakes.recv().is_ok() && !is_over.load(Ordering::Acquire) {
        // Another failure, such as a full disk, is repeated after the next transaction.
        if let Err(error) = checkpoint(connection)
            && matches!(meaning(&error), Meaning::Io | Meaning::Damaged)
        {
            *lock(failure) = Some(format!("a checkpoint failed: {error}"));
            return;
        }
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    let (pages, _) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
    if pages > MAX_PAGES {
        connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART)?;
    }
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("freelist_count")? > SPARE_PAGES.max(number("page_count")? / SPARE_PART) {
        // A row for each page.
        let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({RETURNED})"))?;
        let mut pages = vacuum.query(())?;
        while pages.next()?.is_some() {}
    }
    Ok(())
}

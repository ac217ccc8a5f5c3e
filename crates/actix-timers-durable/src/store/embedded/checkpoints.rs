//! Checkpoints on a thread of their own: the log's pages are written to the database beside the transactions.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::faults::{Meaning, meaning};
use crate::trace;

/// Pages of the log after which a checkpoint begins.
const PAGES: i32 = 4000;
/// Pages of the log after which a checkpoint holds the writer up, so that the log begins anew: while transactions follow
/// each other, no other one ever reaches its end. A longer log makes each search for a page slower, too.
const MAX_PAGES: i32 = 16_000;
/// Time until a log that a reader holds is looked at again; and until it is reported, again and again.
const AGAIN: Duration = Duration::from_secs(1);
const REPORT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Checkpoints {
    thread: Option<JoinHandle<()>>,
    wake: SyncSender<()>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    status: Mutex<Status>,
    /// Of a transaction, or of a checkpoint that begins the log anew.
    turn: Mutex<()>,
    /// Locked to wait for the turn: without it the writer would take the next one, too, before the thread is awake.
    line: Mutex<()>,
}

impl Shared {
    fn turn(&self) -> MutexGuard<'_, ()> {
        let _in_line = lock(&self.line);
        lock(&self.turn)
    }
}

#[derive(Debug, Default)]
struct Status {
    /// The thread is to end.
    is_over: bool,
    /// The reason why a checkpoint has failed.
    failure: Option<String>,
    held: Option<Held>,
}

/// A reader needs the database as it was before later transactions in the log.
#[derive(Debug, Clone, Copy)]
struct Held {
    since: Instant,
    reported: Instant,
    /// The pages of the log that precede its transaction.
    pages: i32,
}

impl Checkpoints {
    /// Starts the thread with its connection, for the log of the one that writes.
    pub(super) fn start(writer: &mut Connection, connection: Connection) -> rusqlite::Result<Self> {
        // One that waits is enough.
        let (wake, wakes) = sync_channel(1);
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
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("timers-checkpoint".to_owned())
            .spawn(move || run(&connection, &wakes, &of_thread))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(Self { thread: Some(thread), wake, shared })
    }

    /// Begins a checkpoint: after it the log begins anew, and needs no more room.
    pub(super) fn begin(&self) {
        let _ = self.wake.try_send(());
    }

    /// Waits for the turn of a transaction, which lasts as long as what is returned.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.shared.turn()
    }

    /// Returns the reason why a checkpoint has failed, once.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.shared.status).failure.take()
    }

    /// Returns the time for which a reader has held the log.
    pub(super) fn held(&self) -> Duration {
        lock(&self.shared.status).held.map_or(Duration::ZERO, |held| held.since.elapsed())
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        // The writer's hook has a sender, too.
        lock(&self.shared.status).is_over = true;
        self.begin();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(connection: &Connection, wakes: &Receiver<()>, shared: &Shared) {
    loop {
        let is_held = lock(&shared.status).held.is_some();
        let woken = if is_held { wakes.recv_timeout(AGAIN) } else { wakes.recv().map_err(Into::into) };
        if woken == Err(RecvTimeoutError::Disconnected) || lock(&shared.status).is_over {
            return;
        }
        // Another failure, such as a full disk, is repeated after the next transaction.
        if let Err(error) = checkpoint(connection, shared)
            && matches!(meaning(&error), Meaning::Io | Meaning::Damaged)
        {
            lock(&shared.status).failure = Some(format!("a checkpoint failed: {error}"));
            return;
        }
    }
}

fn checkpoint(connection: &Connection, shared: &Shared) -> rusqlite::Result<()> {
    let (pages, written) = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE)?;
    note_reader(&mut lock(&shared.status).held, (written < pages).then_some(written));
    // Behind a reader it would hold the writer up in vain.
    if pages > MAX_PAGES && written == pages {
        let _turn = shared.turn();
        connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART)?;
    }
    Ok(())
}

/// Notes whether a reader holds the log, with the pages that were written before its transaction: another one's differ.
fn note_reader(held: &mut Option<Held>, pages: Option<i32>) {
    let now = Instant::now();
    let before = held.take();
    let Some(pages) = pages else { return };
    let mut reader = before.filter(|held| held.pages == pages).unwrap_or(Held { since: now, reported: now, pages });
    if now >= reader.reported + REPORT {
        reader.reported = now;
        trace::log_is_held(now - reader.since);
    }
    *held = Some(reader);
}

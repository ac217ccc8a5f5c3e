//! Where durable timers are kept: a narrow trait, and what is committed through it.
//!
//! A store keeps *records* by shard, due time and id. Of those it delivers nothing itself: it commits changes, a group at a
//! time and atomically, and hands out records in the order in which they are due. Everything else (who is due, what is
//! loaded, what a failure leads to) is decided above it, in one place, so that a store has little to get wrong.
//!
//! - [`Change`] and [`ChangeOutcome`]: what can happen to a record, and what came of it.
//! - [`TimerStore`]: commit, load, look up.
//! - [`StoreError`]: what can go wrong, and what that means for what was committed.
//!
//! Two keep records: [`EmbeddedStore`] (`embedded`) on disk, and [`MemoryStore`] (`memory`) until the process ends, with faults
//! on demand. How a record is written as bytes: [`codec`].

pub mod codec;
mod embedded;
mod memory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::{Record, RecordState, RepeatMode, StoredRepeat};
use crate::shown::shown;

#[cfg(fuzzing)]
pub use embedded::fuzzing;
pub use embedded::{CheckIssue, EmbeddedOptions, EmbeddedStore, ShardStatistics, Statistics};
pub use memory::{CommitGate, FsyncOutcome, MemoryDisk, MemoryStore};

/// What can be done to the timers of a shard.
///
/// `at` names the time at which the pending record is known to be due (its `progress.due`); with `None` the store looks for
/// it. If nothing pending lies where `at` says the answer is [`ChangeOutcome::Missing`].
///
/// A key belongs to its timer while that is pending or set aside, so that a repeated request finds it then, too.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Keeps a new timer. Answers [`ChangeOutcome::Created`], [`ChangeOutcome::Exists`] or [`ChangeOutcome::Replaced`].
    Put {
        /// The timer. Its id is [new](DurableId::new), and of the shard of the commit: stores do not look whether they
        /// have it already.
        record: Arc<Record>,
        /// What happens if another one has its key.
        on_key: OnKey,
    },
    /// Removes a timer, because it was cancelled or is complete: a pending one, or, with no `at`, one that was set aside.
    /// Answers [`ChangeOutcome::Removed`] or [`ChangeOutcome::Missing`].
    Remove {
        /// Which.
        id: DurableId,
        /// Where it lies.
        at: Option<DueTime>,
    },
    /// Gives a pending timer another progress, atomically: retried, repeated, rescheduled. Answers [`ChangeOutcome::Moved`] with
    /// the record as it is then, or [`ChangeOutcome::Missing`].
    Move {
        /// Which.
        id: DurableId,
        /// Where it lies.
        at: Option<DueTime>,
        /// What becomes of it.
        to: RecordState,
    },
    /// Writes down that deliveries are about to begin, so that after a crash it is known which may have. Answers
    /// [`ChangeOutcome::Done`].
    Claim(Claim),
    /// Forgets a claim whose deliveries have all ended. Answers [`ChangeOutcome::Done`].
    EndClaim {
        /// Which.
        number: u64,
    },
    /// Puts a copy of a pending timer among the dead letters, and removes the timer or, if `then` says so, lets it go on.
    /// A timer has one dead letter at most: that of one that repeats takes the place of an earlier one. Answers
    /// [`ChangeOutcome::Moved`] if it goes on, else [`ChangeOutcome::Removed`]; or [`ChangeOutcome::Missing`].
    DeadLetter {
        /// Which.
        id: DurableId,
        /// Where it lies.
        at: Option<DueTime>,
        /// Why.
        reason: Arc<str>,
        /// When.
        dead_at: DueTime,
        /// How a timer that repeats goes on.
        then: Option<RecordState>,
    },
    /// Makes a dead letter a pending timer again: due at `due`, attempt 1, no repetition to follow, with its key if no other
    /// timer has that by now. Answers [`ChangeOutcome::Moved`], or [`ChangeOutcome::Missing`] if there is no such dead letter or its timer
    /// is pending or set aside (as one that repeats may be).
    Requeue {
        /// Which.
        id: DurableId,
        /// When it is due.
        due: DueTime,
    },
    /// Removes a dead letter. Answers [`ChangeOutcome::Removed`] or [`ChangeOutcome::Missing`].
    Discard {
        /// Which.
        id: DurableId,
    },
    /// Sets a pending timer aside that this build knows no route or decoder for. Answers [`ChangeOutcome::Removed`] or [`ChangeOutcome::Missing`].
    Park {
        /// Which.
        id: DurableId,
        /// Where it lies.
        at: Option<DueTime>,
    },
    /// Makes one that was set aside pending again, as it was. Answers [`ChangeOutcome::Moved`] or [`ChangeOutcome::Missing`].
    Unpark {
        /// Which.
        id: DurableId,
    },
    /// Promises that nothing pending is due before this, so that loading need not look there. A change of the same commit or
    /// a later one that puts something there takes the promise back by itself. Answers [`ChangeOutcome::Done`].
    Advance {
        /// No pending timer is due before it.
        to: DueTime,
    },
}

/// What happens to a new timer whose key another timer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnKey {
    /// The other one stays, and the new one is not kept.
    KeepExisting,
    /// The other one is removed in the same step.
    Replace,
}

/// Deliveries that are about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Names the claim in its shard. Never used twice while the claim is kept.
    pub number: u64,
    /// Id, due time and attempt of each.
    pub members: Vec<(DurableId, DueTime, u32)>,
}

/// What came of a [`Change`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChangeOutcome {
    /// The timer is new.
    Created,
    /// This timer has the key. Nothing was changed.
    Exists(DurableId),
    /// The timer has taken the place of this one.
    Replaced(DurableId),
    /// It is removed.
    Removed,
    /// It goes on like this.
    Moved(Arc<Record>),
    /// There was no such timer, and nothing was changed.
    Missing,
    /// Done.
    Done,
}

/// Who may write to a shard: its owner, as long as nobody else has become that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The shard.
    pub shard: u16,
    /// Goes up each time the shard gets another owner. A store refuses a commit with an older one.
    pub epoch: u64,
}

/// What the owner of a shard finds there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Goes with each commit.
    pub fence: Fence,
    /// Nothing pending is due before this.
    pub cursor: DueTime,
    /// Deliveries that had begun when the last owner ended.
    pub claims: Vec<Claim>,
}

/// The parts of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// What is pending.
    Pending,
    /// What this or an earlier build knew no route or decoder for.
    Parked,
    /// What failed for good.
    Dead,
}

/// Where a record lies in its part of a shard: they are in the order of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// When it is due. For dead letters: when it was due last.
    pub due: DueTime,
    /// Tells those apart that are due together.
    pub id: DurableId,
}

impl Position {
    /// Where a record lies.
    pub fn of(record: &Record) -> Self {
        Self { due: record.progress.due, id: record.id }
    }
}

/// A record as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The record.
    pub record: Arc<Record>,
    /// In which part.
    pub part: Part,
    /// Why and when it became a dead letter, if it is one.
    pub dead_letter: Option<(Arc<str>, DueTime)>,
}

/// Some records of a part, in the order of their positions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The records.
    pub found: Vec<Found>,
    /// Where to go on; none if there is nothing more up to the time that was asked for.
    pub next: Option<Position>,
    /// Ids of records that cannot be read (a checksum does not fit). They stay where they are, and are passed over.
    pub damaged: Vec<Option<DurableId>>,
}

/// How much there is in a shard. Exact, and kept without counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pending timers.
    pub pending: u64,
    /// Those set aside.
    pub parked: u64,
    /// Dead letters.
    pub dead: u64,
}

/// The largest record, in bytes of payload, names and key together, that the stores of this crate take.
pub const MAX_RECORD_LEN: usize = 1 << 20;
/// The longest idempotency key, in bytes, that they take.
pub const MAX_KEY_LEN: usize = 1024;

/// What can go wrong in a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing of the group was kept, and the store goes on. A full disk, for one.
    #[error("the store cannot write ({0}): nothing of the request was kept; free space or fix the cause, and retry")]
    Refused(#[source] std::io::Error),
    /// It is not known what of the group was kept, and the store takes nothing any more: an fsync failed.
    #[error(
        "the store has failed ({0}) and acknowledges nothing any more: restart the process when the cause is fixed"
    )]
    Failed(#[source] std::io::Error),
    /// Another owner has the shard.
    #[error("the shard {shard} belongs to another owner now")]
    Fenced {
        /// Which.
        shard: u16,
    },
    /// Another process, or another store of this one, has the files open.
    #[error(
        "the store {} is in use: close the other process, or choose another directory; if this process had it open, it is not \
         closed yet: await `DurableTimers::stop` before, or the end of a backup, or retry later",
        shown(.0)
    )]
    InUse(PathBuf),
    /// Other users of the machine may have written to the directory.
    #[error(
        "other users can write to the directory of the store {path} (mode {mode:o}), so what is in it may be theirs: if you \
         trust it, run `chmod 700` on it; else choose another directory",
        path = shown(path)
    )]
    Exposed {
        /// Where.
        path: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// A backup into the directory was interrupted.
    #[error(
        "{} holds a backup that was not finished, which is no store: back up into it again, or remove it and restore another one",
        shown(.0)
    )]
    UnfinishedBackup(PathBuf),
    /// A directory that holds something else.
    #[error("{path} is not a timer store ({reason}): choose another directory, or an empty one", path = shown(path))]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Written by a later version.
    #[error(
        "the store {path} has format {found}, and this version knows formats up to {known}: use a newer version of actix-timers",
        path = shown(path)
    )]
    NewerFormat {
        /// Where.
        path: PathBuf,
        /// What was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The files cannot be opened or read.
    #[error(
        "the store {path} cannot be read ({reason}): check its permissions; if it is damaged restore a backup",
        path = shown(path)
    )]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A record is larger than the store takes.
    #[error(
        "a record of {size} bytes is larger than the {limit} bytes that the store takes: keep large data elsewhere"
    )]
    TooLarge {
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// An idempotency key is longer than the store takes.
    #[error(
        "an idempotency key of {size} bytes is longer than the {limit} bytes that the store takes: use a digest of it"
    )]
    KeyTooLong {
        /// How long it is.
        size: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The store cannot do that.
    #[error("this store has no {0}")]
    Unsupported(&'static str),
    /// The store was closed.
    #[error("the store is closed: the durable timers have been stopped")]
    Closed,
}

/// A place where durable timers are kept.
///
/// Calls block; they come from one thread at a time. A store on the network does its own waiting.
///
/// Every implementation runs through the same contract suite.
pub trait TimerStore: Send + 'static {
    /// Becomes the owner of a shard. On a single node this is always granted.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another owner has it.
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError>;

    /// Says that the owner is still there.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if it is the owner no more.
    fn renew(&mut self, fence: Fence) -> Result<(), StoreError> {
        let _ = fence;
        Ok(())
    }

    /// Gives a shard up.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn release(&mut self, fence: Fence) -> Result<(), StoreError> {
        let _ = fence;
        Ok(())
    }

    /// The store's own clock, if its users must go by it instead of theirs.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn now(&mut self) -> Result<Option<DueTime>, StoreError> {
        Ok(None)
    }

    /// Whether a new record can be kept. Who gathers the requests of several callers asks it before, for each: in a commit
    /// one that cannot be kept refuses the whole group, and what is to be completed with it.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::KeyTooLong`]; [`StoreError::Refused`] if there is no room for new records.
    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        let _ = record;
        Ok(())
    }

    /// Makes all changes or none, in their order, each seeing those before it. When it answers they are on disk.
    ///
    /// The outcomes are those of the changes, in their order.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if nothing was kept and the next commit may do better; [`StoreError::Failed`] if it is not
    /// known what was kept, and from then on always; [`StoreError::Fenced`], also for a new record of another shard;
    /// what [`admits`](Self::admits) says of a new record. After the latter two nothing was kept.
    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError>;

    /// Records of a part after a position (exclusive), due up to `until` (inclusive), at most `limit`, in order.
    ///
    /// # Errors
    /// If nothing can be read. Single damaged records are no error: see [`Page::damaged`].
    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError>;

    /// The record with this id, wherever it is; of a timer that goes on while a repetition of it is a dead letter the former.
    ///
    /// # Errors
    /// If it cannot be read.
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError>;

    /// The timer that has this key, pending or set aside. None if the key is longer than any that is kept.
    ///
    /// # Errors
    /// If it cannot be read.
    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError>;

    /// How much there is in a shard.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError>;

    /// Gets ready to copy all that is committed until now into a new directory, which can be opened as a store itself.
    ///
    /// What it answers makes the copy, and may be called on any thread. Commits go on meanwhile, and are not in the copy.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if the store has backups of its own; else if it cannot be read.
    fn back_up(&mut self, directory: &Path) -> Result<BackUp, StoreError> {
        let _ = directory;
        Err(StoreError::Unsupported("backup into a directory"))
    }
}

/// A copy of a store that is about to be made: see [`TimerStore::back_up`]. It blocks; disk space of what is removed
/// meanwhile is not given back before it ends.
pub type BackUp = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

/// Refuses a commit with a record that cannot be kept, or of another shard.
fn admit_all(store: &impl TimerStore, fence: Fence, changes: &[Change]) -> Result<(), StoreError> {
    for change in changes {
        if let Change::Put { record, .. } = change {
            store.admits(record)?;
            if record.id.shard() != fence.shard {
                return Err(StoreError::Fenced { shard: record.id.shard() });
            }
        }
    }
    Ok(())
}

/// Refuses a record that cannot be kept.
fn admit(record: &Record) -> Result<(), StoreError> {
    let size = record_size(record);
    if size > MAX_RECORD_LEN {
        return Err(StoreError::TooLarge { size, limit: MAX_RECORD_LEN });
    }
    match &record.key {
        Some(key) if key.len() > MAX_KEY_LEN => Err(StoreError::KeyTooLong { size: key.len(), limit: MAX_KEY_LEN }),
        _ => Ok(()),
    }
}

/// The bytes of a record that its user decides about: payload, names, key.
fn record_size(record: &Record) -> usize {
    let repeat = match &record.repeat {
        Some(StoredRepeat { mode: RepeatMode::Cron { expression, zone }, .. }) => expression.len() + zone.len(),
        _ => 0,
    };
    let key = record.key.as_ref().map_or(0, |key| key.len());
    record.payload.len() + record.route.len() + record.message_type.len() + key + repeat
}

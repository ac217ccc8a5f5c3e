//! Persistence of durable timers: a narrow trait, and the changes that are committed through it.
//!
//! A store keeps *records* by shard, due time and id. It delivers nothing itself: it commits changes, a group at a time
//! and atomically, and returns records in the order of due times. All other decisions (due times, loading, reactions to
//! failures) are made in one module above it, so that a store is simple to implement correctly.
//!
//! - [`Change`] and [`ChangeOutcome`]: a change of a record, and its outcome.
//! - [`TimerStore`]: commit, load, look up; [`TimerReader`] (`reader`): look up beside the commits.
//! - [`Node`], [`Standing`], [`Group`], [`Arrivals`] (`nodes`): a store that several processes share.
//! - [`RecordBuilder`]: records for a store that schedules by itself.
//! - [`StoreError`]: failures, and their effects on commits.
//!
//! Two stores exist: [`EmbeddedStore`] (`embedded`) on disk, and [`MemoryStore`] (`memory`), which lasts as long as the
//! process, with injected faults. `safe_directory`: directories that no other user controls. [`codec`] is the encoding of a record.

pub mod codec;
mod embedded;
pub(crate) mod holders;
mod memory;
pub(crate) mod names;
mod nodes;
mod reader;
pub(crate) mod safe_directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::{Record, RecordState, RepeatMode, StoredRepeat};
use crate::shown::shown;

pub use super::new_timer::RecordBuilder;
#[cfg(fuzzing)]
pub use embedded::fuzzing;
pub use embedded::{CheckIssue, EmbeddedOptions, EmbeddedStore, ShardStatistics, Statistics};
pub use memory::{CommitGate, FsyncOutcome, MemoryDisk, MemoryStore};
pub use nodes::{Arrivals, Committed, Group, Node, OneShard, Placement, Right, Standing, StoreClock};
pub(crate) use reader::ReadsOf;
pub use reader::TimerReader;
pub use safe_directory::Distrust;

/// A change of the timers of a shard.
///
/// `at` is the known due time of the pending record (its `progress.due`); with `None` the store looks for it. If no
/// pending record is there, the outcome is [`ChangeOutcome::Missing`].
///
/// A key belongs to its timer while that is pending or parked, so that a repeated request finds it then, too.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Stores a new timer. Outcome: [`ChangeOutcome::Created`], [`ChangeOutcome::Exists`] or
    /// [`ChangeOutcome::Replaced`].
    Put {
        /// The timer. Its id is [new](DurableId::new), and of the shard of the commit: stores do not check whether they
        /// already have it.
        record: Arc<Record>,
        /// The action if another timer has its key.
        on_key: OnKey,
    },
    /// Removes a timer, because it was cancelled or is complete: a pending one, or, without `at`, also a parked one.
    /// Outcome: [`ChangeOutcome::Removed`] or [`ChangeOutcome::Missing`]; [`ChangeOutcome::RemovedInFlight`] if it is
    /// removed, and another node has claimed it.
    Remove {
        /// The id of the timer.
        id: DurableId,
        /// The due time of the timer, or none if unknown.
        at: Option<DueTime>,
    },
    /// Gives a pending timer another state, atomically: retried, repeated, rescheduled. Outcome:
    /// [`ChangeOutcome::Moved`] with the new record, or [`ChangeOutcome::Missing`]; [`ChangeOutcome::InFlight`] if
    /// another node has claimed it. A claim of a dead node counts until the owner of the shard knows of its end, from
    /// its [lease](Lease::claims) or as [interrupted](Arrivals::interrupted).
    Move {
        /// The id of the timer.
        id: DurableId,
        /// The due time of the timer, or none if unknown.
        at: Option<DueTime>,
        /// The new state of the timer.
        to: RecordState,
    },
    /// Records that deliveries are about to begin, so that they are known after a crash. Outcome:
    /// [`ChangeOutcome::Done`]; or [`ChangeOutcome::Claimed`] if other nodes have removed or moved members: the claim is
    /// kept without them. It replaces a claim with its number.
    Claim(Claim),
    /// Removes a claim whose deliveries have all ended. Outcome: [`ChangeOutcome::Done`]. Under
    /// [`Right::Claimant`] a claim of another node stays.
    EndClaim {
        /// The number of the claim.
        number: u64,
    },
    /// Copies a pending timer to the dead letters, and removes the timer or, with `then`, lets it continue. A timer has
    /// at most one dead letter: that of a repetition replaces an earlier one. Outcome: [`ChangeOutcome::Moved`] if it
    /// continues, else [`ChangeOutcome::Removed`]; or [`ChangeOutcome::Missing`].
    DeadLetter {
        /// The id of the timer.
        id: DurableId,
        /// The due time of the timer, or none if unknown.
        at: Option<DueTime>,
        /// The reason.
        reason: Arc<str>,
        /// The time at which it became a dead letter.
        dead_at: DueTime,
        /// The next state of a timer that repeats.
        then: Option<RecordState>,
    },
    /// Makes a dead letter a pending timer again: due at `due`, attempt 1, no further repetition, with its key if no
    /// other timer has that by now. Outcome: [`ChangeOutcome::Moved`], or [`ChangeOutcome::Missing`] if there is no
    /// such dead letter or its timer is pending or parked (as one that repeats may be).
    Requeue {
        /// The id of the timer.
        id: DurableId,
        /// The new due time of the timer.
        due: DueTime,
    },
    /// Removes a dead letter. Outcome: [`ChangeOutcome::Removed`] or [`ChangeOutcome::Missing`].
    Discard {
        /// The id of the timer.
        id: DurableId,
    },
    /// Parks a pending timer for which this build has no route or decoder. Outcome: [`ChangeOutcome::Removed`] or
    /// [`ChangeOutcome::Missing`].
    Park {
        /// The id of the timer.
        id: DurableId,
        /// The due time of the timer, or none if unknown.
        at: Option<DueTime>,
    },
    /// Makes a parked timer pending again, unchanged. Outcome: [`ChangeOutcome::Moved`] or [`ChangeOutcome::Missing`].
    Unpark {
        /// The id of the timer.
        id: DurableId,
    },
    /// Raises the cursor, so that loading need not look before it. A change of the same or a later commit that makes an
    /// earlier timer pending lowers it again. Outcome: [`ChangeOutcome::Done`].
    Advance {
        /// The new lower bound on due times of pending timers.
        to: DueTime,
    },
}

/// The action for a new timer whose key another timer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnKey {
    /// The other one stays, and the new one is not stored.
    KeepExisting,
    /// The other one is removed in the same step.
    Replace,
}

/// A set of deliveries that are about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The number of the claim, unique in its shard while it is kept.
    pub number: u64,
    /// The id, due time and attempt of each delivery.
    pub members: Vec<(DurableId, DueTime, u32)>,
}

/// The outcome of a [`Change`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChangeOutcome {
    /// The timer is new.
    Created,
    /// This timer has the key. Nothing was changed.
    Exists(DurableId),
    /// The new timer has replaced this one.
    Replaced(DurableId),
    /// The timer is removed.
    Removed,
    /// The timer has this new state.
    Moved(Arc<Record>),
    /// The timer does not exist, and nothing was changed.
    Missing,
    /// The change was made. Of a moved timer: and others have changed it since.
    Done,
    /// The record of the timer was written by a newer version of this crate, and nothing was changed: this version
    /// knows only parts of it.
    Newer {
        /// The id of the timer.
        id: DurableId,
        /// The version of the record.
        version: u8,
    },
    /// The timer is removed. Another node has claimed it, so its last delivery may be in progress.
    RemovedInFlight,
    /// The new timer has replaced this one, which another node has claimed, or this one in another shard.
    ReplacedInFlight(DurableId),
    /// Another node has claimed the timer, and nothing was changed.
    InFlight,
    /// The claim was made without these members: other nodes have removed or moved them.
    Claimed {
        /// Members without a pending timer.
        missing: Vec<DurableId>,
    },
}

/// The right to write to a shard, held by its owner until another one acquires it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The shard.
    pub shard: u16,
    /// The number of the ownership, which increases with each new owner. A store rejects a commit with an older one.
    pub epoch: u64,
}

/// The state of a shard that a new owner receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The fence for each commit.
    pub fence: Fence,
    /// Lower bound on due times of pending timers.
    pub cursor: DueTime,
    /// Deliveries that the previous owner had begun and not ended when it died.
    pub claims: Vec<Claim>,
    /// Deliveries in progress on other nodes that have given up the shard and live. Their timers must not be delivered
    /// before they are [released](Arrivals::released).
    pub held: Vec<Claim>,
    /// Whether the previous owner left claims in other shards, too, when it died.
    pub has_other_claims: bool,
}

impl Lease {
    /// Creates the lease of a shard that no other node has had.
    pub const fn new(fence: Fence, cursor: DueTime, claims: Vec<Claim>) -> Self {
        Self { fence, cursor, claims, held: Vec::new(), has_other_claims: false }
    }
}

/// The parts of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Pending timers.
    Pending,
    /// Timers for which this or an earlier build had no route or decoder.
    Parked,
    /// Dead letters.
    Dead,
}

/// The position of a record in its part of a shard, which is in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The due time. For dead letters: the last one.
    pub due: DueTime,
    /// The id, which distinguishes timers due together.
    pub id: DurableId,
}

impl Position {
    /// Returns the position of a record.
    pub fn of(record: &Record) -> Self {
        Self { due: record.progress.due, id: record.id }
    }
}

/// A record with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The record.
    pub record: Arc<Record>,
    /// The part of the shard.
    pub part: Part,
    /// Reason and time of a dead letter.
    pub dead_letter: Option<(Arc<str>, DueTime)>,
    /// Whether a claim in the store names the pending timer, so that it is in flight on some node. A store that several
    /// nodes share, or that gives a [`TimerReader`], must set it in [`get`](TimerStore::get) and
    /// [`list`](TimerStore::list). Other stores leave it false: their only node knows its deliveries.
    pub is_claimed: bool,
}

/// A page of records of a part, in the order of their positions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The records.
    pub found: Vec<Found>,
    /// The position to continue; none if no more are due up to the requested time.
    pub next: Option<Position>,
    /// Ids of damaged records (wrong checksum). They stay in the store, and are skipped.
    pub damaged: Vec<Option<DurableId>>,
    /// Records that a newer version of this crate has written. They are sound, stay in the store, and are skipped.
    pub newer: Vec<Newer>,
}

/// A record that a newer version of this crate has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Newer {
    /// The position of the record.
    pub at: Position,
    /// The version of the record.
    pub version: u8,
}

/// The numbers of timers: exact in the stores of this crate; a store that nodes share may estimate large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pending timers.
    pub pending: u64,
    /// Parked timers.
    pub parked: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Maximum size of a record in the stores of this crate, in bytes of payload, names, key and headers together.
pub const MAX_RECORD_LEN: usize = 1 << 20;
/// Maximum length of an idempotency key in the stores of this crate, in bytes.
pub const MAX_KEY_LEN: usize = 1024;

/// The failure of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing of the group was kept, and the store continues; for example on a full disk.
    #[error("the store cannot write ({0}): nothing of the request was kept; free space or fix the cause, and retry")]
    Rejected(#[source] std::io::Error),
    /// An fsync failed: the group may or may not be kept, and the store accepts nothing more.
    #[error(
        "the store has failed ({0}) and acknowledges nothing any more: restart the process when the cause is fixed"
    )]
    Failed(#[source] std::io::Error),
    /// The store on the network cannot be reached, or does not accept writes.
    #[error(
        "the store cannot be reached ({0}): nothing of the request was kept; it is accepted again when the store is back"
    )]
    Unavailable(String),
    /// A node of an older version of this crate lives, which could not read the record.
    #[error(
        "the node {node:?} reads records up to version {reads}, and headers or a payload codec need version {needs}: upgrade \
         that node first, or schedule without them"
    )]
    OlderNode {
        /// The label of the node.
        node: String,
        /// The newest version that it reads.
        reads: u8,
        /// The version of the record.
        needs: u8,
    },
    /// The connection broke before the reply.
    #[error(
        "the store did not reply in time ({0}), so the request may or may not have been kept: repeat it with an idempotency key"
    )]
    Unknown(String),
    /// A statement in a transaction of the caller failed.
    #[error(
        "a statement in the transaction failed ({0}), which aborts the transaction: roll it back, and repeat it when the cause \
         is fixed"
    )]
    Aborted(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another owner has the shard. Nothing of the request was kept.
    #[error(
        "the shard {shard} belongs to another owner now: nothing of the request was kept; repeat it if nodes share the \
         store, else open it again"
    )]
    Fenced {
        /// The shard.
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
        "other users can write to the directory of the store {path} (mode {mode:o}), so its content may be theirs: if you \
         trust it, run `chmod 700` on it; else choose another directory",
        path = shown(path)
    )]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// The mode of the directory.
        mode: u32,
    },
    /// Another user of the machine may control the directory or a part of it. Nothing was opened or changed.
    #[error("{path} cannot be trusted: {reason}", path = shown(path))]
    Untrusted {
        /// The directory, or the file or link in it or on the path to it.
        path: PathBuf,
        /// The reason, with the remedy.
        reason: Distrust,
    },
    /// A backup into the directory was interrupted.
    #[error(
        "{} holds a backup that was not finished, which is no store: back up into it again, or remove it and restore another one",
        shown(.0)
    )]
    UnfinishedBackup(PathBuf),
    /// The directory holds other files.
    #[error("{path} is not a timer store ({reason}): choose another directory, or an empty one", path = shown(path))]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The store was written by a later version.
    #[error(
        "the store {path} has format {found}, and this version knows formats up to {known}: use a newer version of actix-timers",
        path = shown(path)
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
        /// The newest supported format.
        known: u32,
    },
    /// The files cannot be opened or read.
    #[error(
        "the store {path} cannot be read ({reason}): check its permissions; if it is damaged restore a backup",
        path = shown(path)
    )]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A newer version of this crate has written the record. It is kept, and nothing was changed.
    #[error(
        "the timer {id} has a record of version {found}, and this version of actix-timers knows versions up to {known}: it is \
         kept; use a newer version"
    )]
    NewerRecord {
        /// The id of the timer.
        id: DurableId,
        /// The version of the record.
        found: u8,
        /// The newest known version.
        known: u8,
    },
    /// A record is larger than the store accepts.
    #[error(
        "a record of {size} bytes is larger than the {limit} bytes that the store takes: keep large data elsewhere"
    )]
    TooLarge {
        /// The size of the record in bytes.
        size: usize,
        /// The maximum size in bytes.
        limit: usize,
    },
    /// An idempotency key is longer than the store accepts.
    #[error(
        "an idempotency key of {size} bytes is longer than the {limit} bytes that the store takes: use a digest of it"
    )]
    KeyTooLong {
        /// The length of the key in bytes.
        size: usize,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The store does not support the operation.
    #[error("this store has no {0}")]
    Unsupported(&'static str),
    /// The store was closed.
    #[error("the store is closed: the durable timers have been stopped")]
    Closed,
}

/// A store of durable timers.
///
/// Calls block; they come from one thread at a time. A store on the network waits by itself.
///
/// Every implementation must pass the same contract suite.
pub trait TimerStore: Send + 'static {
    /// Acquires a shard. On a single node this always succeeds.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another owner has it.
    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError>;

    /// Releases a shard.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn release(&mut self, fence: Fence) -> Result<(), StoreError> {
        let _ = fence;
        Ok(())
    }

    /// Checks that a new record can be stored. Called for each record before several callers' requests are grouped: in
    /// a commit one unacceptable record rejects the whole group, with the completions in it.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::KeyTooLong`]; [`StoreError::Rejected`] if there is no room for new
    /// records.
    fn admits(&self, record: &Record) -> Result<(), StoreError> {
        let _ = record;
        Ok(())
    }

    /// Applies all changes or none, in their order, each seeing the previous ones. When it returns they are on disk.
    ///
    /// Returns the outcomes in the order of the changes.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] if nothing was kept and the next commit may succeed; [`StoreError::Failed`] if the
    /// effect is unknown, and from then on always; [`StoreError::Fenced`], also for a new record of another shard; the
    /// errors of [`admits`](Self::admits) for a new record. After the latter two nothing was kept.
    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError>;

    /// Returns records of a part after a position (exclusive), due up to `until` (inclusive), at most `limit`, in
    /// order.
    ///
    /// # Errors
    /// Nothing can be read. Single records that cannot be read are no error: see [`Page::damaged`] and [`Page::newer`].
    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError>;

    /// Returns the record with this id, in any part; if a repetition of a pending timer is a dead letter, the pending
    /// record.
    ///
    /// # Errors
    /// The record cannot be read. [`StoreError::NewerRecord`] if a newer version has written it.
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError>;

    /// Returns the pending or parked timer that has this key, in a shared store of any shard. None if the key is longer
    /// than any stored one.
    ///
    /// # Errors
    /// The store cannot be read.
    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError>;

    /// Returns the numbers of timers in a shard.
    ///
    /// # Errors
    /// The store cannot be read.
    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError>;

    /// Joins the nodes that share the store, and returns the shards that this one owns at first. Called once, before
    /// other calls. By default the store has one node, which acquires shard 0.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    fn join(&mut self, node: &Node) -> Result<Standing, StoreError> {
        let _ = node;
        Ok(Standing { gained: vec![self.acquire(0)?], ..Standing::default() })
    }

    /// Returns the interval at which [`standing`](Self::standing) and [`arrivals`](Self::arrivals) must be called, if
    /// other nodes can write to the store. Then a delivery also begins only after its claim was committed.
    fn poll_interval(&self) -> Option<Duration> {
        None
    }

    /// Returns the changes of ownership since the last call, without waiting for anything.
    fn standing(&mut self) -> Standing {
        Standing::default()
    }

    /// Acquires no more shards from now on.
    fn retire(&mut self) {}

    /// Gives up shards in favour of other nodes. Deliveries in progress may still be ended, as
    /// [`Right::Claimant`].
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn give_up(&mut self, shards: &[u16]) -> Result<(), StoreError> {
        let _ = shards;
        Ok(())
    }

    /// Commits several groups together. The groups that are not fenced are all kept, or none.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), except for fenced groups; [`StoreError::Unavailable`] if nothing was kept;
    /// [`StoreError::Unknown`] if the effect cannot be found out: then all shards are lost at the next
    /// [`standing`](Self::standing).
    fn commit_groups(&mut self, groups: &[Group<'_>]) -> Result<Vec<Committed>, StoreError> {
        commit_one_by_one(self, groups)
    }

    /// Returns events in owned shards since the last call, a bounded number. Timers that other nodes have removed are
    /// not among them: a claim reports these as missing.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn arrivals(&mut self) -> Result<Arrivals, StoreError> {
        Ok(Arrivals::default())
    }

    /// Returns timers of all shards; else as [`load`](Self::load).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError> {
        self.load(part, 0, after, until, limit)
    }

    /// Returns the numbers of timers in all shards, which may be an estimate.
    ///
    /// # Errors
    /// As [`counts`](Self::counts).
    fn total(&mut self) -> Result<Counts, StoreError> {
        self.counts(0)
    }

    /// Counts the timers in all shards: as [`total`](Self::total), and never an estimate.
    ///
    /// # Errors
    /// As [`counts`](Self::counts).
    fn exact_total(&mut self) -> Result<Counts, StoreError> {
        self.total()
    }

    /// Returns a reader for queries, which then do not wait for commits. By default they are answered between commits.
    ///
    /// A store that gives a reader must set [`Found::is_claimed`]: see [`TimerReader`].
    ///
    /// # Errors
    /// The store cannot be read: then durable timers do not start, with
    /// [`DurableBuildError::Store`](crate::DurableBuildError::Store).
    fn reader(&mut self) -> Result<Option<Box<dyn TimerReader>>, StoreError> {
        Ok(None)
    }

    /// Returns the chooser of shards for new timers.
    fn placement(&self) -> Arc<dyn Placement> {
        Arc::new(OneShard)
    }

    /// Returns the wall clock that all nodes follow, if that is not the system's.
    fn clock(&self) -> Option<StoreClock> {
        None
    }

    /// Prepares a copy of all committed data in a new directory, which can be opened as a store itself.
    ///
    /// The returned function makes the copy, and may be called on any thread. Commits continue meanwhile, and are not
    /// in the copy.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if the store has backups of its own; else it cannot be read.
    fn back_up(&mut self, directory: &Path) -> Result<BackUp, StoreError> {
        let _ = directory;
        Err(StoreError::Unsupported("backup into a directory"))
    }
}

impl StoreError {
    /// Creates the error of a record of a newer version.
    pub const fn newer_record(id: DurableId, version: u8) -> Self {
        Self::NewerRecord { id, found: version, known: codec::NEWEST }
    }
}

/// Commits the groups of the owner of the only shard.
fn commit_one_by_one<S: TimerStore + ?Sized>(
    store: &mut S,
    groups: &[Group<'_>],
) -> Result<Vec<Committed>, StoreError> {
    let commit = |group: &Group<'_>| match group.right {
        Right::Owner(fence) => store.commit(fence, group.changes).map(Committed::Outcomes),
        Right::Claimant { .. } | Right::Anyone => Ok(Committed::Fenced),
    };
    groups.iter().map(commit).collect()
}

/// A prepared copy of a store: see [`TimerStore::back_up`]. It blocks; disk space of data removed meanwhile is not
/// freed before it ends.
pub type BackUp = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

/// Rejects a commit with a record that cannot be stored, or of another shard.
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

/// Checks the lengths of a record: the part of [`TimerStore::admits`] that is the same in all stores.
///
/// # Errors
/// [`StoreError::TooLarge`], [`StoreError::KeyTooLong`].
pub fn check_lengths(record: &Record) -> Result<(), StoreError> {
    let size = record_size(record);
    if size > MAX_RECORD_LEN {
        return Err(StoreError::TooLarge { size, limit: MAX_RECORD_LEN });
    }
    match &record.key {
        Some(key) if key.len() > MAX_KEY_LEN => Err(StoreError::KeyTooLong { size: key.len(), limit: MAX_KEY_LEN }),
        _ => Ok(()),
    }
}

/// Returns the bytes of a record that depend on its user: payload, names, key, headers.
fn record_size(record: &Record) -> usize {
    let repeat = match &record.repeat {
        Some(StoredRepeat { mode: RepeatMode::Cron { expression, zone }, .. }) => expression.len() + zone.len(),
        _ => 0,
    };
    let key = record.key.as_ref().map_or(0, |key| key.len());
    let codec = record.payload_codec.as_ref().map_or(0, |codec| codec.len());
    record.payload.len() + record.route.len() + record.message_type.len() + key + codec + repeat + record.headers.size()
}

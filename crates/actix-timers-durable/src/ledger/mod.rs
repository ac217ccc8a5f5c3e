//! The ledgers: make all decisions about durable timers.
//!
//! Each [`Ledger`] is the state machine of one shard. [`Ledgers`] are those of a node, on one thread. They own the store,
//! and hold no clock. A turn has two halves:
//!
//! 1. [`Ledgers::commit`] takes a group of [requests](Request), writes their changes in one commit, and returns the
//!    replies.
//! 2. [`Ledgers::maintain`] arms new records of the near future, and loads the next ones.
//!
//! # The life of a timer
//!
//! ```text
//!              put, loaded             claim                         complete
//!   (on disk) ------------> Pending ----------> InFlight -> Ending -----------> (gone)
//!       ^                     |  ^                            |
//!       |       evicted       |  |   retry, repetition: soon  |
//!       +---------------------+  +----------------------------+
//!       |              retry, repetition: later               |
//!       +-----------------------------------------------------+
//! ```
//!
//! A cancel removes a timer from the disk in any state. One that is InFlight stays in memory until its delivery has
//! ended, and nothing follows. A timer that is Ending is unchanged on disk until the next step is written: a request
//! after the end is written after it.
//!
//! # Reading order
//!
//! - `request`: requests and replies; `horizon`: reports of due records.
//! - `ledgers`: from a request to its shard, and the commit for all shards; `foreign`: changes of shards of other nodes;
//!   `ownership`: shards gained and lost.
//! - `prepare`: the changes of a request; `group`: the commit, and the reply to each; `internal_changes`: its own
//!   changes, kept until they are written; `batch`: several new timers in one request; `health`: failures to write.
//!   `repeat`: the change after a delivery.
//! - `table`: records in memory; `frontier`: the boundary of loading; `loading`: loading, arming and evicting;
//!   `recovery`: records of the previous process; `suspects`: the message to blame for the death of a process;
//!   `paused`: records left on disk because their routes have no recipient; `newer`: records that a newer version has
//!   written; `retention`: old dead letters.
//! - `queries`, `replies`, `note`: queries, replies and log events.

mod batch;
mod closed;
mod foreign;
mod frontier;
mod group;
mod health;
mod horizon;
mod internal_changes;
mod ledgers;
mod loading;
mod newer;
mod note;
mod ownership;
mod paused;
mod prepare;
mod queries;
mod recovery;
mod repeat;
mod replies;
mod request;
mod retention;
mod suspects;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::{Record, RetryPolicy};
use super::store::{Fence, Lease, Right, StoreError};
use crate::metrics::{DurableCounters, DurableReport};
use frontier::Frontier;
use group::Group;
use health::{Health, Trouble};
use internal_changes::InternalChanges;
use newer::Skipped;
use note::DeadLetterLimits;
use ownership::{Held, Role};
use paused::Paused;
use recovery::Recovery;
use retention::Retention;
use table::{Table, Turn};

pub(crate) use batch::{MAX_BATCH, MAX_BATCH_BYTES};
pub(crate) use horizon::Horizon;
pub(crate) use ledgers::Ledgers;
pub(crate) use note::Note;
pub(crate) use queries::{InFlight, Queries};
pub(crate) use replies::Replies;
pub(crate) use request::{Answer, Answered, Cancellation, Query, Request, Rescheduling, Scheduled, Seen, Verdict};

/// The configuration of the ledgers of a node.
#[derive(Debug, Clone)]
pub(crate) struct LedgerConfig {
    /// The time ahead for which records are loaded.
    pub(crate) horizon: Duration,
    /// Maximum number of records in memory, at least one. Records in flight count.
    pub(crate) loaded: usize,
    /// Maximum bytes of their payload and headers; records in flight may exceed it.
    pub(crate) loaded_bytes: usize,
    /// Maximum number of requests in one commit.
    pub(crate) group: usize,
    /// The time after which dead letters are discarded; none: never.
    pub(crate) keep_dead_letters: Option<Duration>,
}

impl Default for LedgerConfig {
    /// A minute, 262 144 records, 256 MiB of payload, 4096 requests; dead letters stay.
    fn default() -> Self {
        Self {
            horizon: Duration::from_secs(60),
            loaded: 262_144,
            loaded_bytes: 256 << 20,
            group: 4096,
            keep_dead_letters: None,
        }
    }
}

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The wall-clock time.
    pub(crate) wall: DueTime,
    /// The monotonic time, from any origin.
    pub(crate) time: Duration,
}

/// The retry policy of a route and message type; none if this build does not know them.
pub(crate) type PolicyOf = Arc<dyn Fn(&str, &str) -> Option<RetryPolicy> + Send + Sync>;

/// The ledger of a shard; see the [module](self).
pub(crate) struct Ledger<H: Horizon> {
    fence: Fence,
    role: Role,
    /// Whether other nodes can write to the shard. Then no delivery begins before its claim is committed.
    is_shared: bool,
    config: LedgerConfig,
    policy_of: PolicyOf,
    horizon: H,
    health: Health,
    /// The last new timer was rejected: for now the store accepts only other changes.
    has_no_room: bool,
    /// Lower bound on due times of pending records, from the store.
    cursor: DueTime,
    /// The largest sequence number of a loaded record.
    sequence: u64,
    /// Timers in delivery on former owners of the shard.
    held: Held,
    /// Timers that other nodes have moved or delivered: perhaps into the near future.
    vanished: Vec<DurableId>,
    /// A timer that another node has moved, perhaps to before the cursor, is to be found after the unwritten changes.
    has_passed_over: bool,
    /// The cursor in the commit being written.
    advancing: Option<DueTime>,
    internal_changes: InternalChanges,
    table: Table<H::Handle>,
    frontier: Frontier,
    /// Loading continues until the horizon is reached, or there is no room.
    is_filling: bool,
    /// Number of records in the next page.
    page: usize,
    load_trouble: Option<Trouble>,
    /// Records in the table that are not armed.
    to_arm: Vec<Turn>,
    recheck_at: Option<DueTime>,
    recovery: Recovery,
    /// The number of a claim without members, once the end of this process proves nothing about a delivery that is
    /// alone.
    exoneration: Option<u64>,
    paused: Vec<Paused>,
    /// Records of a newer version.
    skipped: Skipped,
    retention: Retention,
    counters: DurableCounters,
    notes: Vec<Note>,
    dead_letter_limits: DeadLetterLimits,
    /// Unknown routes and types already reported.
    unknown: HashSet<(Arc<str>, Arc<str>)>,
    /// Kept to reuse its memory.
    group: Group,
}

impl<H: Horizon> Ledger<H> {
    /// Creates the ledger of an acquired shard. Nothing is loaded or armed before the first
    /// [`maintain`](Self::maintain).
    fn of(lease: Lease, is_shared: bool, config: LedgerConfig, policy_of: PolicyOf, horizon: H) -> Self {
        let Lease { fence, cursor, claims, held, has_other_claims } = lease;
        let next_claim = claims.iter().chain(&held).map(|claim| claim.number.saturating_add(1)).max().unwrap_or(0);
        Self {
            fence,
            role: Role::Owner,
            is_shared,
            config,
            policy_of,
            horizon,
            health: Health::Well,
            has_no_room: false,
            cursor,
            sequence: 0,
            held: Held::of(&held),
            vanished: Vec::new(),
            has_passed_over: false,
            advancing: None,
            internal_changes: InternalChanges::default(),
            table: Table::new(next_claim),
            frontier: Frontier::before(cursor),
            is_filling: false,
            page: 32,
            load_trouble: None,
            to_arm: Vec::new(),
            recheck_at: None,
            recovery: Recovery::from(claims, has_other_claims),
            exoneration: None,
            paused: Vec::new(),
            skipped: Skipped::default(),
            retention: Retention::default(),
            counters: DurableCounters::default(),
            notes: Vec::new(),
            dead_letter_limits: DeadLetterLimits::default(),
            unknown: HashSet::new(),
            group: Group::default(),
        }
    }

    /// Returns the right to write the changes.
    const fn right(&self) -> Right {
        match self.role {
            Role::Owner | Role::Leaving => Right::Owner(self.fence),
            Role::Former => Right::Claimant { shard: self.fence.shard },
        }
    }

    /// Returns the counters and gauges, except the numbers of stored timers and the wait of requests.
    fn report(&self, now: Reading) -> DurableReport {
        DurableReport {
            counters: self.counters,
            loaded: self.table.len() as u64,
            in_flight: self.table.in_flight() as u64,
            loaded_ahead: self.frontier.bound().saturating_since(now.wall),
            overdue: now.wall.saturating_since(self.table.first_due().unwrap_or(DueTime::MAX).min(self.first_left())),
            has_failed: self.health.end().is_some_and(|why| !matches!(**why, StoreError::Closed)),
            ..DurableReport::default()
        }
    }

    fn note(&mut self, note: Note) {
        if cfg!(feature = "tracing") {
            self.notes.push(note);
        }
    }

    /// Takes the log events since the last call.
    fn drain_notes(&mut self) -> impl Iterator<Item = Note> {
        self.notes.drain(..)
    }

    fn note_dead_letter(&mut self, now: Reading, record: &Arc<Record>, reason: &Arc<str>) {
        let note = self.dead_letter_limits.note(now.time, record, reason);
        self.note(note);
    }

    fn note_parked(&mut self, record: &Record) {
        let name = (Arc::clone(&record.route), Arc::clone(&record.message_type));
        // 1024 warnings are enough for any reader.
        if self.unknown.len() < 1024 && self.unknown.insert(name.clone()) {
            self.note(Note::Parked { route: name.0, message_type: name.1 });
        }
    }
}

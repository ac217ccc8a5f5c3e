//! Stores of durable timers: the decision about a timer is in its row.
//!
//! A store keeps one row for each timer. Everything that is known elsewhere about a timer is a *hint*: id, due time and
//! route. A wrong hint costs a claim that returns nothing.
//!
//! # The life of a row
//!
//! ```text
//!           Put                 Claim                      End(Delete)
//! (none) --------> pending ----------------> claimed ----------------------> (gone)
//!                    ^  node is null         node is set, attempt + 1,  |
//!                    |                       used + 1                   |
//!                    +------ End(Again): retry, next repetition --------+
//!                    +------ End(Snooze), End(GiveBack): used - 1 ------+
//!                    +------ End(Release) ------------------------------+
//!                    +------ the claiming node has died ----------------+
//!                                            End(KeepKey): ended, and gone when the time for its key is over
//!                                            End(Dead): a dead letter, and gone or Again
//!                                            End(Park): nobody may claim it
//! ```
//!
//! A cancel deletes the row in any state: whatever its handler does afterwards, the end finds no row. A move changes only
//! rows that are not claimed. Whoever writes a due time writes the greater of the wish and the present time, so a look
//! that begins at the present time misses nothing.
//!
//! `record`: the row as a value; `effect`: a write of a handler; `json`: the columns that are JSON; `error`: failures; `past`:
//! finished timers; `embedded`: the store for one process, on SQLite; `memory`: the same without files; `clock`: that of a store
//! that nodes share, by the `boot_clock`; `safe_directory`: that of the embedded store, which no other user controls. `model_of_rows`: the protocol
//! of nodes, leases and rows in every order of events, with all rules and without each.

pub mod boot_clock;
mod clock;
mod effect;
mod embedded;
mod error;
mod json;
mod memory;
mod past;
mod record;
mod safe_directory;

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::pause::{Pause, PauseTarget};

pub use super::new_timer::RecordBuilder;
pub use super::view::DurableState as State;
pub use clock::StoreClock;
pub use effect::Effect;
pub use embedded::EmbeddedStore;
pub use error::StoreError;
pub use json::{
    finished_from_json, headers_from_json, headers_to_json, note_to_json, repeat_from_json, repeat_to_json,
    retry_from_json, retry_to_json,
};
pub use memory::{FsyncOutcome, MemoryDisk, MemoryStore};
pub use past::{AttemptError, Finished, Note};
pub use record::{NO_END, Progress, Record};

/// A change of rows. Each is made wholly or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Stores new timers, all or none. Each sees the previous ones.
    Put(Vec<NewTimer>),
    /// Claims pending timers for delivery by this node.
    Claim(Claim),
    /// Ends a delivery, if its row is still as it was claimed.
    End(Delivery, Next),
    /// Ends a delivery as [`End`](Self::End) does, with an effect of its handler in the same transaction: both, or neither.
    EndWith(Delivery, Next, Effect),
    /// Deletes a timer in any state but that of a dead letter.
    Cancel(DurableId),
    /// Moves a timer that is not claimed to another due time. A repetition continues from there: `due` and `nominal` are
    /// set, `nominal` to the wish. A parked timer is moved, too, and stays parked.
    Move(DurableId, DueTime),
    /// Makes a dead letter a pending timer again, due now, with its whole budget. `nominal`, `repetition` and `attempt` stay;
    /// no further repetition follows, since its series has gone on, or has ended.
    Requeue(DurableId),
    /// Deletes a dead letter.
    Discard(DurableId),
    /// Deletes at most `limit` dead letters that are older; with a route, finished timers of its past.
    DiscardOlder {
        /// The route of a past.
        past_of: Option<Arc<str>>,
        /// The time before which they became dead letters, or finished.
        than: DueTime,
        /// The maximum number.
        limit: usize,
    },
    /// Stores a row of another store as it was found there, unless a row has its id: a claimed one as pending. It is due now
    /// if it is overdue. One of the past is not stored: [`Outcome::NotFound`].
    Restore(Arc<Found>),
    /// Pauses a route or a node that the store knows, or parks a timer in any state but that of a dead letter: a running
    /// handler runs on. Replaces an earlier pause. When it is made, no node claims anything any more that it excludes.
    Pause(Pause),
    /// Ends a pause. A timer is due now if it is overdue.
    Resume(PauseTarget),
}

/// Maximum size of a record in the stores of this crate, in bytes of payload, names, key and headers together.
pub const MAX_RECORD_LEN: usize = 1 << 20;

/// The action for a new timer whose key another timer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnKey {
    /// The other one stays, and the new one is not stored.
    KeepExisting,
    /// The other one is removed in the same step.
    Replace,
}

/// A new timer, with the action if another one of its route has its key.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTimer {
    /// The row: `attempt` and `used` are 0, `repetition` is 1.
    pub record: Arc<Record>,
    /// The action for its key, if it has one.
    pub on_key: OnKey,
}

/// A claim of pending timers: each that is still pending, due by the store's clock, not parked, and of a type that this node
/// [serves](NodeInfo::serves). The others are left as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The timers, each once.
    pub ids: Vec<DurableId>,
    /// The treatment of suspects.
    pub suspects: Suspects,
}

/// The treatment of suspects in a claim: timers whose budget was used up by nodes that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspects {
    /// Suspects are left.
    Left,
    /// Only suspects are claimed, and marked `alone`: if this node dies, the timer is to blame. The claim names one id.
    Marked,
    /// Only suspects are claimed, unmarked, since other handlers may still be running.
    Unmarked,
}

/// The message types that a node delivers, or can deliver now. Of timers of other routes, types and newer versions no hint is
/// returned, and none is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// The types by route.
    pub served: Vec<Served>,
}

/// A message type that a node delivers on a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its number in the node, as in [`Hint::route`].
    pub index: u16,
    /// The route.
    pub route: Arc<str>,
    /// The name of the message type.
    pub message_type: Arc<str>,
    /// The newest version that this build decodes.
    pub version: u32,
    /// The budget of timers without their own.
    pub max_attempts: u32,
}

/// A delivery, as it was claimed: the fence of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Delivery {
    /// The timer.
    pub id: DurableId,
    /// The number of the repetition.
    pub repetition: u64,
    /// The number of the attempt.
    pub attempt: u32,
}

/// The state of a row after a delivery. Each but `Delete` ends the claim, and removes the mark `alone`.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The timer is complete.
    Delete,
    /// The timer is complete, and its key stays taken for this time.
    KeepKey(Duration),
    /// Another attempt or repetition follows.
    Again(Again),
    /// The timer is copied to the dead letters, where it replaces an earlier letter of its id, and deleted or, if it repeats,
    /// continued.
    Dead {
        /// The reason.
        reason: Arc<str>,
        /// The next repetition.
        then: Option<Again>,
    },
    /// Nobody may claim the timer, until a node joins that serves its type; one that was paused meanwhile stays so. The budget is as before the claim.
    Park {
        /// The reason.
        reason: Arc<str>,
    },
    /// The delivery has not begun: the budget is as before the claim. As with `Release`, an earlier due time becomes the
    /// present one, so that a look that begins there finds the timer; `nominal` stays.
    GiveBack,
    /// The handler wants the message again at this time: the budget is as before the claim.
    Snooze(DueTime),
    /// The delivery has begun, and its outcome will not be known: the budget is used.
    Release,
    /// One of the others, with a note for the past.
    Noted(Box<Self>, Box<Note>),
}

impl Next {
    /// Returns the state itself, and the note.
    pub fn split(&self) -> (&Self, Option<&Note>) {
        if let Self::Noted(next, note) = self { (next.split().0, Some(note)) } else { (self, None) }
    }
}

/// The next delivery of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// The wish for the due time.
    pub due: DueTime,
    /// The due time of the message, retries aside.
    pub nominal: DueTime,
    /// The number of the repetition. With a new one `attempt` and `used` begin at 0, else `attempt` stays.
    pub repetition: u64,
    /// The part of the budget that is returned: all of one without an end.
    pub returned: u32,
}

/// The outcome of an [`Op`] that was made.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Of [`Op::Put`], in the order of the timers.
    Put(Vec<Placed>),
    /// Of [`Op::Claim`].
    Claimed {
        /// The claimed rows, in the order of the ids in the claim. `progress` is that of the delivery.
        records: Vec<Arc<Record>>,
        /// Pending rows that are not due yet, and their due times: moved, or the clock was set back.
        not_due: Vec<(DurableId, DueTime)>,
        /// Rows whose content differs from what the caller gave: they are parked as damaged.
        damaged: Vec<DurableId>,
        /// Rows that are due and were left because of the [treatment](Suspects) of suspects: they are suspects, or are none.
        left: Vec<DurableId>,
        /// Pending rows that are due and were left because somebody has locked them, and their due times. Later looks find them.
        locked: Vec<(DurableId, DueTime)>,
    },
    /// Of [`Op::End`] and [`Op::EndWith`]: the row is changed. The due time is that of [`Next::Again`], [`Next::GiveBack`] or [`Next::Release`] as
    /// written.
    Ended {
        /// The due time, if the row is pending.
        due: Option<DueTime>,
    },
    /// Of [`Op::Cancel`], [`Op::Discard`]: it is deleted, and was not claimed. Of [`Op::Resume`]: the pause is
    /// over, and its timers are found by looks from the very beginning.
    Deleted,
    /// Of [`Op::Cancel`]: it is deleted, and was claimed. Of [`Op::Move`]: it is claimed, and nothing was changed.
    InProgress,
    /// Of [`Op::Pause`].
    Paused,
    /// Of [`Op::Move`] and [`Op::Requeue`]: the due time as written.
    Moved(DueTime),
    /// Of [`Op::Requeue`]: nothing was changed, because this timer has its key now.
    KeyInUse(DurableId),
    /// Of [`Op::Requeue`]: nothing was changed, because the timer of the letter is pending or claimed, as one that repeats
    /// may be.
    StillPending,
    /// There is no such row, or no longer in the state that the change needs.
    NotFound,
    /// Of [`Op::DiscardOlder`]: the number of deleted rows.
    Discarded(usize),
}

/// The outcome of one new timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The timer is new.
    Created {
        /// The due time as written.
        due: DueTime,
    },
    /// This timer of the route has the key, or had it and is complete. Nothing was changed. The new timer itself, if it was stored before: the request
    /// was repeated.
    Exists(DurableId),
    /// The new timer has replaced this one.
    Replaced {
        /// The replaced timer.
        old: DurableId,
        /// Whether it was claimed: its last delivery may be in progress.
        in_progress: bool,
        /// The due time as written.
        due: DueTime,
    },
}

/// A timer that will be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// The timer.
    pub id: DurableId,
    /// The due time.
    pub due: DueTime,
    /// The due time of the message, retries aside: overdue timers are delivered in this order.
    pub nominal: DueTime,
    /// The [number](Served::index) of its route and type in the filter of the look.
    pub route: u16,
    /// Whether its budget was used up by nodes that died.
    pub is_suspect: bool,
}

/// A position in the order of looks and lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The due time. Of dead letters: the last one. In the past: the time of the end.
    pub due: DueTime,
    /// The timer, among those due together.
    pub id: DurableId,
}

impl Position {
    /// Returns the last position before those of a time; `None` is before all.
    pub fn before(due: DueTime) -> Option<Self> {
        let millis = due.as_millis().checked_sub(1)?;
        DueTime::from_millis(millis).ok().map(|due| Self { due, id: DurableId::MAX })
    }

    /// Returns the bound of the ids of timers that were not moved, after a position: all of them are greater, and no other.
    pub fn id_bound(after: Option<&Self>) -> Uuid {
        let before = |millis: u64| Uuid::from_u128(u128::from(millis) << 80);
        let Some(Self { due, id }) = after else { return before(0) };
        match id.first_due().cmp(due) {
            Ordering::Less => before(due.as_millis()),
            Ordering::Equal => (*id).into(),
            Ordering::Greater => before(due.as_millis() + 1),
        }
    }
}

/// A look at the timers that will be due soon.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The position after which the look begins; `None` at the very beginning.
    pub after: Option<Position>,
    /// The last due time.
    pub until: DueTime,
    /// The routes to look for.
    pub filter: Arc<Filter>,
    /// The number of rows after which it ends, of those in the order of ids and of those that were moved each: also of rows
    /// that it passes over, as moved ones by their ids.
    pub limit: usize,
    /// The part of the timers to look for, and the due time up to which those of other nodes are looked for, too; `None`: all.
    /// A store may return more.
    pub share: Option<(Share, DueTime)>,
}

/// The way in which nodes share a store.
#[derive(Clone)]
pub struct Sharing {
    /// The interval of looks.
    pub look_every: Duration,
    /// The interval of beats.
    pub beat_every: Duration,
    /// The wall clock that all nodes follow.
    pub clock: StoreClock,
    /// Tells whether the claims of a node are still its own, by a clock that runs while the machine is suspended. Called
    /// before each delivery, on any thread.
    pub has_lease: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// A process that joins the nodes of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeInfo {
    /// The name of the durable timers, for people.
    pub name: String,
    /// All types that it delivers, whether or not their recipients are connected; empty if it only schedules.
    pub serves: Filter,
}

/// The state of the nodes, after a join or a beat.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Beat {
    /// The part of the timers that this node arms.
    pub share: Share,
    /// Rows that were alone on a node that died. They are claimed by this node now, which ends them as failed, without a
    /// handler.
    pub blamed: Vec<Arc<Record>>,
    /// The number of claims of nodes that died, which were released.
    pub released: u64,
    /// Running deliveries whose rows are gone or another node's.
    pub lost: Vec<DurableId>,
    /// Whether rows have become pending that an earlier look would have passed over: looks begin anew.
    pub looks_begin_anew: bool,
    /// Rows that are due from this time on may have been committed so late that an earlier look passed over them: they are
    /// looked for once more.
    pub look_again_from: Option<DueTime>,
    /// The pauses of routes and of this node, which looks and claims leave out. A store for one process returns also those that
    /// have ended; in one that nodes share only their targets are known.
    pub paused: Vec<Pause>,
}

/// The part of the timers that a node arms: of the ids, divided by a hash among the nodes that serve a route. An empty one
/// is everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// By [route](Served::index): the place of this node among those that serve it, and their number.
    pub places: Vec<(u16, u16)>,
}

impl Share {
    /// Returns whether this node arms a timer.
    pub fn contains(&self, id: DurableId, route: u16) -> bool {
        match self.places.get(usize::from(route)) {
            Some((place, nodes)) if *nodes > 1 => id.random() % (1 << 16) % u64::from(*nodes) == u64::from(*place),
            _ => true,
        }
    }

    /// Returns the place of this node and the number of nodes, if both are the same for all these routes.
    pub fn of_all(&self, routes: impl IntoIterator<Item = u16>) -> Option<(u16, u16)> {
        let mut places = routes.into_iter().map(|route| self.places.get(usize::from(route)));
        let first = places.next()??;
        places.all(|place| place == Some(first)).then_some(*first)
    }
}

/// A row with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The row.
    pub record: Arc<Record>,
    /// The state.
    pub state: State,
}

/// The states of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Pending and claimed timers.
    Pending,
    /// Parked timers.
    Parked,
    /// Dead letters.
    Dead,
    /// Finished timers and repetitions.
    Past,
}

/// A query of timers, in the order of their [positions](Position).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The states.
    pub part: Part,
    /// Only timers of this route.
    pub route: Option<Arc<str>>,
    /// Only timers of this message type.
    pub message_type: Option<Arc<str>>,
    /// Only timers with this key.
    pub key: Option<Arc<str>>,
    /// Only timers whose keys begin with these bytes.
    pub key_prefix: Option<Arc<str>>,
    /// Only timers with a header of this name and value.
    pub header: Option<(Arc<str>, Arc<str>)>,
    /// Only timers that were scheduled up to this time; letters that became dead up to it.
    pub written_until: Option<DueTime>,
    /// In the past: only this timer.
    pub id: Option<DurableId>,
    /// The first due time. In the past: the first time of an end.
    pub from: DueTime,
    /// The last due time. In the past: the last time of an end.
    pub until: DueTime,
    /// The end of the page before.
    pub after: Option<Position>,
    /// The maximum number of timers. In the past repetitions of one timer with the same time of the end share a page.
    pub limit: usize,
    /// Whether the page has only the number of its timers.
    pub is_count: bool,
}

impl Query {
    /// Creates a query for a page of 100 timers in a state.
    pub const fn of(part: Part) -> Self {
        Self {
            part,
            route: None,
            message_type: None,
            key: None,
            key_prefix: None,
            header: None,
            written_until: None,
            id: None,
            from: DueTime::MIN,
            until: DueTime::MAX,
            after: None,
            limit: 100,
            is_count: false,
        }
    }
}

/// A page of timers. It may have fewer than the limit, or none, although more follow: a page examines a bounded number of
/// rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The timers.
    pub found: Vec<Found>,
    /// The number of timers, of a count.
    pub counted: usize,
    /// The position to continue; `None` after the last page.
    pub next: Option<Position>,
    /// Rows that cannot be read.
    pub damaged: usize,
}

/// Numbers of timers, of [`DurableTimers::counts`](crate::DurableTimers::counts) and
/// [`count_matching`](crate::DurableTimers::count_matching).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pending and claimed timers.
    pub pending: u64,
    /// Parked timers.
    pub parked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Finished timers of the past, if a filter names them; they are not counted with the others.
    pub finished: u64,
    /// Whether a number reached the limit of the count, and may be larger.
    pub is_limited: bool,
}

/// Values of a store for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreGauges {
    /// The size of the write-ahead log.
    pub log_bytes: u64,
    /// The time for which a reader has kept the log from beginning anew.
    pub log_held: Duration,
    /// Claims of processes that ended during the delivery, which were released or claimed again.
    pub interrupted: u64,
}

/// The timers that a look has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// Them, in the order of their positions.
    pub hints: Vec<Hint>,
    /// The position up to which it has looked; `None`: to its end.
    pub rest: Option<Position>,
    /// Timers beyond that, which a part of the look has found. There may be others before them.
    pub ahead: Vec<Hint>,
}

impl Looked {
    /// Returns the found timers in order, as far as the parts of a look that end here have come, and those ahead.
    pub fn new(mut hints: Vec<Hint>, ends: impl IntoIterator<Item = Position>) -> Self {
        let position = |hint: &Hint| Position { due: hint.due, id: hint.id };
        let rest = ends.into_iter().min();
        hints.sort_unstable_by_key(position);
        let found = hints.partition_point(|hint| rest.is_none_or(|rest| position(hint) <= rest));
        let ahead = hints.split_off(found);
        Self { hints, rest, ahead }
    }
}

/// A look that may be under way: waits for it, and returns what it found. An error says that the store cannot be read.
pub type Looking = Box<dyn FnOnce() -> Result<Looked, StoreError>>;

/// A prepared copy of a store. It blocks, on any thread.
pub type BackUp = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

/// The queries of a store.
pub trait Reads: Send + 'static {
    /// Returns the timer with this id in any state; of a pending timer whose earlier repetition is a dead letter, the
    /// pending one.
    ///
    /// # Errors
    /// The store cannot be read.
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError>;

    /// Returns the timer of a route that has this key, pending, claimed or parked.
    ///
    /// # Errors
    /// The store cannot be read.
    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError>;

    /// Returns a page of timers.
    ///
    /// # Errors
    /// The store cannot be read.
    fn list(&mut self, query: &Query) -> Result<Page, StoreError>;

    /// Counts the timers, each number up to `limit`; `None`: exactly.
    ///
    /// # Errors
    /// The store cannot be read.
    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError>;

    /// Returns the pauses of routes and nodes, also pauses that have ended by themselves.
    ///
    /// # Errors
    /// The store cannot be read.
    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError>;
}

/// A store of durable timers. Its calls block, and come from one thread at a time.
///
/// `now` is the wall-clock time of the caller. A store that nodes share goes by its server's [clock](Sharing::clock)
/// instead, which the caller follows.
pub trait Store: Reads {
    /// Joins the nodes that share the store. In a store for one process this releases the timers that the last process
    /// had claimed. Parked timers of types that the node serves become pending, unless they are paused. Called once, before all other calls.
    ///
    /// # Errors
    /// The node cannot serve: nothing is claimed.
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError>;

    /// Renews the lease, releases the timers of nodes that died, and own claims that are not among the `running`
    /// deliveries, which are in ascending order.
    ///
    /// # Errors
    /// The lease is not renewed.
    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        let _ = (running, now);
        Ok(Beat::default())
    }

    /// Claims nothing more: the other nodes take over the share of this one.
    fn retire(&mut self) {}

    /// The way in which nodes share the store; `None`: no other node writes to it, and claims are this process's for ever.
    fn sharing(&self) -> Option<Sharing> {
        None
    }

    /// Makes changes, in order where they concern one timer. When it returns, the changes are durable. Returns the outcomes
    /// in the order of the changes, each with an error of its own if only that change failed. It waits for no transaction of
    /// others: a change of a row that is locked is [`StoreError::Locked`], and the caller repeats it.
    ///
    /// # Errors
    /// All changes failed: as [`StoreError::Rejected`] or [`StoreError::Unavailable`] says nothing was changed; after
    /// [`StoreError::Unknown`] or [`StoreError::Failed`] the changes may or may not have been made.
    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError>;

    /// Looks for pending timers of these routes that a claim could claim when they are due, in the order of their
    /// positions. Of changes that are made while it is under way it sees all or nothing.
    fn look(&mut self, look: &Look, now: DueTime) -> Looking;

    /// Returns a reader for queries on another thread. `None`: they are answered between changes.
    ///
    /// # Errors
    /// The store cannot be read.
    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        Ok(None)
    }

    /// Returns the values for the metrics.
    fn gauges(&self) -> StoreGauges {
        StoreGauges::default()
    }

    /// Prepares a copy of the committed data.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] if the store has backups of its own; else it cannot be read.
    fn back_up(&mut self, to: &Path) -> Result<BackUp, StoreError> {
        let _ = to;
        Err(StoreError::Unsupported("backup into a directory"))
    }
}

#[cfg(test)]
mod model_of_rows;

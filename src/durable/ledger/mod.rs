//! The ledger: the one place that decides about durable timers.
//!
//! A state machine on one thread. It owns the store, and holds no clock. A turn has two halves:
//!
//! 1. [`Ledger::commit`] takes a group of requests, writes what they change in one commit, and says what is to be answered.
//! 2. [`Ledger::tend`] arms what is new in the near future, and loads what comes next.

mod horizon;
mod outbox;
mod request;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::{Progress, Record};
use super::store::{Change, Claim, Lease, Outcome, Page, Part, Position, StoreError, TimerStore};
pub(crate) use horizon::Horizon;
pub(crate) use outbox::Outbox;
#[allow(unused_imports, reason = "used by the API, which follows")]
pub(crate) use request::{Answer, Answered, Cancellation, Query, Request, Rescheduling, Scheduled, Seen, Verdict};

/// How a ledger works.
#[derive(Debug, Clone)]
pub(crate) struct LedgerConfig {
    /// Which shard is kept.
    pub(crate) shard: u16,
    /// Records that are due within this time are in memory.
    pub(crate) horizon: Duration,
    /// At most so many.
    pub(crate) loaded: usize,
    /// At most so many requests are written in one commit.
    pub(crate) group: usize,
}

impl Default for LedgerConfig {
    /// Shard 0, a minute, 262 144 records, 4096 requests.
    fn default() -> Self {
        Self { shard: 0, horizon: Duration::from_secs(60), loaded: 262_144, group: 4096 }
    }
}

/// The clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The wall clock.
    pub(crate) wall: DueTime,
    /// The monotonic clock, from any origin.
    pub(crate) time: Duration,
}

/// Whether this build knows a route and a message type.
pub(crate) type Knows = Box<dyn Fn(&str, &str) -> bool + Send>;

/// See the [module](self).
pub(crate) struct Ledger<H: Horizon> {
    store: Box<dyn TimerStore>,
    lease: Lease,
    config: LedgerConfig,
    knows: Knows,
    horizon: H,
    table: HashMap<DurableId, Entry<H::Handle>>,
    loaded_until: DueTime,
    next_claim: u64,
    sequence: u64,
    new: Vec<Arc<Record>>,
}

struct Entry<T> {
    record: Arc<Record>,
    handle: Option<T>,
    claim: Option<u64>,
}

impl<H: Horizon> Ledger<H> {
    /// Becomes the owner of the shard. Nothing is loaded or armed before the first [`tend`](Self::tend).
    ///
    /// # Errors
    /// If the store cannot be had or read.
    pub(crate) fn open(
        mut store: Box<dyn TimerStore>,
        config: LedgerConfig,
        knows: Knows,
        horizon: H,
    ) -> Result<Self, StoreError> {
        let lease = store.acquire(config.shard)?;
        let next_claim = lease.claims.iter().map(|claim| claim.number + 1).max().unwrap_or(0);
        Ok(Self {
            store,
            lease,
            config,
            knows,
            horizon,
            table: HashMap::new(),
            loaded_until: DueTime::MIN,
            next_claim,
            sequence: 0,
            new: Vec::new(),
        })
    }

    /// Takes a group of requests from the front of the queue, commits what they change, and puts the answers into `outbox`.
    pub(crate) fn commit(&mut self, now: Reading, requests: &mut VecDeque<Request>, outbox: &mut Outbox) {
        let taken = requests.len().min(self.config.group);
        for request in requests.drain(..taken) {
            self.one(now, request, outbox);
        }
    }

    /// Arms what is new, and loads what comes next. Says whether it is to be called again at once.
    pub(crate) fn tend(&mut self, now: Reading) -> bool {
        let until = now.wall.saturating_add(self.config.horizon);
        let mut after = None;
        let mut page = self.load(after, until);
        loop {
            self.new.extend(page.found.drain(..).map(|found| found.record));
            after = page.next;
            if after.is_none() {
                break;
            }
            page = self.load(after, until);
        }
        self.loaded_until = until;
        self.new.sort_by_key(|record| (record.progress.due, record.sequence));
        for record in std::mem::take(&mut self.new) {
            if (self.knows)(&record.route, &record.message_type) && !self.table.contains_key(&record.id) {
                let handle = self.horizon.arm(&record);
                self.table.insert(record.id, Entry { record, handle, claim: None });
            }
        }
        self.horizon.look_again_at(until);
        false
    }

    /// Whether everything that is asked from now on is answered with [`StoreError::Closed`].
    pub(crate) fn is_closed(&self) -> bool {
        false
    }

    fn load(&mut self, after: Option<Position>, until: DueTime) -> Page {
        self.store.load(Part::Pending, self.config.shard, after, until, 256).unwrap_or_default()
    }

    fn change(&mut self, change: Change) -> Answered<Outcome> {
        let outcomes = self.store.commit(self.lease.fence, &[change]).map_err(Arc::new)?;
        Ok(outcomes.into_iter().next().unwrap_or(Outcome::Missing))
    }

    fn forget(&mut self, id: DurableId) {
        if let Some(Entry { handle: Some(handle), .. }) = self.table.remove(&id) {
            self.horizon.disarm(handle);
        }
    }

    fn one(&mut self, now: Reading, request: Request, outbox: &mut Outbox) {
        let is_claimed = |table: &HashMap<_, Entry<_>>, id| table.get(&id).is_some_and(|entry| entry.claim.is_some());
        match request {
            Request::Schedule { mut record, on_key, answer } => {
                self.sequence += 1;
                Arc::make_mut(&mut record).sequence = self.sequence;
                let done = self.change(Change::Put { record, on_key }).map(|outcome| match outcome {
                    Outcome::Exists(id) => Scheduled::Exists(id),
                    Outcome::Replaced(id) => {
                        let in_progress = is_claimed(&self.table, id);
                        self.forget(id);
                        Scheduled::Replaced { id, in_progress }
                    }
                    _ => Scheduled::Created,
                });
                outbox.schedule(answer, done);
            }
            Request::Cancel { id, answer } => {
                let done = if is_claimed(&self.table, id) {
                    Ok(Cancellation::InProgress)
                } else {
                    self.forget(id);
                    self.change(Change::Remove { id, at: None }).map(|outcome| match outcome {
                        Outcome::Removed => Cancellation::Cancelled,
                        _ => Cancellation::NotFound,
                    })
                };
                outbox.cancel(answer, done);
            }
            Request::Reschedule { id, due, answer } => {
                let found = self.store.get(id).ok().flatten().filter(|found| found.part == Part::Pending);
                let done = match found {
                    _ if is_claimed(&self.table, id) => Ok(Rescheduling::InProgress),
                    None => Ok(Rescheduling::NotFound),
                    Some(found) => {
                        self.forget(id);
                        let to = Progress { due, nominal: due, ..found.record.progress };
                        self.change(Change::Move { id, at: None, to }).map(|_| Rescheduling::Rescheduled)
                    }
                };
                outbox.put(answer, done);
            }
            Request::Revive { id, answer } => {
                let done = self.change(Change::Revive { id, due: now.wall });
                outbox.put(answer, done.map(|outcome| outcome != Outcome::Missing));
            }
            Request::Discard { id, answer } => {
                let done = self.change(Change::Discard { id });
                outbox.put(answer, done.map(|outcome| outcome != Outcome::Missing));
            }
            Request::Get { id, answer } => {
                let in_progress = is_claimed(&self.table, id);
                let found = self.store.get(id).map_err(Arc::new);
                outbox.put(answer, found.map(|found| found.map(|found| Seen { found, in_progress })));
            }
            Request::FindKey { key, answer } => {
                outbox.put(answer, self.store.find_key(self.config.shard, &key).map_err(Arc::new));
            }
            Request::List { query, answer } => {
                let page = self.store.load(query.part, self.config.shard, query.after, query.until, query.limit);
                outbox.put(answer, page.map_err(Arc::new));
            }
            Request::Counts { answer } => {
                outbox.put(answer, self.store.counts(self.config.shard).map_err(Arc::new));
            }
            Request::BackUp { directory, answer } => match self.store.back_up(&directory) {
                Ok(copy) => outbox.copy(answer, copy),
                Err(error) => outbox.put(answer, Err(Arc::new(error))),
            },
            Request::Claim { ids, answer } => {
                let number = self.next_claim;
                self.next_claim += 1;
                let mut cleared = vec![];
                for id in ids {
                    if let Some(entry) = self.table.get_mut(&id)
                        && entry.claim.is_none()
                        && entry.record.progress.due <= now.wall
                    {
                        entry.claim = Some(number);
                        cleared.push(Arc::clone(&entry.record));
                    }
                }
                let member = |record: &Arc<Record>| (record.id, record.progress.due, record.progress.attempt);
                let members = cleared.iter().map(member).collect();
                let _ = self.change(Change::Claim(Claim { number, members }));
                outbox.put(answer, Ok(cleared));
            }
            Request::Ended { id, progress, verdict } => {
                let Some(entry) = self.table.get(&id).filter(|entry| entry.record.progress == progress) else { return };
                let number = entry.claim;
                let at = Some(progress.due);
                let change = match verdict {
                    Verdict::Complete => Change::Remove { id, at },
                    Verdict::Retry { due } => {
                        Change::Move { id, at, to: Progress { due, attempt: progress.attempt + 1, ..progress } }
                    }
                    Verdict::Bury { reason } => Change::Bury { id, at, reason, buried_at: now.wall, then: None },
                    Verdict::Undelivered { again } => Change::Move { id, at, to: Progress { due: again, ..progress } },
                    Verdict::Park => Change::Park { id, at },
                };
                let _ = self.change(change);
                if let Some(number) = number {
                    let _ = self.change(Change::EndClaim { number });
                }
                self.forget(id);
            }
            Request::LookAgain => {}
            Request::Close { answer } => {
                outbox.put(answer, self.store.release(self.lease.fence).map_err(Arc::new));
            }
        }
    }
}

//! A group of requests: the commit of their changes, and the reply to each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::closed::Closed;
use super::health::{Health, Trouble};
use super::internal_changes::InternalChange;
use super::note::Note;
use super::request::{Answer, Answered, Cancellation, Request, Rescheduling, Scheduled};
use super::table::State;
use super::{Horizon, Ledger, Reading, Replies};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::StoreOp;
use crate::record::Record;
use crate::store::{Change, ChangeOutcome, StoreError};

/// Maximum number of the ledger's own changes in one commit.
const OWN: usize = 8192;
/// Maximum number of own changes in a commit while the store rejects writes, to test whether it still does.
const OWN_ON_TRIAL: usize = 256;
/// The stored lower bound on due times is renewed when it is this many milliseconds behind.
const ADVANCE_MILLIS: u64 = 1000;

/// Requests taken from the queue together.
#[derive(Default)]
pub(super) struct Group {
    /// Callers' changes, in the order of their requests.
    pub(super) wanted: Vec<(Change, Step)>,
    /// Timers in flight whose cancel is among the changes.
    pub(super) cancelled_in_flight: FxHashSet<DurableId>,
    /// Queries, answered when the changes are written.
    pub(super) queries: Vec<Request>,
    pub(super) closing: Option<Answer<()>>,
    /// Changes for the store: first the ledger's own, then those of callers.
    changes: Vec<Change>,
    own: Vec<InternalChange>,
    steps: Vec<Step>,
}

impl Group {
    /// Returns whether a caller waits for a write.
    const fn is_waited_for(&self) -> bool {
        !self.wanted.is_empty() || self.closing.is_some()
    }
}

/// The caller that waits for a change.
pub(super) enum Step {
    /// None: a later change needs this one.
    Aside,
    Schedule {
        record: Arc<Record>,
        answer: Answer<Scheduled>,
    },
    Cancel {
        id: DurableId,
        /// Whether the timer was in flight when the cancel was prepared.
        is_in_flight: bool,
        answer: Answer<Cancellation>,
    },
    Reschedule {
        id: DurableId,
        answer: Answer<Rescheduling>,
    },
    Requeue {
        answer: Answer<bool>,
    },
    Discard {
        answer: Answer<bool>,
    },
}

impl<H: Horizon> Ledger<H> {
    /// Takes a group of requests from the front of the queue, commits their changes together with pending internal
    /// ones, and puts the replies into `replies`.
    ///
    /// `clock` is read before and after a commit. Returns the number of callers' requests.
    pub(crate) fn commit(
        &mut self,
        clock: &dyn Fn() -> Reading,
        requests: &mut VecDeque<Request>,
        replies: &mut Replies,
    ) -> usize {
        let now = clock();
        self.renumber_interrupted(now);
        let mut group = std::mem::take(&mut self.group);
        let of_callers = self.prepare(now, requests, &mut group, replies);
        if group.closing.is_some() {
            self.exonerate_at_close();
        }
        self.write(now, clock, &mut group, replies);
        for query in group.queries.drain(..) {
            self.look_up(query, replies);
        }
        if let Some(answer) = group.closing.take() {
            while self.internal_changes.len() > 0 && matches!(self.health, Health::Well) {
                self.write(now, clock, &mut group, replies);
            }
            let closed = self.close();
            replies.put(answer, closed);
        }
        self.group = group;
        of_callers
    }

    /// Commits callers' changes and internal ones.
    fn write(&mut self, now: Reading, clock: &dyn Fn() -> Reading, group: &mut Group, replies: &mut Replies) {
        let own = match &self.health {
            Health::Well => OWN,
            Health::Rejecting(trouble) if now.time >= trouble.again || group.is_waited_for() => OWN_ON_TRIAL,
            Health::Rejecting(_) | Health::Failed(_) | Health::Lost(_) => 0,
        };
        if group.wanted.is_empty() && (own == 0 || self.internal_changes.len() == 0) {
            return;
        }
        let advance = self.advance();
        group.changes.extend(advance.map(|to| Change::Advance { to }));
        for (change, internal_change) in self.internal_changes.take(own) {
            group.changes.push(change);
            group.own.push(internal_change);
        }
        for (change, step) in group.wanted.drain(..) {
            group.changes.push(change);
            group.steps.push(step);
        }
        let before = clock().time;
        let written = self.store.commit(self.fence, &group.changes);
        let bookkeeping = |change: &&Change| matches!(change, Change::Advance { .. } | Change::EndClaim { .. });
        let requests = group.changes.len() - group.changes.iter().filter(bookkeeping).count();
        replies.wrote(requests, clock().time.saturating_sub(before));
        let written = written.and_then(|outcomes| {
            let is_whole = outcomes.len() == group.changes.len();
            let broken = || StoreError::Failed(io::Error::other("the store did not return one outcome per change"));
            if is_whole { Ok(outcomes) } else { Err(broken()) }
        });
        match written {
            Ok(outcomes) => {
                self.cursor = advance.unwrap_or(self.cursor);
                self.written(group, outcomes.into_iter().skip(advance.iter().len()), replies);
            }
            Err(error) => self.not_written(now, group, advance.iter().len(), Arc::new(error), replies),
        }
        group.changes.clear();
    }

    /// Returns a new lower bound on due times, if it is worth a write.
    fn advance(&self) -> Option<DueTime> {
        if !self.internal_changes.leaving().is_empty() {
            return None;
        }
        let first = self.table.first_due().unwrap_or(DueTime::MAX).min(self.frontier.bound()).min(self.first_left());
        (first.as_millis() >= self.cursor.as_millis().saturating_add(ADVANCE_MILLIS)).then_some(first)
    }

    fn written(&mut self, group: &mut Group, mut outcomes: impl Iterator<Item = ChangeOutcome>, replies: &mut Replies) {
        if self.health.trouble().is_some() {
            self.health = Health::Well;
            self.note(Note::WritesAgain);
        }
        for (internal_change, outcome) in group.own.drain(..).zip(outcomes.by_ref()) {
            self.finish_change(internal_change, outcome, replies);
        }
        for (step, outcome) in group.steps.drain(..).zip(outcomes) {
            self.step(step, outcome, replies);
        }
        self.end_claims();
    }

    fn finish_change(&mut self, internal_change: InternalChange, outcome: ChangeOutcome, replies: &mut Replies) {
        self.internal_changes.written(&internal_change);
        match internal_change {
            InternalChange::Claim { cleared, answer } => return replies.put(answer, Ok(cleared)),
            InternalChange::Bookkeeping => return,
            // It is in memory with its new number, or will be when it is loaded.
            InternalChange::Renumbered(id) => return self.recovery.is_renumbered(id),
            // Unless a caller has moved it in the meantime.
            InternalChange::Ended(id) if self.table.is_ending(id) => self.forget(id),
            InternalChange::Ended(_) | InternalChange::Left(_) | InternalChange::Unparked => {}
        }
        if let ChangeOutcome::Moved(record) = outcome {
            self.admit(record);
        }
    }

    fn step(&mut self, step: Step, outcome: ChangeOutcome, replies: &mut Replies) {
        match (step, outcome) {
            (Step::Schedule { answer, .. }, ChangeOutcome::Exists(id)) => {
                self.counters.duplicates += 1;
                replies.schedule(answer, Ok(Scheduled::Exists(id)));
            }
            (Step::Schedule { record, answer }, outcome) => {
                let mut scheduled = Scheduled::Created;
                if let ChangeOutcome::Replaced(id) = outcome {
                    let in_progress = self.table.get(id).is_some_and(|entry| !entry.state.is_pending());
                    self.counters.cancelled += 1;
                    self.removed(id);
                    scheduled = Scheduled::Replaced { id, in_progress };
                }
                self.counters.scheduled += 1;
                self.admit(record);
                replies.schedule(answer, Ok(scheduled));
            }
            (Step::Cancel { id, is_in_flight, answer }, outcome) => {
                self.removed(id);
                let is_removed = outcome == ChangeOutcome::Removed;
                self.counters.cancelled += u64::from(is_removed);
                let cancellation = match (is_in_flight, is_removed) {
                    (true, _) => Cancellation::InProgress,
                    (false, true) => Cancellation::Cancelled,
                    (false, false) => Cancellation::NotFound,
                };
                replies.cancel(answer, Ok(cancellation));
            }
            (Step::Reschedule { id, answer }, outcome) => {
                self.forget(id);
                let mut rescheduled = Rescheduling::NotFound;
                if let ChangeOutcome::Moved(record) = outcome {
                    self.counters.rescheduled += 1;
                    self.admit(record);
                    rescheduled = Rescheduling::Rescheduled;
                }
                replies.put(answer, Ok(rescheduled));
            }
            (Step::Aside, _) => {}
            (Step::Requeue { answer }, ChangeOutcome::Moved(record)) => {
                self.admit(record);
                replies.put(answer, Ok(true));
            }
            (Step::Requeue { answer }, _) => replies.put(answer, Ok(false)),
            (Step::Discard { answer }, outcome) => replies.put(answer, Ok(outcome == ChangeOutcome::Removed)),
        }
    }

    fn not_written(
        &mut self,
        now: Reading,
        group: &mut Group,
        before: usize,
        error: Arc<StoreError>,
        replies: &mut Replies,
    ) {
        self.counters.failed(StoreOp::Commit);
        self.sicken(now, &error);
        let is_over = self.health.end().is_some();
        for (internal_change, change) in group.own.drain(..).zip(group.changes.drain(before..)).rev() {
            let internal_change = match internal_change {
                InternalChange::Claim { cleared, answer } => {
                    // Delivery at least once is guaranteed without the claim on disk; only the attempt number is not.
                    let is_lost = self.health.lost().is_some();
                    let is_of_suspect = cleared.iter().any(|record| self.used_up(record).is_some());
                    replies.put(answer, if is_lost { Err(Arc::clone(&error)) } else { Ok(cleared) });
                    if is_of_suspect {
                        // Written late, the note could stay in the store after the end of its delivery.
                        continue;
                    }
                    InternalChange::Claim { cleared: Vec::new(), answer: Answer::Nobody }
                }
                other => other,
            };
            if !is_over {
                self.internal_changes.put_back(change, internal_change);
            }
        }
        for step in group.steps.drain(..) {
            self.fail(step, &error, replies);
        }
    }

    fn fail(&mut self, step: Step, error: &Arc<StoreError>, replies: &mut Replies) {
        let error = Arc::clone(error);
        match step {
            Step::Schedule { answer, .. } => replies.schedule(answer, Err(error)),
            Step::Cancel { id, answer, .. } => {
                self.arm_again(id);
                replies.cancel(answer, Err(error));
            }
            Step::Reschedule { id, answer } => {
                self.arm_again(id);
                replies.put(answer, Err(error));
            }
            Step::Aside => {}
            Step::Requeue { answer } | Step::Discard { answer } => replies.put(answer, Err(error)),
        }
    }

    /// Records a failed write.
    fn sicken(&mut self, now: Reading, error: &Arc<StoreError>) {
        match **error {
            StoreError::Failed(_) => {
                self.health = Health::Failed(Arc::clone(error));
                self.note(Note::Ended(Arc::clone(error)));
            }
            StoreError::Fenced { .. } | StoreError::Closed => {
                self.note(Note::Ended(Arc::clone(error)));
                self.give_up(Arc::clone(error));
            }
            _ => {
                let before = self.health.trouble();
                let trouble = Trouble::after(before, Arc::clone(error), now.time);
                if before.is_none() {
                    self.note(Note::Rejected(Arc::clone(error)));
                }
                self.health = Health::Rejecting(trouble);
            }
        }
    }

    /// Stops all deliveries.
    fn give_up(&mut self, why: Arc<StoreError>) {
        for entry in self.table.drain() {
            if let State::Pending { handle: Some(handle), .. } = entry.state {
                self.horizon.disarm(handle);
            }
        }
        self.health = Health::Lost(why);
    }

    /// Gives up the shard and closes the store.
    fn close(&mut self) -> Answered<()> {
        let unsettled = match &self.health {
            _ if self.internal_changes.len() == 0 => None,
            Health::Rejecting(trouble) => Some(Arc::clone(&trouble.error)),
            health => health.end().cloned(),
        };
        let released = self.store.release(self.fence).map_err(Arc::new);
        if released.is_err() {
            self.counters.failed(StoreOp::Lease);
        }
        self.store = Box::new(Closed);
        self.give_up(Arc::new(StoreError::Closed));
        unsettled.map_or(released, Err)
    }
}

//! The changes of a shard in one commit, and the reply to each.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::health::{Health, Trouble};
use super::internal_changes::InternalChange;
use super::note::Note;
use super::ownership::Role;
use super::request::{Answer, Cancellation, Rescheduling, Scheduled};
use super::{Horizon, Ledger, Reading, Replies};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::StoreOp;
use crate::record::Record;
use crate::store::{self, Change, ChangeOutcome, StoreError};

/// Maximum number of the ledger's own changes in one commit.
const OWN: usize = 8192;
/// Maximum number of own changes in a commit while the store rejects writes, to test whether it still does.
const OWN_ON_TRIAL: usize = 256;
/// The stored lower bound on due times is renewed when it is this many milliseconds behind.
const ADVANCE_MILLIS: u64 = 1000;

/// Requests of a shard taken from the queue together.
#[derive(Default)]
pub(super) struct Group {
    /// Callers' changes, in the order of their requests.
    pub(super) wanted: Vec<(Change, Step)>,
    /// Timers in flight whose cancel is among the changes.
    pub(super) cancelled_in_flight: FxHashSet<DurableId>,
    /// Changes for the store: first the ledger's own, then those of callers.
    changes: Vec<Change>,
    own: Vec<InternalChange>,
    steps: Vec<Step>,
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
    /// Collects callers' changes and internal ones for the next commit, unless nothing is to be written. A rejecting
    /// store is tried before its time for callers, and at the end.
    pub(super) fn collect(&mut self, now: Reading, is_closing: bool) {
        let group = &mut self.group;
        let own = match &self.health {
            Health::Well => OWN,
            Health::Rejecting(trouble) if now.time >= trouble.again || !group.wanted.is_empty() || is_closing => {
                OWN_ON_TRIAL
            }
            Health::Rejecting(_) | Health::Failed(_) | Health::Lost(_) => 0,
        };
        if group.wanted.is_empty() && (own == 0 || self.internal_changes.len() == 0) {
            return;
        }
        self.advancing = self.advance();
        let group = &mut self.group;
        group.changes.extend(self.advancing.map(|to| Change::Advance { to }));
        for (change, internal_change) in self.internal_changes.take(own) {
            group.changes.push(change);
            group.own.push(internal_change);
        }
        for (change, step) in group.wanted.drain(..) {
            group.changes.push(change);
            group.steps.push(step);
        }
    }

    /// Returns the collected changes, if any.
    pub(super) fn collected(&self) -> Option<store::Group<'_>> {
        let changes = &*self.group.changes;
        (!changes.is_empty()).then(|| store::Group { right: self.right(), changes })
    }

    /// Returns whether internal changes can be written now.
    pub(super) fn has_changes_to_write(&self) -> bool {
        matches!(self.health, Health::Well) && self.internal_changes.len() > 0
    }

    /// Returns the error of a shard with another owner.
    pub(super) const fn fenced(&self) -> StoreError {
        StoreError::Fenced { shard: self.fence.shard }
    }

    /// Returns whether the shard has another owner.
    pub(super) const fn is_lost(&self) -> bool {
        self.health.lost().is_some()
    }

    /// Returns a new lower bound on due times, if it is worth a write.
    fn advance(&self) -> Option<DueTime> {
        let is_complete =
            self.internal_changes.leaving().is_empty() && self.vanished.is_empty() && !self.has_passed_over;
        if !is_complete || self.role != Role::Owner {
            return None;
        }
        let in_memory = self.table.first_due().unwrap_or(DueTime::MAX);
        let elsewhere = self.first_left().min(self.held.first_due());
        let elsewhere = elsewhere.min(self.skipped.first_due());
        let first = in_memory.min(elsewhere).min(self.frontier.bound());
        (first.as_millis() >= self.cursor.as_millis().saturating_add(ADVANCE_MILLIS)).then_some(first)
    }

    /// Follows up written changes.
    pub(super) fn written(&mut self, outcomes: Vec<ChangeOutcome>, replies: &mut Replies) {
        if self.health.trouble().is_some() {
            self.health = Health::Well;
            self.note(Note::WritesAgain);
        }
        let mut group = std::mem::take(&mut self.group);
        group.changes.clear();
        let mut outcomes = outcomes.into_iter();
        if let Some(to) = self.advancing.take() {
            self.cursor = to;
            outcomes.next();
        }
        for (internal_change, outcome) in group.own.drain(..).zip(outcomes.by_ref()) {
            self.finish_change(internal_change, outcome, replies);
        }
        for (step, outcome) in group.steps.drain(..).zip(outcomes) {
            self.step(step, outcome, replies);
        }
        self.group = group;
        self.end_claims();
    }

    fn finish_change(&mut self, internal_change: InternalChange, outcome: ChangeOutcome, replies: &mut Replies) {
        self.internal_changes.written(&internal_change);
        match internal_change {
            InternalChange::Claim { mut cleared, answer } => {
                if let ChangeOutcome::Claimed { missing } = outcome {
                    cleared.retain(|record| !missing.contains(&record.id));
                    missing.iter().for_each(|id| self.forget(*id));
                    self.vanished.extend(missing);
                }
                return replies.put(answer, Ok(cleared));
            }
            InternalChange::Handover => {
                if let ChangeOutcome::Claimed { missing } = outcome {
                    missing.into_iter().for_each(|id| self.removed(id));
                }
                return;
            }
            InternalChange::Bookkeeping => return,
            InternalChange::Expired => {
                self.counters.expired += u64::from(outcome == ChangeOutcome::Removed);
                return;
            }
            // It is in memory with its new number, or will be when it is loaded.
            InternalChange::Renumbered(id) => return self.recovery.is_renumbered(id),
            // Unless a caller has moved it in the meantime.
            InternalChange::Ended(id) | InternalChange::Left(id) => {
                if self.table.is_ending(id) {
                    self.forget(id);
                }
                // Cancelled, or other nodes have moved or requeued it meanwhile.
                if self.is_shared && outcome == ChangeOutcome::Missing {
                    self.vanished.push(id);
                }
            }
            InternalChange::Unparked => {}
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
                if let ChangeOutcome::Replaced(id) | ChangeOutcome::ReplacedInFlight(id) = outcome {
                    let is_in_table = self.table.get(id).is_some_and(|entry| !entry.state.is_pending());
                    // Of this node's own, the store does not tell.
                    let is_here = is_in_table || self.held.contains(id);
                    let in_progress = is_here || matches!(outcome, ChangeOutcome::ReplacedInFlight(_));
                    self.counters.cancelled += 1;
                    self.removed(id);
                    scheduled = Scheduled::Replaced { id, in_progress };
                }
                self.counters.scheduled += 1;
                self.admit(record);
                replies.schedule(answer, Ok(scheduled));
            }
            (Step::Cancel { answer, .. }, ChangeOutcome::Newer { id, version }) => {
                replies.cancel(answer, Err(Arc::new(StoreError::newer_record(id, version))));
            }
            (Step::Cancel { id, is_in_flight, answer }, outcome) => {
                self.removed(id);
                let is_elsewhere = outcome == ChangeOutcome::RemovedInFlight;
                let is_removed = is_elsewhere || outcome == ChangeOutcome::Removed;
                self.counters.cancelled += u64::from(is_removed);
                let cancellation = match (is_in_flight || is_elsewhere, is_removed) {
                    (true, _) => Cancellation::InProgress,
                    (false, true) => Cancellation::Cancelled,
                    (false, false) => Cancellation::NotFound,
                };
                replies.cancel(answer, Ok(cancellation));
            }
            (Step::Reschedule { id, answer }, ChangeOutcome::InFlight) => {
                self.arm_again(id);
                replies.put(answer, Ok(Rescheduling::InProgress));
            }
            (Step::Reschedule { id, answer }, outcome) => {
                self.forget(id);
                let mut rescheduled = Rescheduling::NotFound;
                if outcome == ChangeOutcome::Done {
                    self.counters.rescheduled += 1;
                    rescheduled = Rescheduling::Rescheduled;
                }
                if let ChangeOutcome::Moved(record) = outcome {
                    self.counters.rescheduled += 1;
                    self.admit(record);
                    rescheduled = Rescheduling::Rescheduled;
                }
                replies.put(answer, Ok(rescheduled));
            }
            (Step::Aside, _) => {}
            (Step::Requeue { answer } | Step::Discard { answer }, ChangeOutcome::Newer { id, version }) => {
                replies.put(answer, Err(Arc::new(StoreError::newer_record(id, version))));
            }
            (Step::Requeue { answer }, ChangeOutcome::Moved(record)) => {
                self.admit(record);
                replies.put(answer, Ok(true));
            }
            (Step::Requeue { answer }, outcome) => replies.put(answer, Ok(outcome == ChangeOutcome::Done)),
            (Step::Discard { answer }, outcome) => replies.put(answer, Ok(outcome == ChangeOutcome::Removed)),
        }
    }

    /// Takes callers' changes out of a group that the store has rejected.
    pub(super) fn take_wanted(&mut self) -> impl Iterator<Item = (Change, Step)> {
        let group = &mut self.group;
        let wanted = group.changes.split_off(group.changes.len() - group.steps.len());
        wanted.into_iter().zip(group.steps.drain(..))
    }

    /// Follows up changes that the store has rejected.
    pub(super) fn not_written(&mut self, now: Reading, error: &Arc<StoreError>, replies: &mut Replies) {
        self.counters.failed(StoreOp::Commit);
        self.sicken(now, error);
        let is_over = self.health.end().is_some();
        let mut group = std::mem::take(&mut self.group);
        let before = self.advancing.take().iter().len();
        for (internal_change, change) in group.own.drain(..).zip(group.changes.drain(before..)).rev() {
            let internal_change = match internal_change {
                InternalChange::Claim { cleared, answer } if !self.is_shared || is_over => {
                    // Delivery at least once is guaranteed without the claim on disk; only the attempt number is not.
                    let is_lost = self.health.lost().is_some();
                    let is_of_suspect = cleared.iter().any(|record| self.used_up(record).is_some());
                    replies.put(answer, if is_lost { Err(Arc::clone(error)) } else { Ok(cleared) });
                    if is_of_suspect {
                        // Written late, the note could stay in the store after the end of its delivery.
                        continue;
                    }
                    InternalChange::Claim { cleared: Vec::new(), answer: Answer::Nobody }
                }
                // The next sweep finds it again.
                InternalChange::Expired => continue,
                other => other,
            };
            if !is_over {
                self.internal_changes.put_back(change, internal_change);
            }
        }
        group.changes.clear();
        for step in group.steps.drain(..) {
            if let Step::Cancel { id, .. } | Step::Reschedule { id, .. } = &step {
                self.arm_again(*id);
            }
            step.fail(error, replies);
        }
        self.group = group;
    }

    /// Records a failed write.
    fn sicken(&mut self, now: Reading, error: &Arc<StoreError>) {
        match **error {
            StoreError::Failed(_) => {
                self.health = Health::Failed(Arc::clone(error));
                self.note(Note::Ended(Arc::clone(error)));
            }
            StoreError::Fenced { .. } | StoreError::Closed | StoreError::Unknown(_) => {
                let shard = self.fence.shard;
                self.note(if self.is_shared { Note::ShardLost(shard) } else { Note::Ended(Arc::clone(error)) });
                self.end(error);
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
    pub(super) fn end(&mut self, why: &Arc<StoreError>) {
        self.lose();
        self.health = Health::Lost(Arc::clone(why));
    }

    /// Returns why internal changes could not be written, if some could not.
    pub(super) fn unsettled(&self) -> Option<Arc<StoreError>> {
        match &self.health {
            _ if self.internal_changes.len() == 0 => None,
            Health::Rejecting(trouble) => Some(Arc::clone(&trouble.error)),
            health => health.end().cloned(),
        }
    }
}

impl Step {
    /// Replies with an error.
    pub(super) fn fail(self, error: &Arc<StoreError>, replies: &mut Replies) {
        let error = Arc::clone(error);
        match self {
            Self::Schedule { answer, .. } => replies.schedule(answer, Err(error)),
            Self::Cancel { answer, .. } => replies.cancel(answer, Err(error)),
            Self::Reschedule { answer, .. } => replies.put(answer, Err(error)),
            Self::Aside => {}
            Self::Requeue { answer } | Self::Discard { answer } => replies.put(answer, Err(error)),
        }
    }
}

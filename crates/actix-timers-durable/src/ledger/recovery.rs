//! Recovery from the previous process: interrupted deliveries, overdue records, and parked records that this build
//! knows.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::internal_changes::InternalChange;
use super::note::Note;
use super::request::Verdict;
use super::{Horizon, Ledger, Reading, repeat, suspects};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::{DeliveryOutcome, StoreOp};
use crate::record::{Record, RecordState};
use crate::store::{Change, Claim, Part, Position, TimerStore};

/// A long recovery reports its progress after each of this many records.
const SAY_EVERY: u64 = 100_000;

pub(super) struct Recovery {
    stage: Stage,
    /// Interrupted records with their next numbers, until these are written.
    renumbered: FxHashMap<DurableId, RecordState>,
    /// The previous owner died with claims in other shards, too.
    has_other_claims: bool,
    /// Position of the search for parked records that this build knows. None: finished.
    aside: Option<Aside>,
    overdue: u64,
}

enum Stage {
    /// Recovery has begun, with the claims of the previous process.
    Started(Vec<Claim>),
    /// Records overdue at this time are being loaded.
    Loading(DueTime),
    /// All overdue records are in memory.
    Done,
}

#[derive(Clone, Copy)]
enum Aside {
    FromStart,
    After(Position),
}

impl Recovery {
    pub(super) fn from(interrupted: Vec<Claim>, has_other_claims: bool) -> Self {
        let stage = Stage::Started(interrupted);
        let aside = Some(Aside::FromStart);
        Self { stage, renumbered: FxHashMap::default(), has_other_claims, aside, overdue: 0 }
    }

    /// Returns whether recovery needs work besides loading.
    pub(super) const fn is_under_way(&self) -> bool {
        self.aside.is_some()
    }

    pub(super) fn is_renumbered(&mut self, id: DurableId) {
        self.renumbered.remove(&id);
    }

    /// Returns the record with the number of its next attempt, if that could not be written yet.
    pub(super) fn renumbered(&self, record: Arc<Record>) -> Arc<Record> {
        match self.renumbered.get(&record.id) {
            Some(&progress) if is_next(record.progress, progress) => Arc::new(Record { progress, ..(*record).clone() }),
            _ => record,
        }
    }
}

fn is_next(progress: RecordState, next: RecordState) -> bool {
    RecordState { attempt: next.attempt, ..progress } == next && next.attempt == progress.attempt.saturating_add(1)
}

impl<H: Horizon> Ledger<H> {
    /// Gives interrupted records their next numbers, before any request: a moved record would not be found any more.
    pub(super) fn renumber_interrupted(&mut self, now: Reading, store: &mut dyn TimerStore) {
        let Stage::Started(claims) = &mut self.recovery.stage else { return };
        let claims = std::mem::take(claims);
        self.recovery.stage = Stage::Loading(now.wall);
        let interrupted = claims.iter().map(|claim| claim.members.len() as u64).sum();
        let pending = store.counts(self.fence.shard).map_or(0, |counts| counts.pending);
        if pending > 0 {
            self.note(Note::Recovering { pending, interrupted });
        }
        let is_of_one = suspects::is_of_one_delivery(&claims) && !self.recovery.has_other_claims;
        for claim in claims {
            self.renumber(now, claim, is_of_one, InternalChange::Renumbered, store);
        }
    }

    /// Renumbers a claim: each of its pending members may have been tried once. A suspect that was alone becomes a
    /// dead letter.
    pub(super) fn renumber(
        &mut self,
        now: Reading,
        claim: Claim,
        is_alone: bool,
        then: impl Fn(DurableId) -> InternalChange,
        store: &mut dyn TimerStore,
    ) {
        let mut is_whole = true;
        for (id, due, attempt) in claim.members {
            let found = match store.get(id) {
                Ok(found) => found.filter(|found| found.part == Part::Pending),
                Err(error) => {
                    self.counters.failed(StoreOp::Read);
                    self.note(Note::CannotRead(Arc::new(error)));
                    is_whole = false;
                    continue;
                }
            };
            let is_it = |record: &Record| (record.progress.due, record.progress.attempt) == (due, attempt);
            let Some(record) = found.map(|found| found.record).filter(|record| is_it(record)) else { continue };
            if is_alone && self.dead_letter_suspect(now, &record) {
                continue;
            }
            let progress = record.progress;
            let to = RecordState { attempt: attempt.saturating_add(1), ..progress };
            self.counters.interrupted += 1;
            self.recovery.renumbered.insert(id, to);
            self.queue_internal(Change::Move { id, at: Some(due), to }, then(id));
        }
        // Else the next process checks again.
        if is_whole {
            self.queue_internal(Change::EndClaim { number: claim.number }, InternalChange::Bookkeeping);
        }
    }

    /// Handles a process that died during the delivery of this record alone. Returns whether it becomes a dead letter.
    fn dead_letter_suspect(&mut self, now: Reading, record: &Arc<Record>) -> bool {
        let Some(policy) = self.used_up(record).filter(|_| self.is_known(record)) else { return false };
        let reason = suspects::reason(record, policy);
        self.counters.interrupted += 1;
        self.counters.ended(DeliveryOutcome::DeadLetter);
        self.note_dead_letter(now, record, &reason);
        let change = repeat::change_after(record, Verdict::DeadLetter { reason }, now.wall);
        self.queue_internal(change, InternalChange::Left(record.id));
        true
    }

    /// Examines a page of parked records.
    pub(super) fn take_back(&mut self, now: Reading, store: &mut dyn TimerStore) {
        let after = match self.recovery.aside {
            None => return,
            Some(Aside::FromStart) => None,
            Some(Aside::After(position)) => Some(position),
        };
        let Some(page) = self.read(now, store, Part::Parked, after, DueTime::MAX, self.page) else { return };
        for found in page.found {
            if self.is_known(&found.record) {
                self.queue_internal(Change::Unpark { id: found.record.id }, InternalChange::Returned);
            }
        }
        self.recovery.aside = page.next.map(Aside::After);
    }

    /// Counts a loaded record with this due time.
    pub(super) fn count_recovered(&mut self, due: DueTime) {
        if let Stage::Loading(since) = self.recovery.stage
            && due <= since
        {
            self.recovery.overdue += 1;
            self.counters.recovered += 1;
            if self.recovery.overdue.is_multiple_of(SAY_EVERY) {
                self.note(Note::RecoveringStill { overdue: self.recovery.overdue });
            }
        }
    }

    /// Uncounts a record that was evicted and will be loaded again.
    pub(super) fn uncount_recovered(&mut self, due: DueTime) {
        if let Stage::Loading(since) = self.recovery.stage
            && due <= since
        {
            self.recovery.overdue = self.recovery.overdue.saturating_sub(1);
            self.counters.recovered = self.counters.recovered.saturating_sub(1);
        }
    }

    /// Updates the stage after a page was loaded.
    pub(super) fn recovery_goes_on(&mut self) {
        if let Stage::Loading(since) = self.recovery.stage
            && self.frontier.is_complete_at(since)
        {
            self.recovery.stage = Stage::Done;
            if self.recovery.overdue > 0 {
                self.note(Note::Recovered { overdue: self.recovery.overdue });
            }
        }
    }
}

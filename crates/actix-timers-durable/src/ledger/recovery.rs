//! Recovery from the previous process: interrupted deliveries, overdue records, and parked records that this build
//! knows.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::internal_changes::InternalChange;
use super::note::Note;
use super::ownership::Role;
use super::request::Verdict;
use super::{Horizon, Ledger, Reading, repeat, suspects};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::{DeliveryOutcome, StoreOp};
use crate::record::{Record, RecordState};
use crate::store::{Change, Claim, Part, Position, StoreError, TimerStore};

/// A long recovery reports its progress after each of this many records.
const SAY_EVERY: u64 = 100_000;

pub(super) struct Recovery {
    stage: Stage,
    /// Claims of former owners that have died meanwhile.
    late: Vec<Claim>,
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
        Self { stage, late: Vec::new(), renumbered: FxHashMap::default(), has_other_claims, aside, overdue: 0 }
    }

    /// Returns whether recovery needs work besides loading.
    pub(super) const fn is_under_way(&self) -> bool {
        self.aside.is_some()
    }

    /// Returns whether the interrupted records of the previous owner are known.
    pub(super) const fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Started(_))
    }

    /// Returns whether a timer has no next attempt number yet.
    pub(super) fn is_interrupted_late(&self, id: DurableId) -> bool {
        self.late.iter().flat_map(|claim| &claim.members).any(|(member, ..)| *member == id)
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

/// A claim with those of its members that are pending as they were claimed.
struct ReadClaim {
    claim: Claim,
    records: Vec<Arc<Record>>,
    /// Whether all members could be read.
    is_whole: bool,
}

impl<H: Horizon> Ledger<H> {
    /// Gives interrupted records their next numbers, before any request: a moved record would not be found any more.
    /// While a shared store cannot be read, the ledger waits: nothing is loaded.
    pub(super) fn renumber_interrupted(&mut self, now: Reading, store: &mut dyn TimerStore) {
        let is_waiting = self.load_trouble.as_ref().is_some_and(|trouble| now.time < trouble.again);
        let has_claims = !self.recovery.has_begun() || !self.recovery.late.is_empty();
        // The next owner does it. Perhaps there is one already: the reply to giving the shard up may be lost.
        if !has_claims || is_waiting || self.role != Role::Owner {
            return;
        }
        if let Stage::Started(claims) = &mut self.recovery.stage {
            let claims = std::mem::take(claims);
            let is_of_one = suspects::is_of_one_delivery(&claims) && !self.recovery.has_other_claims;
            let interrupted = claims.iter().map(|claim| claim.members.len() as u64).sum();
            let claims = match self.read_claims(now, claims, store) {
                Ok(claims) => claims,
                Err(claims) => return self.recovery.stage = Stage::Started(claims),
            };
            self.recovery.stage = Stage::Loading(now.wall);
            let pending = store.counts(self.fence.shard).map_or(0, |counts| counts.pending);
            if pending > 0 {
                self.note(Note::Recovering { pending, interrupted });
            }
            claims.into_iter().for_each(|claim| self.renumber(now, claim, is_of_one));
        }
        let late = std::mem::take(&mut self.recovery.late);
        match self.read_claims(now, late, store) {
            Ok(claims) => {
                for claim in claims {
                    self.take_over(&claim.claim);
                    self.renumber(now, claim, false);
                }
            }
            Err(late) => self.recovery.late = late,
        }
    }

    /// Renumbers the deliveries of a former owner that has died meanwhile.
    pub(super) fn interrupted_late(&mut self, claim: Claim) {
        self.recovery.late.push(claim);
    }

    /// Reads the members of claims. Returns the claims alone if a shared store cannot be read now.
    fn read_claims(
        &mut self,
        now: Reading,
        claims: Vec<Claim>,
        store: &mut dyn TimerStore,
    ) -> Result<Vec<ReadClaim>, Vec<Claim>> {
        let mut read = Vec::with_capacity(claims.len());
        for claim in &claims {
            let mut records = Vec::with_capacity(claim.members.len());
            let mut is_whole = true;
            for &(id, due, attempt) in &claim.members {
                match store.get(id) {
                    Ok(found) => {
                        let pending = found.filter(|found| found.part == Part::Pending).map(|found| found.record);
                        let is_it =
                            |record: &Arc<Record>| (record.progress.due, record.progress.attempt) == (due, attempt);
                        records.extend(pending.filter(is_it));
                    }
                    Err(error @ StoreError::Unavailable(_)) if self.is_shared => {
                        self.cannot_read(now, StoreOp::Read, error);
                        return Err(claims);
                    }
                    Err(error) => {
                        self.counters.failed(StoreOp::Read);
                        self.note(Note::CannotRead(Arc::new(error)));
                        is_whole = false;
                    }
                }
            }
            read.push((records, is_whole));
        }
        let with = |(claim, (records, is_whole))| ReadClaim { claim, records, is_whole };
        Ok(claims.into_iter().zip(read).map(with).collect())
    }

    /// Renumbers a claim: each of its pending members may have been tried once. A suspect that was alone becomes a
    /// dead letter.
    fn renumber(&mut self, now: Reading, claim: ReadClaim, is_alone: bool) {
        let ReadClaim { claim, records, is_whole } = claim;
        for record in records {
            if is_alone && self.dead_letter_suspect(now, &record) {
                continue;
            }
            let (id, progress) = (record.id, record.progress);
            let to = RecordState { attempt: progress.attempt.saturating_add(1), ..progress };
            self.counters.interrupted += 1;
            self.recovery.renumbered.insert(id, to);
            self.queue_internal(Change::Move { id, at: Some(progress.due), to }, InternalChange::Renumbered(id));
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
                self.queue_internal(Change::Unpark { id: found.record.id }, InternalChange::Unparked);
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

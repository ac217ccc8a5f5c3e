//! The changes of a request, as far as known before they are written.

use std::sync::Arc;

use super::batch::gather;
use super::group::Step;
use super::health::Health;
use super::internal_changes::InternalChange;
use super::note::Note;
use super::ownership::Role;
use super::repeat;
use super::request::{Answer, Answered, Cancellation, Request, Rescheduling, Scheduled, Verdict};
use super::table::State;
use super::{Horizon, Ledger, Reading, Replies};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::{DeliveryOutcome, StoreOp};
use crate::record::{Record, RecordState};
use crate::store::{Change, Claim, OnKey, Part, StoreError, TimerStore};

impl<H: Horizon> Ledger<H> {
    /// Prepares the changes of a request.
    pub(super) fn prepare(
        &mut self,
        now: Reading,
        request: Request,
        store: &mut dyn TimerStore,
        replies: &mut Replies,
    ) {
        match (self.health.lost(), self.health.end()) {
            (Some(error), _) => return replies.reject(request, error),
            (None, Some(error)) if request.is_change() => return replies.reject(request, error),
            _ => {}
        }
        match request {
            Request::Schedule { record, on_key, answer } => match self.admit_new(&record, store) {
                Ok(()) => self.prepare_schedule(record, on_key, answer),
                Err(error) => replies.schedule(answer, Err(error)),
            },
            Request::ScheduleAll { timers, answer } => {
                match timers.iter().try_for_each(|(record, _)| self.admit_new(record, store)) {
                    Ok(()) if timers.is_empty() => replies.put(answer, Ok(Vec::new())),
                    Ok(()) => {
                        let answers = gather(timers.len(), answer);
                        for ((record, on_key), answer) in timers.into_iter().zip(answers) {
                            self.prepare_schedule(record, on_key, answer);
                        }
                    }
                    Err(error) => replies.put(answer, Err(error)),
                }
            }
            Request::Cancel { id, answer } => self.prepare_cancel(id, answer, replies),
            Request::Reschedule { id, answer, .. } if self.recovery.is_interrupted_late(id) => {
                replies.put(answer, Ok(Rescheduling::InProgress));
            }
            Request::Reschedule { id, due, answer } => match self.prepare_reschedule(id, due, store) {
                Ok(change) => self.group.wanted.push((change, Step::Reschedule { id, answer })),
                Err(answered) => replies.put(answer, answered),
            },
            // Its timer may be cancelled and still be with its handler.
            Request::Requeue { id, answer } if self.is_in_flight(id) => replies.put(answer, Ok(false)),
            Request::Requeue { id, answer } => {
                self.group.wanted.push((Change::Requeue { id, due: now.wall }, Step::Requeue { answer }));
            }
            Request::Discard { id, answer } => {
                self.group.wanted.push((Change::Discard { id }, Step::Discard { answer }));
            }
            Request::Claim { ids, answer } => self.prepare_claim(now, &ids, answer, replies),
            Request::Ended { id, progress, verdict } => self.prepare_ending(now, id, progress, verdict),
            _ => debug_assert!(false, "not a request for one timer"),
        }
    }

    /// Begins the next group of requests.
    pub(super) fn begin_group(&mut self) {
        self.group.cancelled_in_flight.clear();
    }

    /// Returns the largest sequence number of its loaded records.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns whether the node owns the shard, and keeps it.
    pub(super) fn is_owner(&self) -> bool {
        self.role == Role::Owner
    }

    /// Returns whether the ledger decides about all timers of the shard: it keeps the shard, and knows the interrupted
    /// deliveries of its predecessor.
    pub(super) fn may_change(&self) -> bool {
        self.is_owner() && self.recovery.has_begun()
    }

    /// Returns whether a timer is with its handler here.
    pub(super) fn is_delivering(&self, id: DurableId) -> bool {
        self.table.contains(id)
    }

    /// Returns whether a caller's request before the next commit cancels a timer in flight.
    pub(super) fn is_cancelled_in_flight(&self, id: DurableId) -> bool {
        self.group.cancelled_in_flight.contains(&id)
    }

    /// Rejects a new timer that cannot be stored.
    fn admit_new(&mut self, record: &Record, store: &dyn TimerStore) -> Result<(), Arc<StoreError>> {
        let shard = record.id.shard();
        let is_ours = shard == self.fence.shard;
        let admitted = if is_ours { store.admits(record) } else { Err(StoreError::Fenced { shard }) };
        if let Err(error) = admitted {
            let error = Arc::new(error);
            if matches!(*error, StoreError::Rejected(_)) {
                self.counters.failed(StoreOp::Commit);
                if !std::mem::replace(&mut self.has_no_room, true) {
                    self.note(Note::Rejected(Arc::clone(&error)));
                }
            }
            return Err(error);
        }
        if std::mem::take(&mut self.has_no_room) {
            self.note(Note::WritesAgain);
        }
        Ok(())
    }

    fn prepare_schedule(&mut self, record: Arc<Record>, on_key: OnKey, answer: Answer<Scheduled>) {
        let step = Step::Schedule { record: Arc::clone(&record), answer };
        self.group.wanted.push((Change::Put { record, on_key }, step));
    }

    fn is_in_flight(&self, id: DurableId) -> bool {
        self.table.get(id).is_some_and(|entry| entry.state.is_in_flight())
    }

    /// Prepares a cancel. A delivery in progress is not stopped, but nothing follows it: no repetition, no retry and no
    /// dead letter.
    fn prepare_cancel(&mut self, id: DurableId, answer: Answer<Cancellation>, replies: &mut Replies) {
        if self.table.get(id).is_some_and(|entry| entry.state.is_removed()) {
            return replies.cancel(answer, Ok(Cancellation::InProgress));
        }
        let is_in_flight = self.is_in_flight(id);
        if is_in_flight {
            self.group.cancelled_in_flight.insert(id);
        }
        let at = self.begin_change(id);
        self.group.wanted.push((Change::Remove { id, at }, Step::Cancel { id, is_in_flight, answer }));
    }

    /// Begins a caller's change: a pending timer is not delivered until the change is decided. Returns its location, if
    /// certain.
    fn begin_change(&mut self, id: DurableId) -> Option<DueTime> {
        let entry = self.table.get_mut(id)?;
        match &mut entry.state {
            State::Pending { is_changing, .. } => {
                // Another node may have moved it.
                let is_certain = !std::mem::replace(is_changing, true) && !self.is_shared;
                is_certain.then_some(entry.record.progress.due)
            }
            State::InFlight { .. } | State::Ending => None,
        }
    }

    fn prepare_reschedule(
        &mut self,
        id: DurableId,
        due: DueTime,
        store: &mut dyn TimerStore,
    ) -> Result<Change, Answered<Rescheduling>> {
        if self.is_in_flight(id) {
            return Err(Ok(Rescheduling::InProgress));
        }
        let at = self.begin_change(id);
        let found = self.progress_of(id, store).map_err(|error| Err(Arc::new(error)))?;
        let (progress, part) = found.ok_or(Ok(Rescheduling::NotFound))?;
        if part == Part::Parked {
            // If its route is still unknown, it is parked again when loaded.
            self.group.wanted.push((Change::Unpark { id }, Step::Aside));
        }
        Ok(Change::Move { id, at, to: RecordState { due, nominal: due, ..progress } })
    }

    /// Returns the state and location of a timer after all earlier decisions and requests are written; none if it is
    /// neither pending nor parked then.
    fn progress_of(
        &mut self,
        id: DurableId,
        store: &mut dyn TimerStore,
    ) -> Result<Option<(RecordState, Part)>, StoreError> {
        let (mut living, mut dead) = (None, None);
        if let Some(entry) = self.table.get(id) {
            living = Some((entry.record.progress, Part::Pending));
        } else if let Some(found) = store.get(id).inspect_err(|_| self.counters.failed(StoreOp::Read))? {
            match found.part {
                Part::Dead => dead = Some(found.record.progress),
                part => living = Some((self.recovery.renumbered(found.record).progress, part)),
            }
        }
        if self.table.is_ending(id) || self.internal_changes.leaving().contains(&id) {
            let progress = living.take().map(|(progress, _)| progress);
            match self.internal_changes.change_of(id) {
                Some(Change::Move { to, .. } | Change::DeadLetter { then: Some(to), .. }) => {
                    living = Some((*to, Part::Pending));
                }
                Some(Change::Park { .. }) => living = progress.map(|progress| (progress, Part::Parked)),
                _ => dead = progress,
            }
        }
        if living.is_some() {
            return Ok(living);
        }
        // Requested in the same group.
        Ok(self.group.wanted.iter().rev().find_map(|(change, _)| match change {
            Change::Put { record, .. } if record.id == id => Some((record.progress, Part::Pending)),
            Change::Requeue { id: requeued, due } if *requeued == id => {
                dead.map(|progress| (RecordState { due: *due, attempt: 1, ..progress }, Part::Pending))
            }
            _ => None,
        }))
    }

    fn prepare_claim(
        &mut self,
        now: Reading,
        ids: &[DurableId],
        answer: Answer<Vec<Arc<Record>>>,
        replies: &mut Replies,
    ) {
        if self.is_shared && self.health.end().is_some() {
            return replies.put(answer, Ok(Vec::new()));
        }
        let number = self.table.next_claim();
        let mut cleared = Vec::with_capacity(ids.len());
        for &id in ids {
            let Some(entry) = self.table.get_mut(id) else { continue };
            if !matches!(entry.state, State::Pending { is_changing: false, .. }) {
                continue;
            }
            if entry.record.progress.due <= now.wall {
                entry.state = State::InFlight { claim: number, is_removed: false };
                cleared.push(Arc::clone(&entry.record));
            } else {
                // The timer was moved, or the clock stepped.
                self.arm_again(id);
            }
        }
        if cleared.is_empty() {
            return replies.put(answer, Ok(cleared));
        }
        self.table.open_claim(number, cleared.len());
        let member = |record: &Arc<Record>| (record.id, record.progress.due, record.progress.attempt);
        let claim = Change::Claim(Claim { number, members: cleared.iter().map(member).collect() });
        if self.is_shared || matches!(self.health, Health::Well) {
            self.internal_changes.push(claim, InternalChange::Claim { cleared, answer });
        } else {
            // The delivery must not wait for a store that rejects writes. A suspect's claim is on disk before its
            // delivery begins, or never: written late, it could stay in the store after the end of its delivery.
            if !cleared.iter().any(|record| self.used_up(record).is_some()) {
                self.queue_internal(claim, InternalChange::Claim { cleared: Vec::new(), answer: Answer::Nobody });
            }
            replies.put(answer, Ok(cleared));
        }
    }

    fn prepare_ending(&mut self, now: Reading, id: DurableId, progress: RecordState, verdict: Verdict) {
        let Some(entry) = self.table.get(id).filter(|entry| entry.record.progress == progress) else { return };
        if entry.state.is_removed() {
            if verdict == Verdict::Complete {
                self.counters.ended(DeliveryOutcome::Complete);
            }
            self.forget(id);
            // Another node may have requeued its dead letter.
            if self.is_shared {
                self.vanished.push(id);
            }
            return self.end_claims();
        }
        let needs_no_claim = matches!(verdict, Verdict::Undelivered { .. } | Verdict::Park);
        let is_meant = match entry.state {
            State::InFlight { .. } => true,
            State::Pending { is_changing, .. } => needs_no_claim && !is_changing,
            State::Ending => false,
        };
        if !is_meant {
            return;
        }
        self.counters.ended(match &verdict {
            Verdict::Complete => DeliveryOutcome::Complete,
            Verdict::Retry { .. } => DeliveryOutcome::Retry,
            Verdict::DeadLetter { .. } => DeliveryOutcome::DeadLetter,
            Verdict::Undelivered { .. } => DeliveryOutcome::Undelivered,
            Verdict::Park => DeliveryOutcome::Parked,
        });
        let record = Arc::clone(&entry.record);
        let claim = if let State::InFlight { claim, .. } = entry.state { Some(claim) } else { None };
        if let Verdict::DeadLetter { reason } = &verdict {
            self.note_dead_letter(now, &record, reason);
        }
        let change = repeat::change_after(&record, verdict, now.wall);
        if let Some(handle) = self.table.end(id) {
            self.horizon.disarm(handle);
        }
        self.queue_internal(change, InternalChange::Ended(id));
        claim.into_iter().for_each(|number| self.leave_claim(number));
        self.end_claims();
    }

    /// Removes claims whose deliveries have all ended.
    pub(super) fn end_claims(&mut self) {
        while let Some(number) = self.table.next_ended_claim() {
            self.queue_internal(Change::EndClaim { number }, InternalChange::Bookkeeping);
        }
    }

    /// Queues a change for the next commit; drops it if there will be none.
    pub(super) fn queue_internal(&mut self, change: Change, internal_change: InternalChange) {
        if self.health.end().is_none() {
            self.internal_changes.push(change, internal_change);
        }
    }
}

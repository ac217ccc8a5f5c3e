//! The changes of a request, as far as known before they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use super::group::{Group, Step};
use super::health::Health;
use super::internal_changes::InternalChange;
use super::note::Note;
use super::repeat;
use super::request::{Answer, Answered, Cancellation, Request, Rescheduling, Scheduled, Verdict};
use super::table::State;
use super::{Horizon, Ledger, Reading, Replies};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::{DeliveryOutcome, StoreOp};
use crate::record::{Record, RecordState};
use crate::store::{Change, Claim, OnKey, Part, StoreError};

/// Bytes of payload in one commit.
const GROUP_BYTES: usize = 4 << 20;

impl<H: Horizon> Ledger<H> {
    /// Takes requests from the front of the queue, as many as fit one commit. Returns the number of callers' requests.
    pub(super) fn prepare(
        &mut self,
        now: Reading,
        requests: &mut VecDeque<Request>,
        group: &mut Group,
        replies: &mut Replies,
    ) -> usize {
        let (mut bytes, mut of_callers) = (0, 0);
        group.cancelled_in_flight.clear();
        for _ in 0..self.config.group.max(1) {
            if bytes > GROUP_BYTES || group.closing.is_some() {
                break;
            }
            // The change after a delivery depends on whether the cancel before its end is written.
            if let Some(Request::Ended { id, .. }) = requests.front()
                && group.cancelled_in_flight.contains(id)
            {
                break;
            }
            let Some(request) = requests.pop_front() else { break };
            of_callers += usize::from(!request.is_of_deliveries());
            if let Request::Schedule { record, .. } = &request {
                bytes += record.payload.len();
            }
            match (self.health.lost(), self.health.end()) {
                (Some(error), _) => replies.reject(request, error),
                (None, Some(error)) if request.is_change() => replies.reject(request, error),
                _ => self.prepare_one(now, request, group, replies),
            }
        }
        of_callers
    }

    fn prepare_one(&mut self, now: Reading, request: Request, group: &mut Group, replies: &mut Replies) {
        match request {
            Request::Schedule { record, on_key, answer } => {
                self.prepare_schedule(now, record, on_key, answer, group, replies);
            }
            Request::Cancel { id, answer } => self.prepare_cancel(id, answer, group, replies),
            Request::Reschedule { id, due, answer } => match self.prepare_reschedule(id, due, group) {
                Ok(change) => group.wanted.push((change, Step::Reschedule { id, answer })),
                Err(answered) => replies.put(answer, answered),
            },
            // Its timer may be cancelled and still be with its handler.
            Request::Requeue { id, answer } if self.is_in_flight(id) => replies.put(answer, Ok(false)),
            Request::Requeue { id, answer } => {
                group.wanted.push((Change::Requeue { id, due: now.wall }, Step::Requeue { answer }));
            }
            Request::Discard { id, answer } => group.wanted.push((Change::Discard { id }, Step::Discard { answer })),
            Request::Get { .. }
            | Request::FindKey { .. }
            | Request::List { .. }
            | Request::Counts { .. }
            | Request::BackUp { .. } => group.queries.push(request),
            Request::Claim { ids, answer } => self.prepare_claim(now, &ids, answer, replies),
            Request::Ended { id, progress, verdict } => self.prepare_ending(now, id, progress, verdict),
            Request::Overrun => self.exonerate(),
            Request::Pause { route, message_type } => self.pause(route, message_type),
            Request::Resume { route, message_type } => self.resume(&route, &message_type),
            // Another event may have caused it.
            Request::Recheck => self.recheck_at = None,
            Request::Close { answer } => group.closing = Some(answer),
        }
    }

    fn prepare_schedule(
        &mut self,
        now: Reading,
        mut record: Arc<Record>,
        on_key: OnKey,
        answer: Answer<Scheduled>,
        group: &mut Group,
        replies: &mut Replies,
    ) {
        let shard = record.id.shard();
        let is_ours = shard == self.config.shard;
        let admitted = if is_ours { self.store.admits(&record) } else { Err(StoreError::Fenced { shard }) };
        if let Err(error) = admitted {
            let error = Arc::new(error);
            if matches!(*error, StoreError::Rejected(_)) {
                self.counters.failed(StoreOp::Commit);
                if !std::mem::replace(&mut self.has_no_room, true) {
                    self.note(Note::Rejected(Arc::clone(&error)));
                }
            }
            return replies.schedule(answer, Err(error));
        }
        if std::mem::take(&mut self.has_no_room) {
            self.note(Note::WritesAgain);
        }
        Arc::make_mut(&mut record).sequence = self.next_sequence(now);
        let step = Step::Schedule { record: Arc::clone(&record), answer };
        group.wanted.push((Change::Put { record, on_key }, step));
    }

    /// Returns a number larger than all earlier ones, also if the clock goes back; across processes only if it does
    /// not.
    fn next_sequence(&mut self, now: Reading) -> u64 {
        let of_now = now.wall.as_millis() << (u64::BITS - DueTime::BITS);
        self.sequence = self.sequence.saturating_add(1).max(of_now);
        self.sequence
    }

    fn is_in_flight(&self, id: DurableId) -> bool {
        self.table.get(id).is_some_and(|entry| entry.state.is_in_flight())
    }

    /// Prepares a cancel. A delivery in progress is not stopped, but nothing follows it: no repetition, no retry and no
    /// dead letter.
    fn prepare_cancel(
        &mut self,
        id: DurableId,
        answer: Answer<Cancellation>,
        group: &mut Group,
        replies: &mut Replies,
    ) {
        if self.table.get(id).is_some_and(|entry| entry.state.is_removed()) {
            return replies.cancel(answer, Ok(Cancellation::InProgress));
        }
        let is_in_flight = self.is_in_flight(id);
        if is_in_flight {
            group.cancelled_in_flight.insert(id);
        }
        let at = self.begin_change(id);
        group.wanted.push((Change::Remove { id, at }, Step::Cancel { id, is_in_flight, answer }));
    }

    /// Begins a caller's change: a pending timer is not delivered until the change is decided. Returns its location, if
    /// certain.
    fn begin_change(&mut self, id: DurableId) -> Option<DueTime> {
        let entry = self.table.get_mut(id)?;
        match &mut entry.state {
            State::Pending { is_changing, .. } => {
                let is_certain = !std::mem::replace(is_changing, true);
                is_certain.then_some(entry.record.progress.due)
            }
            State::InFlight { .. } | State::Ending => None,
        }
    }

    fn prepare_reschedule(
        &mut self,
        id: DurableId,
        due: DueTime,
        group: &mut Group,
    ) -> Result<Change, Answered<Rescheduling>> {
        if self.is_in_flight(id) {
            return Err(Ok(Rescheduling::InProgress));
        }
        let at = self.begin_change(id);
        let found = self.progress_of(id, group).map_err(|error| Err(Arc::new(error)))?;
        let (progress, part) = found.ok_or(Ok(Rescheduling::NotFound))?;
        if part == Part::Parked {
            // If its route is still unknown, it is parked again when loaded.
            group.wanted.push((Change::Unpark { id }, Step::Aside));
        }
        Ok(Change::Move { id, at, to: RecordState { due, nominal: due, ..progress } })
    }

    /// Returns the state and location of a timer after all earlier decisions and requests are written; none if it is
    /// neither pending nor parked then.
    fn progress_of(&mut self, id: DurableId, group: &Group) -> Result<Option<(RecordState, Part)>, StoreError> {
        let (mut living, mut dead) = (None, None);
        if let Some(entry) = self.table.get(id) {
            living = Some((entry.record.progress, Part::Pending));
        } else if let Some(found) = self.store.get(id).inspect_err(|_| self.counters.failed(StoreOp::Read))? {
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
        Ok(group.wanted.iter().rev().find_map(|(change, _)| match change {
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
        if matches!(self.health, Health::Well) {
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
        if let Verdict::DeadLetter { reason } = &verdict {
            self.note_dead_letter(now, &record, reason);
        }
        let change = repeat::change_after(&record, verdict, now.wall);
        if let Some(handle) = self.table.end(id) {
            self.horizon.disarm(handle);
        }
        self.queue_internal(change, InternalChange::Ended(id));
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

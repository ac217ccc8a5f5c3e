//! The writer: makes requests, all that wait in one commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::request::{Answer, Answered, Claimed, ClaimedRows, Ended, Reply, Report, Request};
use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::metrics::{DeliveryOutcome, DurableCounters, StoreOp};
use crate::routes::Routes;
use crate::store::StoreError;
use crate::store::{BackUp, Delivery, Hint, Next, Op, Outcome, Placed, Reads, Store, StoreGauges};
use crate::trace;

/// The time between two tries of changes whose rows are locked.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for which a change is tried while its row is locked. An end of a delivery is tried until it is written.
const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum bytes of new timers in one commit.
const MAX_BYTES: usize = 16 << 20;

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The wall-clock time.
    pub(crate) wall: DueTime,
    /// The monotonic time, from any origin.
    pub(crate) time: Duration,
}

/// See the [module](self).
pub(super) struct Writer {
    /// `None` when it is closed.
    store: Option<Box<dyn Store>>,
    routes: Arc<Routes>,
    /// The time of the first look. Timers that were due before are recovered.
    began: Option<DueTime>,
    /// The time up to which looks have been made: new timers that are due before are reported.
    looked_until: DueTime,
    /// Claimed deliveries whose ends are not written. The deliveries learn of a claim later than it is made.
    claimed: FxHashMap<DurableId, Delivery>,
    /// Ends that could not be written.
    unwritten: Vec<(Delivery, Next)>,
    /// The reason of the last one.
    why_unwritten: Option<Arc<StoreError>>,
    /// Changes whose rows a transaction of somebody else has locked. They wait here, so that nothing else does.
    locked: Vec<Change>,
    /// The time at which they are tried again.
    try_again_at: Duration,
    /// The maximum number of changes in one commit.
    group: usize,
    /// Whether the last commit failed, and the next one may fail for the same reason.
    trouble: Trouble,
    counters: DurableCounters,
    /// Claims of other nodes that were released.
    released: u64,
}

/// The result of the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Trouble {
    #[default]
    None,
    /// Nothing was written.
    Rejected,
    /// The store has failed: nobody knows its state.
    Failed,
}

/// The requester of a change.
enum Requester {
    Caller(oneshot::Sender<Answered<Outcome>>),
    Deliveries,
}

/// A change to make.
struct Change {
    op: Op,
    requester: Requester,
    /// The end of the patience with a locked row, once it was found locked.
    until: Option<Duration>,
}

/// Replies and reports of a turn, to be sent when no lock is held.
#[derive(Default)]
pub(super) struct Replies {
    changes: Vec<(oneshot::Sender<Answered<Outcome>>, Answered<Outcome>)>,
    copies: Vec<(BackUp, Answer<()>)>,
    others: Vec<(Answer<()>, Answered<()>)>,
    reads: Vec<Reply>,
    pub(super) report: Report,
    failed_copies: Arc<AtomicU64>,
    /// The number of requests in the commit, and its duration.
    pub(super) written: Option<(usize, Duration)>,
    /// The durations of looks.
    pub(super) looks: Vec<Duration>,
}

impl Replies {
    /// Sets the counter of failed copies.
    pub(super) fn count_failed_copies(&mut self, there: &Arc<AtomicU64>) {
        self.failed_copies = Arc::clone(there);
    }

    /// Sends the replies; copies are made by `aside`.
    pub(super) fn send(&mut self, aside: impl Fn(Box<dyn FnOnce() + Send>)) {
        for (answer, answered) in self.changes.drain(..) {
            // The receiver may be gone.
            let _ = answer.send(answered);
        }
        for (copy, answer) in self.copies.drain(..) {
            let failed = Arc::clone(&self.failed_copies);
            aside(Box::new(move || {
                let copied = copy().map_err(Arc::new);
                failed.fetch_add(u64::from(copied.is_err()), Ordering::Relaxed);
                answer.give(copied);
            }));
        }
        self.reads.drain(..).for_each(|reply| reply());
        self.others.drain(..).for_each(|(answer, answered)| answer.give(answered));
    }
}

impl Change {
    const fn new(op: Op, requester: Requester) -> Self {
        Self { op, requester, until: None }
    }

    const fn end(delivery: Delivery, next: Next) -> Self {
        Self::new(Op::End(delivery, next), Requester::Deliveries)
    }
}

impl Writer {
    pub(super) fn new(store: Box<dyn Store>, routes: Arc<Routes>, group: usize) -> Self {
        Self {
            store: Some(store),
            routes,
            began: None,
            looked_until: DueTime::MIN,
            claimed: FxHashMap::default(),
            unwritten: Vec::new(),
            why_unwritten: None,
            locked: Vec::new(),
            try_again_at: Duration::ZERO,
            group,
            trouble: Trouble::None,
            counters: DurableCounters::default(),
            released: 0,
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.store.is_none()
    }

    /// Returns the time until changes of locked rows are tried again; none if there are none.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        (!self.locked.is_empty()).then(|| self.try_again_at.saturating_sub(now))
    }

    pub(super) const fn counters(&self) -> &DurableCounters {
        &self.counters
    }

    /// Returns whether the store has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.trouble == Trouble::Failed
    }

    /// Returns the store's own values.
    pub(super) fn store_gauges(&self) -> StoreGauges {
        let gauges = self.store.as_deref().map(Store::gauges).unwrap_or_default();
        StoreGauges { interrupted: gauges.interrupted + self.released, ..gauges }
    }

    /// Returns the queries of the store.
    pub(super) fn reads(&mut self) -> Option<&mut dyn Reads> {
        self.store.as_deref_mut().map(|store| store as &mut dyn Reads)
    }

    /// Makes the first requests: a beat at once, the changes among them in one commit, then the others in their order. Returns
    /// the number of places that callers' requests took.
    pub(super) fn turn(
        &mut self,
        clock: &dyn Fn() -> Reading,
        requests: &mut VecDeque<Request>,
        replies: &mut Replies,
    ) -> usize {
        let (mut changes, mut others) = (Vec::new(), Vec::new());
        let (mut places, mut bytes) = (0, 0);
        let mut is_closing = false;
        if self.pause(clock().time).is_some_and(|pause| pause.is_zero()) {
            changes.append(&mut self.locked);
        }
        while changes.len() < self.group && bytes < MAX_BYTES {
            let Some(request) = requests.pop_front() else { break };
            places += request.places();
            bytes += request.bytes();
            match request {
                Request::Change { op, answer } => changes.push(Change::new(op, Requester::Caller(answer))),
                Request::Claim(claim) => changes.push(Change::new(Op::Claim(claim), Requester::Deliveries)),
                Request::End(delivery, next) => changes.push(Change::end(delivery, next)),
                Request::Retry => self.take_unwritten(&mut changes),
                Request::Beat => self.make(Request::Beat, clock, replies),
                Request::Close { answer } => {
                    is_closing = true;
                    changes.append(&mut self.locked);
                    self.take_unwritten(&mut changes);
                    others.push(Request::Close { answer });
                }
                other => others.push(other),
            }
            if is_closing {
                break;
            }
        }
        if !changes.is_empty() {
            self.commit(clock, changes, is_closing, replies);
        }
        for request in others {
            self.make(request, clock, replies);
        }
        places
    }

    fn take_unwritten(&mut self, changes: &mut Vec<Change>) {
        changes.extend(self.unwritten.drain(..).map(|(delivery, next)| Change::end(delivery, next)));
    }

    fn commit(&mut self, clock: &dyn Fn() -> Reading, changes: Vec<Change>, is_closing: bool, replies: &mut Replies) {
        let begun = clock();
        let (ops, requesters): (Vec<_>, Vec<_>) =
            changes.into_iter().map(|Change { op, requester, until }| (op, (requester, until))).unzip();
        let applied = match &mut self.store {
            Some(store) => store.apply(&ops, begun.wall),
            None => Err(StoreError::Closed),
        };
        let now = clock().time;
        replies.written = Some((ops.len(), now.saturating_sub(begun.time)));
        self.note_trouble(applied.as_ref().err());
        match applied {
            Ok(outcomes) => {
                for ((op, (requester, until)), outcome) in ops.into_iter().zip(requesters).zip(outcomes) {
                    let until = until.unwrap_or(now.saturating_add(PATIENCE));
                    let may_wait = !is_closing && (now < until || matches!(op, Op::End(..)));
                    if may_wait && matches!(outcome, Err(StoreError::Locked)) {
                        self.locked.push(Change { op, requester, until: Some(until) });
                        self.try_again_at = now.saturating_add(PAUSE);
                    } else {
                        self.made(op, requester, outcome.map_err(Arc::new), replies);
                    }
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for (op, (requester, _)) in ops.into_iter().zip(requesters) {
                    self.made(op, requester, Err(Arc::clone(&error)), replies);
                }
            }
        }
    }

    fn note_trouble(&mut self, error: Option<&StoreError>) {
        let trouble = match error {
            None => Trouble::None,
            Some(StoreError::Failed(_)) => Trouble::Failed,
            Some(_) => Trouble::Rejected,
        };
        let before = std::mem::replace(&mut self.trouble, trouble);
        if let Some(error) = error {
            self.counters.failed(StoreOp::Commit);
            if before != trouble {
                trace::store_cannot_write(error);
            }
        } else if before != Trouble::None {
            trace::store_writes_again();
        }
    }

    /// Passes the outcome of a change to its requester.
    fn made(&mut self, op: Op, requester: Requester, outcome: Answered<Outcome>, replies: &mut Replies) {
        if let Ok(outcome) = &outcome {
            self.count(&op, outcome);
            self.report_new(&op, outcome, &mut replies.report.hints);
            report_cancelled(&op, outcome, &mut replies.report.cancelled);
        }
        match (requester, op) {
            (Requester::Caller(answer), _) => {
                // Rows that no look expects may be there.
                let is_unknown =
                    |error: &Arc<StoreError>| matches!(**error, StoreError::Unknown(_) | StoreError::Failed(_));
                replies.report.is_behind |= outcome.as_ref().is_err_and(is_unknown);
                replies.changes.push((answer, outcome));
            }
            (Requester::Deliveries, Op::Claim(claim)) => {
                let result = outcome.map(|outcome| match outcome {
                    Outcome::Claimed { records, not_due, left, .. } => ClaimedRows { records, not_due, left },
                    _ => ClaimedRows::default(),
                });
                let records = result.iter().flat_map(|rows| &rows.records);
                self.claimed.extend(records.map(|record| (record.id, record.delivery())));
                replies.report.claims.push(Claimed { asked: claim.ids, result });
            }
            (Requester::Deliveries, Op::End(delivery, next)) => match outcome {
                Ok(outcome) => {
                    self.claimed.remove(&delivery.id);
                    let is_written = matches!(outcome, Outcome::Ended { .. });
                    let dead =
                        if let (Next::Dead { reason, .. }, true) = (next, is_written) { Some(reason) } else { None };
                    replies.report.ended.push(Ended { delivery, outcome, dead });
                }
                Err(error) => {
                    self.unwritten.push((delivery, next));
                    self.why_unwritten = Some(error);
                    replies.report.is_behind = true;
                }
            },
            (Requester::Deliveries, _) => {}
        }
    }

    /// Counts a change.
    fn count(&mut self, op: &Op, outcome: &Outcome) {
        let counters = &mut self.counters;
        match (op, outcome) {
            (_, Outcome::Put(placed)) => {
                for placed in placed {
                    match placed {
                        Placed::Created { .. } => counters.scheduled += 1,
                        Placed::Exists(_) => counters.duplicates += 1,
                        Placed::Replaced { .. } => {
                            counters.scheduled += 1;
                            counters.cancelled += 1;
                        }
                    }
                }
            }
            (Op::Cancel(_), Outcome::Deleted | Outcome::InProgress) => counters.cancelled += 1,
            (Op::Move(..), Outcome::Moved(_)) => counters.rescheduled += 1,
            (_, Outcome::Discarded(expired)) => counters.expired += *expired as u64,
            (Op::Claim(claim), Outcome::Claimed { records, left, damaged, .. }) => {
                counters.claims += claim.ids.len() as u64;
                let is_recovered = |due| self.began.is_some_and(|began| due <= began);
                counters.recovered += records.iter().filter(|record| is_recovered(record.progress.due)).count() as u64;
                counters.empty_claims += claim.ids.len().saturating_sub(records.len() + left.len()) as u64;
                damaged.iter().for_each(|id| trace::damaged(*id));
                (0..damaged.len()).for_each(|_| counters.failed(StoreOp::Decode));
            }
            (Op::End(delivery, next), Outcome::Ended { .. }) => counters.ended(match next {
                Next::Delete => DeliveryOutcome::Complete,
                Next::Again(again) if again.repetition != delivery.repetition => DeliveryOutcome::Complete,
                Next::Again(_) | Next::Release => DeliveryOutcome::Retry,
                Next::Dead { .. } => DeliveryOutcome::DeadLetter,
                Next::Park { .. } => DeliveryOutcome::Parked,
                Next::GiveBack => DeliveryOutcome::Undelivered,
            }),
            (Op::End(..), Outcome::NotFound) => counters.ends_lost += 1,
            _ => {}
        }
    }

    /// Reports new timers of callers that are due before the end of the last look.
    fn report_new(&mut self, op: &Op, outcome: &Outcome, hints: &mut Vec<Hint>) {
        match (op, outcome) {
            (Op::Put(timers), Outcome::Put(placed)) => {
                for (timer, placed) in timers.iter().zip(placed) {
                    if let Placed::Created { due } | Placed::Replaced { due, .. } = placed
                        && *due <= self.looked_until
                        && let Some(route) = self.routes.number_of(&timer.record)
                    {
                        let nominal = timer.record.progress.nominal;
                        hints.push(Hint { id: timer.record.id, due: *due, nominal, route, is_suspect: false });
                    }
                }
            }
            // Nobody here knows its route. In a store that nodes share a look finds it in time.
            (Op::Move(..) | Op::Requeue(_), Outcome::Moved(hint)) if hint.due <= self.looked_until => {
                if let Some(store) = self.store.as_deref_mut()
                    && store.intervals().is_none()
                    && let Ok(Some(found)) = store.get(hint.id)
                    && let Some(route) = self.routes.number_of(&found.record)
                {
                    hints.push(Hint { route, ..*hint });
                }
            }
            _ => {}
        }
    }

    fn make(&mut self, request: Request, clock: &dyn Fn() -> Reading, replies: &mut Replies) {
        let Reading { wall: now, time: begun } = clock();
        let Some(store) = self.store.as_deref_mut() else { return request.reject(&Arc::new(StoreError::Closed)) };
        match request {
            Request::Read(query) => replies.reads.push(query(Ok(store as &mut dyn Reads))),
            Request::Look(look) => {
                let looked = store.look(&look, now).map_err(Arc::new);
                match &looked {
                    Ok(_) => {
                        self.looked_until = self.looked_until.max(look.until);
                        self.began.get_or_insert(now);
                    }
                    Err(error) => {
                        self.counters.failed(StoreOp::Load);
                        trace::store_cannot_be_read(error);
                    }
                }
                replies.looks.push(clock().time.saturating_sub(begun));
                replies.report.looked = Some(looked);
            }
            Request::Beat => {
                let mut running: Vec<_> = self.claimed.values().copied().collect();
                running.sort_unstable();
                match store.beat(&running, now) {
                    Ok(beat) => {
                        self.released += beat.released;
                        self.claimed.extend(beat.blamed.iter().map(|record| (record.id, record.delivery())));
                        replies.report.beats.push(beat);
                    }
                    Err(_) => self.counters.failed(StoreOp::Lease),
                }
            }
            Request::Retire => store.retire(now),
            Request::BackUp { to, answer } => match store.back_up(&to) {
                Ok(copy) => replies.copies.push((copy, answer)),
                Err(error) => {
                    self.counters.failed(StoreOp::BackUp);
                    replies.others.push((answer, Err(Arc::new(error))));
                }
            },
            Request::Close { answer } => {
                // A suspect whose handler has not begun is not to blame for the end of this process.
                let claimed = self.claimed.drain();
                let ends: Vec<_> = claimed.map(|(_, delivery)| Op::End(delivery, Next::Release)).collect();
                if !ends.is_empty() {
                    let _ = store.apply(&ends, now);
                }
                self.store = None;
                let written = self.why_unwritten.take().filter(|_| !self.unwritten.is_empty()).map_or(Ok(()), Err);
                replies.others.push((answer, written));
            }
            Request::Change { .. } | Request::Claim(_) | Request::End(..) | Request::Retry => {}
        }
    }
}

/// Reports timers that were cancelled or replaced after their claims.
fn report_cancelled(op: &Op, outcome: &Outcome, cancelled: &mut Vec<DurableId>) {
    match (op, outcome) {
        (Op::Cancel(id), Outcome::InProgress) => cancelled.push(*id),
        (_, Outcome::Put(placed)) => cancelled.extend(placed.iter().filter_map(|placed| match placed {
            Placed::Replaced { old, in_progress: true, .. } => Some(*old),
            _ => None,
        })),
        _ => {}
    }
}

//! The writer: makes requests, all that wait in one commit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_timers::integration::PUBLISH_EVERY;
use rustc_hash::FxHashMap;

use super::reading::measure;
use super::request::{Answer, Answered, Claimed, Ended, Reply, Report, Request};
use crate::due_time::DueTime;
use crate::ends::reason_of_death;
use crate::id::DurableId;
use crate::metrics::{Counted, DurableMeters};
use crate::pause::{Pause, PauseTarget};
use crate::routes::Routes;
use crate::store::{Delivery, Hint, Look, Looking, Next, Op, Outcome, Placed, Reads, Record, Store, StoreError};
use crate::trace;

/// The time between two tries of a change that waits.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time between two tries of an end that the store refuses: each refusal makes others of its commit slower.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The number of refused ends beside which nothing is claimed: they and their messages stay in memory, out of the windows.
pub(super) const MAX_REFUSED: usize = 256;
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
    /// Changes whose rows a transaction of somebody else has locked, and ends that could not be written. They wait here, so
    /// that nothing else does.
    waiting: Vec<Change>,
    /// The reason for which an end was not written before the close.
    unwritten: Option<Arc<StoreError>>,
    /// The maximum number of new changes in one commit.
    group: usize,
    /// That of changes that are tried again: fewer after each failure of ends that had failed with their commit, so that the
    /// ones which fail all others are soon alone.
    tried_again: usize,
    /// Whether the last commit failed, and the next one may fail for the same reason.
    trouble: Trouble,
    meters: Arc<DurableMeters>,
    /// The time at which the metrics were last published.
    published: Option<Duration>,
    /// Whether it counts the timers: no thread beside does.
    is_counting: bool,
    /// Claims of other nodes that were released.
    released: u64,
    /// A stop has begun.
    retires: bool,
}

/// The result of the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Trouble {
    #[default]
    None,
    /// Nothing was written.
    Rejected,
    /// The store has failed: nobody knows its state.
    Failed,
}

/// A change to make, with its requester.
type Change = (Op, Requester);

/// The requester of a change.
#[derive(Default)]
struct Requester {
    /// The way back to a caller. None of the deliveries, which get a report.
    answer: Option<Answer<Outcome>>,
    /// The time at which the change was first found locked, or refused for a reason of its own.
    since: Option<Duration>,
    /// The time of the next try.
    at: Duration,
    /// It is an end that the store has refused, alone or with its commit.
    is_refused: bool,
}

/// Replies and reports of a turn, to be sent when no lock is held.
#[derive(Default)]
pub(super) struct Replies {
    changes: Vec<(Answer<Outcome>, Answered<Outcome>)>,
    /// The number of these that handlers asked for, which do not come back.
    of_handlers: usize,
    others: Vec<Reply>,
    pub(super) report: Report,
    /// The number of requests in the commit, and its duration.
    written: Option<(usize, Duration)>,
    /// The durations of looks.
    looks: Vec<Duration>,
}

impl Replies {
    /// Returns the number of callers that it answers.
    pub(super) fn callers(&self) -> usize {
        self.changes.len() - self.of_handlers + self.others.len()
    }

    /// Records the commit and the looks of the turn, and sends the replies.
    pub(super) fn send(self, meters: &DurableMeters) {
        self.written.iter().for_each(|(requests, took)| meters.wrote(*requests, *took));
        self.looks.iter().for_each(|took| meters.looked(*took));
        for (answer, answered) in self.changes {
            // The receiver may be gone.
            let _ = answer.send(answered);
        }
        self.others.into_iter().for_each(|reply| reply());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.meters.close();
    }
}

impl Writer {
    pub(super) fn new(
        store: Box<dyn Store>,
        routes: Arc<Routes>,
        claimed: Vec<Delivery>,
        group: usize,
        is_counting: bool,
        meters: Arc<DurableMeters>,
    ) -> Self {
        Self {
            store: Some(store),
            routes,
            began: None,
            looked_until: DueTime::MIN,
            claimed: claimed.into_iter().map(|delivery| (delivery.id, delivery)).collect(),
            waiting: Vec::new(),
            unwritten: None,
            group,
            tried_again: group,
            trouble: Trouble::None,
            meters,
            published: None,
            is_counting,
            released: 0,
            retires: false,
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.store.is_none()
    }

    /// Returns the time until a change that waits is tried again; none if none waits.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        self.waiting.iter().map(|(_, requester)| requester.at.saturating_sub(now)).min()
    }

    /// Gives the metrics the values of the store, once per period. Returns whether it does.
    pub(super) fn refresh(&mut self, now: Reading) -> bool {
        let is_due = self.published.is_none_or(|at| now.time >= at.saturating_add(PUBLISH_EVERY));
        if is_due {
            self.published = Some(now.time);
            self.show(now.wall);
        }
        is_due
    }

    /// Gives the metrics the values of the store.
    pub(super) fn show(&mut self, now: DueTime) {
        let mut store = self.store.as_deref().map(Store::gauges).unwrap_or_default();
        store.interrupted += self.released;
        self.meters.levels(|levels| (levels.store, levels.has_failed) = (store, self.trouble == Trouble::Failed));
        if let Some(store) = self.store.as_deref_mut().filter(|_| self.is_counting) {
            // A failure is counted for queries alone.
            _ = measure(store, &self.meters, now);
        }
    }

    /// Makes the first requests: a beat at once, a look beside the commit of the changes among them, then the others in their
    /// order. Returns the number of places that callers' requests took.
    pub(super) fn turn(
        &mut self,
        clock: &dyn Fn() -> Reading,
        requests: &mut VecDeque<Request>,
        replies: &mut Replies,
    ) -> usize {
        let now = clock().time;
        let due = self.waiting.extract_if(.., |(_, requester)| requester.at <= now);
        let mut changes: Vec<_> = due.take(self.tried_again).collect();
        let first = changes.len();
        let (mut others, mut looking) = (Vec::new(), None);
        let (mut places, mut bytes) = (0, 0);
        let mut is_closing = false;
        while changes.len() - first < self.group && bytes < MAX_BYTES {
            let Some(request) = requests.pop_front() else { break };
            places += request.places();
            bytes += request.bytes();
            match request {
                Request::Change { op: op @ Op::Claim(_), answer } if self.has_many_refused(&changes) => {
                    let refused =
                        StoreError::Unavailable(format!("the store refuses {MAX_REFUSED} ends of deliveries"));
                    self.made(op, answer, Err(Arc::new(refused)), replies);
                }
                Request::Change { op, answer } => {
                    changes.push((op, Requester { answer, ..Requester::default() }));
                }
                Request::Beat => self.make(Request::Beat, clock().wall, replies),
                Request::Look(look) => looking = self.begin_look(&look, clock()),
                Request::Close(answer) => {
                    is_closing = true;
                    changes.append(&mut self.waiting);
                    others.push(Request::Close(answer));
                    break;
                }
                other => others.push(other),
            }
        }
        while !changes.is_empty() {
            // At a close there may be more.
            let rest = changes.split_off(changes.len().min(self.group.saturating_mul(2)));
            self.commit(clock, changes, is_closing, replies);
            changes = rest;
        }
        if let Some((looking, begun)) = looking {
            self.end_look(looking, begun, clock, replies);
        }
        for request in others {
            self.make(request, clock().wall, replies);
        }
        places
    }

    /// Whether too many ends were refused to claim anything, also counting the ones that are tried again now.
    fn has_many_refused(&self, changes: &[Change]) -> bool {
        self.waiting.iter().chain(changes).filter(|(_, requester)| requester.is_refused).count() >= MAX_REFUSED
    }

    fn commit(&mut self, clock: &dyn Fn() -> Reading, changes: Vec<Change>, is_closing: bool, replies: &mut Replies) {
        let begun = clock();
        let (ops, requesters): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let applied = match &mut self.store {
            Some(store) => store.apply(&ops, begun.wall),
            None => Err(StoreError::Closed),
        };
        let now = clock().time;
        replies.written = Some((ops.len(), now.saturating_sub(begun.time)));
        self.note_trouble(applied.as_ref().err());
        let is_applied = applied.is_ok();
        self.note_tries(requesters.iter().filter(|requester| requester.is_refused).count(), is_applied, now);
        let outcomes: Vec<Answered<Outcome>> = match applied {
            Ok(outcomes) => outcomes.into_iter().map(|outcome| outcome.map_err(Arc::new)).collect(),
            Err(error) => vec![Err(Arc::new(error)); ops.len()],
        };
        for ((op, mut requester), outcome) in ops.into_iter().zip(requesters).zip(outcomes) {
            if let Err(error) = &outcome
                && !is_closing
                && let Some(pause) = self.pause_of(&op, &mut requester, error, !is_applied, now, &mut replies.report)
            {
                requester.at = now.saturating_add(pause);
                self.waiting.push((op, requester));
            } else {
                self.made(op, requester.answer, outcome, replies);
            }
        }
    }

    /// Returns the time until a change that failed is tried again; none if its requester is to hear of it. Of an end nobody
    /// hears before the close, and the report tells only if the whole store has failed.
    fn pause_of(
        &self,
        op: &Op,
        requester: &mut Requester,
        error: &StoreError,
        is_of_all: bool,
        now: Duration,
        report: &mut Report,
    ) -> Option<Duration> {
        let is_end = matches!(op, Op::End(..));
        let is_locked = matches!(error, StoreError::Locked);
        requester.is_refused = is_end && !is_locked;
        if is_of_all || error.is_of_the_store() {
            report.is_behind |= is_end;
            return is_end.then_some(PAUSE);
        }
        if is_end && is_locked {
            return Some(PAUSE);
        }
        let is_first = requester.since.is_none();
        let waited = now.saturating_sub(*requester.since.get_or_insert(now));
        match op {
            Op::End(delivery, _) => {
                self.meters.count(Counted::CommitFailed, 1);
                if is_first {
                    trace::end_refused(delivery.id, error);
                }
                Some((waited / 4).clamp(PAUSE, MAX_PAUSE))
            }
            _ => (is_locked && waited < PATIENCE).then_some(PAUSE),
        }
    }

    /// Notes the result of a commit with ends that had been refused.
    fn note_tries(&mut self, ends: usize, is_applied: bool, now: Duration) {
        if ends == 0 {
            return;
        }
        if is_applied {
            self.tried_again = self.tried_again.saturating_mul(2).min(self.group);
            return;
        }
        self.tried_again = (ends / 2).max(1);
        // While the store is away not each of them makes a commit.
        let refused = self.waiting.iter_mut().map(|(_, requester)| requester).filter(|requester| requester.is_refused);
        refused.for_each(|requester| requester.at = requester.at.max(now.saturating_add(PAUSE / 2)));
    }

    fn note_trouble(&mut self, error: Option<&StoreError>) {
        let trouble = match error {
            None => Trouble::None,
            Some(StoreError::Failed(_)) => Trouble::Failed,
            Some(_) => Trouble::Rejected,
        };
        let before = std::mem::replace(&mut self.trouble, trouble);
        if let Some(error) = error {
            self.meters.count(Counted::CommitFailed, 1);
            if before != trouble {
                trace::store_cannot_write(error);
            }
        } else if before != Trouble::None {
            trace::store_writes_again();
        }
    }

    /// Passes the outcome of a change to its requester.
    fn made(&mut self, op: Op, answer: Option<Answer<Outcome>>, outcome: Answered<Outcome>, replies: &mut Replies) {
        let report = &mut replies.report;
        if let Ok(outcome) = &outcome {
            self.note(&op, outcome, report);
        }
        match (answer, op) {
            (Some(answer), op) => {
                if let Op::EndWith(delivery, ..) = op {
                    replies.of_handlers += 1;
                    if matches!(outcome, Ok(Outcome::Ended { .. })) {
                        self.forget(delivery);
                    }
                }
                // Rows that no look expects may be there.
                let is_unknown =
                    |error: &Arc<StoreError>| matches!(**error, StoreError::Unknown(_) | StoreError::Failed(_));
                report.is_behind |= outcome.as_ref().is_err_and(is_unknown);
                replies.changes.push((answer, outcome));
            }
            (None, Op::Claim(claim)) => {
                if let Ok(Outcome::Claimed { records, .. }) = &outcome {
                    self.claimed.extend(records.iter().map(|record| (record.id, record.delivery())));
                }
                report.claims.push(Claimed { asked: claim.ids, result: outcome });
            }
            (None, Op::End(delivery, next)) => match outcome {
                Ok(outcome) => {
                    self.forget(delivery);
                    let is_written = matches!(outcome, Outcome::Ended { .. });
                    let dead = reason_of_death(&next).filter(|_| is_written);
                    report.ended.push(Ended { delivery, outcome, dead });
                }
                Err(error) => self.unwritten = Some(error),
            },
            (None, _) => {}
        }
    }

    /// Notes that a delivery is over, unless its timer was claimed again since then.
    fn forget(&mut self, delivery: Delivery) {
        if self.claimed.get(&delivery.id) == Some(&delivery) {
            self.claimed.remove(&delivery.id);
        }
    }

    /// Counts a change, and reports its consequences for the deliveries.
    fn note(&mut self, op: &Op, outcome: &Outcome, report: &mut Report) {
        let count = |event, times| self.meters.count(event, times);
        match (op, outcome) {
            (Op::Put(timers), Outcome::Put(placed)) => {
                for (timer, placed) in timers.iter().zip(placed) {
                    self.note_new(&timer.record, placed, report);
                }
            }
            (Op::Cancel(_), Outcome::Deleted) => count(Counted::Cancelled, 1),
            (Op::Cancel(id), Outcome::InProgress) => {
                count(Counted::Cancelled, 1);
                report.cancelled.push(*id);
            }
            (Op::Move(id, _) | Op::Requeue(id), Outcome::Moved(due)) => {
                count(Counted::Rescheduled, usize::from(matches!(op, Op::Move(..))));
                self.note_moved(*id, *due, report);
            }
            (Op::DiscardOlder { past_of: None, .. }, Outcome::Discarded(expired)) => count(Counted::Expired, *expired),
            (Op::Pause(Pause { target: PauseTarget::Timer(_), .. }), _) => {}
            (Op::Resume(PauseTarget::Timer(id)), Outcome::Deleted) => self.note_moved(*id, DueTime::MIN, report),
            // Looks have left out, or will.
            (Op::Pause(_), _) | (Op::Resume(_), Outcome::Deleted) => report.look_again_from = Some(DueTime::MIN),
            (Op::Claim(claim), Outcome::Claimed { records, left, damaged, .. }) => {
                let is_recovered = |record: &&Arc<Record>| self.began.is_some_and(|began| record.progress.due <= began);
                count(Counted::Claimed, claim.ids.len());
                count(Counted::Recovered, records.iter().filter(is_recovered).count());
                count(Counted::ClaimedInVain, claim.ids.len().saturating_sub(records.len() + left.len()));
                count(Counted::Damaged, damaged.len());
                damaged.iter().for_each(|id| trace::damaged(*id));
            }
            (Op::End(delivery, next), Outcome::Ended { .. }) => count(Counted::end(*delivery, next), 1),
            _ => {}
        }
    }

    /// Notes a new timer, and reports it if it is due before the end of the last look; and the timer that it has replaced while
    /// the handler of that may be running.
    fn note_new(&self, record: &Record, placed: &Placed, report: &mut Report) {
        let due = match *placed {
            Placed::Exists(_) => return self.meters.count(Counted::Duplicate, 1),
            Placed::Created { due } => due,
            Placed::Replaced { old, in_progress, due } => {
                self.meters.count(Counted::Cancelled, 1);
                report.cancelled.extend(in_progress.then_some(old));
                due
            }
        };
        self.meters.count(Counted::Scheduled, 1);
        if due <= self.looked_until {
            report.hints.extend(self.hint(record, due));
        }
    }

    /// Returns the hint of a timer that this node delivers. If it is a suspect its claim finds that.
    fn hint(&self, record: &Record, due: DueTime) -> Option<Hint> {
        let route = self.routes.number_of(record)?;
        Some(Hint { id: record.id, due, nominal: record.progress.nominal, route, is_suspect: false })
    }

    /// Reports a timer that was moved, to this time or a later one, before the end of the last look. Nobody here knows its
    /// route; in a store that nodes share a look finds it in time.
    fn note_moved(&mut self, id: DurableId, due: DueTime, report: &mut Report) {
        let store = self.store.as_deref_mut().filter(|store| store.sharing().is_none());
        let Some(store) = store.filter(|_| due <= self.looked_until) else { return };
        match store.get(id) {
            Ok(found) => {
                report.hints.extend(found.and_then(|found| self.hint(&found.record, found.record.progress.due)));
            }
            Err(_) => report.look_again_from = Some(report.look_again_from.map_or(due, |from| from.min(due))),
        }
    }

    /// Begins a look. New timers of the same turn are reported, as if the look had ended before.
    fn begin_look(&mut self, look: &Look, begun: Reading) -> Option<(Looking, Reading)> {
        self.looked_until = self.looked_until.max(look.until);
        let looking = self.store.as_deref_mut()?.look(look, begun.wall);
        Some((looking, begun))
    }

    fn end_look(&mut self, looking: Looking, begun: Reading, clock: &dyn Fn() -> Reading, replies: &mut Replies) {
        let looked = looking().map_err(Arc::new);
        match &looked {
            Ok(_) => _ = self.began.get_or_insert(begun.wall),
            Err(error) => {
                self.meters.count(Counted::LookFailed, 1);
                trace::store_cannot_be_read(error);
                if matches!(**error, StoreError::Failed(_)) {
                    self.trouble = Trouble::Failed;
                }
            }
        }
        replies.looks.push(clock().time.saturating_sub(begun.time));
        replies.report.looked = Some(looked);
    }

    fn make(&mut self, request: Request, now: DueTime, replies: &mut Replies) {
        let Some(store) = self.store.as_deref_mut() else { return replies.others.push(Box::new(|| drop(request))) };
        match request {
            Request::Read(query) => replies.others.push(query(store as &mut dyn Reads)),
            Request::Beat => {
                let mut running: Vec<_> = self.claimed.values().copied().collect();
                running.sort_unstable();
                match store.beat(&running, now) {
                    Ok(beat) => {
                        self.released += beat.released;
                        self.claimed.extend(beat.blamed.iter().map(|record| (record.id, record.delivery())));
                        replies.report.beats.push(beat);
                    }
                    Err(_) => self.meters.count(Counted::BeatFailed, 1),
                }
            }
            Request::Retire => {
                self.retires = true;
                store.retire();
            }
            Request::BackUp { to, run, answer } => {
                let (prepared, meters) = (store.back_up(&to), Arc::clone(&self.meters));
                let copy = move || {
                    let copied = prepared.and_then(|copy| copy()).map_err(Arc::new);
                    meters.count(Counted::BackUpFailed, copied.is_err().into());
                    // The receiver may be gone.
                    drop(answer.send(copied));
                };
                replies.others.push(Box::new(move || run(Box::new(copy))));
            }
            Request::Close(answer) => {
                // A suspect whose handler has not begun is not to blame for the end of this process. A stop uses up no attempt.
                let next = if self.retires { Next::GiveBack } else { Next::Release };
                let claimed = self.claimed.drain();
                let ends: Vec<_> = claimed.map(|(_, delivery)| Op::End(delivery, next.clone())).collect();
                for ends in ends.chunks(self.group) {
                    let _ = store.apply(ends, now);
                }
                self.store = None;
                self.meters.close();
                let written = self.unwritten.take().map_or(Ok(()), Err);
                replies.others.push(Box::new(|| drop(answer.send(written))));
            }
            Request::Change { .. } | Request::Look(_) => {}
        }
    }
}

//! Requests for timers in shards of other nodes: changes without the state of a ledger.

use std::sync::Arc;

use super::batch::gather;
use super::group::Step;
use super::request::{Cancellation, Request, Rescheduling, Scheduled};
use super::{Reading, Replies};
use crate::id::DurableId;
use crate::metrics::{DurableCounters, StoreOp};
use crate::record::RecordState;
use crate::store::{Change, ChangeOutcome, Found, Part, StoreError, TimerStore};

/// Changes of timers in shards of other nodes, with their callers.
#[derive(Default)]
pub(super) struct Foreign {
    pub(super) changes: Vec<Change>,
    steps: Vec<Step>,
}

impl Foreign {
    /// Prepares the change of a caller's request.
    pub(super) fn prepare(
        &mut self,
        now: Reading,
        request: Request,
        counters: &mut DurableCounters,
        store: &mut dyn TimerStore,
        replies: &mut Replies,
    ) {
        let (change, step) = match request {
            Request::Schedule { record, on_key, answer } => match store.admits(&record) {
                Ok(()) => (Change::Put { record: Arc::clone(&record), on_key }, Step::Schedule { record, answer }),
                Err(error) => return replies.schedule(answer, Err(Arc::new(error))),
            },
            Request::ScheduleAll { timers, answer } => {
                match timers.iter().try_for_each(|(record, _)| store.admits(record)) {
                    Ok(()) if timers.is_empty() => replies.put(answer, Ok(Vec::new())),
                    Ok(()) => {
                        let answers = gather(timers.len(), answer);
                        for ((record, on_key), answer) in timers.into_iter().zip(answers) {
                            self.changes.push(Change::Put { record: Arc::clone(&record), on_key });
                            self.steps.push(Step::Schedule { record, answer });
                        }
                    }
                    Err(error) => replies.put(answer, Err(Arc::new(error))),
                }
                return;
            }
            Request::Cancel { id, answer } => {
                (Change::Remove { id, at: None }, Step::Cancel { id, is_in_flight: false, answer })
            }
            Request::Reschedule { id, due, answer } => match store.get(id).map(|found| self.progress_of(id, found)) {
                Ok(Some(progress)) => {
                    let to = RecordState { due, nominal: due, ..progress };
                    (Change::Move { id, at: None, to }, Step::Reschedule { id, answer })
                }
                Ok(None) => return replies.put(answer, Ok(Rescheduling::NotFound)),
                Err(error) => {
                    counters.failed(StoreOp::Read);
                    return replies.put(answer, Err(Arc::new(error)));
                }
            },
            Request::Requeue { id, answer } => (Change::Requeue { id, due: now.wall }, Step::Requeue { answer }),
            Request::Discard { id, answer } => (Change::Discard { id }, Step::Discard { answer }),
            // Of a delivery in a shard that was lost: the new owner repeats it.
            Request::Claim { answer, .. } => return replies.put(answer, Ok(Vec::new())),
            _ => return,
        };
        self.changes.push(change);
        self.steps.push(step);
    }

    /// Returns the progress of a timer that is in the store, or requested in the same group.
    fn progress_of(&self, id: DurableId, found: Option<Found>) -> Option<RecordState> {
        let (progress, is_dead) = found.map(|found| (found.record.progress, found.part == Part::Dead)).unzip();
        if is_dead == Some(false) {
            return progress;
        }
        self.changes.iter().rev().find_map(|change| match change {
            Change::Put { record, .. } if record.id == id => Some(record.progress),
            Change::Requeue { id: requeued, due } if *requeued == id => {
                progress.map(|progress| RecordState { due: *due, attempt: 1, ..progress })
            }
            _ => None,
        })
    }

    /// Prepares the callers' changes of a shard that turned out to be another node's.
    pub(super) fn adopt(
        &mut self,
        now: Reading,
        wanted: Vec<(Change, Step)>,
        counters: &mut DurableCounters,
        store: &mut dyn TimerStore,
        replies: &mut Replies,
    ) {
        for (change, step) in wanted {
            let (change, step) = match (change, step) {
                // The other node may have delivered it: it goes on from its present state.
                (Change::Move { to, .. }, Step::Reschedule { id, answer }) => {
                    let request = Request::Reschedule { id, due: to.due, answer };
                    self.prepare(now, request, counters, store, replies);
                    continue;
                }
                (_, Step::Aside) => continue,
                (Change::Remove { id, .. }, step) => (Change::Remove { id, at: None }, step),
                other => other,
            };
            self.changes.push(change);
            self.steps.push(step);
        }
    }

    /// Replies to all callers.
    pub(super) fn written(
        &mut self,
        outcomes: Vec<ChangeOutcome>,
        counters: &mut DurableCounters,
        replies: &mut Replies,
    ) {
        self.changes.clear();
        for (step, outcome) in self.steps.drain(..).zip(outcomes) {
            if let ChangeOutcome::Newer { id, version } = outcome {
                step.fail(&Arc::new(StoreError::newer_record(id, version)), replies);
                continue;
            }
            match step {
                Step::Aside => {}
                Step::Schedule { answer, .. } => {
                    let scheduled = match outcome {
                        ChangeOutcome::Exists(id) => Scheduled::Exists(id),
                        ChangeOutcome::Replaced(id) => Scheduled::Replaced { id, in_progress: false },
                        ChangeOutcome::ReplacedInFlight(id) => Scheduled::Replaced { id, in_progress: true },
                        _ => Scheduled::Created,
                    };
                    match scheduled {
                        Scheduled::Exists(_) => counters.duplicates += 1,
                        Scheduled::Created => counters.scheduled += 1,
                        Scheduled::Replaced { .. } => {
                            counters.scheduled += 1;
                            counters.cancelled += 1;
                        }
                    }
                    replies.schedule(answer, Ok(scheduled));
                }
                Step::Cancel { is_in_flight, answer, .. } => {
                    let cancellation = match outcome {
                        ChangeOutcome::Removed if !is_in_flight => Cancellation::Cancelled,
                        ChangeOutcome::Removed | ChangeOutcome::RemovedInFlight => Cancellation::InProgress,
                        _ => Cancellation::NotFound,
                    };
                    counters.cancelled += u64::from(cancellation != Cancellation::NotFound);
                    replies.cancel(answer, Ok(cancellation));
                }
                Step::Reschedule { answer, .. } => {
                    let rescheduling = match outcome {
                        ChangeOutcome::Moved(_) | ChangeOutcome::Done => Rescheduling::Rescheduled,
                        ChangeOutcome::InFlight => Rescheduling::InProgress,
                        _ => Rescheduling::NotFound,
                    };
                    counters.rescheduled += u64::from(rescheduling == Rescheduling::Rescheduled);
                    replies.put(answer, Ok(rescheduling));
                }
                Step::Requeue { answer } => {
                    let is_made = matches!(outcome, ChangeOutcome::Moved(_) | ChangeOutcome::Done);
                    replies.put(answer, Ok(is_made));
                }
                Step::Discard { answer } => replies.put(answer, Ok(outcome == ChangeOutcome::Removed)),
            }
        }
    }

    /// Replies with an error to all callers.
    pub(super) fn not_written(&mut self, error: &Arc<StoreError>, replies: &mut Replies) {
        self.changes.clear();
        self.steps.drain(..).for_each(|step| step.fail(error, replies));
    }
}

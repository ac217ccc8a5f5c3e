//! Queues of due messages: for each route a queue in the order of due times, and a window of deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::Record;

/// Position in a queue: by due time, retries aside, then by order of requests.
type Turn = (DueTime, u64, DurableId);

/// The queue of one route.
#[derive(Debug)]
pub(super) struct RouteQueue {
    waiting: BTreeMap<Turn, Arc<Record>>,
    window: usize,
    /// Records being claimed, or with the handler.
    under_way: usize,
    /// The route has no recipient; the queue stays empty until it has one.
    paused: bool,
}

impl RouteQueue {
    pub(super) const fn new(window: usize) -> Self {
        Self { waiting: BTreeMap::new(), window, under_way: 0, paused: false }
    }

    /// Adds a due record. A paused queue drops it: it becomes due again on resume.
    pub(super) fn join(&mut self, record: Arc<Record>) {
        if self.paused {
            return;
        }
        let turn = (record.progress.nominal, record.sequence, record.id);
        self.waiting.insert(turn, record);
    }

    /// Returns whether the window has room for a waiting record.
    pub(super) fn may_go(&self) -> bool {
        !self.paused && self.under_way < self.window && !self.waiting.is_empty()
    }

    /// Takes the next record if the window has room. It occupies the window until its [return](Self::return_slot).
    pub(super) fn next(&mut self) -> Option<Arc<Record>> {
        if !self.may_go() {
            return None;
        }
        let (_, record) = self.waiting.pop_first()?;
        self.under_way += 1;
        Some(record)
    }

    /// Returns the room of a record that ended or joined again.
    pub(super) const fn return_slot(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Returns whether no record waits or is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0
    }

    /// Pauses the queue and clears it; its records must be reported again. Returns whether it was running.
    pub(super) fn pause(&mut self) -> bool {
        self.waiting.clear();
        !std::mem::replace(&mut self.paused, true)
    }

    /// Resumes the queue. Returns whether it was paused.
    pub(super) const fn resume(&mut self) -> bool {
        std::mem::replace(&mut self.paused, false)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordState;

    fn record(due: u64, sequence: u64, retried_at: u64) -> Arc<Record> {
        let at = |millis| DueTime::from_millis(millis).unwrap_or(DueTime::MAX);
        Arc::new(Record {
            id: DurableId::new(0, at(due)),
            progress: RecordState { due: at(retried_at), ..RecordState::first(at(due)) },
            sequence,
            route: "r".into(),
            message_type: "m".into(),
            message_version: 1,
            key: None,
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: [].into(),
        })
    }

    #[test]
    fn messages_go_in_the_order_in_which_they_were_to_be_due_and_then_of_requests() {
        let mut queue = RouteQueue::new(10);
        for (due, sequence, retried_at) in [(5, 3, 5), (5, 2, 5), (9, 1, 9), (1, 4, 20)] {
            queue.join(record(due, sequence, retried_at));
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|record| record.sequence).collect();
        assert_eq!(order, [4, 2, 3, 1]);
    }

    #[test]
    fn no_more_than_the_window_go_at_a_time() {
        let mut queue = RouteQueue::new(2);
        (0..5).for_each(|n| queue.join(record(n, n, n)));
        assert!(queue.next().is_some() && queue.next().is_some());
        assert!(queue.next().is_none());
        queue.return_slot();
        assert!(queue.next().is_some() && queue.next().is_none());
    }

    #[test]
    fn a_paused_queue_is_empty_and_takes_no_records() {
        let mut queue = RouteQueue::new(2);
        queue.join(record(1, 1, 1));
        assert!(queue.pause() && !queue.pause());
        queue.join(record(2, 2, 2));
        assert!(queue.next().is_none() && queue.is_paused());
        assert!(queue.resume() && !queue.resume());
        assert!(queue.next().is_none());
        queue.join(record(2, 2, 2));
        assert!(queue.next().is_some());
    }
}

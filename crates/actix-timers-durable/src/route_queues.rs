//! What is due and waits for its turn: for each route a queue in the order of due times, and a window of deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::due_time::DueTime;
use super::id::DurableId;
use super::record::Record;

/// Its place in a queue: when the message was to be due by itself, and of those of one millisecond in the order of requests.
type Turn = (DueTime, u64, DurableId);

/// The queue of one route.
#[derive(Debug)]
pub(super) struct RouteQueue {
    waiting: BTreeMap<Turn, Arc<Record>>,
    window: usize,
    /// Being claimed, or with the handler.
    under_way: usize,
    /// Nobody is there to get the messages; the queue stands still, and empty, until somebody is.
    paused: bool,
}

impl RouteQueue {
    pub(super) const fn new(window: usize) -> Self {
        Self { waiting: BTreeMap::new(), window, under_way: 0, paused: false }
    }

    /// A record is due. While the queue stands still nothing joins it: what is due comes again when it goes on.
    pub(super) fn join(&mut self, record: Arc<Record>) {
        if self.paused {
            return;
        }
        let turn = (record.progress.nominal, record.sequence, record.id);
        self.waiting.insert(turn, record);
    }

    /// Whether the next one may go.
    pub(super) fn may_go(&self) -> bool {
        !self.paused && self.under_way < self.window && !self.waiting.is_empty()
    }

    /// The next one goes, if it may. It takes a place in the window until it is [back](Self::return_place).
    pub(super) fn next(&mut self) -> Option<Arc<Record>> {
        if !self.may_go() {
            return None;
        }
        let (_, record) = self.waiting.pop_first()?;
        self.under_way += 1;
        Some(record)
    }

    /// One that went is over, or has joined again.
    pub(super) const fn return_place(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether none waits, and none is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0
    }

    /// Nobody is there. Says whether somebody was; who waited has to be called anew.
    pub(super) fn pause(&mut self) -> bool {
        self.waiting.clear();
        !std::mem::replace(&mut self.paused, true)
    }

    /// Somebody is there again. Says whether the queue stood still.
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
            payload: [].into(),
        })
    }

    #[test]
    fn messages_go_in_the_order_in_which_they_were_to_be_due_and_then_of_requests() {
        let mut line = RouteQueue::new(10);
        for (due, sequence, retried_at) in [(5, 3, 5), (5, 2, 5), (9, 1, 9), (1, 4, 20)] {
            line.join(record(due, sequence, retried_at));
        }
        let order: Vec<u64> = std::iter::from_fn(|| line.next()).map(|record| record.sequence).collect();
        assert_eq!(order, [4, 2, 3, 1]);
    }

    #[test]
    fn no_more_than_the_window_go_at_a_time() {
        let mut line = RouteQueue::new(2);
        (0..5).for_each(|n| line.join(record(n, n, n)));
        assert!(line.next().is_some() && line.next().is_some());
        assert!(line.next().is_none());
        line.return_place();
        assert!(line.next().is_some() && line.next().is_none());
    }

    #[test]
    fn a_line_that_stands_still_is_empty_and_nobody_joins_it() {
        let mut line = RouteQueue::new(2);
        line.join(record(1, 1, 1));
        assert!(line.pause() && !line.pause());
        line.join(record(2, 2, 2));
        assert!(line.next().is_none() && line.is_paused());
        assert!(line.resume() && !line.resume());
        assert!(line.next().is_none());
        line.join(record(2, 2, 2));
        assert!(line.next().is_some());
    }
}

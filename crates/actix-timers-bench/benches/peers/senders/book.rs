//! A record of the deliveries: lateness, and whether each message came once.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use bench::times::quantile;
use tokio::sync::oneshot;

use super::messages::Due;

/// The record, open until all messages have come. A second delivery ends the process.
pub(crate) struct Book {
    expected: usize,
    late: Vec<u64>,
    early: u64,
    seen: Vec<u64>,
    complete: Option<oneshot::Sender<Delivered>>,
}

/// The complete record.
pub(crate) struct Delivered {
    /// Nanoseconds between deadline and handler.
    late: Vec<u64>,
    pub(crate) early: u64,
    /// The time of the last delivery.
    pub(crate) last: Instant,
}

impl Book {
    /// Returns a record for messages numbered from 0, which completes `complete` with the last one.
    pub(crate) fn new(expected: usize, complete: oneshot::Sender<Delivered>) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            expected,
            late: Vec::with_capacity(expected),
            early: 0,
            seen: vec![0; expected.div_ceil(64)],
            complete: Some(complete),
        }))
    }

    pub(crate) fn enter(&mut self, due: Due, now: Instant) {
        let (word, bit) = (due.number as usize / 64, 1 << (due.number % 64));
        assert!(self.seen[word] & bit == 0, "message {} came twice", due.number);
        self.seen[word] |= bit;
        match now.checked_duration_since(due.deadline) {
            Some(late) => self.late.push(late.as_nanos() as u64),
            None => {
                self.early += 1;
                self.late.push(0);
            }
        }
        if self.late.len() == self.expected
            && let Some(complete) = self.complete.take()
        {
            let late = std::mem::take(&mut self.late);
            let _ = complete.send(Delivered { late, early: self.early, last: now });
        }
    }
}

impl Delivered {
    pub(crate) fn count(&self) -> usize {
        self.late.len()
    }

    /// Returns the lateness in milliseconds that this share of the messages did not exceed. Sorts them, which takes a
    /// while: call it after the measurement.
    pub(crate) fn late(&mut self, part: f64) -> f64 {
        quantile(&mut self.late, part) as f64 / 1e6
    }
}

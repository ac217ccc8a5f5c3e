//! Replies that are sent after the commit, and outside of all locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::request::{Answer, Answered, Cancellation, Request, Scheduled};
use crate::store::{BackUp, StoreError};

/// Replies of one turn, pending copies, and durations of commits.
#[derive(Default)]
pub(crate) struct Replies {
    scheduled: Vec<(Answer<Scheduled>, Answered<Scheduled>)>,
    cancelled: Vec<(Answer<Cancellation>, Answered<Cancellation>)>,
    others: Vec<Box<dyn FnOnce() + Send>>,
    copies: Vec<(Answer<()>, BackUp)>,
    failed_copies: Arc<AtomicU64>,
    written: Vec<(usize, Duration)>,
}

impl Replies {
    pub(super) fn schedule(&mut self, answer: Answer<Scheduled>, answered: Answered<Scheduled>) {
        self.scheduled.push((answer, answered));
    }

    pub(super) fn cancel(&mut self, answer: Answer<Cancellation>, answered: Answered<Cancellation>) {
        self.cancelled.push((answer, answered));
    }

    pub(super) fn put<T: Send + 'static>(&mut self, answer: Answer<T>, answered: Answered<T>) {
        self.others.push(Box::new(move || answer.give(answered)));
    }

    pub(super) fn reject(&mut self, request: Request, error: &Arc<StoreError>) {
        let error = Arc::clone(error);
        self.others.push(Box::new(move || request.reject(&error)));
    }

    /// Adds a copy, after which `answer` is sent.
    pub(super) fn copy(&mut self, answer: Answer<()>, copy: BackUp) {
        self.copies.push((answer, copy));
    }

    /// Adds a commit: its number of requests and its duration.
    pub(super) fn wrote(&mut self, requests: usize, took: Duration) {
        self.written.push((requests, took));
    }

    /// Returns the commits since the last call.
    pub(crate) fn take_written(&mut self) -> impl Iterator<Item = (usize, Duration)> {
        self.written.drain(..)
    }

    /// Sets the counter of failed copies.
    pub(crate) fn count_failed_copies(&mut self, there: &Arc<AtomicU64>) {
        self.failed_copies = Arc::clone(there);
    }

    /// Sends all replies. Slow work is passed to `aside`.
    pub(crate) fn send(&mut self, mut aside: impl FnMut(Box<dyn FnOnce() + Send>)) {
        self.scheduled.drain(..).for_each(|(answer, answered)| answer.give(answered));
        self.cancelled.drain(..).for_each(|(answer, answered)| answer.give(answered));
        self.others.drain(..).for_each(|give| give());
        for (answer, copy) in self.copies.drain(..) {
            let failed = Arc::clone(&self.failed_copies);
            aside(Box::new(move || {
                let copied = copy().map_err(Arc::new);
                failed.fetch_add(u64::from(copied.is_err()), Ordering::Relaxed);
                answer.give(copied);
            }));
        }
    }
}

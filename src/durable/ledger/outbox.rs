//! Answers that wait until they may be given: after the commit, and outside of all locks.

use std::sync::Arc;

use super::request::{Answer, Answered, Cancellation, Request, Scheduled};
use crate::durable::store::{BackUp, StoreError};

/// Answers of one turn, and copies that are to be made.
#[derive(Default)]
pub(crate) struct Outbox {
    scheduled: Vec<(Answer<Scheduled>, Answered<Scheduled>)>,
    cancelled: Vec<(Answer<Cancellation>, Answered<Cancellation>)>,
    others: Vec<Box<dyn FnOnce() + Send>>,
    copies: Vec<Box<dyn FnOnce() + Send>>,
}

impl Outbox {
    pub(super) fn schedule(&mut self, answer: Answer<Scheduled>, answered: Answered<Scheduled>) {
        self.scheduled.push((answer, answered));
    }

    pub(super) fn cancel(&mut self, answer: Answer<Cancellation>, answered: Answered<Cancellation>) {
        self.cancelled.push((answer, answered));
    }

    pub(super) fn put<T: Send + 'static>(&mut self, answer: Answer<T>, answered: Answered<T>) {
        self.others.push(Box::new(move || answer.give(answered)));
    }

    pub(super) fn refuse(&mut self, request: Request, error: &Arc<StoreError>) {
        let error = Arc::clone(error);
        self.others.push(Box::new(move || request.refuse(&error)));
    }

    /// A copy is made, and then `answer` given.
    pub(super) fn copy(&mut self, answer: Answer<()>, copy: BackUp) {
        self.copies.push(Box::new(move || answer.give(copy().map_err(Arc::new))));
    }

    /// Gives all answers. What takes long is left to `aside`.
    pub(crate) fn send(&mut self, mut aside: impl FnMut(Box<dyn FnOnce() + Send>)) {
        self.scheduled.drain(..).for_each(|(answer, answered)| answer.give(answered));
        self.cancelled.drain(..).for_each(|(answer, answered)| answer.give(answered));
        self.others.drain(..).for_each(|give| give());
        self.copies.drain(..).for_each(&mut aside);
    }
}

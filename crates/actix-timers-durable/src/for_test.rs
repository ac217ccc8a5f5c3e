//! Messages for tests of handlers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::due_time::DueTime;
use super::ends;
use super::envelope::{Durable, HandlerError, UnderWay};
use super::headers::Headers;
use super::id::DurableId;
use super::message::DurableMessage;
use super::record::RetryPolicy;
use super::store::{Next, Progress, Record};

/// A message for a test of its handler: by default the first attempt of a timer that does not repeat, due when 1970 began,
/// without headers. [`Durable::for_test`] makes it.
#[derive(Debug, Clone)]
#[must_use = "a message does nothing until it is delivered"]
pub struct TestMessage<M> {
    message: M,
    progress: Progress,
    headers: Headers,
    retry: RetryPolicy,
}

/// A record of a delivery that a test has made: of the calls of its handler, and of the end after its answer.
#[derive(Debug)]
pub struct TestDelivery(Arc<UnderWay>);

/// The end of a delivery that a test has made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestEnd {
    /// The timer is complete.
    Complete,
    /// The message comes again at this time: after an error, a snooze, or [`Durable::continue_at`].
    Again(DueTime),
    /// The timer is a dead letter, for this reason.
    DeadLetter(String),
}

impl<M: DurableMessage> Durable<M> {
    /// Makes a message for a test that calls a handler without durable timers.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use actix::prelude::*;
    /// use actix_timers_durable::{DueTime, Durable, DurableMessage, HandlerError, TestEnd};
    ///
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Call { number: u64 }
    /// # impl DurableMessage for Call { const NAME: &'static str = "call"; }
    /// struct Phone;
    /// # impl Actor for Phone { type Context = Context<Self>; }
    ///
    /// impl Handler<Durable<Call>> for Phone {
    ///     type Result = Result<(), HandlerError>;
    ///
    ///     fn handle(&mut self, call: Durable<Call>, _: &mut Self::Context) -> Self::Result {
    ///         if call.attempt < 3 {
    ///             return Err(HandlerError::snooze_for(Duration::from_secs(60)));
    ///         }
    ///         call.note_result("answered");
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # System::new().block_on(async {
    /// let (phone, now) = (Phone.start(), SystemTime::UNIX_EPOCH);
    ///
    /// let (call, first) = Durable::for_test(Call { number: 112 }).deliver();
    /// let answer = phone.send(call).await?;
    /// let in_a_minute = DueTime::at_or_after(now + Duration::from_secs(60))?;
    /// assert_eq!(first.end(answer, now), TestEnd::Again(in_a_minute));
    ///
    /// let (call, third) = Durable::for_test(Call { number: 112 }).attempt(3).deliver();
    /// let answer = phone.send(call).await?;
    /// assert_eq!(third.end(answer, now), TestEnd::Complete);
    /// assert_eq!(third.result().as_deref(), Some("answered"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn for_test(message: M) -> TestMessage<M> {
        let progress = Progress { attempt: 1, used: 1, ..Progress::first(DueTime::MIN) };
        TestMessage { message, progress, headers: Headers::new(), retry: RetryPolicy::default() }
    }
}

impl<M: DurableMessage> TestMessage<M> {
    /// Sets the number of this attempt, from 1. All attempts count for the retry policy.
    pub const fn attempt(mut self, attempt: u32) -> Self {
        (self.progress.attempt, self.progress.used) = (attempt, attempt);
        self
    }

    /// Sets the number of the repetition, from 1.
    pub const fn repetition(mut self, repetition: u64) -> Self {
        self.progress.repetition = repetition;
        self
    }

    /// Sets the due time.
    pub const fn due(mut self, due: DueTime) -> Self {
        (self.progress.due, self.progress.nominal) = (due, due);
        self
    }

    /// Sets the headers.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the retry policy; by default [`RetryPolicy::default`].
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Returns the message for the handler, and the record of its delivery.
    ///
    /// [`Durable::complete_with`] and [`Durable::fail_with`] need a store, and fail: test such a handler with durable timers on a
    /// [`MemoryStore`](super::MemoryStore).
    pub fn deliver(self) -> (Durable<M>, TestDelivery) {
        let Self { message, progress, headers, retry } = self;
        let id = DurableId::new(progress.due);
        let record = Record {
            id,
            progress,
            route: "test".into(),
            message_type: M::NAME.into(),
            message_version: M::VERSION,
            key: None,
            keep_key: None,
            repeat: None,
            max_attempts: None,
            retry: None,
            headers: headers.clone(),
            payload_codec: None,
            payload: [].into(),
        };
        let under_way = Arc::new(UnderWay::new(Arc::new(record), retry, None, Duration::MAX, progress.due, true));
        let Progress { attempt, due, repetition, .. } = progress;
        let delivered = Durable { id, attempt, due, repetition, headers, message, under_way: Arc::clone(&under_way) };
        (delivered, TestDelivery(under_way))
    }
}

impl TestDelivery {
    /// Returns the times by which the handler has [extended](Durable::extend) its time-out.
    pub fn extensions(&self) -> Vec<Duration> {
        self.0.said().extensions.clone()
    }

    /// Returns the result that the handler has [noted](Durable::note_result).
    pub fn result(&self) -> Option<String> {
        self.0.said().result.as_deref().map(str::to_owned)
    }

    /// Tells the handler that it [may give up](Durable::is_cancelled), as a cancel does. Extensions have no effect from now on.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns the end after an answer at this wall-clock time.
    pub fn end(&self, answer: Result<(), HandlerError>, now: impl Into<SystemTime>) -> TestEnd {
        let next = ends::after_delivery(&self.0, &self.0.retry, Ok(answer), now.into());
        match next.split().0 {
            Next::Again(again) => TestEnd::Again(again.due),
            Next::Snooze(due) => TestEnd::Again(*due),
            Next::Dead { reason, .. } => TestEnd::DeadLetter(reason.to_string()),
            _ => TestEnd::Complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Call;

    impl DurableMessage for Call {
        const NAME: &'static str = "call";
    }

    fn at(millis: u64) -> DueTime {
        DueTime::from_millis(millis).unwrap()
    }

    #[test]
    fn a_message_has_the_values_of_its_test() {
        let headers = Headers::of([("tenant", "a")]).unwrap();
        let message = Durable::for_test(Call).attempt(4).repetition(7).due(at(9)).headers(headers);
        let (call, _) = message.deliver();
        assert_eq!((call.attempt, call.repetition, call.due, call.header("tenant")), (4, 7, at(9), Some("a")));
        assert_eq!(call.id.first_due(), at(9));
        let (call, _) = Durable::for_test(Call).deliver();
        assert_eq!((call.attempt, call.repetition, call.due, call.headers.len()), (1, 1, DueTime::MIN, 0));
    }

    #[test]
    fn calls_of_the_handler_are_recorded() {
        let (call, test) = Durable::for_test(Call).deliver();
        assert_eq!((test.result(), test.extensions()), (None, vec![]));
        call.note_result("a");
        call.note_result("b");
        assert_eq!(test.result().as_deref(), Some("b"));
        let [first, second] = [1, 2].map(|secs| call.extend(Duration::from_secs(secs)));
        futures_util::future::FutureExt::now_or_never(async {
            assert!(first.await);
            assert!(!call.is_cancelled());
            test.cancel();
            call.cancelled().await;
            assert!(!second.await && call.is_cancelled());
        })
        .unwrap();
        assert_eq!(test.extensions(), [Duration::from_secs(1)]);
    }

    #[test]
    fn an_end_in_a_transaction_names_the_store_that_it_needs() {
        let (call, test) = Durable::for_test(Call).deliver();
        let ending = call.complete_with(|_| Ok(()));
        let error = futures_util::future::FutureExt::now_or_never(ending).unwrap().unwrap_err();
        assert!(error.to_string().contains("`MemoryStore`"), "{error}");
        assert!(matches!(test.end(Err(error), at(5000)), TestEnd::Again(_)));
    }

    #[test]
    fn the_end_is_that_of_a_timer_with_this_answer() {
        let retry = RetryPolicy::default().jitter_percent(0).max_attempts(3);
        let ends = |attempt, answer: Result<(), HandlerError>| {
            let (call, test) = Durable::for_test(Call).attempt(attempt).retry(retry).deliver();
            assert_eq!(call.attempt, attempt);
            test.end(answer, at(5000))
        };
        assert_eq!(ends(1, Ok(())), TestEnd::Complete);
        assert_eq!(ends(1, Err("no".into())), TestEnd::Again(at(6000)));
        assert_eq!(ends(2, Err("no".into())), TestEnd::Again(at(7000)));
        assert_eq!(ends(3, Err("no".into())), TestEnd::DeadLetter("no".to_owned()));
        assert_eq!(ends(3, Err(HandlerError::snooze_for(Duration::from_secs(1)))), TestEnd::Again(at(6000)));
        assert_eq!(ends(1, Err(HandlerError::permanent("never"))), TestEnd::DeadLetter("never".to_owned()));
        let (call, test) = Durable::for_test(Call).deliver();
        call.continue_at(at(8000));
        assert_eq!(test.end(Ok(()), at(5000)), TestEnd::Again(at(8000)));
        call.end_series();
        assert_eq!(test.end(Ok(()), at(5000)), TestEnd::Complete);
    }
}

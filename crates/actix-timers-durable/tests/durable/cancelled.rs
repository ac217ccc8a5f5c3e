//! Handlers that learn that nothing depends on them any more.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::{CancelOutcome, ManualClock};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableOptions, DurableState, DurableTimers, HandlerError, RouteOptions, Schedule,
};
use tokio::sync::Notify;

use support::durable::{Files, Medium, Note, ROUTE, at, life, ms, on_every_store, quick, run_to};

on_every_store! {
    a_handler_learns_at_once_of_a_cancel_or_replacement
    a_handler_learns_of_its_time_out
    handlers_that_give_up_or_outlast_a_stop_use_no_attempt
}

/// Handlers that wait until they are cancelled. The note 1 gives up then, with an error; others go on.
#[derive(Clone, Default)]
struct Waiting {
    attempts: Arc<Mutex<Vec<(u32, u32)>>>,
    cancelled: Arc<Mutex<Vec<u32>>>,
    goes_on: Arc<Notify>,
}

impl Actor for Waiting {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Waiting {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        self.attempts.lock().unwrap().push((note.0, note.attempt));
        let Self { cancelled, goes_on, .. } = self.clone();
        Box::pin(async move {
            assert!(!note.is_cancelled());
            note.cancelled().await;
            assert!(note.is_cancelled());
            // It is over already.
            note.cancelled().await;
            cancelled.lock().unwrap().push(note.0);
            if note.0 != 1 {
                goes_on.notified().await;
            }
            Err(HandlerError::new("given up"))
        })
    }
}

impl Waiting {
    fn timers(&self, medium: &impl Medium, clock: &ManualClock, attempts: u32) -> DurableTimers {
        let route = RouteOptions::new().retry(quick().max_attempts(attempts));
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        builder.route_with::<Note>(ROUTE, self.clone().start(), route).start().unwrap()
    }

    fn cancelled(&self) -> Vec<u32> {
        self.cancelled.lock().unwrap().clone()
    }

    fn attempts(&self) -> Vec<(u32, u32)> {
        self.attempts.lock().unwrap().clone()
    }
}

fn a_handler_learns_at_once_of_a_cancel_or_replacement(medium: impl Medium) {
    let waiting = Waiting::default();
    life(0, async |clock| {
        let timers = waiting.timers(&medium, &clock, 3);
        let replaces = |note| Schedule::at(ROUTE, at(10), Note(note)).options(DurableOptions::new().replace("k"));
        let first = timers.schedule(Schedule::at(ROUTE, at(10), Note(2))).await.unwrap().id();
        let _ = timers.schedule(replaces(3)).await.unwrap();
        let _ = timers.schedule(Schedule::at(ROUTE, at(10), Note(4))).await.unwrap();
        run_to(&clock, 10).await;
        assert_eq!((waiting.attempts().len(), waiting.cancelled()), (3, vec![]));
        assert_eq!(timers.cancel(first).await.unwrap(), CancelOutcome::InProgress);
        clock.settle().await;
        assert_eq!(waiting.cancelled(), [2]);
        let _ = timers.schedule(replaces(5)).await.unwrap();
        clock.settle().await;
        assert_eq!(waiting.cancelled(), [2, 3]);
    });
}

fn a_handler_learns_of_its_time_out(medium: impl Medium) {
    let waiting = Waiting::default();
    life(0, async |clock| {
        let timers = waiting.timers(&medium, &clock, 1);
        let id = timers.schedule_at(ROUTE, at(10), Note(2)).await.unwrap().id();
        // The time-out of `quick` is a second.
        clock.advance(ms(1009)).await;
        assert!(waiting.cancelled().is_empty());
        clock.advance(ms(1)).await;
        assert_eq!(waiting.cancelled(), [2]);
        assert!(matches!(timers.get(id).await.unwrap().unwrap().state, DurableState::Dead { .. }));
    });
}

fn handlers_that_give_up_or_outlast_a_stop_use_no_attempt(medium: impl Medium) {
    let waiting = Waiting::default();
    for start in 0..3 {
        life(start * 10_000, async |clock| {
            // One attempt: a stop that used it would make dead letters.
            let timers = waiting.timers(&medium, &clock, 1);
            if start == 0 {
                for note in [1, 2] {
                    let _ = timers.schedule_at(ROUTE, at(10), Note(note)).await.unwrap();
                }
            }
            run_to(&clock, start * 10_000 + 10).await;
            assert_eq!(waiting.attempts().len(), 2 * (start as usize + 1));
            let stopping = actix::spawn(async move { timers.stop_within(ms(500)).await });
            clock.settle().await;
            assert_eq!(waiting.cancelled().len(), 2 * (start as usize + 1));
            assert!(!stopping.is_finished());
            clock.advance(ms(500)).await;
            stopping.await.unwrap().unwrap();
        });
    }
    let mut attempts = waiting.attempts();
    attempts.sort_unstable();
    assert_eq!(attempts, [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)], "the numbers rise");
}

//! Handlers that learn that nothing depends on them any more.

use std::cell::RefCell;
use std::rc::Rc;

use actix_timers::{CancelOutcome, ManualClock};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableOptions, DurableState, DurableTimers, HandlerError, RouteOptions, Schedule,
};

use support::durable::{Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, quick, run_to, timers_to};

on_every_store! {
    a_handler_learns_at_once_of_a_cancel_or_replacement
    a_handler_learns_of_the_end_of_the_system
    a_handler_learns_of_its_time_out
    handlers_that_give_up_or_outlast_a_stop_use_no_attempt
}

/// Handlers that wait until they are cancelled. The note 1 gives up then, with an error; others go on.
#[derive(Clone, Default)]
struct Waiting {
    attempts: Rc<RefCell<Vec<(u32, u32)>>>,
    cancelled: Rc<RefCell<Vec<u32>>>,
}

impl Waiting {
    fn timers(&self, medium: &impl Medium, clock: &ManualClock, attempts: u32) -> DurableTimers {
        let options = RouteOptions::new().retry(quick().max_attempts(attempts));
        let Self { attempts, cancelled } = self.clone();
        timers_to(medium, clock, options, async move |note| {
            attempts.borrow_mut().push((note.0, note.attempt));
            assert!(!note.is_cancelled());
            note.cancelled().await;
            assert!(note.is_cancelled());
            // It is over already.
            note.cancelled().await;
            cancelled.borrow_mut().push(note.0);
            if note.0 == 1 { Err(HandlerError::new("given up")) } else { std::future::pending().await }
        })
    }
}

fn a_handler_learns_at_once_of_a_cancel_or_replacement(medium: impl Medium) {
    let waiting = Waiting::default();
    life(0, async |clock| {
        let timers = waiting.timers(&medium, &clock, 3);
        let replaces = |note| Schedule::at(ROUTE, at(10), Note(note)).options(DurableOptions::new().replace("k"));
        let ids = notes(&timers, ROUTE, [(2, 10), (4, 10)]).await;
        let _ = timers.schedule(replaces(3)).await.unwrap();
        run_to(&clock, 10).await;
        assert_eq!((waiting.attempts.borrow().len(), waiting.cancelled.borrow().len()), (3, 0));
        assert_eq!(timers.cancel(ids[0]).await.unwrap(), CancelOutcome::InProgress);
        clock.settle().await;
        assert_eq!(*waiting.cancelled.borrow(), [2]);
        let _ = timers.schedule(replaces(5)).await.unwrap();
        clock.settle().await;
        assert_eq!(*waiting.cancelled.borrow(), [2, 3]);
    });
}

/// The handler may run on, on another arbiter or as a task of another runtime.
fn a_handler_learns_of_the_end_of_the_system(medium: impl Medium) {
    let handled = Rc::<RefCell<Option<Durable<Note>>>>::default();
    life(0, async |clock| {
        let keeps = Rc::clone(&handled);
        let timers = timers_to(&medium, &clock, RouteOptions::new(), async move |note| {
            keeps.replace(Some(note));
            std::future::pending().await
        });
        notes(&timers, ROUTE, [(1, 10)]).await;
        run_to(&clock, 10).await;
        assert!(!handled.borrow().as_ref().unwrap().is_cancelled());
    });
    assert!(handled.take().unwrap().is_cancelled());
}

fn a_handler_learns_of_its_time_out(medium: impl Medium) {
    let waiting = Waiting::default();
    life(0, async |clock| {
        let timers = waiting.timers(&medium, &clock, 1);
        let id = notes(&timers, ROUTE, [(2, 10)]).await[0];
        // The time-out of `quick` is a second.
        clock.advance(ms(1009)).await;
        assert!(waiting.cancelled.borrow().is_empty());
        clock.advance(ms(1)).await;
        assert_eq!(*waiting.cancelled.borrow(), [2]);
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
                notes(&timers, ROUTE, [(1, 10), (2, 10)]).await;
            }
            run_to(&clock, start * 10_000 + 10).await;
            assert_eq!(waiting.attempts.borrow().len(), 2 * (start as usize + 1));
            let stopping = actix::spawn(async move { timers.stop_within(ms(500)).await });
            clock.settle().await;
            assert_eq!(waiting.cancelled.borrow().len(), 2 * (start as usize + 1));
            assert!(!stopping.is_finished());
            clock.advance(ms(500)).await;
            stopping.await.unwrap().unwrap();
        });
    }
    waiting.attempts.borrow_mut().sort_unstable();
    let expected = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)];
    assert_eq!(*waiting.attempts.borrow(), expected, "the numbers rise");
}

//! Time-outs of handlers, extended by the handler.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::ManualClock;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableFilter, DurableState, DurableTimers, HandlerError, RetryPolicy, RouteOptions,
};

use support::durable::{Files, Medium, Note, ROUTE, at, life, millis, ms, on_every_store, quick, run_to};

on_every_store! {
    an_extended_handler_has_its_time_and_no_other_attempt_begins
    an_extension_after_the_time_out_is_refused
    an_extension_of_an_earlier_attempt_is_refused
    an_extension_never_shortens_the_time_out
    after_a_stop_nothing_is_extended
}

/// An actor whose handlers end when the test says so.
#[derive(Clone, Default)]
struct Worker(Arc<Mutex<Vec<Durable<Note>>>>);

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(note);
        Box::pin(std::future::pending())
    }
}

impl Worker {
    /// Starts durable timers with a time-out of one second.
    fn timers(&self, medium: &impl Medium, clock: &ManualClock, retry: RetryPolicy) -> DurableTimers {
        let options = RouteOptions::new().retry(retry);
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        builder.route_with::<Note>(ROUTE, self.clone().start(), options).start().unwrap()
    }

    fn delivered(&self) -> Vec<Durable<Note>> {
        self.0.lock().unwrap().clone()
    }
}

fn an_extended_handler_has_its_time_and_no_other_attempt_begins(medium: impl Medium) {
    let worker = Worker::default();
    life(0, async |clock| {
        let timers = worker.timers(&medium, &clock, quick().max_attempts(1));
        let id = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap().id();
        for time in [900, 1800, 2700] {
            run_to(&clock, time).await;
            assert!(worker.delivered()[0].extend(ms(1000)).await, "at {time}");
        }
        run_to(&clock, 3699).await;
        assert_eq!(timers.get(id).await.unwrap().unwrap().state, DurableState::InFlight);
        run_to(&clock, 3700).await;
        let dead = timers.list(DurableFilter::dead()).await.unwrap().timers;
        let DurableState::Dead { reason, since } = &dead[0].state else { panic!("{:?}", dead[0].state) };
        assert_eq!((&**reason, millis(since.to_system_time())), ("the handler had not ended after 3.69s", 3700));
        assert_eq!(worker.delivered().len(), 1);
    });
}

fn an_extension_after_the_time_out_is_refused(medium: impl Medium) {
    let worker = Worker::default();
    life(0, async |clock| {
        let timers = worker.timers(&medium, &clock, quick().max_attempts(1));
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 1009).await;
        let delivery = worker.delivered().remove(0);
        let in_time = delivery.extend(ms(1));
        assert!(in_time.await, "in the last millisecond");
        run_to(&clock, 1010).await;
        assert!(!delivery.extend(ms(1000)).await);
        assert_eq!(timers.counts().await.unwrap().dead, 1);
    });
}

fn an_extension_of_an_earlier_attempt_is_refused(medium: impl Medium) {
    let worker = Worker::default();
    life(0, async |clock| {
        let timers = worker.timers(&medium, &clock, quick());
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 1110).await;
        let delivered = worker.delivered();
        assert_eq!(delivered.iter().map(|note| note.attempt).collect::<Vec<_>>(), [1, 2]);
        assert!(!delivered[0].extend(ms(60_000)).await);
        assert!(delivered[1].extend(ms(60_000)).await);
        run_to(&clock, 60_000).await;
        assert_eq!(worker.delivered().len(), 2);
    });
}

fn an_extension_never_shortens_the_time_out(medium: impl Medium) {
    let worker = Worker::default();
    life(0, async |clock| {
        let timers = worker.timers(&medium, &clock, quick());
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 10).await;
        let delivery = worker.delivered().remove(0);
        assert!(delivery.extend(ms(1)).await);
        run_to(&clock, 1009).await;
        assert!(delivery.extend(std::time::Duration::MAX).await, "it has no end");
        assert!(delivery.extend(ms(1)).await);
        run_to(&clock, 1_000_000).await;
        assert_eq!(worker.delivered().len(), 1);
        assert!(delivery.extend(ms(1)).await);
    });
}

fn after_a_stop_nothing_is_extended(medium: impl Medium) {
    let worker = Worker::default();
    life(0, async |clock| {
        let timers = worker.timers(&medium, &clock, quick());
        let _ = timers.schedule_at(ROUTE, at(10), Note(1)).await.unwrap();
        run_to(&clock, 10).await;
        let stopping = actix::spawn(async move { timers.stop_within(ms(5)).await });
        run_to(&clock, 20).await;
        stopping.await.unwrap().unwrap();
        assert!(!worker.delivered()[0].extend(ms(1000)).await);
    });
}

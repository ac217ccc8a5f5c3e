//! Headers: texts that travel with a timer to its handler.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::{ManualClock, Repeat};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    Durable, DurableError, DurableFilter, DurableOptions, DurableTimers, HandlerError, HeaderError, Headers,
    RouteOptions, Schedule,
};

use support::durable::{Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_life, quick, run_to};

on_every_store! {
    headers_reach_the_handler_in_every_attempt_and_after_a_crash
    headers_stay_with_every_repetition_and_with_a_dead_letter
    headers_that_are_not_valid_are_rejected_with_the_message
}

/// An actor that notes headers. It fails where the header `fails` says so.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<Vec<(u32, Headers)>>>);

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Reader {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push((note.attempt, note.headers.clone()));
        match note.header("fails") {
            Some("once") if note.attempt == 1 => Err(HandlerError::new("not now")),
            Some("always") => Err(HandlerError::permanent("never")),
            _ => Ok(()),
        }
    }
}

impl Reader {
    fn timers(&self, medium: &impl Medium, clock: &ManualClock) -> DurableTimers {
        DurableTimers::builder(medium.open())
            .clock(clock.clone())
            .route_with::<Note>(ROUTE, self.clone().start(), RouteOptions::new().retry(quick()))
            .start()
            .unwrap()
    }

    fn seen(&self) -> Vec<(u32, Headers)> {
        self.0.lock().unwrap().clone()
    }
}

fn headers_reach_the_handler_in_every_attempt_and_after_a_crash(mut medium: impl Medium) {
    let reader = Reader::default();
    let headers = Headers::of([("traceparent", "00-4bf9-00f0-01"), ("fails", "once")]).unwrap();
    life(0, async |clock| {
        let timers = reader.timers(&medium, &clock);
        let options = DurableOptions::new()
            .header("traceparent", "old")
            .header("fails", "once")
            .header("traceparent", "00-4bf9-00f0-01");
        let id = timers.schedule(Schedule::at(ROUTE, at(1000), Note(1)).options(options)).await.unwrap().id();
        assert_eq!(timers.get(id).await.unwrap().unwrap().headers, headers);
        let _ = timers.schedule_at(ROUTE, at(10), Note(2)).await.unwrap();
        run_to(&clock, 50).await;
        medium.crash();
    });
    life(100, async |clock| {
        let timers = reader.timers(&medium, &clock);
        run_to(&clock, 5000).await;
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
    assert_eq!(reader.seen(), [(1, Headers::new()), (1, headers.clone()), (2, headers)]);
}

fn headers_stay_with_every_repetition_and_with_a_dead_letter(medium: impl Medium) {
    let reader = Reader::default();
    life(0, async |clock| {
        let timers = reader.timers(&medium, &clock);
        let headers = Headers::of([("fails", "always")]).unwrap();
        let repeat = Repeat::every(ms(100)).times(2);
        let options = DurableOptions::new().header("fails", "always");
        let id = timers.schedule(Schedule::at_fixed_rate(ROUTE, repeat, Note(1)).options(options)).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert_eq!(reader.seen(), [(1, headers.clone()), (1, headers.clone())]);
        let dead = timers.list(DurableFilter::dead()).await.unwrap().timers;
        assert_eq!(dead[0].headers, headers);
        assert!(timers.requeue(id).await.unwrap());
        run_to(&clock, 2000).await;
        assert_eq!(reader.seen()[2], (2, headers));
    });
}

fn headers_that_are_not_valid_are_rejected_with_the_message(medium: impl Medium) {
    one_life(&medium, async |_diary, timers, _clock| {
        let rejected = async |options: DurableOptions| {
            let error = timers.schedule(Schedule::after(ROUTE, ms(1), Note(1)).options(options)).await.unwrap_err();
            assert_eq!(error.message, Note(1));
            let DurableError::Header(error) = error.reason else { panic!("{error}") };
            error
        };
        assert_eq!(rejected(DurableOptions::new().header("", "x")).await, HeaderError::Name(String::new()));
        let error = rejected(DurableOptions::new().header("x", "y".repeat(20_000))).await;
        assert_eq!(
            error.to_string(),
            "headers of 20001 bytes are larger than the 16384 that a timer has: keep the rest in its message"
        );
        let many = (0..65).fold(DurableOptions::new(), |options, number| options.header(number.to_string(), ""));
        assert_eq!(rejected(many).await, HeaderError::TooMany(65));
        let most =
            (0..64).fold(DurableOptions::new(), |options, number| options.header(number.to_string(), "v".repeat(254)));
        let _ = timers.schedule(Schedule::after(ROUTE, ms(1), Note(2)).options(most)).await.unwrap();
        assert_eq!(timers.counts().await.unwrap().pending, 1);
    });
}

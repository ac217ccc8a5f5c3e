//! Headers: texts that travel with a timer to its handler.

use std::cell::RefCell;
use std::rc::Rc;

use actix_timers::{ManualClock, Repeat};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DurableError, DurableFilter, DurableOptions, DurableTimers, HandlerError, HeaderError, Headers, RouteOptions,
    Schedule,
};

use support::durable::{Files, Medium, Note, ROUTE, at, life, ms, notes, on_every_store, quick, run_to, timers_to};

on_every_store! {
    headers_reach_the_handler_in_every_attempt_and_after_a_crash
    headers_stay_with_every_repetition_and_with_a_dead_letter
    headers_that_are_not_valid_are_rejected_with_the_message
}

/// Attempts and headers. A handler fails where the header `fails` says so.
#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<(u32, Headers)>>>);

impl Seen {
    fn timers(&self, medium: &impl Medium, clock: &ManualClock) -> DurableTimers {
        let seen = Rc::clone(&self.0);
        timers_to(medium, clock, RouteOptions::new().retry(quick()), async move |note| {
            seen.borrow_mut().push((note.attempt, note.headers.clone()));
            match note.header("fails") {
                Some("once") if note.attempt == 1 => Err(HandlerError::new("not now")),
                Some("always") => Err(HandlerError::permanent("never")),
                _ => Ok(()),
            }
        })
    }
}

fn headers_reach_the_handler_in_every_attempt_and_after_a_crash(mut medium: impl Medium) {
    let seen = Seen::default();
    let headers = Headers::of([("traceparent", "00-4bf9-00f0-01"), ("fails", "once")]).unwrap();
    life(0, async |clock| {
        let timers = seen.timers(&medium, &clock);
        let options = DurableOptions::new()
            .header("traceparent", "old")
            .header("fails", "once")
            .header("traceparent", "00-4bf9-00f0-01");
        let id = timers.schedule(Schedule::at(ROUTE, at(1000), Note(1)).options(options)).await.unwrap().id();
        assert_eq!(timers.get(id).await.unwrap().unwrap().headers, headers);
        notes(&timers, ROUTE, [(2, 10)]).await;
        run_to(&clock, 50).await;
        medium.crash();
    });
    life(100, async |clock| {
        let timers = seen.timers(&medium, &clock);
        run_to(&clock, 5000).await;
        assert_eq!(timers.counts().await.unwrap().pending, 0);
    });
    assert_eq!(*seen.0.borrow(), [(1, Headers::new()), (1, headers.clone()), (2, headers)]);
}

fn headers_stay_with_every_repetition_and_with_a_dead_letter(medium: impl Medium) {
    let seen = Seen::default();
    life(0, async |clock| {
        let timers = seen.timers(&medium, &clock);
        let headers = Headers::of([("fails", "always")]).unwrap();
        let options = DurableOptions::new().header("fails", "always");
        let twice = Schedule::at_fixed_rate(ROUTE, Repeat::every(ms(100)).times(2), Note(1));
        let id = timers.schedule(twice.options(options)).await.unwrap().id();
        run_to(&clock, 1000).await;
        assert_eq!(timers.list(DurableFilter::dead()).await.unwrap().timers[0].headers, headers);
        assert!(timers.requeue(id).await.unwrap());
        run_to(&clock, 2000).await;
        assert_eq!(*seen.0.borrow(), [1, 1, 2].map(|attempt| (attempt, headers.clone())));
    });
}

/// All limits are tested beside [`Headers`].
fn headers_that_are_not_valid_are_rejected_with_the_message(medium: impl Medium) {
    life(0, async |clock| {
        let timers = Seen::default().timers(&medium, &clock);
        let with = |headers: std::ops::Range<u32>, size| {
            let add = |options: DurableOptions, number: u32| options.header(number.to_string(), "v".repeat(size));
            timers.schedule(Schedule::after(ROUTE, ms(1), Note(1)).options(headers.fold(DurableOptions::new(), add)))
        };
        for (headers, size, expected) in
            [(0..65, 0, HeaderError::TooMany(65)), (0..1, 20_000, HeaderError::TooLarge(20_001))]
        {
            let error = with(headers, size).await.unwrap_err();
            assert!(matches!(&error.reason, DurableError::Header(error) if *error == expected), "{error}");
            assert_eq!(error.message, Note(1));
        }
        with(0..64, 254).await.unwrap();
        assert_eq!(timers.counts().await.unwrap().pending, 1);
    });
}

//! Time-outs of handlers, extended by the handler.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix_timers::ManualClock;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{Durable, DurableFilter, DurableState, DurableTimers, RetryPolicy, RouteOptions};

use support::durable::{
    Files, Medium, Note, ROUTE, handled_by, life, millis, ms, notes, on_every_store, quick, run_to, start_counted,
    timers_to,
};

on_every_store! {
    an_extended_handler_has_its_time_and_no_other_attempt_begins
    an_extension_is_refused_after_the_time_out_and_after_a_stop
    an_extension_never_shortens_the_time_out
    alarms_of_different_time_outs_do_not_add_up
}

/// The messages, whose handlers never end.
type Delivered = Rc<RefCell<Vec<Durable<Note>>>>;

/// Schedules a note at 10 ms, whose handler has one second.
async fn start(medium: &impl Medium, clock: &ManualClock, retry: RetryPolicy) -> (DurableTimers, Delivered) {
    let delivered = Delivered::default();
    let keeps = Rc::clone(&delivered);
    let timers = timers_to(medium, clock, RouteOptions::new().retry(retry), async move |note| {
        keeps.borrow_mut().push(note);
        std::future::pending().await
    });
    notes(&timers, ROUTE, [(1, 10)]).await;
    run_to(clock, 10).await;
    (timers, delivered)
}

fn an_extended_handler_has_its_time_and_no_other_attempt_begins(medium: impl Medium) {
    life(0, async |clock| {
        let (timers, delivered) = start(&medium, &clock, quick().max_attempts(1)).await;
        for time in [900, 1800, 2700] {
            run_to(&clock, time).await;
            let extending = delivered.borrow()[0].extend(ms(1000));
            assert!(extending.await, "at {time}");
        }
        run_to(&clock, 3699).await;
        let states = timers.list(DurableFilter::new()).await.unwrap().timers;
        assert_eq!(states[0].state, DurableState::InFlight);
        run_to(&clock, 3700).await;
        let dead = timers.list(DurableFilter::dead()).await.unwrap().timers;
        let DurableState::Dead { reason, since } = &dead[0].state else { panic!("{:?}", dead[0].state) };
        assert_eq!((&**reason, millis(since.to_system_time())), ("the handler had not ended after 3.69s", 3700));
        assert_eq!(delivered.borrow().len(), 1);
    });
}

fn an_extension_is_refused_after_the_time_out_and_after_a_stop(medium: impl Medium) {
    life(0, async |clock| {
        let (timers, delivered) = start(&medium, &clock, quick()).await;
        let extend = |attempt: usize, by| delivered.borrow()[attempt].extend(ms(by));
        run_to(&clock, 1009).await;
        assert!(extend(0, 1).await, "in the last millisecond");
        run_to(&clock, 1010).await;
        assert!(!extend(0, 1000).await);
        run_to(&clock, 1110).await;
        assert!(!extend(0, 60_000).await, "another attempt has begun");
        assert!(extend(1, 60_000).await);
        run_to(&clock, 60_000).await;
        assert_eq!(delivered.borrow().iter().map(|note| note.attempt).collect::<Vec<_>>(), [1, 2]);
        let stopping = actix::spawn(async move { timers.stop_within(ms(5)).await });
        run_to(&clock, 60_010).await;
        stopping.await.unwrap().unwrap();
        assert!(!extend(1, 1000).await);
    });
}

fn an_extension_never_shortens_the_time_out(medium: impl Medium) {
    life(0, async |clock| {
        let (_timers, delivered) = start(&medium, &clock, quick()).await;
        let extend = |by| delivered.borrow()[0].extend(by);
        assert!(extend(ms(1)).await);
        run_to(&clock, 1009).await;
        assert!(extend(Duration::MAX).await, "it has no end");
        assert!(extend(ms(1)).await);
        run_to(&clock, 1_000_000).await;
        assert_eq!(delivered.borrow().len(), 1);
        assert!(extend(ms(1)).await);
    });
}

fn alarms_of_different_time_outs_do_not_add_up(medium: impl Medium) {
    life(0, async |clock| {
        let handler = |time| {
            handled_by::<Note>(async move |_| {
                actix::clock::sleep(ms(time)).await;
                Ok(())
            })
        };
        let options = |time| RouteOptions::new().retry(quick().timeout(ms(time)));
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        let builder =
            builder.route_with("long", handler(150), options(30_000)).route_with("short", handler(20), options(200));
        let (timers, internal) = start_counted(builder);
        for period in 100..110 {
            timers.schedule_at_fixed_rate("long", ms(period), Note(0)).await.unwrap();
        }
        timers.schedule_at_fixed_rate("short", ms(61), Note(1)).await.unwrap();
        let mut most = 0;
        for second in 1..60 {
            run_to(&clock, second * 1000).await;
            most = most.max(internal());
        }
        assert!(most <= 4, "{most} alarms");
    });
}

//! Conformance scenarios of the service as a whole: capacity, stop, and requests that race with the stop.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, Drain, Returned, ScheduleError, TimerActor, TimerActorBuilder, TimerOptions, Timers,
};
use support::{Note, Probe, Way, block, eventually, in_virtual_time, ms, probe_on, with_probe};

fn limit_of_two() -> TimerActorBuilder {
    TimerActor::builder().tick(ms(25)).wheel_size(4).capacity(2)
}

/// Requests over the capacity are rejected and their messages returned; a cancel and a delivery
/// free room at once.
/// Scenario O-43.
#[test]
fn limit_of_two_and_room_after_a_cancel_and_a_delivery() {
    for way in Way::ALL {
        in_virtual_time(limit_of_two, |world| async move {
            let (addr, log) = world.probe();
            world.schedule(way, &addr, ms(5000), "one").await.unwrap();
            let two = world.schedule(way, &addr, ms(5000), "two").await.unwrap();
            let rejected = world.schedule(way, &addr, ms(1), "three").await.unwrap_err();
            assert!(matches!(rejected, ScheduleError::CapacityReached { capacity: 2, .. }), "{rejected:?}");
            assert_eq!(rejected.into_message(), Note("three"));
            assert_eq!(world.pending(), 2);
            assert_eq!(world.timers.snapshot().counters.rejected_capacity, 1);
            assert_eq!(world.cancel(way, &addr, two).await, CancelOutcome::Cancelled);
            world.schedule(way, &addr, ms(90), "four").await.unwrap();
            world.run_to(99).await;
            assert_eq!(log.take(), []);
            world.run_to(100).await;
            assert_eq!(log.take(), [("four", 100)]);
            world.schedule(way, &addr, ms(90), "five").await.unwrap();
            world.run_to(200).await;
            assert_eq!(log.take(), [("five", 200)]);
        });
    }
}

/// A stop returns the remaining timers of all levels, each once, with message and deadline, and no delivered one; then
/// all requests are rejected. Scenario O-44.
#[test]
fn stop_returns_the_remaining_timers() {
    for way in Way::ALL {
        let builder = || TimerActor::builder().wheel_size(4);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            let mut ids = Vec::new();
            for (name, delay) in
                [("a", 5000), ("b", 5000), ("c", 5000), ("d", 5000), ("e", 5000), ("soon", 3), ("late", 500_000)]
            {
                ids.push(world.schedule(way, &addr, ms(delay), name).await.unwrap());
            }
            assert_eq!(world.cancel(way, &addr, ids[1]).await, CancelOutcome::Cancelled);
            world.run_to(1000).await;
            assert_eq!(log.take(), [("soon", 3)]);

            let returned = world.timers.addr().send(Drain::now()).await.unwrap();
            let seen: Vec<_> = returned
                .into_iter()
                .map(|timer| (timer.id, timer.remaining, timer.overdue, timer.into_message::<Note<&str>>().unwrap().0))
                .collect();
            let mut expected: Vec<_> =
                [(0, "a"), (2, "c"), (3, "d"), (4, "e")].map(|(i, name)| (ids[i], ms(4000), false, name)).into();
            expected.push((ids[6], ms(499_000), false, "late"));
            assert_eq!(seen, expected, "{way:?}");
            assert!(world.timers.drain().is_empty());
            assert_eq!(world.timers.snapshot().counters.returned, 5);
            assert_eq!(world.pending(), 0);

            for (id, ..) in seen {
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::NotFound);
            }
            let rejected = world.schedule(way, &addr, ms(1), "rejected").await.unwrap_err();
            assert!(matches!(rejected, ScheduleError::Stopped { message: Note("rejected") }), "{rejected:?}");
            assert_eq!(world.timers.snapshot().counters.rejected_closed, 1);
            world.run_to(1_000_000).await;
            assert_eq!(log.take(), []);
        });
    }
}

/// An actor's own due messages that are not yet handled are returned too, as overdue.
/// Scenario O-44.
#[test]
fn stop_returns_due_messages_in_an_inbox() {
    with_probe(async |world, addr, log| {
        for (name, delay) in [("later", 30), ("first", 10), ("second", 20)] {
            world.schedule(Way::Context, &addr, ms(delay), name).await.unwrap();
        }
        let _unblock = block(&addr).await;
        world.run_to(25).await;
        let returned: Vec<Returned> = world.timers.drain();
        let seen: Vec<_> = returned
            .iter()
            .map(|timer| (timer.message::<Note<&str>>().unwrap().0, timer.remaining, timer.overdue))
            .collect();
        assert_eq!(seen, [("first", ms(0), true), ("second", ms(0), true), ("later", ms(5), false)]);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// One thread schedules without pause while another stops the service, by a message or directly: each accepted message
/// is delivered or returned, and after the first rejection all are rejected.
fn requests_racing_with_a_stop(delay: u64, by_message: bool) {
    support::in_real_time(async {
        let (service, target) = (Arbiter::new(), Arbiter::new());
        let timers = TimerActor::builder().start_on(&service.handle()).unwrap();
        let (addr, log) = probe_on::<u64>(&target, |_, _| ());

        let scheduler = std::thread::spawn({
            let timers = timers.clone();
            move || schedule_until_rejected(&timers, &addr, delay)
        });
        eventually(|| timers.snapshot().counters.accepted >= 1000).await;
        let handed_back = match by_message {
            true => timers.addr().send(Drain::now()).await.unwrap(),
            false => timers.drain(),
        };
        let counters = timers.snapshot().counters;
        // The service's thread makes the deliveries. A stop from another thread can find one message on its way.
        assert!(counters.pending <= u64::from(!by_message), "{counters:?}");
        let delivered = counters.delivered + counters.pending;

        let (accepted, rejected) = scheduler.join().unwrap();
        assert!(accepted < 1_000_000);
        assert_eq!(rejected, 200);
        for arbiter in [service, target] {
            arbiter.stop();
            arbiter.join().unwrap();
        }
        let counters = timers.snapshot().counters;
        assert!(counters.balance());
        assert_eq!((counters.accepted, counters.pending, counters.delivered), (accepted, 0, delivered));
        assert_eq!(counters.returned, handed_back.len() as u64);
        assert_eq!(accepted, delivered + counters.returned);
        assert!(log.len() as u64 <= delivered);
    });
}

/// Schedules until 200 requests are rejected; returns the numbers of accepted and rejected requests.
fn schedule_until_rejected(timers: &Timers, addr: &Addr<Probe<u64>>, delay: u64) -> (u64, u64) {
    let (mut accepted, mut rejected) = (0, 0);
    while accepted < 1_000_000 && rejected < 200 {
        let request = accepted + rejected;
        if accepted > 100_000 {
            // On a busy machine, gives the stop a chance to come before the millionth request.
            std::thread::sleep(Duration::from_micros(100));
        }
        match timers.timer(addr, TimerOptions::new()).try_schedule(ms(delay), Note(request)) {
            Ok(_) => {
                assert_eq!(rejected, 0, "accepted after a rejection");
                accepted += 1;
            }
            Err(ScheduleError::Stopped { message }) => {
                assert_eq!(message, Note(request));
                rejected += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    (accepted, rejected)
}

/// The delay of the scenario, and a stop by a message.
/// Scenario O-45.
#[test]
fn requests_racing_with_stop() {
    requests_racing_with_a_stop(100, true);
}

/// Everything is due at once, so that deliveries race with the stop, too, which comes from another thread.
/// Scenario O-45.
#[test]
fn requests_and_deliveries_racing_with_stop() {
    requests_racing_with_a_stop(0, false);
}

//! Conformance scenarios through the timer actor: cancels, and handlers that cancel or re-arm timers due with them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, Drain, TimerActor, TimerContext, TimerId};
use support::{Log, Note, PATIENCE, Probe, Run, StopWatch, Way, eventually, in_virtual_time, ms, run, with_probe};

/// Scenario O-17.
#[test]
fn cancel_before_twice_and_after() {
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            let a = world.schedule(way, &addr, ms(10_000), "A").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::Cancelled);
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::NotFound);
            for _ in 0..10 {
                let id = world.schedule(way, &addr, ms(1000), "one of ten").await.unwrap();
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            }
            let b = world.schedule(way, &addr, ms(10), "B").await.unwrap();
            world.run_to(10).await;
            assert_eq!(log.take(), [("B", 10)]);
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::AlreadyDelivered);
            assert_eq!(world.cancel(way, &addr, b).await, CancelOutcome::AlreadyDelivered);
            world.run_to(20_000).await;
            assert_eq!(log.take(), []);
            assert_eq!(world.pending(), 0);
        });
    }
}

/// Scenario O-18.
#[test]
fn unknown_ids_and_an_id_whose_storage_was_used_again() {
    for way in [Way::Direct, Way::Message] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(|name, ctx| {
                    if *name == "periodic" {
                        ctx.schedule_after(ms(6000), Note("periodic"));
                    }
                });
            });
            let r = world.schedule(way, &addr, ms(10_000), "R").await.unwrap();
            assert_eq!(world.cancel(way, &addr, TimerId::new()).await, CancelOutcome::NotFound);
            for bit in [0, 7, 40, 61] {
                let guessed = uuid::Uuid::from_u128(r.as_uuid().as_u128() ^ 1 << bit);
                let guessed = TimerId::from_uuid(guessed).unwrap();
                assert_eq!(world.cancel(way, &addr, guessed).await, CancelOutcome::NotFound);
            }

            let a = world.schedule(way, &addr, ms(50), "A").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::Cancelled);
            world.schedule(way, &addr, ms(60), "B").await.unwrap();
            assert_eq!(world.cancel(way, &addr, a).await, CancelOutcome::NotFound);

            for _ in 0..10 {
                world.schedule(way, &addr, ms(6000), "periodic").await.unwrap();
            }
            // These calls are the same for both ways.
            if way == Way::Direct {
                for _ in 0..262_144 {
                    let id = world.timers.schedule_after(&addr, ms(7000), Note("one-shot"));
                    assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
                }
            }
            for _ in 0..30 {
                let id = world.schedule(way, &addr, ms(7000), "one-shot").await.unwrap();
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::NotFound);
            }
            assert_eq!(world.pending(), 12);
            world.run_to(60).await;
            assert_eq!(log.take(), [("B", 60)]);
            world.run_to(10_000).await;
            let mut expected = vec![("periodic", 6000); 10];
            expected.push(("R", 10_000));
            assert_eq!(log.take(), expected);
            assert_eq!(world.pending(), 10);
        });
    }
}

/// A hundred targets, each of which cancels all the other timers: the counters add up for every budget.
/// Scenario O-35.
#[test]
fn each_of_a_hundred_targets_cancels_the_other_99() {
    for budget in [1, 7, 1024] {
        let builder = || TimerActor::builder().wheel_size(64).expiry_budget(budget);
        in_virtual_time(builder, |world| async move {
            let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
            let stopped = Arc::new(AtomicUsize::new(0));
            let mut probes = Vec::new();
            for name in 0..100 {
                let (all, stopped, timers) = (Arc::clone(&ids), Arc::clone(&stopped), world.timers.clone());
                probes.push(world.probe_with(|probe: &mut Probe<usize>| {
                    probe.hook = Box::new(move |name, _| {
                        for (other, id) in all.lock().unwrap().iter().enumerate() {
                            if other != *name && timers.cancel(*id).is_cancelled() {
                                stopped.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    });
                }));
                ids.lock().unwrap().push(world.after(&probes[name].0, 10, name));
            }
            world.run_to(11).await;
            let deliveries: usize = probes.iter().map(|(_, log)| log.len()).sum();
            assert!(deliveries >= 1);
            assert_eq!(deliveries + stopped.load(Ordering::SeqCst), 100);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.delivered, counters.cancelled), (deliveries as u64, 100 - deliveries as u64));
            assert_eq!(world.pending(), 0);
        });
    }
}

/// All hundred belong to one actor: the first of them cancels the other 99, though all of them are due.
/// Scenario O-35.
#[test]
fn the_first_of_a_hundred_cancels_the_other_99() {
    let builder = || TimerActor::builder().wheel_size(64);
    in_virtual_time(builder, |world| async move {
        let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
        let outcomes: Arc<Mutex<Vec<CancelOutcome>>> = Arc::default();
        let (all, answers) = (Arc::clone(&ids), Arc::clone(&outcomes));
        let (addr, log) = world.probe_with(|probe| {
            probe.hook = Box::new(move |_, ctx: &mut Context<Probe<usize>>| {
                answers.lock().unwrap().extend(all.lock().unwrap().iter().map(|id| ctx.cancel_timer(*id)));
            });
        });
        *ids.lock().unwrap() =
            run(&addr, |_, ctx| (0..100).map(|name| ctx.schedule_after(ms(10), Note(name))).collect::<Vec<TimerId>>())
                .await;
        world.run_to(11).await;
        assert_eq!(log.take(), [(0, 10)]);
        let outcomes = outcomes.lock().unwrap();
        assert_eq!(outcomes[0], CancelOutcome::AlreadyDelivered, "the one whose handler runs");
        assert_eq!(outcomes[1..], [CancelOutcome::Cancelled; 99]);
        assert_eq!(world.pending(), 0);
    });
}

/// First L, then B, then L again and again.
/// Scenario O-36.
#[test]
fn re_arming_at_zero_delay_must_not_starve_the_rest() {
    for way in [Way::Direct, Way::Context] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (timers, mut left) = (world.timers.clone(), 1000);
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(move |name, ctx: &mut Context<Probe<&str>>| {
                    if *name == "L" && left > 0 {
                        left -= 1;
                        match way {
                            Way::Context => ctx.schedule_after(Duration::ZERO, Note("L")),
                            _ => timers.schedule_after(ctx.address(), Duration::ZERO, Note("L")),
                        };
                    }
                });
            });
            for (name, delay) in [("L", 10), ("B", 10), ("C", 11)] {
                world.schedule(way, &addr, ms(delay), name).await.unwrap();
            }
            world.run_to(11).await;
            let mut expected = vec![("L", 10), ("B", 10)];
            expected.extend([("L", 10); 1000]);
            expected.push(("C", 11));
            assert_eq!(log.take(), expected, "{way:?}");
        });
    }
}

/// Scenario O-36.
#[test]
fn re_arming_without_end_on_the_real_clock_lets_a_stop_through() {
    support::in_real_time(async {
        let timers = TimerActor::builder().install().unwrap();
        let mut probe = Probe::new(StopWatch::Source(Arc::default()));
        let (rounds, others) = (Arc::new(AtomicUsize::new(0)), Log::default());
        let (round, other) = (Arc::clone(&rounds), others.clone());
        probe.hook = Box::new(move |name: &&str, ctx: &mut Context<Probe<&str>>| match *name {
            "L" => {
                round.fetch_add(1, Ordering::SeqCst);
                ctx.schedule_after(Duration::ZERO, Note("L"));
            }
            name => other.push(name, 0),
        });
        let stopped = Arc::clone(&probe.stopped);
        let addr = probe.start();
        run(&addr, |_, ctx| {
            for (name, delay) in [("L", 10), ("B", 10), ("C", 11)] {
                ctx.schedule_after(ms(delay), Note(name));
            }
        })
        .await;
        eventually(|| others.len() == 2 && rounds.load(Ordering::SeqCst) > 1000).await;
        assert_eq!(others.names(), ["B", "C"]);
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        eventually(|| stopped.load(Ordering::SeqCst)).await;
        let drained =
            tokio::time::timeout(PATIENCE, timers.addr().send(Drain::now())).await.expect("nor is the service starved");
        assert!(drained.unwrap().is_empty(), "its timers ended with the actor");
    });
}

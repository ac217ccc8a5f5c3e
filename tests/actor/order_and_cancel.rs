//! Never early, in order, and exactly cancelled: the guarantees for each single message. Random cancels and moves, by any
//! number of threads, are in the simulation.

use actix::prelude::*;
use actix_timers::{CancelOutcome, RescheduleOutcome, TimerActor, TimerActorBuilder, TimerContext, TimerState};
use support::{Note, Probe, Random, Way, World, block, in_virtual_time, ms, paused, run, with_probe};

/// Returns settings with frequent cascades and short turns, and the defaults.
fn awkward_settings() -> [fn() -> TimerActorBuilder; 4] {
    [
        TimerActor::builder,
        || TimerActor::builder().wheel_size(2).expiry_budget(1),
        || TimerActor::builder().wheel_size(4).expiry_budget(3).tick(ms(7)),
        || TimerActor::builder().wheel_size(8).expiry_budget(10).tick(ms(10)),
    ]
}

const HOUR: u64 = 3_600_000;

/// Random delays, and random steps of time from event to event: each message comes at its own tick, in the order of ticks
/// and within a tick in the order of scheduling, whatever levels and cascades it passed. After jumps they are late, in
/// the same order, and none is early.
/// Scenario O-06.
#[test]
fn messages_come_at_their_tick_and_in_the_order_of_scheduling() {
    for (seed, builder) in awkward_settings().into_iter().enumerate() {
        for (way, jumps) in [Way::Direct, Way::Context].into_iter().flat_map(|way| [(way, false), (way, true)]) {
            in_virtual_time(builder, |world| async move {
                let tick = u64::try_from(world.timers.snapshot().tick.as_millis()).unwrap();
                let mut random = Random::new(seed as u64);
                let (addr, log) = world.probe();
                let mut waiting: Vec<(u64, u64)> = Vec::new();
                for name in 0..400 {
                    let delay = u64::from(jumps) + random.spread(12);
                    world.schedule(way, &addr, ms(delay), name).await.unwrap();
                    let now = world.now();
                    // A message that is already due does not wait for a tick.
                    waiting.push((if delay == 0 { now } else { (now + delay).next_multiple_of(tick) }, name));
                    let to = match name {
                        399 => now + 5000,
                        _ if jumps && name % 30 == 0 => now + random.below(1500),
                        _ if !jumps && random.below(4) == 0 => now + random.below(30),
                        _ => continue,
                    };
                    if jumps {
                        world.jump_to(to).await
                    } else {
                        world.run_to(to).await
                    }
                    waiting.sort_unstable();
                    let later = waiting.split_off(waiting.partition_point(|(due, _)| *due <= to));
                    let expected: Vec<(u64, u64)> =
                        waiting.iter().map(|(due, name)| (*name, if jumps { to } else { *due })).collect();
                    assert_eq!(log.take(), expected, "{way:?}");
                    waiting = later;
                }
                assert_eq!((world.pending(), waiting.len()), (0, 0));
            });
        }
    }
}

/// A message for a target is in the mailbox at its deadline, whatever the target's own timers do. It survives a restart.
#[test]
fn a_message_of_others_does_not_wait_for_due_own_messages() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let mut probe = Probe::new(world.watch.clone());
        probe.hook = Box::new(|name, ctx| {
            if *name == 2 {
                ctx.stop();
            }
        });
        let log = probe.log.clone();
        let addr = Supervisor::start(|_| probe);
        run(&addr, |_, ctx| [2, 4].map(|number| ctx.schedule_after(ms(10), Note(number)))).await;
        let others = [1, 3].map(|number| world.after(&addr, 10, number));
        world.jump_to(10).await;
        assert_eq!(log.names(), [1, 3, 2], "4 ended with its incarnation");
        assert!(others.iter().all(|id| world.timers.cancel(*id) == CancelOutcome::AlreadyDelivered));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (3, 1, 0));
    });
}

/// By any caller, as long as its handler has not run; the others come in order.
/// Scenario O-42.
#[test]
fn an_actors_own_due_message_is_cancelled_exactly() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe();
        let names = ["A", "thread", "B", "arbiter", "message", "other handler", "C"];
        let ids = run(&addr, move |_, ctx| names.map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
        let go = block(&addr).await;
        world.run_to(20).await;
        assert_eq!(log.len(), 0);
        for id in ids {
            let info = world.timers.get(id).unwrap();
            assert_eq!((info.state, info.overdue, info.level), (TimerState::Due, ms(10), None));
        }
        let id = ids[1];
        let from_a_thread = std::thread::spawn(move || actix_timers::cancel(id)).join().unwrap();

        let (id, arbiter) = (ids[3], Arbiter::new());
        let (answer, question) = std::sync::mpsc::channel();
        arbiter.spawn_fn(move || answer.send(actix_timers::cancel(id)).unwrap());
        let from_an_arbiter = question.recv().unwrap();
        arbiter.stop();
        arbiter.join().unwrap();

        let by_message = world.cancel(Way::Message, &addr, ids[4]).await;
        let (other, _log) = world.probe::<u8>();
        let by_another_handler = world.cancel(Way::Context, &other, ids[5]).await;
        assert_eq!([from_a_thread, from_an_arbiter, by_message, by_another_handler], [CancelOutcome::Cancelled; 4]);
        for id in [1, 3, 4, 5] {
            assert_eq!(world.timers.cancel(ids[id]), CancelOutcome::NotFound);
            assert_eq!(world.timers.get(ids[id]), None);
        }
        go.send(()).unwrap();
        world.run_to(1000).await;
        assert_eq!(log.take(), [("A", 20), ("B", 20), ("C", 20)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled), (3, 4));
    });
}

#[test]
fn a_message_in_a_recipients_mailbox_is_delivered() {
    for way in [Way::Direct, Way::Message] {
        with_probe(async |world, addr, log| {
            let id = world.schedule(way, &addr, ms(10), "A").await.unwrap();
            let go = block(&addr).await;
            world.run_to(20).await;
            assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
            assert_eq!(world.timers.reschedule_after(id, ms(10)), RescheduleOutcome::AlreadyDelivered);
            assert_eq!((log.len(), world.pending()), (0, 0));
            go.send(()).unwrap();
            world.run_to(30).await;
            assert_eq!(log.take(), [("A", 20)]);
        });
    }
}

/// Each of several timer actors forwards a query to the owner of the id, whatever kind of id it is.
#[test]
fn a_cancel_finds_the_owner_among_several_timer_actors() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let clock = world.clock().hands.clone();
        let services: Vec<_> = (0..5).map(|_| TimerActor::builder().clock(clock.clone()).start().unwrap()).collect();
        let mut ids = Vec::new();
        for service in &services {
            ids.push(service.schedule_after(&addr, ms(HOUR), Note("N")));
            let request = actix_timers::ScheduleAfter::new(&addr, ms(HOUR), Note("N"));
            ids.push(service.addr().send(request).await.unwrap().unwrap());
        }
        ids.push(world.schedule(Way::Context, &addr, ms(HOUR), "N").await.unwrap());
        for (number, id) in ids.into_iter().enumerate() {
            let [one, other, third] = [0, 1, 2].map(|from| &services[(number + from) % 5]);
            assert_eq!(one.get(id).unwrap().remaining, ms(HOUR));
            assert!(other.reschedule_after(id, ms(2 * HOUR)).is_rescheduled());
            assert_eq!(third.get(id).unwrap().remaining, ms(2 * HOUR));
            let outcome = match number % 3 {
                0 => one.cancel(id),
                1 => other.addr().send(actix_timers::Cancel(id)).await.unwrap(),
                _ => std::thread::spawn(move || actix_timers::cancel(id)).join().unwrap(),
            };
            assert_eq!(outcome, CancelOutcome::Cancelled, "{number}");
        }
        assert_eq!(log.take(), []);
        assert!(services.iter().all(|service| service.snapshot().pending() == 0));
    });
}

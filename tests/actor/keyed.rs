//! Timers with a key: the second timer under a key replaces the first.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::{
    ActorId, CancelKey, CancelOutcome, Repeat, ScheduleAfter, ScheduleBatch, ScheduleError, Target, TimerActor,
    TimerContext, TimerId, TimerKey, TimerOptions, TimerState,
};
use support::{Census, Log, Name, Note, Probe, Recluse, Way, World, block_then, in_virtual_time, ms, run, with_probe};

fn key(key: impl Into<TimerKey>) -> TimerOptions {
    TimerOptions::new().key(key)
}

/// Schedules a note under a key in one of the three ways.
async fn keyed(world: &World, way: Way, addr: &Addr<Probe<u64>>, delay: u64, name: u64) -> TimerId {
    match way {
        Way::Direct => world.timers.timer(addr, key("k")).schedule(ms(delay), Note(name)),
        Way::Message => {
            let request = ScheduleAfter::new(addr, ms(delay), Note(name)).options(key("k"));
            world.timers.addr().send(request).await.unwrap().unwrap()
        }
        Way::Context => run(addr, move |_, ctx| ctx.timer(key("k")).schedule(ms(delay), Note(name))).await,
    }
}

/// Returns the actor's own timer that has the key.
fn own<N: Name>(ctx: &mut Context<Probe<N>>, key: &str) -> Option<TimerId> {
    Some(ctx.actor_timers().get(key)?.id)
}

/// Returns the timer that has the key, queried in one of two ways.
async fn holder(world: &World, way: Way, addr: &Addr<Probe<u64>>) -> Option<TimerId> {
    match way {
        Way::Context => run(addr, |_, ctx| own(ctx, "k")).await,
        _ => world.by_key(addr, "k"),
    }
}

/// It takes the slot of the first: it succeeds at full capacity, and a timer under another key does not.
#[test]
fn the_second_timer_under_a_key_replaces_the_first() {
    for way in Way::ALL {
        let builder = || TimerActor::builder().capacity(1);
        in_virtual_time(builder, async |world| {
            let (addr, log) = world.probe();
            assert_eq!(holder(&world, way, &addr).await, None);
            let first = keyed(&world, way, &addr, 10, 1).await;
            assert_eq!(holder(&world, way, &addr).await, Some(first));
            let full = world.timers.timer(&addr, key("other")).try_schedule(ms(1), Note(7)).unwrap_err();
            assert!(matches!(full, ScheduleError::CapacityReached { capacity: 1, .. }));
            world.run_to(9).await;
            let second = keyed(&world, way, &addr, 10, 2).await;
            assert_eq!(holder(&world, way, &addr).await, Some(second));
            assert_eq!(world.timers.get(second).unwrap().key, Some("k".into()));
            assert_eq!(world.timers.cancel(first), CancelOutcome::NotFound);
            world.run_to(100).await;
            assert_eq!(log.take(), [(2, 19)]);
            assert_eq!(holder(&world, way, &addr).await, None, "the key is free again");
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.accepted, counters.cancelled, counters.delivered), (2, 1, 1));
        });
    }
}

/// The second tick 1 is due while the actor is busy, and is never handled.
/// Scenario O-55.
#[test]
fn a_repeating_timer_is_replaced_while_its_old_message_waits() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| ctx.timer(key("T").group("ticks")).repeat(ms(10), Note("tick 1"))).await;
        world.run_to(11).await;
        assert_eq!(log.take(), [("tick 1", 10)]);
        assert_eq!((world.group_len("ticks"), world.pending()), (1, 1), "labels stay from tick to tick");
        let unblock = block_then(&addr, |ctx| {
            let old = own(ctx, "T").unwrap();
            assert_eq!(actix_timers::get(old).unwrap().state, TimerState::Due);
            ctx.timer(key("T")).repeat(ms(10), Note("tick 2"));
        })
        .await;
        world.run_to(21).await;
        assert_eq!((log.take(), world.pending()), (vec![], 1));
        unblock.send(()).unwrap();
        world.run_to(30).await;
        assert_eq!((log.take(), world.pending()), (vec![], 1));
        world.run_to(31).await;
        assert_eq!((log.take(), world.group_len("ticks")), (vec![("tick 2", 31)], 0));
        assert_eq!(run(&addr, |_, ctx| ctx.cancel_key("T")).await, CancelOutcome::Cancelled);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// A first tick now that has not run is cancelled with its timer. Its successor brings its own: now, if it asks for it.
#[test]
fn a_first_tick_now_is_replaced_by_that_of_the_next_timer() {
    for last in [0, 10] {
        with_probe(async |world, addr, log| {
            for (name, first) in [(1, 0), (2, 0), (3, last)] {
                let every = Repeat::every(ms(10)).first_after(ms(first));
                world.timers.timer(&addr, key("k")).repeat(every, Note(name));
            }
            world.settle().await;
            assert_eq!(log.take(), if last == 0 { vec![(3, 0)] } else { vec![] });
            world.run_to(20).await;
            assert_eq!(log.take(), [(3, 10), (3, 20)]);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.cancelled, counters.pending), (2, 1));
        });
    }
}

#[test]
fn the_handler_of_a_repeating_timer_can_replace_it() {
    for replaces in [true, false] {
        let builder = || TimerActor::builder().capacity(1);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe_with(|probe: &mut Probe<u64>| {
                probe.on_start = Box::new(|ctx| {
                    ctx.timer(key("T")).repeat(ms(10), Note(1));
                });
                probe.hook = Box::new(move |name, ctx| {
                    if *name == 1 && replaces {
                        ctx.timer(key("T")).schedule(ms(15), Note(2));
                    } else if *name == 1 {
                        assert_eq!(ctx.cancel_key("T"), CancelOutcome::Cancelled);
                    }
                });
            });
            world.run_to(100).await;
            assert_eq!(log.take(), if replaces { vec![(1, 10), (2, 25)] } else { vec![(1, 10)] });
            assert_eq!(world.pending(), 0);
            drop(addr);
        });
    }
}

/// The replaced message is freed at once, whatever kind of request replaces it. A drain leaves no key.
#[test]
fn the_message_that_is_replaced_is_freed_at_once() {
    with_probe::<u64>(async |world, addr, _log| {
        let census = Census::default();
        for _ in 0..5 {
            world.timers.timer(&addr, key(1)).schedule(ms(10), census.payload());
            assert_eq!(census.live(), 1);
        }
        let mut batch = ScheduleBatch::new();
        batch.options(key(1));
        (0..200).for_each(|_| _ = batch.after(&addr, ms(10), census.payload()));
        let ids = world.timers.addr().send(batch).await.unwrap();
        assert_eq!((census.live(), world.pending()), (1, 1));
        assert_eq!(world.by_key(&addr, 1), ids.into_iter().next_back().unwrap().ok());
        assert_eq!(world.timers.drain().len(), 1);
        assert_eq!((world.by_key(&addr, 1), census.live()), (None, 0));
    });
}

/// Policy P15: a key belongs to one target, or to one incarnation.
#[test]
fn a_key_is_unique_for_its_owner_only() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ((one, ones), (other, others)) = (world.probe(), world.probe());
        for (way, addr, name) in
            [(Way::Direct, &one, 1), (Way::Context, &one, 2), (Way::Direct, &other, 3), (Way::Context, &other, 4)]
        {
            keyed(&world, way, addr, 10, name).await;
        }
        world.timers.timer(&one, key("another")).schedule(ms(10), Note(5));
        assert_eq!(world.pending(), 5);
        let target = Target::<Note<u64>>::from(&one).strong();
        let same = [ActorId::from(&one), ActorId::from(&one.downgrade()), ActorId::from(&target)];
        for actor in same {
            assert!(world.by_key(actor, "k").is_some());
        }
        assert!(world.by_key(&one.clone().recipient::<Note<u64>>(), "k").is_some());
        assert!(world.by_key(&one.clone().recipient::<Note<u64>>().downgrade(), "k").is_some());
        assert_eq!(world.timers.cancel_key(&one, "k"), CancelOutcome::Cancelled);
        assert_eq!(world.timers.cancel_key(&one, "k"), CancelOutcome::NotFound);
        assert_eq!(run(&other, |_, ctx| ctx.cancel_key("k")).await, CancelOutcome::Cancelled);
        assert_eq!(run(&other, |_, ctx| ctx.cancel_key("k")).await, CancelOutcome::NotFound);
        world.run_to(100).await;
        let mut came = ones.names();
        came.sort_unstable();
        assert_eq!((came, others.names()), (vec![2, 5], vec![3]));
    });
}

/// A message in the mailbox was delivered: it arrives, and its key and its place in the capacity are free.
#[test]
fn a_message_under_way_is_not_replaced_and_arrives() {
    let builder = || TimerActor::builder().capacity(1);
    in_virtual_time(builder, |world| async move {
        let (addr, log) = world.probe();
        let old = keyed(&world, Way::Context, &addr, 10, 1).await;
        let recluse = Recluse::make(addr).await;
        world.settle().await;
        let outcome = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&outcome);
        let unblock = recluse
            .block_then(move |ctx| {
                let new = ctx.timer(key("k")).try_schedule(ms(10), Note(2));
                *answer.lock().unwrap() = Some((new.ok(), own(ctx, "k")));
            })
            .await;
        world.run_to(20).await;
        assert_eq!(world.timers.get(old), None);
        unblock.send(()).unwrap();
        world.run_to(100).await;
        let (new, holder) = outcome.lock().unwrap().take().unwrap();
        assert!(new.is_some());
        assert_eq!(holder, new);
        assert_eq!(log.take(), [(1, 20), (2, 30)]);
        assert_eq!(world.timers.snapshot().counters.cancelled, 0);
        assert_eq!(world.pending(), 0);
    });
}

/// Policy P8: the keys of an incarnation end with it, and the next one has keys of its own.
#[test]
fn keys_end_with_the_incarnation_of_their_actor() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let watch = world.watch.clone();
        let log = Log::default();
        let noted = log.clone();
        let addr = Supervisor::start(move |_| {
            let mut probe: Probe<u64> = Probe::new(watch);
            probe.log = noted;
            probe
        });
        keyed(&world, Way::Context, &addr, 50, 1).await;
        keyed(&world, Way::Direct, &addr, 60, 2).await;
        world.run_to(10).await;
        run(&addr, |_, ctx| ctx.stop()).await;
        world.settle().await;
        assert_eq!(holder(&world, Way::Context, &addr).await, None);
        assert!(holder(&world, Way::Direct, &addr).await.is_some());
        keyed(&world, Way::Context, &addr, 50, 3).await;
        world.run_to(100).await;
        let mut came = log.take();
        came.sort_unstable();
        assert_eq!(came, [(2, 60), (3, 60)]);
        assert_eq!(world.timers.snapshot().counters.cancelled, 1);
    });
}

/// One that is gone when it is named, or later: such targets do not replace each other's timers.
#[test]
fn a_target_that_is_gone_has_no_keys() {
    with_probe(async |world, addr, _log| {
        keyed(&world, Way::Direct, &addr, 5, 1).await;
        let later = addr.downgrade();
        drop(addr);
        world.settle().await;
        let gone = [world.probe::<u64>().0.downgrade(), world.probe::<u64>().0.downgrade()];
        world.settle().await;
        for target in &gone {
            world.timers.timer::<Note<u64>>(target.clone(), key("k")).schedule(ms(5), Note(1));
        }
        for target in gone.iter().chain([&later]) {
            assert!(world.by_key(target, "k").is_none());
            let cancelled = world.timers.addr().send(CancelKey::new(target, "k")).await;
            assert_eq!(cancelled, Ok(CancelOutcome::NotFound));
        }
        world.run_to(10).await;
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 3);
    });
}

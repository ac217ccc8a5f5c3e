//! Unexpected behaviour of actix, threads and users: stale handles, actors without addresses, threads without a system
//! or with two of them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use actix_timers::{TimerActor, TimerContext, Timers};
use support::{Log, Note, Probe, StopWatch, World, eventually, ms, paused, run};

/// Returns a probe that does not know the time, and its log.
fn probe() -> (Probe<u32>, Log<u32>) {
    let probe = Probe::new(StopWatch::Source(Arc::default()));
    let log = probe.log.clone();
    (probe, log)
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// After a restart actix counts spawn handles from one again: an old handle may name the future that is now the inbox.
#[test]
fn a_stale_spawn_handle_takes_no_timers_with_it() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (mut probe, log) = probe();
        let stale = Rc::new(Cell::new(None));
        let first = Rc::clone(&stale);
        probe.on_start = Box::new(move |ctx| match first.get() {
            None => first.set(Some(ctx.run_later(ms(60_000), |_, _| ()))),
            // The inbox has the number of the old incarnation's future, and its spare the next one.
            Some(_) => _ = ctx.schedule_after(ms(10), Note(7)),
        });
        let addr = Supervisor::start(|_| probe);
        run(&addr, |_, ctx| ctx.stop()).await;
        world.settle().await;
        let stale = stale.get().unwrap();
        run(&addr, move |_, ctx| ctx.cancel_future(stale)).await;
        world.run_to(50).await;
        assert_eq!(log.names(), [7]);
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(10), Note(8))).await;
        world.run_to(100).await;
        assert_eq!(log.names(), [8]);
    });
}

/// Two may name both the inbox and its spare.
#[test]
fn stale_spawn_handles_take_no_timers_of_a_restarted_actor_with_them() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (mut probe, log) = probe();
        let mut stale = None;
        probe.on_start = Box::new(move |ctx| match stale.take() {
            None => {
                stale = Some([(); 2].map(|()| ctx.run_later(ms(60_000), |_, _| ())));
                ctx.schedule_after(ms(10), Note(6));
            }
            Some(handles) => {
                ctx.schedule_after(ms(10), Note(7));
                handles.into_iter().for_each(|handle| _ = ctx.cancel_future(handle));
            }
        });
        let addr = Supervisor::start(|_| probe);
        run(&addr, |_, ctx| ctx.stop()).await;
        world.run_to(50).await;
        assert_eq!(log.names(), [7]);
    });
}

/// An actor without addresses, kept alive by its own future, stops when the future ends, as a websocket session does.
#[test]
fn the_timers_of_an_actor_without_addresses_end_soon_after_it() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe_with(|probe: &mut Probe<u32>| {
            probe.on_start = Box::new(|ctx| {
                ctx.schedule_after(ms(3_600_000), Note(1));
                ctx.spawn(actix::fut::wrap_future(tokio::time::sleep(ms(1000))));
            });
        });
        let weak = addr.downgrade();
        drop(addr);
        world.run_to(500).await;
        assert_eq!((weak.upgrade().is_some(), world.pending()), (true, 1));
        world.run_to(1500).await;
        assert!(weak.upgrade().is_none());
        world.run_to(11_500).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((world.pending(), world.timers.snapshot().owners, counters.cancelled), (0, 0, 1));
    });
}

#[test]
fn timers_of_a_stopped_actor_are_freed_under_load() {
    paused(async {
        let world = World::paused(TimerActor::builder().expiry_budget(10));
        let ((busy, _), (ends, _)) = (world.probe(), world.probe());
        run(&ends, |_, ctx| (0..100).for_each(|number| _ = ctx.schedule_after(ms(60_000), Note(number)))).await;
        for _ in 0..50_000 {
            world.after(&busy, 0, 0);
        }
        world.slip_to(5).await;
        run(&ends, |_, ctx| ctx.stop()).await;
        settle().await;
        let counters = world.timers.snapshot().counters;
        assert!(counters.cancelled > 0 && counters.pending > 1000, "{counters:?}");
    });
}

/// Returns the number of the next timer actor of this process.
fn next_number() -> u32 {
    let name = || support::in_real_time(async { TimerActor::builder().start().unwrap().name().to_owned() });
    let name = std::thread::spawn(name).join().unwrap();
    name.trim_start_matches("timers-").parse().unwrap()
}

/// Neither on a thread that never had one, nor after it has ended.
#[test]
fn asking_for_timers_without_a_system_builds_nothing() {
    let before = next_number();
    std::thread::spawn(|| {
        assert!((0..1000).all(|_| Timers::current().is_none()));
        support::in_real_time(async {});
        assert!((0..100).all(|_| Timers::current().is_none()), "its system has ended");
    })
    .join()
    .unwrap();
    assert!(next_number() - before < 500);
}

/// Two sets of local tasks on one thread: the timer actor of the first ends, and an older actor lives on in the second,
/// where another timer actor starts. Owners of the two have the same numbers.
#[test]
fn owners_of_two_timer_actors_on_one_thread_are_told_apart() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (tokio::task::LocalSet::new(), tokio::task::LocalSet::new());
    let _kept = first.block_on(&runtime, async {
        let addr = probe().0.start();
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(5), Note(0))).await;
        addr
    });
    let came = Log::default();
    let named = |name: &'static str| {
        let (mut probe, came) = (probe().0, came.clone());
        probe.hook = Box::new(move |number, _| {
            if *number == 42 {
                came.push(name, 0);
            }
        });
        probe
    };
    let (_others, early) = {
        let (_runtime, _set) = (runtime.enter(), second.enter());
        let others = ["one", "two"].map(|name| {
            let mut probe = named(name);
            probe.on_start = Box::new(|ctx| _ = ctx.schedule_after(ms(10), Note(1)));
            probe.start()
        });
        let early = Probe::create(|ctx| {
            ctx.schedule_after(ms(10), Note(2));
            named("early")
        });
        (others, early)
    };
    drop(first);
    second.block_on(&runtime, async {
        tokio::time::sleep(ms(5)).await;
        run(&early, |_, ctx| _ = ctx.schedule_after(ms(20), Note(42))).await;
        eventually(|| came.len() > 0).await;
    });
    assert_eq!(came.names(), ["early"]);
}

//! The handle to an actor's own timers.

use actix::prelude::*;
use actix_timers::{ActorTimers, CancelOutcome, TimerActor, TimerContext, TimerOptions};
use support::{Note, Probe, in_virtual_time, ms, run, with_probe};

/// Returns the handle of a probe.
async fn handle(addr: &Addr<Probe<u32>>) -> ActorTimers {
    run(addr, |_, ctx| ctx.actor_timers()).await
}

async fn schedule(addr: &Addr<Probe<u32>>, delay: u64, name: u32, options: TimerOptions) {
    run(addr, move |_, ctx| _ = ctx.timer(options).schedule(ms(delay), Note(name))).await;
}

fn key(key: &str) -> TimerOptions {
    TimerOptions::new().key(key)
}

/// Asserts that a handle finds nothing.
fn assert_empty(timers: &ActorTimers) {
    assert!(timers.get("k").is_none());
    assert!(timers.list().is_empty());
    assert_eq!(
        (timers.cancel_key("k"), timers.cancel_group("g"), timers.cancel_all()),
        (CancelOutcome::NotFound, 0, 0)
    );
}

#[test]
fn a_handle_finds_and_cancels_only_the_actors_own_timers() {
    with_probe(async |world, addr, log| {
        let (other, other_log) = world.probe();
        let timers = handle(&addr).await;
        assert_empty(&timers);
        schedule(&other, 30, 100, key("k").group("g")).await;
        world.timers.timer(&addr, key("k").group("g")).schedule(ms(30), Note(101));
        assert_empty(&timers);
        schedule(&addr, 10, 1, key("k")).await;
        schedule(&addr, 20, 2, TimerOptions::new().group("g")).await;
        schedule(&addr, 20, 3, TimerOptions::new()).await;
        schedule(&addr, 40, 4, TimerOptions::new()).await;
        assert_eq!(timers.get("k").map(|info| info.remaining), Some(ms(10)));
        assert_eq!(timers.get("k").as_ref(), timers.list().first());
        assert_eq!(timers.list().len(), 4);
        assert_eq!(timers.cancel_key("k"), CancelOutcome::Cancelled);
        assert_eq!(timers.cancel_group("g"), 1);
        let last = timers.list().pop().unwrap();
        assert_eq!(timers.cancel(last.id), CancelOutcome::Cancelled);
        world.run_to(100).await;
        assert_eq!((log.take(), other_log.take()), (vec![(3, 20), (101, 30)], vec![(100, 30)]));
        schedule(&addr, 10, 5, key("k")).await;
        assert_eq!(timers.cancel_all(), 1);
        assert_empty(&timers);
    });
}

/// The actor's next incarnation has other timers, and the same mailbox.
#[test]
fn a_handle_remains_valid_when_the_actor_is_restarted_until_it_has_stopped() {
    in_virtual_time(TimerActor::builder, async |world| {
        assert_empty(&ActorTimers::default());
        for is_supervised in [true, false] {
            let probe = Probe::new(world.watch.clone());
            let addr = if is_supervised { Supervisor::start(|_| probe) } else { probe.start() };
            let timers = handle(&addr).await;
            schedule(&addr, 10, 1, key("k")).await;
            assert!(timers.get("k").is_some());
            run(&addr, |_, ctx| ctx.stop()).await;
            world.settle().await;
            assert_empty(&timers);
            if is_supervised {
                schedule(&addr, 10, 2, key("k")).await;
                assert!(timers.get("k").is_some());
                continue;
            }
            drop(addr);
            // Its mailbox is not that of a later actor.
            let others: Vec<_> = (0..100).map(|_| world.probe::<u32>().0).collect();
            for other in &others {
                schedule(other, 10, 2, key("k").group("g")).await;
            }
            assert_empty(&timers);
        }
    });
}

#[test]
fn a_handle_finds_nothing_on_another_thread() {
    with_probe(async |_world, addr, _log| {
        let timers = handle(&addr).await;
        schedule(&addr, 10, 1, key("k")).await;
        let elsewhere = timers.clone();
        std::thread::spawn(move || assert_empty(&elsewhere)).join().unwrap();
        assert!(timers.get("k").is_some());
    });
}

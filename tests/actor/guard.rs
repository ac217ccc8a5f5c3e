//! Guards: a timer that is cancelled when a value is dropped.

use actix_timers::{TimerActor, TimerContext};
use support::{Census, Note, World, count_panics, in_virtual_time, ms, panic_on_purpose, paused, run, with_probe};

#[test]
fn a_dropped_guard_cancels_its_timer_and_a_dropped_id_does_not() {
    with_probe(async |world, addr, log| {
        let _ = world.after(&addr, 10, "id");
        let guard = world.after(&addr, 10, "guarded").into_guard();
        let own = run(&addr, |_, ctx| ctx.schedule_after(ms(10), Note("own")).into_guard()).await;
        let kept = world.after(&addr, 10, "kept").into_guard();
        let id = kept.id();
        assert_eq!(kept.keep(), id);
        assert_eq!(world.pending(), 4);
        drop(guard);
        drop(own);
        assert_eq!(world.pending(), 2);
        world.run_to(20).await;
        assert_eq!(log.names(), ["id", "kept"]);
    });
}

#[test]
fn a_guard_can_be_dropped_anywhere_and_after_its_timer() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let (addr, log) = world.probe();
        let delivered = world.after(&addr, 10, 1).into_guard();
        world.run_to(10).await;
        drop(delivered);
        let elsewhere = world.timers.schedule_after(&addr, ms(10), census.payload()).into_guard();
        std::thread::spawn(move || drop(elsewhere)).join().unwrap();
        assert_eq!((census.live(), world.pending()), (0, 0));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, log.len()), (1, 1, 1));
        let outlives = world.after(&addr, 10, 2).into_guard();
        world.timers.drain();
        drop(outlives);
        assert_eq!(world.timers.snapshot().counters.returned, 1);
    });
}

#[test]
fn a_guard_cancels_when_its_holder_panics() {
    count_panics();
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe();
        let guard = world.after(&addr, 10, 1).into_guard();
        let holder = std::thread::spawn(move || {
            count_panics();
            let _guard = guard;
            panic_on_purpose();
        });
        assert!(holder.join().is_err());
        assert_eq!(world.pending(), 0);
    });
}

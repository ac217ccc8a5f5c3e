//! Guards: a timer that is cancelled when a value is dropped.

use actix_timers::TimerContext;
use support::{Census, Note, count_panics, ms, panic_on_purpose, run, with_probe};

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
fn a_guard_can_be_dropped_anywhere_in_a_panic_and_after_its_timer() {
    with_probe(async |world, addr, log| {
        let census = Census::default();
        let delivered = world.after(&addr, 10, 1).into_guard();
        world.run_to(10).await;
        drop(delivered);
        let elsewhere = world.timers.schedule_after(&addr, ms(10), census.payload()).into_guard();
        let holder = std::thread::spawn(move || {
            count_panics();
            let _guard = elsewhere;
            panic_on_purpose();
        });
        assert!(holder.join().is_err());
        assert_eq!((census.live(), world.pending()), (0, 0));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, log.len()), (1, 1, 1));
        let outlives = world.after(&addr, 10, 2).into_guard();
        drop(world.timers.drain());
        drop(outlives);
        assert_eq!(world.timers.snapshot().counters.returned, 1);
    });
}

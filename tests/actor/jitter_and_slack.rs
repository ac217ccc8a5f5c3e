//! Jitter, which spreads deadlines, and slack, which brings them together.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    ScheduleAfter, ScheduleAt, ScheduleBatch, TimerActor, TimerActorBuilder, TimerContext, TimerOptions,
};
use support::{Note, Random, World, in_virtual_time, ms, paused, run, with_probe};

fn seeded() -> TimerActorBuilder {
    TimerActor::builder().jitter_seed(42)
}

fn jitter(span: u64) -> TimerOptions {
    TimerOptions::new().jitter(ms(span))
}

fn slack(most: u64) -> TimerOptions {
    TimerOptions::new().slack(ms(most))
}

/// Every way to schedule with options: never before the deadline, never after the span, and not all at once.
#[test]
fn jitter_spreads_deadlines_and_is_never_early_in_any_way() {
    in_virtual_time(seeded, async |world| {
        let (addr, log) = world.probe::<usize>();
        let (at, service) = (world.wall(50), world.timers.addr());
        for _ in 0..40 {
            world.timers.timer(&addr, jitter(100)).schedule(ms(50), Note(0));
            world.timers.timer(&addr, jitter(100)).schedule(at, Note(1));
            service.do_send(ScheduleAfter::new(&addr, ms(50), Note(2)).options(jitter(100)));
            service.do_send(ScheduleAt::new(&addr, at, Note(3)).options(jitter(100)));
            let mut batch = ScheduleBatch::new();
            batch.after(&addr, ms(50), Note(6)).options(jitter(100)).after(&addr, ms(50), Note(4));
            service.do_send(batch);
            run(&addr, move |_, ctx| {
                ctx.timer(jitter(100)).schedule(ms(50), Note(5));
                ctx.timer(jitter(100)).schedule(at, Note(7));
            })
            .await;
        }
        world.run_to(1000).await;
        let came = log.take();
        assert_eq!(came.len(), 8 * 40);
        for way in 0..8 {
            let mut times: Vec<u64> = came.iter().filter(|(name, _)| *name == way).map(|(_, at)| *at).collect();
            assert!(times.iter().all(|at| (50..=150).contains(at)), "{way}: {times:?}");
            times.dedup();
            // Entries of a batch before the options are without them.
            assert!(if way == 6 { times == [50] } else { times.len() > 20 }, "{way}: {times:?}");
        }
    });
}

async fn deadlines_with(builder: TimerActorBuilder) -> Vec<Duration> {
    let world = World::manual(builder);
    let (addr, _log) = world.probe::<u64>();
    let ids = (0..50).map(|name| world.timers.timer(&addr, jitter(10_000)).schedule(ms(5), Note(name)));
    ids.map(|id| world.timers.get(id).unwrap().remaining).collect()
}

#[test]
fn a_seed_makes_jitter_the_same_in_every_run() {
    let first = paused(deadlines_with(seeded()));
    assert_eq!(first, paused(deadlines_with(seeded())));
    assert_ne!(first, paused(deadlines_with(TimerActor::builder().jitter_seed(43))));
    assert_ne!(first, paused(deadlines_with(TimerActor::builder())));
}

#[test]
fn extreme_jitter_and_slack_saturate() {
    in_virtual_time(seeded, |world| async move {
        let (addr, log) = world.probe::<u64>();
        for span in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for delay in [Duration::ZERO, ms(1), Duration::MAX] {
                let options = TimerOptions::new().jitter(span).slack(span);
                let id = world.timers.timer(&addr, options.clone()).schedule(delay, Note(0));
                assert!(world.timers.get(id).unwrap().remaining >= delay.min(ms(1_000_000)));
                world.timers.timer(&addr, options).schedule(world.wall(0), Note(1));
            }
        }
        world.run_to(100).await;
        assert!(log.len() >= 6);
        assert_eq!(world.pending() as usize, 18 - log.len());
    });
}

/// A thousand timers spread over a second: without slack nearly one wake-up per distinct deadline, with slack a few.
/// Each is delivered within its span.
#[test]
fn slack_brings_wake_ups_together() {
    for (most, wake_ups) in [(0, 400..=1000), (100, 1..=40), (300, 1..=15)] {
        paused(async {
            let world = World::manual(TimerActor::builder());
            let (addr, log) = world.probe::<u64>();
            let mut random = Random::new(5);
            for _ in 0..1000 {
                let delay = 1 + random.below(1000);
                world.timers.timer(&addr, slack(most)).schedule(ms(delay), Note(delay));
            }
            let before = world.clock().rung();
            world.run_to(2000).await;
            let rung = world.clock().rung() - before;
            assert!(wake_ups.contains(&rung), "{rung} wake-ups with a slack of {most} ms");
            let came = log.take();
            assert_eq!(came.len(), 1000);
            for (delay, at) in came {
                assert!((delay..=delay + most).contains(&at), "wanted at {delay}, came at {at}");
            }
        });
    }
}

/// The resulting deadline determines the order; within one tick, the order of scheduling.
#[test]
fn with_slack_the_order_is_that_of_the_resulting_deadlines() {
    with_probe::<&str>(async |world, addr, log| {
        world.timers.timer(&addr, slack(100)).schedule(ms(30), Note("first, at 128"));
        world.after(&addr, 127, "asked for 127");
        world.timers.timer(&addr, slack(20)).schedule(ms(120), Note("second, at 128"));
        world.after(&addr, 128, "asked for 128");
        world.timers.timer(&addr, slack(3)).schedule(ms(129), Note("at 132"));
        world.run_to(1000).await;
        let expected = [
            ("asked for 127", 127),
            ("first, at 128", 128),
            ("second, at 128", 128),
            ("asked for 128", 128),
            ("at 132", 132),
        ];
        assert_eq!(log.take(), expected);
    });
}

/// With coarse ticks, too, no timer is later than its slack allows, apart from the rounding that applies without slack.
#[test]
fn slack_is_not_exceeded_by_rounding() {
    let builder = || TimerActor::builder().tick(ms(10));
    in_virtual_time(builder, |world| async move {
        let (addr, log) = world.probe::<u64>();
        for (delay, most) in [(11, 5), (11, 8), (11, 9), (11, 28), (11, 29), (20, 60), (25, 4)] {
            world.timers.timer(&addr, slack(most)).schedule(ms(delay), Note(most));
        }
        world.run_to(1000).await;
        let expected = [(5, 20), (8, 20), (9, 20), (28, 20), (4, 30), (29, 40), (60, 80)];
        assert_eq!(log.take(), expected);
    });
}

#[test]
fn a_timer_without_its_time_prints_its_options() {
    with_probe::<u64>(async |world, addr, _log| {
        let timer = format!("{:?}", world.timers.timer::<Note<u64>>(&addr, jitter(7)));
        let own = run(&addr, |_, ctx: &mut Context<_>| format!("{:?}", ctx.timer(jitter(7)))).await;
        assert!(timer.contains("7ms") && own.contains("TimerBuilder") && own.contains("7ms"), "{timer} {own}");
    });
}

//! Virtual time for tests: time passes from event to event, and `advance` returns when everything is handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{CancelOutcome, ManualClock, Target, TimerActor, TimerContext, Timers, testing};
use support::{Log, Note, PATIENCE, Probe, StopWatch, WatchedClock, World, ms, paused, run};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns a manual clock with a timer actor of this arbiter on it, and a probe.
fn manual() -> (ManualClock, Timers, Addr<Probe<u32>>, Log<u32>) {
    let clock = WatchedClock::new();
    let timers = TimerActor::builder().clock(clock.hands.clone()).install().unwrap();
    let probe = Probe::new(StopWatch::Manual(clock.clone()));
    let log = probe.log.clone();
    (clock.hands, timers, probe.start(), log)
}

async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

const fn sendable<F: Send>(future: F) -> F {
    future
}

/// Polls a future only when it was woken itself, as `FuturesUnordered` does.
async fn only_when_woken(future: impl Future) {
    struct Flag(AtomicBool, futures_util::task::AtomicWaker);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
            self.1.wake();
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(true), Default::default()));
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        flag.1.register(cx.waker());
        match flag.0.swap(false, Ordering::SeqCst) {
            true => future.as_mut().poll(&mut Context::from_waker(&Arc::clone(&flag).into())).map(drop),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Starts a chain of `length` actors to the probe, each of which takes two turns, and returns the first.
fn chain(probe: Addr<Probe<u32>>, length: usize, watch: &StopWatch) -> Addr<Probe<u32>> {
    (0..length).fold(probe, |next, _| {
        let mut link = Probe::new(watch.clone());
        link.hook = Box::new(move |name, ctx| {
            let (next, name) = (next.clone(), *name);
            ctx.spawn(actix::fut::wrap_future(async move {
                yields(2).await;
                next.do_send(Note(name));
            }));
        });
        link.start()
    })
}

/// Runs a test in both kinds of virtual time; a manual clock is one in real time.
fn in_both(test: impl AsyncFn(World)) {
    paused(async { test(World::paused(TimerActor::builder())).await });
    support::in_real_time(async { test(World::manual(TimerActor::builder())).await });
}

/// Lets time pass as users do.
async fn advance(world: &World, by: Duration) {
    match &world.watch {
        StopWatch::Manual(clock) => clock.hands.advance(by).await,
        _ => testing::advance(by).await,
    }
}

/// Scenario O-57.
#[test]
fn a_message_is_there_at_its_time_and_not_before_it_and_once() {
    in_both(async |world| {
        let (addr, log) = world.probe();
        world.after(&addr, 10, 1);
        advance(&world, ms(9)).await;
        assert_eq!(log.take(), []);
        advance(&world, ms(2)).await;
        assert_eq!(log.take(), [(1, 10)], "the handler saw the time at which it was due");
        advance(&world, ms(10_000)).await;
        assert_eq!(log.take(), []);
        world.after(&addr, 10, 2);
        // The caller does not have to know the steps that come first.
        world.timers.addr().do_send(actix_timers::ScheduleAfter::new(&addr, ms(10), Note(3)));
        advance(&world, ms(10)).await;
        assert_eq!(log.names(), [2, 3]);
    });
}

/// However many steps they take.
#[test]
fn tasks_of_a_handler_end_before_time_passes() {
    in_both(async |world| {
        let (last, log) = world.probe();
        let to = last.clone();
        let (addr, _) = world.probe_with(|probe| {
            probe.hook = Box::new(move |name, ctx| {
                let (first, second, name) = (to.clone(), to.clone(), *name);
                ctx.spawn(actix::fut::wrap_future(async move {
                    yields(300).await;
                    first.do_send(Note(name));
                    let there = actix::spawn(yields(300));
                    there.await.unwrap();
                    first.do_send(Note(name));
                }));
                // A task beside the actors.
                tokio::spawn(async move {
                    yields(40).await;
                    second.do_send(Note(name));
                });
            });
        });
        for name in 1..=3_u32 {
            world.after(&addr, 10 * u64::from(name), name);
        }
        advance(&world, ms(30)).await;
        let mut notes = log.take();
        notes.sort_unstable();
        assert_eq!(notes, [(1, 10), (1, 10), (1, 10), (2, 20), (2, 20), (2, 20), (3, 30), (3, 30), (3, 30)]);
    });
}

#[test]
fn a_message_for_a_busy_actor_stays_due_and_time_goes_on() {
    in_both(async |world| {
        let (addr, log) = world.probe::<u32>();
        let id = run(&addr, |_, ctx| {
            ctx.wait(actix::fut::wrap_future(std::future::pending::<()>()));
            ctx.schedule_after(ms(10), Note(1))
        })
        .await;
        advance(&world, ms(1000)).await;
        assert_eq!((world.now(), log.len()), (1000, 0));
        assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
    });
}

/// The example of the testing guide.
#[test]
fn a_clock_paused_within_a_millisecond_shifts_no_grid() {
    paused(async {
        tokio::time::advance(Duration::from_micros(500)).await;
        let world = World::paused(TimerActor::builder());
        let (addr, log) = world.probe();
        world.timers.schedule_at_fixed_rate(&addr, ms(10), Note(0));
        for _ in 0..11 {
            testing::advance(ms(10)).await;
        }
        assert_eq!(world.now(), 121);
        assert_eq!(log.take(), (1..=12).map(|tick| (0, 10 * tick + 1)).collect::<Vec<_>>());
    });
}

/// It detects whether a task is ready from its own polls, and so must notice that they do not show it: inside a spawned
/// task, and inside a set of futures that polls only woken ones.
#[test]
fn a_chain_of_actors_is_at_its_end_wherever_advance_is_awaited() {
    support::in_real_time(async {
        let (clock, timers, addr, log) = manual();
        let first = chain(addr, 20, &StopWatch::Manual(WatchedClock::on(clock.clone())));
        let ten = || {
            let now = u64::try_from(clock.now().as_millis()).unwrap();
            for name in 1..=10 {
                timers.schedule_after(&first, ms(u64::from(name)), Note(name));
            }
            (1..=10).map(|name| (name, now + u64::from(name))).collect::<Vec<_>>()
        };
        let expected = ten();
        let there = clock.clone();
        actix::spawn(async move { there.advance(ms(10)).await }).await.unwrap();
        assert_eq!(log.take(), expected);

        let expected = ten();
        only_when_woken(sendable(clock.advance(ms(10)))).await;
        assert_eq!(log.take(), expected);

        let expected = ten();
        futures_util::future::join(clock.advance(ms(10)), yields(1000)).await;
        assert_eq!(log.take(), expected);
    });
}

/// The next message depends on a handler on another thread, which takes its time.
#[test]
fn a_handler_on_another_arbiter_returns_before_time_passes() {
    support::in_real_time(async {
        let (clock, arbiter) = (WatchedClock::new(), Arbiter::new());
        let (there, started) = (clock.clone(), tokio::sync::oneshot::channel());
        arbiter.spawn_fn(move || {
            TimerActor::builder().clock(there.hands.clone()).install().unwrap();
            let mut probe = Probe::new(StopWatch::Manual(there));
            probe.hook = Box::new(|name: &u32, ctx| {
                // Keeps the handler busy while the test could let time pass. It passes with any duration, also none.
                std::thread::sleep(ms(2));
                ctx.schedule_after(ms(10), Note(name + 1));
            });
            probe.on_start = Box::new(|ctx| {
                ctx.schedule_after(ms(10), Note(1));
            });
            let log = probe.log.clone();
            started.0.send((probe.start(), log)).ok().unwrap();
        });
        let (addr, log) = started.1.await.unwrap();
        run(&addr, |_, _| ()).await;
        clock.hands.advance(ms(200)).await;
        assert_eq!(log.take(), (1..=20).map(|name| (name, 10 * u64::from(name))).collect::<Vec<_>>());
        arbiter.stop();
    });
}

#[test]
fn advance_does_not_wait_for_unknown_handling_within_a_window() {
    support::in_real_time(async {
        let clock = WatchedClock::new();
        let arbiter = Arbiter::new();
        let there = TimerActor::builder().clock(clock.hands.clone()).start_on(&arbiter.handle()).unwrap();
        let probe = Probe::new(StopWatch::Manual(clock.clone()));
        let log = probe.log.clone();
        let here = probe.start();
        for name in 0..3 {
            there.schedule_after(Target::from(&here).window(3), ms(1), Note(name));
        }
        for name in 3..60 {
            there.schedule_after(&here, ms(10 + u64::from(name)), Note(name));
        }
        // Each step would take a second if it did.
        tokio::time::timeout(PATIENCE, clock.hands.advance(ms(100))).await.expect("time passes");
        assert_eq!(log.names(), (0..60_u32).collect::<Vec<_>>());
        arbiter.stop();
    });
}

#[test]
fn a_step_of_the_wall_clock_is_followed_at_once() {
    support::in_real_time(async {
        let (clock, timers, addr, log) = manual();
        timers.schedule_at(&addr, SystemTime::UNIX_EPOCH + DAY, Note(1));
        clock.advance(ms(1)).await;
        clock.set_wall(SystemTime::UNIX_EPOCH + DAY);
        clock.settle().await;
        assert_eq!(log.take(), [(1, 1)]);
        timers.schedule_at(&addr, SystemTime::UNIX_EPOCH + DAY * 2, Note(2));
        clock.settle().await;
        clock.set_wall(SystemTime::UNIX_EPOCH);
        clock.advance(DAY * 2 - ms(1)).await;
        assert_eq!(log.len(), 0);
        clock.advance(ms(1)).await;
        assert_eq!(log.names(), [2]);
    });
}

#[test]
fn time_stands_still_unless_it_is_moved_and_has_an_end() {
    support::in_real_time(async {
        let (clock, timers, addr, log) = manual();
        timers.schedule_after(&addr, ms(1), Note(1));
        clock.settle().await;
        assert_eq!((actix_timers::Clock::now(&clock), log.len()), (Duration::ZERO, 0));
        timers.schedule_after(&addr, Duration::MAX, Note(2));
        clock.advance(Duration::MAX).await;
        clock.advance(Duration::MAX).await;
        assert_eq!(log.names()[0], 1);
    });
}

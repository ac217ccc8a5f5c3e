//! Delays count from the creation of a request, on every clock: for requests that wait in a mailbox, and requests older
//! than the clock itself.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    Clock, ManualClock, Repeat, RequestTime, Reschedule, RescheduleOutcome, ScheduleAfter, ScheduleAtFixedRate,
    ScheduleBatch, ScheduleWithFixedDelay, TimerActor, TimerOptions,
};
use support::{Log, Note, Probe, StopWatch, World, idle, ms, paused, with_probe};
use tokio::time::{Instant, advance};

/// The kinds of requests that carry a delay.
#[derive(Debug, Clone, Copy)]
enum Kind {
    After,
    AfterWithOptions,
    FixedRate,
    FixedDelay,
    Batch,
    BatchWithOptions,
}

type Send = Box<dyn FnOnce(&Addr<TimerActor>)>;

impl Kind {
    const ALL: [Self; 6] =
        [Self::After, Self::AfterWithOptions, Self::FixedRate, Self::FixedDelay, Self::Batch, Self::BatchWithOptions];

    /// Makes a request now and returns a function that sends it later.
    fn make(self, addr: &Addr<Probe<u64>>, delay: Duration, name: u64) -> Send {
        let options = TimerOptions::new().group("g");
        let once = Repeat::every(ms(1)).first_after(delay).times(1);
        let after = || ScheduleAfter::new(addr, delay, Note(name));
        let mut batch = ScheduleBatch::new();
        match self {
            Self::After => sending(after()),
            Self::AfterWithOptions => sending(after().options(options)),
            Self::FixedRate => sending(ScheduleAtFixedRate::new(addr, once, Note(name))),
            Self::FixedDelay => sending(ScheduleWithFixedDelay::new(addr, once, Note(name))),
            Self::Batch => {
                batch.after(addr, delay, Note(name));
                sending(batch)
            }
            Self::BatchWithOptions => {
                batch.options(options).after(addr, delay, Note(name));
                sending(batch)
            }
        }
    }
}

fn sending<M>(request: M) -> Send
where
    M: Message<Result: std::marker::Send> + std::marker::Send + 'static,
    TimerActor: Handler<M>,
{
    Box::new(move |timers| timers.do_send(request))
}

fn probe(watch: StopWatch) -> (Addr<Probe<u64>>, Log<u64>) {
    let probe = Probe::new(watch);
    let log = probe.log.clone();
    (probe.start(), log)
}

/// Advances tokio's virtual time to `millis` after `start`.
async fn run_to(start: Instant, millis: u64) {
    tokio::time::sleep_until(start + ms(millis)).await;
    idle().await;
}

/// 300 ms pass before the timer actor, and its clock with it, starts.
#[test]
fn a_request_older_than_its_clock_is_due_when_its_delay_is_over() {
    for kind in Kind::ALL {
        for (delay, expected) in [(0, 300), (1, 300), (100, 300), (299, 300), (300, 300), (301, 301), (500, 500)] {
            paused(async {
                let start = Instant::now();
                let (addr, log) = probe(StopWatch::Paused(start));
                let send = kind.make(&addr, ms(delay), delay);
                advance(ms(300)).await;
                let timers = TimerActor::builder().start().unwrap();
                send(timers.addr());
                run_to(start, 2000).await;
                assert_eq!(log.take(), [(delay, expected)], "{kind:?}");
            });
        }
    }
}

/// A clock that is set to any values.
struct Odd {
    now: Duration,
    since: Duration,
}

impl Clock for Odd {
    fn now(&self) -> Duration {
        self.now
    }

    fn wall(&self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH
    }

    fn since(&self, _: RequestTime) -> Duration {
        self.since
    }

    fn alarm(&self, _: Duration) -> actix_timers::Alarm {
        Box::pin(std::future::pending())
    }
}

/// The deadline is `now + delay - waited`, whichever of the three is the largest.
#[test]
fn every_age_of_a_request_gives_its_exact_deadline() {
    let times = [0, 1, 299, 300, 301, 1 << 40];
    let times: Vec<Duration> = times.into_iter().map(ms).chain([Duration::MAX]).collect();
    paused(async {
        let (addr, _log) = probe(StopWatch::Source(Default::default()));
        let target = actix_timers::Target::from(&addr).strong();
        for now in times.iter().copied() {
            for since in times.iter().copied() {
                let timers = TimerActor::builder().clock(Odd { now, since }).start().unwrap();
                for delay in times.iter().copied() {
                    let request = ScheduleAfter::new(&target, delay, Note(1));
                    let every = Repeat::every(ms(7)).first_after(delay).times(1);
                    let periodic = ScheduleAtFixedRate::new(&target, every, Note(2));
                    let ids = [request.id(), periodic.id()];
                    timers.addr().do_send(request);
                    timers.addr().do_send(periodic);
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    let signed = |time: Duration| i128::try_from(time.as_nanos()).unwrap();
                    let left = signed(delay) - signed(since);
                    for id in ids {
                        let info = timers.get(id);
                        if left <= 0 && (delay != Duration::MAX || since == Duration::MAX) {
                            assert!(info.is_none_or(|info| info.remaining.is_zero()), "{now:?} {since:?} {delay:?}");
                        } else if now < ms(1 << 41) && delay < ms(1 << 41) {
                            let info = info.unwrap_or_else(|| panic!("gone: {now:?} {since:?} {delay:?}"));
                            let remaining = signed(info.remaining);
                            assert_eq!(remaining, left, "{now:?} {since:?} {delay:?}");
                        } else if now != Duration::MAX {
                            assert!(info.is_some_and(|info| info.remaining > ms(0)), "{now:?} {since:?} {delay:?}");
                        }
                    }
                }
            }
        }
    });
}

/// It waits before it is sent, and in the mailbox.
/// Scenario O-03.
#[test]
fn a_queued_request_counts_from_its_making() {
    for kind in Kind::ALL {
        for (delay, expected) in [(0, 250), (1, 250), (199, 250), (200, 250), (201, 251), (300, 350)] {
            with_probe(async |world, addr, log| {
                world.run_to(50).await;
                let send = kind.make(&addr, ms(delay), delay);
                world.slip_to(170).await;
                send(world.timers.addr());
                world.slip_to(250).await;
                world.run_to(500).await;
                assert_eq!(log.take(), [(delay, expected)], "{kind:?}");
            });
        }
    }
}

#[test]
fn a_queued_grid_begins_with_its_request_on_a_manual_clock() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        world.run_to(10).await;
        let request = ScheduleAtFixedRate::new(&addr, ms(100), Note(0));
        world.slip_to(47).await;
        world.timers.addr().do_send(request);
        world.run_to(350).await;
        assert_eq!(log.take(), [(0, 110), (0, 210), (0, 310)]);
    });
}

/// Scenario O-03.
#[test]
fn a_queued_reschedule_counts_from_its_making() {
    with_probe(async |world, addr, log| {
        let id = world.after(&addr, 10_000, 7);
        world.run_to(20).await;
        let request = Reschedule::after(id, ms(100));
        world.slip_to(50).await;
        world.timers.addr().do_send(request);
        world.run_to(300).await;
        assert_eq!(log.take(), [(7, 120)]);
    });
}

/// The timer actor that handles the request need not own the timer.
#[test]
fn a_queued_move_of_a_timer_elsewhere_counts_on_its_clock() {
    for (here, there) in [(50, 0), (0, 50), (30, 50), (3_600_000, 1)] {
        support::in_real_time(async {
            let (addr, _log) = probe(StopWatch::Source(Default::default()));
            let clocks = [ManualClock::new(), ManualClock::new()];
            let asked = TimerActor::builder().clock(clocks[0].clone()).install().unwrap();
            let owner = TimerActor::builder().clock(clocks[1].clone()).start().unwrap();
            let id = owner.schedule_after(&addr, ms(10_000), Note(7));
            clocks.iter().for_each(|clock| clock.jump(ms(1000)));
            let request = Reschedule::after(id, ms(100));
            clocks[0].jump(ms(here));
            clocks[1].jump(ms(there));
            assert_eq!(asked.addr().send(request).await.unwrap(), RescheduleOutcome::Rescheduled);
            assert_eq!(owner.get(id).unwrap().remaining, ms(100 - there), "{here} ms here, {there} ms there");
        });
    }
}

#[test]
fn a_request_of_another_thread_counts_from_the_step_before() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        world.slip_to(10).await;
        let make = || ScheduleAfter::new(&addr, ms(100), Note(1));
        let request = std::thread::scope(|scope| scope.spawn(make).join().unwrap());
        world.slip_to(30).await;
        world.timers.addr().do_send(request);
        world.run_to(300).await;
        assert_eq!(log.take(), [(1, 110)]);
    });
}

/// A clock remembers a bounded number of its steps. An older request counts from the oldest remembered step.
#[test]
fn a_request_older_than_all_remembered_steps_is_not_early() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let old = ScheduleAfter::new(&addr, ms(100_000), Note(1));
        for millis in 1..=70_000 {
            drop(ScheduleAfter::new(&addr, ms(1), Note(0)));
            world.clock().hands.jump(ms(1));
            if millis == 60_000 {
                // No step is forgotten yet.
                world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(40_000), Note(2)));
            }
        }
        world.timers.addr().do_send(old);
        world.run_to(200_000).await;
        assert_eq!(log.take(), [(2, 100_000), (1, 100_000 + 70_000 - (1 << 16))]);
    });
}

/// Runs `make` on its own thread, in a runtime with a paused clock.
fn elsewhere_paused<T: std::marker::Send>(make: impl FnOnce() -> T + std::marker::Send) -> T {
    let run = || System::with_tokio_rt(support::paused_runtime).block_on(async { make() });
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn elsewhere<T: std::marker::Send>(make: impl FnOnce() -> T + std::marker::Send) -> T {
    std::thread::scope(|scope| scope.spawn(make).join().unwrap())
}

/// Their instants cannot be compared: the paused clock is 10 s ahead of the other.
#[test]
fn a_request_of_another_time_counts_from_its_handling() {
    for made_paused in [false, true] {
        paused(async {
            let start = Instant::now();
            let (addr, log) = probe(StopWatch::Paused(start));
            let timers = TimerActor::builder().start().unwrap();
            advance(ms(10_000)).await;
            let make = || {
                let after = ScheduleAfter::new(&addr, ms(100), Note(1));
                let every = ScheduleAtFixedRate::new(&addr, Repeat::every(ms(100)).times(2), Note(2));
                (after, every)
            };
            let (after, every) = if made_paused { elsewhere_paused(make) } else { elsewhere(make) };
            timers.addr().do_send(after);
            timers.addr().do_send(every);
            run_to(start, 20_000).await;
            assert_eq!(log.take(), [(1, 10_100), (2, 10_100), (2, 10_200)], "{made_paused}");
        });
    }
}

#[test]
fn a_request_of_any_runtime_counts_from_its_making_in_real_time() {
    support::in_real_time(async {
        let (addr, _log) = probe(StopWatch::Source(Default::default()));
        let timers = TimerActor::builder().start().unwrap();
        let make = || ScheduleAfter::new(&addr, ms(10_000), Note(1));
        let in_another_runtime = || support::in_real_time(async { make() });
        let requests = [make(), elsewhere(make), elsewhere(in_another_runtime), elsewhere_paused(make)];
        // Real time is the subject; a longer pause works, too.
        std::thread::sleep(ms(20));
        for request in requests {
            let id = request.id();
            timers.addr().do_send(request);
            idle().await;
            let remaining = timers.get(id).unwrap().remaining;
            assert!(remaining <= ms(9_981), "{remaining:?}");
        }
    });
}

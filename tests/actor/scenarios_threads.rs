//! Conformance scenarios on the real clock and several threads: waking a sleeping service, a blocked target, cancels that
//! race with deliveries and with the insert, and never early.
//!
//! The machine may be arbitrarily slow: the only upper bound is [`PATIENCE`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{
    Cancel, CancelOutcome, ScheduleAfter, ScheduleError, Target, TimerActor, TimerActorBuilder, TimerId, TimerOptions,
    Timers,
};
use support::{Note, PATIENCE, Probe, Random, StopWatch, eventually, ms, probe_on};

/// A message with the earliest time of its delivery.
struct Due {
    index: usize,
    not_before: Instant,
}

impl Message for Due {
    type Result = ();
}

/// Counts arrivals per timer, and early ones.
struct Arrivals {
    by_index: Box<[AtomicU8]>,
    total: AtomicUsize,
    early: AtomicUsize,
}

impl Arrivals {
    fn of(n: usize) -> Arc<Self> {
        let by_index = (0..n).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { by_index, total: AtomicUsize::new(0), early: AtomicUsize::new(0) })
    }

    fn times(&self, index: usize) -> u8 {
        self.by_index[index].load(Ordering::SeqCst)
    }

    fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }
}

struct Receiver(Arc<Arrivals>);

impl Actor for Receiver {
    type Context = Context<Self>;
}

impl Handler<Due> for Receiver {
    type Result = ();

    fn handle(&mut self, due: Due, _: &mut Self::Context) {
        if Instant::now() < due.not_before {
            self.0.early.fetch_add(1, Ordering::SeqCst);
        }
        self.0.by_index[due.index].fetch_add(1, Ordering::SeqCst);
        self.0.total.fetch_add(1, Ordering::SeqCst);
    }
}

/// A service and a receiver, each on a thread of its own.
struct Stage {
    arbiters: [Arbiter; 2],
    timers: Timers,
    receiver: Addr<Receiver>,
    arrivals: Arc<Arrivals>,
}

impl Stage {
    /// Starts both threads; needs a system on this thread.
    fn set(builder: TimerActorBuilder, n: usize) -> Self {
        let arbiters = [Arbiter::new(), Arbiter::new()];
        let timers = builder.start_on(&arbiters[0].handle()).unwrap();
        let arrivals = Arrivals::of(n);
        let noted = Arc::clone(&arrivals);
        let receiver = Receiver::start_in_arbiter(&arbiters[1].handle(), move |_| Receiver(noted));
        Self { arbiters, timers, receiver, arrivals }
    }

    fn schedule(&self, index: usize, delay: Duration) -> TimerId {
        schedule(&self.timers, &Target::from(&self.receiver), index, delay)
    }

    /// Cancels the timers with these indices in their order. Each of them is either cancelled or delivered once.
    async fn cancel(&self, ids: &[TimerId]) {
        let stopped: Vec<bool> = ids.iter().map(|id| self.timers.cancel(*id).is_cancelled()).collect();
        let cancelled = stopped.iter().filter(|stopped| **stopped).count();
        // A handler on another thread may run before its message is counted.
        eventually(|| self.timers.snapshot().pending() == 0 && self.arrivals.total() + cancelled >= ids.len()).await;
        for (index, stopped) in stopped.iter().enumerate() {
            assert_eq!(self.arrivals.times(index), u8::from(!stopped), "timer {index}, stopped: {stopped}");
        }
        let counters = self.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.balance()), (cancelled as u64, true));
    }

    /// Ends both threads: nothing has come early, and nothing comes now.
    fn strike(self) {
        let total = self.arrivals.total();
        for arbiter in self.arbiters {
            arbiter.stop();
            arbiter.join().unwrap();
        }
        assert_eq!((self.arrivals.total(), self.arrivals.early.load(Ordering::SeqCst)), (total, 0));
    }
}

/// Starts a probe on an arbiter of its own, whose handler tells that it has begun, and waits until the sender is dropped.
fn blocked() -> (Arbiter, Addr<Probe<u8>>, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (arbiter, (begin, begun), (release, block)) = (Arbiter::new(), mpsc::channel(), mpsc::channel());
    let (addr, _log) = probe_on(&arbiter, move |probe, _| {
        probe.hook = Box::new(move |_, _| {
            begin.send(()).unwrap();
            let _ = block.recv();
        });
    });
    (arbiter, addr, begun, release)
}

/// Reads the clock *before* it schedules.
fn schedule(timers: &Timers, target: &Target<Due>, index: usize, delay: Duration) -> TimerId {
    let not_before = Instant::now() + delay;
    timers.schedule_after(target, delay, Due { index, not_before })
}

/// Scenario O-19.
#[test]
fn cancelled_inside_the_very_tick_that_fires_it() {
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder().tick(ms(100)).capacity(11), 12);
        let (arbiter, first, begun, release) = blocked();
        stage.timers.schedule_after(&first, ms(200), Note(0));
        let ids: Vec<TimerId> = (0..10).map(|index| stage.schedule(index, ms(200))).collect();
        begun.recv_timeout(PATIENCE).unwrap();
        stage.cancel(&ids).await;
        drop(release);
        (0..11).for_each(|_| _ = stage.schedule(10, ms(3_600_000)));
        let due = Due { index: 11, not_before: Instant::now() };
        let rejected = stage.timers.timer(&stage.receiver, TimerOptions::new()).try_schedule(ms(3_600_000), due);
        assert!(matches!(
            rejected,
            Err(ScheduleError::CapacityReached { capacity: 11, message: Due { index: 11, .. } })
        ));
        stage.strike();
        arbiter.stop();
    });
}

/// Timers made on all cores, cancelled 100 µs before their common deadline.
/// Scenario O-20.
#[test]
fn a_burst_of_cancels_just_before_a_common_deadline() {
    const EACH: usize = 301;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), EACH * cores);
        let deadline = Instant::now() + ms(500);
        let schedule_from = |core: usize| -> Vec<TimerId> {
            let indices = core * EACH..(core + 1) * EACH;
            indices.map(|index| stage.schedule(index, deadline.saturating_duration_since(Instant::now()))).collect()
        };
        let ids: Vec<TimerId> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..cores).map(|core| scope.spawn(move || schedule_from(core))).collect();
            makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect()
        });
        let begin = deadline - Duration::from_micros(100);
        // The race begins at a time, and this thread waits for that without load until shortly before.
        std::thread::sleep((begin - ms(2)).saturating_duration_since(Instant::now()));
        while Instant::now() < begin {
            std::hint::spin_loop();
        }
        stage.cancel(&ids).await;
        stage.strike();
    });
}

/// Inserts from another thread at every phase of the service going to sleep: none of the wake-ups is lost.
/// Scenario O-22.
#[test]
fn no_wake_up_is_lost_between_computing_the_sleep_and_sleeping() {
    const ROUNDS: usize = 2000;
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), ROUNDS);
        for index in 0..ROUNDS {
            for _ in 0..index % 61 * 8 {
                std::hint::spin_loop();
            }
            stage.schedule(index, Duration::ZERO);
            let begin = Instant::now();
            while stage.arrivals.times(index) == 0 {
                assert!(begin.elapsed() < PATIENCE, "the wake-up of round {index} is lost");
                std::thread::yield_now();
            }
        }
        assert_eq!(stage.arrivals.total(), ROUNDS);
        stage.strike();
    });
}

/// Scenario O-38.
#[test]
fn a_blocked_target_does_not_hold_up_the_others() {
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), 20);
        let (arbiter, slow, begun, release) = blocked();
        stage.timers.schedule_after(&slow, ms(5), Note(0));
        (0..20).for_each(|index| _ = stage.schedule(index, ms(10 * index as u64 + 10)));
        begun.recv_timeout(PATIENCE).expect("the slow one is blocked now");
        eventually(|| stage.arrivals.total() == 20).await;
        drop(release);
        eventually(|| stage.timers.snapshot().counters.delivered == 21).await;
        stage.strike();
        arbiter.stop();
    });
}

/// Many timers with delays spread over 0 to 2999 ms, all cancelled in the middle. Their number is in
/// `ACTIX_TIMERS_STRESS_TIMERS`, for example 1000000.
/// Scenario O-46.
#[test]
fn many_timers_cancelled_in_the_middle() {
    let n = std::env::var("ACTIX_TIMERS_STRESS_TIMERS").map_or(100_000, |n| n.parse().expect("it is a number"));
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), n);
        let (begin, mut random) = (Instant::now(), Random::new(46));
        let target = Target::from(&stage.receiver);
        let ids: Vec<TimerId> =
            (0..n).map(|index| schedule(&stage.timers, &target, index, ms(random.below(3000)))).collect();
        std::thread::sleep(ms(500).saturating_sub(begin.elapsed()));
        stage.cancel(&ids).await;
        stage.strike();
    });
}

/// Sends thousands of requests, each with a cancel from a thread that already has the id: a timer reported as
/// *cancelled* is not in the wheel; one reported as *not found* is there and can be cancelled then.
/// Scenario O-47.
#[test]
fn cancel_races_with_the_insert_itself() {
    const ROUNDS: usize = 4_000;
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), 1);
        let (to_cancel, requests) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let canceller = stage.timers.clone();
        let thread =
            std::thread::spawn(move || requests.iter().for_each(|id| answer.send(canceller.cancel(id)).unwrap()));
        let mut seen = HashMap::new();
        for round in 0..ROUNDS {
            let due = Due { index: 0, not_before: Instant::now() + ms(10_000_000) };
            let request = ScheduleAfter::new(&stage.receiver, ms(10_000_000), due);
            let id = request.id();
            to_cancel.send(id).unwrap();
            // Lets either side be first in many rounds.
            for _ in 0..round % 64 * 16 {
                std::hint::spin_loop();
            }
            let scheduled = stage.timers.addr().send(request).await.unwrap();
            assert_eq!(scheduled.ok(), Some(id));
            let outcome = answers.recv_timeout(PATIENCE).unwrap();
            *seen.entry(outcome).or_insert(0) += 1;

            let inspection = stage.timers.snapshot();
            match outcome {
                CancelOutcome::Cancelled => {
                    assert_eq!((inspection.pending(), inspection.wheel.next_expiration), (0, None));
                    assert!(stage.timers.get(id).is_none());
                }
                CancelOutcome::NotFound => {
                    assert_eq!(inspection.pending(), 1);
                    assert_eq!(stage.timers.cancel(id), CancelOutcome::Cancelled);
                }
                other => panic!("{other:?} for a timer due in hours"),
            }
            assert_eq!(stage.timers.cancel(id), CancelOutcome::NotFound);
        }
        drop(to_cancel);
        thread.join().unwrap();
        let counters = stage.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.cancelled), (ROUNDS as u64, ROUNDS as u64), "{seen:?}");
        assert_eq!(stage.arrivals.total(), 0);
        stage.strike();
    });
}

/// A cancel that overtakes its request reports *not found*, and the timer can be cancelled afterwards.
/// Scenario O-47.
#[test]
fn a_cancel_that_overtakes_its_request_is_not_remembered() {
    support::paused(async {
        let timers = TimerActor::builder().start().unwrap();
        let probe = Probe::new(StopWatch::Paused(tokio::time::Instant::now()));
        let (log, addr) = (probe.log.clone(), probe.start());
        let request = ScheduleAfter::new(&addr, ms(10), Note(1));
        let id = request.id();
        let overtaking = timers.addr().send(Cancel(id));
        timers.addr().do_send(request);
        assert_eq!(timers.cancel(id), CancelOutcome::NotFound, "a call passes the request, too");
        assert_eq!(overtaking.await, Ok(CancelOutcome::NotFound));
        assert_eq!(timers.addr().send(Cancel(id)).await, Ok(CancelOutcome::Cancelled));
        tokio::time::sleep(ms(20)).await;
        assert_eq!(log.take(), []);
    });
}

/// Three hundred delays of 20 ms, one every 5 ms; 512 of 10 ms at once from eight threads; and one of 10 s, observed
/// meanwhile. With ticks of 1 and of 10 ms, side by side.
/// Scenario O-48.
#[test]
fn three_hundred_on_the_real_clock_are_never_early() {
    support::in_real_time(async {
        let begin = Instant::now();
        let stages = [1, 10].map(|tick| Stage::set(TimerActor::builder().tick(ms(tick)), 813));
        let long = stages.each_ref().map(|stage| stage.schedule(812, ms(10_000)));
        for index in 0..300 {
            stages.iter().for_each(|stage| _ = stage.schedule(index, ms(20)));
            std::thread::sleep(ms(5));
        }
        std::thread::scope(|scope| {
            for (stage, thread) in stages.iter().flat_map(|stage| (0..8).map(move |thread| (stage, thread))) {
                scope.spawn(move || (0..64).for_each(|index| _ = stage.schedule(300 + thread * 64 + index, ms(10))));
            }
        });
        for (stage, long) in stages.into_iter().zip(long) {
            eventually(|| stage.arrivals.total() >= 812).await;
            assert!((0..812).all(|index| stage.arrivals.times(index) == 1));
            // It is not void unless the machine is so slow that ten seconds have passed by now.
            assert!(stage.timers.cancel(long).is_cancelled() || begin.elapsed() >= ms(10_000));
            eventually(|| stage.timers.snapshot().pending() == 0).await;
            stage.strike();
        }
    });
}

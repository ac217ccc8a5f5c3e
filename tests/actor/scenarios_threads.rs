//! Conformance scenarios on the real clock and several threads: waking a sleeping service, a hundred thousand timers
//! cancelled in the middle, cancels that race with the insert, and never early.
//!
//! The machine may be arbitrarily slow: the only upper bound is [`PATIENCE`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{Cancel, CancelOutcome, ScheduleAfter, Target, TimerActor, TimerActorBuilder, TimerId, Timers};
use support::{Note, PATIENCE, Probe, StopWatch, ms};

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
    total: AtomicU64,
    early: AtomicU64,
}

impl Arrivals {
    fn of(n: usize) -> Arc<Self> {
        let by_index = (0..n).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self { by_index, total: AtomicU64::new(0), early: AtomicU64::new(0) })
    }

    fn times(&self, index: usize) -> u8 {
        self.by_index[index].load(Ordering::SeqCst)
    }

    fn total(&self) -> u64 {
        self.total.load(Ordering::SeqCst)
    }

    fn early(&self) -> u64 {
        self.early.load(Ordering::SeqCst)
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

    /// Waits until nothing is pending and every delivered message has been handled.
    fn wait_for_the_end(&self) {
        let begin = Instant::now();
        let counters = || self.timers.snapshot().counters;
        while counters().pending > 0 || self.arrivals.total() < counters().delivered {
            assert!(begin.elapsed() < PATIENCE, "{:?}, {} arrived", counters(), self.arrivals.total());
            std::thread::sleep(ms(1));
        }
        assert!(counters().balance());
    }

    fn strike(self) {
        for arbiter in self.arbiters {
            arbiter.stop();
            arbiter.join().unwrap();
        }
    }
}

/// Reads the clock *before* it schedules.
fn schedule(timers: &Timers, target: &Target<Due>, index: usize, delay: Duration) -> TimerId {
    let not_before = Instant::now() + delay;
    timers.schedule_after(target, delay, Due { index, not_before })
}

/// Two timers that another thread makes while the service sleeps until a later one are delivered before that one.
/// Scenario O-22.
#[test]
fn insert_earlier_while_asleep_from_another_thread() {
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder().wheel_size(64), 3);
        let one = stage.schedule(0, ms(3_600_000));
        std::thread::sleep(ms(50));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for index in [1, 2] {
                    stage.schedule(index, ms(50));
                }
            });
        });
        let begin = Instant::now();
        while stage.arrivals.total() < 2 {
            assert!(begin.elapsed() < PATIENCE, "the service has not been woken");
            std::thread::sleep(ms(1));
        }
        assert_eq!([0, 1, 2].map(|index| stage.arrivals.times(index)), [0, 1, 1]);
        assert_eq!(stage.arrivals.early(), 0);
        assert!(stage.timers.get(one).is_some());
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
        assert_eq!(stage.arrivals.total(), ROUNDS as u64);
        stage.strike();
    });
}

/// Returns the number of timers of the runs under load: `ACTIX_TIMERS_STRESS_TIMERS`, for example 1000000.
fn stress_timers() -> usize {
    match std::env::var("ACTIX_TIMERS_STRESS_TIMERS") {
        Ok(n) => n.parse().expect("ACTIX_TIMERS_STRESS_TIMERS is a number"),
        Err(_) => 100_000,
    }
}

/// Schedules delays spread over 0 to 2999 ms.
fn schedule_many(stage: &Stage, n: usize) -> Vec<TimerId> {
    let target = Target::from(&stage.receiver);
    let mut random = 46_u64;
    (0..n)
        .map(|index| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            schedule(&stage.timers, &target, index, ms((random >> 33) % 3000))
        })
        .collect()
}

/// Many timers, all cancelled in the middle: each was cancelled or delivered once, and none early.
/// Scenario O-46.
#[test]
fn many_timers_cancelled_in_the_middle() {
    let n = stress_timers();
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), n);
        let begin = Instant::now();
        let ids = schedule_many(&stage, n);
        std::thread::sleep(ms(500).saturating_sub(begin.elapsed()));
        let stopped: Vec<bool> = ids.iter().map(|id| stage.timers.cancel(*id).is_cancelled()).collect();
        stage.wait_for_the_end();
        for (index, stopped) in stopped.iter().enumerate() {
            assert_eq!(stage.arrivals.times(index), u8::from(!stopped), "timer {index}, stopped: {stopped}");
        }
        let counters = stage.timers.snapshot().counters;
        assert_eq!(counters.cancelled, stopped.iter().filter(|stopped| **stopped).count() as u64);
        assert_eq!(counters.delivered + counters.cancelled, n as u64);
        assert_eq!(stage.arrivals.early(), 0);
        stage.strike();
    });
}

/// Sends ten thousand requests, each with a cancel from a thread that already has the id: a timer reported as
/// *cancelled* is not in the wheel; one reported as *not found* is there and can be cancelled then.
fn cancel_races_with_the_insert(canceller: impl FnOnce(Timers) -> Box<dyn FnMut(TimerId) -> CancelOutcome + Send>) {
    const ROUNDS: usize = 10_000;
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder(), 1);
        let (to_cancel, requests) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let mut cancel = canceller(stage.timers.clone());
        let thread = std::thread::spawn(move || {
            for id in requests {
                answer.send(cancel(id)).unwrap();
            }
        });
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
        println!("{seen:?}");
        drop(to_cancel);
        thread.join().unwrap();
        let counters = stage.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.cancelled), (ROUNDS as u64, ROUNDS as u64), "{seen:?}");
        assert_eq!(stage.arrivals.total(), 0);
        stage.strike();
    });
}

/// The cancel comes directly from another thread.
/// Scenario O-47.
#[test]
fn cancel_races_with_the_insert_itself() {
    cancel_races_with_the_insert(|timers| Box::new(move |id| timers.cancel(id)));
}

/// The cancel is a message from another thread, in the same mailbox as the request.
/// Scenario O-47.
#[test]
fn a_cancel_message_races_with_the_insert_itself() {
    cancel_races_with_the_insert(|timers| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Box::new(move |id| runtime.block_on(timers.addr().send(Cancel(id))).unwrap())
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
        assert_eq!(overtaking.await, Ok(CancelOutcome::NotFound));
        assert_eq!(timers.addr().send(Cancel(id)).await, Ok(CancelOutcome::Cancelled));
        tokio::time::sleep(ms(20)).await;
        assert_eq!(log.take(), []);
    });
}

/// Three hundred delays of 20 ms, one every 5 ms; 512 of 10 ms at once from eight threads; and one of 10 s, observed
/// for three.
fn never_early(tick: u64) {
    support::in_real_time(async {
        let stage = Stage::set(TimerActor::builder().tick(ms(tick)), 813);
        let begin = Instant::now();
        let long = stage.schedule(812, ms(10_000));
        for index in 0..300 {
            stage.schedule(index, ms(20));
            std::thread::sleep(ms(5));
        }
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (timers, receiver) = (stage.timers.clone(), stage.receiver.clone());
                scope.spawn(move || {
                    let target = Target::from(receiver);
                    for index in 0..64 {
                        schedule(&timers, &target, 300 + thread * 64 + index, ms(10));
                    }
                });
            }
        });
        std::thread::sleep(ms(3000).saturating_sub(begin.elapsed()));
        let in_three_seconds = stage.arrivals.times(812);
        // The assertion is void on a machine so slow that ten seconds have passed by now.
        assert!(in_three_seconds == 0 || begin.elapsed() >= ms(10_000));
        stage.timers.cancel(long);
        stage.wait_for_the_end();
        assert!((0..812).all(|index| stage.arrivals.times(index) == 1));
        assert_eq!(stage.arrivals.early(), 0);
        stage.strike();
    });
}

/// Scenario O-48.
#[test]
fn three_hundred_on_the_real_clock_with_a_tick_of_1_ms() {
    never_early(1);
}

/// Scenario O-48.
#[test]
fn three_hundred_on_the_real_clock_with_a_tick_of_10_ms() {
    never_early(10);
}

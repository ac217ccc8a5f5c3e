//! Timers set to a wall-clock time, on clocks whose wall clock is stepped, or cannot be read at the same instant as the
//! monotonic one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Alarm, Clock, ManualClock, TimerActor, Timers};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Message)]
#[rtype(result = "()")]
struct Ring(&'static str);

#[derive(Default)]
struct Bell(Rc<RefCell<Vec<&'static str>>>);

impl Actor for Bell {
    type Context = Context<Self>;
}

impl Handler<Ring> for Bell {
    type Result = ();

    fn handle(&mut self, Ring(name): Ring, _: &mut Context<Self>) {
        self.0.borrow_mut().push(name);
    }
}

/// A clock whose reader is interrupted between two readings: `millis` pass before each reading of the wall clock.
#[derive(Clone)]
struct Interrupted {
    clock: ManualClock,
    millis: Arc<AtomicU64>,
}

impl Clock for Interrupted {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.clock.jump(Duration::from_millis(self.millis.load(Ordering::Relaxed)));
        self.clock.wall()
    }

    fn since(&self, instant: tokio::time::Instant) -> Duration {
        self.clock.since(instant)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.clock.alarm(time)
    }
}

fn at(time: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + time
}

/// Lets all ready tasks run.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn run<C: Clock, F: Future<Output = ()>>(clock: C, test: impl FnOnce(Timers) -> F) {
    support::in_real_time(async {
        let timers = TimerActor::builder().clock(clock).start().unwrap();
        settle().await;
        test(timers).await;
    });
}

#[test]
fn timers_of_one_tick_keep_their_order_over_a_step() {
    let clock = ManualClock::new();
    run(clock.clone(), |timers| async move {
        let rung = Rc::default();
        let bell = Bell(Rc::clone(&rung)).start();
        // The third takes the slot of the first, which is before that of the second.
        let first = timers.schedule_at(&bell, at(HOUR), Ring("first"));
        timers.schedule_at(&bell, at(HOUR), Ring("second"));
        assert!(timers.cancel(first).is_cancelled());
        timers.schedule_at(&bell, at(HOUR), Ring("third"));
        // Within the same tick of a millisecond, and scheduled last.
        timers.schedule_at(&bell, at(HOUR - Duration::from_micros(5)), Ring("fourth"));
        settle().await;

        clock.set_wall(at(HOUR / 2));
        timers.schedule_after(&bell, HOUR / 4, Ring("wakes the driver"));
        settle().await;
        for _ in 0..4 {
            clock.jump(HOUR / 8);
            settle().await;
        }
        assert_eq!(*rung.borrow(), ["wakes the driver", "second", "third", "fourth"]);
    });
}

#[test]
fn time_between_two_readings_is_no_step_of_the_wall_clock() {
    let (clock, millis) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
    let interrupted = Interrupted { clock: clock.clone(), millis: Arc::clone(&millis) };
    run(interrupted, |timers| async move {
        let bell = Bell::default().start();
        let id = timers.schedule_at(&bell, at(HOUR * 24), Ring("tomorrow"));
        settle().await;
        for passes in [0, 25, 500, 50_000] {
            millis.store(passes, Ordering::Relaxed);
            // Makes the driver read the clocks.
            timers.schedule_after(&bell, Duration::from_millis(1), Ring("wakes the driver"));
            settle().await;
            let remaining = timers.get(id).unwrap().remaining;
            assert_eq!(remaining, HOUR * 24 - clock.now(), "{passes} ms between two readings");
        }
    });
}

#[test]
fn a_step_that_happens_is_seen_all_the_same() {
    let (clock, millis) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
    let interrupted = Interrupted { clock: clock.clone(), millis: Arc::clone(&millis) };
    run(interrupted, |timers| async move {
        let bell = Bell::default().start();
        let id = timers.schedule_at(&bell, at(HOUR), Ring("at the hour"));
        settle().await;
        for (look, stepped) in [Duration::from_millis(21), HOUR / 2, HOUR / 4, Duration::ZERO].into_iter().enumerate() {
            clock.set_wall(at(stepped));
            // Each is due before all others, so the driver has to reset its alarm.
            timers.schedule_after(&bell, Duration::from_millis(10 - look as u64), Ring("wakes the driver"));
            settle().await;
            assert_eq!(timers.get(id).unwrap().remaining, HOUR - stepped);
        }
    });
}

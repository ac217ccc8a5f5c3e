//! The watchdog helps a busy arbiter without changing the order of deadlines.
//!
//! The clock is real: under another one the watchdog does nothing. Slow code sleeps for longer than the watchdog's
//! patience, so that a wrong order shows. The right order does not depend on timing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerContext, Timers};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use support::{eventually, ms};

/// Four times the watchdog's wait before it intervenes.
const LONG: Duration = ms(80);

#[derive(Message)]
#[rtype(result = "()")]
struct Number {
    number: u32,
    /// Keeps the thread busy when it is dropped.
    is_slow: bool,
}

impl Drop for Number {
    fn drop(&mut self) {
        if self.is_slow {
            // Long enough for the watchdog to intervene.
            std::thread::sleep(LONG);
        }
    }
}

type Log = Arc<Mutex<Vec<u32>>>;

struct Listener(Log);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<Number> for Listener {
    type Result = ();

    fn handle(&mut self, number: Number, _: &mut Self::Context) {
        self.0.lock().unwrap().push(number.number);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Plan(Job);

type Job = Box<dyn FnOnce(&mut Context<Listener>) + Send>;

impl Handler<Plan> for Listener {
    type Result = ();

    fn handle(&mut self, Plan(plan): Plan, ctx: &mut Self::Context) {
        plan(ctx);
    }
}

fn number(number: u32) -> Number {
    Number { number, is_slow: false }
}

/// The driver has two messages ready for sending, and the first keeps it from sending the second. Behind them an own
/// message of the same actor is due, which the actor cannot fetch meanwhile.
#[test]
fn the_watchdog_does_not_overtake_messages_of_the_driver() {
    System::new().block_on(async {
        for _ in 0..3 {
            let log = Log::default();
            let listener = Listener(Arc::clone(&log)).start();
            let dead = Listener(Log::default()).start();
            let nobody = Target::from(&dead);
            drop(dead);
            eventually(|| !nobody.is_alive()).await;
            let plan = move |ctx: &mut Context<Listener>| {
                let timers = Timers::current().unwrap();
                timers.schedule_after(nobody, ms(0), Number { number: 0, is_slow: true });
                timers.schedule_after(ctx.address(), ms(0), number(1));
                ctx.schedule_after(ms(0), number(2));
            };
            listener.send(Plan(Box::new(plan))).await.unwrap();
            eventually(|| log.lock().unwrap().len() == 2).await;
            assert_eq!(*log.lock().unwrap(), [1, 2]);
        }
    });
}

/// Records the lateness of messages slowly, which happens while one is being sent.
#[derive(Default)]
struct SlowRecorder {
    lags: Arc<SlowLags>,
}

#[derive(Default)]
struct SlowLags {
    recorded: AtomicUsize,
    /// The number of the slow record.
    slow: AtomicUsize,
}

impl HistogramFn for SlowLags {
    fn record(&self, _: f64) {
        let number = self.recorded.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.slow.load(Ordering::SeqCst) {
            // As above: while this message is being sent.
            std::thread::sleep(LONG);
        }
    }
}

impl Recorder for SlowRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            "actix_timers_delivery_lag_seconds" => Histogram::from_arc(Arc::clone(&self.lags)),
            _ => Histogram::noop(),
        }
    }
}

/// An inbox is just sending a foreign message. The next one is due, and goes to the mailbox without queueing, since the
/// inbox is empty by then.
#[test]
fn the_watchdog_does_not_overtake_messages_of_an_inbox() {
    System::new().block_on(async {
        let recorder = SlowRecorder::default();
        // The first record is of its own message, the second of the message behind it.
        recorder.lags.slow.store(2, Ordering::SeqCst);
        let timers = metrics::with_local_recorder(&recorder, || TimerActor::builder().install()).unwrap();
        let log = Log::default();
        let listener = Listener(Arc::clone(&log)).start();
        let plan = move |ctx: &mut Context<Listener>| {
            ctx.schedule_after(ms(0), number(1));
            timers.schedule_after(ctx.address(), ms(0), number(2));
            timers.schedule_after(ctx.address(), ms(20), number(3));
        };
        listener.send(Plan(Box::new(plan))).await.unwrap();
        eventually(|| log.lock().unwrap().len() == 3).await;
        assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
    });
}

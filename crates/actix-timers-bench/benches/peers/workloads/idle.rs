//! One timer an hour away: the cost of ten idle seconds.
//!
//! The timer is on its own arbiter. The measuring thread sleeps meanwhile and does not count; all other threads of the
//! process do.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use actix::{Arbiter, System};
use tokio::sync::oneshot;

use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::senders::messages::{Due, Planner};
use crate::senders::{HashWheel, NotifyLater, OwnContext, Queue, Sender, Sleeps, ToTarget};
use bench::process::OtherThreads;
use bench::rows::Rows;
use bench::times::millis;

pub(crate) static WORKLOAD: Workload = Workload {
    name: "idle",
    units: &UNITS,
    subjects: &[
        Subject::new("actix-timers, context", 1, idle::<OwnContext>),
        Subject::new("actix-timers, recipient", 1, idle::<ToTarget>),
        Subject::new("delay-queue, do_send", 1, idle::<Queue>),
        Subject::new("tokio-sleep", 1, idle::<Sleeps>),
        Subject::new("notify-later", 1, idle::<NotifyLater>),
        Subject::new("hash-wheel-timer", 1, idle::<HashWheel>),
    ],
};
const UNITS: [&str; 2] = ["context switches", "CPU ms"];

const HOUR: Duration = Duration::from_secs(3600);
/// The time until all threads are idle: counters are published once more, for example.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    rows.extend(WORKLOAD.measure(arguments, Load { size: 1, seconds: arguments.seconds }));
}

fn idle<S: Sender>(load: Load) -> Figures {
    let system = System::new();
    let arbiter = Arbiter::new();
    let (idle, is_idle) = mpsc::channel();
    let (end, is_over) = oneshot::channel();
    arbiter.spawn_fn(move || one::<S>(idle, is_over));
    is_idle.recv().expect("a timer");
    thread::sleep(SETTLE);
    let before = OtherThreads::now();
    thread::sleep(Duration::from_secs(load.seconds));
    let after = OtherThreads::now();
    end.send(()).expect("the arbiter lives");
    is_idle.recv().expect("the timer was there to the end");
    drop(system);
    let switches = after.context_switches - before.context_switches;
    vec![(UNITS[0], switches as f64), (UNITS[1], millis(after.cpu - before.cpu))]
}

/// Schedules one timer and cancels it in the end. Sends on `idle` after both.
fn one<S: Sender>(idle: mpsc::Sender<()>, is_over: oneshot::Receiver<()>) {
    actix::spawn(async move {
        let planner = Planner::start(None);
        let sender = S::to(vec![planner.addr.clone()]);
        let due = Due::new(Instant::now() + HOUR, 0);
        let (handle, sender) = planner.run(move |ctx| (sender.schedule(ctx, due), sender)).await;
        idle.send(()).expect("the main thread waits");
        is_over.await.expect("the main thread signals the end");
        planner.run(move |ctx| sender.cancel(ctx, handle)).await;
        idle.send(()).expect("the main thread waits");
    });
}

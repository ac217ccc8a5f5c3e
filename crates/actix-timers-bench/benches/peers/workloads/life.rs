//! The operations of a timer's life, in nanoseconds per operation.
//!
//! - `start`: schedule N.
//! - `churn`: with N pending, schedule one and cancel a random one, N times.
//! - `steady-start`: with N pending, cancel half of them, chosen at random, and schedule as many again. Only the latter
//!   is timed: new timers take the slots that the cancels have freed, all over the memory, as in a service that has run
//!   for a while.
//! - `stop`: cancel all N in shuffled order.
//!
//! `percentiles` repeats `start`, `churn` and `stop` with each operation timed alone, for the subjects whose operation is
//! over when its call returns.

use actix_timers::timing::WheelSize;

use crate::arguments::Arguments;
use crate::clock::Clock;
use crate::contenders::tokio_sleep::{Pingora, Tokio};
use crate::contenders::{
    delay_queue, do_send, external, hash_wheel, nexus, notify_later, ours, quad_heap, schemes, tokio_sleep,
    tokio_workers,
};
use crate::rounds::{self, Life, Subject};
use bench::rows::Rows;

pub(crate) const WORKLOADS: [&str; 4] = ["start", "churn", "steady-start", "stop"];

pub(crate) const PERCENTILES: &str = "percentiles";
const TIMED_ALONE: [&str; 3] = ["start", "churn", "stop"];
/// The subjects of `percentiles` inside an actor.
const COMPLETE_AT_RETURN: [&str; 2] = ["actix-timers", "delay-queue"];

/// The maximum size for subjects that need a kilobyte or a microsecond per timer.
const MOST_FOR_THE_SLOW: usize = 1_000_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    let wanted: Vec<&str> = WORKLOADS.into_iter().filter(|workload| arguments.wants(workload)).collect();
    let layers = [("wheel", on_the_wheel as fn(usize) -> _), ("context", in_an_actor), ("messages", by_messages)];
    for size in arguments.sizes.iter().copied() {
        for (layer, subjects) in layers {
            if arguments.wants_layer(layer) {
                rows.extend(rounds::measure(arguments, layer, &wanted, subjects(size), None));
            }
        }
    }
}

pub(crate) fn percentiles(arguments: &Arguments, rows: &mut Rows) {
    let clock = Clock::new();
    eprintln!("percentiles: {:.1} ns for reading the clock are subtracted", clock.cost());
    for size in arguments.sizes.iter().copied() {
        if arguments.wants_layer("wheel") {
            let mut subjects = on_the_wheel(size);
            subjects.retain(|subject| !subject.name().starts_with("scheme "));
            rows.extend(rounds::measure(arguments, "wheel", &TIMED_ALONE, subjects, Some(&clock)));
        }
        if arguments.wants_layer("context") {
            let mut subjects = in_an_actor(size);
            subjects.retain(|subject| COMPLETE_AT_RETURN.contains(&subject.name()));
            rows.extend(rounds::measure(arguments, "context", &TIMED_ALONE, subjects, Some(&clock)));
        }
    }
}

/// The bare structures, with a payload of 16 bytes, and deadlines that need no clock.
fn on_the_wheel(size: usize) -> Vec<Subject<'static>> {
    let mut subjects = vec![
        Subject::new("actix-timers", size, move |life| ours::wheel::live(life, WheelSize::default(), size)),
        Subject::new("delay-queue", size, move |life| delay_queue::live_at(life, size)),
        Subject::new("nexus-timer", size, move |life| nexus::live(life, size)),
        Subject::new("nexus-timer, bounded", size, move |life| nexus::live_bounded(life, size)),
        Subject::new("quad-heap", size, move |life| quad_heap::live(life, size)),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("hash-wheel-timer", size, move |life| hash_wheel::live(life, size)));
        let schemes = schemes::PLANS.iter();
        subjects.extend(schemes.map(|scheme| Subject::new(scheme.name(), size, move |life| scheme.live(life, size))));
    }
    subjects
}

/// Inside an actor, with a message of 32 bytes and a delay from now. The bare queue, the timer with its own thread and
/// the peers in other languages have no actor: they only keep messages.
fn in_an_actor(size: usize) -> Vec<Subject<'static>> {
    let mut subjects = vec![
        Subject::new("actix-timers", size, move |life| ours::context::live(life, size)),
        Subject::new("delay-queue", size, move |life| delay_queue::live_after(life, size)),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("notify-later", size, move |life| notify_later::live(life, size)));
        subjects.push(Subject::new("tokio-sleep", size, move |life| tokio_sleep::live::<Tokio>(life, size)));
        subjects.push(Subject::new("pingora-timeout", size, move |life| tokio_sleep::live::<Pingora>(life, size)));
        subjects.push(Subject::new(tokio_workers::SHARED_WHEEL, size, move |life| tokio_workers::live(life, size)));
        if tokio_workers::HAS_OWN_WHEELS {
            let live = move |life: &mut Life| tokio_workers::live_with_own_wheels(life, size);
            subjects.push(Subject::new(tokio_workers::OWN_WHEELS, size, live));
        }
        subjects.push(Subject::new("hash-wheel-timer", size, move |life| hash_wheel::live_with_thread(life, size)));
    }
    subjects.extend(external::subjects(size));
    subjects
}

/// From another arbiter, with a message of 32 bytes. The floor is a message of the same size that is only counted.
fn by_messages(size: usize) -> Vec<Subject<'static>> {
    vec![
        Subject::new("actix-timers", size, move |life| ours::messages::live(life, size)),
        Subject::new("actix-timers, ids asked", size, move |life| ours::messages::live_with_ids(life, size)),
        Subject::new("actix-timers, batches of 256", size, move |life| ours::messages::live_in_batches(life, size)),
        Subject::new("do-send", size, move |life| do_send::live(life, size)),
    ]
}

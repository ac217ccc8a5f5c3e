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

use actix_timers::timing::{Wheel, WheelSize};
use bench::quad_heap::QuadHeap;

use crate::arguments::Arguments;
use crate::clock::Clock;
use crate::contenders::keepers::{self, Pingora, Tokio};
use crate::contenders::structures::{
    self, HashWheel, Payload, QueueAfter, QueueAt, Structure, bounded_nexus, nexus, with_queue,
};
use crate::contenders::{do_send, external, hash_wheel, messages, schemes, tokio_workers};
use crate::rounds::{self, Life, Subject};
use bench::rows::{OURS, Rows};

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

/// N entries of 16 bytes expire in a bare structure, in order, cascades included.
pub(crate) fn expire(arguments: &Arguments, rows: &mut Rows) {
    if arguments.wants_layer("wheel") {
        for size in arguments.sizes.iter().copied() {
            let mut subjects = on_the_wheel(size);
            subjects.retain(|subject| subject.name() != "nexus-timer, bounded");
            rows.extend(rounds::measure(arguments, "wheel", &["expire"], subjects, None));
        }
    }
}

/// The bare wheel with more and with fewer buckets per level, beside a `DelayQueue`. 20 are those of Kafka.
pub(crate) fn wheel_sizes(arguments: &Arguments, rows: &mut Rows) {
    const BUCKETS: [usize; 7] = [20, 32, 64, 128, 256, 512, 1024];
    if !arguments.wants_layer("wheel") {
        return;
    }
    for size in arguments.sizes.iter().copied() {
        let mut subjects = vec![Subject::new("delay-queue", size, |life, size| {
            with_queue(false, |queue: &mut QueueAt<'_>| structures::live(life, size, queue));
            with_queue(true, |queue: &mut QueueAt<'_>| structures::expire(life, size, queue));
        })];
        subjects.extend(BUCKETS.map(|buckets| {
            let wheel = WheelSize::new(buckets).unwrap();
            Subject::new(format!("{OURS}, {buckets} buckets"), size, move |life, size| {
                structures::live(life, size, &mut Wheel::<Payload>::new(wheel));
                structures::expire(life, size, &mut Wheel::<Payload>::new(wheel));
            })
        }));
        rows.extend(rounds::measure(arguments, "wheel sizes", &["start", "churn", "stop", "expire"], subjects, None));
    }
}

/// The bare structures, with a payload of 16 bytes, and deadlines that need no clock: their life, or the expiry of all.
fn on_the_wheel(size: usize) -> Vec<Subject<'static>> {
    let wheel = || Wheel::<Payload>::new(WheelSize::default());
    let mut subjects = vec![
        Subject::new("actix-timers", size, move |life, size| work(life, size, &mut wheel())),
        Subject::new("delay-queue", size, |life, size| {
            with_queue(life.wants("expire"), |queue: &mut QueueAt<'_>| work(life, size, queue));
        }),
        Subject::new("nexus-timer", size, |life, size| work(life, size, &mut nexus())),
        Subject::new("nexus-timer, bounded", size, |life, size| work(life, size, &mut bounded_nexus(size))),
        Subject::new("quad-heap", size, |life, size| work(life, size, &mut QuadHeap::<Payload>::default())),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("hash-wheel-timer", size, |life, size| work(life, size, &mut HashWheel::default())));
        subjects.extend(schemes::PLANS.iter().map(|scheme| {
            Subject::new(scheme.name(), size, |life, size| {
                if life.wants("expire") { scheme.expire(life, size) } else { scheme.live(life, size) }
            })
        }));
    }
    subjects
}

fn work(life: &mut Life, size: usize, structure: &mut impl Structure) {
    if life.wants("expire") {
        structures::expire(life, size, structure)
    } else {
        structures::live(life, size, structure)
    }
}

/// Inside an actor, with a message of 32 bytes and a delay from now. The bare queue, the timer with its own thread and
/// the peers in other languages have no actor: they only keep messages.
fn in_an_actor(size: usize) -> Vec<Subject<'static>> {
    let mut subjects = vec![
        Subject::new("actix-timers", size, keepers::ours),
        Subject::new("delay-queue", size, |life, size| {
            with_queue(false, |queue: &mut QueueAfter<'_>| structures::live(life, size, queue));
        }),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("notify-later", size, keepers::notify_later));
        subjects.push(Subject::new("tokio-sleep", size, keepers::tasks::<Tokio>));
        subjects.push(Subject::new("pingora-timeout", size, keepers::tasks::<Pingora>));
        subjects.push(Subject::new(tokio_workers::SHARED_WHEEL, size, tokio_workers::live));
        if tokio_workers::HAS_OWN_WHEELS {
            subjects.push(Subject::new(tokio_workers::OWN_WHEELS, size, tokio_workers::live_with_own_wheels));
        }
        subjects.push(Subject::new("hash-wheel-timer", size, hash_wheel::live));
    }
    subjects.extend(external::subjects(size));
    subjects
}

/// From another arbiter, with a message of 32 bytes. The floor is a message of the same size that is only counted.
fn by_messages(size: usize) -> Vec<Subject<'static>> {
    vec![
        Subject::new("actix-timers", size, messages::live),
        Subject::new("actix-timers, ids asked", size, messages::live_with_ids),
        Subject::new("actix-timers, batches of 256", size, messages::live_in_batches),
        Subject::new("do-send", size, do_send::live),
    ]
}

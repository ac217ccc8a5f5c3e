//! N entries of 16 bytes expire in a bare wheel, in order, cascades included.

use actix_timers::timing::{Wheel, WheelSize};

use crate::arguments::Arguments;
use crate::contenders::schemes;
use crate::contenders::structures::{self, HashWheel, Payload, QueueAt, nexus, with_queue};
use crate::rounds::{self, Subject};
use bench::quad_heap::QuadHeap;
use bench::rows::Rows;

/// The maximum size for subjects that are too slow at ten million.
const MOST_FOR_THE_SLOW: usize = 1_000_000;

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    if !arguments.wants_layer("wheel") {
        return;
    }
    for size in arguments.sizes.iter().copied() {
        rows.extend(rounds::measure(arguments, "wheel", &["expire"], subjects(size), None));
    }
}

fn subjects(size: usize) -> Vec<Subject<'static>> {
    let wheel = || Wheel::<Payload>::new(WheelSize::default());
    let mut subjects = vec![
        Subject::new("actix-timers", size, move |life, size| structures::expire(life, size, &mut wheel())),
        Subject::new("delay-queue", size, |life, size| {
            with_queue(true, |queue: &mut QueueAt<'_>| structures::expire(life, size, queue));
        }),
        Subject::new("nexus-timer", size, move |life, size| structures::expire(life, size, &mut nexus())),
        Subject::new("quad-heap", size, |life, size| {
            structures::expire(life, size, &mut QuadHeap::<Payload>::default());
        }),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("hash-wheel-timer", size, |life, size| {
            structures::expire(life, size, &mut HashWheel::default());
        }));
        let schemes = schemes::PLANS.iter();
        subjects
            .extend(schemes.map(|scheme| Subject::new(scheme.name(), size, |life, size| scheme.expire(life, size))));
    }
    subjects
}

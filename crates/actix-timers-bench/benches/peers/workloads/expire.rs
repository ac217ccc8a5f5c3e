//! N entries of 16 bytes expire in a bare wheel, in order, cascades included.

use actix_timers::timing::WheelSize;

use crate::arguments::Arguments;
use crate::contenders::{delay_queue, hash_wheel, nexus, ours, quad_heap, schemes};
use crate::rounds::{self, Subject};
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
    let mut subjects = vec![
        Subject::new("actix-timers", size, move |life| ours::wheel::expire(life, WheelSize::default(), size)),
        Subject::new("delay-queue", size, move |life| delay_queue::expire(life, size)),
        Subject::new("nexus-timer", size, move |life| nexus::expire(life, size)),
        Subject::new("quad-heap", size, move |life| quad_heap::expire(life, size)),
    ];
    if size <= MOST_FOR_THE_SLOW {
        subjects.push(Subject::new("hash-wheel-timer", size, move |life| hash_wheel::expire(life, size)));
        let schemes = schemes::PLANS.iter();
        subjects.extend(schemes.map(|scheme| Subject::new(scheme.name(), size, move |life| scheme.expire(life, size))));
    }
    subjects
}

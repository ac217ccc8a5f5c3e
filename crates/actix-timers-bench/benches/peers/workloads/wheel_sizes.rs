//! The bare wheel with more and with fewer buckets per level, beside a `DelayQueue`. 20 are those of Kafka.

use actix_timers::timing::{Wheel, WheelSize};

use crate::arguments::Arguments;
use crate::contenders::structures::{self, Payload, QueueAt, with_queue};
use crate::rounds::{self, Subject};
use bench::rows::{OURS, Rows};

const BUCKETS: [usize; 7] = [20, 32, 64, 128, 256, 512, 1024];

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
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

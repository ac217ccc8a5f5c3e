//! The bare wheel with more and with fewer buckets per level, beside a `DelayQueue`. 20 are those of Kafka.

use actix_timers::timing::WheelSize;

use crate::arguments::Arguments;
use crate::contenders::{delay_queue, ours};
use crate::rounds::{self, Subject};
use bench::rows::{OURS, Rows};

const BUCKETS: [usize; 7] = [20, 32, 64, 128, 256, 512, 1024];

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    if !arguments.wants_layer("wheel") {
        return;
    }
    for size in arguments.sizes.iter().copied() {
        let mut subjects = vec![Subject::new("delay-queue", size, move |life| {
            delay_queue::live_at(life, size);
            delay_queue::expire(life, size);
        })];
        subjects.extend(BUCKETS.map(|buckets| {
            let wheel = WheelSize::new(buckets).unwrap();
            Subject::new(format!("{OURS}, {buckets} buckets"), size, move |life| {
                ours::wheel::live(life, wheel, size);
                ours::wheel::expire(life, wheel, size);
            })
        }));
        rows.extend(rounds::measure(arguments, "wheel sizes", &["start", "churn", "stop", "expire"], subjects, None));
    }
}

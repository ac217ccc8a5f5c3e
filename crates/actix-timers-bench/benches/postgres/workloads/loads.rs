//! Loads that move the due times of their rows: timers that are due now, and timers that all repeat, beside timers that are
//! due later.

use std::thread;
use std::time::{Duration, Instant};

use bench::rows::{OURS, Rows};
use bench::times;

use super::{GROUP, push};
use crate::node::{Deliver, Node, Place, again, complete};
use crate::settings::Settings;
use crate::timer::{self, HOUR, Timer, due_in};

pub(crate) const WORKLOAD: &str = "loads";
pub(crate) const UNIT: &str = "ns a lifecycle";
pub(crate) const NOW: &str = "actix-timers, due now";
/// An occurrence has no insert and no delete, but an update.
pub(crate) const REPEATING: &str = "actix-timers, an occurrence";
pub(crate) const LATER: &str = OURS;
/// The occurrences of each timer in a round.
const OCCURRENCES: usize = 3;

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::filled(url, "loads", Duration::from_secs(3000), &timer::pending(settings.pending));
    let mut node = Node::join(&place, Deliver::All);
    let mut samples: [Vec<f64>; 3] = Default::default();
    for round in 0..=settings.rounds {
        let numbers = || settings.numbers(round);
        let each = |took: Duration| times::each(took, settings.timers);
        place.settle();
        let mut took = schedule(&mut node, &timer::spread(numbers(), Duration::from_secs(60), HOUR));
        place.set_clock(2 * HOUR);
        took += deliver(&mut node, due_in(3 * HOUR), settings.timers);
        place.set_clock(Duration::ZERO);
        samples[0].push(each(took));

        place.settle();
        let began = Instant::now();
        for group in numbers().collect::<Vec<_>>().chunks(GROUP) {
            let due = due_in(Duration::ZERO);
            node.schedule(&group.iter().map(|number| Timer { number: *number, due }).collect::<Vec<_>>());
        }
        let took = began.elapsed();
        samples[1].push(each(took + deliver(&mut node, passed(), settings.timers)));

        // Of other timers, since these are gone.
        schedule(&mut node, &timer::spread(numbers(), Duration::ZERO, Duration::from_millis(1)));
        place.settle();
        let mut took = Duration::ZERO;
        for _ in 0..OCCURRENCES {
            let until = passed();
            let began = Instant::now();
            assert_eq!(node.deliver(until, GROUP, again), settings.timers);
            took += began.elapsed();
        }
        samples[2].push(each(took) / OCCURRENCES as f64);
        deliver(&mut node, passed(), settings.timers);
        assert_eq!(place.rows(), settings.pending);
    }
    push(rows, settings, WORKLOAD, UNIT, [LATER, NOW, REPEATING].into_iter().zip(samples));
}

/// Returns the present time when it has passed.
fn passed() -> actix_timers_durable::DueTime {
    let now = due_in(Duration::ZERO);
    thread::sleep(Duration::from_millis(2));
    now
}

fn schedule(node: &mut Node, timers: &[Timer]) -> Duration {
    let began = Instant::now();
    timers.chunks(GROUP).for_each(|timers| node.schedule(timers));
    began.elapsed()
}

fn deliver(node: &mut Node, until: actix_timers_durable::DueTime, count: usize) -> Duration {
    let began = Instant::now();
    assert_eq!(node.deliver(until, GROUP, complete), count);
    began.elapsed()
}

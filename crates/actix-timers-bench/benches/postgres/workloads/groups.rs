//! New timers in groups, and deliveries of all due ones, by the store alone beside the plain worker, while many are pending.

use std::time::Duration;

use bench::rows::{OURS, Rows};

use super::{GROUP, NODES, push};
use crate::node::{Deliver, Node, Place, complete, measure};
use crate::plain::{self, INSERT, WORKER, Worker};
use crate::settings::Settings;
use crate::sql::Session;
use crate::timer::{self, HOUR, due_in};

pub(crate) const UNIT: &str = "ns a timer";
pub(crate) const SCHEDULE: [&str; 2] = ["schedule", "schedule, three nodes"];
pub(crate) const DELIVER: [&str; 2] = ["deliver", "deliver, three nodes"];

/// The nodes of a schema, with their figures and those of as many workers.
struct Side {
    nodes: Vec<Node>,
    place: Place,
    schedules: [Vec<f64>; 2],
    deliveries: [Vec<f64>; 2],
}

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let pending = timer::pending(settings.pending);
    let mut workers = plain::workers(url, NODES, &pending);
    let session = Session::open(url);
    let mut sides = [("one", 1), ("three", NODES)].map(|(schema, nodes)| {
        // Nodes do not beat while others work.
        let place = Place::filled(url, schema, Duration::from_secs(3000), &pending);
        let nodes = (0..nodes).map(|_| Node::join(&place, Deliver::All)).collect();
        Side { nodes, place, schedules: Default::default(), deliveries: Default::default() }
    });
    for round in 0..=settings.rounds {
        for side in &mut sides {
            side.round(&mut workers, &session, settings.numbers(round), settings.pending);
        }
    }
    for (place, Side { schedules, deliveries, .. }) in sides.into_iter().enumerate() {
        for (workload, peer, samples) in [(SCHEDULE[place], INSERT, schedules), (DELIVER[place], WORKER, deliveries)] {
            push(rows, settings, workload, UNIT, [OURS, peer].into_iter().zip(samples));
        }
    }
}

impl Side {
    fn round(&mut self, workers: &mut [Worker], session: &Session, numbers: std::ops::Range<u64>, pending: u64) {
        let Self { nodes, place, schedules, deliveries } = self;
        let timers = timer::spread(numbers, Duration::from_secs(60), HOUR);
        let workers = &mut workers[..nodes.len()];
        let settle = || {
            place.settle();
            session.settle("queue");
        };
        settle();
        schedules[1].push(measure(workers, &timers, |worker, timers| {
            timers.chunks(GROUP).for_each(|timers| worker.schedule(timers))
        }));
        settle();
        schedules[0].push(measure(nodes, &timers, |node, timers| {
            timers.chunks(GROUP).for_each(|timers| node.schedule(timers))
        }));
        settle();
        let until = due_in(3 * HOUR);
        deliveries[1]
            .push(measure(workers, &timers, |worker, _| _ = worker.deliver(until.as_millis().cast_signed(), GROUP)));
        place.set_clock(2 * HOUR);
        // All know the shares of all.
        nodes.iter_mut().for_each(|node| _ = node.beat(&[]));
        settle();
        deliveries[0].push(measure(nodes, &timers, |node, _| _ = node.deliver(until, GROUP, complete)));
        place.set_clock(Duration::ZERO);
        assert_eq!((place.rows(), session.number("SELECT count(*) FROM queue")), (pending, pending));
    }
}

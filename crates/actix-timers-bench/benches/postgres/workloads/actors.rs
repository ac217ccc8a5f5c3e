//! Deliveries of timers that are due together, by three nodes through actors whose handlers do next to nothing, beside three
//! plain workers without handlers.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bench::rows::{OURS, Rows};
use bench::times::each;

use super::{GROUP, NODES, push};
use crate::node::{Place, measure};
use crate::office::{Handled, Running};
use crate::plain::{self, WORKER};
use crate::settings::Settings;
use crate::sql;
use crate::timer;

pub(crate) const WORKLOAD: &str = "deliver through actors, three nodes";
pub(crate) const UNIT: &str = "ns a timer";

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let pending = timer::pending(settings.pending);
    let mut workers = plain::workers(url, NODES, &pending);
    let place = Arc::new(Place::filled(url, "actors", Duration::from_secs(10), &pending));
    let handled = Arc::new(Handled::default());
    let nodes: Vec<_> = (0..NODES).map(|_| Running::start(&place, &handled)).collect();
    // Enough for the schedules.
    let lead = Duration::from_secs(3) + Duration::from_micros(50) * settings.timers as u32;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..=settings.rounds {
        let timers = timer::spread(settings.numbers(round), lead, Duration::from_millis(1));
        let begin: SystemTime = timers[0].due.into();
        place.fill(&timers);
        thread::sleep(begin.duration_since(SystemTime::now()).expect("the schedules took too long"));
        let began = Instant::now();
        sql::runtime().block_on(handled.wait_for(timers.len()));
        let until = timers[0].millis() + 10;
        while place.session.number(&place.undone(until)) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        ours.push(each(began.elapsed(), timers.len()));
        assert_eq!(handled.take().len(), timers.len());

        timers.chunks(GROUP).for_each(|timers| workers[0].schedule(timers));
        place.session.settle("queue");
        plain.push(measure(&mut workers, &timers, |worker, _| _ = worker.deliver(until, GROUP)));
        assert_eq!(place.session.number("SELECT count(*) FROM queue"), settings.pending);
    }
    nodes.into_iter().for_each(Running::stop);
    push(rows, settings, WORKLOAD, UNIT, [(OURS, ours), (WORKER, plain)]);
}

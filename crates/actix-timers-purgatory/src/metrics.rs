//! Metrics of purgatories.
//!
//! They are registered with the recorder that is installed when the purgatory starts, and updated at each event.

use actix_timers::metrics::{Kind, Metric};
use metrics::{Counter, Gauge, Unit, counter, gauge};

use crate::attempt::End;

const fn metric(kind: Kind, name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, unit: Unit::Count, labels: &["purgatory"], help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    metric(Kind::Gauge, name, help)
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    metric(Kind::Counter, name, help)
}

const WATCHED: Metric = gauge("actix_timers_purgatory_watched", "Watchers: the keys of each waiting request");
const DELAYED: Metric = gauge("actix_timers_purgatory_delayed", "Requests that wait for their condition or time-out");
const COMPLETED: Metric = counter("actix_timers_purgatory_completed_total", "Requests ended by their condition");
const EXPIRED: Metric = counter("actix_timers_purgatory_expired_total", "Requests ended by their time-out");

/// All metrics of purgatories. They have the labels `purgatory`, the name of the purgatory, and `timer`, that of its
/// timer actor.
pub const CATALOGUE: &[Metric] = &[WATCHED, DELAYED, COMPLETED, EXPIRED];

/// The handles of one purgatory.
pub(crate) struct Meters {
    pub(crate) watched: Gauge,
    pub(crate) delayed: Gauge,
    completed: Counter,
    expired: Counter,
}

impl Meters {
    /// Describes the metrics, and registers those of a purgatory, so that they are present from the first scrape.
    pub(crate) fn new(purgatory: &str, timer: &str) -> Self {
        for Metric { name, kind, unit, help, .. } in CATALOGUE.iter().copied() {
            match kind {
                Kind::Counter => metrics::describe_counter!(name, unit, help),
                _ => metrics::describe_gauge!(name, unit, help),
            }
        }
        let labels = [("timer", timer.to_owned()), ("purgatory", purgatory.to_owned())];
        Self {
            watched: gauge!(WATCHED.name, &labels),
            delayed: gauge!(DELAYED.name, &labels),
            completed: counter!(COMPLETED.name, &labels),
            expired: counter!(EXPIRED.name, &labels),
        }
    }

    /// Counts the end of a request.
    pub(crate) fn count(&self, end: End) {
        match end {
            End::Completed => self.completed.increment(1),
            End::Expired => self.expired.increment(1),
            End::Cancelled | End::Closed | End::Panicked | End::Dropped => {}
        }
    }
}

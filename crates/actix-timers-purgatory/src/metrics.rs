//! Metrics of purgatories.
//!
//! They are registered with the recorder that is installed when the purgatory starts, and updated at each event. The
//! recorder is foreign code: its panics are contained.

use actix_timers::integration::{contain, counter, describe, gauge};
use actix_timers::metrics::Metric;
use metrics::{Counter, Gauge, Unit, counter, gauge};

use crate::attempt::End;

const WATCHED: Metric =
    gauge("actix_timers_purgatory_watched", Unit::Count, &["purgatory"], "Watchers: the keys of each waiting request");
const DELAYED: Metric = gauge(
    "actix_timers_purgatory_delayed",
    Unit::Count,
    &["purgatory"],
    "Requests that wait for their condition or time-out",
);
const ENDED: Metric = counter(
    "actix_timers_purgatory_ended_total",
    &["purgatory", "outcome"],
    "Requests ended: completed by their condition, expired, cancelled, closed, panicked, dropped (with their \
     future), or full (refused: the capacity is used up)",
);

/// All metrics of purgatories. They have the labels `purgatory`, the name of the purgatory, and `timer`, that of its
/// timer actor.
pub const CATALOGUE: &[Metric] = &[WATCHED, DELAYED, ENDED];

/// The outcomes, in the order of [`End`].
const OUTCOMES: [&str; 7] = ["completed", "expired", "cancelled", "closed", "panicked", "dropped", "full"];

/// The handles of one purgatory.
pub(crate) struct Meters {
    watched: Gauge,
    delayed: Gauge,
    ended: [Counter; OUTCOMES.len()],
}

impl Meters {
    /// Describes the metrics, and registers those of a purgatory, so that they are present from the first scrape.
    pub(crate) fn new(purgatory: &str, timer: &str) -> Self {
        describe(CATALOGUE);
        let labels = [("timer", timer.to_owned()), ("purgatory", purgatory.to_owned())];
        let ended = |outcome: &'static str| {
            let [timer, purgatory] = labels.clone();
            counter!(ENDED.name, &[timer, purgatory, ("outcome", outcome.to_owned())])
        };
        Self {
            watched: gauge!(WATCHED.name, &labels),
            delayed: gauge!(DELAYED.name, &labels),
            ended: OUTCOMES.map(ended),
        }
    }

    /// Counts the end of a request, or its refusal.
    pub(crate) fn count(&self, end: End) {
        _ = contain(|| self.ended[end as usize].increment(1));
    }

    /// Adds a number, which may be negative, to the watchers.
    pub(crate) fn add_watched(&self, watchers: f64) {
        _ = contain(|| self.watched.increment(watchers));
    }

    /// Adds a number, which may be negative, to the requests that wait.
    pub(crate) fn add_delayed(&self, requests: f64) {
        _ = contain(|| self.delayed.increment(requests));
    }
}

//! The metric handles of durable timers, and how they are fed.
//!
//! As with timer actors: histograms are recorded as events happen; everything else is published together, from
//! counts and levels of our own. The recorder is user code: a panic of it is caught, and its metrics miss an update.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_timers::integration::{Level, PublishPass, Tally, contain, describe};
use actix_timers::metrics::Metric;
use metrics::{Gauge, Histogram, Label, counter, gauge, histogram};

use super::catalogue::{self as names, CATALOGUE};
use crate::due_time::DueTime;
use crate::store::{Counts, Delivery, Next, StoreGauges};

/// Defines the counted events, each with its series: the metric, and the value of the label that it has of its own, if any.
macro_rules! events {
    ($($event:ident => $metric:ident, $label:literal;)+) => {
        /// Events that are counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Counted {
            $($event),+
        }

        /// The series of each event, in the order of [`Counted`].
        const COUNTERS: &[(Counted, Metric, &str)] = &[$((Counted::$event, names::$metric, $label)),+];
    };
}

events! {
    // A timer was stored.
    Scheduled => DURABLE_SCHEDULED, "";
    // A timer was moved to another due time on request.
    Rescheduled => DURABLE_RESCHEDULED, "";
    // A timer was cancelled or replaced.
    Cancelled => DURABLE_CANCELLED, "";
    // A request to schedule was answered with the timer that has its key.
    Duplicate => DUPLICATES_SUPPRESSED, "";
    // A dead letter was discarded because of its age.
    Expired => DURABLE_EXPIRED, "";
    // A claimed timer was overdue or being delivered at the start.
    Recovered => RECOVERED, "";
    // A due timer was asked for.
    Claimed => STORE_CLAIMS, "";
    // It was not there any more.
    ClaimedInVain => STORE_CLAIMS_EMPTY, "";
    // The row of an ended delivery was gone, or another's.
    EndLost => STORE_ENDS_LOST, "";
    // A delivery has ended: the handler succeeded.
    Complete => DURABLE_DELIVERIES, "complete";
    // A delivery has ended, and another attempt follows.
    Retry => DURABLE_DELIVERIES, "retry";
    // A delivery has ended, and the handler wants the message again later.
    Snoozed => DURABLE_DELIVERIES, "snoozed";
    // A delivery has ended: the timer has failed for good.
    DeadLetter => DURABLE_DELIVERIES, "dead_letter";
    // A delivery has ended: the route has no recipient.
    Undelivered => DURABLE_DELIVERIES, "undelivered";
    // A delivery has ended: the payload cannot be decoded.
    Parked => DURABLE_DELIVERIES, "parked";
    // A group of changes could not be committed.
    CommitFailed => STORE_ERRORS, "commit";
    // A look for timers that will be due soon has failed.
    LookFailed => STORE_ERRORS, "load";
    // A query has failed.
    QueryFailed => STORE_ERRORS, "read";
    // A row is damaged.
    Damaged => STORE_ERRORS, "decode";
    // The lease of the node could not be renewed.
    BeatFailed => STORE_ERRORS, "lease";
    // The store could not be copied.
    BackUpFailed => STORE_ERRORS, "back_up";
}

impl Counted {
    /// Returns the end of a delivery.
    pub(crate) fn end(delivery: Delivery, next: &Next) -> Self {
        match next.split().0 {
            Next::Delete | Next::KeepKey(_) => Self::Complete,
            Next::Again(again) if again.repetition != delivery.repetition => Self::Complete,
            Next::Again(_) | Next::Release | Next::Noted(..) => Self::Retry,
            Next::Dead { .. } => Self::DeadLetter,
            Next::Park { .. } => Self::Parked,
            Next::GiveBack => Self::Undelivered,
            Next::Snooze(_) => Self::Snoozed,
        }
    }
}

/// The progress of the deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Timers in memory.
    pub(crate) loaded: u64,
    /// Deliveries that have begun.
    pub(crate) in_flight: u64,
    /// The first due time of a timer in memory that is not with its handler.
    pub(crate) first_due: Option<DueTime>,
    /// The time up to which all timers are known.
    pub(crate) known_until: DueTime,
    /// Paused routes, and the paused node.
    pub(crate) paused: u64,
    /// Whether the node itself is paused.
    pub(crate) is_paused: bool,
}

/// The last known values of the gauges.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Levels {
    /// The timers on disk.
    pub(crate) counts: Counts,
    /// The lateness of the first one when they were counted: those of a route without a recipient are not in memory.
    pub(crate) overdue: Duration,
    pub(crate) progress: Progress,
    /// Whether the store has failed: it acknowledges no more changes.
    pub(crate) has_failed: bool,
    pub(crate) store: StoreGauges,
    /// The wait of the oldest request for its commit.
    lag: Duration,
    /// The wall-clock time at which they are published.
    now: DueTime,
}

/// A value of the levels.
type Value<T> = fn(&Levels) -> T;

/// Gauges of which several durable timers of one name show the sum.
const SUMS: &[(Metric, Value<u64>)] = &[
    (names::STORE_PENDING, |levels| levels.counts.pending),
    (names::STORE_PARKED, |levels| levels.counts.parked),
    (names::STORE_DEAD_LETTERS, |levels| levels.counts.dead),
    (names::STORE_INTERRUPTED, |levels| levels.store.interrupted),
    (names::STORE_LOADED, |levels| levels.progress.loaded),
    (names::STORE_IN_FLIGHT, |levels| levels.progress.in_flight),
    (names::STORE_PAUSED, |levels| levels.progress.paused),
];

const GAUGES: &[(Metric, Value<f64>)] = &[
    (names::STORE_LOADED_AHEAD, |levels| levels.progress.known_until.saturating_since(levels.now).as_secs_f64()),
    (names::STORE_LAG, |levels| levels.lag.as_secs_f64()),
    (names::STORE_OVERDUE, |levels| {
        let in_memory = levels.progress.first_due.map_or(Duration::ZERO, |due| levels.now.saturating_since(due));
        // Those of a paused node are to wait.
        let stored = if levels.progress.is_paused { Duration::ZERO } else { levels.overdue };
        in_memory.max(stored).as_secs_f64()
    }),
    (names::STORE_FAILED, |levels| f64::from(u8::from(levels.has_failed))),
    (names::STORE_LOG, |levels| levels.store.log_bytes as f64),
    (names::STORE_OLDEST_READER, |levels| levels.store.log_held.as_secs_f64()),
];

/// The metrics of one store of durable timers.
pub(crate) struct DurableMeters {
    lateness: Histogram,
    write: Histogram,
    look: Histogram,
    group: Histogram,
    counts: [AtomicU64; COUNTERS.len()],
    board: Mutex<Board>,
}

struct Board {
    counters: Vec<Tally>,
    sums: Vec<Level>,
    gauges: Vec<Gauge>,
    levels: Levels,
    /// The store is closed: all gauges are zero.
    is_closed: bool,
}

impl DurableMeters {
    /// Registers all metrics for the durable timers with this name, so that they exist, as zero, from the first scrape.
    pub(crate) fn register(timer: &str) -> Self {
        describe(CATALOGUE);
        let timer = || Label::new("timer", timer.to_owned());
        let counter = |(_, metric, value): &(Counted, Metric, &'static str)| {
            let own = metric.labels.iter().map(|name| Label::new(*name, *value));
            Tally::new(counter!(metric.name, std::iter::once(timer()).chain(own).collect::<Vec<_>>()))
        };
        let histogram = |metric: Metric| histogram!(metric.name, vec![timer()]);
        let meters = Self {
            lateness: histogram(names::DURABLE_LAG),
            write: histogram(names::STORE_WRITE),
            look: histogram(names::STORE_LOOK),
            group: histogram(names::STORE_GROUP),
            counts: [const { AtomicU64::new(0) }; COUNTERS.len()],
            board: Mutex::new(Board {
                counters: COUNTERS.iter().map(counter).collect(),
                sums: SUMS.iter().map(|(metric, _)| Level::new(gauge!(metric.name, vec![timer()]))).collect(),
                gauges: GAUGES.iter().map(|(metric, _)| gauge!(metric.name, vec![timer()])).collect(),
                levels: Levels::default(),
                is_closed: false,
            }),
        };
        meters.show(Duration::ZERO, DueTime::MIN);
        meters
    }

    /// Counts an event that has happened this often.
    pub(crate) fn count(&self, event: Counted, times: usize) {
        self.counts[event as usize].fetch_add(times as u64, Ordering::Relaxed);
    }

    /// Records a commit: its number of requests and its duration.
    pub(crate) fn wrote(&self, requests: usize, took: Duration) {
        let _ = contain(|| {
            self.write.record(took.as_secs_f64());
            self.group.record(requests as f64);
        });
    }

    /// Records a look.
    pub(crate) fn looked(&self, took: Duration) {
        let _ = contain(|| self.look.record(took.as_secs_f64()));
    }

    /// Records the lateness of a delivery.
    pub(crate) fn delivered(&self, late: Duration) {
        let _ = contain(|| self.lateness.record(late.as_secs_f64()));
    }

    /// Changes the levels to publish.
    pub(crate) fn levels<R>(&self, change: impl FnOnce(&mut Levels) -> R) -> R {
        change(&mut self.board().levels)
    }

    /// Publishes all values.
    pub(crate) fn publish(&self, lag: Duration, now: DueTime, _: &PublishPass) {
        self.show(lag, now);
    }

    /// Publishes the last values, when the store is closed.
    pub(crate) fn close(&self) {
        let was_closed = std::mem::replace(&mut self.board().is_closed, true);
        if !was_closed {
            self.show(Duration::ZERO, DueTime::MIN);
        }
    }

    fn show(&self, lag: Duration, now: DueTime) {
        let _ = contain(|| {
            let Board { counters, sums, gauges, levels, is_closed } = &mut *self.board();
            let levels = if *is_closed { Levels::default() } else { Levels { lag, now, ..*levels } };
            let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
            counters.iter_mut().zip(counts).for_each(|(tally, count)| _ = tally.show(count));
            sums.iter_mut().zip(SUMS).for_each(|(sum, (_, value))| sum.show(value(&levels)));
            gauges.iter().zip(GAUGES).for_each(|(gauge, (_, value))| gauge.set(value(&levels)));
        });
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    /// Returns the value of the series with this name and these labels beside that of the timer.
    fn value(page: &str, name: &str, label: &str) -> Option<f64> {
        let start = format!("{name}{{timer=\"T\"{label}}} ");
        page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok())
    }

    #[test]
    fn all_is_there_as_zero_from_the_first_scrape() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T"));
        let page = recorder.handle().render();
        for metric in CATALOGUE {
            assert!(page.contains(&format!("# TYPE {} ", metric.name)), "{}", metric.name);
        }
        let series: Vec<_> = page.lines().filter(|line| line.starts_with("actix_timers_")).collect();
        let plain = series.iter().filter(|line| !line.contains("quantile")).count();
        assert_eq!(plain, SUMS.len() + GAUGES.len() + COUNTERS.len() + 4 * 2, "{page}");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "{page}");
    }

    #[test]
    fn everything_reported_is_published_under_its_name_and_labels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || DurableMeters::register("T"));
        let times = (1..=4).chain([26, 5]).chain(27..=29).chain([7, 8, 32]).chain(9..=17);
        COUNTERS.iter().zip(times).for_each(|((event, ..), times)| meters.count(*event, times));
        let (lag, now) = (Duration::from_secs(24), DueTime::from_millis(100_000).unwrap());
        meters.levels(|levels| {
            levels.counts = Counts { pending: 18, parked: 19, dead: 20, finished: 0, is_limited: false };
            levels.progress = Progress {
                loaded: 21,
                in_flight: 22,
                first_due: Some(DueTime::from_millis(75_000).unwrap()),
                known_until: DueTime::from_millis(123_000).unwrap(),
                paused: 33,
                is_paused: false,
            };
            levels.has_failed = true;
            levels.store = StoreGauges { log_bytes: 30, log_held: Duration::from_secs(31), interrupted: 6 };
        });
        // Published twice, counted once.
        meters.show(lag, now);
        meters.show(lag, now);
        meters.wrote(4, Duration::from_secs(2));
        meters.delivered(Duration::from_secs(3));
        meters.looked(Duration::from_secs(5));
        let page = recorder.handle().render();
        let labelled =
            |metric: actix_timers::metrics::Metric, label: &str, value: &str| (metric, format!(",{label}=\"{value}\""));
        let outcome = |value| labelled(names::DURABLE_DELIVERIES, "outcome", value);
        let op = |value| labelled(names::STORE_ERRORS, "op", value);
        let expected = [
            (names::DURABLE_SCHEDULED, String::new()),
            (names::DURABLE_RESCHEDULED, String::new()),
            (names::DURABLE_CANCELLED, String::new()),
            (names::DUPLICATES_SUPPRESSED, String::new()),
            (names::RECOVERED, String::new()),
            (names::STORE_INTERRUPTED, String::new()),
            outcome("complete"),
            outcome("retry"),
            outcome("dead_letter"),
            outcome("undelivered"),
            outcome("parked"),
            op("commit"),
            op("load"),
            op("read"),
            op("decode"),
            op("lease"),
            op("back_up"),
            (names::STORE_PENDING, String::new()),
            (names::STORE_PARKED, String::new()),
            (names::STORE_DEAD_LETTERS, String::new()),
            (names::STORE_LOADED, String::new()),
            (names::STORE_IN_FLIGHT, String::new()),
            (names::STORE_LOADED_AHEAD, String::new()),
            (names::STORE_LAG, String::new()),
            (names::STORE_OVERDUE, String::new()),
            (names::DURABLE_EXPIRED, String::new()),
            (names::STORE_CLAIMS, String::new()),
            (names::STORE_CLAIMS_EMPTY, String::new()),
            (names::STORE_ENDS_LOST, String::new()),
            (names::STORE_LOG, String::new()),
            (names::STORE_OLDEST_READER, String::new()),
            outcome("snoozed"),
            (names::STORE_PAUSED, String::new()),
        ];
        for (number, (metric, label)) in (1u32..).zip(expected) {
            assert_eq!(value(&page, metric.name, &label), Some(f64::from(number)), "{}{label}", metric.name);
        }
        assert_eq!(value(&page, names::STORE_FAILED.name, ""), Some(1.0));
        for (metric, sum) in
            [(names::STORE_WRITE, 2.0), (names::STORE_GROUP, 4.0), (names::DURABLE_LAG, 3.0), (names::STORE_LOOK, 5.0)]
        {
            assert_eq!(value(&page, &format!("{}_sum", metric.name), ""), Some(sum), "{}", metric.name);
        }
    }

    #[test]
    fn the_catalogue_names_all_values_of_labels() {
        let has =
            |help: &str, word: &str| help.split(|c: char| !c.is_alphanumeric() && c != '_').any(|had| had == word);
        for (number, (event, metric, label)) in COUNTERS.iter().enumerate() {
            assert_eq!(*event as usize, number, "the counters are in the order of the events");
            assert_eq!(metric.labels.is_empty(), label.is_empty(), "{event:?}");
            assert!(label.is_empty() || has(metric.help, label), "{event:?}");
        }
    }
}

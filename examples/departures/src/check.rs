//! Compares the log with the messages expected from the file: each message once, and none early.
//!
//! The expectation comes from the file alone, and only the logs come from the airports. After a crash between a handler
//! and the commit of its completion, a durable timer delivers its message again, as a later attempt.

use std::collections::{BTreeMap, HashMap};

use actix_timers::{CancelOutcome, Counters, RescheduleOutcome};
use jiff::{SignedDuration, Timestamp};

use crate::flight::{BOARDING, CANCELLATION_KNOWN, DELAY_KNOWN, Flight, Outcome};
use crate::log::{Entry, Event, Log};
use crate::replay::Airports;

/// The deliveries at one airport, or at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) flights: u64,
    pub(crate) calls: u64,
    pub(crate) cancelled: u64,
    pub(crate) rescheduled: u64,
    /// Repeated deliveries of handled messages.
    pub(crate) repeated: u64,
    /// The largest delay of a message behind its deadline.
    pub(crate) latest_lag: SignedDuration,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.flights += other.flights;
        self.calls += other.calls;
        self.cancelled += other.cancelled;
        self.rescheduled += other.rescheduled;
        self.repeated += other.repeated;
        self.latest_lag = self.latest_lag.max(other.latest_lag);
    }
}

/// The deadlines of one flight's messages; `None` where no message may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    call: Option<Timestamp>,
    cancellation: Option<Timestamp>,
    delay: Option<Timestamp>,
}

impl Expected {
    fn of(flight: &Flight) -> Self {
        let scheduled = flight.scheduled;
        match flight.outcome {
            Outcome::Cancelled => Self { call: None, cancellation: Some(scheduled - CANCELLATION_KNOWN), delay: None },
            Outcome::Departed(at) if at > scheduled => {
                Self { call: Some(at - BOARDING), cancellation: None, delay: Some(scheduled - DELAY_KNOWN) }
            }
            Outcome::Departed(_) => Self { call: Some(scheduled - BOARDING), cancellation: None, delay: None },
        }
    }
}

/// One delivery of a message.
#[derive(Debug, Clone, Copy)]
struct Came {
    at: Timestamp,
    attempt: u32,
}

/// One kind of message for one flight, with its deadline and deliveries.
struct Message<'a> {
    kind: &'static str,
    flight: &'a Flight,
    due: Option<Timestamp>,
    came: &'a [Came],
}

impl Message<'_> {
    /// Returns the deviation from the expectation, if any.
    fn problem(&self) -> Option<String> {
        let Self { kind, flight, due, came } = self;
        let problem = match (due, *came) {
            (None, []) => return None,
            (None, [Came { at, .. }, ..]) => format!("came at {at}, but there must not be one"),
            (Some(due), []) => format!("due at {due}, was lost"),
            (Some(due), all) => match all.iter().find(|came| came.at < *due) {
                Some(Came { at, .. }) => format!("due at {due}, came early, at {at}"),
                None if all.is_sorted_by(|one, next| one.attempt < next.attempt) => return None,
                None => format!("due at {due}, came {} times, as attempts {}", all.len(), self.attempts()),
            },
        };
        Some(format!("{flight}: the {kind}, {problem}"))
    }

    /// Returns the attempts, if there was more than one.
    fn repetition(&self) -> Option<String> {
        let Self { kind, flight, came, .. } = self;
        (came.len() > 1).then(|| format!("{flight}: the {kind}, as attempts {}", self.attempts()))
    }

    fn attempts(&self) -> String {
        self.came.iter().map(|came| came.attempt.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the delay of the first delivery behind the deadline.
    fn lag(&self) -> SignedDuration {
        let lags = self.came.iter().filter_map(|came| Some(came.at.duration_since(self.due?)));
        lags.min().unwrap_or_default()
    }
}

/// The deliveries for one flight.
#[derive(Debug, Clone, Default)]
struct Happened {
    called: Vec<Came>,
    cancelled: Vec<Came>,
    rescheduled: Vec<Came>,
}

/// The findings for an airport, or for all.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Deviations from the expectation.
    pub(crate) problems: Vec<String>,
    /// Messages that were handled more than once, with their attempts.
    pub(crate) repetitions: Vec<String>,
}

/// Checks the log against all flights. Adds its findings to `findings`, and returns the tally of each airport.
pub(crate) fn deliveries(airports: &Airports, log: &Log, findings: &mut Findings) -> BTreeMap<String, Tally> {
    let Findings { problems, repetitions } = findings;
    let flights = airports.values().flat_map(|flights| flights.iter());
    let mut all: HashMap<usize, (&Flight, Happened)> =
        flights.map(|flight| (flight.line, (flight, Happened::default()))).collect();
    for entry in log {
        let Some((flight, happened)) = all.get_mut(&entry.flight) else {
            problems.push(format!("{entry:?} is about a flight that does not exist"));
            continue;
        };
        let came = match entry.event {
            Event::Called => &mut happened.called,
            Event::Cancelled(_) => &mut happened.cancelled,
            Event::Rescheduled(_) => &mut happened.rescheduled,
        };
        came.push(Came { at: entry.at, attempt: entry.attempt });
        problems.extend(rejection(entry).map(|answer| format!("{flight}: {answer}")));
    }
    let mut tallies = BTreeMap::new();
    for (name, flights) in airports {
        let mut tally = Tally { flights: flights.len() as u64, ..Tally::default() };
        for (flight, happened) in flights.iter().map(|flight| &all[&flight.line]) {
            let expected = Expected::of(flight);
            for (kind, due, came, count) in [
                ("boarding call", expected.call, &happened.called, &mut tally.calls),
                ("cancellation", expected.cancellation, &happened.cancelled, &mut tally.cancelled),
                ("news of the delay", expected.delay, &happened.rescheduled, &mut tally.rescheduled),
            ] {
                let message = Message { kind, flight, due, came };
                *count += u64::from(!came.is_empty());
                tally.repeated += came.len().saturating_sub(1) as u64;
                problems.extend(message.problem());
                repetitions.extend(message.repetition());
                tally.latest_lag = tally.latest_lag.max(message.lag());
            }
        }
        tallies.insert(name.clone(), tally);
    }
    tallies
}

/// Returns the outcome of the cancel or reschedule if it is not the expected one.
fn rejection(entry: &Entry) -> Option<String> {
    match entry.event {
        // An earlier attempt cancelled it and died before it could write that down.
        Event::Cancelled(CancelOutcome::NotFound) if entry.attempt > 1 => None,
        Event::Called | Event::Cancelled(CancelOutcome::Cancelled) => None,
        Event::Rescheduled(RescheduleOutcome::Rescheduled) => None,
        Event::Cancelled(answer) => Some(format!("the cancel of its boarding call was answered {answer:?}")),
        Event::Rescheduled(answer) => Some(format!("the reschedule of its boarding call was answered {answer:?}")),
    }
}

/// Returns the totals expected from the file.
pub(crate) fn expected_totals(flights: &[Flight]) -> Tally {
    let mut tally = Tally::default();
    for expected in flights.iter().map(Expected::of) {
        tally.flights += 1;
        tally.calls += u64::from(expected.call.is_some());
        tally.cancelled += u64::from(expected.cancellation.is_some());
        tally.rescheduled += u64::from(expected.delay.is_some());
    }
    tally
}

/// Checks the totals against the expected ones.
pub(crate) fn totals(found: &Tally, expected: &Tally, problems: &mut Vec<String>) {
    for (name, found, wanted) in [
        ("flights", found.flights, expected.flights),
        ("boarding calls", found.calls, expected.calls),
        ("cancellations", found.cancelled, expected.cancelled),
        ("delays", found.rescheduled, expected.rescheduled),
    ] {
        if found != wanted {
            problems.push(format!("in total {found} {name}, by the file there must be {wanted}"));
        }
    }
}

/// Checks the final counters of the timer actor against the totals expected from the file.
pub(crate) fn counters(counters: &Counters, expected: &Tally, problems: &mut Vec<String>) {
    let news = expected.cancelled + expected.rescheduled;
    for (name, found, wanted) in [
        ("accepted", counters.accepted, expected.flights + news),
        ("delivered", counters.delivered, expected.calls + news),
        ("cancelled", counters.cancelled, expected.cancelled),
        ("rescheduled", counters.rescheduled, expected.rescheduled),
        ("dead letters", counters.dead_lettered(), 0),
        ("returned", counters.returned, 0),
        ("pending", counters.pending, 0),
    ] {
        if found != wanted {
            problems.push(format!("the timer actor has {found} timers as {name}, by the file there must be {wanted}"));
        }
    }
    if !counters.balance() {
        problems.push(format!("the counters of the timer actor do not balance: {counters:?}"));
    }
}

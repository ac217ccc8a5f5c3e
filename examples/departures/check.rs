//! Compares what happened with what must happen by the file: each message once, and none early.
//!
//! The file alone says what is expected; nothing is taken from the airports but their logs.

use actix_timers::engine::Accounts;
use actix_timers::{CancelOutcome, RescheduleOutcome};
use jiff::{SignedDuration, Timestamp};

use crate::flight::{BOARDING, CANCELLATION_KNOWN, DELAY_KNOWN, Flight, Outcome};
use crate::log::{Event, Log};

/// What happened at one airport, or at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) flights: u64,
    pub(crate) calls: u64,
    pub(crate) cancelled: u64,
    pub(crate) rescheduled: u64,
    /// The most that any message came after its time.
    pub(crate) latest_lag: SignedDuration,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.flights += other.flights;
        self.calls += other.calls;
        self.cancelled += other.cancelled;
        self.rescheduled += other.rescheduled;
        self.latest_lag = self.latest_lag.max(other.latest_lag);
    }
}

/// When the messages for one flight are due; `None` where there must not be one.
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

/// One kind of message for one flight: when it was due and when it came.
struct Message<'a> {
    kind: &'static str,
    flight: &'a Flight,
    due: Option<Timestamp>,
    came: Vec<Timestamp>,
}

impl Message<'_> {
    /// What is wrong with it, if anything.
    fn problem(&self) -> Option<String> {
        let Self { kind, flight, due, came } = self;
        let problem = match (due, came.as_slice()) {
            (None, []) => return None,
            (None, [at, ..]) => format!("came at {at}, but there must not be one"),
            (Some(due), []) => format!("due at {due}, was lost"),
            (Some(due), [at]) if at < due => format!("due at {due}, came early, at {at}"),
            (Some(_), [_]) => return None,
            (Some(due), all) => format!("due at {due}, came {} times", all.len()),
        };
        Some(format!("{flight}: the {kind}, {problem}"))
    }

    fn lag(&self) -> SignedDuration {
        let lags = self.came.iter().filter_map(|came| Some(came.duration_since(self.due?)));
        lags.max().unwrap_or_default()
    }
}

/// What happened for one flight.
#[derive(Debug, Clone, Default)]
struct Happened {
    called: Vec<Timestamp>,
    cancelled: Vec<Timestamp>,
    rescheduled: Vec<Timestamp>,
}

/// Checks the log of an airport against its flights. Adds what is wrong to `problems`.
pub(crate) fn airport(flights: &[Flight], log: &Log, problems: &mut Vec<String>) -> Tally {
    let mut happened = vec![Happened::default(); flights.len()];
    for entry in log {
        let (Some(happened), Some(flight)) = (happened.get_mut(entry.flight), flights.get(entry.flight)) else {
            problems.push(format!("{entry:?} is about a flight that does not exist"));
            continue;
        };
        let came = match entry.event {
            Event::Called => &mut happened.called,
            Event::Cancelled(_) => &mut happened.cancelled,
            Event::Rescheduled(_) => &mut happened.rescheduled,
        };
        came.push(entry.at);
        problems.extend(refusal(entry.event).map(|answer| format!("{flight}: {answer}")));
    }
    let mut tally = Tally { flights: flights.len() as u64, ..Tally::default() };
    for (flight, happened) in flights.iter().zip(happened) {
        tally.calls += happened.called.len() as u64;
        tally.cancelled += happened.cancelled.len() as u64;
        tally.rescheduled += happened.rescheduled.len() as u64;
        let expected = Expected::of(flight);
        for (kind, due, came) in [
            ("boarding call", expected.call, happened.called),
            ("cancellation", expected.cancellation, happened.cancelled),
            ("news of the delay", expected.delay, happened.rescheduled),
        ] {
            let message = Message { kind, flight, due, came };
            problems.extend(message.problem());
            tally.latest_lag = tally.latest_lag.max(message.lag());
        }
    }
    tally
}

/// How the timer actor answered, if it did not do what was asked for.
fn refusal(event: Event) -> Option<String> {
    match event {
        Event::Called | Event::Cancelled(CancelOutcome::Cancelled) => None,
        Event::Rescheduled(RescheduleOutcome::Rescheduled) => None,
        Event::Cancelled(answer) => Some(format!("the cancel of its boarding call was answered {answer:?}")),
        Event::Rescheduled(answer) => Some(format!("the reschedule of its boarding call was answered {answer:?}")),
    }
}

/// The totals by the file alone.
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

/// Checks the totals against those by the file.
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

/// Checks the books of the timer actor at the end against the totals by the file.
pub(crate) fn accounts(accounts: &Accounts, expected: &Tally, problems: &mut Vec<String>) {
    let news = expected.cancelled + expected.rescheduled;
    for (name, found, wanted) in [
        ("accepted", accounts.accepted, expected.flights + news),
        ("delivered", accounts.delivered, expected.calls + news),
        ("cancelled", accounts.cancelled, expected.cancelled),
        ("rescheduled", accounts.rescheduled, expected.rescheduled),
        ("dead letters", accounts.dead_lettered(), 0),
        ("returned", accounts.returned, 0),
        ("pending", accounts.pending, 0),
    ] {
        if found != wanted {
            problems.push(format!("the timer actor has {found} timers as {name}, by the file there must be {wanted}"));
        }
    }
    if !accounts.balance() {
        problems.push(format!("the books of the timer actor do not balance: {accounts:?}"));
    }
}

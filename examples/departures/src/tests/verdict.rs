//! Tests that the check detects each deviation.

use actix_timers::Counters;
use actix_timers::{CancelOutcome, RescheduleOutcome};
use jiff::{SignedDuration, Timestamp};

use crate::check::{self, Findings, Tally};
use crate::flight::{Flight, Outcome};
use crate::log::{Entry, Event};
use crate::replay::by_origin;

const CANCELLED: Event = Event::Cancelled(CancelOutcome::Cancelled);
const RESCHEDULED: Event = Event::Rescheduled(RescheduleOutcome::Rescheduled);

fn at(time: &str) -> Timestamp {
    format!("2013-07-01T{time}Z").parse().expect("a time")
}

fn flight(line: usize, outcome: Outcome) -> Flight {
    let [carrier, origin, destination] = ["US", "EWR", "CLT"].map(str::to_owned);
    Flight { line, scheduled: at("12:00:00"), outcome, carrier, number: 1431, origin, destination }
}

/// Returns flights that are on time, cancelled, an hour late and early, with a correct log.
fn month() -> (Vec<Flight>, Vec<Entry>) {
    let departed = |line, time| flight(line, Outcome::Departed(at(time)));
    let cancelled = flight(1, Outcome::Cancelled);
    let flights = vec![departed(0, "12:00:00"), cancelled, departed(2, "13:00:00"), departed(3, "11:50:00")];
    let log = vec![
        Entry { flight: 1, event: CANCELLED, at: at("11:00:00"), attempt: 1 },
        Entry { flight: 2, event: RESCHEDULED, at: at("11:15:00"), attempt: 1 },
        Entry { flight: 0, event: Event::Called, at: at("11:30:00"), attempt: 1 },
        Entry { flight: 3, event: Event::Called, at: at("11:30:00"), attempt: 1 },
        Entry { flight: 2, event: Event::Called, at: at("12:30:07"), attempt: 1 },
    ];
    (flights, log)
}

fn findings(change: impl FnOnce(&mut Vec<Entry>)) -> (Tally, Findings) {
    let (flights, mut log) = month();
    change(&mut log);
    let mut findings = Findings::default();
    let tally = check::deliveries(&by_origin(&flights), &log, &mut findings)["EWR"];
    check::totals(&tally, &check::expected_totals(&flights), &mut findings.problems);
    (tally, findings)
}

fn problems(change: impl FnOnce(&mut Vec<Entry>)) -> Vec<String> {
    findings(change).1.problems
}

#[test]
fn all_is_well() {
    let (tally, findings) = findings(|_| ());
    assert_eq!((findings.problems, findings.repetitions), (Vec::new(), Vec::new()));
    let totals = Tally { flights: 4, calls: 3, cancelled: 1, rescheduled: 1, ..Tally::default() };
    assert_eq!(check::expected_totals(&month().0), totals);
    assert_eq!(tally, Tally { latest_lag: SignedDuration::from_secs(7), ..totals });
}

#[test]
fn every_lost_message_is_noticed() {
    for lost in 0..month().1.len() {
        let problems = problems(|log| {
            log.remove(lost);
        });
        assert!(problems.iter().any(|problem| problem.contains("was lost")), "{problems:?}");
    }
}

#[test]
fn every_doubled_message_is_noticed() {
    for doubled in 0..month().1.len() {
        let problems = problems(|log| log.push(log[doubled]));
        assert!(problems.iter().any(|problem| problem.contains("came 2 times")), "{problems:?}");
    }
}

#[test]
fn a_message_repeated_after_a_crash_is_counted_once() {
    for again in 0..month().1.len() {
        let (tally, findings) = findings(|log| {
            log.push(Entry { attempt: 3, ..log[again] });
        });
        assert_eq!(findings.problems, Vec::<String>::new());
        assert_eq!((tally.calls, tally.cancelled, tally.rescheduled, tally.repeated), (3, 1, 1, 1));
        assert_eq!(findings.repetitions.len(), 1);
        assert!(findings.repetitions[0].ends_with(", as attempts 1, 3"), "{:?}", findings.repetitions);
    }
}

#[test]
fn a_cancel_that_an_earlier_attempt_may_have_done_is_no_mistake() {
    let answer = Event::Cancelled(CancelOutcome::NotFound);
    assert_eq!(problems(|log| log[0] = Entry { event: answer, attempt: 2, ..log[0] }), Vec::<String>::new());
}

#[test]
fn every_early_message_is_noticed() {
    for early in 0..month().1.len() - 1 {
        let problems = problems(|log| log[early].at -= SignedDuration::from_nanos(1));
        assert!(problems.iter().any(|problem| problem.contains("came early")), "{problems:?}");
    }
    let not_moved = problems(|log| log[4].at = at("11:30:00"));
    assert!(not_moved.iter().any(|problem| problem.contains("came early")), "{not_moved:?}");
}

#[test]
fn an_unexpected_message_is_reported() {
    for event in [Event::Called, RESCHEDULED] {
        let problems = problems(|log| log.push(Entry { flight: 1, event, at: at("11:30:00"), attempt: 1 }));
        assert!(problems.iter().any(|problem| problem.contains("there must not be one")), "{problems:?}");
    }
    let problems = problems(|log| log.push(Entry { flight: 4, event: Event::Called, at: at("11:30:00"), attempt: 1 }));
    assert!(problems.iter().any(|problem| problem.contains("a flight that does not exist")), "{problems:?}");
}

#[test]
fn a_rejected_cancel_or_reschedule_is_noticed() {
    let problems = problems(|log| {
        log[0].event = Event::Cancelled(CancelOutcome::NotFound);
        log[1].event = Event::Rescheduled(RescheduleOutcome::AlreadyDelivered);
    });
    assert!(problems.iter().any(|problem| problem.contains("answered NotFound")), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.contains("answered AlreadyDelivered")), "{problems:?}");
}

#[test]
fn the_counters_of_the_timer_actor_are_checked() {
    let totals = check::expected_totals(&month().0);
    let mut counters = Counters::default();
    (counters.accepted, counters.delivered, counters.cancelled, counters.rescheduled) = (6, 5, 1, 1);
    let check = |change: fn(&mut Counters)| {
        let (mut counters, mut problems) = (counters, Vec::new());
        change(&mut counters);
        check::counters(&counters, &totals, &mut problems);
        problems.len()
    };
    assert_eq!(check(|_| {}), 0);
    assert_eq!(check(|changed| (changed.pending, changed.delivered) = (1, 4)), 2);
    assert_eq!(check(|changed| changed.accepted = 7), 2, "and they do not balance");
    assert_eq!(check(|changed| changed.rescheduled = 0), 1);
    assert_eq!(check(|changed| (changed.recipient_stopped, changed.delivered) = (1, 4)), 2);
    assert_eq!(check(|changed| (changed.returned, changed.delivered) = (1, 4)), 2);
}

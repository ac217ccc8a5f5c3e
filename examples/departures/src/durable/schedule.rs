//! Schedules the month durably.

use std::sync::Arc;

use actix_timers_durable::{DurableId, DurableMessage, DurableOptions, DurableTimers, Schedule};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::clock::StepClock;
use super::messages::{BoardingCall, Cancellation, Delay};
use crate::flight::{BOARDING, CANCELLATION_KNOWN, DELAY_KNOWN, Outcome};
use crate::replay::Airports;

/// Schedules the boarding calls of all flights, and the news of their delays and cancellations. All requests run at
/// once, so that many share a commit.
///
/// It can be repeated after an earlier start was killed: each timer has a key, and while time stands still none
/// completes, so existing timers are found.
///
/// # Errors
/// The rejection of the store.
pub(super) async fn all(timers: &DurableTimers, clock: &StepClock, airports: &Airports) -> Result<(), String> {
    let mut under_way = JoinSet::new();
    let mut calls = JoinSet::new();
    for (airport, flights) in airports {
        for (flight, facts) in flights.iter().enumerate() {
            let due = clock.due_at(facts.scheduled - BOARDING);
            let call = schedule(timers, airport, facts.line, due, BoardingCall { flight });
            let flights = Arc::clone(flights);
            let airport = airport.clone();
            calls.spawn(async move { call.await.map(|call| (airport, flights, flight, call)) });
        }
    }
    while let Some(call) = calls.join_next().await {
        let (airport, flights, flight, call) = call.map_err(|why| why.to_string())??;
        let Some(facts) = flights.get(flight) else { continue };
        let (line, scheduled) = (facts.line, facts.scheduled);
        if facts.outcome == Outcome::Cancelled {
            let news = Cancellation { flight, call };
            under_way.spawn(schedule(timers, &airport, line, clock.due_at(scheduled - CANCELLATION_KNOWN), news));
        } else if let Some(departs) = facts.late_departure() {
            let news = Delay { flight, call, departs: departs.into() };
            under_way.spawn(schedule(timers, &airport, line, clock.due_at(scheduled - DELAY_KNOWN), news));
        }
    }
    while let Some(news) = under_way.join_next().await {
        news.map_err(|why| why.to_string())??;
    }
    Ok(())
}

/// Schedules a message about the flight of a line, unless it exists already.
fn schedule<M: DurableMessage>(
    timers: &DurableTimers,
    airport: &str,
    line: usize,
    at: Timestamp,
    message: M,
) -> impl Future<Output = Result<DurableId, String>> + Send + use<M> {
    let key = DurableOptions::new().if_absent(format!("{} of line {line}", M::NAME));
    let scheduling = timers.schedule(Schedule::at(airport, at, message).options(key));
    async move {
        let scheduled = scheduling.await.map_err(|rejected| format!("the {} of line {line}: {rejected}", M::NAME))?;
        Ok(scheduled.id())
    }
}

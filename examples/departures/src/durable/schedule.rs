//! Schedules the month durably.

use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::{
    DurableError, DurableId, DurableMessage, DurableOptions, DurableTimers, Schedule, StoreError,
};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::clock::StepClock;
use super::messages::{BoardingCall, Cancellation, Delay};
use crate::flight::{BOARDING, CANCELLATION_KNOWN, DELAY_KNOWN, Outcome};
use crate::replay::Airports;

/// Repeats of a request, and the time between them: a server may be away for half a minute.
const REPEATS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(500);

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

/// Schedules a message about the flight of a line, unless it exists already. While the store cannot be reached, or has not
/// replied, the request is repeated: its key makes that safe.
fn schedule<M: DurableMessage>(
    timers: &DurableTimers,
    airport: &str,
    line: usize,
    at: Timestamp,
    mut message: M,
) -> impl Future<Output = Result<DurableId, String>> + Send + use<M> {
    let (timers, airport) = (timers.clone(), airport.to_owned());
    async move {
        let mut repeats = 0..REPEATS;
        loop {
            let key = DurableOptions::new().if_absent(format!("{} of line {line}", M::NAME));
            let rejected = match timers.schedule(Schedule::at(&airport, at, message).options(key)).await {
                Ok(scheduled) => return Ok(scheduled.id()),
                Err(rejected) => rejected,
            };
            if !is_passing(&rejected.reason) || repeats.next().is_none() {
                return Err(format!("the {} of line {line}: {rejected}", M::NAME));
            }
            message = rejected.into_message();
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_passing(reason: &DurableError) -> bool {
    matches!(reason, DurableError::Store(error)
        if matches!(**error, StoreError::Unavailable(_) | StoreError::Unknown(_) | StoreError::Locked))
}

//! The replay: a timer actor on the clock of the replay, an actor per airport, and the wait for the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{Snapshot, TimerActor, Timers};
use jiff::{SignedDuration, Timestamp};

use crate::airport::{Airport, Close, Open};
use crate::clock::{ReplayClock, Speed};
use crate::flight::Flight;
use crate::log::Log;
use crate::progress::Progress;

/// The time from the start of the clock to the first event.
pub(crate) const RUN_UP: SignedDuration = SignedDuration::from_secs(1);
/// Flights by their origin.
pub(crate) type Airports = BTreeMap<String, Arc<[Flight]>>;

/// The outcome of a replay.
pub(crate) struct Replay {
    /// The log of all airports.
    pub(crate) log: Log,
    /// The timer actor after everything was scheduled.
    pub(crate) opened: Snapshot,
    /// The timer actor at the end.
    pub(crate) closed: Snapshot,
    /// The time from the first schedule to the last handler.
    pub(crate) took: Duration,
}

/// The times of the first and the last event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Span {
    /// Returns the span of the flights; `None` if there are none.
    pub(crate) fn of(flights: &[Flight]) -> Option<Self> {
        let first = flights.iter().map(Flight::first_event).min()?;
        let last = flights.iter().map(Flight::last_event).max()?;
        Some(Self { first, last })
    }
}

pub(crate) fn by_origin(flights: &[Flight]) -> Airports {
    let mut airports: BTreeMap<String, Vec<Flight>> = BTreeMap::new();
    for flight in flights {
        airports.entry(flight.origin.clone()).or_default().push(flight.clone());
    }
    airports.into_iter().map(|(origin, flights)| (origin, flights.into())).collect()
}

/// Replays all flights: in virtual time, as fast as possible, unless a speed is given.
///
/// # Errors
/// Names the reason why the actors could not work.
pub(crate) fn run(
    airports: &Airports,
    span: Span,
    speed: Option<Speed>,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    // On a paused runtime tokio's clock jumps to the next alarm whenever the runtime is idle.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(speed.is_none())
        .build()
        .map_err(|why| format!("no runtime: {why}"))?;
    let clock = ReplayClock::new(span.first - RUN_UP, speed.unwrap_or(Speed::REAL_TIME));
    System::with_tokio_rt(move || runtime).block_on(replay(airports, span, clock, progress))
}

async fn replay(
    airports: &Airports,
    span: Span,
    clock: ReplayClock,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    let began = Instant::now();
    // This wall clock is never stepped, so it needs no checks.
    let timers = TimerActor::builder()
        .name("departures")
        .clock(clock.clone())
        .wall_clock_check_interval(Duration::MAX)
        .install()
        .map_err(|why| why.to_string())?;
    let mut running = Vec::new();
    for (name, flights) in airports {
        let airport = Airport::new(Arc::clone(flights), clock.clone(), Arc::clone(progress)).start();
        airport.send(Open).await.map_err(|why| format!("airport {name}: {why}"))?;
        running.push(airport);
    }
    let opened = timers.snapshot();
    clock.start();
    clock.reaches(span.last).await;
    let closed = all_delivered(&timers).await;
    let took = began.elapsed();
    let mut log = Log::new();
    for airport in running {
        log.extend(airport.send(Close).await.map_err(|why| why.to_string())?);
    }
    Ok(Replay { log, opened, closed, took })
}

/// Waits until all due messages are handled, which takes a moment at a high speed. Gives up after a long time without
/// progress.
async fn all_delivered(timers: &Timers) -> Snapshot {
    const PATIENCE: Duration = Duration::from_secs(30);
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    let mut before = timers.snapshot();
    let mut moved = tokio::time::Instant::now();
    while before.pending() > 0 && moved.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = timers.snapshot();
        if now.pending() < before.pending() {
            moved = tokio::time::Instant::now();
        }
        before = now;
    }
    before
}

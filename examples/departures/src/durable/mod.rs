//! The replay with durable timers, `--store DIR`: killed at any moment and started again, it continues.
//!
//! Reading order:
//!
//! 1. `messages` and `airport`: all that an application needs of durable timers; compare with the volatile `airport`.
//! 2. `schedule`: schedules everything by keys, so that a killed start can be repeated.
//! 3. `pace`: advances time when all earlier messages are done. `clock`: the clock that it advances.
//! 4. `home`: the directory; `logbook`: the log of all starts.

mod airport;
mod clock;
mod home;
mod logbook;
mod messages;
mod pace;
mod schedule;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::store::Counts;
use actix_timers_durable::{DurableTimers, EmbeddedStore};
use jiff::Timestamp;

use crate::check::Tally;
use crate::clock::Speed;
use crate::flight::Flight;
use crate::log::Log;
use crate::progress::Progress;
use crate::replay::{Airports, RUN_UP, Span};
use crate::report::{self, Fact, grouped};

use airport::Airport;
use clock::StepClock;
use home::Home;
use logbook::{Line, Logbook};
use messages::{BoardingCall, Cancellation, Delay};
use pace::Pace;

/// Timers due within this time are in memory: more than time advances at once.
const HORIZON: Duration = Duration::from_secs(60 * 60);

/// The outcome of a replay.
pub(crate) struct Replay {
    /// The log of each airport, over all starts.
    pub(crate) logs: BTreeMap<String, Log>,
    /// The counts of the store at the end.
    left: Counts,
    begin: Begin,
    took: Duration,
}

/// The state found by this start.
#[derive(Debug, Clone, Copy)]
enum Begin {
    /// Nothing was scheduled or handled yet.
    New,
    /// The number of handled messages, and the time of the last one.
    Within(usize, Timestamp),
    /// Everything was done.
    End,
}

/// An opened and locked directory, fit for the replay.
pub(crate) struct Place {
    home: Home,
    store: EmbeddedStore,
    logbook: Option<(Logbook, Vec<Line>)>,
}

impl Place {
    /// Opens a directory for a new replay of these flights, or to continue one.
    ///
    /// # Errors
    /// Names the reason why the directory cannot be used.
    pub(crate) fn take(directory: &Path, flights: &[Flight], span: Span) -> Result<Self, String> {
        let misused = |wrong: String| format!("--store '{}': {wrong}", directory.display());
        // Durable timers treat times before 1970 as 1970.
        if span.first < Timestamp::UNIX_EPOCH + RUN_UP {
            return Err(misused(
                "durable timers know no times before 1970, and there are flights before it".to_owned(),
            ));
        }
        let (home, store) = Home::open(directory, flights).map_err(misused)?;
        let logbook = home.logbook().map_err(misused)?;
        Ok(Self { home, store, logbook })
    }
}

/// Replays all flights from the state of an earlier start: at the speed of the disk, unless a speed is given.
///
/// # Errors
/// Names the reason why the actors could not work.
pub(crate) fn run(
    place: Place,
    airports: &Airports,
    span: Span,
    speed: Option<Speed>,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("no runtime: {why}"))?;
    System::with_tokio_rt(move || runtime).block_on(replay(place, airports, span, speed, progress))
}

async fn replay(
    Place { home, store, logbook }: Place,
    airports: &Airports,
    span: Span,
    speed: Option<Speed>,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    let began = Instant::now();
    // Time continues where it was, so that pending messages need not hurry.
    let handled = logbook.as_ref().map_or(&[][..], |(_, lines)| lines);
    let latest = handled.iter().map(|line| line.at).max();
    let clock = StepClock::at(latest.unwrap_or(span.first - RUN_UP));
    for line in handled {
        progress.happened(line.event, line.at);
    }
    let timers = timers(store, airports, &clock)?;
    let pending = timers.counts().await.map_err(|why| why.to_string())?.pending;
    let begin = match latest {
        _ if logbook.is_some() && pending == 0 => Begin::End,
        Some(latest) => Begin::Within(handled.len(), latest),
        None => Begin::New,
    };
    crate::complain(&begin.to_string());
    let logbook = match logbook {
        Some((logbook, _)) => logbook,
        None => {
            schedule::all(&timers, airports).await?;
            home.begin_logbook()?
        }
    };
    let logbook = Rc::new(logbook);
    for (name, flights) in airports {
        let airport = Airport {
            flights: Arc::clone(flights),
            timers: timers.clone(),
            clock: clock.clone(),
            logbook: Rc::clone(&logbook),
            progress: Arc::clone(progress),
        };
        airport.open(name).map_err(|why| format!("airport {name}: {why}"))?;
    }
    let replayed = Pace::new(&clock, speed).run(&timers, &logbook).await;
    let left = timers.counts().await;
    let stopped = timers.stop().await;
    replayed?;
    let left = left.map_err(|why| why.to_string())?;
    stopped.map_err(|why| why.to_string())?;
    // The check reads the log back from the file.
    let lines = home.logbook()?.map(|(_, lines)| lines).unwrap_or_default();
    Ok(Replay { logs: logbook::by_airport(&lines, airports)?, left, begin, took: began.elapsed() })
}

/// Starts durable timers with routes that are opened later, since the airports need the timers first.
fn timers(store: EmbeddedStore, airports: &Airports, clock: &StepClock) -> Result<DurableTimers, String> {
    let builder = DurableTimers::builder(store).name("departures").clock(clock.clone()).horizon(HORIZON);
    let builder = airports.keys().fold(builder, |builder, airport| {
        builder.open_route::<BoardingCall>(airport).open_route::<Cancellation>(airport).open_route::<Delay>(airport)
    });
    builder.start().map_err(|why| why.to_string())
}

impl Replay {
    /// Adds a problem for each kind of timer left in the store.
    pub(crate) fn check(&self, problems: &mut Vec<String>) {
        let Counts { pending, parked, dead, .. } = self.left;
        for (name, found) in [("pending", pending), ("set aside", parked), ("dead letters", dead)] {
            if found > 0 {
                problems.push(format!("the store has {found} timers as {name}, at the end there must be none"));
            }
        }
    }

    pub(crate) fn facts(&self, total: &Tally, span: Span, speed: Option<Speed>) -> Vec<Fact> {
        let Counts { pending, parked, dead, .. } = self.left;
        let [pending, parked, dead, repeated] = [pending, parked, dead, total.repeated].map(grouped);
        let mut facts = vec![
            ("latest lag", report::lag(total, speed)),
            ("this start", self.begin.to_string()),
            ("handled again", format!("{repeated} messages")),
        ];
        facts.extend(report::facts_of_time(span, speed, self.took));
        facts.push(("store", format!("{pending} pending, {parked} set aside, {dead} dead letters")));
        facts
    }
}

impl std::fmt::Display for Begin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::New => f.write_str("begins"),
            Self::Within(handled, latest) => {
                write!(f, "carries on at {latest}, {} messages were handled before", grouped(*handled as u64))
            }
            Self::End => f.write_str("this replay is finished, nothing is left to do"),
        }
    }
}

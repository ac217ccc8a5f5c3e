//! The replay with durable timers. `--store DIR`: killed at any moment and started again, it continues.
//! `--store postgres://... --node N`: started on several nodes it is one replay, and goes on while one of them lives.
//!
//! Reading order:
//!
//! 1. `messages` and `airport`: all that an application needs of durable timers; compare with the volatile `airport`.
//! 2. `schedule`: schedules everything by keys, so that a killed start can be repeated.
//! 3. `pace`: advances time when all earlier messages are done. `clock`: the clock that it advances; `database`: the same
//!    where nodes go by the clock of a server.
//! 4. `home`: the directory; `logbook`: the log of all starts; `database`: both for several nodes.

mod airport;
mod clock;
#[cfg(feature = "postgres")]
mod database;
mod home;
mod logbook;
mod messages;
mod pace;
mod schedule;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::store::Counts;
use actix_timers_durable::{DurableTimers, DurableTimersBuilder};
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Runtime;

use crate::args;
use crate::check::Tally;
use crate::clock::Speed;
use crate::flight::Flight;
use crate::log::Log as Entries;
use crate::progress::Progress;
use crate::replay::{Airports, RUN_UP, Span};
use crate::report::{self, Fact, Outcome, grouped};

use airport::Airport;
use clock::StepClock;
#[cfg(feature = "postgres")]
use database::Database;
use home::Home;
use logbook::{Journal, Logbook};
use messages::{BoardingCall, Cancellation, Delay};
use pace::Pace;

/// Timers due within this time are in memory: more than time advances at once.
const HORIZON: Duration = Duration::from_secs(60 * 60);

/// The time by which due times are ahead of dates in a database: more than a replay takes, and no year beyond 4199.
#[cfg(feature = "postgres")]
const AHEAD: SignedDuration = SignedDuration::from_hours(24 * 365_250);

/// The outcome of a replay.
pub(crate) struct Replay {
    /// The log over all starts.
    log: Entries,
    /// The counts of the store at the end.
    left: Counts,
    begin: Begin,
    nodes: Nodes,
    took: Duration,
}

/// The number of lines of each node in the log.
type Nodes = BTreeMap<String, u64>;

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

/// An opened place of durable timers, fit for the replay.
pub(crate) struct Place {
    builder: DurableTimersBuilder,
    clock: StepClock,
    log: Log,
    /// The lines of earlier starts and other nodes; `None` until all is scheduled.
    handled: Option<Entries>,
    /// The sessions of a database run there.
    runtime: Runtime,
}

/// The place of the log.
enum Log {
    /// A locked directory, with the log if all is scheduled.
    Directory(Home, Option<Logbook>),
    /// A database that several nodes share.
    #[cfg(feature = "postgres")]
    Database(Database),
}

impl Place {
    /// Opens a directory or a database for a new replay of these flights, or to continue one.
    ///
    /// # Errors
    /// Names the reason why it cannot be used.
    pub(crate) fn take(place: &args::Store, flights: &[Flight], span: Span) -> Result<Self, String> {
        let misused = |wrong: String| match place {
            args::Store::Directory(directory) => format!("--store '{}': {wrong}", directory.display()),
            // The address may contain a password.
            args::Store::Database { .. } => format!("--store postgres://...: {wrong}"),
        };
        // Durable timers treat times before 1970 as 1970.
        if span.first < Timestamp::UNIX_EPOCH + RUN_UP {
            return Err(misused(
                "durable timers know no times before 1970, and there are flights before it".to_owned(),
            ));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| misused(format!("no runtime: {why}")))?;
        // Time continues where it was, so that pending messages need not hurry.
        let clock = |handled: &Option<Entries>, ahead| {
            let latest = handled.iter().flatten().map(|line| line.at).max();
            StepClock::at(latest.unwrap_or(span.first - RUN_UP), ahead)
        };
        match place {
            args::Store::Directory(directory) => {
                let (home, store) = Home::open(directory, flights).map_err(misused)?;
                let (logbook, handled) = home.logbook().map_err(misused)?.unzip();
                let clock = clock(&handled, SignedDuration::ZERO);
                let builder = DurableTimers::builder(store).clock(clock.clone()).horizon(HORIZON);
                Ok(Self { builder, clock, log: Log::Directory(home, logbook), handled, runtime })
            }
            #[cfg(feature = "postgres")]
            args::Store::Database { url, node } => {
                let connected = runtime.block_on(async {
                    let (database, store) = Database::connect(url, node, flights).await?;
                    let handled = database.lines().await?;
                    Ok((database, store, handled))
                });
                let (database, store, handled) = connected.map_err(misused)?;
                let handled = handled.map(|lines| lines.into_iter().map(|(_, line)| line).collect());
                // The nodes go by the clock of the database.
                let (clock, builder) = (clock(&handled, AHEAD), DurableTimers::builder(store));
                Ok(Self { builder, clock, log: Log::Database(database), handled, runtime })
            }
            #[cfg(not(feature = "postgres"))]
            args::Store::Database { .. } => Err(misused("needs the feature postgres".to_owned())),
        }
    }
}

impl Log {
    /// Schedules everything unless it is done, and opens the log.
    async fn open(
        &mut self,
        timers: &DurableTimers,
        clock: &StepClock,
        airports: &Airports,
    ) -> Result<Rc<dyn Journal>, String> {
        match self {
            Self::Directory(home, logbook) => match logbook.take() {
                Some(logbook) => Ok(Rc::new(logbook)),
                None => {
                    schedule::all(timers, clock, airports).await?;
                    Ok(Rc::new(home.begin_logbook()?))
                }
            },
            #[cfg(feature = "postgres")]
            Self::Database(database) => {
                database.schedule(schedule::all(timers, clock, airports)).await?;
                Ok(Rc::new(database.log()))
            }
        }
    }

    /// Reads the log back: its lines, and how many are of each node.
    async fn read(&self) -> Result<(Entries, Nodes), String> {
        match self {
            Self::Directory(home, _) => {
                let lines = home.logbook()?.map(|(_, lines)| lines);
                Ok((lines.unwrap_or_default(), Nodes::new()))
            }
            #[cfg(feature = "postgres")]
            Self::Database(database) => {
                let mut nodes = Nodes::new();
                let lines = database.lines().await?.unwrap_or_default().into_iter().map(|(node, line)| {
                    *nodes.entry(node).or_default() += 1;
                    line
                });
                Ok((lines.collect(), nodes))
            }
        }
    }

    /// The pause between two looks at the first timer. On one node a reply comes after the commit in progress.
    const fn pause(&self) -> Option<Duration> {
        match self {
            Self::Directory(..) => None,
            #[cfg(feature = "postgres")]
            Self::Database(_) => Some(Duration::from_millis(5)),
        }
    }
}

/// Replays all flights from the state of an earlier start: at the speed of the disk, unless a speed is given.
///
/// # Errors
/// Names the reason why the actors could not work.
pub(crate) fn run(
    place: Place,
    airports: &Airports,
    speed: Option<Speed>,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    let Place { builder, clock, log, handled, runtime } = place;
    System::with_tokio_rt(move || runtime).block_on(replay(builder, clock, log, handled, airports, speed, progress))
}

async fn replay(
    builder: DurableTimersBuilder,
    clock: StepClock,
    mut log: Log,
    handled: Option<Entries>,
    airports: &Airports,
    speed: Option<Speed>,
    progress: &Arc<Progress>,
) -> Result<Replay, String> {
    let began = Instant::now();
    let lines = handled.as_deref().unwrap_or_default();
    lines.iter().for_each(|line| progress.happened(line.event, line.at));
    // The routes are opened later, since the airports need the timers first.
    let builder = airports.keys().fold(builder.name("departures"), |builder, airport| {
        builder.open_route::<BoardingCall>(airport).open_route::<Cancellation>(airport).open_route::<Delay>(airport)
    });
    let timers = builder.start().map_err(|why| why.to_string())?;
    let pending = timers.counts().await.map_err(|why| why.to_string())?.pending;
    let begin = match lines.iter().map(|line| line.at).max() {
        _ if handled.is_some() && pending == 0 => Begin::End,
        Some(latest) => Begin::Within(lines.len(), latest),
        None => Begin::New,
    };
    crate::complain(&begin.to_string());
    let logbook = log.open(&timers, &clock, airports).await?;
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
    let replayed = Pace::new(&clock, speed, log.pause()).run(&timers, &*logbook).await;
    let left = timers.counts().await;
    let stopped = timers.stop().await;
    replayed?;
    let left = left.map_err(|why| why.to_string())?;
    stopped.map_err(|why| why.to_string())?;
    // The check reads the log back.
    let (log, nodes) = log.read().await?;
    Ok(Replay { log, left, begin, nodes, took: began.elapsed() })
}

impl Outcome for Replay {
    fn log(&self) -> &Entries {
        &self.log
    }

    /// Adds a problem for each kind of timer left in the store.
    fn check(&self, _: &Tally, problems: &mut Vec<String>) {
        let Counts { pending, parked, dead, .. } = self.left;
        for (name, found) in [("pending", pending), ("set aside", parked), ("dead letters", dead)] {
            if found > 0 {
                problems.push(format!("the store has {found} timers as {name}, at the end there must be none"));
            }
        }
    }

    fn facts(&self, total: &Tally, span: Span, speed: Option<Speed>) -> Vec<Fact> {
        let Counts { pending, parked, dead, .. } = self.left;
        let [pending, parked, dead, repeated] = [pending, parked, dead, total.repeated].map(grouped);
        let mut facts = vec![
            ("latest lag", report::lag(total, speed)),
            ("this start", self.begin.to_string()),
            ("handled again", format!("{repeated} messages")),
        ];
        if !self.nodes.is_empty() {
            let nodes = self.nodes.iter().map(|(node, lines)| format!("{node}: {}", grouped(*lines)));
            facts.push(("handled by node", nodes.collect::<Vec<_>>().join(", ")));
        }
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

//! Letters that outlive the process: durable timers, stored until their handler has completed.

use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers_durable::{
    Durable, DurableBuildError, DurableError, DurableFilter, DurableId, DurableMessage, DurableOptions, DurableTimers,
    EmbeddedStore, HandlerError, RetryPolicy, RouteOptions, Schedule, Store,
};
use actix_web::rt::task::JoinHandle;
use actix_web::rt::time::{interval, sleep};
use serde::{Deserialize, Serialize};

const ROUTE: &str = "letters";
/// The pause between lots of letters.
const LOT_EVERY: Duration = Duration::from_millis(100);
const LETTERS_IN_A_LOT: u64 = 10;
const AHEAD: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(20),
    Duration::from_secs(10 * 60),
    Duration::from_secs(6 * 3600),
    Duration::from_secs(7 * 24 * 3600),
];
/// One letter in this many is scheduled twice; one in this many is rescheduled.
const TWICE: u64 = 10;
const MOVED: u64 = 15;
/// The maximum number of letters that wait for hours or days; the oldest beyond it are cancelled.
const WAITING: usize = 4_000;
/// The time of a handler: the walk to the house.
const WALK: Duration = Duration::from_millis(500);
/// One letter in this many fails its first attempt: nobody is at home.
const NOBODY_AT_HOME: u64 = 201;
/// The number of dead letters kept; older ones are discarded now and then.
const DEAD_LETTERS: usize = 20;
const LOTS_BETWEEN_LOOKS: u64 = 100;

#[derive(Serialize, Deserialize)]
struct Letter {
    number: u64,
    /// Whether delivery always fails.
    #[serde(default)]
    address_is_wrong: bool,
}

impl DurableMessage for Letter {
    const NAME: &'static str = "letter";
}

struct Postman;

impl Actor for Postman {
    type Context = Context<Self>;
}

impl Handler<Durable<Letter>> for Postman {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, letter: Durable<Letter>, _: &mut Context<Self>) -> Self::Result {
        Box::pin(async move {
            sleep(WALK).await;
            if letter.address_is_wrong {
                return Err(HandlerError::permanent("there is no such address"));
            }
            if letter.number.is_multiple_of(NOBODY_AT_HOME) && letter.attempt == 1 {
                return Err(HandlerError::new("nobody is at home"));
            }
            Ok(())
        })
    }
}

/// The durable timers of the example and the task that writes letters, if there is a store.
pub(crate) struct Post(Option<(DurableTimers, JoinHandle<()>)>);

impl Post {
    /// Opens the store in this directory or database, and delivers its pending letters. A node has a name.
    ///
    /// # Errors
    /// The directory is another program's, or cannot be read; the database cannot be used.
    pub(crate) async fn open(store: Option<&Path>, node: &str) -> Result<Self, Box<dyn Error>> {
        let timers = match store {
            None => return Ok(Self(None)),
            #[cfg(feature = "postgres")]
            Some(url) if url.to_str().is_some_and(crate::args::is_database) => {
                let options = actix_timers_postgres::PostgresOptions::new().schema("observe").node(node);
                let url = url.to_string_lossy();
                start(actix_timers_postgres::PostgresStore::connect(&url, options).await?)?
            }
            Some(directory) => {
                let _ = node;
                start(EmbeddedStore::open(directory)?)?
            }
        };
        let letters = actix_web::rt::spawn(write(timers.clone()));
        Ok(Self(Some((timers, letters))))
    }

    /// Returns the timers, for scheduling more letters.
    pub(crate) fn timers(&self) -> Option<DurableTimers> {
        self.0.as_ref().map(|(timers, _)| timers.clone())
    }

    /// Waits for the deliveries in progress. The rest stays in the store.
    ///
    /// # Errors
    /// The outcomes of the last deliveries could not be written.
    pub(crate) async fn close(self) -> Result<(), DurableError> {
        let Some((timers, letters)) = self.0 else { return Ok(()) };
        letters.abort();
        timers.stop().await
    }
}

pub(crate) fn start(store: impl Store) -> Result<DurableTimers, DurableBuildError> {
    let patient = RouteOptions::new().retry(RetryPolicy::default().initial_delay(Duration::from_secs(2)));
    DurableTimers::builder(store).name("post").route_with::<Letter>(ROUTE, Postman.start(), patient).start()
}

/// Schedules letters forever. The metrics show rejections.
pub(crate) async fn write(timers: DurableTimers) {
    // Numbers start at the time in nanoseconds, so no two runs or nodes share one.
    let mut number = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    let mut waiting = VecDeque::new();
    let mut lots = interval(LOT_EVERY);
    for lot in 1u64.. {
        lots.tick().await;
        for _ in 0..LETTERS_IN_A_LOT {
            number += 1;
            waiting.extend(hand_in(&timers, number));
        }
        if waiting.len() > WAITING {
            let taken_back: Vec<_> = waiting.drain(..waiting.len() - WAITING).collect();
            actix_web::rt::spawn(take_back(timers.clone(), taken_back));
        }
        if lot.is_multiple_of(LOTS_BETWEEN_LOOKS) {
            actix_web::rt::spawn(look_after_dead_letters(timers.clone()));
        }
    }
}

/// Returns the letter's id if it is due in hours or days. Requests are not awaited here, so they share a commit.
fn hand_in(timers: &DurableTimers, number: u64) -> Option<DurableId> {
    let kind = number as usize % AHEAD.len();
    let ahead = AHEAD[kind];
    let request = move || {
        let options = DurableOptions::new().if_absent(number.to_string());
        Schedule::after(ROUTE, ahead, Letter { number, address_is_wrong: false }).options(options)
    };
    let letter = timers.schedule(request());
    let id = letter.id();
    let timers = timers.clone();
    actix_web::rt::spawn(async move {
        let _ = letter.await;
        if number.is_multiple_of(TWICE) {
            let _ = timers.schedule(request()).await;
        }
        if number.is_multiple_of(MOVED) {
            let _ = timers.reschedule_after(id, ahead * 2).await;
        }
    });
    (kind >= AHEAD.len() - 2).then_some(id)
}

/// Schedules a letter that becomes a dead letter.
pub(crate) fn hand_in_with_a_wrong_address(timers: &DurableTimers) {
    let letter = timers.schedule_after(ROUTE, AHEAD[0], Letter { number: 0, address_is_wrong: true });
    actix_web::rt::spawn(async move {
        let _ = letter.await;
    });
}

async fn take_back(timers: DurableTimers, letters: Vec<DurableId>) {
    for id in letters {
        let _ = timers.cancel(id).await;
    }
}

/// Discards the oldest dead letters.
async fn look_after_dead_letters(timers: DurableTimers) -> Result<(), DurableError> {
    let dead = timers.list(DurableFilter::dead().limit(1000)).await?.timers;
    for letter in &dead[..dead.len().saturating_sub(DEAD_LETTERS)] {
        timers.discard(letter.id).await?;
    }
    Ok(())
}

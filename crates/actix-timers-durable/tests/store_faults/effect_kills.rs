//! A service whose handlers complete with effects is killed at any moment: no effect is doubled, and none is missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use actix::prelude::*;
use actix_timers_durable::rusqlite::Connection;
use actix_timers_durable::{
    Durable, DurableMessage, DurableTimers, EmbeddedStore, HandlerError, RetryPolicy, RouteOptions,
};
use schemes::random::Random;
use serde::{Deserialize, Serialize};

use crate::talking::Talking;
use crate::workshop::{assert_sound, process_of, say};

const STORE: &str = "ACTIX_TIMERS_EFFECTS_STORE";
const FIRST: &str = "ACTIX_TIMERS_EFFECTS_FIRST";
const ROUTE: &str = "bank";
/// The number of requests in progress at a time.
const CUSTOMERS: u32 = 6;

#[derive(Serialize, Deserialize)]
struct Charge(u32);

impl DurableMessage for Charge {
    const NAME: &'static str = "charge";
}

struct Bank;

impl Actor for Bank {
    type Context = Context<Self>;
}

impl Handler<Durable<Charge>> for Bank {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, charge: Durable<Charge>, _: &mut Context<Self>) -> Self::Result {
        let (number, attempt) = (charge.0, charge.attempt);
        let charging = charge.complete_with(move |connection| {
            connection.prepare_cached("INSERT INTO charges VALUES (?1)")?.execute([number])?;
            match number % 5 == 1 && attempt == 1 {
                true => Err(HandlerError::new("not at the first attempt")),
                false => Ok(()),
            }
        });
        Box::pin(async move {
            charging.await?;
            // As after a lost reply.
            if number % 5 == 2 { Err(HandlerError::new("after it")) } else { Ok(()) }
        })
    }
}

fn start(path: &Path) -> DurableTimers {
    let retry = RetryPolicy::default().max_attempts(1_000_000).initial_delay(Duration::from_millis(5));
    let mut store = EmbeddedStore::open(path).unwrap();
    store
        .transaction(|connection| connection.execute_batch("CREATE TABLE IF NOT EXISTS charges (number INTEGER)"))
        .unwrap();
    let options = RouteOptions::new().retry(retry);
    DurableTimers::builder(store).route_with::<Charge>(ROUTE, Bank.start(), options).start().unwrap()
}

/// The process of the service. Does nothing in an ordinary run.
#[test]
fn in_the_process_of_the_service() {
    let Ok(path) = std::env::var(STORE) else { return };
    support::in_real_time(async {
        let timers = start(Path::new(&path));
        let Ok(first) = std::env::var(FIRST) else {
            while timers.counts().await.unwrap().pending > 0 {
                // Polls again; nothing depends on how soon.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            timers.stop().await.unwrap();
            return say(format_args!("finished"));
        };
        let first: u32 = first.parse().unwrap();
        let customers = (0..CUSTOMERS).map(|customer| {
            let timers = timers.clone();
            actix::spawn(async move {
                for number in (first + customer..).step_by(CUSTOMERS as usize) {
                    let soon = Duration::from_millis(u64::from(number) * 7919 % 50);
                    let _ = timers.schedule_after(ROUTE, soon, Charge(number)).await.unwrap();
                    say(format_args!("scheduled {number}"));
                }
            })
        });
        futures_util::future::join_all(customers.collect::<Vec<_>>()).await;
    });
    // Without closing anything.
    std::process::exit(0);
}

fn process(path: &Path) -> Command {
    let mut child = process_of("effect_kills::in_the_process_of_the_service");
    child.env(STORE, path);
    child
}

fn charges(connection: &Connection) -> actix_timers_durable::rusqlite::Result<Vec<u32>> {
    connection.prepare("SELECT number FROM charges ORDER BY number")?.query_map((), |row| row.get(0))?.collect()
}

/// Returns the charges, each of which was made once.
fn made(path: &Path) -> BTreeSet<u32> {
    let all = EmbeddedStore::open(path).unwrap().transaction(charges).unwrap();
    let made: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(made.len(), all.len(), "each is made once");
    made
}

/// Scaled by `ACTIX_TIMERS_KILLS`.
#[test]
fn effects_happen_exactly_once_over_kills() {
    let kills: u32 = std::env::var("ACTIX_TIMERS_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut random = Random::new(u64::from(std::process::id()));
    let mut scheduled = BTreeSet::new();
    let number = |line: &String| line.strip_prefix("scheduled ")?.parse::<u32>().ok();
    for kill in 0..kills {
        let mut child = process(&path);
        child.env(FIRST, (kill * 60_000).to_string());
        let talking = Talking::start(child);
        let mut said = talking.listen(&mut random);
        said.extend(talking.kill());
        scheduled.extend(said.iter().filter_map(number));
    }
    let last = Talking::start(process(&path)).rest();
    assert!(last.iter().any(|line| line == "finished"), "{last:?}");
    let made = made(&path);
    assert_eq!(scheduled.difference(&made).collect::<Vec<_>>(), [] as [&u32; 0], "none is missing");
    assert!(made.len() as u32 > 20 * kills, "only {}", made.len());
    assert_sound(&path);
}

//! A service with durable timers of many sorts, in a process of its own: it reports answers and actions, line by line,
//! until its store fails.
//!
//! | | |
//! |---|---|
//! | `scheduled n` | the order is on disk |
//! | `moved n` | its new, early due time is on disk |
//! | `cancelling n`, `cancelled n` | before the request, and when it is on disk |
//! | `kept c n` | the order is on disk in place of the one before, under the key of customer c |
//! | `handled n r a` | repetition r, attempt a is with the handler; some complete with a charge in the same transaction |
//! | `rejected WHY` | every customer was rejected, one of them for this reason; later requests fail, too |
//! | `left n` | at the very end: it is due much later |

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{CancelOutcome, Repeat, RescheduleOutcome};
use actix_timers_durable::rusqlite::Connection;
use actix_timers_durable::{
    Durable, DurableFilter, DurableMessage, DurableOptions, DurableTimers, EmbeddedStore, HandlerError, RetryPolicy,
    RouteOptions, Schedule,
};
use serde::{Deserialize, Serialize};

use crate::workshop::{process_of, say};

const STORE: &str = "ACTIX_TIMERS_SHOP_STORE";
const FIRST: &str = "ACTIX_TIMERS_SHOP_FIRST";
const ROUTE: &str = "shop";
/// The number of requests in progress at a time.
pub(crate) const CUSTOMERS: u64 = 6;
/// The number of the order that repeats.
pub(crate) const SERIES: u64 = 0;

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    text: String,
}

impl Order {
    fn new(number: u64) -> Self {
        let size = [30, 2500, 20_000, 65_000][(number / 7 % 4) as usize];
        let letter = char::from(b'a' + (number % 26) as u8);
        Self { number, text: letter.to_string().repeat(size) }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.text == Self::new(self.number).text
    }
}

impl DurableMessage for Order {
    const NAME: &'static str = "order";
}

/// The fate of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Handled soon.
    Handled,
    /// Moved from a late time to an early one.
    Moved,
    /// Cancelled long before its time.
    Cancelled,
    /// Cancelled when it is due, or handled.
    CancelledOrHandled,
    /// Replaced by the next order of its customer. Never due in a test.
    Kept,
}

/// Returns the fate of an order, by its number.
pub(crate) fn fate(number: u64) -> Fate {
    match number / CUSTOMERS % 8 {
        0..3 => Fate::Handled,
        3 => Fate::Moved,
        4 => Fate::Cancelled,
        5 => Fate::CancelledOrHandled,
        _ => Fate::Kept,
    }
}

fn key(customer: u64) -> String {
    format!("customer {customer}")
}

struct Shop;

impl Actor for Shop {
    type Context = Context<Self>;
}

impl Handler<Durable<Order>> for Shop {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, order: Durable<Order>, _: &mut Context<Self>) -> Self::Result {
        let (number, attempt, repetition) = (order.number, order.attempt, order.repetition);
        assert!(order.is_whole(), "order {number} is another one");
        assert!(order.due.to_system_time() <= SystemTime::now(), "order {number} is early");
        say(format_args!("handled {number} {repetition} {attempt}"));
        Box::pin(async move {
            if is_charged(number) {
                let charging = order.complete_with(move |connection| {
                    connection.prepare_cached("INSERT INTO charges VALUES (?1)")?.execute([number.cast_signed()])?;
                    match number % 7 == 1 && attempt == 1 {
                        true => Err(HandlerError::new("not at the first attempt")),
                        false => Ok(()),
                    }
                });
                charging.await?;
            }
            // After a charge it is as a lost reply.
            match number % 5 == 2 && attempt == 1 {
                true => Err(HandlerError::new("not at the first attempt")),
                false => Ok(()),
            }
        })
    }
}

/// Returns whether an order is charged when it is handled.
pub(crate) const fn is_charged(number: u64) -> bool {
    number % 3 == 1
}

/// Returns the orders that were charged, each once.
pub(crate) fn charged(path: &Path) -> BTreeSet<u64> {
    let mut store = EmbeddedStore::open(path).unwrap();
    let select = |connection: &Connection| {
        let mut charges = connection.prepare("SELECT number FROM charges")?;
        charges.query_map((), |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()
    };
    // A service that was killed in its start has not made the table.
    let all = store.transaction(select).unwrap_or_default();
    let charged: BTreeSet<_> = all.iter().map(|number| number.cast_unsigned()).collect();
    assert_eq!(charged.len(), all.len(), "an order was charged twice");
    charged
}

fn start(path: &Path) -> DurableTimers {
    let retry = RetryPolicy::default().max_attempts(1000).initial_delay(Duration::from_millis(5));
    let options = RouteOptions::new().retry(retry);
    let mut store = EmbeddedStore::open(path).unwrap();
    let create = "CREATE TABLE IF NOT EXISTS charges (number INTEGER)";
    store.transaction(|connection| connection.execute_batch(create)).unwrap();
    DurableTimers::builder(store).route_with::<Order>(ROUTE, Shop.start(), options).start().unwrap()
}

type Told = Result<(), Box<dyn std::error::Error>>;

async fn order(timers: &DurableTimers, number: u64) -> Told {
    let (soon, late) = (Duration::from_millis(number * 7919 % 200), Duration::from_secs(3600));
    let customer = number % CUSTOMERS;
    let delay = match fate(number) {
        Fate::Handled | Fate::CancelledOrHandled => soon,
        Fate::Moved | Fate::Cancelled | Fate::Kept => late,
    };
    let request = Schedule::after(ROUTE, delay, Order::new(number));
    if fate(number) == Fate::Kept {
        timers.schedule(request.options(DurableOptions::new().replace(key(customer)))).await?;
        say(format_args!("kept {customer} {number}"));
        return Ok(());
    }
    let id = timers.schedule(request).await?.id();
    say(format_args!("scheduled {number}"));
    match fate(number) {
        Fate::Moved => {
            assert_eq!(timers.reschedule_after(id, soon).await?, RescheduleOutcome::Rescheduled);
            say(format_args!("moved {number}"));
        }
        Fate::Cancelled | Fate::CancelledOrHandled => {
            say(format_args!("cancelling {number}"));
            if timers.cancel(id).await? == CancelOutcome::Cancelled {
                say(format_args!("cancelled {number}"));
            }
        }
        Fate::Handled | Fate::Kept => {}
    }
    Ok(())
}

/// Takes orders until one is rejected.
async fn serve(timers: DurableTimers, first: u64) {
    let every = Repeat::every(Duration::from_millis(20));
    let series = Schedule::at_fixed_rate(ROUTE, every, Order::new(SERIES));
    let _ = timers.schedule(series.options(DurableOptions::new().if_absent("series"))).await;
    let customers = (0..CUSTOMERS).map(|customer| {
        let timers = timers.clone();
        actix::spawn(async move {
            for step in 0.. {
                if let Err(error) = order(&timers, first + step * CUSTOMERS + customer).await {
                    return error.to_string();
                }
            }
            String::new()
        })
    });
    let mut why = String::new();
    for customer in customers.collect::<Vec<_>>() {
        why = customer.await.unwrap();
    }
    say(format_args!("rejected {why}"));
    // Some more, in case it has forgotten its failure.
    for number in 0..20 {
        let _ = order(&timers, first + number).await;
    }
}

/// Waits until every order due soon is handled, and reports the rest.
async fn finish(timers: DurableTimers) {
    while timers.cancel_key(ROUTE, "series").await.unwrap() == CancelOutcome::InProgress {
        tokio::task::yield_now().await;
    }
    let soon = DurableFilter::new().due(..SystemTime::now() + Duration::from_secs(600));
    while !timers.list(soon.clone()).await.unwrap().timers.is_empty() {
        // Polls again; nothing depends on how soon.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for left in timers.list(DurableFilter::new().limit(100_000)).await.unwrap().timers {
        say(format_args!("left {}", left.message::<Order>().unwrap().number));
    }
    for filter in [DurableFilter::dead(), DurableFilter::parked()] {
        assert!(timers.list(filter).await.unwrap().timers.is_empty());
    }
    timers.stop().await.unwrap();
    say(format_args!("finished"));
}

/// The process of the service. Does nothing in an ordinary run.
#[test]
fn in_the_process_of_the_service() {
    let Ok(path) = std::env::var(STORE) else { return };
    support::in_real_time(async {
        let timers = start(Path::new(&path));
        match std::env::var(FIRST) {
            Ok(first) => serve(timers, first.parse().unwrap()).await,
            Err(_) => finish(timers).await,
        }
    });
    // Without closing anything.
    std::process::exit(0);
}

/// Returns a service that takes orders from this number on, a multiple of the number of customers and fates.
pub(crate) fn serving(path: &Path, first: u64) -> Command {
    let mut child = finishing(path);
    child.env(FIRST, first.to_string());
    child
}

/// Returns a service that handles the existing orders.
pub(crate) fn finishing(path: &Path) -> Command {
    let mut child = process_of("shop::in_the_process_of_the_service");
    child.env(STORE, path);
    child
}

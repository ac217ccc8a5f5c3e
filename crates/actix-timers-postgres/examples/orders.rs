//! A shop that places an order and schedules its reminder in one transaction: both exist, or neither does.
//!
//! ```text
//! crates/actix-timers-postgres/tests/server cargo run -p actix-timers-postgres --example orders
//! ```
//!
//! It needs a PostgreSQL, whose address is in `DATABASE_URL`; `tests/server` starts a private one. It places two orders, of
//! which one fails, and checks that exactly one reminder comes.

use std::error::Error;
use std::time::Duration;

use actix::{Actor, Context, Handler, System};
use actix_timers_durable::{Durable, DurableMessage, DurableOptions, DurableTimers, HandlerError, Schedule};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_postgres::{Client, NoTls};

/// Time until a reminder: a day in a real shop.
const REMINDER: Duration = Duration::from_millis(300);

#[derive(Serialize, Deserialize)]
struct Remind {
    order: i64,
}

impl DurableMessage for Remind {
    const NAME: &'static str = "remind";
}

/// Sends the reminders.
struct Office {
    sent: mpsc::UnboundedSender<i64>,
}

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Self::Context) -> Self::Result {
        println!("reminder for order {}, attempt {}", remind.order, remind.attempt);
        self.sent.send(remind.order).map_err(HandlerError::new)
    }
}

/// Places an order, on a connection that a service takes from its pool.
async fn place_order(database: &mut Client, store: &PostgresStore, amount: i32) -> Result<i64, Box<dyn Error>> {
    let transaction = database.transaction().await?;
    let order = transaction.query_one("INSERT INTO shop.orders DEFAULT VALUES RETURNING id", &[]).await?.get(0);
    let options = DurableOptions::new().if_absent(order_key(order));
    let reminder = Schedule::after("office", REMINDER, Remind { order }).options(options);
    let _ = store.schedule_in(&transaction, reminder).await?;
    // If this fails, order and reminder are gone with the transaction.
    transaction.execute("INSERT INTO shop.payments (id, amount) VALUES ($1, $2)", &[&order, &amount]).await?;
    transaction.commit().await?;
    Ok(order)
}

fn order_key(order: i64) -> String {
    format!("order {order}")
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL, or run it by tests/server")?;
    let (mut database, connection) = tokio_postgres::connect(&address, NoTls).await?;
    actix::spawn(connection);
    database
        .batch_execute(
            "CREATE SCHEMA shop;
             CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
             CREATE TABLE shop.payments (id bigint REFERENCES shop.orders, amount int CHECK (amount > 0))",
        )
        .await?;
    let store = PostgresStore::connect(&address, PostgresOptions::new().schema("shop_timers").node("shop")).await?;

    // The deliveries: in this process, or in any other one.
    let (sent, mut reminders) = mpsc::unbounded_channel();
    let timers = DurableTimers::builder(store.clone()).route::<Remind>("office", Office { sent }.start()).start()?;

    let order = place_order(&mut database, &store, 30).await?;
    println!("order {order}");
    let refused = place_order(&mut database, &store, 0).await.map_err(|error| error.to_string());
    println!("an order that cannot be paid: {refused:?}");
    assert!(refused.is_err());
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), reminders.recv()).await?, Some(order));
    let another = tokio::time::timeout(REMINDER * 3, reminders.recv()).await;
    assert!(another.is_err(), "exactly one reminder: {another:?}");
    assert_eq!(timers.timer_by_key("office", &order_key(order)).await?, None, "it is complete");
    let orders = database.query("SELECT id FROM shop.orders", &[]).await?;
    assert_eq!(orders.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [order]);
    println!("one order, one reminder");

    timers.drain().await?;
    database.batch_execute("DROP SCHEMA shop CASCADE; DROP SCHEMA shop_timers CASCADE").await?;
    Ok(())
}

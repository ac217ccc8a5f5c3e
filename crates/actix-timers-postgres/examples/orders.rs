//! A web service that places an order and schedules its reminder in one transaction: both exist, or neither does.
//!
//! ```text
//! crates/actix-timers-postgres/tests/server cargo run -p actix-timers-postgres --example orders
//! ```
//!
//! It needs a PostgreSQL, whose address is in `DATABASE_URL`; `tests/server` starts a private one. It then places two
//! orders itself, of which one fails, and checks that exactly one reminder comes.

use std::error::Error;
use std::time::Duration;

use actix::{Actor, Context, Handler, System};
use actix_timers_durable::{Durable, DurableMessage, DurableOptions, DurableTimers, HandlerError, Schedule};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use actix_web::{App, HttpResponse, HttpServer, ResponseError, web};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
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

/// A service takes a connection from a pool; one is enough here.
struct Shop {
    database: Mutex<Client>,
    store: PostgresStore,
}

#[derive(Debug)]
struct Refused(Box<dyn Error>);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refused: {}", self.0)
    }
}

impl ResponseError for Refused {
    fn error_response(&self) -> HttpResponse {
        HttpResponse::Conflict().body(self.to_string())
    }
}

impl Shop {
    async fn place_order(&self, amount: i32) -> Result<i64, Box<dyn Error>> {
        let mut database = self.database.lock().await;
        let transaction = database.transaction().await?;
        let order = transaction.query_one("INSERT INTO shop.orders DEFAULT VALUES RETURNING id", &[]).await?.get(0);
        let options = DurableOptions::new().if_absent(order_key(order));
        let reminder = Schedule::after("office", REMINDER, Remind { order }).options(options);
        let _ = self.store.schedule_in(&transaction, reminder).await?;
        // If this fails, order and reminder are gone with the transaction.
        transaction.execute("INSERT INTO shop.payments (id, amount) VALUES ($1, $2)", &[&order, &amount]).await?;
        transaction.commit().await?;
        Ok(order)
    }
}

fn order_key(order: i64) -> String {
    format!("order {order}")
}

async fn place(shop: web::Data<Shop>, amount: web::Path<i32>) -> Result<HttpResponse, Refused> {
    let order = shop.place_order(*amount).await.map_err(Refused)?;
    Ok(HttpResponse::Created().body(order.to_string()))
}

fn main() -> Result<(), Box<dyn Error>> {
    System::new().block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL, or run it by tests/server")?;
    let (database, connection) = tokio_postgres::connect(&address, NoTls).await?;
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

    let shop = web::Data::new(Shop { database: Mutex::new(database), store });
    let of_server = shop.clone();
    let new_app = move || App::new().app_data(of_server.clone()).route("/orders/{amount}", web::post().to(place));
    let server = HttpServer::new(new_app).workers(1).bind(("127.0.0.1", 0))?;
    let port = server.addrs().first().ok_or("no address")?.port();
    let server = server.run();
    let handle = server.handle();
    actix::spawn(server);

    // The check.
    let placed = post(port, "/orders/30").await?;
    println!("an order: {placed:?}");
    let refused = post(port, "/orders/0").await?;
    println!("an order that cannot be paid: {refused:?}");
    assert_eq!((placed.0, refused.0), (201, 409));
    let order: i64 = placed.1.parse()?;
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), reminders.recv()).await?, Some(order));
    let another = tokio::time::timeout(REMINDER * 3, reminders.recv()).await;
    assert!(another.is_err(), "exactly one reminder: {another:?}");
    assert_eq!(timers.timer_by_key("office", &order_key(order)).await?, None, "it is complete");
    let orders = shop.database.lock().await.query("SELECT id FROM shop.orders", &[]).await?;
    assert_eq!(orders.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [order]);
    println!("one order, one reminder");

    handle.stop(true).await;
    timers.drain().await?;
    shop.database.lock().await.batch_execute("DROP SCHEMA shop CASCADE; DROP SCHEMA shop_timers CASCADE").await?;
    Ok(())
}

/// Returns status and body of a request.
async fn post(port: u16, path: &str) -> Result<(u16, String), Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("POST {path} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no response")?;
    let status = head.split(' ').nth(1).ok_or("no status")?;
    Ok((status.parse()?, body.to_owned()))
}

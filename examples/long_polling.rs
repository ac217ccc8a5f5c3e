//! Long polling with actix-web: a request waits on the server until there is an event for it.
//!
//! | request | reply |
//! |---|---|
//! | `GET /events?after=17` | the events after number 17, as soon as there is one; 204 after 30 seconds without any |
//! | `POST /events` with a text | the number of the new event |
//!
//! The requests of all workers wait in one purgatory. A request whose client leaves is freed at once, since actix-web
//! drops its handler. If too many wait, or the server stops, the reply is 503.
//!
//! Without arguments it starts on a free port, is its own client in virtual time, checks all of this and ends:
//!
//! ```sh
//! cargo run --features web --example long_polling
//! cargo run --features web --example long_polling -- --serve 127.0.0.1:8080
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor};
use actix_timers_purgatory::{Outcome, Purgatory, WaitError};
use actix_web::dev::Server;
use actix_web::http::header::RETRY_AFTER;
use actix_web::web::{self, Data, Query};
use actix_web::{App, HttpResponse, HttpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(30);
/// Clients that may wait at a time.
const CAPACITY: usize = 10_000;

type Checked<T> = Result<T, Box<dyn Error>>;

/// All events; the first one has the number 1.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, event: String) -> usize {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        events.len()
    }

    /// Returns the events after this number, if there are any.
    fn after(&self, number: usize) -> Option<Vec<Value>> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = (1..).zip(events.iter()).skip(number);
        let new: Vec<_> = numbered.map(|(number, event)| json!({"number": number, "event": event})).collect();
        (!new.is_empty()).then_some(new)
    }
}

#[derive(Clone)]
struct Events {
    log: Log,
    /// Its only key stands for the log.
    waiting: Purgatory<&'static str>,
}

async fn poll(events: Data<Events>, query: Query<HashMap<String, usize>>) -> HttpResponse {
    let (log, after) = (events.log.clone(), query.get("after").copied().unwrap_or(0));
    match events.waiting.wait(["log"], PATIENCE, move || log.after(after)).await {
        Ok(Outcome::Completed(new)) => HttpResponse::Ok().json(new),
        Ok(Outcome::Expired) => HttpResponse::NoContent().finish(),
        Err(WaitError::Full { .. } | WaitError::Closed { .. }) => {
            HttpResponse::ServiceUnavailable().insert_header((RETRY_AFTER, "5")).finish()
        }
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
    }
}

async fn publish(events: Data<Events>, event: String) -> HttpResponse {
    let number = events.log.push(event);
    events.waiting.check("log");
    HttpResponse::Ok().json(number)
}

fn start(address: &str, events: Events) -> Checked<(SocketAddr, Server)> {
    let events = Data::new(events);
    let routes = move || {
        let polling = web::resource("/events").get(poll).post(publish);
        App::new().app_data(events.clone()).service(polling)
    };
    // A client that closes its side of the connection has left: its request is dropped.
    let server = HttpServer::new(routes).workers(2).h1_allow_half_closed(false).bind(address)?;
    let address = *server.addrs().first().ok_or("the server has no address")?;
    println!("listening on http://{address}/events");
    Ok((address, server.run()))
}

/// Serves until it is interrupted; then the waiting requests are answered, so that the server can stop.
async fn serve(address: &str) -> Checked<()> {
    let waiting = Purgatory::builder().name("events").capacity(CAPACITY).start()?;
    let (_, server) = start(address, Events { log: Log::default(), waiting: waiting.clone() })?;
    let handle = server.handle();
    let running = actix::spawn(server);
    actix_web::rt::signal::ctrl_c().await?;
    waiting.close();
    handle.stop(true).await;
    Ok(running.await??)
}

/// A request of a client.
struct Request(TcpStream);

impl Request {
    async fn send(to: SocketAddr, method: &str, target: &str, body: &str) -> Checked<Self> {
        let mut stream = TcpStream::connect(to).await?;
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close");
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await?;
        Ok(Self(stream))
    }

    /// Returns status and body of the reply.
    async fn reply(mut self) -> Checked<(u16, String)> {
        let mut reply = String::new();
        self.0.read_to_string(&mut reply).await?;
        let (head, body) = reply.split_once("\r\n\r\n").ok_or("no reply")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        Ok((status, body.to_owned()))
    }
}

/// The client and the clock of its server.
struct Client {
    server: SocketAddr,
    waiting: Purgatory<&'static str>,
    clock: ManualClock,
}

impl Client {
    /// Publishes an event, and returns its number.
    async fn publish(&self, event: &str) -> Checked<String> {
        Ok(Request::send(self.server, "POST", "/events", event).await?.reply().await?.1)
    }

    async fn poll(&self, after: usize) -> Checked<Request> {
        Request::send(self.server, "GET", &format!("/events?after={after}"), "").await
    }

    /// Returns when this many requests wait on the server.
    async fn until_waiting(&self, requests: usize) -> Checked<()> {
        let waiting = async {
            while self.waiting.delayed() != requests {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        Ok(tokio::time::timeout(Duration::from_secs(20), waiting).await?)
    }

    async fn play(&self) -> Checked<()> {
        check(self.publish("first").await? == "1", "an event is published")?;
        let (status, body) = self.poll(0).await?.reply().await?;
        check((status, &*body) == (200, r#"[{"event":"first","number":1}]"#), "an earlier event is there at once")?;

        let polls = [self.poll(1).await?, self.poll(1).await?, self.poll(2).await?];
        self.until_waiting(3).await?;
        self.publish("second").await?;
        let [one, other, later] = polls;
        for poll in [one, other] {
            let (status, body) = poll.reply().await?;
            check((status, &*body) == (200, r#"[{"event":"second","number":2}]"#), "a poll answers at the event")?;
        }
        check(self.waiting.delayed() == 1, "a poll for a later event still waits")?;

        self.clock.advance(PATIENCE - Duration::from_millis(1)).await;
        check(self.waiting.delayed() == 1, "it waits for almost 30 seconds")?;
        self.clock.advance(Duration::from_millis(1)).await;
        check(later.reply().await? == (204, String::new()), "after 30 seconds it answers that there is nothing")?;

        let leaving = self.poll(2).await?;
        self.until_waiting(1).await?;
        drop(leaving);
        self.until_waiting(0).await?;
        check(self.waiting.watched() == 0, "a client that leaves is freed")?;

        let waiting = self.poll(2).await?;
        self.until_waiting(1).await?;
        self.waiting.close();
        check(waiting.reply().await?.0 == 503, "before the server stops, waiting clients get an answer")?;
        check(self.poll(2).await?.reply().await?.0 == 503, "and later ones, too")
    }
}

fn check(holds: bool, what: &str) -> Checked<()> {
    println!("{} {what}", if holds { "ok  " } else { "FAIL" });
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Starts the server on a manual clock, plays the client, and stops the server.
async fn walk_through() -> Checked<()> {
    let clock = ManualClock::new();
    let timers = TimerActor::builder().clock(clock.clone()).start()?;
    let waiting = Purgatory::builder().name("events").capacity(CAPACITY).timers(&timers).start()?;
    let (server, running) = start("127.0.0.1:0", Events { log: Log::default(), waiting: waiting.clone() })?;
    let handle = running.handle();
    let running = actix::spawn(running);
    let played = Client { server, waiting, clock }.play().await;
    handle.stop(true).await;
    running.await??;
    played
}

fn main() -> Checked<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => System::new().block_on(walk_through()),
        ["--serve", address] => System::new().block_on(serve(address)),
        _ => Err("usage: long_polling [--serve ADDRESS]".into()),
    }
}

#[test]
fn a_poll_answers_in_time_and_a_client_that_leaves_is_freed() {
    System::new().block_on(walk_through()).unwrap_or_else(|error| panic!("{error}"));
}

//! The room with reminders that survive `kill -9`: `/remind 10 tea` says "tea" to all, ten seconds later. Several nodes share
//! them in PostgreSQL: if one dies, another one delivers.

use std::collections::HashSet;
use std::error::Error;
use std::net::TcpListener;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions};
use actix_timers_durable::{
    Durable, DurableContext, DurableMessage, DurableTimers, EmbeddedStore, HandlerError, Route,
};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use actix_web::web::{self, Data, Html, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::{AggregatedMessage, CloseCode, Message as Frame, ProtocolError};
use futures_util::SinkExt;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The number of frames that wait for a client that reads slowly.
const UNWRITTEN: usize = 64;
/// The time in which a client reads a frame.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between pings.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The time after the last line in which a member stays.
const IDLE: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Room {
    members: HashSet<Addr<Member>>,
    is_closed: bool,
}

impl Actor for Room {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Join(Addr<Member>);

impl Handler<Join> for Room {
    type Result = ();

    fn handle(&mut self, Join(member): Join, _: &mut Self::Context) {
        if self.is_closed {
            member.do_send(Close);
        }
        self.members.insert(member);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Leave(Addr<Member>);

impl Handler<Leave> for Room {
    type Result = ();

    fn handle(&mut self, Leave(member): Leave, _: &mut Self::Context) {
        self.members.remove(&member);
    }
}

/// A line, for everybody.
#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Line(String);

impl Handler<Line> for Room {
    type Result = ();

    fn handle(&mut self, line: Line, _: &mut Self::Context) {
        self.members.iter().for_each(|member| member.do_send(line.clone()));
    }
}

/// The service stops.
#[derive(Message)]
#[rtype(result = "()")]
struct Close;

impl Handler<Close> for Room {
    type Result = ();

    fn handle(&mut self, _: Close, _: &mut Self::Context) {
        self.is_closed = true;
        self.members.iter().for_each(|member| member.do_send(Close));
    }
}

impl Handler<Close> for Member {
    type Result = ();

    fn handle(&mut self, _: Close, ctx: &mut Self::Context) {
        self.end("the room closes", ctx);
    }
}

/// A line that is said later. Its name and fields are stored.
#[derive(Serialize, Deserialize, DurableMessage)]
#[durable("reminder")]
struct Reminder {
    text: String,
}

const REMINDERS: Route<Reminder> = Route::new("reminders");

impl Handler<Durable<Reminder>> for Room {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, reminder: Durable<Reminder>, ctx: &mut Self::Context) -> Self::Result {
        if self.members.is_empty() {
            // It is tried again in a second, then in two, and so on: ten attempts, in about eight minutes.
            return Err(HandlerError::new("nobody is here"));
        }
        self.handle(Line(format!("Reminder: {}", reminder.text)), ctx);
        Ok(())
    }
}

/// The actor of a connection.
struct Member {
    room: Addr<Room>,
    timers: DurableTimers,
    frames: mpsc::Sender<Frame>,
    awaits_pong: bool,
}

impl Actor for Member {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.room.do_send(Join(ctx.address()));
        ctx.run_every(HEARTBEAT, Self::beat);
        Self::expect_line(ctx);
    }

    fn stopped(&mut self, ctx: &mut Self::Context) {
        self.room.do_send(Leave(ctx.address()));
    }
}

impl Member {
    const fn new(room: Addr<Room>, timers: DurableTimers, frames: mpsc::Sender<Frame>) -> Self {
        Self { room, timers, frames, awaits_pong: false }
    }

    /// Schedules a reminder, and tells the client when it is on disk.
    fn remind(&mut self, seconds: u64, text: &str, ctx: &mut Context<Self>) {
        let reminder = Reminder { text: text.to_owned() };
        let scheduled = self.timers.schedule_after(REMINDERS, Duration::from_secs(seconds), reminder);
        ctx.schedule_durably(scheduled, |member, scheduled, ctx| {
            let answer = scheduled.map_or_else(|error| error.to_string(), |_| "noted".to_owned());
            member.send(Frame::Text(answer.into()), ctx);
        });
    }

    fn beat(&mut self, ctx: &mut Context<Self>) {
        if self.awaits_pong {
            return self.end("no pong", ctx);
        }
        self.awaits_pong = true;
        self.send(Frame::Ping(Default::default()), ctx);
    }

    /// Begins the idle time again: this timer replaces the pending one with its key.
    fn expect_line(ctx: &mut Context<Self>) {
        let idle = ctx.timer(TimerOptions::new().key("idle"));
        idle.run(IDLE, |member, ctx| member.end("idle", ctx));
    }

    fn end(&mut self, reason: &str, ctx: &mut Context<Self>) {
        self.send(Frame::Close(Some((CloseCode::Normal, reason).into())), ctx);
        ctx.stop();
    }

    fn send(&mut self, frame: Frame, ctx: &mut Context<Self>) {
        // A client that does not read leaves.
        if self.frames.try_send(frame).is_err() {
            ctx.stop();
        }
    }
}

impl Handler<Line> for Member {
    type Result = ();

    fn handle(&mut self, Line(text): Line, ctx: &mut Self::Context) {
        self.send(Frame::Text(text.into()), ctx);
    }
}

/// The frames of the client. The actor stops at their end.
impl StreamHandler<Result<AggregatedMessage, ProtocolError>> for Member {
    fn handle(&mut self, frame: Result<AggregatedMessage, ProtocolError>, ctx: &mut Self::Context) {
        match frame {
            Ok(AggregatedMessage::Text(text)) => {
                Self::expect_line(ctx);
                match reminder(&text) {
                    Some((seconds, text)) => self.remind(seconds, text, ctx),
                    None => self.room.do_send(Line(text.to_string())),
                }
            }
            Ok(AggregatedMessage::Ping(bytes)) => self.send(Frame::Pong(bytes), ctx),
            Ok(AggregatedMessage::Pong(_)) => self.awaits_pong = false,
            Ok(AggregatedMessage::Binary(_)) => {}
            Ok(AggregatedMessage::Close(_)) | Err(_) => ctx.stop(),
        }
    }
}

/// Returns the seconds and the text of `/remind SECONDS TEXT`.
fn reminder(line: &str) -> Option<(u64, &str)> {
    let (seconds, text) = line.strip_prefix("/remind ")?.split_once(' ')?;
    Some((seconds.parse().ok()?, text))
}

/// Writes frames in their order, until the member stops or the client does not read.
async fn write(mut client: actix_ws::Session, mut unwritten: mpsc::Receiver<Frame>) {
    while let Some(frame) = unwritten.recv().await {
        if !matches!(timeout(PATIENCE, client.send(frame)).await, Ok(Ok(()))) {
            return;
        }
    }
    // It may have been closed by a frame.
    let _ = client.close(None).await;
}

async fn join(
    request: HttpRequest,
    body: Payload,
    room: Data<Addr<Room>>,
    timers: Data<DurableTimers>,
) -> actix_web::Result<HttpResponse> {
    let (response, client, received) = actix_ws::handle(&request, body)?;
    let (frames, unwritten) = mpsc::channel(UNWRITTEN);
    actix::spawn(write(client, unwritten));
    Member::create(|ctx| {
        ctx.add_stream(received.aggregate_continuations());
        Member::new(Addr::clone(&room), DurableTimers::clone(&timers), frames)
    });
    Ok(response)
}

async fn page() -> Html {
    Html::new(include_str!("../room.html"))
}

/// Metrics of the timers, with fitting buckets.
fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let mut builder = PrometheusBuilder::new();
    let durable = actix_timers_durable::metrics::histogram_buckets();
    for (name, buckets) in actix_timers::metrics::histogram_buckets().chain(durable) {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let metrics = builder.install_recorder()?;
    let upkeep = metrics.clone();
    actix::spawn(async move {
        loop {
            // Without this upkeep the recorder keeps every sample of its histograms until a scrape.
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    Ok(metrics)
}

async fn scrape(metrics: Data<PrometheusHandle>) -> String {
    actix_timers::scrape(|| metrics.render())
}

#[actix::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}", listener.local_addr()?);
    let room = Room::default().start();
    let (room_of_app, metrics) = (room.clone(), recorder()?);
    let place = std::env::args().nth(2).unwrap_or("reminders".to_owned());
    let timers = if place.contains("://") {
        let options = PostgresOptions::new().schema("chat").lease(Duration::from_secs(3));
        let store = PostgresStore::connect(&place, options).await?;
        DurableTimers::builder(store).route(REMINDERS, room.clone()).start()?
    } else {
        let store = EmbeddedStore::open(place)?;
        DurableTimers::builder(store).route(REMINDERS, room.clone()).start()?
    };
    let timers_of_app = timers.clone();
    let app = move || {
        App::new()
            .app_data(Data::new(room_of_app.clone()))
            .app_data(Data::new(metrics.clone()))
            .app_data(Data::new(timers_of_app.clone()))
            .route("/", web::get().to(page))
            .route("/room", web::get().to(join))
            .route("/metrics", web::get().to(scrape))
    };
    let server = HttpServer::new(app).workers(2).disable_signals().listen(listener)?.run();
    let handle = server.handle();
    let running = actix::spawn(server);
    actix_web::rt::signal::ctrl_c().await?;
    room.send(Close).await?;
    handle.stop(true).await;
    timers.drain().await?;
    Ok(running.await??)
}

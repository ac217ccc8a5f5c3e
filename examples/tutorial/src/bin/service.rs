//! The room as a service: a member without a pong leaves, and one that says nothing for ten minutes; metrics, and an end
//! within a second.

use std::collections::HashSet;
use std::error::Error;
use std::net::TcpListener;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerContext, TimerOptions};
use actix_web::web::{self, Data, Html, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::{AggregatedMessage, CloseCode, Message as Frame, ProtocolError};
use futures_util::SinkExt;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
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

/// The actor of a connection.
struct Member {
    room: Addr<Room>,
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
    const fn new(room: Addr<Room>, frames: mpsc::Sender<Frame>) -> Self {
        Self { room, frames, awaits_pong: false }
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
                self.room.do_send(Line(text.to_string()));
            }
            Ok(AggregatedMessage::Ping(bytes)) => self.send(Frame::Pong(bytes), ctx),
            Ok(AggregatedMessage::Pong(_)) => self.awaits_pong = false,
            Ok(AggregatedMessage::Binary(_)) => {}
            Ok(AggregatedMessage::Close(_)) | Err(_) => ctx.stop(),
        }
    }
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

async fn join(request: HttpRequest, body: Payload, room: Data<Addr<Room>>) -> actix_web::Result<HttpResponse> {
    let (response, client, received) = actix_ws::handle(&request, body)?;
    let (frames, unwritten) = mpsc::channel(UNWRITTEN);
    actix::spawn(write(client, unwritten));
    Member::create(|ctx| {
        ctx.add_stream(received.aggregate_continuations());
        Member::new(Addr::clone(&room), frames)
    });
    Ok(response)
}

async fn page() -> Html {
    Html::new(include_str!("../room.html"))
}

/// Metrics of the timers, with fitting buckets.
fn recorder() -> Result<PrometheusHandle, Box<dyn Error>> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
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
    let app = move || {
        App::new()
            .app_data(Data::new(room_of_app.clone()))
            .app_data(Data::new(metrics.clone()))
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
    Ok(running.await??)
}

#[cfg(test)]
mod tests {
    use actix_timers::{ManualClock, TimerActor};
    use futures_util::stream;

    use super::*;

    /// A member with a clock of its own, the sender of its client's frames, and the frames to it.
    fn joined() -> (ManualClock, mpsc::UnboundedSender<AggregatedMessage>, mpsc::Receiver<Frame>) {
        let clock = ManualClock::new();
        TimerActor::builder().clock(clock.clone()).install().expect("the first one of this arbiter");
        let (client, mut sent) = mpsc::unbounded_channel();
        let (frames, written) = mpsc::channel(UNWRITTEN);
        let room = Room::default().start();
        Member::create(|ctx| {
            ctx.add_stream(stream::poll_fn(move |context| sent.poll_recv(context).map(|frame| frame.map(Ok))));
            Member::new(room, frames)
        });
        (clock, client, written)
    }

    fn reason(frame: Option<Frame>) -> Option<String> {
        match frame {
            Some(Frame::Close(Some(reason))) => reason.description,
            _ => None,
        }
    }

    #[actix::test]
    async fn a_member_without_a_pong_leaves() {
        let (clock, client, mut written) = joined();
        clock.advance(HEARTBEAT).await;
        assert!(matches!(written.recv().await, Some(Frame::Ping(_))));
        client.send(AggregatedMessage::Pong(Default::default())).expect("it is a member");
        clock.advance(HEARTBEAT).await;
        assert!(matches!(written.recv().await, Some(Frame::Ping(_))));
        clock.advance(HEARTBEAT).await;
        assert_eq!(reason(written.recv().await).as_deref(), Some("no pong"));
        assert!(written.recv().await.is_none());
    }

    #[actix::test]
    async fn a_member_whose_client_does_not_read_leaves() {
        let (_clock, client, _unread) = joined();
        let mut lines = 0;
        while lines < 4 * UNWRITTEN && client.send(AggregatedMessage::Text("read this".into())).is_ok() {
            lines += 1;
            tokio::task::yield_now().await;
        }
        assert!(client.is_closed() && lines >= UNWRITTEN, "{lines} lines");
    }

    #[actix::test]
    async fn a_member_leaves_ten_minutes_after_its_last_line() {
        let (clock, client, mut written) = joined();
        clock.advance(HEARTBEAT).await;
        let mut seconds = 0;
        client.send(AggregatedMessage::Text("hello".into())).expect("it is a member");
        while let Some(frame) = written.recv().await {
            match frame {
                Frame::Text(_) => continue,
                Frame::Ping(_) => client.send(AggregatedMessage::Pong(Default::default())).expect("it is a member"),
                other => {
                    assert_eq!(reason(Some(other)).as_deref(), Some("idle"));
                    break;
                }
            }
            clock.advance(HEARTBEAT).await;
            seconds += HEARTBEAT.as_secs();
        }
        assert_eq!(seconds, IDLE.as_secs());
    }
}

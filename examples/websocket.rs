//! Websocket sessions with actix-ws, an actor for each: heartbeats, an idle time-out, and a shutdown that closes them.
//!
//! - Every 15 seconds a session sends a ping. If the previous one is unanswered, the session ends.
//! - A session ends 40 seconds after the client's last message. A timer with a key is replaced by each message.
//! - A session ends when 64 frames are unwritten: its client does not read.
//! - Before the server stops, every session sends a close frame and ends.
//!
//! Messages are echoed. Without arguments it starts on a free port, is its own client in virtual time, checks all of
//! this and ends:
//!
//! ```sh
//! cargo run --features websocket --example websocket
//! cargo run --features websocket --example websocket -- --serve 127.0.0.1:8080
//! ```

use std::collections::HashSet;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use actix::fut::wrap_future;
use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext, TimerOptions};
use actix_web::dev::{Server, ServerHandle};
use actix_web::web::{self, Data, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::{AggregatedMessage, CloseCode, CloseReason, ProtocolError};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const HEARTBEAT: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(40);
/// A client that does not read cannot be sent a close frame either.
const LINGER: Duration = Duration::from_secs(5);
/// The maximum number of frames that wait for a slow client.
const UNWRITTEN: usize = 64;

type Checked<T> = Result<T, Box<dyn Error>>;

/// The actor of a connection. It runs on the arbiter of the worker that accepted the connection, and so do its timers.
struct Session {
    /// A queue, so that the actor does not wait for a slow client. `None` after the close frame.
    frames: Option<mpsc::Sender<actix_ws::Message>>,
    lobby: Addr<Lobby>,
    awaits_pong: bool,
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.lobby.do_send(Join(ctx.address()));
        ctx.run_every(HEARTBEAT, Self::beat);
        Self::expect_message(ctx);
    }

    fn stopped(&mut self, ctx: &mut Self::Context) {
        self.lobby.do_send(Leave(ctx.address()));
    }
}

impl Session {
    fn new(session: actix_ws::Session, lobby: Addr<Lobby>, ctx: &mut Context<Self>) -> Self {
        let (frames, unwritten) = mpsc::channel(UNWRITTEN);
        ctx.spawn(wrap_future::<_, Self>(write(session, unwritten)).map(|(), _, ctx| ctx.stop()));
        Self { frames: Some(frames), lobby, awaits_pong: false }
    }

    fn beat(&mut self, ctx: &mut Context<Self>) {
        if self.awaits_pong {
            return self.end(CloseCode::Away, "no pong", ctx);
        }
        self.awaits_pong = true;
        self.send(actix_ws::Message::Ping(Default::default()), ctx);
    }

    /// Begins the idle time again: this timer replaces the one with the same key.
    fn expect_message(ctx: &mut Context<Self>) {
        let idle = ctx.timer(TimerOptions::new().key("idle"));
        idle.run(IDLE, |session, ctx| session.end(CloseCode::Normal, "idle", ctx));
    }

    fn echo(&mut self, message: actix_ws::Message, ctx: &mut Context<Self>) {
        self.send(message, ctx);
        Self::expect_message(ctx);
    }

    fn send(&mut self, frame: actix_ws::Message, ctx: &mut Context<Self>) {
        // A client that does not read gets no close frame either.
        if self.frames.as_ref().is_some_and(|frames| frames.try_send(frame).is_err()) {
            ctx.stop();
        }
    }

    /// Sends a close frame and stops when it is on its way.
    fn end(&mut self, code: CloseCode, description: &str, ctx: &mut Context<Self>) {
        self.send(actix_ws::Message::Close(Some(CloseReason { code, description: Some(description.to_owned()) })), ctx);
        self.frames = None;
        ctx.run_after(LINGER, |_, ctx| ctx.stop());
    }
}

/// Writes frames in their order, until the sender is dropped or the connection is closed.
async fn write(mut session: actix_ws::Session, mut unwritten: mpsc::Receiver<actix_ws::Message>) {
    while let Some(frame) = unwritten.recv().await {
        if session.send(frame).await.is_err() {
            return;
        }
    }
}

/// The frames of the client. The actor stops at their end: the default.
impl StreamHandler<Result<AggregatedMessage, ProtocolError>> for Session {
    fn handle(&mut self, frame: Result<AggregatedMessage, ProtocolError>, ctx: &mut Self::Context) {
        match frame {
            Ok(AggregatedMessage::Text(text)) => self.echo(actix_ws::Message::Text(text), ctx),
            Ok(AggregatedMessage::Binary(bytes)) => self.echo(actix_ws::Message::Binary(bytes), ctx),
            Ok(AggregatedMessage::Ping(bytes)) => self.send(actix_ws::Message::Pong(bytes), ctx),
            Ok(AggregatedMessage::Pong(_)) => self.awaits_pong = false,
            Ok(AggregatedMessage::Close(_)) => self.end(CloseCode::Normal, "goodbye", ctx),
            Err(error) => self.end(CloseCode::Protocol, &error.to_string(), ctx),
        }
    }
}

/// A request to a session to end, because the server stops.
#[derive(Message)]
#[rtype(result = "()")]
struct Shutdown;

impl Handler<Shutdown> for Session {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        self.end(CloseCode::Away, "shutdown", ctx);
    }
}

/// The actor that knows all sessions, of all workers.
#[derive(Default)]
struct Lobby {
    sessions: HashSet<Addr<Session>>,
    /// The reply to `CloseAll`, once it was received.
    closing: Option<Vec<oneshot::Sender<()>>>,
}

impl Actor for Lobby {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Join(Addr<Session>);

#[derive(Message)]
#[rtype(result = "()")]
struct Leave(Addr<Session>);

/// A request to end all sessions, and those that join later. The reply comes when none is left.
#[derive(Message)]
#[rtype(result = "()")]
struct CloseAll;

impl Handler<Join> for Lobby {
    type Result = ();

    fn handle(&mut self, Join(session): Join, _: &mut Self::Context) {
        if self.closing.is_some() {
            session.do_send(Shutdown);
        }
        self.sessions.insert(session);
    }
}

impl Handler<Leave> for Lobby {
    type Result = ();

    fn handle(&mut self, Leave(session): Leave, _: &mut Self::Context) {
        self.sessions.remove(&session);
        if self.sessions.is_empty()
            && let Some(waiting) = &mut self.closing
        {
            for reply in waiting.drain(..) {
                // Otherwise nobody waits any more.
                let _ = reply.send(());
            }
        }
    }
}

impl Handler<CloseAll> for Lobby {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: CloseAll, _: &mut Self::Context) -> Self::Result {
        let waiting = self.closing.get_or_insert_default();
        if self.sessions.is_empty() {
            return Box::pin(async {});
        }
        self.sessions.iter().for_each(|session| session.do_send(Shutdown));
        let (reply, replied) = oneshot::channel();
        waiting.push(reply);
        Box::pin(async { replied.await.unwrap_or_default() })
    }
}

async fn accept(request: HttpRequest, body: Payload, lobby: Data<Addr<Lobby>>) -> actix_web::Result<HttpResponse> {
    let (response, session, frames) = actix_ws::handle(&request, body)?;
    Session::create(|ctx| {
        ctx.add_stream(frames.aggregate_continuations());
        Session::new(session, Addr::clone(&lobby), ctx)
    });
    Ok(response)
}

/// Starts the server. With a clock the timers of all workers follow it.
fn start(address: &str, lobby: Addr<Lobby>, clock: Option<ManualClock>) -> Checked<(SocketAddr, Server)> {
    if let Some(clock) = clock {
        TimerActor::builder().clock(clock).install_for_all_arbiters()?;
    }
    let server =
        HttpServer::new(move || App::new().app_data(Data::new(lobby.clone())).route("/", web::get().to(accept)));
    let server = server.workers(2).disable_signals().bind(address)?;
    let address = *server.addrs().first().ok_or("the server has no address")?;
    println!("listening on ws://{address}");
    Ok((address, server.run()))
}

/// Ends all sessions, then the server, which would otherwise wait for the sessions and finally cut them off.
async fn stop(lobby: &Addr<Lobby>, server: ServerHandle) -> Result<(), MailboxError> {
    lobby.send(CloseAll).await?;
    server.stop(true).await;
    Ok(())
}

async fn serve(address: &str) -> Checked<()> {
    let lobby = Lobby::default().start();
    let (_, server) = start(address, lobby.clone(), None)?;
    let handle = server.handle();
    let running = actix::spawn(server);
    actix_web::rt::signal::ctrl_c().await?;
    stop(&lobby, handle).await?;
    Ok(running.await??)
}

/// A client, which answers pings whenever it reads.
struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// Connects, and waits for the first echo: the session has started.
    async fn connect(address: SocketAddr) -> Checked<Self> {
        let (stream, _) = client_async(format!("ws://{address}/"), TcpStream::connect(address).await?).await?;
        let mut client = Self(stream);
        client.say("hello").await?;
        Ok(client)
    }

    /// Reads one frame, which is `expected`.
    async fn read(&mut self, expected: &str) -> Checked<()> {
        let frame = match self.0.next().await.ok_or("the connection has ended")?? {
            Message::Text(text) => text.to_string(),
            Message::Ping(_) => "ping".to_owned(),
            Message::Pong(_) => "pong".to_owned(),
            Message::Close(Some(reason)) => format!("close: {}", reason.reason),
            other => format!("{other:?}"),
        };
        check(frame == expected, &format!("{expected:?} was read, not {frame:?}"))
    }

    async fn say(&mut self, text: &str) -> Checked<()> {
        self.0.send(Message::text(text)).await?;
        self.read(text).await
    }

    /// Answers a ping, and waits for the answer to one of its own: the session has received both.
    async fn answer_ping(&mut self) -> Checked<()> {
        self.read("ping").await?;
        self.reach().await
    }

    /// Reaches the session without a message.
    async fn reach(&mut self) -> Checked<()> {
        self.0.send(Message::Ping(Default::default())).await?;
        self.read("pong").await
    }

    /// Reads the last frame, and the end of the connection.
    async fn read_end(mut self, expected: &str) -> Checked<()> {
        self.read(expected).await?;
        check(self.0.next().await.is_none(), "the server has closed the connection")
    }
}

fn check(holds: bool, assertion: &str) -> Checked<()> {
    if holds { Ok(()) } else { Err(format!("not so: {assertion}").into()) }
}

/// Plays all ends of a session.
async fn play(address: SocketAddr, clock: &ManualClock) -> Checked<()> {
    const MOMENT: Duration = Duration::from_millis(1);
    let mut talker = Client::connect(address).await?;
    clock.advance(Duration::from_secs(10)).await;
    talker.say("again").await?;
    clock.advance(HEARTBEAT - Duration::from_secs(10)).await;
    talker.answer_ping().await?;
    for _ in 0..2 {
        clock.advance(HEARTBEAT).await;
        talker.answer_ping().await?;
    }
    println!("after 45 seconds the session lives, since its client spoke at 10");
    clock.advance(Duration::from_secs(5) - MOMENT).await;
    talker.reach().await?;
    clock.advance(MOMENT).await;
    talker.read("close: idle").await?;
    println!("40 seconds after the last message the session is closed");

    let mut silent = Client::connect(address).await?;
    clock.advance(HEARTBEAT).await;
    clock.advance(HEARTBEAT).await;
    silent.read("ping").await?;
    silent.read("close: no pong").await?;
    println!("a client that answers no ping is given up");

    let mut leaving = Client::connect(address).await?;
    leaving.0.close(None).await?;
    leaving.read("close: goodbye").await?;
    println!("a client that leaves gets an answer");
    Ok(())
}

/// Starts the server, plays, and stops the server while two clients are connected.
async fn walk_through() -> Checked<()> {
    let clock = ManualClock::new();
    let lobby = Lobby::default().start();
    let (address, server) = start("127.0.0.1:0", lobby.clone(), Some(clock.clone()))?;
    let handle = server.handle();
    let running = actix::spawn(server);
    play(address, &clock).await?;

    let clients = [Client::connect(address).await?, Client::connect(address).await?];
    let stopping = actix::spawn(async move { stop(&lobby, handle).await });
    for client in clients {
        client.read_end("close: shutdown").await?;
    }
    stopping.await??;
    running.await??;
    println!("the server has stopped, after its sessions");
    Ok(())
}

fn run() -> Checked<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => System::new().block_on(walk_through()),
        ["--serve", address] => System::new().block_on(serve(address)),
        _ => Err("usage: websocket [--serve ADDRESS]".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn sessions_end_when_idle_without_pong_and_before_the_server() {
    System::new().block_on(walk_through()).unwrap_or_else(|error| panic!("{error}"));
}

/// Nobody polls the response, which is the client's side of a connection, and the frames of the client never end.
#[test]
fn a_session_ends_when_its_client_sends_and_does_not_read() {
    System::new().block_on(async {
        let request = actix_web::test::TestRequest::default()
            .insert_header(("connection", "upgrade"))
            .insert_header(("upgrade", "websocket"))
            .insert_header(("sec-websocket-version", "13"))
            .insert_header(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="));
        let (request, mut body) = request.to_http_parts();
        let body = <Payload as actix_web::FromRequest>::from_request(&request, &mut body).await.unwrap();
        let (_response, session, _) = actix_ws::handle(&request, body).unwrap();
        let (read, mut was_read) = mpsc::unbounded_channel();
        let frames = futures_util::stream::repeat_with(move || {
            assert!(read.send(()).is_ok());
            Ok(AggregatedMessage::Text("read this".into()))
        });
        let lobby = Lobby::default().start();
        Session::create(|ctx| {
            ctx.add_stream(frames);
            Session::new(session, lobby, ctx)
        });
        let mut count = 0;
        while was_read.recv().await.is_some() {
            count += 1;
        }
        assert!((UNWRITTEN..4 * UNWRITTEN).contains(&count), "{count} frames");
    });
}

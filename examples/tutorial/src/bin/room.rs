//! A chat room over websockets: each line of a member goes to all members.

use std::collections::HashSet;
use std::net::TcpListener;
use std::time::Duration;

use actix::prelude::*;
use actix_web::web::{self, Data, Html, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::{AggregatedMessage, Message as Frame, ProtocolError};
use futures_util::SinkExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The number of frames that wait for a client that reads slowly.
const UNWRITTEN: usize = 64;
/// The time in which a client reads a frame.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Room {
    members: HashSet<Addr<Member>>,
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

/// The actor of a connection.
struct Member {
    room: Addr<Room>,
    frames: mpsc::Sender<Frame>,
}

impl Actor for Member {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.room.do_send(Join(ctx.address()));
    }

    fn stopped(&mut self, ctx: &mut Self::Context) {
        self.room.do_send(Leave(ctx.address()));
    }
}

impl Member {
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
            Ok(AggregatedMessage::Text(text)) => self.room.do_send(Line(text.to_string())),
            Ok(AggregatedMessage::Ping(bytes)) => self.send(Frame::Pong(bytes), ctx),
            Ok(AggregatedMessage::Pong(_) | AggregatedMessage::Binary(_)) => {}
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
        Member { room: Addr::clone(&room), frames }
    });
    Ok(response)
}

async fn page() -> Html {
    Html::new(include_str!("../room.html"))
}

#[actix::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}", listener.local_addr()?);
    let room = Room::default().start();
    let app = move || {
        let room = Data::new(room.clone());
        App::new().app_data(room).route("/", web::get().to(page)).route("/room", web::get().to(join))
    };
    HttpServer::new(app).workers(2).listen(listener)?.run().await
}

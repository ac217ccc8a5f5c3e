//! The programs of the tutorial as processes, with clients in this one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream as BlockingStream;
use std::process::{Child, Command, Stdio};

use actix::System;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// A program that serves. Dropping it kills it, as `kill -9` does.
struct Program {
    process: Child,
    address: String,
}

impl Program {
    /// Starts a program, and waits for the line with its address.
    fn start(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        let mut process = command.arg("127.0.0.1:0").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect("the line of the address").to_owned();
        Self { process, address }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = BlockingStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Sends Ctrl-C, and waits for the end.
    fn interrupt(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn join(program: &Program) -> Self {
        let stream = TcpStream::connect(&program.address).await.unwrap();
        let (socket, _) = client_async(format!("ws://{}/room", program.address), stream).await.unwrap();
        let mut client = Self(socket);
        // The answer comes from the member, so it has joined.
        client.say("hello").await;
        client.hears("hello").await;
        client
    }

    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Reads until this line, or the reason of the end, comes.
    async fn hears(&mut self, expected: &str) {
        loop {
            match self.0.next().await.expect("more frames").expect("a frame") {
                Message::Text(text) if text.as_str() == expected => return,
                Message::Close(Some(reason)) if reason.reason.as_str() == expected => return,
                _ => {}
            }
        }
    }
}

#[test]
fn each_line_goes_to_all_members() {
    let room = Program::start(env!("CARGO_BIN_EXE_room"), &[]);
    assert!(room.get("/").contains("<title>Room</title>"));
    System::new().block_on(async {
        let (mut one, mut other) = (Client::join(&room).await, Client::join(&room).await);
        one.say("tea?").await;
        other.hears("tea?").await;
        other.say("yes").await;
        one.hears("yes").await;
    });
}

#[test]
fn the_service_has_metrics_and_closes_the_room() {
    let room = Program::start(env!("CARGO_BIN_EXE_service"), &[]);
    System::new().block_on(async {
        let mut client = Client::join(&room).await;
        let metrics = room.get("/metrics");
        assert!(metrics.contains("actix_timers_scheduled_total"), "{metrics}");
        room.interrupt();
        client.hears("the room closes").await;
    });
}

#[test]
fn a_reminder_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("reminders");
    let start = || Program::start(env!("CARGO_BIN_EXE_reminders"), &[store.to_str().unwrap()]);
    System::new().block_on(async {
        let killed = start();
        let mut client = Client::join(&killed).await;
        client.say("/remind 1 tea").await;
        client.hears("noted").await;
        drop(killed);
        let next = start();
        Client::join(&next).await.hears("Reminder: tea").await;
    });
}

#[test]
#[ignore = "needs a PostgreSQL, whose address is in DATABASE_URL"]
fn another_node_delivers_the_reminders_of_a_killed_one() {
    let database = std::env::var("DATABASE_URL").expect("the address of a PostgreSQL");
    let start = || Program::start(env!("CARGO_BIN_EXE_reminders"), &[&database]);
    System::new().block_on(async {
        let (killed, other) = (start(), start());
        let mut client = Client::join(&killed).await;
        client.say("/remind 2 tea").await;
        client.hears("noted").await;
        drop(killed);
        Client::join(&other).await.hears("Reminder: tea").await;
    });
}

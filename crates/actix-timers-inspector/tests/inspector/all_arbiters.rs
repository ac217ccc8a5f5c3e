//! A server with two workers: each has its own timer actor with the settings for all arbiters, and the inspector finds
//! both.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{ManualClock, TimerActor, TimerContext, TimerOptions, Timers};
use actix_timers_inspector::Inspector;
use actix_web::web::{self, Data};
use actix_web::{App, HttpServer};
use serde_json::{Value, json};

const IDLE: Duration = Duration::from_secs(1800);

#[derive(Message)]
#[rtype(result = "()")]
struct Expire;

/// Schedules the end of the session. Returns the name of the timer actor.
#[derive(Message)]
#[rtype(result = "String")]
struct Open;

/// A session that ends when its time is over.
struct Session(Arc<AtomicU64>);

impl Actor for Session {
    type Context = Context<Self>;
}

impl Handler<Expire> for Session {
    type Result = ();

    fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
        self.0.fetch_add(1, Ordering::SeqCst);
        ctx.stop();
    }
}

impl Handler<Open> for Session {
    type Result = String;

    fn handle(&mut self, _: Open, ctx: &mut Self::Context) -> String {
        let options = TimerOptions::new().group("sessions").keep_alive(true);
        ctx.timer(options).schedule(IDLE, Expire);
        Timers::current().unwrap().name().to_owned()
    }
}

/// Starts a session on the worker that serves the request.
async fn open(expired: Data<AtomicU64>) -> String {
    Session(expired.into_inner()).start().send(Open).await.unwrap()
}

/// Sends a request over a connection of its own. Returns the body.
async fn get(server: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let response = web::block(move || {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    });
    response.await.unwrap().split_once("\r\n\r\n").unwrap().1.to_owned()
}

async fn json(server: SocketAddr, path: &str) -> Value {
    serde_json::from_str(&get(server, &format!("/timers/api/{path}")).await).unwrap()
}

#[test]
fn the_inspector_finds_the_workers_of_a_server() {
    support::in_real_time(async {
        let clock = ManualClock::new();
        let settings = TimerActor::builder().name("web").capacity(1000).clock(clock.clone());
        settings.install_for_all_arbiters().unwrap();
        let (expired, inspector) = (Data::new(AtomicU64::new(0)), Inspector::of_all_arbiters());
        let counted = expired.clone();
        let server = HttpServer::new(move || {
            let open = web::resource("/open").to(open);
            App::new().app_data(counted.clone()).service(open).service(inspector.scope("/timers"))
        });
        let server = server.workers(2).disable_signals().bind("127.0.0.1:0").unwrap();
        let address = server.addrs()[0];
        let running = server.run();
        let handle = running.handle();
        let serving = actix::spawn(running);

        assert_eq!(json(address, "timer-actors").await["timer_actors"], json!([]));
        let nothing = json(address, "wheel").await;
        assert_eq!(nothing["error"], "unknown_timer_actor");
        assert_eq!(nothing["message"], "no timer actor runs here: the first timer of an arbiter starts one");

        // The server gives connections to its workers in turn; both have served one in the end.
        let mut opened = BTreeMap::<String, u64>::new();
        while opened.len() < 2 {
            *opened.entry(get(address, "/open").await).or_default() += 1;
            assert!(opened.values().sum::<u64>() < 1000, "{opened:?}");
        }
        let sessions: u64 = opened.values().sum();
        assert!(opened.keys().eq(["web-1", "web-2"]), "{opened:?}");
        // The start of a bucket of level 2, which is 65.536 s wide.
        let next = 27.0 * 65.536;
        let found = opened.iter().map(|(name, pending)| {
            json!({
                "timer": name, "state": "running", "pending": pending, "next_expiration_in_seconds": next,
                "overdue_seconds": 0.0
            })
        });
        assert_eq!(json(address, "timer-actors").await["timer_actors"], Value::from_iter(found));
        for (name, pending) in &opened {
            let wheel = json(address, &format!("wheel?timer={name}")).await;
            assert_eq!((&wheel["pending"], &wheel["capacity"]), (&json!(pending), &json!(1000)), "{name}");
            let timers = json(address, &format!("timers?timer={name}&group=sessions")).await;
            assert_eq!(timers["timers"][0]["due_in_seconds"], json!(1800.0), "{name}");
        }

        let all = json(address, "next?all=true").await;
        let timers = all["timers"].as_array().unwrap();
        let of = |name: &str| timers.iter().filter(|timer| timer["timer"] == name).count() as u64;
        assert_eq!((of("web-1"), of("web-2"), &all["sampled"]), (opened["web-1"], opened["web-2"], &json!(false)));
        assert_eq!(json(address, "next?all=true&limit=1").await["timers"].as_array().unwrap().len(), 1);
        for (query, message) in
            [("all=true&timer=web-1", "`all` and `timer` exclude each other"), ("all=yes", "`all` is true or false")]
        {
            assert_eq!(json(address, &format!("next?{query}")).await["message"], message);
        }

        clock.advance(IDLE - Duration::from_millis(1)).await;
        assert_eq!(expired.load(Ordering::SeqCst), 0);
        clock.advance(Duration::from_millis(1)).await;
        assert_eq!(expired.load(Ordering::SeqCst), sessions);
        handle.stop(true).await;
        serving.await.unwrap().unwrap();
    });
}

//! The cost of the inspector: the lateness of timers during its requests, with many others pending.
//!
//! ```sh
//! cargo bench --bench inspector --features inspector -- --timers 10000000 --seconds 10
//! ```
//!
//! An actor has a timer due every millisecond and records the lateness of each. The others are due in hours, days and
//! months; some have keys. Phases: no requests; pages that poll, as a browser does; searches through all timers without
//! a pause. The figures are in `docs/guide/inspector.md`.

// A bench that cannot measure should fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{Target, TimerActor, TimerContext, TimerOptions, Timers};
use actix_timers_inspector::Inspector;
use actix_web::{App, HttpServer};
use bench::times::{millis, quantile};
use clap::Parser;
use tokio::sync::oneshot;

/// One timer in this many has a key and is in a group.
const LABELLED: u64 = 10;

#[derive(Message)]
#[rtype(result = "()")]
struct Far;

#[derive(Message)]
#[rtype(result = "()")]
struct Beat(Instant);

type Late = Arc<Mutex<Vec<Duration>>>;

/// An actor that gets a message every millisecond, and records its lateness.
struct Probe {
    late: Late,
}

impl Probe {
    fn next(ctx: &mut Context<Self>) {
        let due = Instant::now() + Duration::from_millis(1);
        ctx.schedule_after(Duration::from_millis(1), Beat(due));
    }
}

impl Actor for Probe {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        Self::next(ctx);
    }
}

impl Handler<Beat> for Probe {
    type Result = ();

    fn handle(&mut self, Beat(due): Beat, ctx: &mut Context<Self>) {
        self.late.lock().unwrap().push(Instant::now().saturating_duration_since(due));
        Self::next(ctx);
    }
}

impl Handler<Far> for Probe {
    type Result = ();

    fn handle(&mut self, _: Far, _: &mut Context<Self>) {}
}

#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --features inspector --bench inspector --")]
struct Arguments {
    /// Timers pending
    #[arg(long, default_value = "1000000")]
    timers: u64,
    /// The duration of each phase
    #[arg(long, default_value = "5")]
    seconds: u64,
}

/// Starts the actor, and others' timers.
fn schedule(pending: u64, late: &Late) -> (Timers, Addr<Probe>) {
    let timers = TimerActor::builder().name("bench").install().unwrap();
    let probe = Probe { late: Arc::clone(late) }.start();
    let target = Target::from(&probe);
    for number in 0..pending {
        // From an hour to four months ahead, in a pseudo-random order.
        let delay = Duration::from_secs(3600 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 10_000_000);
        let labels = || TimerOptions::new().key(number).group("bench");
        let options = if number.is_multiple_of(LABELLED) { labels() } else { TimerOptions::new() };
        timers.timer(target.clone(), options).schedule(delay, Far);
    }
    (timers, probe)
}

/// Returns the response and its duration.
fn ask(server: SocketAddr, path: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET /timers/api/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.lines().next().is_some_and(|status| status.contains(" 200 ")), "{path}: {response}");
    (response, start.elapsed())
}

/// Returns the value after `"next":"`, if there is one.
fn next_part(answer: &str) -> Option<&str> {
    answer.rsplit_once("\"next\":\"")?.1.split('"').next()
}

fn print(name: &str, mut times: Vec<Duration>) {
    let [median, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|share| millis(quantile(&mut times, share)));
    println!("{name:<34} {:>7} {median:>8.2} {p99:>8.2} {p999:>8.2} {most:>8.2}", times.len());
}

/// A kind of request, and the duration until its response.
type Asked = (&'static str, Duration);

fn measure(server: SocketAddr, late: &Late, seconds: u64) {
    println!("{:<34} {:>7} {:>8} {:>8} {:>8} {:>8}", "", "count", "median", "p99", "p99.9", "most");
    let phase = |name: &str, visit: &dyn Fn(&mut Vec<Asked>)| {
        late.lock().unwrap().clear();
        let (start, mut asked) = (Instant::now(), Vec::new());
        while start.elapsed() < Duration::from_secs(seconds) {
            visit(&mut asked);
        }
        print(name, std::mem::take(&mut *late.lock().unwrap()));
        for kind in ["wheel", "next", "part of a search", "whole search"] {
            let times: Vec<Duration> = asked.iter().filter(|(of, _)| *of == kind).map(|(_, time)| *time).collect();
            if !times.is_empty() {
                print(&format!("  answer: {kind}"), times);
            }
        }
    };
    let second = Duration::from_secs(1);
    phase("late, nobody looks", &|_| thread::sleep(second));
    let look = |asked: &mut Vec<Asked>| {
        asked.push(("wheel", ask(server, "wheel").1));
        asked.push(("next", ask(server, "next?limit=50").1));
    };
    phase("late, a page looks every second", &|asked| {
        look(asked);
        thread::sleep(second);
    });
    phase("late, five pages look at once", &|asked| {
        let start = Instant::now();
        let look_for_a_second = |asked: &mut Vec<Asked>| {
            while start.elapsed() < second {
                look(asked);
            }
        };
        thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| look_for_a_second(&mut Vec::new())));
            look_for_a_second(asked);
        });
    });
    phase("late, searches without a pause", &|asked| {
        let (start, mut cursor) = (Instant::now(), Some(String::new()));
        while let Some(from) = cursor {
            let (answer, time) = ask(server, &format!("timers?key=none&cursor={from}"));
            asked.push(("part of a search", time));
            cursor = next_part(&answer).map(str::to_owned);
        }
        asked.push(("whole search", start.elapsed()));
    });
}

#[actix::main]
async fn main() {
    let Arguments { timers: pending, seconds } = bench::arguments::parse();
    let late = Late::default();
    let (tell, told) = oneshot::channel();
    let (arbiter, of_probe) = (Arbiter::new(), Arc::clone(&late));
    arbiter.spawn_fn(move || assert!(tell.send(schedule(pending, &of_probe)).is_ok()));
    let (timers, _probe) = told.await.unwrap();
    let inspector = Inspector::new(&timers);
    let server = HttpServer::new(move || App::new().service(inspector.scope("/timers"))).workers(1).disable_signals();
    let server = server.bind("127.0.0.1:0").unwrap();
    let address = server.addrs()[0];
    actix::spawn(server.run());
    println!("{} timers pending, {} levels; times in ms", timers.snapshot().pending(), timers.snapshot().wheel_depth());
    tokio::task::spawn_blocking(move || measure(address, &late, seconds)).await.unwrap();
}

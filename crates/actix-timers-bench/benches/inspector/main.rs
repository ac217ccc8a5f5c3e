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

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{TimerActor, TimerContext, TimerOptions, Timers};
use actix_timers_inspector::Inspector;
use actix_web::{App, HttpServer};
use clap::Parser;

/// One timer in this many has a key and is in a group.
const LABELLED: u64 = 10;

#[derive(Message)]
#[rtype(result = "()")]
struct Far;

#[derive(Message)]
#[rtype(result = "()")]
struct Beat(Instant);

/// An actor that gets a message every millisecond, and records its lateness.
struct Probe {
    late: Arc<Mutex<Vec<Duration>>>,
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

/// Starts timers on an arbiter of their own, and a server on another.
fn serve(pending: u64) -> (SocketAddr, Timers, Arc<Mutex<Vec<Duration>>>) {
    let late = Arc::new(Mutex::new(Vec::new()));
    let (tell, told) = mpsc::channel();
    let of_probe = Arc::clone(&late);
    std::thread::spawn(move || {
        System::new().block_on(async move {
            let timers = TimerActor::builder().name("bench").install().unwrap();
            let probe = Probe { late: of_probe }.start();
            let target = actix_timers::Target::from(&probe);
            for number in 0..pending {
                // From an hour to four months ahead, in a pseudo-random order.
                let delay = Duration::from_secs(3600 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 10_000_000);
                if number.is_multiple_of(LABELLED) {
                    let options = TimerOptions::new().key(number).group("bench");
                    timers.timer(target.clone(), options).schedule(delay, Far);
                } else {
                    timers.schedule_after(target.clone(), delay, Far);
                }
            }
            tell.send((timers, probe)).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let (timers, probe) = told.recv().unwrap();
    let inspector = Inspector::new(&timers);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        System::new().block_on(async move {
            let server = HttpServer::new(move || App::new().service(inspector.scope("/timers")))
                .workers(1)
                .disable_signals()
                .bind("127.0.0.1:0")
                .unwrap();
            tell.send(server.addrs()[0]).unwrap();
            server.run().await.unwrap();
            drop(probe);
        });
    });
    (told.recv().unwrap(), timers, late)
}

/// Returns the response and its duration.
fn ask(server: SocketAddr, path: &str) -> (String, Duration) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET /timers/api/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains(" 200 "), "{path}: {line}");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    (rest, start.elapsed())
}

/// Returns the value after `"next":"`, if there is one.
fn next_part(answer: &str) -> Option<&str> {
    answer.rsplit_once("\"next\":\"")?.1.split('"').next()
}

fn described(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let shown = |time: Option<&Duration>| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.2}", time.as_secs_f64() * 1e3))
    };
    let columns = [0.5, 0.99, 0.999, 1.0].map(|share| shown(at(share)));
    format!("{:>7} {:>8} {:>8} {:>8} {:>8}", times.len(), columns[0], columns[1], columns[2], columns[3])
}

/// A kind of request, and the duration until its response.
type Asked = (&'static str, Duration);

fn main() {
    let Arguments { timers: pending, seconds } = bench::arguments::parse();
    let (server, timers, late) = serve(pending);
    println!("{} timers pending, {} levels; times in ms", timers.snapshot().pending(), timers.snapshot().wheel_depth());
    println!("{:<34} {:>7} {:>8} {:>8} {:>8} {:>8}", "", "count", "median", "p99", "p99.9", "most");
    let phase = |name: &str, visit: &dyn Fn(&mut Vec<Asked>)| {
        late.lock().unwrap().clear();
        let (start, mut asked) = (Instant::now(), Vec::new());
        while start.elapsed() < Duration::from_secs(seconds) {
            visit(&mut asked);
        }
        println!("{name:<34} {}", described(std::mem::take(&mut *late.lock().unwrap())));
        for what in ["wheel", "next", "part of a search", "whole search"] {
            let times: Vec<Duration> = asked.iter().filter(|(of, _)| *of == what).map(|(_, time)| *time).collect();
            if !times.is_empty() {
                println!("  {:<32} {}", format!("answer: {what}"), described(times));
            }
        }
    };
    let second = Duration::from_secs(1);
    phase("late, nobody looks", &|_| std::thread::sleep(second));
    phase("late, a page looks every second", &|asked| {
        asked.push(("wheel", ask(server, "wheel").1));
        asked.push(("next", ask(server, "next?limit=50").1));
        std::thread::sleep(second);
    });
    phase("late, five pages look at once", &|asked| {
        let ended = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..4)
            .map(|_| {
                let ended = Arc::clone(&ended);
                std::thread::spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        ask(server, "wheel");
                        ask(server, "next?limit=50");
                    }
                })
            })
            .collect();
        let start = Instant::now();
        while start.elapsed() < second {
            asked.push(("wheel", ask(server, "wheel").1));
        }
        ended.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
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

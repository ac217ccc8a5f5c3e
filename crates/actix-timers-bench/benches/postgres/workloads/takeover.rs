//! The take-over from a killed node: of timers that were pending, and of those in its handlers. The victim is a process of its
//! own, whose handlers do not end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use actix::prelude::*;
use actix_timers_durable::DurableTimers;
use bench::durable::remind;
use bench::rows::{OURS, Rows};
use bench::times::millis;

use super::row;
use crate::node::{Deliver, Node, Place, complete};
use crate::office::{self, Handled, Note};
use crate::settings::Settings;
use crate::timer::{ROUTE, due_in};

pub(crate) const WORKLOAD: &str = "take-over, lease 3 s";
const LEASE: Duration = Duration::from_secs(3);
const SCHEMA: &str = "takeover";
const TIMERS: u64 = 400;
const BEAT: Duration = Duration::from_millis(500);

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::new(url, SCHEMA, LEASE);
    let (mut pending, mut held) = (Vec::new(), Vec::new());
    System::new().block_on(async {
        let handled = Arc::<Handled>::default();
        let timers = office::start(&place, &handled).await;
        for _ in 0..settings.rounds.min(5) {
            let (of_pending, of_held) = round(&timers, &handled, url).await;
            pending.push(millis(of_pending));
            held.push(millis(of_held));
        }
        timers.stop().await.unwrap();
    });
    rows.push(row(WORKLOAD, OURS, 0, "ms late (max), pending timers", pending));
    rows.push(row(WORKLOAD, OURS, 0, "ms from the kill (max), timers in handlers", held));
}

/// Returns how late pending timers are after a kill, and the time from the kill to the handlers of claimed ones.
async fn round(timers: &DurableTimers, handled: &Handled, url: &str) -> (Duration, Duration) {
    let mut victim =
        Command::new(std::env::current_exe().unwrap()).args(["--victim", url]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    // Both know their shares.
    actix_rt::time::sleep(2 * BEAT).await;
    schedule(timers, 0, Duration::from_millis(500)).await;
    actix_rt::time::sleep(Duration::from_secs(2)).await;
    let handled_alive = handled.count();
    assert!((1..TIMERS as usize).contains(&handled_alive), "the victim has a share: {handled_alive}");
    schedule(timers, TIMERS, Duration::from_secs(1)).await;
    actix_rt::time::sleep(Duration::from_secs(1)).await;
    victim.kill().unwrap();
    victim.wait().unwrap();
    let killed = SystemTime::now();
    handled.wait_for(2 * TIMERS as usize).await;
    let notes = handled.take();
    // Timers that were due long before were claimed by the victim.
    let is_held = |note: &&Note| note.due < killed - Duration::from_millis(50) && note.handled > killed;
    let since = |note: &Note| note.handled.duration_since(killed).unwrap();
    let held = notes.iter().filter(is_held).map(since).max().expect("the victim has claimed timers");
    let pending = notes.iter().filter(|note| note.due > killed).map(Note::late).max().expect("timers are due later");
    (pending, held)
}

/// Schedules timers that are due within a second after `delay`.
async fn schedule(timers: &DurableTimers, first: u64, delay: Duration) {
    let scheduling: Vec<_> = (0..TIMERS)
        .map(|number| {
            let delay = delay + Duration::from_millis(number * 1000 / TIMERS);
            actix_rt::spawn(timers.schedule_after(ROUTE, delay, remind(first + number)))
        })
        .collect();
    for scheduled in scheduling {
        assert!(scheduled.await.unwrap().unwrap().is_new());
    }
}

/// Claims the due timers of its share, and never ends them, until it is killed.
pub(crate) fn victim(url: &str) -> ! {
    let place = Place::new(url, SCHEMA, LEASE);
    let mut node = Node::join(&place, Deliver::All);
    let mut running = Vec::new();
    let mut share = node.beat(&running);
    println!("joined");
    let mut beaten = Instant::now();
    loop {
        if beaten.elapsed() > BEAT {
            running.sort_unstable();
            share = node.beat(&running);
            beaten = Instant::now();
        }
        let found = node.look(None, due_in(Duration::ZERO))().unwrap();
        let ids: Vec<_> =
            found.hints.iter().filter(|hint| share.contains(hint.id, hint.route)).map(|hint| hint.id).collect();
        if !ids.is_empty() {
            running.extend(node.turn(&[], &ids, complete));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

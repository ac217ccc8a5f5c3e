//! A start after `kill -9` with all timers overdue: from the start of the process to the first delivery.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::DueTime;
use actix_timers_durable::store::EmbeddedStore;

use crate::fixture::{self, Delivered};
use crate::settings::Settings;
use bench::rows::{OURS, Row, Rows};
use bench::times::millis;

/// The name of the child's work that fills the store.
pub(crate) const FILL: &str = "fill";
pub(crate) const DELIVER: &str = "deliver";

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let child = |what: &str| {
        let program = std::env::current_exe().unwrap();
        Command::new(program).args(settings.for_child(what, directory.path())).stdout(Stdio::piped()).spawn().unwrap()
    };
    wait_and_kill(child(FILL));
    let mut samples = Vec::new();
    for _ in 0..settings.rounds {
        let started = Instant::now();
        let child = wait_and_kill(child(DELIVER));
        samples.push(millis(child.saturating_duration_since(started)));
    }
    rows.push(Row::new("start", "actor", OURS, settings.pending, "ms to the first overdue delivery", samples));
}

/// Kills the child with SIGKILL at its first output. Returns the time of the output.
fn wait_and_kill(mut child: Child) -> Instant {
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let at = Instant::now();
    assert_eq!(said, "here\n", "the child process has failed");
    child.kill().unwrap();
    child.wait().unwrap();
    at
}

/// The work of the child process, until it is killed.
pub(crate) fn run_one(settings: &Settings, what: &str) {
    let path = settings.directory.join("store");
    if what == FILL {
        fill(&path, settings.pending);
    } else {
        System::new().block_on(deliver(&path));
    }
}

fn fill(path: &Path, pending: u64) {
    let mut store = EmbeddedStore::open(path).unwrap();
    fixture::fill(&mut store, pending, DueTime::MIN);
    say();
    loop {
        // Runs until it is killed.
        fixture::fill(&mut store, 256, DueTime::MIN);
    }
}

async fn deliver(path: &Path) {
    let delivered = Rc::<Delivered>::default();
    let _timers = fixture::start(EmbeddedStore::open(path).unwrap(), &delivered);
    delivered.one_more.notified().await;
    say();
    actix_rt::time::sleep(Duration::MAX).await;
}

fn say() {
    println!("here");
    std::io::stdout().flush().unwrap();
}

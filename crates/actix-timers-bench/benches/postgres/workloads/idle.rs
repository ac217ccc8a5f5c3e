//! The statements of a node without due timers: looks and beats, each a transaction of its own.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bench::rows::{OURS, Rows};

use super::row;
use crate::node::Place;
use crate::office::Running;
use crate::settings::Settings;
use crate::timer;

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let pending = timer::pending(settings.pending);
    let place = Arc::new(Place::filled(url, "idle", Duration::from_secs(10), &pending));
    let node = Running::start(&place, &Arc::default());
    let committed =
        || place.session.number("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
    let window = Duration::from_secs(settings.scaled(10, 3) as u64);
    let mut samples = Vec::new();
    for _ in 0..=settings.rounds.min(5) {
        let (before, began) = (committed(), Instant::now());
        thread::sleep(window);
        // One is that of this query.
        samples.push((committed() - before - 1) as f64 / began.elapsed().as_secs_f64());
    }
    node.stop();
    rows.push(row("idle node", OURS, settings.pending, "statements a second", samples[1..].to_vec()));
}

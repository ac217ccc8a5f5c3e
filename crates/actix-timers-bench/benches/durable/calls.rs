//! New timers through the actor: one request after the other, and many concurrent callers.

use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::store::EmbeddedStore;

use crate::contenders::{self, Timer};
use crate::fixture;
use crate::settings::Settings;
use bench::rows::{OURS, Row, Rows};
use bench::times::{each, quantile};

/// The concurrent callers; each awaits the reply to its own request.
const CALLERS: usize = 256;
const DELAY: Duration = Duration::from_secs(3600);

pub(crate) fn run(settings: &Settings, rows: &mut Rows) {
    System::new().block_on(async {
        one_caller(settings, rows).await;
        many_callers(settings, rows).await;
    });
}

fn row(subject: &str, size: usize, unit: &'static str, samples: Vec<f64>) -> Row {
    Row::new("schedule", "actor", subject, size as u64, unit, samples)
}

/// Measures the median time of a request when each reply is awaited before the next.
async fn one_caller(settings: &Settings, rows: &mut Rows) {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let timers = fixture::start(EmbeddedStore::open(directory.path().join("store")).unwrap(), &Rc::default());
    let mut write = contenders::named(contenders::WRITE_AND_SYNC, directory.path());
    let calls = if settings.check { 5 } else { 1000 };
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let mut number = 0;
    for _ in 0..settings.rounds {
        let (mut took, mut wrote) = (Vec::new(), Vec::new());
        // In turns, since disks vary over time.
        for _ in 0..calls {
            let started = Instant::now();
            fixture::schedule(&timers, DELAY).await;
            took.push(started.elapsed());
            number += 1;
            let timer = Timer { number, due: number };
            let started = Instant::now();
            write.commit(&[timer], &[]);
            wrote.push(started.elapsed());
        }
        ours.push(quantile(&mut took, 0.5).as_nanos() as f64);
        bare.push(quantile(&mut wrote, 0.5).as_nanos() as f64);
    }
    assert_eq!(timers.exact_counts().await.unwrap().pending, (calls * settings.rounds) as u64);
    timers.stop().await.unwrap();
    rows.push(row(OURS, 1, "ns a call (median)", ours));
    rows.push(row(contenders::WRITE_AND_SYNC, 1, "ns a call (median)", bare));
}

/// Measures concurrent callers that each await their own reply, beside groups of the same size.
async fn many_callers(settings: &Settings, rows: &mut Rows) {
    let directory = tempfile::tempdir_in(&settings.directory).unwrap();
    let timers = fixture::start(EmbeddedStore::open(directory.path().join("store")).unwrap(), &Rc::default());
    let peers = [contenders::SQLITE, contenders::LOG];
    let mut peers = peers.map(|name| (contenders::named(name, directory.path()), Vec::new()));
    let calls = if settings.check { 2 } else { 200 };
    let mut ours = Vec::new();
    let mut number = 0;
    for _ in 0..settings.rounds {
        let started = Instant::now();
        for caller in fixture::many_callers(&timers, CALLERS, calls, DELAY) {
            caller.await.unwrap();
        }
        ours.push(each(started.elapsed(), CALLERS * calls));
        for (peer, samples) in &mut peers {
            let started = Instant::now();
            for _ in 0..calls {
                number += CALLERS as u64;
                let group: Vec<_> =
                    (number - CALLERS as u64..number).map(|number| Timer { number, due: number }).collect();
                peer.commit(&group, &[]);
            }
            samples.push(each(started.elapsed(), CALLERS * calls));
        }
    }
    assert_eq!(timers.exact_counts().await.unwrap().pending, (CALLERS * calls * settings.rounds) as u64);
    timers.stop().await.unwrap();
    rows.push(row(OURS, CALLERS, "ns a timer", ours));
    for (peer, samples) in peers {
        rows.push(row(peer.name(), CALLERS, "ns a timer", samples));
    }
}

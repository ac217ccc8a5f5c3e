//! One caller who awaits each reply, beside one row in its own transaction.

use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;

use super::{of_actor, quantile};
use crate::contenders::bare::{self, Bare};
use crate::contenders::{How, SCHEDULE, Table, Way};
use crate::settings::Settings;
use crate::sql;
use crate::store::{self, Place};
use crate::timer::{Book, ROUTE};
use bench::rows::{OURS, Rows};

const DELAY: Duration = Duration::from_secs(3600);

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::new(settings, url, "caller");
    let (mut of_store, mut of_bare) = (Book::new(settings.pending), Book::new(settings.pending));
    store::fill(&place, of_store.schedule(settings.pending as usize).into_iter());
    let mut table = Bare::new(url);
    let fill = Way { workload: SCHEDULE, subject: bare::UNNEST, how: How::Groups(4096) };
    table.schedule(fill, &of_bare.schedule(settings.pending as usize));
    table.settle();
    let calls = settings.scaled(1000, 5);
    let (ours, alone) = System::new().block_on(async {
        let timers = store::start(&place, place.connect("caller").await, &Rc::default()).await;
        let client = sql::connect(url).await;
        let insert = client.prepare(bare::INSERT_ONE).await.unwrap();
        let (mut ours, mut alone) = (Vec::new(), Vec::new());
        for round in 0..=settings.rounds {
            let (mut took, mut inserted) = (Vec::new(), Vec::new());
            // In turns, since disks vary over time.
            for timer in of_bare.schedule(calls) {
                let started = Instant::now();
                let scheduled = timers.schedule_after(ROUTE, DELAY, store::remind(timer.number)).await.unwrap();
                took.push(started.elapsed());
                assert!(scheduled.is_new());
                let started = Instant::now();
                let row = (timer.shard() as i16, timer.millis(), timer.uuid(), timer.encoded());
                let stored = client.execute(&insert, &[&row.0, &row.1, &row.2, &row.3]).await.unwrap();
                inserted.push(started.elapsed());
                assert_eq!(stored, 1);
            }
            if round > 0 {
                ours.push(quantile(&mut took, 0.5).as_nanos() as f64);
                alone.push(quantile(&mut inserted, 0.5).as_nanos() as f64);
            }
        }
        let pending = format!("SELECT count(*) FROM {}.timers", place.schema);
        assert_eq!(sql::number(&client, &pending).await, of_bare.pending());
        timers.stop().await.unwrap();
        (ours, alone)
    });
    assert_eq!(table.pending(), of_bare.pending());
    rows.push(of_actor("one caller", OURS, settings.pending, "ns a call (median)", ours));
    rows.push(of_actor("one caller", bare::INSERT, settings.pending, "ns a call (median)", alone));
}

//! One caller who awaits each reply, beside one row in its own transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use bench::durable::remind;
use bench::rows::{OURS, Rows};
use bench::times::quantile;

use super::push;
use crate::node::Place;
use crate::office::{self, Handled};
use crate::plain::{self, INSERT};
use crate::settings::Settings;
use crate::timer::{self, HOUR, ROUTE};

pub(crate) const WORKLOAD: &str = "one caller";
pub(crate) const UNIT: &str = "ns a call (median)";

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let pending = timer::pending(settings.pending);
    let place = Place::filled(url, "caller", Duration::from_secs(10), &pending);
    let worker = plain::workers(url, 1, &pending).remove(0);
    let calls = settings.scaled(500, 5);
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..=settings.rounds {
        let timers = timer::spread((round * calls) as u64..((round + 1) * calls) as u64, HOUR, HOUR);
        let mut took = System::new().block_on(async {
            let timers = office::start(&place, &Arc::<Handled>::default()).await;
            let mut took = Vec::new();
            for number in 0..calls as u64 {
                let began = Instant::now();
                assert!(timers.schedule_after(ROUTE, HOUR, remind(number)).await.unwrap().is_new());
                took.push(began.elapsed());
            }
            timers.stop().await.unwrap();
            took
        });
        ours.push(quantile(&mut took, 0.5).as_nanos() as f64);
        let inserted = |timer: &timer::Timer| {
            let began = Instant::now();
            worker.schedule_one(*timer);
            began.elapsed()
        };
        plain.push(quantile(&mut timers.iter().map(inserted).collect::<Vec<_>>(), 0.5).as_nanos() as f64);
    }
    assert_eq!(place.rows(), settings.pending + ((settings.rounds + 1) * calls) as u64);
    push(rows, settings, WORKLOAD, UNIT, [(OURS, ours), (INSERT, plain)]);
}

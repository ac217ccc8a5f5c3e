//! A steady load of new and due timers through one node's actor: how late handlers begin at a moderate rate, and a high rate
//! before and while another session keeps an old snapshot, so that the rows of done timers cannot be removed.
//!
//! The load does not wait for the subject. Each timer is due a second or two after its request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers_durable::DurableTimers;
use bench::durable::remind;
use bench::rows::{OURS, Rows};
use bench::times::{each, millis, quantile};

use super::row;
use crate::node::Place;
use crate::office::{self, Handled};
use crate::settings::Settings;
use crate::sql;
use crate::timer::{self, ROUTE};

pub(crate) const MODERATE: &str = "1 000 a second";
pub(crate) const HIGH: &str = "8 000 a second";
pub(crate) const UNIT: &str = "ns a timer";
pub(crate) const LATE: &str = "ms late (p99)";
pub(crate) const BEFORE: &str = "before the snapshot";

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::filled(url, "steady", Duration::from_secs(10), &timer::pending(settings.pending));
    let window = Duration::from_secs(settings.scaled(10, 1) as u64);
    System::new().block_on(async {
        let handled = Arc::<Handled>::default();
        let timers = office::start(&place, &handled).await;
        let mut load = Load { timers: &timers, handled: &handled, scheduled: 0, handled_before: 0 };
        let rounds = settings.rounds.min(5) as u32;
        load.run(1000, Duration::from_secs(3), 1).await;
        let (_, late) = load.run(1000, window, rounds).await;
        load.finish().await;
        rows.push(row(MODERATE, OURS, settings.pending, LATE, late));
        load.run(8000, Duration::from_secs(3), 1).await;
        let (before, late_before) = load.run(8000, window, rounds).await;
        let session = sql::connect(url).await;
        session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        sql::number(&session, "SELECT count(*) FROM pg_class").await;
        let (pinned, late_pinned) = load.run(8000, settings.pinned / rounds, rounds).await;
        session.batch_execute("COMMIT").await.unwrap();
        load.finish().await;
        for (subject, took, late) in [(OURS, pinned, late_pinned), (BEFORE, before, late_before)] {
            rows.push(row(HIGH, subject, settings.pending, UNIT, took));
            rows.push(row(HIGH, subject, settings.pending, LATE, late));
        }
        timers.stop().await.unwrap();
    });
    assert_eq!(place.rows(), settings.pending);
}

struct Load<'a> {
    timers: &'a DurableTimers,
    handled: &'a Handled,
    scheduled: u64,
    handled_before: u64,
}

impl Load<'_> {
    /// Runs rounds of a load. Returns of each the nanoseconds per handled timer, and how late handlers began.
    async fn run(&mut self, rate: u64, round: Duration, rounds: u32) -> (Vec<f64>, Vec<f64>) {
        let (mut took, mut late) = (Vec::new(), Vec::new());
        let (began, first) = (Instant::now(), self.scheduled);
        for number in 1..=rounds {
            let started = Instant::now();
            while began.elapsed() < round * number {
                let expected = first + (began.elapsed().as_micros() * u128::from(rate) / 1_000_000) as u64;
                for number in self.scheduled..expected {
                    let delay = Duration::from_millis(1000 + number.wrapping_mul(7919) % 1000);
                    let scheduling = self.timers.schedule_after(ROUTE, delay, remind(number));
                    actix_rt::spawn(async move { assert!(scheduling.await.unwrap().is_new()) });
                }
                self.scheduled = expected;
                actix_rt::time::sleep(Duration::from_millis(4)).await;
            }
            // A busy machine may have handled none in a short round.
            self.handled.wait_for(1).await;
            let notes = self.handled.take();
            self.handled_before += notes.len() as u64;
            took.push(each(started.elapsed(), notes.len()));
            late.push(millis(quantile(&mut notes.iter().map(office::Note::late).collect::<Vec<_>>(), 0.99)));
        }
        (took, late)
    }

    /// Waits until all are handled.
    async fn finish(&mut self) {
        self.handled.wait_for((self.scheduled - self.handled_before) as usize).await;
        self.handled_before += self.handled.take().len() as u64;
        assert_eq!(self.handled_before, self.scheduled);
        // The ends are committed.
        actix_rt::time::sleep(Duration::from_millis(500)).await;
    }
}

//! The memory of a node with few pending timers and with many, each in a process of its own.

use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers_durable::DueTime;

use super::of_actor;
use crate::settings::Settings;
use crate::store::{self, Handled, Place};
use crate::timer::{ROUTE, Timer};
use bench::process::resident_bytes;
use bench::rows::{OURS, Rows};

const FEW: u64 = 10_000;
pub(crate) const UNIT: &str = "MB of memory";
pub(crate) const WORKLOAD: &str = "memory";
/// The time within which the pending timers are due, after an hour.
const WEEK: u64 = 7 * 86_400_000;
/// Timers that the node schedules and delivers before its memory is read.
const LIVES: u64 = 5000;

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let sizes = [few(settings), settings.many];
    let schemas = ["few", "many"];
    for (schema, size) in schemas.into_iter().zip(sizes) {
        let begin = DueTime::reached_at(SystemTime::now()).saturating_add(Duration::from_secs(3600));
        let delay = |number| Duration::from_millis((u128::from(number) * u128::from(WEEK) / u128::from(size)) as u64);
        let timers = (0..size).map(|number| Timer { number, due: begin.saturating_add(delay(number)) });
        assert_eq!(store::fill(&Place::new(settings, url, schema), timers), size);
    }
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..settings.rounds {
        for (schema, samples) in schemas.into_iter().zip(&mut samples) {
            let program = std::env::current_exe().unwrap();
            let child = Command::new(program).args(settings.for_child(schema, url)).stderr(Stdio::inherit()).output();
            let child = child.unwrap();
            assert!(child.status.success(), "{schema} has failed");
            samples.push(String::from_utf8(child.stdout).unwrap().trim().parse().unwrap());
        }
    }
    for (size, samples) in sizes.into_iter().zip(samples) {
        rows.push(of_actor(WORKLOAD, OURS, size, UNIT, samples));
    }
}

/// Returns the smaller number of pending timers.
pub(crate) fn few(settings: &Settings) -> u64 {
    FEW.min(settings.many / 4)
}

/// The work of the child process: runs a node with some traffic, and prints its memory in MB.
pub(crate) fn run_one(settings: &Settings, url: &str, schema: &str) {
    let place = Place::new(settings, url, schema);
    System::new().block_on(async {
        let handled = Rc::<Handled>::default();
        let timers = store::start(&place, place.connect("node").await, &handled).await;
        let lives = settings.scaled(LIVES as usize, 50) as u64;
        for group in 0..lives / 50 {
            let schedule = |number| timers.schedule_after(ROUTE, Duration::from_millis(5), store::remind(number));
            let scheduling = (0..50).map(|number| schedule(u64::MAX / 2 + 50 * group + number));
            for scheduled in futures_util::future::join_all(scheduling).await {
                assert!(scheduled.unwrap().is_new());
            }
        }
        handled.wait_for(lives as usize).await;
        actix_rt::time::sleep(Duration::from_secs(if settings.check { 0 } else { 3 })).await;
        println!("{}", resident_bytes() as f64 / 1e6);
        timers.stop().await.unwrap();
    });
}

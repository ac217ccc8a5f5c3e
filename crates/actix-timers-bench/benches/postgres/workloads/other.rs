//! Timers that are due at once, scheduled by a node that delivers nothing: from the request to the handler on another node.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use bench::durable::remind;
use bench::rows::{OURS, Rows};
use bench::times::{millis, quantile};

use super::push;
use crate::node::Place;
use crate::office::{self, Handled};
use crate::settings::Settings;
use crate::timer::{self, ROUTE};

/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(7);
pub(crate) const WORKLOAD: &str = "due at once for another node";

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::filled(url, "other", Duration::from_secs(10), &timer::pending(settings.pending));
    let requests = settings.scaled(500, 20) as u64;
    let (mut middle, mut late) = (Vec::new(), Vec::new());
    System::new().block_on(async {
        let handled = Arc::<Handled>::default();
        let office = office::start(&place, &handled).await;
        let web = office::start_web(&place).await;
        for _ in 0..=settings.rounds {
            let (mut begun, mut replies) = (Vec::new(), Vec::new());
            for number in 0..requests {
                begun.push(SystemTime::now());
                let scheduling = web.schedule_after(ROUTE, Duration::ZERO, remind(number));
                replies.push(actix_rt::spawn(async move { scheduling.await.unwrap().is_new() }));
                actix_rt::time::sleep(PAUSE).await;
            }
            for reply in replies {
                assert!(reply.await.unwrap());
            }
            handled.wait_for(requests as usize).await;
            let notes = handled.take();
            let took = |note: &office::Note| note.handled.duration_since(begun[note.number as usize]).unwrap();
            let mut took: Vec<_> = notes.iter().map(took).collect();
            middle.push(millis(quantile(&mut took, 0.5)));
            late.push(millis(quantile(&mut took, 0.99)));
        }
        web.stop().await.unwrap();
        office.stop().await.unwrap();
    });
    push(rows, settings, WORKLOAD, "ms to the handler (p50)", [(OURS, middle)]);
    push(rows, settings, WORKLOAD, "ms to the handler (p99)", [(OURS, late)]);
}

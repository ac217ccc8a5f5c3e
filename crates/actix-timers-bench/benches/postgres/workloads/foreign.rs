//! Timers that are due at once, scheduled by a node that delivers nothing: from the request to the handler on the node
//! that owns their shards.

use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::prelude::*;

use super::{of_actor, quantile};
use crate::settings::Settings;
use crate::store::{self, Handled, Place};
use crate::timer::{Book, ROUTE};
use bench::rows::{OURS, Rows};

/// The time between two requests.
const PAUSE: Duration = Duration::from_millis(7);
pub(crate) const WORKLOAD: &str = "due at once for another node";
pub(crate) const P99: &str = "ms to the handler (p99)";

pub(crate) fn run(settings: &Settings, url: &str, rows: &mut Rows) {
    let place = Place::new(settings, url, "other");
    store::fill(&place, Book::new(settings.pending).schedule(settings.pending as usize).into_iter());
    let requests = settings.scaled(1000, 20) as u64;
    let (middle, late) = System::new().block_on(async {
        let handled = Rc::<Handled>::default();
        let office = store::start(&place, place.connect("office").await, &handled).await;
        let web = store::schedule_only(place.connect("web").await);
        let (mut middle, mut late) = (Vec::new(), Vec::new());
        for round in 0..=settings.rounds as u64 {
            let (mut begun, mut replies) = (Vec::new(), Vec::new());
            for number in round * requests..(round + 1) * requests {
                begun.push((number, Instant::now()));
                let scheduling = web.schedule_after(ROUTE, Duration::ZERO, store::remind(number));
                replies.push(actix_rt::spawn(async move { scheduling.await.unwrap().is_new() }));
                actix_rt::time::sleep(PAUSE).await;
            }
            for reply in replies {
                assert!(reply.await.unwrap());
            }
            handled.wait_for(((round + 1) * requests) as usize).await;
            let mut took: Vec<_> = begun.iter().map(|(number, begun)| handled.time(*number) - *begun).collect();
            if round > 0 {
                middle.push(quantile(&mut took, 0.5).as_nanos() as f64 / 1e6);
                late.push(quantile(&mut took, 0.99).as_nanos() as f64 / 1e6);
            }
        }
        web.stop().await.unwrap();
        office.stop().await.unwrap();
        (middle, late)
    });
    rows.push(of_actor(WORKLOAD, OURS, settings.pending, "ms to the handler (p50)", middle));
    rows.push(of_actor(WORKLOAD, OURS, settings.pending, P99, late));
}

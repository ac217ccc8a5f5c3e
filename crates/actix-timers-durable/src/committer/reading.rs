//! The thread that answers queries beside the commits, of a store that can be read there.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gauges::{COUNT_EVERY, Gauges};
use super::queue::{End, SharedQueue, Taken};
use super::request::Request;
use crate::store::Reads;
use crate::store::StoreError;
use crate::sync::spawn;

pub(super) fn start(
    reader: Box<dyn Reads>,
    queries: Arc<SharedQueue>,
    gauges: Arc<Gauges>,
    count_every: Duration,
    name: &str,
) -> io::Result<()> {
    let run = move || {
        let _end = End(vec![&*queries]);
        run(reader, &queries, &gauges, count_every);
    };
    spawn(format!("{name} reader"), run).map(drop)
}

/// Runs until the queue is left. While there are no queries it counts the timers for the metrics.
fn run(mut reader: Box<dyn Reads>, queries: &SharedQueue, gauges: &Gauges, count_every: Duration) {
    let mut taken = VecDeque::new();
    // Until the first count the thread of the commits counts.
    let mut pause = COUNT_EVERY;
    loop {
        match queries.take(&mut taken, Some(pause)) {
            Taken::Left => return,
            Taken::Nothing => {
                let begun = Instant::now();
                gauges.count(&mut *reader);
                pause = count_every.max(50 * begun.elapsed());
            }
            Taken::Requests => {}
        }
        for request in taken.drain(..) {
            let places = request.places();
            match (queries.end_reason(), request) {
                (None, Request::Read(query)) => query(Ok(&mut *reader))(),
                (why, request) => request.reject(&why.unwrap_or_else(|| Arc::new(StoreError::Closed))),
            }
            queries.done(places);
        }
    }
}

//! The thread that answers queries beside the commits, of a store that can be read there.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::gauges::Gauges;
use super::queue::{End, SharedQueue, Taken};
use crate::ledger::{InFlight, Queries, Replies};
use crate::metrics::DurableCounters;
use crate::store::TimerReader;
use crate::sync::spawn;

pub(super) fn start(
    reader: Box<dyn TimerReader>,
    queries: Arc<SharedQueue>,
    gauges: Arc<Gauges>,
    name: &str,
) -> io::Result<()> {
    let run = move || {
        let _end = End(vec![&*queries]);
        run(reader, &queries, &gauges);
    };
    spawn(format!("{name} reader"), run).map(drop)
}

/// Runs until the queue is left.
fn run(mut reader: Box<dyn TimerReader>, queries: &SharedQueue, gauges: &Gauges) {
    let (mut taken, mut replies) = (VecDeque::new(), Replies::default());
    while !matches!(queries.take(&mut taken, false, None), Taken::Left) {
        for query in taken.drain(..) {
            if let Some(why) = queries.end_reason() {
                query.reject(&why);
                continue;
            }
            let places = query.places();
            let mut counters = DurableCounters::default();
            Queries { reader: &mut *reader, counters: &mut counters, in_flight: InFlight::CLAIMS }
                .answer(query, &mut replies);
            queries.done(places);
            gauges.read(&counters);
            replies.send(|copy| copy());
        }
    }
}

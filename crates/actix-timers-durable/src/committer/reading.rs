//! The thread that answers queries beside the commits, of a store that can be read there.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::queue::{AtEnd, SharedQueue};
use super::request::Request;
use super::{CommitterClock, Environment};
use crate::due_time::DueTime;
use crate::metrics::{Counted, DurableMeters};
use crate::pause::{Pause, PauseTarget};
use crate::store::{Found, Part, Query, Reads, State, StoreError};
use crate::sync::spawn;

/// The least time between counts of the timers for the metrics; they take at most a fiftieth of it. The first count is at once.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The same in a store that nodes share: each of them counts all timers.
const COUNT_SHARED_EVERY: Duration = Duration::from_secs(10);
/// The due timers of the first page that is examined for the metrics; the next ones are twice as large, up to the second number.
/// Many timers may be of paused routes. Those of routes that the node delivers are in memory, too.
const PAGE: usize = 64;
const LARGEST_PAGE: usize = 8192;
/// The bytes of due timers, and the pages, that are examined at most. Pages may be empty: of timers that were moved to a later
/// time.
const BYTES: usize = 32 << 20;
/// The bytes of a timer beside its message and headers.
const OTHERS: usize = 256;
const PAGES: usize = 400;
/// The number up to which timers are counted for the metrics.
pub(super) const COUNT_LIMIT: u64 = 1_000_000;

pub(super) fn start(
    reader: Box<dyn Reads>,
    queries: Arc<SharedQueue>,
    environment: &Environment,
    is_shared: bool,
    name: &str,
) -> io::Result<()> {
    let Environment { clock, meters, .. } = environment.clone();
    let count_every = if is_shared { COUNT_SHARED_EVERY } else { COUNT_EVERY };
    let run = move || {
        let _closed = AtEnd(|| queries.close());
        run(reader, &queries, &clock, &meters, count_every);
    };
    spawn(format!("{name} reader"), run).map(drop)
}

/// Counts the timers for the metrics, and takes the lateness of the first one that waits.
pub(super) fn measure(reads: &mut dyn Reads, meters: &DurableMeters, now: DueTime) -> Result<(), StoreError> {
    let counts = reads.counts(Some(COUNT_LIMIT))?;
    let overdue = first_waiting(reads, now)?.map_or(Duration::ZERO, |due| now.saturating_since(due));
    meters.levels(|levels| (levels.counts, levels.overdue) = (counts, overdue));
    Ok(())
}

/// Returns the due time of the first timer, among some due ones, that is neither with its handler nor of a paused route.
fn first_waiting(reads: &mut dyn Reads, now: DueTime) -> Result<Option<DueTime>, StoreError> {
    let mut query = Query { limit: PAGE, until: now, ..Query::of(Part::Pending) };
    let (mut pauses, mut bytes) = (None, 0);
    for _ in 0..PAGES {
        let page = reads.list(&query)?;
        bytes += page.found.iter().map(|found| OTHERS + found.record.size()).sum::<usize>();
        // An idle node reads no pauses.
        if pauses.is_none() && !page.found.is_empty() {
            pauses = Some(reads.pauses()?);
        }
        let pauses_route =
            |pause: &Pause, of: &str| matches!(&pause.target, PauseTarget::Route(route) if **route == *of);
        let is_paused =
            |route: &str| pauses.iter().flatten().any(|pause| pauses_route(pause, route) && pause.holds(now));
        let waits = |found: &&Found| found.state == State::Pending && !is_paused(&found.record.route);
        let first = page.found.iter().find(waits);
        if first.is_some() || page.next.is_none() {
            return Ok(first.map(|first| first.record.progress.due));
        }
        if bytes >= BYTES {
            break;
        }
        (query.after, query.limit) = (page.next, (query.limit * 2).min(LARGEST_PAGE));
    }
    Ok(None)
}

/// Runs until the queue is left. While there are no queries it counts the timers for the metrics.
fn run(
    mut reader: Box<dyn Reads>,
    queries: &SharedQueue,
    clock: &CommitterClock,
    meters: &DurableMeters,
    count_every: Duration,
) {
    let mut taken = VecDeque::new();
    let mut next_count = Instant::now();
    while queries.take(&mut taken, Some(next_count.saturating_duration_since(Instant::now()))) {
        for request in taken.drain(..) {
            let places = request.places();
            if let Request::Read(query) = request
                && !queries.is_closed()
            {
                query(&mut *reader)();
            }
            queries.done(places);
        }
        // Queries without an end hold no count up.
        let begun = Instant::now();
        if begun >= next_count && !queries.is_closed() {
            if measure(&mut *reader, meters, clock().wall).is_err() {
                meters.count(Counted::QueryFailed, 1);
            }
            next_count = Instant::now() + count_every.max(50 * begun.elapsed());
        }
    }
}

//! Queries: answered from the store, after their group is written, or beside the commits.

use std::sync::Arc;

use super::request::{Answer, Listed, Query, Request, Seen};
use super::{Horizon, Ledger, Ledgers, Replies, frontier};
use crate::id::DurableId;
use crate::metrics::{DurableCounters, StoreOp};
use crate::record::Record;
use crate::store::{Found, Part, Position, StoreError, TimerReader};

/// Maximum number of records that one request examines, and bytes of their payload: it delays all others.
const MAX_EXAMINED: usize = 4096;
const BYTES: usize = 8 << 20;
/// Number of records read at a time. The first page is small, since the size of records is unknown.
const FIRST_PAGE: usize = 8;
const PAGE: usize = 64;

impl<H: Horizon> Ledgers<H> {
    /// Answers a query between two commits.
    pub(super) fn look_up(&mut self, request: Request, replies: &mut Replies) {
        match request {
            Request::BackUp { directory, answer } => match self.store.back_up(&directory) {
                Ok(copy) => replies.copy(answer, copy),
                Err(error) => {
                    self.counters.failed(StoreOp::BackUp);
                    replies.put(answer, Err(Arc::new(error)));
                }
            },
            query => self.queries(|mut queries| queries.answer(query, replies)),
        }
    }
}

/// The deliveries that a ledger knows besides the claims in the store.
#[derive(Clone, Copy)]
pub(crate) struct InFlight<'a> {
    pub(super) is_busy: &'a dyn Fn(DurableId) -> bool,
    /// Timers that were removed from the store.
    pub(super) removed: &'a dyn Fn(DurableId) -> Option<Arc<Record>>,
}

impl InFlight<'_> {
    /// Beside the commits: the claims in the store are all.
    pub(crate) const CLAIMS: Self = Self { is_busy: &|_| false, removed: &|_| None };
}

/// See the [module](self).
pub(crate) struct Queries<'a> {
    pub(crate) reader: &'a mut dyn TimerReader,
    pub(crate) counters: &'a mut DurableCounters,
    pub(crate) in_flight: InFlight<'a>,
}

impl Queries<'_> {
    /// Puts the answer into `replies`.
    pub(crate) fn answer(&mut self, query: Request, replies: &mut Replies) {
        match query {
            Request::Get { id, answer } => {
                let seen = self.see(id);
                self.reply(answer, seen, replies);
            }
            Request::FindKey { key, answer } => {
                let found = self.reader.find_key(&key);
                self.reply(answer, found, replies);
            }
            Request::List { query, answer } => {
                let page = self.list(&query);
                self.reply(answer, page, replies);
            }
            Request::Counts { exact, answer } => {
                let counts = if exact { self.reader.exact_total() } else { self.reader.total() };
                self.reply(answer, counts, replies);
            }
            _ => debug_assert!(false, "not a query"),
        }
    }

    fn reply<T: Send + 'static>(&mut self, answer: Answer<T>, found: Result<T, StoreError>, replies: &mut Replies) {
        if found.is_err() {
            self.counters.failed(StoreOp::Read);
        }
        replies.put(answer, found.map_err(Arc::new));
    }

    fn see(&mut self, id: DurableId) -> Result<Option<Seen>, StoreError> {
        if let Some(record) = (self.in_flight.removed)(id) {
            let found = Found { record, part: Part::Pending, dead_letter: None, is_claimed: true };
            return Ok(Some(Seen { found, in_progress: true }));
        }
        let found = self.reader.get(id)?;
        Ok(found.map(|found| Seen { in_progress: self.is_in_progress(&found), found }))
    }

    fn is_in_progress(&self, found: &Found) -> bool {
        found.part == Part::Pending && (found.is_claimed || (self.in_flight.is_busy)(found.record.id))
    }

    fn list(&mut self, query: &Query) -> Result<Listed, StoreError> {
        let limit = query.limit.max(1);
        let mut listed = Listed { next: query.after.max(frontier::start_of(query.from)), ..Listed::default() };
        let (mut examined, mut bytes, mut page_size) = (0, 0, FIRST_PAGE);
        while listed.seen.len() < limit && examined < MAX_EXAMINED && bytes < BYTES {
            let page = self.reader.list(query.part, listed.next, query.until, page_size)?;
            examined += page_size;
            let size: usize = page.found.iter().map(|found| found.record.size()).sum();
            bytes += size;
            if size * 2 <= BYTES {
                page_size = (page_size * 2).min(PAGE);
            }
            page.damaged.iter().for_each(|_| self.counters.failed(StoreOp::Decode));
            listed.damaged += page.damaged.len();
            listed.newer += page.newer.len();
            listed.next = page.next;
            for found in page.found {
                if listed.seen.len() == limit {
                    listed.next = listed.seen.last().map(|last| Position::of(&last.found.record));
                    return Ok(listed);
                }
                if query.route.as_ref().is_none_or(|route| *route == found.record.route) {
                    let in_progress = self.is_in_progress(&found);
                    listed.seen.push(Seen { found, in_progress });
                }
            }
            if listed.next.is_none() {
                break;
            }
        }
        Ok(listed)
    }
}

impl<H: Horizon> Ledger<H> {
    /// Returns a timer that is with its handler, and was removed from the store.
    pub(super) fn removed_in_flight(&self, id: DurableId) -> Option<Arc<Record>> {
        let entry = self.table.get(id).filter(|entry| entry.state.is_removed())?;
        Some(Arc::clone(&entry.record))
    }

    /// Returns whether a timer is with its handler, or the change after that is not written.
    pub(super) fn is_busy(&self, id: DurableId) -> bool {
        self.table.get(id).is_some_and(|entry| !entry.state.is_pending())
    }
}

//! Requests that change nothing: answered from the store, after the group that they came with is written.

use std::sync::Arc;

use super::request::{Answered, Listed, Query, Request, Seen};
use super::{Horizon, Ledger, Outbox, frontier};
use crate::durable::id::DurableId;
use crate::durable::store::{Found, Part, Position, StoreError};

/// Records that one request looks at, at most.
const LOOKED_AT: usize = 4096;
const PAGE: usize = 256;

impl<H: Horizon> Ledger<H> {
    pub(super) fn look_up(&mut self, request: Request, outbox: &mut Outbox) {
        let shard = self.config.shard;
        match request {
            Request::Get { id, answer } => outbox.put(answer, self.see(id)),
            Request::FindKey { key, answer } => {
                outbox.put(answer, self.store.find_key(shard, &key).map_err(Arc::new));
            }
            Request::List { query, answer } => outbox.put(answer, self.list(&query).map_err(Arc::new)),
            Request::Counts { answer } => outbox.put(answer, self.store.counts(shard).map_err(Arc::new)),
            Request::BackUp { directory, answer } => match self.store.back_up(&directory) {
                Ok(copy) => outbox.copy(answer, copy),
                Err(error) => outbox.put(answer, Err(Arc::new(error))),
            },
            _ => debug_assert!(false, "not a query"),
        }
    }

    fn see(&mut self, id: DurableId) -> Answered<Option<Seen>> {
        let found = self.store.get(id).map_err(Arc::new)?;
        Ok(found.map(|found| Seen { in_progress: self.is_in_progress(&found), found }))
    }

    fn is_in_progress(&self, found: &Found) -> bool {
        found.part == Part::Pending && self.table.get(found.record.id).is_some_and(|entry| !entry.state.is_pending())
    }

    fn list(&mut self, query: &Query) -> Result<Listed, StoreError> {
        let limit = query.limit.max(1);
        let mut listed = Listed { next: query.after.max(frontier::start_of(query.from)), ..Listed::default() };
        let mut looked_at = 0;
        while listed.seen.len() < limit && looked_at < LOOKED_AT {
            let page = self.store.load(query.part, self.config.shard, listed.next, query.until, PAGE)?;
            looked_at += PAGE;
            listed.damaged += page.damaged.len();
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

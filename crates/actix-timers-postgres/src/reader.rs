//! Reads in a session: that of the store, or the one of the queries beside its commits.

use std::time::Duration;

use actix_timers_durable::store::{Counts, Found, MAX_KEY_LEN, Page, Part, Position, TimerReader};
use actix_timers_durable::{DueTime, DurableId, StoreError};

use crate::columns::Names;
use crate::dial::LocalFuture;
use crate::error::Failure;
use crate::io::Jobs;
use crate::reads::{self, PageRequest, decode_found, decode_page};
use crate::session::Session;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) session: Jobs,
    /// The time limit of a call.
    pub(crate) limit: Duration,
    pub(crate) names: Names,
    /// Whether claims of other nodes count.
    pub(crate) is_shared: bool,
}

impl Reader {
    /// Runs work in the session.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.session.run(self.limit, work)
    }

    pub(crate) fn page(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        let rows = self.call(move |session| Box::pin(reads::page(session, request)))?;
        Ok(decode_page(&mut self.names, &rows, request, self.is_shared))
    }
}

impl TimerReader for Reader {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        let rows = self.call(move |session| Box::pin(reads::get(session, id)))?;
        let Some(row) = rows.first() else { return Ok(None) };
        decode_found(&mut self.names, id, row, self.is_shared).map(Some)
    }

    fn find_key(&mut self, key: &str) -> Result<Option<DurableId>, StoreError> {
        if key.len() > MAX_KEY_LEN {
            return Ok(None);
        }
        let key = key.to_owned();
        self.call(move |session| Box::pin(async move { reads::find_key(session, &key).await }))
    }

    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError> {
        self.page(PageRequest { part, shard: None, after, until, limit })
    }

    fn total(&mut self) -> Result<Counts, StoreError> {
        self.call(|session| Box::pin(reads::total(session)))
    }

    fn exact_total(&mut self) -> Result<Counts, StoreError> {
        self.call(|session| Box::pin(reads::exact_total(session)))
    }
}

//! Reads beside the commits.

use std::ops::DerefMut;

use super::{Counts, Found, Page, Part, Position, StoreError, TimerStore};
use crate::due_time::DueTime;
use crate::id::DurableId;

/// Reads timers of all shards beside the store that made it, on another thread.
///
/// It sees all commits that have returned. It must set [`Found::is_claimed`] in [`get`](Self::get) and in
/// [`list`](Self::list): beside the commits nothing else shows which timers are in flight.
///
/// ```
/// use actix_timers_durable::{DueTime, TimerStore};
/// use actix_timers_durable::store::{MemoryDisk, Part};
///
/// // Stores of a disk for several nodes give one.
/// let mut store = MemoryDisk::shared(4).open();
/// let mut reader = store.reader()?.expect("this store gives a reader");
/// let queries = std::thread::spawn(move || reader.list(Part::Pending, None, DueTime::MAX, 10));
/// assert_eq!(queries.join().unwrap()?.found, []);
/// # Ok::<(), actix_timers_durable::StoreError>(())
/// ```
pub trait TimerReader: Send {
    /// As [`TimerStore::get`].
    ///
    /// # Errors
    /// As [`TimerStore::get`].
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError>;

    /// As [`TimerStore::find_key`], in all shards.
    ///
    /// # Errors
    /// As [`TimerStore::find_key`].
    fn find_key(&mut self, key: &str) -> Result<Option<DurableId>, StoreError>;

    /// As [`TimerStore::list`].
    ///
    /// # Errors
    /// As [`TimerStore::list`].
    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError>;

    /// As [`TimerStore::total`].
    ///
    /// # Errors
    /// As [`TimerStore::total`].
    fn total(&mut self) -> Result<Counts, StoreError>;

    /// As [`TimerStore::exact_total`].
    ///
    /// # Errors
    /// As [`TimerStore::exact_total`].
    fn exact_total(&mut self) -> Result<Counts, StoreError> {
        self.total()
    }
}

/// The reads of a store as a reader: between its commits, or of another store on the same disk.
pub(crate) struct ReadsOf<S>(pub(crate) S);

impl<S: DerefMut<Target: TimerStore> + Send> TimerReader for ReadsOf<S> {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.0.get(id)
    }

    fn find_key(&mut self, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.0.find_key(0, key)
    }

    fn list(&mut self, part: Part, after: Option<Position>, until: DueTime, limit: usize) -> Result<Page, StoreError> {
        self.0.list(part, after, until, limit)
    }

    fn total(&mut self) -> Result<Counts, StoreError> {
        self.0.total()
    }

    fn exact_total(&mut self) -> Result<Counts, StoreError> {
        self.0.exact_total()
    }
}

//! A placeholder for a closed store.

use crate::due_time::DueTime;
use crate::id::DurableId;
use crate::store::{Change, ChangeOutcome, Counts, Fence, Found, Lease, Page, Part, Position, StoreError, TimerStore};

/// A store that rejects every call.
pub(super) struct Closed;

impl TimerStore for Closed {
    fn acquire(&mut self, _: u16) -> Result<Lease, StoreError> {
        Err(StoreError::Closed)
    }

    fn commit(&mut self, _: Fence, _: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        Err(StoreError::Closed)
    }

    fn load(&mut self, _: Part, _: u16, _: Option<Position>, _: DueTime, _: usize) -> Result<Page, StoreError> {
        Err(StoreError::Closed)
    }

    fn get(&mut self, _: DurableId) -> Result<Option<Found>, StoreError> {
        Err(StoreError::Closed)
    }

    fn find_key(&mut self, _: u16, _: &str) -> Result<Option<DurableId>, StoreError> {
        Err(StoreError::Closed)
    }

    fn counts(&mut self, _: u16) -> Result<Counts, StoreError> {
        Err(StoreError::Closed)
    }
}

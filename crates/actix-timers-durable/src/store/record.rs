//! The row of a timer as a value.

use std::sync::Arc;
use std::time::Duration;

use crate::due_time::DueTime;
use crate::headers::Headers;
use crate::id::DurableId;
use crate::record::{RepeatMode, RetryPolicy, StoredRepeat};
use crate::store::{MAX_RECORD_LEN, StoreError};

use super::Delivery;

/// The row of a timer, without the columns of its claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The id, stable over retries, moves, repetitions and restarts.
    pub id: DurableId,
    /// The columns that change while the timer lives.
    pub progress: Progress,
    /// The name of the route.
    pub route: Arc<str>,
    /// The name of the message type.
    pub message_type: Arc<str>,
    /// The version in which the payload is encoded.
    pub message_version: u32,
    /// The idempotency key, if any: at most one timer of the route has it.
    pub key: Option<Arc<str>>,
    /// The time for which the key stays taken when the timer is complete, in whole milliseconds.
    pub keep_key: Option<Duration>,
    /// The repetition, if any.
    pub repeat: Option<StoredRepeat>,
    /// The budget of attempts, if it differs from the route's.
    pub max_attempts: Option<u32>,
    /// The retry policy, if it differs from the route's. Its attempts do not count.
    pub retry: Option<RetryPolicy>,
    /// The headers.
    pub headers: Headers,
    /// The id of the [codec](crate::PayloadCodec) that has encoded the payload, if any.
    pub payload_codec: Option<Arc<str>>,
    /// The encoded message.
    pub payload: Arc<[u8]>,
}

/// The columns of a row that change while the timer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Progress {
    /// The time of the next delivery; of a claimed row, of this one.
    pub due: DueTime,
    /// The due time of the message, retries aside: of a repetition its time on the grid.
    pub nominal: DueTime,
    /// The number of the repetition, from 1. Always 1 without repetition.
    pub repetition: u64,
    /// The number of the last delivery of this repetition; 0 before the first.
    pub attempt: u32,
    /// The part of the budget that is used up.
    pub used: u32,
}

impl Progress {
    /// Returns the progress of a new timer.
    pub const fn first(due: DueTime) -> Self {
        Self { due, nominal: due, repetition: 1, attempt: 0, used: 0 }
    }
}

/// From this on a budget of attempts has no end. A failure returns all of such a budget, which only ends of processes use up.
pub const NO_END: u32 = i32::MAX.unsigned_abs();

/// The ends of processes after which a timer without an end is a suspect.
const CRASHES: u32 = 10;

/// Returns whether a budget is used up, its own or else its route's: the timer may be to blame for ends of processes.
pub(super) const fn is_suspect(used: u32, budget: Option<u32>, of_route: u32) -> bool {
    let budget = match budget {
        Some(budget) => budget,
        None => of_route,
    };
    used >= if budget >= NO_END { CRASHES } else { budget }
}

impl Record {
    /// Returns the delivery of a claimed row.
    pub const fn delivery(&self) -> Delivery {
        Delivery { id: self.id, repetition: self.progress.repetition, attempt: self.progress.attempt }
    }

    /// Returns the retry policy, given its route's.
    pub fn retry_policy(&self, of_route: RetryPolicy) -> RetryPolicy {
        self.retry.unwrap_or(of_route).max_attempts(self.max_attempts.unwrap_or(of_route.attempts))
    }

    /// Returns the column `keep_key`: the milliseconds for which the key stays taken, rounded up.
    pub fn keep_key_ms(&self) -> Option<u64> {
        self.keep_key.map(|keep| DueTime::MIN.saturating_add(keep).as_millis())
    }

    /// Returns the bytes of its message and headers, by which memory is limited.
    pub fn size(&self) -> usize {
        self.payload.len() + self.headers.size()
    }

    /// Checks the lengths of its texts and bytes together.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`].
    pub fn check_lengths(&self) -> Result<(), StoreError> {
        let repeat = match &self.repeat {
            Some(StoredRepeat { mode: RepeatMode::Cron { expression, zone }, .. }) => expression.len() + zone.len(),
            _ => 0,
        };
        let key = self.key.as_ref().map_or(0, |key| key.len());
        let codec = self.payload_codec.as_ref().map_or(0, |codec| codec.len());
        let size = self.size() + self.route.len() + self.message_type.len() + key + codec + repeat;
        if size > MAX_RECORD_LEN {
            return Err(StoreError::TooLarge { size, limit: MAX_RECORD_LEN });
        }
        Ok(())
    }
}

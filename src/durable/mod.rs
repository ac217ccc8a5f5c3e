//! Timers that survive their process: the store they are kept in, and what stands around it.
//!
//! Read in this order:
//!
//! 1. [`DueTime`] (`due_time`), [`DurableId`] (`id`) and [`Record`] (`record`): what is kept of a timer.
//! 2. [`TimerStore`] (`store`): the narrow trait behind which the records lie, and the changes it commits.
//! 3. `ledger`: the one place that decides; `journal`: where it lives, and the way to it.
//!
//! Nothing in here reads a clock: times of day are arguments.

#[allow(dead_code, reason = "used by the API, which follows")]
mod calendar;
mod due_time;
mod id;
#[allow(dead_code, reason = "used by the API, which follows")]
mod journal;
#[allow(dead_code, reason = "used by the API, which follows")]
mod ledger;
mod record;
pub mod store;

pub use due_time::{DueTime, OutOfRange};
pub use id::{DurableId, ParseDurableIdError};
pub use record::{Missed, Progress, Record, Repeat, RetryPolicy, Rhythm};
pub use store::{StoreError, TimerStore};

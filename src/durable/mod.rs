//! Timers that survive their process: the store they are kept in, and what stands around it.
//!
//! Read in this order:
//!
//! 1. [`DueTime`] (`due_time`), [`DurableId`] (`id`) and [`Record`] (`record`): what is kept of a timer.
//! 2. [`TimerStore`] (`store`): the narrow trait behind which the records lie, and the changes it commits.
//!
//! Nothing in here reads a clock: times of day are arguments.

mod due_time;
mod id;
mod record;
pub mod store;

pub use due_time::{DueTime, OutOfRange};
pub use id::{DurableId, ParseDurableIdError};
pub use record::{Missed, Progress, Record, Repeat, RetryPolicy, Rhythm};
pub use store::{StoreError, TimerStore};

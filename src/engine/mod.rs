//! What a timer is, apart from time and delivery: schedules, owners, capacity and accounting. Pure: no clock, no I/O,
//! no actors.
//!
//! In reading order:
//!
//! 1. `counters`: the counters. Every timer accepted ends exactly once, and the [`Counters`] prove it.
//! 2. `timer`: what is stored for each timer, and the states it goes through.
//! 3. `owners`: who owns which timers, and the inbox of each owner.
//! 4. `wall`: timers set to a time of day, which follow the wall clock when it is stepped.
//! 5. `names`: timers by names that callers have given them.
//! 6. `recurrence`: when a timer that repeats is due next; `repeating`: how it goes from one repetition to the next.
//! 7. `key` and `group`: what callers label timers with; `labels`: which timer has which; `shards` and `side_table`: what
//!    such tables are made of.
//! 8. `scheduler`: the [`Engine`], which ties them together around one [`Wheel`](crate::timing::Wheel), `queries`, what it
//!    can be asked, `labelled`, what can be done with timers by their key, group or owner, and `queues`,
//!    ways to a recipient that take time, and `sending`, sends that may be refused.
//!
//! The life of a timer:
//!
//! ```text
//!                    refused (capacity, closed): the payload is handed back
//!                  /
//!     schedule ---+--> Waiting --expire--> Due (in its owner's inbox) --take_due--> delivered
//!                      |   ^  \            |
//!          reschedule  +---+   \           +--cancel--> cancelled
//!                      |        \
//!                      |         expire--> InFlight (on its way to a recipient) --finish--> delivered, dead-lettered
//!                      |                   |  ^
//!                      |   queue_behind, post  take_for_send, begin
//!                      |                   v  |
//!                      |                   Due (in a line, or behind a token) --cancel--> cancelled
//!                      |
//!                      +--cancel, end of its owner--> cancelled
//!                      +--drain--> returned
//! ```
//!
//! A timer that repeats goes around instead of ending as delivered:
//!
//! ```text
//!     Due --take_due--> Making --repeat--> Waiting      the message exists, the next deadline is set
//!     Waiting --expire--^    |  \
//!                            |   +--repeat--> Between --resume--> Waiting     a fixed delay, from the end of the handler
//!                            +--cancel--> cancelled: the message just made is thrown away
//! ```

mod counters;
mod group;
mod key;
mod labelled;
mod labels;
mod names;
mod owners;
mod queries;
mod queues;
mod recurrence;
mod repeating;
mod scheduler;
mod sending;
mod shards;
mod side_table;
mod timer;
mod wall;

pub use counters::{Counters, DeadLetterReason, Outcome};
pub use group::TimerGroup;
pub use key::TimerKey;
pub use labels::KeyScope;
pub use owners::OwnerId;
pub use recurrence::{ClockReading, MissedTickBehavior, NextRun, Recurrence, RepeatMode, next_on_grid};
pub use repeating::{Repeated, Resumed};
#[cfg(feature = "actix")]
pub(crate) use scheduler::MAX_CAPACITY;
pub use scheduler::{Due, DueTimer, Engine, EngineConfig, RejectReason, Rejected};
pub use timer::{Location, NotPending, TimerState, TimerView};

//! Timers apart from time and delivery: schedules, owners, capacity and accounting. Pure: no clock, no I/O, no actors.
//!
//! In reading order:
//!
//! 1. `counters`: every accepted timer ends exactly once, and the [`Counters`] prove it.
//! 2. `timer`: the record of a timer, and its states.
//! 3. `owners`: the owners of timers, and the inbox of each owner; `own_timers`: the list of its timers.
//! 4. `wall`: timers with a wall-clock time, which follow the wall clock when it is stepped.
//! 5. `names`: timers by names that callers have given them.
//! 6. `recurrence`: the next due time of a repeating timer; `repeating`: its step from one repetition to the next.
//! 7. `key` and `group`: labels that callers give timers, with their `text`; `labels`: their tables; `shards`,
//!    `side_table` and `by_slot`: the parts of such tables.
//! 8. `scheduler`: the [`Engine`], which ties them together around one [`Wheel`](crate::timing::Wheel). Its other
//!    operations: `queries` read only, `labelled` acts on timers by key, group or owner, and `surplus` frees storage.
//!
//! The life of a timer:
//!
//! ```text
//!                    rejected (capacity, closed): the payload is returned
//!                  /
//!     schedule ---+--> Waiting --expire--> Due (in its owner's inbox) --take_due--> delivered
//!                      |   ^  \            |
//!          reschedule  +---+   \           +--cancel--> cancelled
//!                      |        \
//!                      |         expire--> InFlight (on its way to a recipient) --finish--> delivered, dead-lettered
//!                      |                   |  ^
//!                      |           enqueue |  | send_off
//!                      |                   v  |
//!                      |                   Due (in a queue) --cancel--> cancelled
//!                      |
//!                      +--cancel, end of its owner--> cancelled
//!                      +--drain--> returned
//! ```
//!
//! A repeating timer loops instead of ending as delivered:
//!
//! ```text
//!     Due --take_due--> Making --repeat--> Waiting      the message exists, the next deadline is set
//!     Waiting --expire--^    |  \
//!                            |   +--repeat--> Between --resume--> Waiting   a fixed delay after the handler
//!                            +--cancel--> cancelled: the message just made is dropped
//! ```

mod by_slot;
mod counters;
mod group;
mod key;
mod labelled;
mod labels;
mod names;
mod own_timers;
mod owners;
mod queries;
mod recurrence;
mod repeating;
mod scheduler;
mod shards;
mod side_table;
mod surplus;
mod text;
mod timer;
mod wall;

pub(crate) use counters::Outcome;
pub use counters::{Counters, DeadLetterReason};
pub use group::TimerGroup;
pub use key::{TimerKey, ToKey};
pub(crate) use labels::{KeyScope, MessageKind, ScopedKey};
pub(crate) use owners::OwnerId;
pub(crate) use recurrence::{ClockReading, NextRun, Recurrence, RepeatMode, within_slack};
pub use recurrence::{MissedTickBehavior, next_on_grid};
pub(crate) use repeating::Repeated;
pub(crate) use scheduler::{Due, DueTimer, Engine, EngineConfig, MAX_CAPACITY, RejectReason};
pub use timer::TimerState;
pub(crate) use timer::{Marks, NotPending, Stage, Timer};

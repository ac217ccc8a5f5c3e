//! The room of delivery: due messages leave their stores, in time and in order.
//!
//! In reading order:
//!
//! 1. `message_ref`: the location of a message; `message_stores`: typed stores, whose functions hand messages over after
//!    unlocking.
//! 2. `job`: the four steps of each message; `once`, `series`: the stored job of a timer that fires once or repeats;
//!    `delivery`: the steps to a handler or a mailbox.
//! 3. `turns`: the right to send, held by one thread at a time; `driver`: the alarm, and one turn; `driver_state`:
//!    its part of the state; `wakeup`: wake-ups after unlocking, made by the driver's `notify`;
//!    `sleep`: the driver's sleep, for virtual time; `trim`: the memory of a burst goes back.
//! 4. `watchdog`: the thread that steps in for a blocked arbiter; `next_check`: the time of its next check; `help`: its
//!    deliveries for one service.

pub(crate) mod delivery;
pub(crate) mod driver;
pub(crate) mod driver_state;
pub(crate) mod help;
pub(crate) mod job;
pub(crate) mod message_ref;
pub(crate) mod message_stores;
pub(crate) mod next_check;
pub(crate) mod once;
pub(crate) mod series;
pub(crate) mod sleep;
pub(crate) mod trim;
pub(crate) mod turns;
pub(crate) mod wakeup;
pub(crate) mod watchdog;

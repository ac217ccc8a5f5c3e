//! TODO

pub(crate) mod delivery;
pub(crate) mod driver;
pub(crate) mod help;
pub(crate) mod job;
pub(crate) mod message_ref;
pub(crate) mod message_stores;
pub(crate) mod next_check;
pub(crate) mod once;
pub(crate) mod series;
pub(crate) mod slab;
pub(crate) mod sleep;
pub(crate) mod turns;
pub(crate) mod wakeup;
pub(crate) mod watchdog;

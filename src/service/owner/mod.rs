//! TODO

pub(crate) mod detached;
pub(crate) mod inbox;
pub(crate) mod owner_state;
pub(crate) mod spare;
pub(crate) mod subscribers;
pub(crate) mod thread_registry;
pub(crate) mod wake_flag;

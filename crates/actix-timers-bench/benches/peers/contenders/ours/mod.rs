//! actix-timers on each layer.

pub(crate) mod context;
pub(crate) mod messages;
pub(crate) mod wheel;

//! The room of queries: one timer, a selection or the whole service is described, cancelled or drained.
//!
//! In reading order:
//!
//! 1. `directory`: from an id to its service.
//! 2. `description`: one pending timer, with its location and the messages before it.
//! 3. `selection`: lists of timers, and the cancel of many.
//! 4. `closing`: the end of an owner, a drain, and the stop of the driver; `wind_down`: a drain that leaves time.
//! 5. `activity`: the remaining work at one moment, for tests in virtual time.

pub(crate) mod activity;
pub(crate) mod closing;
pub(crate) mod description;
pub(crate) mod directory;
pub(crate) mod selection;
pub(crate) mod wind_down;

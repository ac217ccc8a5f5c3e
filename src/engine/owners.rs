//! Owners: an owner's timers end with it, and wait in its inbox once they are due.

use crate::engine::own_timers::OwnTimers;
use crate::timing::{Key, List};

/// The id of an owner, never used again after the owner has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub(crate) Key);

/// An owner: its timers, and its inbox.
#[derive(Debug)]
pub(crate) struct Owner<O> {
    /// The slots of its own timers.
    pub(super) timers: OwnTimers,
    /// Its due timers, first in, first out.
    pub(super) inbox: List,
    /// The caller's data.
    pub(super) data: O,
}

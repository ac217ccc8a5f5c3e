//! The room of owners: actors with timers of their own, and the way of their messages to them.
//!
//! In reading order:
//!
//! 1. `inbox`: an owner, and the item in its context that runs the handlers.
//! 2. `actor_link`: the link between an owner and its actor; `wake_flag`: the signal to its inbox.
//! 3. `spare`: the item that restores an inbox cancelled by mistake.
//! 4. `thread_registry`: the owner of each context on a thread.
//! 5. `detached`: owners that have ended, or whose inbox has left.
//! 6. `subscribers`: dead letters, and their subscribers.

pub(crate) mod actor_link;
pub(crate) mod detached;
pub(crate) mod inbox;
pub(crate) mod spare;
pub(crate) mod subscribers;
pub(crate) mod thread_registry;
pub(crate) mod wake_flag;

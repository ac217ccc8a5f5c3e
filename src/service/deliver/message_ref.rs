//! References to stored messages, and messages taken out of their stores.

use std::any::Any;

/// The location of a message: its store and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageRef {
    pub(crate) store: u32,
    pub(crate) slot: u32,
}

/// A message taken out of its store.
pub(crate) struct BoxedMessage {
    pub(crate) contents: BoxedContents,
    /// Kept only to be dropped where user code may run: an address may be the last of its actor.
    pub(crate) rest: Box<dyn Any + Send>,
}

/// Returns the message, once, or the next one of its source, which is user code. Not `FnOnce`: a source that panics must
/// not be dropped by the same panic.
pub(crate) type BoxedContents = Box<dyn FnMut() -> Option<Box<dyn Any + Send>> + Send>;

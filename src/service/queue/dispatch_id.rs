//! Ids of dispatches.

use crate::model::mailbox_id::MailboxId;
use crate::timing::Key;

/// The id of one dispatch of a message from its queue: as a token in the mailbox, or held until there is room. A
/// message that is moved and comes back is dispatched under another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DispatchId {
    pub(crate) mailbox: MailboxId,
    pub(crate) number: u64,
}

/// The timer of a dispatched message, and the number of the dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dispatched {
    pub(crate) key: Key,
    pub(crate) number: u64,
}

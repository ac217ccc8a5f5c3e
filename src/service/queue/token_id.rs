//! Ids of tokens.

use crate::model::mailbox_id::MailboxId;

/// The id of one stay in a queue or mailbox. A message that is moved and comes back gets another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenId {
    pub(crate) mailbox: MailboxId,
    pub(crate) number: u64,
}

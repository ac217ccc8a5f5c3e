//! Ids of tokens.

/// The id of one stay in a queue or mailbox. A message that is moved and comes back gets another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenId {
    pub(crate) mailbox: u64,
    pub(crate) number: u64,
}

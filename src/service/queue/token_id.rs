//! Numbers of tokens.

/// A stay in a queue or in a mailbox. One that is moved and comes back has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenId {
    pub(crate) mailbox: u64,
    pub(crate) number: u64,
}

//! Options of a durable timer besides its time and its message.

use super::record::RetryPolicy;
use super::store::OnKey;

/// Options of a durable timer besides its route, its time and its message.
///
/// ```
/// use actix_timers_durable::{DurableOptions, RetryPolicy};
///
/// let once = DurableOptions::new().if_absent("order-7");
/// let latest = DurableOptions::new().replace("order-7").retry(RetryPolicy::never());
/// assert_ne!(once, latest);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a timer is scheduled with them"]
pub struct DurableOptions {
    pub(crate) key: Option<(String, OnKey)>,
    pub(crate) retry: Option<RetryPolicy>,
}

impl DurableOptions {
    /// Maximum length of a key in bytes.
    pub const MAX_KEY_LEN: usize = 512;

    /// Creates empty options.
    pub const fn new() -> Self {
        Self { key: None, retry: None }
    }

    /// Gives the timer an idempotency key. If a pending timer of the same route has it, that one stays, nothing is
    /// scheduled, and the result is [`Scheduled::Exists`](super::Scheduled::Exists): a request whose reply was lost can
    /// be repeated safely.
    ///
    /// The key is free again when its timer is complete, cancelled or a dead letter.
    pub fn if_absent(self, key: impl Into<String>) -> Self {
        Self { key: Some((key.into(), OnKey::KeepExisting)), ..self }
    }

    /// Gives the timer an idempotency key. If a pending timer of the same route has it, that one is cancelled in the
    /// same step, and the result is [`Scheduled::Replaced`](super::Scheduled::Replaced).
    ///
    /// A delivery of the old one in progress is not stopped, but will not be repeated.
    pub fn replace(self, key: impl Into<String>) -> Self {
        Self { key: Some((key.into(), OnKey::Replace)), ..self }
    }

    /// Sets the retry policy for failures of the handler, in place of the route's.
    pub const fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }
}

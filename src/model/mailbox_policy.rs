//! Policies for recipients that do not keep up.

/// The treatment of due messages whose recipient is behind. Set it for a [timer
/// actor](crate::TimerActorBuilder::mailbox_policy), or for one [`Target`](crate::Target::mailbox_policy).
///
/// A window bounds the messages of this timer actor that are in the recipient's mailbox or being handled, whatever
/// others send: each counts from its send to the end of its handler or, if that returns a future, of the future. A
/// window of 0 counts as 1. Targets of one recipient share its window, and should have the same.
///
/// An actor's own timers wait in the timer actor instead of its mailbox, whatever the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
#[non_exhaustive]
pub enum MailboxPolicy {
    /// Messages go into the mailbox as soon as they are due, past its capacity if necessary, as with `do_send`.
    #[default]
    Unbounded,
    /// Messages beyond the window wait in the timer actor, in order, and can be cancelled exactly.
    Wait {
        /// The maximum number of messages under way to one recipient.
        window: usize,
    },
    /// Messages beyond the window are dropped, as dead letters with the reason `window_full`. A repeating timer goes on.
    Discard {
        /// The maximum number of messages under way to one recipient.
        window: usize,
    },
}

impl MailboxPolicy {
    /// Returns the maximum number of messages under way to one recipient.
    pub(crate) fn window(self) -> u32 {
        match self {
            Self::Unbounded => u32::MAX,
            Self::Wait { window } | Self::Discard { window } => u32::try_from(window.max(1)).unwrap_or(u32::MAX),
        }
    }
}

//! What is done when a recipient does not keep up.

/// What becomes of messages that are due while their recipient is behind: set for a [timer
/// actor](crate::TimerActorBuilder::mailbox_policy), or for one [`Target`](crate::Target::mailbox_policy).
///
/// An actix mailbox of *n* slots takes *n* messages, and one more from every address: a sender's own slot is never refused.
/// What says "room" here means the *n* slots. A policy other than [`Unbounded`](Self::Unbounded) needs an answer from the
/// recipient now and then; the first message after one goes into the sender's own slot if the rest is full.
///
/// An actor's own timers wait in the timer actor and not in its mailbox, whatever the policy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
#[non_exhaustive]
pub enum MailboxPolicy {
    /// Messages go into the mailbox as soon as they are due, past its capacity if need be, as with `do_send`.
    #[default]
    Unbounded,
    /// At most `window` messages of this timer actor are in the mailbox and not yet handled, and never more than there is
    /// room for. The rest waits in the timer actor, in order, and can be cancelled exactly. A window of 0 counts as 1.
    ///
    /// A plain message counts as handled once the recipient has taken it and an answer to it, or to one behind it, has
    /// come. Under [tracked delivery](crate::Tracked) it is exact for each: until the handler has ended, or the future that
    /// it answered with. Targets of one recipient share the queue, and should have the same window.
    Wait {
        /// The most messages under way to one recipient.
        window: usize,
    },
    /// A message for which the mailbox has no room is dropped. It is a dead letter with the reason `mailbox_full`.
    Drop,
}

//! Policies for recipients that do not keep up.

/// The treatment of due messages whose recipient is behind. Set it for a [timer
/// actor](crate::TimerActorBuilder::mailbox_policy), or for one [`Target`](crate::Target::mailbox_policy).
///
/// An actix mailbox of *n* slots takes *n* messages, and one more from every address: a sender's own slot is never
/// rejected. Here, "room" means the *n* slots. A policy other than [`Unbounded`](Self::Unbounded) needs a reply from
/// the recipient now and then; the first message after one goes into the sender's own slot if the others are full.
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
    /// At most `window` messages of this timer actor are in the mailbox and unhandled, and never more than there is
    /// room for. The others wait in the timer actor, in order, and can be cancelled exactly. A window of 0 counts as 1.
    ///
    /// A plain message counts as handled once the recipient has taken it and replied to it or to a later one. Under
    /// [tracked delivery](crate::Tracked) the count is exact: each message counts until its handler, or the future that
    /// it returned, has ended. Targets of one recipient share the queue, and should have the same window.
    Wait {
        /// The maximum number of messages under way to one recipient.
        window: usize,
    },
    /// Messages without room in the mailbox are dropped, as dead letters with the reason `mailbox_full`.
    Drop,
}

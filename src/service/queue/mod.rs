//! The room of recipient queues: messages wait for slow recipients, and are sent as mailbox policy and tracking allow.
//! Own messages on their way through a mailbox, and slow recipients of all kinds, are here, too.
//!
//! In reading order:
//!
//! 1. `recipient_queues`: the queues, and their counts of messages under way.
//! 2. `flush`: each queue sends as many messages as its recipient takes.
//! 3. `dispatch`: the way of a message from the queue to the mailbox.
//! 4. `bells`: the way of a bell, and of the message that it pulls, under tracked delivery.
//! 5. `reply_waiter`: the answer of a recipient, awaited without a task.
//! 6. `mailbox_delivery`: own messages on their way through the mailbox of their actor.
//! 7. `slow_recipients`: recipients that let a message wait, and the longest wait.

mod bells;
pub(crate) mod dispatch;
mod flush;
pub(crate) mod mailbox_delivery;
pub(crate) mod recipient_queues;
pub(crate) mod reply_waiter;
pub(crate) mod slow_recipients;

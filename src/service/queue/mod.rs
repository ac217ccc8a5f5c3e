//! The room of recipient queues: messages wait for slow recipients, and are sent as mailbox policy and tracking allow.
//! Own messages on their way through a mailbox, and slow recipients of all kinds, are here, too.
//!
//! In reading order:
//!
//! 1. `recipient_queues`: the queues, and their counts of messages under way.
//! 2. `dispatch_id`: the id of one dispatch from a queue.
//! 3. `flush`: each queue sends as many messages as its recipient takes.
//! 4. `dispatch`: the way of a message from the queue to the mailbox.
//! 5. `tokens`: the way of a token, and of its message, under tracked delivery.
//! 6. `reply_waiter`: the answer of a recipient, awaited without a task.
//! 7. `mailbox_delivery`: own messages on their way through the mailbox of their actor.
//! 8. `slow_recipients`: recipients that let a message wait, and the longest wait.

pub(crate) mod dispatch;
pub(crate) mod dispatch_id;
mod flush;
pub(crate) mod mailbox_delivery;
pub(crate) mod recipient_queues;
pub(crate) mod reply_waiter;
pub(crate) mod slow_recipients;
mod tokens;

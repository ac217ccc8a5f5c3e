//! TODO

pub(crate) mod dispatch;
pub(crate) mod mailbox_delivery;
pub(crate) mod recipient_queues;
pub(crate) mod reply_waiter;
pub(crate) mod slow_recipients;
pub(crate) mod token_id;

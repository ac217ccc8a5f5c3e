//! Ways to deliver a message to an actor later, each as its own documentation shows it.
//!
//! `messages` is the message and its receiver, `book` the record of deliveries. The other files contain one way each.

pub(crate) mod book;
pub(crate) mod delay_queue;
pub(crate) mod hash_wheel;
pub(crate) mod messages;
pub(crate) mod notify_later;
pub(crate) mod ours;
pub(crate) mod tokio_sleep;

use actix::{Addr, Context};

use self::messages::{Due, Receiver};

/// A way to send later. Created and used on the scheduling arbiter.
pub(crate) trait Sender: 'static {
    /// The handle by which the caller cancels.
    type Handle: 'static;

    /// Returns a sender to these receivers; [`Due::receiver`] is the index.
    fn to(receivers: Vec<Addr<Receiver>>) -> Self;

    /// Schedules `due` for delivery at its deadline. `ctx` is that of the scheduling actor.
    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> Self::Handle;

    fn cancel(&self, ctx: &mut Context<Receiver>, handle: Self::Handle);
}

//! Ways to have a message handed to an actor later, each as its own documentation shows it.
//!
//! `messages` says what is sent and who gets it, `book` what is noted of it. Then one file for each way.

pub(crate) mod book;
pub(crate) mod delay_queue;
pub(crate) mod hash_wheel;
pub(crate) mod messages;
pub(crate) mod notify_later;
pub(crate) mod ours;
pub(crate) mod tokio_sleep;

use actix::{Addr, Context};

use self::messages::{Due, Receiver};

/// One way. Made and used on the arbiter that schedules.
pub(crate) trait Sender: 'static {
    /// What the caller keeps to cancel with.
    type Handle: 'static;

    /// Sends to these receivers; [`Due::receiver`] says to which.
    fn to(receivers: Vec<Addr<Receiver>>) -> Self;

    /// Has `due` delivered at its deadline. `ctx` is that of the actor that schedules.
    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> Self::Handle;

    fn cancel(&self, ctx: &mut Context<Receiver>, handle: Self::Handle);
}

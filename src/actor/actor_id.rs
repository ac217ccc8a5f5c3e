//! Which actor: known by its mailbox, whatever messages it takes.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use actix::{Actor, Addr, Message, Recipient, WeakAddr, WeakRecipient};

use super::target::{Target, place_in_memory};

/// Which actor is meant, whatever the type of its messages: made from a reference to an `Addr`, a `Recipient`, a
/// `WeakAddr`, a `WeakRecipient` or a [`Target`]. All of the same mailbox are equal.
///
/// It does not keep the actor alive. One made from a weak reference whose actor has gone names no actor at all.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::ActorId;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
///
/// # System::new().block_on(async {
/// let customer = Customer.start();
/// assert_eq!(ActorId::from(&customer), ActorId::from(&customer.downgrade()));
/// assert_ne!(ActorId::from(&customer), ActorId::from(&Customer.start()));
/// # });
/// ```
#[derive(Clone)]
pub struct ActorId {
    mailbox: u64,
    /// As long as this is there, no other mailbox is in that place in memory.
    _hold: Arc<dyn Any + Send + Sync>,
}

impl ActorId {
    fn new(mailbox: u64, hold: Arc<dyn Any + Send + Sync>) -> Self {
        Self { mailbox, _hold: hold }
    }

    /// The place of the mailbox in memory, if there is an actor.
    pub(crate) fn mailbox(&self) -> Option<u64> {
        (self.mailbox != 0).then_some(self.mailbox)
    }
}

impl PartialEq for ActorId {
    fn eq(&self, other: &Self) -> bool {
        self.mailbox == other.mailbox
    }
}

impl Eq for ActorId {}

impl Hash for ActorId {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.mailbox.hash(hasher);
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorId({:#x})", self.mailbox)
    }
}

impl<A: Actor> From<&Addr<A>> for ActorId {
    fn from(addr: &Addr<A>) -> Self {
        Self::new(place_in_memory(addr), Arc::new(addr.downgrade()))
    }
}

impl<A: Actor> From<&WeakAddr<A>> for ActorId {
    fn from(addr: &WeakAddr<A>) -> Self {
        Self::new(addr.upgrade().map_or(0, |addr| place_in_memory(&addr)), Arc::new(addr.clone()))
    }
}

impl<M> From<&Recipient<M>> for ActorId
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(recipient: &Recipient<M>) -> Self {
        Self::from(&Target::from(recipient))
    }
}

impl<M> From<&WeakRecipient<M>> for ActorId
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(recipient: &WeakRecipient<M>) -> Self {
        Self::new(recipient.upgrade().map_or(0, |recipient| place_in_memory(&recipient)), Arc::new(recipient.clone()))
    }
}

impl<M> From<&Target<M>> for ActorId
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(target: &Target<M>) -> Self {
        Self::new(target.mailbox(), target.weak_hold())
    }
}

impl From<&ActorId> for ActorId {
    fn from(actor: &ActorId) -> Self {
        actor.clone()
    }
}

//! Targets: the actors that messages of timers go to, other than the one that schedules.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::prelude::SendError;
use actix::{Actor, Addr, Handler, Message, Recipient, WeakAddr, WeakRecipient};

/// Who a timer's message goes to: made from an `Addr`, a `Recipient`, a `WeakAddr` or a `WeakRecipient`.
///
/// A target is held weakly: a pending timer does not keep its recipient alive, and its message becomes a dead letter
/// if the recipient has stopped by then. [`Target::strong`] makes one that keeps the recipient alive instead.
///
/// Cloning a target costs as much as cloning an `Arc`, cloning a `Recipient` several allocations: whoever schedules
/// many timers for the same actor makes one target and clones that.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::Target;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let customer: Addr<Customer> = Customer.start();
/// let target: Target<Remind> = Target::from(&customer);
/// let another = target.clone();
/// assert!(another.is_alive());
/// # });
/// ```
pub struct Target<M>(Arc<Held<M>>)
where
    M: Message + Send,
    M::Result: Send;

struct Held<M>
where
    M: Message + Send,
    M::Result: Send,
{
    hold: Hold<M>,
    /// The place of its mailbox in memory, which no other has as long as this is held; 0 if it was gone already.
    mailbox: u64,
}

enum Hold<M>
where
    M: Message + Send,
    M::Result: Send,
{
    Weak(WeakRecipient<M>),
    Strong(Recipient<M>),
}

impl<M> Target<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    /// A target that keeps the recipient alive as long as a timer for it is pending.
    pub fn strong(recipient: impl Into<Recipient<M>>) -> Self {
        let recipient = recipient.into();
        let mailbox = place_in_memory(&recipient);
        Self(Arc::new(Held { hold: Hold::Strong(recipient), mailbox }))
    }

    /// Whether the recipient is still there.
    pub fn is_alive(&self) -> bool {
        self.open().is_some_and(|recipient| recipient.connected())
    }

    pub(crate) fn mailbox(&self) -> u64 {
        self.0.mailbox
    }

    /// Keeps the mailbox in its place in memory, and nothing alive.
    pub(crate) fn weak_hold(&self) -> Arc<dyn Any + Send + Sync> {
        match &self.0.hold {
            Hold::Weak(_) => Arc::clone(&self.0) as _,
            Hold::Strong(recipient) => Arc::new(recipient.downgrade()),
        }
    }

    /// A way to the recipient. It may have stopped all the same: ask it whether it is connected.
    pub(crate) fn open(&self) -> Option<Recipient<M>> {
        match &self.0.hold {
            Hold::Weak(recipient) => recipient.upgrade(),
            Hold::Strong(recipient) => Some(recipient.clone()),
        }
    }
}

/// Where the mailbox behind an address or a recipient is in memory. It stays there as long as anybody holds one of them,
/// weak ones included.
pub(crate) fn place_in_memory(address: &impl Hash) -> u64 {
    /// Keeps what it is given instead of mixing it.
    #[derive(Default)]
    struct Keep(u64);

    impl Hasher for Keep {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
            }
        }

        fn write_usize(&mut self, number: usize) {
            self.0 = number as u64;
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut keep = Keep::default();
    address.hash(&mut keep);
    keep.finish()
}

/// Puts a message into a mailbox, past its capacity if need be. Hands it back if the mailbox is closed.
///
/// Every sender has one slot in a mailbox of its own. The one given here has just been [opened](Target::open), so that
/// slot is free, and the mailbox is never full for it; unlike `do_send`, a closed mailbox shows.
pub(crate) fn send<M>(recipient: &Recipient<M>, message: M) -> Result<(), M>
where
    M: Message + Send,
    M::Result: Send,
{
    recipient.try_send(message).map_err(|error| match error {
        SendError::Full(message) | SendError::Closed(message) => message,
    })
}

impl<M> Clone for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold = match &self.0.hold {
            Hold::Weak(_) => "weak",
            Hold::Strong(_) => "strong",
        };
        write!(f, "Target<{}>({hold})", std::any::type_name::<M>())
    }
}

impl<M> From<WeakRecipient<M>> for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn from(recipient: WeakRecipient<M>) -> Self {
        let mailbox = recipient.upgrade().map_or(0, |recipient| place_in_memory(&recipient));
        Self(Arc::new(Held { hold: Hold::Weak(recipient), mailbox }))
    }
}

impl<M> From<Recipient<M>> for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn from(recipient: Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M> From<&Recipient<M>> for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn from(recipient: &Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M, A> From<WeakAddr<A>> for Target<M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(addr: WeakAddr<A>) -> Self {
        Self::from(addr.recipient())
    }
}

impl<M, A> From<Addr<A>> for Target<M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(addr: Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M, A> From<&Addr<A>> for Target<M>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn from(addr: &Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M> From<&Target<M>> for Target<M>
where
    M: Message + Send,
    M::Result: Send,
{
    fn from(target: &Target<M>) -> Self {
        target.clone()
    }
}

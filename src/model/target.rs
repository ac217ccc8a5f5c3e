//! Targets: the recipients of timers' messages, other than the scheduling actor itself.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use actix::{Actor, Addr, Recipient, WeakAddr, WeakRecipient};

use crate::model::due_timers::DueTimers;
use crate::model::handled_by::{HandledBy, TrackedBy, TrackedHandler};
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::timer_message::TimerMessage;

/// The recipient of a timer's message. Created from an `Addr`, a `Recipient`, a `WeakAddr` or a `WeakRecipient`.
///
/// A target is a weak reference: a pending timer does not keep its recipient alive, and its message becomes a dead
/// letter if the recipient has stopped. [`strong`](Target::strong) keeps the recipient alive.
///
/// Cloning a target costs one `Arc` clone, cloning a `Recipient` several allocations: to schedule many timers for the
/// same actor, create one target and clone it.
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
pub struct Target<M>(Arc<Inner<M>>)
where
    M: TimerMessage;

struct Inner<M>
where
    M: TimerMessage,
{
    address: Address<M>,
    /// `None` for the policy of the timer actor.
    policy: Option<MailboxPolicy>,
    /// Not reused while this is held; `None` if the mailbox was already gone.
    mailbox: Option<MailboxId>,
    actor_type: Option<NameOf>,
}

/// Returns the name of a type. A pointer is half as large as the name.
type NameOf = fn() -> &'static str;

enum Address<M>
where
    M: TimerMessage,
{
    Weak(WeakRecipient<M>),
    Strong(Recipient<M>),
    /// Receives bells, and pulls the messages.
    WeakTracked(WeakRecipient<DueTimers>, TrackedHandler<M>),
    StrongTracked(Recipient<DueTimers>, TrackedHandler<M>),
}

impl<M> Clone for Address<M>
where
    M: TimerMessage,
{
    fn clone(&self) -> Self {
        match self {
            Self::Weak(recipient) => Self::Weak(recipient.clone()),
            Self::Strong(recipient) => Self::Strong(recipient.clone()),
            Self::WeakTracked(recipient, handler) => Self::WeakTracked(recipient.clone(), *handler),
            Self::StrongTracked(recipient, handler) => Self::StrongTracked(recipient.clone(), *handler),
        }
    }
}

impl<M> Target<M>
where
    M: TimerMessage,
{
    fn from_address(address: Address<M>, mailbox: Option<MailboxId>) -> Self {
        Self(Arc::new(Inner { address, policy: None, mailbox, actor_type: None }))
    }

    /// Notes the type of the actor, which a recipient has forgotten.
    fn of_actor<A: Actor>(mut self) -> Self {
        if let Some(target) = Arc::get_mut(&mut self.0) {
            target.actor_type = Some(type_name::<A>);
        }
        self
    }

    fn with(&self, address: Address<M>, policy: Option<MailboxPolicy>) -> Self {
        Self(Arc::new(Inner { address, policy, mailbox: self.0.mailbox, actor_type: self.0.actor_type }))
    }

    /// Returns the same target with its own policy for a recipient that does not keep up, instead of the timer actor's
    /// ([`TimerActorBuilder::mailbox_policy`](crate::TimerActorBuilder::mailbox_policy)).
    ///
    /// Messages for one recipient wait in one queue, whatever their policies: a waiting message delays all that are due
    /// later, except untracked [`Unbounded`](MailboxPolicy::Unbounded) ones, which are sent at once.
    ///
    /// ```
    /// use actix::prelude::*;
    /// use actix_timers::{MailboxPolicy, Target};
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    ///
    /// # System::new().block_on(async {
    /// let customer = Customer.start();
    /// let target: Target<Remind> = Target::from(&customer).mailbox_policy(MailboxPolicy::Wait { window: 4 });
    /// # drop(target);
    /// # });
    /// ```
    #[must_use = "the policy applies to the returned target only"]
    pub fn mailbox_policy(self, policy: MailboxPolicy) -> Self {
        self.with(self.0.address.clone(), Some(policy))
    }

    /// Returns the same target with at most `messages` unhandled messages at a time; short for
    /// [`mailbox_policy`](Self::mailbox_policy) with [`MailboxPolicy::Wait`].
    #[must_use = "the window applies to the returned target only"]
    pub fn window(self, messages: usize) -> Self {
        self.mailbox_policy(MailboxPolicy::Wait { window: messages })
    }
}

impl<M> Target<M>
where
    M: TimerMessage,
{
    /// Returns the same target, which keeps the recipient alive as long as a timer for it is pending. If the recipient
    /// has stopped, the target remains weak.
    ///
    /// Create the target from a reference: `Target::from(addr)` drops the address, and if that was the last one, a
    /// recipient on another thread may stop before this call.
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
    /// let customer = Customer.start();
    /// let target: Target<Remind> = Target::from(&customer).window(4).strong();
    /// drop(customer);
    /// assert!(target.is_alive());
    /// # });
    /// ```
    #[doc(alias = "tracked_strong")]
    #[must_use = "the returned target is strong, others are as before"]
    pub fn strong(self) -> Self {
        let address = match &self.0.address {
            Address::Weak(recipient) => recipient.upgrade().map(Address::Strong),
            Address::WeakTracked(recipient, handler) => {
                recipient.upgrade().map(|recipient| Address::StrongTracked(recipient, *handler))
            }
            Address::Strong(_) | Address::StrongTracked(..) => None,
        };
        address.map(|address| self.with(address, self.0.policy)).unwrap_or(self)
    }

    /// Returns a target under tracked delivery: the message stays in the timer actor until its handler begins, so that
    /// it can be cancelled, moved, or returned by a drain even when it is due. Only a request, [`DueTimers`], goes
    /// through the mailbox. The delivery is acknowledged when the handler ends or, if it returns a future, when that
    /// ends.
    ///
    /// A repeating timer then never has two repetitions under way, and a fixed delay counts from the acknowledgement.
    /// Its messages are produced just before their handlers begin, on the recipient's thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{CancelOutcome, Target, TimerActor, impl_due_timers};
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    /// impl_due_timers!(Customer);
    ///
    /// # System::new().block_on(async {
    /// let customer = Customer.start();
    /// let timers = TimerActor::builder().start()?;
    /// let target = Target::tracked(&customer).window(4);
    /// let id = timers.schedule_after(&target, Duration::from_secs(60), Remind);
    /// assert_eq!(timers.cancel(id), CancelOutcome::Cancelled);
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    #[expect(private_bounds, reason = "implemented for all that accept `DueTimers`")]
    pub fn tracked<A>(addr: &Addr<A>) -> Self
    where
        A: Actor,
        M: TrackedBy<A>,
    {
        let bells = M::bells(addr.downgrade());
        let mailbox = MailboxId::of_weak(&bells);
        Self::from_address(Address::WeakTracked(bells, M::tracked_handler()), mailbox).of_actor::<A>()
    }

    /// Returns true if the recipient is connected.
    pub fn is_alive(&self) -> bool {
        match self.is_tracked() {
            false => self.open().is_some_and(|recipient| recipient.connected()),
            true => self.open_bells().is_some_and(|recipient| recipient.connected()),
        }
    }

    pub(crate) fn policy(&self) -> Option<MailboxPolicy> {
        self.0.policy
    }

    pub(crate) fn is_tracked(&self) -> bool {
        self.tracked_handler().is_some()
    }

    /// Returns true if messages may have to wait in a queue, given the policy of the timer actor.
    pub(crate) fn is_queued(&self, default: MailboxPolicy) -> bool {
        self.is_tracked() || self.0.policy.unwrap_or(default) != MailboxPolicy::Unbounded
    }

    /// Returns the handler of messages that are pulled; `None` without tracked delivery.
    pub(crate) fn tracked_handler(&self) -> Option<TrackedHandler<M>> {
        match self.0.address {
            Address::WeakTracked(_, handler) | Address::StrongTracked(_, handler) => Some(handler),
            Address::Weak(_) | Address::Strong(_) => None,
        }
    }

    /// Returns the recipient of bells; see [`open`](Self::open).
    pub(crate) fn open_bells(&self) -> Option<Recipient<DueTimers>> {
        match &self.0.address {
            Address::WeakTracked(recipient, _) => recipient.upgrade(),
            Address::StrongTracked(recipient, _) => Some(recipient.clone()),
            Address::Weak(_) | Address::Strong(_) => None,
        }
    }

    pub(crate) fn mailbox(&self) -> Option<MailboxId> {
        self.0.mailbox
    }

    /// Returns the name of the actor's type, if the target was created from an address.
    pub(crate) fn actor_type(&self) -> Option<&'static str> {
        self.0.actor_type.map(|name_of| name_of())
    }

    /// Keeps the address of the mailbox from being reused, and nothing alive.
    pub(crate) fn weak_hold(&self) -> Arc<dyn Any + Send + Sync> {
        match &self.0.address {
            Address::Weak(_) | Address::WeakTracked(..) => Arc::clone(&self.0) as _,
            Address::Strong(recipient) => Arc::new(recipient.downgrade()),
            Address::StrongTracked(recipient, _) => Arc::new(recipient.downgrade()),
        }
    }

    /// Returns the recipient. It may have stopped all the same: check whether it is connected.
    pub(crate) fn open(&self) -> Option<Recipient<M>> {
        match &self.0.address {
            Address::Weak(recipient) => recipient.upgrade(),
            Address::Strong(recipient) => Some(recipient.clone()),
            Address::WeakTracked(..) | Address::StrongTracked(..) => None,
        }
    }
}

impl<M> Clone for Target<M>
where
    M: TimerMessage,
{
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Target<M>
where
    M: TimerMessage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match &self.0.address {
            Address::Weak(_) => "weak",
            Address::Strong(_) => "strong",
            Address::WeakTracked(..) => "weak, tracked",
            Address::StrongTracked(..) => "strong, tracked",
        };
        write!(f, "Target<{}>({address})", type_name::<M>())
    }
}

impl<M> From<WeakRecipient<M>> for Target<M>
where
    M: TimerMessage,
{
    fn from(recipient: WeakRecipient<M>) -> Self {
        let mailbox = MailboxId::of_weak(&recipient);
        Self::from_address(Address::Weak(recipient), mailbox)
    }
}

impl<M> From<Recipient<M>> for Target<M>
where
    M: TimerMessage,
{
    fn from(recipient: Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M> From<&Recipient<M>> for Target<M>
where
    M: TimerMessage,
{
    fn from(recipient: &Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M, A> From<WeakAddr<A>> for Target<M>
where
    A: Actor,
    M: HandledBy<A>,
{
    fn from(addr: WeakAddr<A>) -> Self {
        Self::from(M::recipient(addr)).of_actor::<A>()
    }
}

impl<M, A> From<Addr<A>> for Target<M>
where
    A: Actor,
    M: HandledBy<A>,
{
    fn from(addr: Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M, A> From<&Addr<A>> for Target<M>
where
    A: Actor,
    M: HandledBy<A>,
{
    fn from(addr: &Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M> From<&Target<M>> for Target<M>
where
    M: TimerMessage,
{
    fn from(target: &Target<M>) -> Self {
        target.clone()
    }
}

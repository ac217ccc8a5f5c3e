//! Targets: the recipients of timers' messages, other than the scheduling actor itself.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::sync::Arc;

use actix::{Actor, Addr, Recipient, WeakAddr, WeakRecipient};

use crate::model::due_timers::DueTimers;
use crate::model::handled_by::{HandledBy, TrackedBy};
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::reply::ReplyFuture;
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
    /// The mailbox of messages that are posted.
    posted: Option<Address<M>>,
    /// The handler of messages that are pulled, under tracked delivery.
    pulled: Option<TrackedHandler<M>>,
    facts: TargetFacts,
}

/// Runs the handler of the given actor in the given context. Returns its reply, if that is still to come.
pub(crate) type TrackedHandler<M> = fn(M, &mut dyn Any, &mut dyn Any) -> Option<ReplyFuture>;

/// The facts about a target that do not depend on the type of its messages.
#[derive(Clone)]
pub(crate) struct TargetFacts {
    /// `None` for the policy of the timer actor.
    pub(crate) policy: Option<MailboxPolicy>,
    /// Not reused while the target is held; `None` if the mailbox was already gone.
    pub(crate) mailbox: Option<MailboxId>,
    /// Returns the name of the actor's type, if the target was created from an address. A pointer is half as large as
    /// the name.
    actor_type: Option<fn() -> &'static str>,
    /// The type of the actor that pulls the messages under tracked delivery, and the recipient of its bells.
    pub(crate) puller: Option<(TypeId, Address<DueTimers>)>,
}

/// A mailbox.
pub(crate) struct Address<M>
where
    M: TimerMessage,
{
    weak: WeakRecipient<M>,
    /// Keeps the actor alive.
    strong: Option<Recipient<M>>,
}

impl TargetFacts {
    /// Returns the name of the actor's type, if the target was created from an address.
    pub(crate) fn actor_type(&self) -> Option<&'static str> {
        self.actor_type.map(|name_of| name_of())
    }
}

impl<M> Address<M>
where
    M: TimerMessage,
{
    const fn weak(weak: WeakRecipient<M>) -> Self {
        Self { weak, strong: None }
    }

    /// Returns the recipient. It may have stopped all the same: check whether it is connected.
    pub(crate) fn open(&self) -> Option<Recipient<M>> {
        self.strong.clone().or_else(|| self.weak.upgrade())
    }

    fn is_alive(&self) -> bool {
        self.open().is_some_and(|recipient| recipient.connected())
    }
}

impl<M> Clone for Address<M>
where
    M: TimerMessage,
{
    fn clone(&self) -> Self {
        Self { weak: self.weak.clone(), strong: self.strong.clone() }
    }
}

impl<M> Target<M>
where
    M: TimerMessage,
{
    fn with(&self, change: impl FnOnce(&mut Inner<M>)) -> Self {
        let Inner { posted, pulled, facts } = &*self.0;
        let mut changed = Inner { posted: posted.clone(), pulled: *pulled, facts: facts.clone() };
        change(&mut changed);
        Self(Arc::new(changed))
    }

    /// Returns the target of a recipient, which has forgotten the type of its actor.
    fn of(recipient: WeakRecipient<M>, actor_type: Option<fn() -> &'static str>) -> Self {
        let mailbox = MailboxId::of_weak(&recipient);
        let facts = TargetFacts { policy: None, mailbox, actor_type, puller: None };
        Self(Arc::new(Inner { posted: Some(Address::weak(recipient)), pulled: None, facts }))
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
        self.with(|target| target.facts.policy = Some(policy))
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
        self.with(|target| {
            if let Some(posted) = &mut target.posted {
                posted.strong = posted.open();
            }
            if let Some((_, bells)) = &mut target.facts.puller {
                bells.strong = bells.open();
            }
        })
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
        let facts = TargetFacts {
            policy: None,
            mailbox: MailboxId::of_weak(&bells),
            actor_type: Some(type_name::<A>),
            puller: Some((TypeId::of::<A>(), Address::weak(bells))),
        };
        Self(Arc::new(Inner { posted: None, pulled: Some(M::handle_tracked), facts }))
    }

    /// Returns true if the recipient is connected.
    pub fn is_alive(&self) -> bool {
        let Inner { posted, facts, .. } = &*self.0;
        posted.as_ref().is_some_and(Address::is_alive)
            || facts.puller.as_ref().is_some_and(|(_, bells)| bells.is_alive())
    }

    pub(crate) fn facts(&self) -> &TargetFacts {
        &self.0.facts
    }

    /// Returns true if messages may have to wait in a lane, given the policy of the timer actor.
    pub(crate) fn needs_lane(&self, default: MailboxPolicy) -> bool {
        let TargetFacts { policy, puller, .. } = self.facts();
        puller.is_some() || policy.unwrap_or(default) != MailboxPolicy::Unbounded
    }

    /// Returns the handler of messages that are pulled; `None` without tracked delivery.
    pub(crate) fn tracked_handler(&self) -> Option<TrackedHandler<M>> {
        self.0.pulled
    }

    /// Keeps the address of the mailbox from being reused, and nothing alive.
    pub(crate) fn weak_hold(&self) -> Arc<dyn Any + Send + Sync> {
        match (&self.0.posted, &self.0.facts.puller) {
            (Some(posted), _) if posted.strong.is_some() => Arc::new(posted.weak.clone()),
            (_, Some((_, bells))) if bells.strong.is_some() => Arc::new(bells.weak.clone()),
            _ => Arc::clone(&self.0) as _,
        }
    }

    /// Returns the recipient of messages that are posted; see [`Address::open`].
    pub(crate) fn open(&self) -> Option<Recipient<M>> {
        self.0.posted.as_ref()?.open()
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
        let address = match (&self.0.posted, &self.0.facts.puller) {
            (_, Some((_, bells))) if bells.strong.is_some() => "strong, tracked",
            (_, Some(_)) => "weak, tracked",
            (Some(posted), None) if posted.strong.is_some() => "strong",
            (_, None) => "weak",
        };
        write!(f, "Target<{}>({address})", type_name::<M>())
    }
}

impl<M> From<WeakRecipient<M>> for Target<M>
where
    M: TimerMessage,
{
    fn from(recipient: WeakRecipient<M>) -> Self {
        Self::of(recipient, None)
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
        Self::of(M::recipient(addr), Some(type_name::<A>))
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

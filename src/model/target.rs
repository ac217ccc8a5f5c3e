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

struct Inner<M: TimerMessage> {
    /// The mailbox of messages that are posted.
    posted: Option<WeakRecipient<M>>,
    /// The handler of messages that are pulled, under tracked delivery.
    pulled: Option<TrackedHandler<M>>,
    /// Keeps the actor alive.
    strong: Option<Arc<dyn Any + Send + Sync>>,
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
    pub(crate) puller: Option<(TypeId, WeakRecipient<DueTimers>)>,
}

impl TargetFacts {
    /// Returns the name of the actor's type, if the target was created from an address.
    pub(crate) fn actor_type(&self) -> Option<&'static str> {
        self.actor_type.map(|name_of| name_of())
    }
}

impl<M: TimerMessage> Target<M> {
    fn with(&self, change: impl FnOnce(&mut Inner<M>)) -> Self {
        let Inner { posted, pulled, strong, facts } = &*self.0;
        let (posted, strong) = (posted.clone(), strong.clone());
        let mut changed = Inner { posted, pulled: *pulled, strong, facts: facts.clone() };
        change(&mut changed);
        Self(Arc::new(changed))
    }

    /// Returns the target of a recipient, which has forgotten the type of its actor.
    fn of(recipient: WeakRecipient<M>, actor_type: Option<fn() -> &'static str>) -> Self {
        let mailbox = MailboxId::of_weak(&recipient);
        let facts = TargetFacts { policy: None, mailbox, actor_type, puller: None };
        Self(Arc::new(Inner { posted: Some(recipient), pulled: None, strong: None, facts }))
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

impl<M: TimerMessage> Target<M> {
    /// Returns the same target, which keeps the recipient alive until the handler of the last message begins. If the
    /// recipient has stopped, the target remains weak.
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
            let posted =
                target.posted.as_ref().and_then(WeakRecipient::upgrade).map(|recipient| Arc::new(recipient) as _);
            let bells = || target.facts.puller.as_ref()?.1.upgrade().map(|bells| Arc::new(bells) as _);
            target.strong = posted.or_else(bells);
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
            puller: Some((TypeId::of::<A>(), bells)),
        };
        Self(Arc::new(Inner { posted: None, pulled: Some(M::handle_tracked), strong: None, facts }))
    }

    /// Returns true if the recipient is connected.
    pub fn is_alive(&self) -> bool {
        let bells = || self.facts().puller.as_ref()?.1.upgrade();
        self.open().is_some_and(|recipient| recipient.connected()) || bells().is_some_and(|bells| bells.connected())
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
        match &*self.0 {
            Inner { strong: None, .. } => Arc::clone(&self.0) as _,
            Inner { posted, facts, .. } => Arc::new((posted.clone(), facts.puller.clone())),
        }
    }

    /// Returns the recipient of messages that are posted. It may have stopped all the same: check whether it is connected.
    pub(crate) fn open(&self) -> Option<Recipient<M>> {
        self.0.posted.as_ref()?.upgrade()
    }
}

impl<M: TimerMessage> Clone for Target<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: TimerMessage> fmt::Debug for Target<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { pulled, strong, .. } = &*self.0;
        let (strength, way) = (strong.as_ref().map_or("weak", |_| "strong"), pulled.map_or("", |_| ", tracked"));
        write!(f, "Target<{}>({strength}{way})", type_name::<M>())
    }
}

impl<M: TimerMessage> From<WeakRecipient<M>> for Target<M> {
    fn from(recipient: WeakRecipient<M>) -> Self {
        Self::of(recipient, None)
    }
}

impl<M: TimerMessage> From<Recipient<M>> for Target<M> {
    fn from(recipient: Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M: TimerMessage> From<&Recipient<M>> for Target<M> {
    fn from(recipient: &Recipient<M>) -> Self {
        Self::from(recipient.downgrade())
    }
}

impl<M: HandledBy<A>, A: Actor> From<WeakAddr<A>> for Target<M> {
    fn from(addr: WeakAddr<A>) -> Self {
        Self::of(M::recipient(addr), Some(type_name::<A>))
    }
}

impl<M: HandledBy<A>, A: Actor> From<Addr<A>> for Target<M> {
    fn from(addr: Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M: HandledBy<A>, A: Actor> From<&Addr<A>> for Target<M> {
    fn from(addr: &Addr<A>) -> Self {
        Self::from(addr.downgrade())
    }
}

impl<M: TimerMessage> From<&Target<M>> for Target<M> {
    fn from(target: &Target<M>) -> Self {
        target.clone()
    }
}

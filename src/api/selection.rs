//! Operations on many timers, by key, group or actor, and lists: as methods and as requests.

use std::sync::Arc;

use actix::{Context, Handler, Message, MessageResult, ResponseFuture};

use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::engine::TimerGroup;
use crate::model::actor_id::ActorId;
use crate::model::error::CancelOutcome;
use crate::model::filter::TimerFilter;
use crate::model::key_selector::KeySelector;
use crate::model::view::TimerInfo;

impl Timers {
    /// Cancels the timer for an actor that has this key. Returns [`NotFound`](CancelOutcome::NotFound) if none has it:
    /// none was scheduled with it, or it has ended. If timers with messages of different types have the key, all of
    /// them are cancelled; [`KeySelector::of`] selects one type.
    ///
    /// Timers created through the actor's own context have separate keys; the actor cancels them itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::{CancelOutcome, TimerActor, TimerOptions};
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind(u32);
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    ///
    /// # System::new().block_on(async {
    /// let timers = TimerActor::builder().start()?;
    /// let customer = Customer.start();
    /// let order_7 = TimerOptions::new().key("order 7");
    /// let first = timers.timer(&customer, order_7.clone()).schedule(Duration::from_secs(60), Remind(1));
    /// let second = timers.timer(&customer, order_7).schedule(Duration::from_secs(90), Remind(2));
    /// assert_eq!(timers.get(first), None, "the second has replaced the first");
    /// assert!(timers.get(second).is_some());
    /// assert_eq!(timers.cancel_key(&customer, "order 7"), CancelOutcome::Cancelled);
    /// assert_eq!(timers.get(second), None);
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn cancel_key(&self, actor: impl Into<ActorId>, key: impl Into<KeySelector>) -> CancelOutcome {
        self.service().cancel_key_of(&actor.into(), &key.into())
    }

    /// Cancels all timers of an actor that were pending at the call: its own, and timers that others scheduled for it. Some that
    /// others schedule meanwhile may be among them. Returns their number.
    ///
    /// This visits every pending timer of the timer actor, a few at a time. If you call it often, put the timers of
    /// each actor into a [group](crate::TimerOptions::group).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers::TimerActor;
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async {
    /// # let timers = TimerActor::builder().start()?;
    /// # let customer = Customer.start();
    /// for minutes in 1..=3 {
    ///     timers.schedule_after(&customer, Duration::from_secs(60 * minutes), Remind);
    /// }
    /// assert_eq!(timers.cancel_all_for(&customer), 3);
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    #[doc(alias = "cancel_for")]
    pub fn cancel_all_for(&self, actor: impl Into<ActorId>) -> usize {
        self.service().cancel_all(&self.service().timers_of(&actor.into()))
    }

    /// Cancels all timers of a group that were pending at the call, a few at a time. Returns their number.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Offer;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Offer> for Customer { type Result = (); fn handle(&mut self, _: Offer, _: &mut Context<Self>) {} }
    /// use actix_timers::{TimerActor, TimerOptions};
    ///
    /// # System::new().block_on(async {
    /// # let timers = TimerActor::builder().start()?;
    /// let campaign = TimerOptions::new().group("campaign-7");
    /// for customer in [Customer.start(), Customer.start()] {
    ///     timers.timer(&customer, campaign.clone()).schedule(Duration::from_secs(60), Offer);
    /// }
    /// assert_eq!(timers.cancel_group("campaign-7"), 2);
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn cancel_group(&self, group: impl Into<TimerGroup>) -> usize {
        self.service().cancel_all(&self.service().timers_of_group(&group.into()))
    }

    /// Returns the pending timers that match a filter, by deadline.
    ///
    /// Other calls proceed while the list is built, a few timers at a time. Each timer that is pending throughout, and
    /// is not moved, is in the list; each timer in it was as described at some moment during the call. A filter by group,
    /// or by actor and key, finds its timers without a visit of the others.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    /// use actix_timers::{TimerActor, TimerFilter};
    ///
    /// # System::new().block_on(async {
    /// # let timers = TimerActor::builder().start()?;
    /// # let customer = Customer.start();
    /// for seconds in [30, 10, 20] {
    ///     timers.schedule_after(&customer, Duration::from_secs(seconds), Remind);
    /// }
    /// let next = timers.list(&TimerFilter::new().actor(&customer).limit(2));
    /// let seconds: Vec<u64> = next.iter().map(|info| info.remaining.as_secs_f64().round() as u64).collect();
    /// assert_eq!(seconds, [10, 20]);
    /// assert!(timers.list(&TimerFilter::new().actor(&customer).key("order 7")).is_empty());
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    #[doc(alias = "is_active")]
    #[doc(alias = "timer_by_key")]
    #[doc(alias = "group_len")]
    pub fn list(&self, filter: &TimerFilter) -> Vec<TimerInfo> {
        let service = self.service();
        service.finish_list(service.begin_list(filter.clone(), 0, usize::MAX))
    }
}

/// A request to cancel the timer for an actor that has this key, in the timer actor that receives it.
///
/// Replies as [`Timers::cancel_key`].
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "CancelOutcome")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct CancelKey {
    actor: ActorId,
    key: KeySelector,
}

impl CancelKey {
    /// Returns a request to cancel the timer for `actor` that has this key.
    pub fn new(actor: impl Into<ActorId>, key: impl Into<KeySelector>) -> Self {
        Self { actor: actor.into(), key: key.into() }
    }
}

/// A request to cancel all timers of an actor, its own and timers for it, in the timer actor that receives it.
///
/// Replies with the number of cancelled timers. It covers the timers that are pending when it is handled; see
/// [`Timers::cancel_all_for`].
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "usize")]
#[doc(alias = "CancelOwner")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct CancelAllFor {
    actor: ActorId,
}

impl CancelAllFor {
    /// Returns a request to cancel all timers of `actor`.
    pub fn new(actor: impl Into<ActorId>) -> Self {
        Self { actor: actor.into() }
    }
}

/// A request to cancel all timers of a group, in the timer actor that receives it.
///
/// Replies with the number of cancelled timers. It covers the timers that are pending when it is handled.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "usize")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct CancelGroup {
    group: TimerGroup,
}

impl CancelGroup {
    /// Returns a request to cancel all timers of this group.
    pub fn new(group: impl Into<TimerGroup>) -> Self {
        Self { group: group.into() }
    }
}

/// A request for a list of the pending timers of a timer actor, by deadline. See [`Timers::list`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Message)]
#[rtype(result = "Vec<TimerInfo>")]
#[must_use = "a request does nothing until it is sent to a timer actor"]
pub struct ListTimers(pub TimerFilter);

impl Handler<CancelKey> for TimerActor {
    type Result = MessageResult<CancelKey>;

    fn handle(&mut self, request: CancelKey, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        MessageResult(self.service().cancel_key_of(&request.actor, &request.key))
    }
}

impl Handler<CancelAllFor> for TimerActor {
    type Result = ResponseFuture<usize>;

    fn handle(&mut self, request: CancelAllFor, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        let timers = self.service().timers_of(&request.actor);
        Arc::clone(self.service()).cancel_in_parts(timers)
    }
}

impl Handler<CancelGroup> for TimerActor {
    type Result = ResponseFuture<usize>;

    fn handle(&mut self, request: CancelGroup, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        let timers = self.service().timers_of_group(&request.group);
        Arc::clone(self.service()).cancel_in_parts(timers)
    }
}

impl Handler<ListTimers> for TimerActor {
    type Result = ResponseFuture<Vec<TimerInfo>>;

    fn handle(&mut self, ListTimers(filter): ListTimers, ctx: &mut Context<Self>) -> Self::Result {
        self.count_requests(1, ctx);
        let service = Arc::clone(self.service());
        Box::pin(async move {
            let mut listing = service.begin_list(filter, 0, usize::MAX);
            while service.continue_list(&mut listing) {
                tokio::task::yield_now().await;
            }
            listing.finish()
        })
    }
}

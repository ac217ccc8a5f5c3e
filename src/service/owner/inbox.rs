//! Inboxes: the delivery of an actor's own timers.
//!
//! # Ownership
//!
//! An *owner* is one incarnation of an actor: from its first timer to its stop or restart. For each owner one item, an
//! [`Inbox`], lives in the actor's context. actix drops it when the actor stops, when it is restarted and when its
//! arbiter goes down, and that ends the owner: its timers are cancelled, and the next incarnation is another owner. (A
//! second item, the `spare`, distinguishes this from an inbox cancelled by mistake.)
//!
//! # The direct way
//!
//! A due message stays in its store; only its timer moves, into the owner's inbox. The [`Inbox`] is polled by the
//! actor's context, takes one message at a time and runs its handler. Until then a cancel is exact: the message is in
//! no mailbox.
//!
//! # The way through the mailbox
//!
//! An item in a context keeps its actor alive, and only some timers do (`Engine::keeps_alive`). So once no address of
//! the actor and no such timer is left, the inbox leaves. If that was the last reason to live, the actor stops. If
//! other futures of its own keep it going, its messages are *sent through the mailbox*, one at a time, each after the
//! handler of the previous one has run, or has not ended for a while. The inbox returns when the actor schedules again.
//!
//! The second reason for this way is an inbox that is not polled: a context empties its mailbox first, and a flooded
//! mailbox never gets empty. When an inbox has taken nothing for the watchdog's grace period, the watchdog sends its
//! messages through the mailbox, from its own thread. The message under way cannot be cancelled any more, and a cancel
//! reports that; all behind it still can. As soon as the inbox is polled again, the rest takes the direct way.
//!
//! A closure cannot be sent. An actor that accepts it is requested to run its inbox; see `due_timers`. In another one
//! late messages go past it.

use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use actix::dev::AsyncContextParts;
use actix::fut::{ActorFuture, wrap_future};
use actix::{Actor, AsyncContext, WeakAddr};

use crate::engine::{DueTimer, OwnerId};
use crate::model::mailbox_id::MailboxId;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::lane::lanes::{Item, LaneOf, LaneState};
use crate::service::owner::actor_link::{ActorLink, OwnerLink};
use crate::service::owner::spare::{Spare, pass_old_handles};
use crate::service::owner::thread_registry;
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::{Service, Session};

/// Handlers run in one poll of an actor; then other actors have their turn.
pub(crate) const MESSAGES_PER_POLL: usize = 64;

/// The item in an actor's context that runs the handlers for its own timers.
pub(crate) struct Inbox<A: Actor> {
    service: Arc<Service>,
    link: Arc<ActorLink<A>>,
    waker: Option<Waker>,
    /// The address of the context at the last poll.
    address: usize,
}

impl Service {
    /// Returns the owner for the actor behind `ctx`, created if necessary, with its inbox in the context. `None` if
    /// there is no room for one.
    pub(crate) fn owner_with_inbox<A, C>(self: &Arc<Self>, ctx: &mut C) -> Option<OwnerId>
    where
        A: Actor<Context = C>,
        C: AsyncContext<A> + AsyncContextParts<A>,
    {
        let mailbox = MailboxId::of(&ctx.address())?;
        let known = self.state().owner_at(mailbox);
        let (owner, link) = match known {
            Some(owner) => match Inbox::return_to(self, owner) {
                // It has ended meanwhile, without timers.
                None if self.state().owner_at(mailbox) != Some(owner) => return self.owner_with_inbox(ctx),
                link => (owner, link),
            },
            None => {
                let (link, is_restarted) = self.add_owner(mailbox, ctx.address().downgrade())?;
                if is_restarted {
                    pass_old_handles(ctx);
                }
                (link.owner, Some(link))
            }
        };
        if let Some(link) = link {
            Inbox::spawn(self, Arc::clone(&link), ctx);
            Spare::spawn_unless_present(self, &link, ctx);
        }
        Some(owner)
    }

    /// Makes an actor an owner, without an inbox yet. Returns whether it was one before a restart; `None` if the service
    /// is full.
    fn add_owner<A>(&self, mailbox: MailboxId, addr: WeakAddr<A>) -> Option<(Arc<ActorLink<A>>, bool)>
    where
        A: Actor,
        A::Context: AsyncContext<A>,
    {
        let mut added = None;
        let mut state = self.state();
        let owner = state.engine.add_owner(|owner| {
            let link = added.insert(Arc::new(ActorLink::new(owner, addr)));
            LaneState::new(mailbox, LaneOf::Own { link: Arc::clone(link) as _, waker: None })
        })?;
        let earlier = state.lanes.own.insert(mailbox, owner.0.index());
        Some((added?, earlier.is_some()))
    }
}

impl<A> Inbox<A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Prepares an owner whose inbox has left, or was dropped while the context lived on, for a new one. Returns its link.
    pub(crate) fn return_to(service: &Service, owner: OwnerId) -> Option<Arc<ActorLink<A>>> {
        (service.await_inbox(owner)? as Arc<dyn Any + Send + Sync>).downcast().ok()
    }

    /// Moves an inbox into the context.
    pub(crate) fn spawn(service: &Arc<Service>, link: Arc<ActorLink<A>>, ctx: &mut A::Context) {
        link.has_inbox.store(true, Ordering::Relaxed);
        let mut inbox = Self { service: Arc::clone(service), link, waker: None, address: 0 };
        if ctx.parts().started() {
            inbox.bind_context(thread_registry::context_address(ctx));
        }
        ctx.spawn(inbox);
    }

    /// Registers the owner under the address of its context.
    fn bind_context(&mut self, address: usize) {
        if self.address != address {
            thread_registry::unbind_context(self.address, &self.service, self.link.owner);
            thread_registry::bind_context(address, &self.service, self.link.owner);
            self.address = address;
        }
    }

    /// Leaves the context, in which no address of the actor is left. The spare, which may have been polled before, is to
    /// leave, too.
    fn leave(&self, cx: &Context<'_>) -> Poll<()> {
        self.link.has_inbox.store(false, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::Ready(())
    }

    /// Whether there is nothing to do until the service wakes the inbox; registers the waker for that.
    fn rest(&mut self, is_connected: bool, cx: &Context<'_>) -> bool {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !self.link.wake_flag.is_set() && is_known {
            return true;
        }
        if !is_known {
            self.waker = Some(cx.waker().clone());
        }
        self.service.rests(self.link.owner, &self.link.wake_flag, self.waker.clone(), is_connected)
    }
}

impl<A> ActorFuture<A> for Inbox<A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, actor: &mut A, ctx: &mut A::Context, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let owner = this.link.owner;
        this.bind_context(thread_registry::context_address(ctx));
        if !ctx.parts().connected() && !this.service.state().engine.keeps_alive(owner) {
            return this.leave(cx);
        }
        Spare::spawn_unless_present(&this.service, &this.link, ctx);
        if this.rest(ctx.parts().connected(), cx) {
            return Poll::Pending;
        }
        let mut fetched = None;
        for _ in 0..MESSAGES_PER_POLL {
            if ctx.waiting() {
                // Stopping, or waiting for a future: no messages now. The context polls again after that.
                this.link.wake_flag.set();
                return Poll::Pending;
            }
            let mut state = this.service.state();
            // A message of this poll may have been the last that kept the actor alive.
            if !ctx.parts().connected() && !state.engine.keeps_alive(owner) {
                drop(state);
                return this.leave(cx);
            }
            if state.lanes.posted.contains_key(&owner) {
                let mut session = Session::with(&this.service, state);
                if session.poll_take_over(owner, &this.link.wake_flag, cx).is_pending() {
                    return Poll::Pending;
                }
                state = session.into_guard();
            }
            let upcoming = state.engine.upcoming_chunk(owner);
            if std::mem::replace(&mut fetched, upcoming) != upcoming {
                state.stores.fetch(state.engine.upcoming(owner));
            }
            let Some(due) = state.engine.take_due(owner) else { return Poll::Pending };
            if let Some(lane_state) = state.engine.owner_mut(owner) {
                lane_state.note_progress();
            }
            this.service.deliver_own(state, owner, due, actor, ctx);
        }
        // Returning `Pending` is not enough: after a handler that has spawned a future the context polls all its items
        // again at once. Only waiting ends its turn.
        this.link.wake_flag.set();
        ctx.wait(wrap_future(give_way()));
        Poll::Pending
    }
}

impl Service {
    /// Prepares an owner for a new inbox, unless it has one, or has ended.
    fn await_inbox(&self, owner: OwnerId) -> Option<OwnerLink> {
        let now = self.clock.now();
        let mut state = self.state();
        let lane_state =
            state.engine.owner_mut(owner).filter(|lane| matches!(lane.item, Item::Dropped | Item::Left))?;
        lane_state.item = Item::Present;
        let link = lane_state.link()?.clone();
        link.wake_flag().set();
        if let Some(oldest) = state.engine.oldest_due(owner)
            && self.has_watchdog()
        {
            state.watch_inbox(owner, now);
            self.announce(oldest);
        }
        Some(link)
    }

    /// Leaves the waker of an inbox in the state. Returns whether the inbox has nothing to do until it is called.
    fn rests(&self, owner: OwnerId, wake_flag: &WakeFlag, mut waker: Option<Waker>, is_connected: bool) -> bool {
        // A waker is foreign code: none is cloned or dropped under the lock.
        let mut state = self.state();
        let is_empty = state.engine.inbox_len(owner) == 0 && !state.lanes.posted.contains_key(&owner);
        if let Some(lane_state) = state.engine.owner_mut(owner)
            && let LaneOf::Own { waker: place, .. } = &mut lane_state.of
        {
            wake_flag.clear();
            std::mem::swap(place, &mut waker);
            if is_empty {
                lane_state.note_progress();
            }
        }
        // The last timer that kept the actor alive may have ended since the beginning of this poll.
        let rests = is_empty && (is_connected || state.engine.keeps_alive(owner));
        drop(state);
        drop(waker);
        rests
    }

    /// Notes that an inbox has left, or was dropped.
    fn lose_inbox(&self, owner: OwnerId, left: bool) {
        let mut state = self.state();
        let mut waker = None;
        if let Some(lane_state) = state.engine.owner_mut(owner) {
            if !lane_state.has_ended() {
                lane_state.item = if left { Item::Left } else { Item::Dropped };
            }
            if let LaneOf::Own { waker: place, .. } = &mut lane_state.of {
                waker = place.take();
            }
        }
        if left {
            state.mark_ready(owner);
        }
        drop(state);
        drop(waker);
        if left {
            self.turns.wake_driver();
        }
    }

    /// Runs the handler of an own message that was taken from the inbox.
    #[inline]
    pub(crate) fn deliver_own(
        self: &Arc<Self>,
        mut state: StateGuard<'_>,
        lane: OwnerId,
        due: DueTimer<MessageRef>,
        actor: &mut dyn Any,
        ctx: &mut dyn Any,
    ) {
        let publish = state.reports.published.ask_to_publish();
        match state.stores.ways(due.payload) {
            Some(ways) => (ways.pull)(Session::with(self, state), lane, due, actor, ctx),
            None => drop(state),
        }
        if publish {
            self.turns.wake_driver();
        }
    }
}

/// Yields to all others on the arbiter once.
pub(crate) async fn give_way() {
    let mut gave_way = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<A: Actor> Drop for Inbox<A> {
    fn drop(&mut self) {
        thread_registry::unbind_context(self.address, &self.service, self.link.owner);
        // If it has left, the owner lives on.
        let left = !self.link.has_inbox.load(Ordering::Relaxed);
        self.link.has_inbox.store(false, Ordering::Relaxed);
        self.service.lose_inbox(self.link.owner, left);
        if !left && !self.link.has_spare.load(Ordering::Relaxed) {
            // Both items have been dropped: the context has ended or was restarted.
            self.service.end_owner(self.link.owner);
        }
    }
}

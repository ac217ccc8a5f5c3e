//! Posted own messages: on their way through the mailbox of their actor; `inbox` gives the reasons.
//!
//! A message counts as delivered once it is in the mailbox, as one for a target does. One at a time is under way to an
//! owner, and the inbox does not overtake it. If its handler does not end, as a future may not, the next one follows after
//! a while: a mailbox is first in, first out. It ends with its incarnation: actix skips a message whose request was
//! dropped.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::engine::{DueTimer, OwnerId};
use crate::model::id::TimerId;
use crate::model::reply::{Reply, ReplyFuture};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::watchdog::GRACE;
use crate::service::lane::lanes::Item;
use crate::service::lane::reply_waiter::{Acknowledgement, ReplyWaiter, Sent};
use crate::service::state::{Service, Session, State};
use crate::sync;

/// Waits for the end of an own message.
pub(crate) type OwnWaiter = Arc<ReplyWaiter<Reply>>;

/// An own message on its way through the mailbox of its actor.
pub(crate) struct Posted {
    /// Its timer, which has ended, for a warning that the actor is stuck.
    pub(crate) due: DueTimer<MessageRef>,
    pub(crate) id: TimerId,
    number: u64,
    /// Waits for its end; `None` until the message is in the mailbox.
    waiter: Option<OwnWaiter>,
    /// Whether the inbox was polled while the message was in the mailbox.
    is_seen: bool,
    /// The time at which it was in the mailbox.
    since: Duration,
    behind: Behind,
}

/// The messages behind a posted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    NoneYet,
    /// They wait for its end, until the time in [`Lanes::follows`](crate::service::lane::lanes::Lanes::follows).
    Wait,
    /// They need not wait for its end.
    Follow,
}

impl Posted {
    /// Whether another message may be posted before its end is known.
    pub(crate) fn may_be_followed(&self) -> bool {
        self.behind == Behind::Follow && self.waiter.is_some()
    }
}

impl State {
    /// Ends a posted message. Returns its waiter.
    pub(crate) fn end_posted(&mut self, lane: OwnerId, number: u64) -> Option<OwnWaiter> {
        if self.lanes.posted.get(&lane).is_some_and(|posted| posted.number == number) {
            return self.lanes.posted.remove(&lane)?.waiter;
        }
        let Entry::Occupied(mut unanswered) = self.lanes.unanswered.entry(lane) else { return None };
        let place = unanswered.get().iter().position(|(other, _)| *other == number)?;
        let (_, waiter) = unanswered.get_mut().swap_remove(place);
        if unanswered.get().is_empty() {
            unanswered.remove();
        }
        Some(waiter)
    }

    /// Lets the next messages follow those whose handlers have not ended for [`GRACE`].
    pub(crate) fn let_follow(&mut self, now: Duration) {
        while let Some((at, lane, number)) = self.lanes.follows.front().copied() {
            let posted = self.lanes.posted.get_mut(&lane).filter(|posted| posted.number == number);
            if posted.is_some() && at > now {
                return;
            }
            self.lanes.follows.pop_front();
            if let Some(posted) = posted {
                // Not while another thread is sending it.
                posted.behind = if posted.waiter.is_some() { Behind::Follow } else { Behind::NoneYet };
                self.mark_ready(lane);
            }
        }
    }
}

/// The time of the next poll of an inbox that must not overtake a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The message is in the mailbox.
    AtOnce,
    /// Another thread is sending it, or has just found its end, and wakes the inbox afterwards.
    WhenCalled,
}

impl Session<'_> {
    /// Sends a message of an own lane through the mailbox of its actor, as the request that `make_request` returns.
    pub(crate) fn post_own(
        &mut self,
        lane: OwnerId,
        due: DueTimer<MessageRef>,
        make_request: impl FnOnce(&mut Self, &dyn Any) -> Option<ReplyFuture>,
    ) {
        let service = self.service;
        let state = self.state();
        let Some(link) = state.engine.owner(lane).and_then(|lane_state| lane_state.link().cloned()) else { return };
        let id = service.id_of(state, due.key);
        let has_left = state.engine.owner(lane).is_some_and(|lane_state| lane_state.item == Item::Left);
        let lanes = &mut state.lanes;
        if let Some(Posted { number, waiter: Some(waiter), .. }) = lanes.posted.remove(&lane) {
            lanes.unanswered.entry(lane).or_default().push((number, waiter));
        }
        let is_slow = has_left && lanes.unanswered.contains_key(&lane);
        let behind = if is_slow { Behind::Follow } else { Behind::NoneYet };
        lanes.posts += 1;
        let number = lanes.posts;
        let posted = Posted { due, id, number, waiter: None, is_seen: false, since: Duration::ZERO, behind };
        lanes.posted.insert(lane, posted);
        let acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent: Sent::Own(number) };
        let request = service.contain(|| make_request(self, link.addr())).flatten();
        self.unlocked();
        let Some(request) = request else { return drop(acknowledgement) };
        let _ = service.begin_delivery(due, None);
        let waiter = ReplyWaiter::new(request, acknowledgement);
        let since = service.read_clock();
        let state = self.state();
        let posted = state.lanes.posted.get_mut(&lane);
        let posted = posted.map(|posted| (posted.waiter, posted.since) = (Some(Arc::clone(&waiter)), since));
        let waker = posted.and_then(|()| state.wake_inbox(lane));
        self.unlocked();
        waker.into_iter().for_each(Waker::wake);
        // Its owner may have ended meanwhile.
        service.contain(|| if posted.is_some() { drop(waiter.poke()) } else { waiter.withdraw() });
    }

    /// Whether the next message need not wait for the end of the one under way any more. Otherwise it follows later.
    pub(crate) fn may_follow(&mut self, lane: OwnerId) -> bool {
        if self.state().lanes.posted.get(&lane).is_none_or(|posted| posted.behind != Behind::NoneYet) {
            return false;
        }
        let now = self.unlocked().read_clock();
        let lanes = &mut self.state().lanes;
        let Some(posted) = lanes.posted.get_mut(&lane) else { return false };
        if posted.waiter.is_some() && posted.since.saturating_add(GRACE) <= now {
            posted.behind = Behind::Follow;
            return true;
        }
        posted.behind = Behind::Wait;
        lanes.follows.push_back((now.saturating_add(GRACE), lane, posted.number));
        false
    }

    /// Whether no message is under way any more to an inbox that is polled. Otherwise returns when to poll the inbox
    /// again. A send may take long if user code produces the message.
    ///
    /// A context empties its mailbox before it polls its items. So if the message was in the mailbox at one poll of the
    /// inbox, its handler has been called at the next, even if the answer, perhaps a future, is still to come.
    pub(crate) fn try_take_over(&mut self, lane: OwnerId) -> Result<(), Again> {
        let Some(posted) = self.state().lanes.posted.get_mut(&lane) else { return Ok(()) };
        let Some(waiter) = posted.waiter.clone() else { return Err(Again::WhenCalled) };
        if !std::mem::replace(&mut posted.is_seen, true) {
            return Err(Again::AtOnce);
        }
        self.unlocked().contain(|| waiter.withdraw());
        // The state was unlocked meanwhile, and the watchdog may have sent the next one.
        if self.state().lanes.posted.contains_key(&lane) { Err(Again::AtOnce) } else { Ok(()) }
    }
}

impl Service {
    /// Withdraws the message under way to an owner that has ended, so that it will not be handled.
    pub(crate) fn withdraw_posted<'a>(&'a self, mut guard: StateGuard<'a>, lane: OwnerId) {
        /// Sending takes microseconds, but user code may be involved if it fails.
        const LONGEST_SEND: Duration = Duration::from_millis(100);
        let began = sync::elapsed();
        if let Some(unanswered) = guard.lanes.unanswered.remove(&lane) {
            drop(guard);
            unanswered.iter().for_each(|(_, waiter)| _ = self.contain(|| waiter.withdraw()));
            guard = self.state();
        }
        while let Some(posted) = guard.lanes.posted.get(&lane) {
            if sync::elapsed().saturating_sub(began) > LONGEST_SEND {
                guard.lanes.posted.remove(&lane);
                return;
            }
            let waiter = posted.waiter.clone();
            drop(guard);
            match waiter {
                Some(waiter) => drop(self.contain(|| waiter.withdraw())),
                // Another thread is still sending it.
                None => sync::yield_now(),
            }
            guard = self.state();
        }
    }
}

//! Posted own messages: on their way through the mailbox of their actor; `inbox` gives the reasons.
//!
//! A message counts as delivered once it is in the mailbox, as one for a target does. One at a time is under way to an
//! owner, and the inbox does not overtake it. If its handler does not end, as a future may not, the next one follows after
//! a while: a mailbox is first in, first out. It ends with its incarnation: actix skips a message whose request was
//! dropped.

use std::any::Any;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::engine::{DueTimer, OwnerId};
use crate::model::id::TimerId;
use crate::model::reply::{Reply, ReplyFuture};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::watchdog::GRACE;
use crate::service::lane::lanes::{Item, Lanes};
use crate::service::lane::reply_waiter::{Acknowledgement, ReplyWaiter, Sent};
use crate::service::owner::wake_flag::WakeFlag;
use crate::service::state::{Service, Session, State};
use crate::sync;

/// An own message on its way through the mailbox of its actor.
pub(crate) struct Posted {
    /// Its timer, which has ended, for a warning that the actor is stuck.
    pub(crate) due: DueTimer<MessageRef>,
    pub(crate) id: TimerId,
    number: u64,
    /// Waits for its end; `None` until the message is in the mailbox.
    waiter: Option<Arc<ReplyWaiter<Reply>>>,
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
    /// They wait for its end, until the time in [`Lanes::follows`].
    Wait,
    /// They need not wait for its end.
    Follow,
}

impl Lanes {
    /// Returns the message of a lane that was posted last, and may wait for its actor.
    pub(crate) fn last_posted(&self, lane: OwnerId) -> Option<&Posted> {
        self.posted.get(&lane)?.back()
    }

    /// Returns the newest posted message of a lane, unless the next one need not wait for its end.
    pub(crate) fn under_way(&self, lane: OwnerId) -> Option<&Posted> {
        // None follows while another thread is still sending it.
        self.last_posted(lane).filter(|posted| posted.behind != Behind::Follow || posted.waiter.is_none())
    }

    /// Returns the posted message of this number, if it is the newest of its lane.
    fn newest(&mut self, lane: OwnerId, number: u64) -> Option<&mut Posted> {
        self.posted.get_mut(&lane)?.back_mut().filter(|posted| posted.number == number)
    }
}

impl State {
    /// Ends a posted message, which is to be dropped after unlocking.
    pub(crate) fn end_posted(&mut self, lane: OwnerId, number: u64) -> Option<Posted> {
        let Entry::Occupied(mut posted) = self.lanes.posted.entry(lane) else { return None };
        let place = posted.get().iter().position(|posted| posted.number == number)?;
        let ended = posted.get_mut().remove(place);
        if posted.get().is_empty() {
            posted.remove();
        }
        ended
    }

    /// Lets the next messages follow those whose handlers have not ended for [`GRACE`].
    pub(crate) fn let_follow(&mut self, now: Duration) {
        while let Some((at, lane, number)) = self.lanes.follows.front().copied() {
            let newest = self.lanes.newest(lane, number);
            if newest.is_some() && at > now {
                return;
            }
            if let Some(posted) = newest {
                // Not while another thread is sending it.
                posted.behind = if posted.waiter.is_some() { Behind::Follow } else { Behind::NoneYet };
                self.mark_ready(lane);
            }
            self.lanes.follows.pop_front();
        }
    }
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
        let Some(lane_state) = state.engine.owner(lane) else { return };
        let has_left = lane_state.item == Item::Left;
        let Some(link) = lane_state.link().cloned() else { return };
        let id = service.id_of(state, due.key);
        state.lanes.posts += 1;
        let number = state.lanes.posts;
        let earlier = state.lanes.posted.entry(lane).or_default();
        // Behind one whose handler does not end.
        let behind = if has_left && !earlier.is_empty() { Behind::Follow } else { Behind::NoneYet };
        earlier.push_back(Posted { due, id, number, waiter: None, is_seen: false, since: Duration::ZERO, behind });
        let acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent: Sent::Own(number) };
        let request = service.contain(|| make_request(self, link.addr())).flatten();
        self.unlocked();
        let Some(request) = request else { return drop(acknowledgement) };
        let _ = service.begin_delivery(due, None);
        let waiter = ReplyWaiter::new(request, acknowledgement);
        let since = service.read_clock();
        let state = self.state();
        let posted = state.lanes.newest(lane, number);
        let posted = posted.map(|posted| (posted.waiter, posted.since) = (Some(Arc::clone(&waiter)), since));
        let waker = posted.and_then(|()| state.wake_inbox(lane));
        self.unlocked();
        waker.into_iter().for_each(Waker::wake);
        // Its owner may have ended meanwhile.
        service.contain(|| if posted.is_some() { drop(waiter.poke()) } else { waiter.withdraw() });
    }

    /// Without an inbox, lets the next message follow the one under way if its handler does not end within [`GRACE`].
    pub(crate) fn follow_later(&mut self, lane: OwnerId) {
        if self.state().engine.owner(lane).is_none_or(|lane_state| lane_state.item != Item::Left) {
            return;
        }
        let now = self.unlocked().read_clock();
        let Lanes { posted, follows, .. } = &mut self.state().lanes;
        let newest = posted.get_mut(&lane).and_then(|posted| posted.back_mut());
        if let Some(posted) = newest.filter(|posted| posted.behind == Behind::NoneYet) {
            if posted.since.saturating_add(GRACE) <= now {
                posted.behind = Behind::Follow;
                self.state().mark_ready(lane);
            } else {
                posted.behind = Behind::Wait;
                follows.push_back((now.saturating_add(GRACE), lane, posted.number));
            }
        }
    }

    /// Whether no message is under way any more to an inbox that is polled. Otherwise the inbox is polled again: at once,
    /// or by another thread, which is sending the message. A send may take long if user code produces it.
    ///
    /// A context empties its mailbox before it polls its items. So if the message was in the mailbox at one poll of the
    /// inbox, its handler has been called at the next, even if the answer, perhaps a future, is still to come; so have those
    /// before it.
    pub(crate) fn poll_take_over(&mut self, lane: OwnerId, inbox: &WakeFlag, cx: &Context<'_>) -> Poll<()> {
        let posted = &mut self.state().lanes.posted;
        let Some(newest) = posted.get_mut(&lane).and_then(|posted| posted.back_mut()) else { return Poll::Ready(()) };
        if newest.waiter.is_none() {
            return Poll::Pending;
        }
        if std::mem::replace(&mut newest.is_seen, true) {
            let posted = posted.remove(&lane);
            self.unlocked().withdraw(posted);
            // The watchdog may have sent the next one meanwhile.
            if !self.state().lanes.posted.contains_key(&lane) {
                return Poll::Ready(());
            }
        }
        self.unlocked();
        inbox.set();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Service {
    /// Stops waiting for posted messages. Those in the mailbox are not handled any more.
    fn withdraw(&self, posted: Option<VecDeque<Posted>>) {
        let waiters = posted.into_iter().flatten().filter_map(|posted| posted.waiter);
        waiters.for_each(|waiter| _ = self.contain(|| waiter.withdraw()));
    }

    /// Withdraws the messages under way to an owner that has ended, so that they will not be handled.
    pub(crate) fn withdraw_posted<'a>(&'a self, mut guard: StateGuard<'a>, lane: OwnerId) {
        /// Sending takes microseconds, but user code may be involved if it fails.
        const LONGEST_SEND: Duration = Duration::from_millis(100);
        let end = sync::elapsed().saturating_add(LONGEST_SEND);
        let is_being_sent = |posted: &VecDeque<Posted>| posted.iter().any(|posted| posted.waiter.is_none());
        while guard.lanes.posted.get(&lane).is_some_and(is_being_sent) && sync::elapsed() <= end {
            drop(guard);
            sync::yield_now();
            guard = self.state();
        }
        let posted = guard.lanes.posted.remove(&lane);
        drop(guard);
        self.withdraw(posted);
    }
}

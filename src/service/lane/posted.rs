//! Posted own messages: on their way through the mailbox of their actor; `inbox` gives the reasons.
//!
//! A message counts as delivered once it is in the mailbox, as one for a target does. One at a time is under way to an
//! owner, and the inbox does not overtake it. It ends with its incarnation: actix skips a message whose request was
//! dropped.

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::engine::{DueTimer, OwnerId};
use crate::model::id::TimerId;
use crate::model::reply::{Reply, ReplyFuture};
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::lane::reply_waiter::{Acknowledgement, ReplyWaiter, Sent};
use crate::service::state::{Service, Session};
use crate::sync;

/// An own message on its way through the mailbox of its actor.
pub(crate) struct Posted {
    /// Its timer, which has ended, for a warning that the actor is stuck.
    pub(crate) due: DueTimer<MessageRef>,
    pub(crate) id: TimerId,
    /// Waits for its end; `None` until the message is in the mailbox.
    waiter: Option<Arc<ReplyWaiter<Reply>>>,
    /// Whether the inbox was polled while the message was in the mailbox.
    is_seen: bool,
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
        state.lanes.posted.insert(lane, Posted { due, id, waiter: None, is_seen: false });
        let acknowledgement = Acknowledgement { service: Arc::clone(service), lane, sent: Sent::Own };
        let request = service.contain(|| make_request(self, link.addr())).flatten();
        self.unlocked();
        let Some(request) = request else { return drop(acknowledgement) };
        let _ = service.begin_delivery(due, None);
        let waiter = ReplyWaiter::new(request, acknowledgement);
        let state = self.state();
        let posted = state.lanes.posted.get_mut(&lane).map(|posted| posted.waiter = Some(Arc::clone(&waiter)));
        let waker = posted.and_then(|()| state.wake_inbox(lane));
        self.unlocked();
        waker.into_iter().for_each(Waker::wake);
        // Its owner may have ended meanwhile.
        service.contain(|| if posted.is_some() { drop(waiter.poke()) } else { waiter.withdraw() });
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

//! Mailbox deliveries: messages of an actor's own timers on their way through its mailbox; `inbox` gives the reasons.
//!
//! A message counts as delivered once it is in the mailbox, as one for a target does. One at a time is under way to an
//! owner, and the inbox does not overtake it. It ends with its incarnation: actix skips a message whose request was
//! dropped.

use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::engine::{Outcome, OwnerId};
use crate::service::deliver::help::is_late;
use crate::service::deliver::message_stores::StateGuard;
use crate::service::deliver::turns::TurnBy;
use crate::service::owner::owners::{Again, MailboxDelivery};
use crate::service::state::{Service, State};
use crate::sync;
use crate::timing::Key;

/// Closures that a message passes at most: the search for it holds the lock.
const MAX_PASSED: usize = 256;

/// Wakes the sender when the handler has run.
struct CompletionWaker {
    service: Weak<Service>,
    owner: OwnerId,
    by: TurnBy,
}

impl Wake for CompletionWaker {
    /// Tokio may call this while the state is locked, so it must not lock it.
    fn wake(self: Arc<Self>) {
        let Some(service) = self.service.upgrade() else { return };
        service.completions.lock().unwrap_or_else(PoisonError::into_inner).push(self.owner);
        service.turns.wake_driver();
        if self.by == TurnBy::Watchdog {
            service.wake_watchdog();
        }
    }
}

impl Service {
    /// Returns the first message of an inbox that can go through the mailbox. In a starved actor that accepts no request
    /// to run its due timers, a message that is late at `now` passes closures.
    pub(crate) fn next_for_mailbox(&self, state: &State, owner: OwnerId, now: Duration) -> Option<Key> {
        let is_free = |payload| !state.stores.is_thread_bound(payload);
        let next = state.engine.find_due(owner, MAX_PASSED + 1, is_free)?;
        if state.engine.first_due(owner) == Some(next.key) {
            return Some(next.key);
        }
        let owner_state = state.engine.owner(owner)?;
        let is_starved = owner_state.without_inbox || !owner_state.moved;
        let is_late = is_late(Some(self.tick.time_of(next.deadline)), now);
        (is_starved && is_late && !state.accepts_due_timers(owner)).then_some(next.key)
    }

    /// Sends the [next](Self::next_for_mailbox) message of an owner's inbox through its mailbox, if there is one.
    pub(crate) fn deliver_by_mailbox<'a>(
        self: &'a Arc<Self>,
        mut guard: StateGuard<'a>,
        owner: OwnerId,
        by: TurnBy,
        now: Duration,
    ) -> StateGuard<'a> {
        // In an ended owner's place its mailbox belongs to the next incarnation.
        if guard.engine.owner(owner).is_none_or(|owner_state| owner_state.ended) || guard.engine.inbox_len(owner) == 0 {
            return guard;
        }
        let Some(next) = self.next_for_mailbox(&guard, owner, now) else { return self.ask_to_run_due(guard, owner) };
        let Some(due) = guard.engine.send_off(next) else { return guard };
        let send = guard.stores.store(due.payload.store).and_then(|store| {
            let owner_state = guard.engine.owner(owner)?;
            owner_state.link.as_ref()?.actor.send_to_owner(&store.route)
        });
        let Some(send) = send else {
            guard.engine.finish(due.key, Outcome::Cancelled);
            return guard;
        };
        let completion_waker = CompletionWaker { service: Arc::downgrade(self), owner, by };
        let completion_waker = Waker::from(Arc::new(completion_waker));
        let (deadline, id, store) = (due.deadline, self.id_of(&guard, due.key), due.payload.store);
        let delivery =
            MailboxDelivery { deadline, id, store, request: None, answer: None, completion_waker, seen: false };
        guard.owners.mailbox_deliveries.insert(owner, delivery);
        let sent = self.contain(|| send(self, guard, due)).flatten();
        if sent.is_some() {
            let _ = self.contain(|| self.begin_delivery(due.key, due.deadline));
        }
        let mut guard = self.state();
        let under_way = guard.owners.mailbox_deliveries.get_mut(&owner);
        match (under_way, sent) {
            (Some(delivery), Some(request)) => {
                delivery.request = Some(request);
                let waker = guard.wake_inbox(owner);
                let guard = self.poll_done(guard, owner);
                let Some(waker) = waker else { return guard };
                drop(guard);
                Self::wake_all(vec![waker]);
                self.state()
            }
            (Some(_), None) => self.finish_delivery(guard, owner),
            (None, sent) => {
                drop(guard);
                self.drop_contained(sent);
                self.state()
            }
        }
    }

    /// Whether handlers of messages under way have run.
    pub(crate) fn has_completions(&self) -> bool {
        !self.completions.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes the reports of messages whose handlers have run.
    pub(crate) fn take_completions(&self) -> Vec<OwnerId> {
        std::mem::take(&mut *self.completions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a mailbox delivery if the handler has run, or never will.
    pub(crate) fn poll_done<'a>(&'a self, mut guard: StateGuard<'a>, owner: OwnerId) -> StateGuard<'a> {
        let Some(delivery) = guard.owners.mailbox_deliveries.get_mut(&owner) else { return guard };
        // Without a request it is still being sent; the sender polls it afterwards.
        let Some(request) = &mut delivery.request else { return guard };
        match request.as_mut().poll(&mut Context::from_waker(&delivery.completion_waker)) {
            Poll::Pending => guard,
            Poll::Ready(answer) => {
                delivery.answer = answer;
                self.finish_delivery(guard, owner)
            }
        }
    }

    /// Returns the guard to a polled inbox if no message is under way any more. Otherwise returns when to poll the
    /// inbox again: at once, or when it is woken, because the message is still being sent. A send may take long if user
    /// code produces the message.
    ///
    /// A context empties its mailbox before it polls its items. So if the message was in the mailbox at one poll of the
    /// inbox, its handler has been called at the next, even if the answer, perhaps a future, is still to come.
    pub(crate) fn try_take_over<'a>(
        &'a self,
        mut guard: StateGuard<'a>,
        owner: OwnerId,
    ) -> Result<StateGuard<'a>, Again> {
        guard = self.poll_done(guard, owner);
        if let Some(delivery) = guard.owners.mailbox_deliveries.get_mut(&owner)
            && delivery.request.is_some()
            && std::mem::replace(&mut delivery.seen, true)
        {
            guard = self.finish_delivery(guard, owner);
        }
        // The state was unlocked meanwhile, and the watchdog may have sent the next one.
        match guard.owners.mailbox_deliveries.get(&owner).map(|delivery| delivery.request.is_some()) {
            None => Ok(guard),
            Some(false) => Err(Again::WhenCalled),
            Some(true) => Err(Again::AtOnce),
        }
    }

    /// Withdraws the message under way to an owner that has ended, so that it will not be handled.
    pub(crate) fn withdraw_delivery<'a>(&'a self, mut guard: StateGuard<'a>, owner: OwnerId) {
        /// Sending takes microseconds, but user code may be involved if it fails.
        const LONGEST_SEND: Duration = Duration::from_millis(100);
        let began = sync::elapsed();
        while let Some(delivery) = guard.owners.mailbox_deliveries.get(&owner) {
            if delivery.request.is_some() || sync::elapsed().saturating_sub(began) > LONGEST_SEND {
                drop(self.finish_delivery(guard, owner));
                return;
            }
            // Another thread is still sending it.
            drop(guard);
            sync::yield_now();
            guard = self.state();
        }
    }

    /// Ends the mailbox delivery to an owner; the next may follow.
    fn finish_delivery<'a>(&'a self, mut guard: StateGuard<'a>, owner: OwnerId) -> StateGuard<'a> {
        let state = &mut *guard;
        let Some(delivery) = state.owners.mailbox_deliveries.remove(&owner) else { return guard };
        let publish = state.reports.published.ask_to_publish();
        let mut waker = None;
        match state.engine.owner_mut(owner) {
            Some(owner_state) if owner_state.without_inbox => state.owners.without_inbox.push(owner),
            Some(owner_state) => waker = owner_state.wake(),
            None => {}
        }
        drop(guard);
        // The request contains the handler's answer, which is user code.
        self.drop_contained(delivery);
        Self::wake_all(waker.into_iter().collect());
        if publish {
            self.turns.wake_driver();
        }
        self.state()
    }
}

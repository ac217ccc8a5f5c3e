//! Escorts: messages of an actor's own timers on their way through its mailbox. What the way is for: see `inbox`.
//!
//! One message at a time is under way to an owner, and the inbox does not overtake it. The message can be withdrawn as
//! long as its handler has not begun: actix passes over a message whose request was dropped. That is only certain
//! where no handler can begin meanwhile, so it is done when the owner or the service ends, not for a cancel.

use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::lanes::{Answer, Guard, Handling};
use super::{Service, sync};
use crate::engine::{Ending, OwnerId};
use crate::timing::Key;

/// Who does the work of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// The timer actor, on its arbiter.
    Driver,
    /// The watch, because the timer actor is late.
    Watch,
}

/// A message on its way through the mailbox of its owner.
pub(crate) struct Escort {
    pub(crate) key: Key,
    /// The request for its handling; none until the message is in the mailbox.
    request: Option<Handling>,
    answer: Option<Answer>,
    knock: Waker,
    /// The inbox was polled while the message was under way.
    seen: bool,
}

/// When an inbox that cannot go on has to be polled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    AtOnce,
    /// Another thread calls it.
    WhenCalled,
}

/// Wakes whoever escorts when the handler has run.
struct Knock {
    service: Weak<Service>,
    owner: OwnerId,
    key: Key,
    hand: Hand,
}

impl Wake for Knock {
    /// May be called by tokio while the core is locked, so it must not lock it.
    fn wake(self: Arc<Self>) {
        let Some(service) = self.service.upgrade() else { return };
        service.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push((self.owner, self.key));
        service.driver.wake();
        if self.hand == Hand::Watch {
            service.call_watch();
        }
    }
}

impl Service {
    /// Sends the first message of an owner's inbox through its mailbox, if there is one.
    pub(crate) fn escort<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, owner: OwnerId, hand: Hand) -> Guard<'a> {
        let due = loop {
            // It may have ended while a message of somebody else was sent. Then the mailbox belongs to the next incarnation.
            if guard.engine.owner(owner).is_none_or(|card| card.ended) {
                return guard;
            }
            let Some(due) = guard.engine.escort_due(owner) else { return guard };
            match guard.lanes.post_of(due.payload) {
                // A message of somebody else: the mailbox is where it belongs.
                Some(post) => guard = self.post_from_elsewhere(guard, post, &mut vec![due]),
                None => break due,
            }
        };
        let send = guard.lanes.lane(due.payload.lane).and_then(|lane| {
            let card = guard.engine.owner(owner)?;
            card.door.as_ref()?.escort(&lane.route)
        });
        let Some(send) = send else {
            guard.engine.finish(due.key, Ending::Cancelled);
            return guard;
        };
        let knock = Knock { service: Arc::downgrade(self), owner, key: due.key, hand };
        let knock = Waker::from(Arc::new(knock));
        let escort = Escort { key: due.key, request: None, answer: None, knock, seen: false };
        guard.escorts.insert(owner, escort);
        let sent = self.contain(|| send(self, guard, due)).flatten();
        if sent.is_some() {
            let _ = self.contain(|| self.hand_over(due.key, due.deadline));
        }
        let mut guard = self.core();
        let under_way = guard.escorts.get_mut(&owner).filter(|escort| escort.key == due.key);
        match (under_way, sent) {
            (Some(escort), Some(request)) => {
                escort.request = Some(request);
                let waker = guard.ring_for(owner);
                let guard = self.meet(guard, owner, due.key);
                let Some(waker) = waker else { return guard };
                drop(guard);
                Self::wake_all(vec![waker]);
                self.core()
            }
            (Some(_), None) => self.land(guard, owner, Ending::Cancelled),
            (None, sent) => {
                drop(guard);
                self.contain(|| drop(sent));
                self.core()
            }
        }
    }

    /// Whether handlers have run whose messages were under way.
    pub(crate) fn has_arrivals(&self) -> bool {
        !self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The messages whose handlers have run, as far as they have knocked.
    pub(crate) fn take_arrivals(&self) -> Vec<(OwnerId, Key)> {
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the books on a message under way if its handler has run. Only a stopped actor does not run it.
    pub(crate) fn meet<'a>(&'a self, mut guard: Guard<'a>, owner: OwnerId, key: Key) -> Guard<'a> {
        let Some(escort) = guard.escorts.get_mut(&owner).filter(|escort| escort.key == key) else { return guard };
        // Without a request it is just being sent; the sender looks once it is there.
        let Some(request) = &mut escort.request else { return guard };
        match request.as_mut().poll(&mut Context::from_waker(&escort.knock)) {
            Poll::Pending => guard,
            Poll::Ready(answer) => {
                let ending = if answer.is_some() { Ending::Delivered } else { Ending::Cancelled };
                escort.answer = answer;
                self.land(guard, owner, ending)
            }
        }
    }

    /// For an inbox that is polled: the guard, if no message is under way any more. Otherwise the inbox has to be polled
    /// again: at once if the answer says so, or when it is called, because the message is still being sent. That may take
    /// long, if the user's code makes the message.
    ///
    /// A context empties its mailbox before it polls its items. So if the message was in the mailbox at one poll of the
    /// inbox, its handler has been called at the next, even if the answer, a future perhaps, is still to come.
    pub(crate) fn overtake<'a>(&'a self, mut guard: Guard<'a>, owner: OwnerId) -> Result<Guard<'a>, Again> {
        let Some(key) = guard.escorts.get(&owner).map(|escort| escort.key) else { return Ok(guard) };
        guard = self.meet(guard, owner, key);
        if let Some(escort) = guard.escorts.get_mut(&owner)
            && escort.request.is_some()
            && std::mem::replace(&mut escort.seen, true)
        {
            guard = self.land(guard, owner, Ending::Delivered);
        }
        // It was unlocked meanwhile, and the watch may have sent the next one.
        match guard.escorts.get(&owner).map(|escort| escort.request.is_some()) {
            None => return Ok(guard),
            Some(false) => return Err(Again::WhenCalled),
            Some(true) => {}
        }
        if let Some(card) = guard.engine.owner(owner) {
            card.bell.ring();
        }
        Err(Again::AtOnce)
    }

    /// Takes back the message under way to an owner, so that it will not be handled any more. To be called where no
    /// handler of the owner can begin meanwhile.
    pub(crate) fn withdraw<'a>(&'a self, mut guard: Guard<'a>, owner: OwnerId, ending: Ending) -> Guard<'a> {
        /// Sending takes microseconds, but user code may be involved if it fails.
        const PATIENCE: Duration = Duration::from_millis(100);
        let began = sync::elapsed();
        loop {
            let Some(escort) = guard.escorts.get(&owner) else { return guard };
            if escort.request.is_some() || sync::elapsed().saturating_sub(began) > PATIENCE {
                let key = escort.key;
                guard = self.meet(guard, owner, key);
                return self.land(guard, owner, ending);
            }
            // Another thread is just sending it.
            drop(guard);
            sync::yield_now();
            guard = self.core();
        }
    }

    /// Closes the books on the message under way to an owner; the next may follow.
    fn land<'a>(&'a self, mut guard: Guard<'a>, owner: OwnerId, ending: Ending) -> Guard<'a> {
        let core = &mut *guard;
        let Some(escort) = core.escorts.remove(&owner) else { return guard };
        let landed = core.land_repetition(escort.key, ending);
        let publish = core.published.ask_to_publish();
        let mut waker = None;
        match core.engine.owner_mut(owner) {
            Some(card) if card.away => core.away.push(owner),
            Some(card) => {
                card.bell.ring();
                waker = card.waker.take();
            }
            None => {}
        }
        drop(guard);
        // With the request goes what the handler has answered: code of the user.
        let key = escort.key;
        self.contain(|| drop(escort));
        self.after_landing(key, landed);
        Self::wake_all(waker.into_iter().collect());
        if publish {
            self.driver.wake();
        }
        self.core()
    }
}

//! Many timers at a time: which they are, what can be said of them, and their end. Nothing here holds the lock for more
//! than a page of timers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use actix::ResponseFuture;

use super::{Core, Service};
use crate::actor::actor_id::ActorId;
use crate::actor::error::CancelOutcome;
use crate::actor::filter::TimerFilter;
use crate::actor::id::TimerId;
use crate::actor::view::TimerInfo;
use crate::engine::{KeyScope, OwnerId, TimerGroup, TimerKey};
use crate::timing::{Key, Tick};

/// Timers looked at while the lock is held: some microseconds' worth.
const PAGE: usize = 256;

/// Timers cancelled before the other actors of the arbiter get their turn.
const CANCELLED_AT_ONCE: usize = 64;

/// An actor as the core knows it.
#[derive(Debug, Clone, Copy)]
struct Subject {
    mailbox: u64,
    owner: Option<OwnerId>,
}

/// A list that is being made.
pub(crate) struct Listing {
    filter: TimerFilter,
    now: Duration,
    source: Source,
    found: Vec<(Tick, TimerInfo)>,
}

/// Where the timers of a list are taken from.
enum Source {
    /// Slots, some of which may be free.
    Slots(Range<u32>),
    Timers(std::vec::IntoIter<Key>),
}

impl Listing {
    fn keep(&mut self, deadline: Tick, info: TimerInfo) {
        self.found.push((deadline, info));
        if let Some(limit) = self.filter.limit
            && self.found.len() >= limit.saturating_mul(2).max(PAGE)
        {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.found.sort_by_key(|(deadline, _)| *deadline);
        self.found.truncate(self.filter.limit.unwrap_or(usize::MAX));
    }

    pub(crate) fn finish(mut self) -> Vec<TimerInfo> {
        self.sort();
        self.found.into_iter().map(|(_, info)| info).collect()
    }
}

impl Core {
    /// Whether a timer is the actor's own or for it.
    fn is_of(&self, timer: Key, subject: Subject) -> bool {
        let Some(payload) = self.engine.payload(timer) else { return false };
        match self.lanes.mailbox_of(payload) {
            Some(mailbox) => mailbox == subject.mailbox,
            None => subject.owner.is_some() && self.engine.view(timer).and_then(|view| view.owner) == subject.owner,
        }
    }
}

impl Service {
    pub(crate) fn cancel_key(&self, scope: KeyScope, key: &TimerKey) -> CancelOutcome {
        let core = self.core();
        match core.engine.keyed(scope, key) {
            Some(timer) => self.stop(core, timer),
            None => CancelOutcome::NotFound,
        }
    }

    pub(crate) fn timer_of_key(&self, scope: KeyScope, key: &TimerKey) -> Option<TimerId> {
        let core = self.core();
        core.engine.keyed(scope, key).map(|timer| self.id_of(&core, timer))
    }

    /// Cancels those that still can be, and returns how many these were.
    pub(crate) fn cancel_all(&self, timers: &[Key]) -> usize {
        timers.iter().filter(|timer| self.stop(self.core(), **timer).is_cancelled()).count()
    }

    /// The same, letting other actors have their turn now and then.
    pub(crate) fn cancel_by_and_by(self: Arc<Self>, timers: Vec<Key>) -> ResponseFuture<usize> {
        Box::pin(async move {
            let mut cancelled = 0;
            for some in timers.chunks(CANCELLED_AT_ONCE) {
                cancelled += self.cancel_all(some);
                tokio::task::yield_now().await;
            }
            cancelled
        })
    }

    /// An owner's own timers. To be called on the thread of its actor: two at a time would disturb each other.
    pub(crate) fn timers_of_owner(&self, owner: OwnerId) -> Vec<Key> {
        let mut core = self.core();
        let mut timers = Vec::with_capacity(core.engine.owned_itself(owner));
        let count = timers.capacity();
        for number in 1..=count {
            timers.extend(core.engine.turn_over(owner));
            if number % PAGE == 0 {
                drop(core);
                core = self.core();
            }
        }
        timers
    }

    /// The timers of a group, in the order in which they joined it.
    pub(crate) fn timers_of_group(&self, group: &TimerGroup) -> Vec<Key> {
        let mut core = self.core();
        let end = core.engine.groups_joined();
        let (mut timers, mut next) = (Vec::with_capacity(core.engine.group_len(group)), 0);
        loop {
            let before = timers.len();
            for (number, timer) in core.engine.group_members(group, next).take(PAGE) {
                next = number + 1;
                if number < end {
                    timers.push(timer);
                }
            }
            if timers.len() < before + PAGE {
                return timers;
            }
            drop(core);
            core = self.core();
        }
    }

    /// The timers of an actor: its own, and those for it.
    pub(crate) fn timers_of(&self, actor: &ActorId) -> Vec<Key> {
        let Some(mailbox) = actor.mailbox() else { return Vec::new() };
        let mut core = self.core();
        let subject = Subject { mailbox, owner: core.mailboxes.get(&mailbox).copied() };
        let mut timers = Vec::new();
        for slot in 0..core.engine.slots() {
            let timer = core.engine.slot(slot).and_then(|(_, timer)| timer);
            timers.extend(timer.filter(|timer| core.is_of(*timer, subject)));
            if slot as usize % PAGE == PAGE - 1 {
                drop(core);
                core = self.core();
            }
        }
        timers
    }

    /// What is known of an owner's own timers, by deadline. To be called on the thread of its actor.
    pub(crate) fn list_own(&self, owner: OwnerId) -> Vec<TimerInfo> {
        let source = Source::Timers(self.timers_of_owner(owner).into_iter());
        let mut listing = Listing { filter: TimerFilter::new(), now: self.clock.now(), source, found: Vec::new() };
        while self.continue_list(&mut listing) {}
        listing.finish()
    }

    pub(crate) fn begin_list(&self, filter: TimerFilter) -> Listing {
        let now = self.clock.now();
        let source = match (&filter.actor, &filter.group) {
            (_, Some(group)) => Source::Timers(self.timers_of_group(group).into_iter()),
            (Some(actor), None) => Source::Timers(self.timers_of(actor).into_iter()),
            (None, None) => Source::Slots(0..self.core().engine.slots()),
        };
        Listing { filter, now, source, found: Vec::new() }
    }

    /// Looks at some timers more. False if that were all.
    pub(crate) fn continue_list(&self, listing: &mut Listing) -> bool {
        let core = self.core();
        for _ in 0..PAGE {
            let timer = match &mut listing.source {
                Source::Timers(timers) => timers.next().map(Some),
                Source::Slots(slots) => slots.next().map(|slot| core.engine.slot(slot).and_then(|(_, timer)| timer)),
            };
            let Some(timer) = timer else { return false };
            let found = timer.and_then(|timer| self.fitting(&core, timer, listing));
            if let Some((deadline, info)) = found {
                listing.keep(deadline, info);
            }
        }
        true
    }

    /// What is known of a timer, if the list wants it.
    fn fitting(&self, core: &Core, timer: Key, listing: &Listing) -> Option<(Tick, TimerInfo)> {
        let filter = &listing.filter;
        let view = core.engine.view(timer)?;
        if filter.state.is_some_and(|state| view.state != state) {
            return None;
        }
        let remaining = self.tick.time_of(view.deadline).saturating_sub(listing.now);
        if filter.due_within.is_some_and(|most| remaining > most)
            || filter.due_after.is_some_and(|least| remaining <= least)
        {
            return None;
        }
        let other_key = filter.key.as_ref().is_some_and(|key| core.engine.key_of(timer) != Some(key));
        let other_group = filter.group.as_ref().is_some_and(|group| core.engine.group_of(timer) != Some(group));
        if other_key || other_group {
            return None;
        }
        if let Some(actor) = &filter.actor {
            let mailbox = actor.mailbox()?;
            let subject = Subject { mailbox, owner: core.mailboxes.get(&mailbox).copied() };
            if !core.is_of(timer, subject) {
                return None;
            }
        }
        if let Some(wanted) = filter.message_type {
            let lane = core.lanes.lane(core.engine.payload(timer)?.lane)?;
            if lane.message_type != wanted {
                return None;
            }
        }
        Some((view.deadline, self.info(core, timer, listing.now)?))
    }
}

//! Selections of timers: finding, listing and cancelling many at a time. Each step holds the lock for at most a page of
//! timers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use actix::ResponseFuture;

use crate::engine::{KeyScope, OwnerId, TimerGroup, TimerKey, TimerState};
use crate::model::actor_id::ActorId;
use crate::model::error::CancelOutcome;
use crate::model::filter::TimerFilter;
use crate::model::key_selector::KeySelector;
use crate::model::mailbox_id::MailboxId;
use crate::model::view::TimerInfo;
use crate::service::query::description::{COUNTED_ALONE, COUNTED_IN_LISTS};
use crate::service::state::{Service, State};
use crate::timing::{Key, Tick};

/// Timers visited under one lock: some microseconds' worth.
const PAGE: usize = 256;

/// Timers cancelled before the other actors of the arbiter get their turn.
const CANCELLED_AT_ONCE: usize = 64;

/// An actor in the view of the state.
#[derive(Debug, Clone, Copy)]
struct Subject {
    mailbox: MailboxId,
    owner: Option<OwnerId>,
}

/// A list in progress.
pub struct Listing {
    filter: TimerFilter,
    now: Duration,
    source: Source,
    /// The timers being visited, each with the number at which the following ones begin.
    page: Vec<(u64, Key)>,
    found: Vec<(Tick, TimerInfo)>,
    /// The list is full at this number of timers.
    enough: usize,
}

/// The source of a list's timers.
enum Source {
    /// Slots, some of which may be free.
    Slots(Range<u64>),
    /// Members of a group, by their numbers.
    Group(TimerGroup, Range<u64>),
    /// An owner's own timers, oldest first, by their slots.
    Own(OwnerId, std::vec::IntoIter<u32>),
    Timers(std::vec::IntoIter<Key>),
}

impl Source {
    /// Takes the next few timers. Returns false if these were the last.
    fn fill(&mut self, state: &State, page: &mut Vec<(u64, Key)>) -> bool {
        match self {
            Self::Slots(slots) => {
                let end = slots.end.min(slots.start.saturating_add(PAGE as u64));
                let live = |slot: u64| Some((slot + 1, state.engine.wheel().key_at(u32::try_from(slot).ok()?)?));
                page.extend((slots.start..end).filter_map(live));
                slots.start = end;
                slots.start < slots.end
            }
            Self::Group(group, numbers) => {
                let members = state.engine.labels().members(group, numbers.start).take(PAGE);
                page.extend(members.filter(|(number, _)| *number < numbers.end).map(|(number, key)| (number + 1, key)));
                let is_all = page.len() < PAGE;
                numbers.start = page.last().filter(|_| !is_all).map_or(numbers.end, |(next, _)| *next);
                !is_all
            }
            Self::Own(owner, slots) => {
                let own = |slot| Some((0, state.engine.own_timer_in(slot, *owner)?));
                page.extend(slots.take(PAGE).filter_map(own));
                slots.len() > 0
            }
            Self::Timers(timers) => {
                page.extend(timers.take(PAGE).map(|key| (0, key)));
                page.len() == PAGE
            }
        }
    }
}

impl Listing {
    fn new(filter: TimerFilter, now: Duration, source: Source, enough: usize) -> Self {
        Self { filter, now, source, page: Vec::new(), found: Vec::new(), enough }
    }

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

    /// Returns the timers found, by deadline.
    pub fn finish(mut self) -> Vec<TimerInfo> {
        self.sort();
        self.found.into_iter().map(|(_, info)| info).collect()
    }

    /// Returns the start of the next part, and the end of the last.
    pub fn cursor(&self) -> (u64, u64) {
        match &self.source {
            Source::Slots(numbers) | Source::Group(_, numbers) => (numbers.start, numbers.end),
            Source::Own(..) | Source::Timers(_) => (0, 0),
        }
    }

    /// Whether the list is full.
    pub fn is_full(&self) -> bool {
        self.found.len() >= self.enough
    }
}

impl State {
    fn all(&self, from: u64) -> Source {
        Source::Slots(from..u64::from(self.engine.wheel().slots()))
    }

    fn members(&self, group: &TimerGroup, from: u64) -> Source {
        Source::Group(group.clone(), from..self.engine.labels().joined())
    }

    fn own(&self, owner: OwnerId) -> Source {
        Source::Own(owner, self.engine.own_slots(owner).into_iter())
    }

    fn subject(&self, actor: &ActorId) -> Option<Subject> {
        let mailbox = actor.mailbox()?;
        Some(Subject { mailbox, owner: self.own_lane(mailbox) })
    }

    /// Whether a timer belongs to the actor or is for it.
    fn is_of(&self, timer: Key, subject: Subject) -> bool {
        if self.has_ended(timer) {
            return false;
        }
        let Some(payload) = self.engine.payload(timer) else { return false };
        match self.stores.target_of(payload).and_then(|target| target.mailbox) {
            Some(mailbox) => mailbox == subject.mailbox,
            None => subject.owner.is_some() && self.engine.owner_of(timer) == subject.owner,
        }
    }

    /// Returns the timers of an actor, its own and those for it, that have one of these keys.
    fn keyed_of(&self, actor: &ActorId, keys: &[TimerKey]) -> Vec<Key> {
        let Some(Subject { mailbox, owner }) = self.subject(actor) else { return Vec::new() };
        let scopes = owner.map(KeyScope::Owner).into_iter().chain([mailbox.into()]);
        let holders = |scope, key| self.engine.labels().holders(scope, key, self.key_types.kinds());
        let keyed = scopes.flat_map(|scope| keys.iter().flat_map(move |key| holders(scope, key)));
        keyed.map(|(_, timer)| timer).collect()
    }
}

impl Service {
    /// Cancels the timers with a key. Returns [`Cancelled`](CancelOutcome::Cancelled) if one of them was cancelled.
    pub(crate) fn cancel_key(&self, scope: KeyScope, selector: &KeySelector) -> CancelOutcome {
        let mut outcome = CancelOutcome::NotFound;
        let mut state = self.state();
        let mut kinds = state.key_types.kinds_of(selector);
        loop {
            // Found and cancelled under one lock: otherwise a new timer with the key could take its place unnoticed.
            let next = state.engine.labels().holders(scope, &selector.key, kinds.clone()).next();
            let Some((kind, timer)) = next else { return outcome };
            let of_this = self.cancel_timer(state, timer);
            if !outcome.is_cancelled() {
                outcome = of_this;
            }
            kinds.start = kind.0 + 1;
            state = self.state();
        }
    }

    /// Cancels the timers for an actor that have a key.
    pub(crate) fn cancel_key_of(&self, actor: &ActorId, selector: &KeySelector) -> CancelOutcome {
        let scope = actor.mailbox().map(KeyScope::from);
        scope.map_or(CancelOutcome::NotFound, |scope| self.cancel_key(scope, selector))
    }

    /// Describes a timer with a key; of several, the one due first.
    pub(crate) fn get_by_key(&self, scope: KeyScope, selector: &KeySelector) -> Option<TimerInfo> {
        let now = self.clock.now();
        let state = self.state();
        let kinds = state.key_types.kinds_of(selector);
        let timers = state.engine.labels().holders(scope, &selector.key, kinds).map(|(_, timer)| timer);
        let first = timers.min_by_key(|timer| state.engine.wheel().deadline(*timer))?;
        self.info(&state, first, now, COUNTED_ALONE)
    }

    /// Cancels the given timers as far as possible, and returns the number cancelled.
    pub(crate) fn cancel_all(&self, timers: &[Key]) -> usize {
        timers.iter().filter(|timer| self.cancel_timer(self.state(), **timer).is_cancelled()).count()
    }

    /// Like [`cancel_all`](Self::cancel_all), with turns for other actors in between.
    pub(crate) fn cancel_in_parts(self: Arc<Self>, timers: Vec<Key>) -> ResponseFuture<usize> {
        Box::pin(async move {
            let mut cancelled = 0;
            for some in timers.chunks(CANCELLED_AT_ONCE) {
                cancelled += self.cancel_all(some);
                tokio::task::yield_now().await;
            }
            cancelled
        })
    }

    /// Returns the wanted timers of a source.
    fn collect(&self, mut source: Source, is_wanted: impl Fn(&State, Key) -> bool) -> Vec<Key> {
        let (mut timers, mut page) = (Vec::new(), Vec::new());
        loop {
            page.clear();
            let state = self.state();
            let more = source.fill(&state, &mut page);
            timers.extend(page.iter().map(|(_, timer)| *timer).filter(|timer| is_wanted(&state, *timer)));
            if !more {
                return timers;
            }
        }
    }

    /// Returns the timers of a group, in the order in which they joined it.
    pub(crate) fn timers_of_group(&self, group: &TimerGroup) -> Vec<Key> {
        let source = self.state().members(group, 0);
        self.collect(source, |state, timer| !state.has_ended(timer))
    }

    /// Returns an owner's own timers, oldest first, or those of a group. To be called on its actor's thread, which
    /// schedules none meanwhile.
    pub(crate) fn timers_of_owner(&self, owner: OwnerId, group: Option<&TimerGroup>) -> Vec<Key> {
        let state = self.state();
        let shorter = group.filter(|group| state.engine.labels().group_len(group) < state.engine.owned(owner));
        let source = shorter.map_or_else(|| state.own(owner), |group| state.members(group, 0));
        drop(state);
        self.collect(source, |state, timer| {
            group.is_none_or(|group| state.engine.group_of(timer) == Some(group))
                && state.engine.owner_of(timer) == Some(owner)
        })
    }

    /// Returns the timers of an actor: its own, and the ones addressed to it.
    pub(crate) fn timers_of(&self, actor: &ActorId) -> Vec<Key> {
        let state = self.state();
        let Some(subject) = state.subject(actor) else { return Vec::new() };
        let source = state.all(0);
        drop(state);
        self.collect(source, |state, timer| state.is_of(timer, subject))
    }

    /// Describes an owner's own timers, by deadline. To be called on its actor's thread.
    pub(crate) fn list_own(&self, owner: OwnerId) -> Vec<TimerInfo> {
        let source = self.state().own(owner);
        self.finish_list(Listing::new(TimerFilter::new(), self.clock.now(), source, usize::MAX))
    }

    /// Begins a list at the end of an earlier part, 0 for the first. It is full with `enough` timers.
    pub(crate) fn begin_list(&self, filter: TimerFilter, from: u64, enough: usize) -> Listing {
        let now = self.clock.now();
        let state = self.state();
        let source = match (&filter.group, &filter.actor) {
            (Some(group), _) => state.members(group, from),
            (None, Some(actor)) if !filter.keys.is_empty() => {
                Source::Timers(state.keyed_of(actor, &filter.keys).into_iter())
            }
            (None, _) => state.all(from),
        };
        drop(state);
        Listing::new(filter, now, source, enough)
    }

    /// Visits all timers of a list, and returns those that fit.
    pub(crate) fn finish_list(&self, mut listing: Listing) -> Vec<TimerInfo> {
        while self.continue_list(&mut listing) {}
        listing.finish()
    }

    /// Visits some more timers, until the list is full. Returns false if these were the last.
    pub(crate) fn continue_list(&self, listing: &mut Listing) -> bool {
        let state = self.state();
        let mut page = std::mem::take(&mut listing.page);
        page.clear();
        let more = listing.source.fill(&state, &mut page);
        for (next, timer) in &page {
            if let Some((deadline, info)) = self.fitting(&state, *timer, listing) {
                listing.keep(deadline, info);
            }
            if listing.found.len() >= listing.enough {
                if let Source::Slots(numbers) | Source::Group(_, numbers) = &mut listing.source {
                    numbers.start = *next;
                }
                break;
            }
        }
        listing.page = page;
        more
    }

    /// Describes a timer if it fits the filter.
    fn fitting(&self, state: &State, timer: Key, listing: &Listing) -> Option<(Tick, TimerInfo)> {
        let filter = &listing.filter;
        let message_type = state.message_type(state.engine.payload(timer));
        let (wheel, stage) = (state.engine.wheel(), state.engine.timer(timer)?.stage);
        let deadline = wheel.deadline(timer)?;
        let remaining = self.tick.time_of(deadline).saturating_sub(listing.now);
        let is_of = |actor| state.subject(actor).is_some_and(|subject| state.is_of(timer, subject));
        let has_type = |part: &str| state.actor_type_for(timer).is_some_and(|name| name.contains(part));
        let has_key = || state.engine.key_of(timer).is_some_and(|key| filter.keys.contains(key));
        let fits = filter.message_type.as_ref().is_none_or(|wanted| wanted.fits(message_type))
            && filter.level.is_none_or(|level| wheel.bucket_of(timer).is_some_and(|(of_timer, _)| of_timer == level))
            && filter.state.is_none_or(|state| TimerState::from(stage) == state)
            && filter.due_within.is_none_or(|most| remaining <= most)
            && filter.due_after.is_none_or(|least| remaining > least)
            && (filter.keys.is_empty() || has_key())
            && filter.group.as_ref().is_none_or(|group| state.engine.group_of(timer) == Some(group))
            && filter.actor.as_ref().is_none_or(is_of)
            && filter.actor_tag.is_none_or(|tag| state.tag_for(timer) == Some(tag))
            && filter.actor_type.as_deref().is_none_or(has_type);
        if !fits {
            return None;
        }
        Some((deadline, self.info(state, timer, listing.now, COUNTED_IN_LISTS)?))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

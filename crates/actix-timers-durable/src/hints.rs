//! Hints in memory: timers that will be due soon, and due ones that wait for room in the window of their route.
//!
//! A hint is never a decision: the claim decides. So a hint may be wrong, or be dropped to keep memory bounded; a look
//! finds its timer again. Each route has a *bound*: of the timers before it, all that can be claimed are known here. Looks
//! go on from the lowest bound. A route without a recipient, or with many due timers, is left out of looks, and its bound
//! stays until it takes part again. Hints beyond the bound are taken, too, as far as looks have come before: a look that begins
//! again may pass over millions of rows that were moved, and due timers do not wait for it.
//!
//! In a store that nodes share, others put timers at any time, but none with an earlier due time than the present: bounds stay
//! before it, and each look reads the time ahead anew. A node keeps the hints of its [share](Share), and of timers of others that
//! are late; these have a bound of their own. A look ends when enough due timers are known, and while more are to come most of the
//! next ones go on there, without timers of others. Routes with many due timers are looked for now and then, up to their first one:
//! timers of a node that died are older.
//!
//! The data structure reads no clock, and knows neither store nor actors.

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::due_time::DueTime;
use super::id::DurableId;
use super::store::{Hint, Looked, Position, Share};

/// The number of rows in one look, also of those that it passes over.
const PAGE: usize = 4096;

/// The number of due timers of a route from which it is left out of looks.
const FULL: usize = 4096;

/// The number of timers in a look that are few: the next look may go farther than the horizon.
const FEW: usize = 256;

/// The time ahead for which a store of one process is looked at while few timers are due. A look also passes over the
/// timers of others, such as paused routes, which must not take long.
const FAR: Duration = Duration::from_secs(60);

/// The least time ahead, beyond the interval of looks, for which nodes of a shared store look. It is short, since each look
/// reads all timers of that time anew.
const LEAST_LEAD: Duration = Duration::from_millis(100);
/// The greatest, if looks take long.
const GREATEST_LEAD: Duration = Duration::from_secs(1);

/// The lateness from which a timer is delivered by any node; by one whose own timers are late, too, beyond their lateness.
const ANYBODYS: Duration = Duration::from_millis(250);

/// The lateness beyond that from which a suspect is delivered by a node that it does not belong to: one that waits for its
/// handlers before a suspect claims nothing else, and not all nodes are to wait together.
const ANYBODYS_SUSPECT: Duration = Duration::from_secs(60);

/// The time by which looks of a shared store overlap: commits of others take a moment, in which a look passes over their
/// timers, and the estimate of the server's clock may be ahead of it.
const OVERLAP: Duration = Duration::from_millis(200);

/// The time between looks at timers of others while a node is overfull, and of full routes: each begins at the first ones that are
/// late.
const OTHERS_EVERY: Duration = Duration::from_secs(1);

/// The order of due timers: by due time, retries aside, then by id.
type Turn = (DueTime, DurableId);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Hints {
    /// All hints, by timer.
    known: FxHashMap<DurableId, Hint>,
    /// Hints that are not due yet.
    later: BTreeMap<(DueTime, DurableId), Hint>,
    /// Due timers whose budgets were used up by processes that died, of all routes.
    suspects: BTreeMap<Turn, Hint>,
    /// The first due time of suspects that were dropped since enough others wait. Looks go on meanwhile, and begin there
    /// when half of these are gone.
    suspects_from: Option<DueTime>,
    routes: Vec<Route>,
    /// The first route of the next round, so that none is always the last.
    first: usize,
    /// The maximum number of hints that are not due.
    limit: usize,
    page: usize,
    full: usize,
    few: usize,
    horizon: Duration,
    /// The time ahead for the next look.
    reach: Duration,
    /// The latest time to which looks have been planned.
    looked_until: Option<DueTime>,
    /// The interval of looks of a store that nodes share.
    look_every: Duration,
    /// The part of this node in a store that nodes share.
    share: Option<Share>,
    /// Whether more due timers may be there than hints, in a shared store: a look has stopped, or hints were dropped, and none has come
    /// to its end since then with room for more.
    is_overfull: bool,
    /// The time from which a look is at timers of others, too, meanwhile.
    others_from: Option<DueTime>,
    /// The time from which a look is for earlier timers of full routes. None after one, however long that takes, until another
    /// look could be made.
    full_from: Option<DueTime>,
    /// Whether the last look of a shared store ended because enough timers were known.
    has_stopped: bool,
    /// Whether looks go on from an earlier time than the end of the last one, in a store of one process. They come to that end
    /// before they begin again: else a store that changes often would never be looked at as far.
    is_behind: bool,
    /// The time from which looks begin again then. In a shared store: that from which they do since the look under way was planned.
    again_from: Option<DueTime>,
    /// The first due time of timers whose rows were locked when they were claimed. Looks go on meanwhile, and begin there when one has
    /// come to its end, or with timers of others: else many locked rows would keep them from all later ones.
    locked_from: Option<DueTime>,
}

/// The due timers of one route and message type.
#[derive(Default)]
struct Route {
    due: BTreeMap<Turn, Hint>,
    window: usize,
    /// Timers that are being claimed, or with their handlers.
    under_way: usize,
    /// Whether this node delivers it, and it has a recipient.
    is_open: bool,
    is_full: bool,
    /// The position before which all timers are known; of a shared store, those of this node. `None`: nothing is known.
    bound: Option<Position>,
    /// In a shared store, the position before which all late timers of others are known.
    others: Option<Position>,
}

/// A look to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The routes to look for.
    pub(super) routes: Vec<u16>,
    /// As [`Look::after`](super::store::Look::after).
    pub(super) after: Option<Position>,
    /// As [`Look::until`](super::store::Look::until).
    pub(super) until: DueTime,
    /// As [`Look::limit`](super::store::Look::limit).
    pub(super) limit: usize,
    /// As [`Look::share`](super::store::Look::share).
    pub(super) share: Option<(Share, DueTime)>,
    /// The time at which the look was planned.
    begun: DueTime,
}

impl Hints {
    /// Creates hints for routes with these windows; `None` for routes that the node does not deliver. A store that nodes
    /// share is looked at in an interval.
    pub(super) fn new(
        windows: impl Iterator<Item = Option<usize>>,
        limit: usize,
        horizon: Duration,
        look_every: Option<Duration>,
    ) -> Self {
        let horizon = look_every.map_or(horizon, |every| every.saturating_add(GREATEST_LEAD));
        let route = |window: Option<usize>| Route {
            window: window.unwrap_or(0),
            is_open: window.is_some(),
            ..Route::default()
        };
        Self {
            routes: windows.map(route).collect(),
            limit,
            page: PAGE,
            full: FULL,
            few: FEW,
            horizon,
            reach: horizon,
            look_every: look_every.unwrap_or_default(),
            share: look_every.map(|_| Share::default()),
            is_behind: true,
            ..Self::default()
        }
    }

    /// Returns the number of hints.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the first due time of a known timer.
    pub(super) fn first_due(&self) -> Option<DueTime> {
        let queues = self.routes.iter().map(|route| &route.due).chain([&self.suspects]);
        let due = queues.filter_map(|due| due.values().next()).map(|hint| hint.due);
        due.chain(self.later.values().next().map(|hint| hint.due)).min()
    }

    /// Returns the time up to which all timers are known; of a shared store, those of this node.
    pub(super) fn known_until(&self) -> DueTime {
        self.in_looks()
            .map(|(_, route)| route.bound.map_or(DueTime::MIN, |bound| bound.due))
            .min()
            .unwrap_or(DueTime::MAX)
    }

    /// Takes note of a timer, in place of an earlier hint, unless a later look finds it.
    pub(super) fn add(&mut self, hint: Hint, now: DueTime) {
        let late = now.saturating_sub(ANYBODYS);
        let until = match self.is_own(&hint) {
            true => now.saturating_add(self.horizon),
            // New timers of others are not late, and not looked for among the due ones.
            false if hint.due > late => late,
            false => self.others_until(hint.route, now),
        };
        self.note(hint, now, until);
    }

    /// As [`add`](Self::add), unless an earlier hint of the timer is known.
    pub(super) fn add_earlier(&mut self, hint: Hint, now: DueTime) {
        if self.known.get(&hint.id).is_none_or(|known| hint.due < known.due) {
            self.add(hint, now);
        }
    }

    fn is_own(&self, hint: &Hint) -> bool {
        self.share.as_ref().is_none_or(|share| share.contains(hint.id, hint.route))
    }

    /// Returns the due time up to which timers of other nodes are taken. Of nodes that all are late, each would claim the
    /// timers of all, and most in vain.
    fn others_until(&self, route: u16, now: DueTime) -> DueTime {
        let late = now.saturating_sub(ANYBODYS);
        let due = self.routes.get(usize::from(route)).map(|route| route.due.values());
        let own = due.into_iter().flatten().find(|hint| self.is_own(hint)).map(|own| own.due);
        own.filter(|own| *own <= late).map_or(late, |own| own.saturating_sub(ANYBODYS))
    }

    /// As [`add`](Self::add); in a shared store only if it is due by `until`.
    fn note(&mut self, hint: Hint, now: DueTime, until: DueTime) {
        let Some(route) = self.routes.get_mut(usize::from(hint.route)) else { return };
        if !route.is_open {
            return route.lower(&hint);
        }
        let is_known = match &self.share {
            None => {
                // Beyond the bound few are taken: earlier ones may follow.
                let is_near = Some(hint.due) <= self.looked_until && route.due.len() < self.full.div_ceil(8);
                is_near || route.bound.is_some_and(|bound| position(&hint) <= bound)
            }
            Some(_) if hint.is_suspect && !self.is_own(&hint) => hint.due <= until.saturating_sub(ANYBODYS_SUSPECT),
            Some(_) => hint.due <= until,
        };
        if is_known {
            _ = self.remove(hint.id);
            self.known.insert(hint.id, hint);
            self.insert(hint, now);
            self.evict();
        } else if let Some(route) = self.routes.get_mut(usize::from(hint.route)) {
            // Of others: a later look finds it.
            route.others = route.others.min(just_before(&hint));
        }
    }

    fn insert(&mut self, hint: Hint, now: DueTime) {
        let (page, full) = (self.page, self.full);
        let turn = (hint.nominal, hint.id);
        if hint.due > now {
            self.later.insert((hint.due, hint.id), hint);
        } else if hint.is_suspect {
            self.suspects.insert(turn, hint);
            if self.suspects.len() > full
                && let Some((_, last)) = self.suspects.pop_last()
            {
                self.known.remove(&last.id);
                self.suspects_from = Some(self.suspects_from.map_or(last.due, |from| from.min(last.due)));
            }
        } else if let Some(route) = self.routes.get_mut(usize::from(hint.route)) {
            route.due.insert(turn, hint);
            route.is_full |= route.due.len() >= full;
            // Of a shared store memory keeps those that it had room for before they were due: all nodes would read them anew.
            let has_room = self.share.is_some() && self.known.len() <= self.limit;
            if route.due.len() > full + page
                && !has_room
                && let Some((_, last)) = route.due.pop_last()
            {
                self.known.remove(&last.id);
                route.lower(&last);
                self.is_overfull = true;
            }
        }
    }

    /// Drops the hint of a timer, as of one that is under way, and returns it.
    pub(super) fn remove(&mut self, id: DurableId) -> Option<Hint> {
        let hint = self.known.remove(&id)?;
        let turn = (hint.nominal, id);
        if self.later.remove(&(hint.due, id)).is_none()
            && self.suspects.remove(&turn).is_none()
            && let Some(route) = self.routes.get_mut(usize::from(hint.route))
        {
            route.due.remove(&turn);
        }
        Some(hint)
    }

    /// Drops the hints that are due last, beyond the limit. Looks find their timers again.
    fn evict(&mut self) {
        while self.later.len() > self.limit {
            let Some((_, hint)) = self.later.pop_last() else { return };
            self.known.remove(&hint.id);
            self.pass_over(hint);
        }
    }

    /// Moves timers that are due into the queues of their routes.
    pub(super) fn expire(&mut self, now: DueTime) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let hint = first.remove();
            self.insert(hint, now);
        }
        if self.suspects.len() <= self.full / 2
            && let Some(from) = self.suspects_from.take()
        {
            self.look_again_from(from);
        }
    }

    /// Takes due timers, as many as the windows have room for, and at most this many. Each occupies its window until
    /// [`return_slot`](Self::return_slot).
    pub(super) fn take(&mut self, most: usize) -> Vec<Hint> {
        let mut taken = Vec::new();
        let routes = self.routes.len();
        for step in 0..routes {
            let route = &mut self.routes[(self.first + step) % routes];
            while taken.len() < most && route.under_way < route.window {
                let Some((_, hint)) = route.due.pop_first() else { break };
                self.known.remove(&hint.id);
                route.under_way += 1;
                taken.push(hint);
            }
            route.is_full &= route.due.len() > self.full / 2;
        }
        if !taken.is_empty() {
            self.first = (self.first + 1) % routes;
        }
        taken
    }

    /// Takes the next due suspect. It occupies the window of its route, however full that is.
    pub(super) fn take_suspect(&mut self) -> Option<Hint> {
        let (_, hint) = self.suspects.pop_first()?;
        self.known.remove(&hint.id);
        self.routes[usize::from(hint.route)].under_way += 1;
        Some(hint)
    }

    /// Returns whether suspects are due.
    pub(super) fn has_suspect(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Returns whether other timers are due.
    pub(super) fn has_others(&self) -> bool {
        self.routes.iter().any(|route| !route.due.is_empty())
    }

    /// Returns the room in a window, after a delivery or a claim that returned nothing.
    pub(super) fn return_slot(&mut self, route: u16) {
        if let Some(route) = self.routes.get_mut(usize::from(route)) {
            route.under_way = route.under_way.saturating_sub(1);
        }
    }

    /// Stops a route that has no recipient. Its hints leave the memory. Returns whether it was open.
    pub(super) fn close(&mut self, route: u16) -> bool {
        let Some(closing) = self.routes.get_mut(usize::from(route)) else { return false };
        if !std::mem::replace(&mut closing.is_open, false) {
            return false;
        }
        let dropped: Vec<Hint> = self.known.values().filter(|hint| hint.route == route).copied().collect();
        for hint in dropped {
            _ = self.remove(hint.id);
            self.pass_over(hint);
        }
        self.routes[usize::from(route)].is_full = false;
        true
    }

    /// Has a later look find a due timer whose row is locked.
    pub(super) fn pass_over_locked(&mut self, hint: Hint) {
        self.locked_from = Some(self.locked_from.map_or(hint.due, |from| from.min(hint.due)));
    }

    /// Has a later look find a timer that is not known any more.
    pub(super) fn pass_over(&mut self, hint: Hint) {
        if let Some(route) = self.routes.get_mut(usize::from(hint.route)) {
            route.lower(&hint);
        }
    }

    /// Returns the first due time of a timer that is not due yet.
    pub(super) fn next_due(&self) -> Option<DueTime> {
        self.later.values().next().map(|hint| hint.due)
    }

    /// Opens a route that has a recipient again. Returns whether it was closed.
    pub(super) fn open(&mut self, route: u16) -> bool {
        let Some(route) = self.routes.get_mut(usize::from(route)) else { return false };
        !std::mem::replace(&mut route.is_open, true)
    }

    /// Sets the share of this node in a store that nodes share.
    pub(super) fn set_share(&mut self, share: Share) {
        if self.share.as_ref().is_some_and(|earlier| *earlier != share) {
            self.share = Some(share);
            // Timers that were others' until now.
            self.routes.iter_mut().for_each(|route| route.bound = route.bound.min(route.others));
        }
    }

    /// Has the next look begin at this time at the latest: at the very beginning at the least time.
    pub(super) fn look_again_from(&mut self, due: DueTime) {
        if self.share.is_none() && std::mem::replace(&mut self.is_behind, true) {
            self.again_from = Some(self.again_from.map_or(due, |from| from.min(due)));
            return;
        }
        if self.share.is_some() {
            self.again_from = Some(self.again_from.map_or(due, |from| from.min(due)));
        }
        let from = Position::before(due);
        self.routes.iter_mut().for_each(|route| route.lower_to(from));
    }

    /// Returns whether the last look of a shared store ended since enough timers were known, and more are to be known now.
    pub(super) fn goes_on(&self) -> bool {
        self.has_stopped && self.in_looks().next().is_some()
    }

    fn in_looks(&self) -> impl Iterator<Item = (u16, &Route)> {
        (0..).zip(&self.routes).filter(|(_, route)| route.is_open && !route.is_full)
    }

    /// Returns the next look to make; none if all timers of the near future are known, or no room is left.
    pub(super) fn plan_look(&mut self, now: DueTime) -> Option<Plan> {
        if !self.has_stopped || self.others_from.is_none_or(|from| from <= now) {
            self.locked_from.take().into_iter().for_each(|due| self.look_again_from(due));
        }
        if let Some(plan) = self.plan_at_full(now) {
            self.again_from = None;
            return Some(plan);
        }
        let plan = self.next_plan(now).or_else(|| {
            self.is_behind = false;
            let due = self.again_from.take()?;
            self.look_again_from(due);
            self.next_plan(now)
        })?;
        self.looked_until = self.looked_until.max(Some(plan.until));
        self.has_stopped = false;
        self.again_from = self.again_from.filter(|_| self.share.is_none());
        if plan.is_at_others() || self.others_from.is_none() {
            self.others_from = Some(now.saturating_add(OTHERS_EVERY));
        }
        Some(plan)
    }

    fn next_plan(&self, now: DueTime) -> Option<Plan> {
        let mut end = now.saturating_add(self.reach);
        let limit = self.page;
        let lowest = self.in_looks().map(|(_, route)| route.bound).min()?;
        if self.later.len() >= self.limit {
            // Earlier timers than the last known one take its place.
            let (last, _) = self.later.last_key_value()?;
            end = Position::before(last.0)?.due;
            if lowest.is_some_and(|bound| bound >= end_of(end)) {
                return None;
            }
        }
        if let Some(share) = &self.share {
            let routes = self.in_looks().map(|(index, _)| index).collect();
            let (after, others_until) = if self.is_overfull && self.others_from.is_none_or(|from| is_soon(from, now)) {
                (lowest, None)
            } else {
                let until = self.in_looks().map(|(index, _)| self.others_until(index, now)).max();
                (lowest.min(self.in_looks().map(|(_, route)| route.others).min()?), until)
            };
            let share = Some((share.clone(), others_until.unwrap_or(DueTime::MIN)));
            return Some(Plan { routes, after, until: end, limit, share, begun: now });
        }
        // Half of the time ahead, so that not every passing millisecond needs a look of its own.
        if lowest.is_some_and(|bound| bound >= end_of(end) || bound.due > now.saturating_add(self.reach / 2)) {
            return None;
        }
        let routes = self.in_looks().filter(|(_, route)| route.bound == lowest).map(|(index, _)| index).collect();
        // Routes that are behind come up with the others.
        let next = self.in_looks().filter_map(|(_, route)| route.bound).filter(|bound| Some(*bound) > lowest).min();
        let until = next.map_or(end, |next| end.min(next.due));
        Some(Plan { routes, after: lowest, until, limit, share: None, begun: now })
    }

    /// Returns a look, now and then, for timers that come before those of routes without room: of a node that died.
    fn plan_at_full(&mut self, now: DueTime) -> Option<Plan> {
        let from = *self.full_from.get_or_insert(now.saturating_add(OTHERS_EVERY));
        let share = self.share.as_ref().filter(|_| !is_soon(from, now))?;
        let full = || (0..).zip(&self.routes).filter(|(_, route)| route.is_open && route.is_full);
        let until = full().map(|(index, _)| self.others_until(index, now)).max()?;
        let after = full().map(|(_, route)| route.bound.min(route.others)).min()?;
        let routes = full().map(|(index, _)| index).collect();
        let plan = Plan { routes, after, until, limit: self.page, share: Some((share.clone(), until)), begun: now };
        self.full_from = None;
        (after < Some(end_of(until))).then_some(plan)
    }

    /// Returns the time of the next look in a store of one process, if none is to be made now and no event precedes it.
    pub(super) fn next_look(&self) -> Option<DueTime> {
        let lowest = self.in_looks().filter_map(|(_, route)| route.bound).min()?;
        let last = self.later.last_key_value().filter(|_| self.later.len() >= self.limit);
        if lowest.due == DueTime::MAX || last.is_some_and(|((due, _), _)| Some(lowest) >= Position::before(*due)) {
            return None;
        }
        Some(lowest.due.saturating_sub(self.reach / 2))
    }

    /// Takes note of the timers that a look found. Returns the rest of the look, if a shared store has more.
    pub(super) fn looked(
        &mut self,
        plan: Plan,
        Looked { hints: found, rest, ahead }: &Looked,
        now: DueTime,
    ) -> Option<Plan> {
        let rest = *rest;
        self.reach = if self.share.is_some() {
            // The next look may take as long again.
            let lead = (now.saturating_since(plan.begun) * 2).clamp(LEAST_LEAD, GREATEST_LEAD);
            self.look_every.saturating_add(lead)
        } else if rest.is_none() && found.len() < self.few {
            self.horizon.max(FAR)
        } else {
            self.horizon
        };
        let end = rest.unwrap_or_else(|| end_of(plan.until));
        let is_same_share = plan.share.as_ref().map(|(share, _)| share) == self.share.as_ref();
        let others_until = plan.share.as_ref().map_or(DueTime::MIN, |(_, until)| *until);
        // Others may have put timers from then on.
        let begun = Position::before(plan.begun.saturating_sub(OVERLAP));
        let mut known = if self.share.is_some() { begun.min(Some(end)) } else { Some(end) };
        let mut known_of_others = Some(end.min(end_of(others_until)));
        if let Some(again) = self.again_from.take_if(|_| self.share.is_some()) {
            // It may not have seen timers from then on.
            let before = Position::before(again);
            (known, known_of_others) = (known.min(before), known_of_others.min(before));
        }
        for route in &plan.routes {
            let Some(route) = self.routes.get_mut(usize::from(*route)) else { continue };
            // A bound that was lowered meanwhile is before a timer that this look did not see.
            if route.bound >= plan.after && is_same_share {
                route.bound = route.bound.max(known);
            }
            if route.others >= plan.after && plan.is_at_others() {
                route.others = route.others.max(known_of_others);
            }
        }
        // The own ones first: others are taken by their lateness.
        let (own, others): (Vec<&Hint>, Vec<&Hint>) = found.iter().partition(|hint| self.is_own(hint));
        own.into_iter().for_each(|hint| self.add(*hint, now));
        let until: Vec<_> = (0..).zip(&self.routes).map(|(route, _)| self.others_until(route, now)).collect();
        for hint in others {
            let until = until.get(usize::from(hint.route)).copied().unwrap_or(now);
            self.note(*hint, now, until);
        }
        // Else the order of due times is kept.
        if self.share.is_none() && found.is_empty() {
            ahead.iter().take_while(|hint| hint.due <= now).for_each(|hint| self.add(*hint, now));
        }
        let Some(mut after) = rest.filter(|_| self.share.is_some() && is_same_share) else {
            self.is_overfull &= rest.is_some() || self.routes.iter().any(|route| route.is_open && route.is_full);
            return None;
        };
        let in_looks = self.in_looks().filter(|(route, _)| plan.routes.contains(route));
        let is_before = after.due <= others_until;
        let bound = |known: &Route| if is_before { known.bound.min(known.others) } else { known.bound };
        let (routes, bounds): (Vec<u16>, Vec<_>) = in_looks.map(|(route, known)| (route, bound(known))).unzip();
        // Enough are known.
        self.has_stopped = routes.is_empty();
        self.is_overfull |= self.has_stopped;
        // Known timers of all of them are not read again.
        after = bounds.into_iter().min()?.map_or(after, |lowest| after.max(lowest));
        let (mut limit, mut until) = (self.page, plan.until);
        if found.is_empty() {
            // A page of timers of others, or of moved ones, is soon read. There may be many: new timers do not wait for the end.
            limit = (plan.limit * 2).min(self.page * 4);
            if self.later.len() < self.limit {
                until = until.max(now.saturating_add(self.reach));
            }
        }
        Some(Plan { routes, after: Some(after), until, limit, ..plan })
    }
}

impl Plan {
    /// Returns whether it is a look of a shared store at timers of others, too.
    fn is_at_others(&self) -> bool {
        self.share.as_ref().is_some_and(|(_, until)| *until > DueTime::MIN)
    }
}

impl Route {
    /// Lowers the bounds to before a timer that is not known any more.
    fn lower(&mut self, hint: &Hint) {
        self.lower_to(just_before(hint));
    }

    /// Lowers the bounds that are after a position.
    fn lower_to(&mut self, position: Option<Position>) {
        self.bound = self.bound.min(position);
        self.others = self.others.min(position);
    }
}

/// Returns whether a later look at timers of others is soon enough. A time far ahead is from before the clock was set back.
fn is_soon(from: DueTime, now: DueTime) -> bool {
    now < from && from <= now.saturating_add(OTHERS_EVERY)
}

const fn position(hint: &Hint) -> Position {
    Position { due: hint.due, id: hint.id }
}

/// Returns a position before that of a timer, and after those of earlier ones.
fn just_before(hint: &Hint) -> Option<Position> {
    hint.id.before().map_or_else(|| Position::before(hint.due), |id| Some(Position { due: hint.due, id }))
}

/// Returns the last position of a millisecond.
const fn end_of(due: DueTime) -> Position {
    Position { due, id: DurableId::MAX }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

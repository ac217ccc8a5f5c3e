//! Random requests, looks, claims and closed routes, against a naive store whose reports come late.

use std::collections::{BTreeSet, VecDeque};

use schemes::random::Random;

use super::*;

const BEGIN: u64 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

fn at(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

#[derive(Debug, Clone)]
struct Timer {
    hint: Hint,
    is_claimed: bool,
}

/// A report of the store that has not arrived.
#[derive(Debug)]
enum Report {
    Looked(Looked),
    /// A new or moved timer, or the end of a delivery that leaves it pending.
    Hint(Hint),
    Claimed(Vec<(Hint, Claimed)>),
    LooksBeginAnew,
    /// A timer that is due then was committed late.
    LooksBeginAgain(DueTime),
}

#[derive(Debug, Clone, Copy)]
enum Claimed {
    InHand,
    NotDue(DueTime),
    Left,
    Gone,
    Failed,
    Locked,
}

struct World {
    random: Random,
    now: u64,
    hints: Hints,
    windows: Vec<usize>,
    is_open: Vec<bool>,
    /// All timers, by id.
    timers: BTreeMap<DurableId, Timer>,
    made: u64,
    reports: VecDeque<Report>,
    /// The look under way, until its report arrives; and whether the store has made it.
    looking: Option<(Plan, bool)>,
    looked_until: DueTime,
    /// Claims that the store has not made, and whether they are of a suspect.
    claims: VecDeque<(Vec<Hint>, bool)>,
    in_hand: Vec<Hint>,
    suspects: usize,
    /// Timers that are not committed yet. Only in a shared store.
    late: Vec<Hint>,
}

impl World {
    fn new(seed: u64, is_shared: bool) -> Self {
        let mut random = Random::new(seed);
        let windows: Vec<_> = (0..1 + random.index(3)).map(|_| 1 + random.index(4)).collect();
        let horizon = [1, 20, 1000, u64::MAX][random.index(4)];
        let limit = 1 + random.index(6);
        let routes = windows.iter().copied().map(Some);
        let look_every = is_shared.then_some(LOOK_EVERY);
        let mut hints = Hints::new(routes, limit, Duration::from_millis(horizon), look_every);
        (hints.page, hints.full, hints.few) = (1 + random.index(6), 1 + random.index(6), random.index(4));
        let is_open = vec![true; windows.len()];
        Self {
            random,
            now: BEGIN,
            hints,
            windows,
            is_open,
            timers: BTreeMap::new(),
            made: 0,
            reports: VecDeque::new(),
            looking: None,
            looked_until: DueTime::MIN,
            claims: VecDeque::new(),
            in_hand: vec![],
            suspects: 0,
            late: vec![],
        }
    }

    const fn is_shared(&self) -> bool {
        self.hints.share.is_some()
    }

    /// The shares of the routes are equal, or not.
    fn set_share(&mut self) {
        let one = self.random.one_in(2).then(|| 1 + self.random.index(3));
        let mut place = || {
            let nodes = one.unwrap_or_else(|| 1 + self.random.index(3));
            (if one.is_some() { 0 } else { self.random.index(nodes) as u16 }, nodes as u16)
        };
        let places = self.windows.iter().map(|_| place()).collect();
        self.hints.set_share(Share { places });
    }

    fn report(&mut self, hint: Hint) {
        // Those of other nodes are found by looks.
        if hint.due <= self.looked_until && !(self.is_shared() && self.random.one_in(2)) {
            self.reports.push_back(Report::Hint(hint));
        }
    }

    fn put(&mut self) {
        self.made += 1;
        let wish = self.now - 50 + self.random.below(200);
        let due = at(wish.max(self.now));
        let id = DurableId::from_parts(due, self.made, self.random.next());
        let route = self.random.index(self.windows.len()) as u16;
        let hint = Hint { id, due, nominal: at(wish), route, is_suspect: self.random.one_in(15) };
        self.suspects += usize::from(hint.is_suspect);
        if self.is_shared() && self.random.one_in(10) {
            return self.late.push(hint);
        }
        self.timers.insert(id, Timer { hint, is_claimed: false });
        self.report(hint);
    }

    fn commit_late(&mut self) {
        if let Some(hint) = self.late.pop() {
            self.timers.insert(hint.id, Timer { hint, is_claimed: false });
            self.reports.push_back(Report::LooksBeginAgain(hint.due));
        }
    }

    fn any(&mut self) -> Option<DurableId> {
        let ids: Vec<_> = self.timers.iter().filter(|(_, timer)| !timer.is_claimed).map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[self.random.index(ids.len())])
    }

    fn cancel(&mut self) {
        let id = self.any();
        id.map(|id| self.timers.remove(&id));
    }

    /// Moves a timer; `by_hand` by a program that the store does not know.
    fn move_one(&mut self, by_hand: bool) {
        let Some(id) = self.any() else { return };
        let due = at(self.now + self.random.below(150));
        let hint = &mut self.timers.get_mut(&id).unwrap().hint;
        (hint.due, hint.nominal) = (due, due);
        let hint = *hint;
        if by_hand {
            self.reports.push_back(Report::LooksBeginAnew);
        } else {
            self.report(hint);
        }
    }

    fn plan(&mut self) -> bool {
        if self.looking.is_some() {
            return false;
        }
        let Some(plan) = self.hints.plan_look(at(self.now)) else { return false };
        assert!(!plan.routes.is_empty() && plan.limit > 0 && plan.after.is_none_or(|after| after.due <= plan.until));
        self.looking = Some((plan, false));
        true
    }

    /// Has the store make the look.
    fn look(&mut self) {
        let Some((plan, is_made @ false)) = &mut self.looking else { return };
        *is_made = true;
        let is_it = |hint: &Hint| {
            plan.routes.contains(&hint.route) && plan.after < Some(position(hint)) && hint.due <= plan.until
        };
        let is_wanted = |hint: &Hint| {
            let wanted = plan.share.as_ref();
            wanted.is_none_or(|(share, until)| share.contains(hint.id, hint.route) || hint.due <= *until)
        };
        let pending = self.timers.values().filter(|timer| !timer.is_claimed).map(|timer| timer.hint);
        let mut found: Vec<_> = pending.filter(is_it).collect();
        found.sort_unstable_by_key(position);
        let last = found.get(plan.limit - 1).map(position);
        found.truncate(if plan.share.is_some() { plan.limit } else { usize::MAX });
        found.retain(is_wanted);
        self.looked_until = self.looked_until.max(plan.until);
        self.reports.push_back(Report::Looked(Looked::new(found, last)));
    }

    fn take(&mut self) -> bool {
        let now = at(self.now);
        self.hints.expire(now);
        let most = 1 + self.random.index(8);
        let due = self.hints.take(most);
        assert!(due.len() <= most && due.iter().all(|hint| hint.due <= now && !hint.is_suspect));
        let suspect = if due.is_empty() { self.hints.take_suspect() } else { None };
        let (is_suspect, due) = (suspect.is_some(), suspect.map_or(due, |suspect| vec![suspect]));
        for (route, window) in self.windows.iter().enumerate() {
            assert!(is_suspect || due.iter().filter(|hint| usize::from(hint.route) == route).count() <= *window);
        }
        let has_taken = !due.is_empty();
        if has_taken {
            self.claims.push_back((due, is_suspect));
        }
        has_taken
    }

    /// Has the store make a claim.
    fn claim(&mut self) {
        let Some((hints, of_suspect)) = self.claims.pop_front() else { return };
        let (fails, is_shared) = (self.random.one_in(10), self.is_shared());
        let claimed = |hint: Hint| {
            let claimed = match self.timers.get_mut(&hint.id) {
                _ if fails => Claimed::Failed,
                Some(timer) if timer.is_claimed => Claimed::Gone,
                Some(timer) if timer.hint.due > at(self.now) => Claimed::NotDue(timer.hint.due),
                Some(timer) if timer.hint.is_suspect != of_suspect => Claimed::Left,
                Some(_) if is_shared && self.random.one_in(10) => Claimed::Locked,
                Some(timer) => {
                    timer.is_claimed = true;
                    Claimed::InHand
                }
                None => Claimed::Gone,
            };
            (hint, claimed)
        };
        let claimed = hints.into_iter().map(claimed).collect();
        self.reports.push_back(Report::Claimed(claimed));
    }

    /// Ends a delivery.
    fn end(&mut self, is_last: bool) -> bool {
        if self.in_hand.is_empty() {
            return false;
        }
        let hint = self.in_hand.swap_remove(self.random.index(self.in_hand.len()));
        self.hints.return_slot(hint.route);
        if is_last || self.random.one_in(2) {
            self.timers.remove(&hint.id);
        } else {
            let due = at(self.now + self.random.below(60));
            let timer = self.timers.get_mut(&hint.id).unwrap();
            (timer.hint.due, timer.hint.is_suspect, timer.is_claimed) = (due, false, false);
            // The end of a delivery is always reported.
            self.reports.push_back(Report::Hint(timer.hint));
        }
        true
    }

    fn arrive(&mut self) -> bool {
        let now = at(self.now);
        let Some(report) = self.reports.pop_front() else { return false };
        match report {
            Report::Looked(found) => {
                let (plan, _) = self.looking.take().unwrap();
                let rest = self.hints.looked(plan, &found, now);
                assert!(self.is_shared() || rest.is_none());
                self.looking = rest.map(|rest| (rest, false));
            }
            Report::Hint(hint) => self.hints.add(hint, now),
            Report::LooksBeginAnew => self.hints.look_again_from(DueTime::MIN),
            Report::LooksBeginAgain(due) => self.hints.look_again_from(due),
            Report::Claimed(claimed) => {
                for (hint, claimed) in claimed {
                    match claimed {
                        Claimed::InHand => {
                            self.in_hand.push(hint);
                            continue;
                        }
                        Claimed::Gone => {}
                        Claimed::NotDue(due) => self.hints.add(Hint { due, ..hint }, now),
                        Claimed::Left => self.hints.add(Hint { is_suspect: !hint.is_suspect, ..hint }, now),
                        Claimed::Failed => self.hints.add(hint, now),
                        Claimed::Locked => self.hints.pass_over_locked(hint),
                    }
                    self.hints.return_slot(hint.route);
                }
            }
        }
        true
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..5 => self.put(),
            5 => self.cancel(),
            6 => self.move_one(false),
            7 if self.random.one_in(4) => self.move_one(true),
            8..10 => _ = self.plan(),
            10..12 => self.look(),
            12..14 => _ = self.take(),
            14 => self.claim(),
            15 => _ = self.end(false),
            16 if self.random.one_in(3) => {
                let route = self.random.index(self.windows.len());
                let was_open = std::mem::replace(&mut self.is_open[route], false);
                assert_eq!(self.hints.close(route as u16), was_open);
                assert!(!self.hints.close(route as u16), "it was closed");
            }
            16 => {
                let route = self.random.index(self.windows.len());
                let was_open = std::mem::replace(&mut self.is_open[route], true);
                assert_eq!(self.hints.open(route as u16), !was_open);
            }
            17 => self.now += self.random.below(if self.is_shared() { 300 } else { 10 }),
            18 if self.is_shared() => match self.random.below(4) {
                0 => self.set_share(),
                1 => self.commit_late(),
                _ => _ = self.arrive(),
            },
            _ => _ = self.arrive(),
        }
    }

    /// Asserts that no pending timer is forgotten, and that memory is bounded.
    fn check(&self) {
        let hints = &self.hints;
        let is_awaited = |id: DurableId| {
            let in_report = |report: &Report| match report {
                Report::Hint(hint) => hint.id == id,
                Report::Claimed(claimed) => claimed.iter().any(|(hint, _)| hint.id == id),
                Report::LooksBeginAnew => true,
                Report::LooksBeginAgain(due) => self.timers.get(&id).is_some_and(|timer| *due <= timer.hint.due),
                Report::Looked(_) => false,
            };
            self.reports.iter().any(in_report)
                || self.claims.iter().any(|(hints, _)| hints.iter().any(|hint| hint.id == id))
        };
        for Timer { hint, .. } in self.timers.values().filter(|timer| !timer.is_claimed) {
            let route = &hints.routes[usize::from(hint.route)];
            let is_in_time = |known: &Hint| known.due <= hint.due.max(at(self.now));
            let is_known = hints.known.get(&hint.id).is_some_and(is_in_time);
            let bound = if hints.is_own(hint) { route.bound } else { route.others };
            let is_ahead = bound < Some(position(hint));
            assert!(route.is_open || !hints.known.contains_key(&hint.id), "a closed route is in memory");
            let is_dropped = hint.is_suspect && hints.suspects_from.is_some_and(|from| from <= hint.due);
            let is_next = !self.is_shared() && hints.again_from.is_some_and(|from| from <= hint.due);
            let is_locked = hints.locked_from.is_some_and(|from| from <= hint.due);
            assert!(
                is_known || is_ahead || is_dropped || is_locked || is_next || is_awaited(hint.id),
                "forgotten: {hint:?}"
            );
        }
        let due: Vec<_> = hints.routes.iter().map(|route| route.due.len()).collect();
        let beyond: usize = due.iter().map(|due| due.saturating_sub(hints.full + hints.page)).sum();
        assert!(hints.later.len() <= hints.limit && beyond <= if self.is_shared() { hints.limit } else { 0 });
        assert!(hints.suspects.len() <= self.suspects.min(hints.full));
        assert_eq!(hints.len(), hints.later.len() + hints.suspects.len() + due.iter().sum::<usize>());
    }

    /// Goes on without requests until all timers have ended. Each is claimed at its due time.
    fn finish(&mut self) {
        for route in 0..self.windows.len() {
            self.is_open[route] = true;
            self.hints.open(route as u16);
        }
        while !self.late.is_empty() {
            self.commit_late();
        }
        for steps in 0.. {
            assert!(steps < 20_000, "it does not come to rest: {:?}", self.timers);
            self.look();
            self.claim();
            let is_busy = self.arrive()
                || self.end(true)
                || self.take()
                || (!self.is_shared() || self.hints.goes_on()) && self.plan();
            self.check();
            if is_busy || self.looking.is_some() || !self.claims.is_empty() {
                continue;
            }
            if self.timers.is_empty() {
                return;
            }
            if self.is_shared() {
                self.now += 100;
                _ = self.plan();
                continue;
            }
            let overdue: Vec<_> = self.timers.values().filter(|timer| timer.hint.due <= at(self.now)).collect();
            assert!(overdue.is_empty(), "not delivered: {overdue:?}");
            let wake = self.hints.next_due().into_iter().chain(self.hints.next_look()).min();
            let wake = wake.expect("an alarm is set while timers are pending").as_millis();
            assert!(wake > self.now, "it wakes for nothing");
            self.now = wake;
        }
    }
}

#[test]
fn no_pending_timer_is_forgotten_and_memory_is_bounded() {
    let seeds = if cfg!(debug_assertions) { 500 } else { 20_000 };
    // The last ones have a claim that fails after a move, and a bound within a millisecond and no room.
    for seed in (0..seeds).chain([687, 15_853]) {
        for is_shared in [false, true] {
            let mut world = World::new(seed, is_shared);
            let run = std::panic::AssertUnwindSafe(|| {
                for _ in 0..200 {
                    world.step();
                    world.check();
                }
                world.finish();
            });
            assert!(std::panic::catch_unwind(run).is_ok(), "seed {seed}, shared: {is_shared}");
        }
    }
}

fn hint(number: u64, due: u64) -> Hint {
    let id = DurableId::from_parts(at(due), number, number);
    Hint { id, due: at(due), nominal: at(due), route: 0, is_suspect: false }
}

/// The result of a look that has come to its end.
fn all(found: &[Hint]) -> Looked {
    Looked::new(found.to_vec(), None)
}

fn one_route(limit: usize, horizon: Duration) -> Hints {
    Hints::new([Some(10)].into_iter(), limit, horizon, None)
}

#[test]
fn with_the_longest_horizon_one_look_is_enough() {
    for horizon in [Duration::from_millis(u64::MAX), Duration::MAX] {
        let mut hints = one_route(1, horizon);
        let plan = hints.plan_look(at(5)).unwrap();
        assert_eq!((plan.after, plan.until), (None, DueTime::MAX));
        assert_eq!(hints.looked(plan, &all(&[]), at(5)), None);
        assert_eq!((hints.plan_look(at(5)), hints.plan_look(DueTime::MAX), hints.next_look()), (None, None, None));
        hints.add(hint(1, DueTime::MAX.as_millis()), at(5));
        assert_eq!(hints.next_due(), Some(DueTime::MAX));
        assert_eq!(hints.known_until(), DueTime::MAX);
    }
}

/// Else a day of virtual time would take thousands of looks.
#[test]
fn a_store_with_few_timers_is_looked_at_seldom() {
    let mut hints = one_route(9999, Duration::from_secs(10));
    let look = |hints: &mut Hints, now, found: &[Hint]| {
        let plan = hints.plan_look(at(now)).unwrap();
        hints.looked(plan.clone(), &all(found), at(now));
        plan.until
    };
    assert_eq!(look(&mut hints, 0, &[]), at(10_000));
    assert_eq!(look(&mut hints, 0, &[hint(1, 20_000)]), at(60_000));
    assert_eq!((hints.plan_look(at(20_000)), hints.next_look()), (None, Some(at(30_000))));
    let many: Vec<_> = (0..FEW as u64).map(|number| hint(2 + number, 70_000)).collect();
    assert_eq!(look(&mut hints, 30_000, &many), at(90_000));
    assert_eq!(hints.next_look(), Some(at(85_000)), "many are due: the horizon counts");
}

#[test]
fn due_timers_run_by_nominal_time_and_no_route_is_always_first() {
    let mut hints = Hints::new([Some(1), None, Some(1)].into_iter(), 9, Duration::from_secs(1), None);
    let plan = hints.plan_look(at(0)).unwrap();
    assert_eq!(plan.routes, [0, 2], "another node delivers the second");
    let late = |number, nominal, route| Hint { nominal: at(nominal), route, ..hint(number, 20) };
    let found = [late(1, 7, 0), late(2, 5, 0), late(3, 9, 2), late(4, 1, 2)];
    hints.looked(plan, &all(&found), at(20));
    let taken = |hints: &mut Hints, most| {
        let taken = hints.take(most);
        taken.iter().for_each(|hint| hints.return_slot(hint.route));
        taken.iter().map(|hint| hint.nominal.as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(taken(&mut hints, 1), [5]);
    assert_eq!(taken(&mut hints, 1), [1]);
    assert_eq!(taken(&mut hints, 9), [9, 7]);
}

/// Else the looks of all nodes would read them anew while these are busy with them.
#[test]
fn many_shared_timers_that_become_due_together_stay_known() {
    for (look_every, known) in [(None, 8), (Some(LOOK_EVERY), 90)] {
        let mut hints = Hints::new([Some(10)].into_iter(), 100, Duration::from_secs(1), look_every);
        (hints.page, hints.full) = (4, 4);
        let plan = hints.plan_look(at(0)).unwrap();
        let found: Vec<_> = (0..90).map(|number| hint(number, 90)).collect();
        hints.looked(plan, &all(&found), at(0));
        hints.expire(at(90));
        assert_eq!((hints.len(), hints.in_looks().count()), (known, 0));
    }
}

/// A timer of a node that died is older than all that wait here.
#[test]
fn a_full_route_takes_older_timers_of_others_first() {
    let mut hints = Hints::new([Some(1); 2].into_iter(), 100, Duration::from_secs(1), Some(LOOK_EVERY));
    (hints.page, hints.full) = (4, 4);
    hints.set_share(Share { places: vec![(0, 2); 2] });
    let of = |share, number, due| Hint { id: DurableId::from_parts(at(due), number, share), ..hint(number, due) };
    let plan = hints.plan_look(at(9900)).unwrap();
    let burst: Vec<_> = (0..90).map(|number| of(0, number, 10_000)).collect();
    hints.looked(plan, &all(&burst), at(9900));
    hints.expire(at(10_000));
    let look = |hints: &mut Hints, now, found: &[Hint]| {
        let plan = hints.plan_look(at(now)).unwrap();
        hints.looked(plan.clone(), &all(found), at(now));
        (plan.routes, plan.until)
    };
    assert_eq!(look(&mut hints, 10_900, &[]), (vec![0], at(9750)));
    // The node has died.
    hints.look_again_from(DueTime::MIN);
    assert_eq!(look(&mut hints, 12_500, &[]).0, [1], "the other route goes on, however long that took");
    assert_eq!(look(&mut hints, 13_500, &[of(1, 100, 5000)]), (vec![0], at(9750)));
    assert_eq!((hints.take(1)[0].due, hints.len()), (at(5000), 90));
}

/// Without room a look ends before the last known timer, which may be overdue if the node has stood still.
#[test]
fn a_look_that_ends_in_the_past_says_nothing_about_later_times() {
    let mut hints = Hints::new(std::iter::once(Some(1)), 1, Duration::from_secs(1), Some(LOOK_EVERY));
    let plan = hints.plan_look(at(1000)).unwrap();
    let _ = hints.looked(plan, &all(&[hint(1, 1500)]), at(1000));
    let plan = hints.plan_look(at(9000)).unwrap();
    assert_eq!(plan.until, at(1499));
    assert_eq!(hints.looked(plan, &all(&[]), at(9000)), None);
    // Another node has put it after the look.
    hints.expire(at(9100));
    let plan = hints.plan_look(at(9100)).unwrap();
    assert!(plan.after < Some(Position { due: at(2000), id: hint(2, 2000).id }), "{plan:?}");
}

#[test]
fn nodes_that_all_are_late_leave_the_timers_of_others_to_them() {
    let new = || {
        let mut hints = Hints::new([Some(10)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
        hints.set_share(Share { places: vec![(0, 2)] });
        hints
    };
    let mut hints = new();
    let mut pending: BTreeMap<DurableId, Hint> = BTreeMap::new();
    for number in 0..20 {
        let id = DurableId::from_parts(at(1000), number, number);
        pending.insert(id, Hint { id, ..hint(number, 1000) });
    }
    let look = |hints: &mut Hints, pending: &BTreeMap<DurableId, Hint>, now| {
        let plan = hints.plan_look(at(now)).unwrap();
        hints.looked(plan, &all(&pending.values().copied().collect::<Vec<_>>()), at(now));
        hints.len()
    };
    assert_eq!(look(&mut hints, &pending, 1100), 10, "its share");
    assert_eq!(look(&mut hints, &pending, 5000), 10, "its own wait, too");
    assert_eq!(look(&mut new(), &pending, 5000), 10, "so do those of a node that begins");
    for hint in hints.take(10) {
        pending.remove(&hint.id);
    }
    assert_eq!(look(&mut hints, &pending, 5100), 10, "it has nothing else to do");
    // One of its own, which is not as late.
    let own = DurableId::from_parts(at(4900), 0, 2);
    hints.add(Hint { id: own, ..hint(2, 4900) }, at(5100));
    let other = DurableId::from_parts(at(1000), 30, 31);
    pending.insert(other, Hint { id: other, ..hint(31, 1000) });
    assert_eq!(look(&mut hints, &pending, 5200), 12);
    assert_eq!(
        hints.plan_look(at(5300)).unwrap().after,
        Some(end_of(at(4850))),
        "late ones are known, and not read again"
    );
}

/// A timer is committed late, after a look has passed over it, and the beat that says so is reported before that look.
#[test]
fn looks_begin_again_from_a_time_within_the_look_under_way() {
    let mut hints = Hints::new([Some(1)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
    let behind = Some(end_of(at(5000)));
    (hints.routes[0].bound, hints.routes[0].others) = (behind, behind);
    let plan = hints.plan_look(at(9000)).unwrap();
    assert_eq!(plan.after, behind);
    hints.look_again_from(at(6500));
    hints.looked(plan, &all(&[]), at(9050));
    assert_eq!(
        (hints.routes[0].bound, hints.routes[0].others),
        (Position::before(at(6500)), Position::before(at(6500)))
    );
}

/// A stranger's transaction has locked more of them than are known at once.
#[test]
fn many_locked_rows_keep_looks_from_no_later_timer() {
    let mut hints = Hints::new([Some(16)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
    (hints.page, hints.full) = (64, 64);
    let timers = (0..500).map(|number| {
        let new = hint(number, 1000 + number);
        ((new.due, new.id), new)
    });
    let (mut pending, mut looks): (BTreeMap<_, _>, _) = (timers.collect(), 0);
    for step in 0..500 {
        let now = 60_000 + 10 * step;
        looks += look_in_time(&mut hints, &pending, now).0;
        for hint in hints.take(16) {
            hints.return_slot(0);
            if hint.due < at(1400) {
                hints.pass_over_locked(hint);
            } else {
                pending.remove(&(hint.due, hint.id));
            }
        }
    }
    assert_eq!(pending.len(), 400, "the locked ones are left");
    assert!(looks < 250, "{looks} pages");
}

/// One route has many overdue timers, and was full whenever timers of others were looked for.
#[test]
fn a_route_that_is_behind_has_looks_read_nothing_anew_for_others() {
    let mut hints = Hints::new([Some(1); 2].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
    (hints.page, hints.full) = (8, 8);
    hints.set_share(Share { places: vec![(0, 2); 2] });
    let timers = (0..4000).map(|number| {
        let id = DurableId::from_parts(at(1000 + number), number, number * 2);
        ((at(1000 + number), id), Hint { id, ..hint(number, 1000 + number) })
    });
    let (mut pending, mut looks): (BTreeMap<_, _>, _) = (timers.collect(), 0);
    for step in 0..600 {
        let now = 60_000 + 10 * step;
        looks += look_in_time(&mut hints, &pending, now).0;
        for hint in hints.take(2) {
            pending.remove(&(hint.due, hint.id));
            hints.return_slot(hint.route);
        }
    }
    assert!(looks < 450, "{looks} pages for {} timers", 4000 - pending.len());
}

/// Rows that are passed over are many, and each pause or change by hand lets looks begin again.
#[test]
fn looks_come_to_their_end_however_often_they_are_to_begin_again() {
    let mut hints = one_route(9999, Duration::from_secs(10));
    let rows: Vec<_> = (0..20).map(|number| Position { due: at(100 + number), id: DurableId::MAX }).collect();
    let last = hint(1, 500);
    let mut looks = 0;
    while let Some(plan) = hints.plan_look(at(1000)).filter(|plan| looks == 0 || plan.after.is_some()) {
        looks += 1;
        hints.look_again_from(DueTime::MIN);
        let rest = rows.iter().copied().find(|row| Some(*row) > plan.after);
        let found = if rest.is_some() { vec![] } else { vec![last] };
        hints.looked(plan, &Looked::new(found, rest), at(1000));
    }
    // Few are due: the last one is beyond the horizon. Then they begin again.
    assert_eq!((looks, hints.len()), (22, 1));
}

/// Millions of moved timers may be passed over by their ids before.
#[test]
fn what_is_due_does_not_wait_for_looks_that_pass_over_others() {
    let mut hints = one_route(9999, Duration::from_secs(10));
    let rest = |due| Some(Position { due: at(due), id: DurableId::MAX });
    let plan = hints.plan_look(at(1000)).unwrap();
    let moved = [hint(1, 900), hint(2, 1100)];
    hints.looked(plan, &Looked::new(moved.to_vec(), rest(10)), at(1000));
    // A new one.
    hints.add(hint(3, 1050), at(1000));
    hints.expire(at(1050));
    let taken: Vec<_> = hints.take(9).iter().map(|hint| hint.due).collect();
    assert_eq!(taken, [at(900), at(1050)]);
    assert_eq!((hints.known_until(), hints.len()), (at(10), 0), "earlier ones are still looked for");
}

/// Moved timers are many, and passed over by their ids.
#[test]
fn a_long_look_without_a_timer_reads_more_and_reaches_the_present() {
    let mut hints = Hints::new([Some(10)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
    let mut plan = hints.plan_look(at(1000)).unwrap();
    let rest = |due| Some(Position { due: at(due), id: DurableId::MAX });
    for (now, pages) in [(3000, 2), (5000, 4), (7000, 4)] {
        plan = hints.looked(plan, &Looked::new(vec![], rest(now / 100)), at(now)).unwrap();
        assert_eq!(plan.limit, pages * hints.page);
        assert!(plan.until > at(now));
    }
    let next = hints.looked(plan.clone(), &Looked::new(vec![hint(1, 80)], rest(90)), at(9000)).unwrap();
    assert_eq!((next.limit, next.until), (hints.page, plan.until));
}

/// A node that waits for its handlers before a suspect claims nothing else meanwhile.
#[test]
fn a_suspect_is_left_to_its_own_node_for_a_minute() {
    for (random, taken_at) in [(2, 1000), (1, 61_250)] {
        let mut hints = Hints::new([Some(10)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
        hints.set_share(Share { places: vec![(0, 2)] });
        let suspect = Hint { id: DurableId::from_parts(at(1000), 0, random), is_suspect: true, ..hint(0, 1000) };
        let finds = |hints: &mut Hints, now| {
            let plan = hints.plan_look(at(now)).unwrap();
            hints.looked(plan, &all(&[suspect]), at(now));
            hints.add(suspect, at(now));
            hints.has_suspect()
        };
        assert!(!finds(&mut hints, taken_at - 1) && finds(&mut hints, taken_at), "at {taken_at}");
    }
}

#[test]
fn many_suspects_stay_on_disk_and_hold_up_no_look() {
    let mut hints = one_route(9999, Duration::from_secs(10));
    let number = 3 * FULL as u64;
    let found: Vec<_> = (0..number).map(|number| Hint { is_suspect: true, ..hint(number, 100 + number) }).collect();
    let look = |hints: &mut Hints| {
        while let Some(plan) = hints.plan_look(at(60_000)) {
            let rest = found.iter().filter(|hint| Some(position(hint)) > plan.after).take(plan.limit);
            let page: Vec<_> = rest.copied().collect();
            let end = page.get(plan.limit - 1).map(position);
            hints.looked(plan, &Looked::new(page, end), at(60_000));
        }
        hints.len()
    };
    assert_eq!((look(&mut hints), hints.known_until()), (FULL, at(120_000)));
    let taken = std::iter::from_fn(|| {
        hints.expire(at(60_000));
        look(&mut hints);
        hints.take_suspect()
    });
    assert!(taken.eq(found.iter().copied()));
}

/// Makes looks at a shared store as it does: without timers of others that are not late. Returns the numbers of looks and of found
/// timers.
fn look_at(
    hints: &mut Hints,
    pending: &BTreeMap<(DueTime, DurableId), Hint>,
    passed_over: &BTreeSet<(DueTime, DurableId)>,
    now: u64,
) -> (usize, usize) {
    let (mut looks, mut found) = (0, 0);
    let mut next = hints.plan_look(at(now));
    while let Some(plan) = next {
        looks += 1;
        let after = plan.after.map(|after| (after.due, after.id));
        let rows = pending.iter().map(|(at, hint)| (*at, Some(*hint)));
        let mut rows: Vec<_> = rows.chain(passed_over.iter().map(|at| (*at, None))).collect();
        rows.retain(|(position, _)| after < Some(*position) && position.0 <= plan.until);
        rows.sort_unstable_by_key(|(position, _)| *position);
        rows.truncate(plan.limit);
        let last = rows.get(plan.limit - 1).map(|((due, id), _)| Position { due: *due, id: *id });
        let (share, others_until) = plan.share.clone().unwrap();
        let is_wanted = |hint: &Hint| {
            plan.routes.contains(&hint.route) && (share.contains(hint.id, hint.route) || hint.due <= others_until)
        };
        let page: Vec<_> = rows.into_iter().filter_map(|(_, hint)| hint).filter(is_wanted).collect();
        found += page.len();
        next = hints.looked(plan, &Looked::new(page, last), at(now));
    }
    (looks, found)
}

/// As [`look_at`], each 100 ms or if the last look goes on, and moves due timers into the queues of their routes.
fn look_in_time(hints: &mut Hints, pending: &BTreeMap<(DueTime, DurableId), Hint>, now: u64) -> (usize, usize) {
    let is_time = now.is_multiple_of(100) || hints.goes_on();
    let made = if is_time { look_at(hints, pending, &BTreeSet::new(), now) } else { (0, 0) };
    hints.expire(at(now));
    made
}

/// Nodes that were away come up with their timers: each reads its own ones, and most of these once.
#[test]
fn a_node_that_is_behind_reads_little_more_than_its_share() {
    const TIMERS: usize = 3000;
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let share = |place, nodes| Share { places: vec![(place, nodes)] };
        let mut nodes: Vec<_> = (0..3)
            .map(|place| {
                let mut hints = Hints::new([Some(1000)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
                (hints.page, hints.full) = (64, 64);
                hints.set_share(share(place, 3));
                hints
            })
            .collect();
        let mut pending = BTreeMap::new();
        for number in 0..TIMERS as u64 {
            let due = BEGIN + random.below(9000);
            let id = DurableId::from_parts(at(due), number, random.next());
            pending.insert((at(due), id), Hint { id, ..hint(number, due) });
        }
        // One has died, which its lease hides for a while.
        let (dies, noticed, room) = (random.one_in(2), 10 + random.below(300), 2 + random.index(9));
        let mut found = 0;
        for step in 0.. {
            let now = 60_000 + 10 * step;
            let living = if dies { 2 } else { 3 };
            for (place, hints) in (0..living).zip(&mut nodes) {
                if dies && step == noticed {
                    hints.set_share(share(place, 2));
                }
                found += look_in_time(hints, &pending, now).1;
                for hint in hints.take(room) {
                    pending.remove(&(hint.due, hint.id));
                    hints.return_slot(0);
                }
            }
            if pending.is_empty() {
                break;
            }
            assert!(step < 3000, "seed {seed}: {} are left", pending.len());
        }
        assert!(found < TIMERS * 3 / 2, "seed {seed}: {found} rows");
    }
}

/// Nodes of a shared store arm their shares, and those timers of others that are late.
#[test]
fn shared_timers_are_taken_once_in_time_whichever_nodes_live() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let share = |place| Share { places: vec![(place, 2)] };
        let mut nodes: Vec<_> = (0..2)
            .map(|place| {
                let mut hints = Hints::new([Some(1000)].into_iter(), 1000, Duration::from_secs(10), Some(LOOK_EVERY));
                hints.page = 1 + random.index(9);
                hints.set_share(share(place));
                hints
            })
            .collect();
        let dies = if random.one_in(2) { 3000 } else { u64::MAX };
        let (mut pending, mut passed_over) = (BTreeMap::<(DueTime, DurableId), Hint>::new(), BTreeSet::new());
        for now in (BEGIN..8000).step_by(50) {
            for number in 0..random.below(8) {
                let due = now + random.below(1500);
                let id = DurableId::from_parts(at(due), number, random.next());
                let new = Hint { id, ..hint(number, due) };
                if random.one_in(4) {
                    passed_over.insert((at(now.saturating_sub(random.below(3000))), id));
                    continue;
                }
                pending.insert((new.due, id), new);
                // The other node learns of it by a look.
                nodes[random.index(2)].add(new, at(now));
            }
            let living = if now >= dies { 1 } else { 2 };
            for hints in &mut nodes[..living] {
                if now % 600 == 50 {
                    // A beat. After some of them looks begin anew.
                    let from = if random.one_in(4) { DueTime::MIN } else { at(now.saturating_sub(2000)) };
                    hints.look_again_from(from);
                    if now > dies.saturating_add(3000) {
                        hints.set_share(Share { places: vec![(0, 1)] });
                    }
                }
                if now % 100 == 0 {
                    _ = look_at(hints, &pending, &passed_over, now);
                }
                hints.expire(at(now));
                for hint in hints.take(1000) {
                    pending.remove(&(hint.due, hint.id));
                    hints.return_slot(0);
                }
            }
            let latest = 300;
            let late = pending.keys().next().filter(|(due, _)| due.as_millis() + latest < now);
            assert_eq!(late, None, "seed {seed} at {now}");
        }
    }
}

/// More timers are due in one millisecond than may be known.
#[test]
fn a_look_for_an_evicted_timer_begins_at_it() {
    let mut hints = Hints::new([Some(8)].into_iter(), 4, Duration::from_secs(10), None);
    let pending: Vec<_> = (1..9).map(|number| hint(number, 4000)).collect();
    let plan = hints.plan_look(at(BEGIN)).unwrap();
    hints.looked(plan, &Looked::new(pending[..4].to_vec(), Some(position(&pending[3]))), at(BEGIN));
    hints.add(hint(9, 2000), at(BEGIN));
    hints.expire(at(2000));
    assert_eq!(hints.plan_look(at(2000)).unwrap().after, just_before(&pending[3]));
}

//! A wheel that is watched: every operation is done on the real wheel and on a sorted list, and compared.
//!
//! The list is the whole specification. What waits comes out by deadline and, within one tick, in the order of the
//! starts (a reschedule is a new start). On request the [seven schemes](crate) are run along: each of them has
//! to fire what the wheel fires.
//!
//! [`CheckedWheel`] has the operations, and panics as soon as the wheel departs from the list; `inspect` looks at the
//! wheel from outside after every operation. Tests and the fuzz target only choose what to do next.

#![allow(clippy::expect_used)]

mod inspect;

use std::collections::{BTreeMap, VecDeque};

use actix_timers::timing::{Advance, Expired, Key, List, MAX_TICK, Step, Tick, Wheel, WheelSize};

use crate::{Expiry, Handle, Scheme};

/// What is done with an entry that has left its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is removed at once.
    Remove,
    /// It stays detached, in no list.
    Loose,
    /// It is appended to the list of held entries.
    Hold,
}

/// Where an entry is, as the model sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting { deadline: Tick, start: u64 },
    Loose,
    Held,
    Gone,
}

/// One key the wheel has issued, dead or alive.
#[derive(Debug)]
struct Issued {
    key: Key,
    state: State,
    handles: Vec<Handle>,
}

/// The wheel, the model beside it, and optionally the schemes.
pub struct CheckedWheel {
    wheel: Wheel<usize>,
    size: usize,
    issued: Vec<Issued>,
    /// What the wheel has to bring out, first the first: by deadline and number of the start.
    waiting: BTreeMap<(Tick, u64), usize>,
    held: List,
    held_model: VecDeque<usize>,
    detached: usize,
    starts: u64,
    /// The latest time an operation was given.
    latest: Tick,
    /// When the latest entry that came out was due.
    clock: Tick,
    schemes: Vec<Box<dyn Scheme>>,
    /// What has expired since the schemes were at work.
    unconfirmed: Vec<Expiry>,
    /// Entries moved so far, expired or cascaded.
    pub moves: u64,
}

impl CheckedWheel {
    /// An empty wheel of `size` buckets per level, and the schemes that have to agree with it.
    pub fn new(size: usize, schemes: Vec<Box<dyn Scheme>>) -> Self {
        Self {
            wheel: Wheel::new(WheelSize::new(size).expect("the test asks for a size that exists")),
            size,
            issued: Vec::new(),
            waiting: BTreeMap::new(),
            held: List::new(),
            held_model: VecDeque::new(),
            detached: 0,
            starts: 0,
            latest: 0,
            clock: 0,
            schemes,
            unconfirmed: Vec::new(),
            moves: 0,
        }
    }

    /// The real wheel, to look at.
    pub const fn wheel(&self) -> &Wheel<usize> {
        &self.wheel
    }

    /// How many keys were issued; [`cancel`](Self::cancel) and the like take any number below it.
    pub fn issued(&self) -> usize {
        self.issued.len()
    }

    /// The earliest deadline that is waiting.
    pub fn earliest(&self) -> Option<Tick> {
        self.waiting.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// The level on which entry `number` waits.
    pub fn level_of(&self, number: usize) -> Option<usize> {
        self.wheel.bucket_of(self.issued[number].key).map(|(level, _)| level)
    }

    /// Inserts an entry and returns its number.
    pub fn insert(&mut self, now: Tick, deadline: Tick) -> usize {
        let number = self.issued.len();
        let key = self.wheel.insert(now, deadline, number).expect("the arena has room");
        self.issued.push(Issued { key, state: State::Gone, handles: Vec::new() });
        self.started(now, deadline, number);
        self.inspect();
        number
    }

    /// Cancels entry `number`, wherever it is; true if it was waiting.
    pub fn cancel(&mut self, number: usize) -> bool {
        let Issued { key, state, .. } = self.issued[number];
        let waiting = matches!(state, State::Waiting { .. });
        assert_eq!(self.wheel.cancel(key), waiting.then_some(number), "cancel tells the truth");
        if waiting {
            self.stopped(number);
            self.set_state(number, State::Gone);
        }
        self.inspect();
        waiting
    }

    /// Gives entry `number` another deadline, wherever it is; true if it was alive.
    pub fn reschedule(&mut self, now: Tick, number: usize, deadline: Tick) -> bool {
        self.release(number);
        let Issued { key, state, .. } = self.issued[number];
        let alive = state != State::Gone;
        assert_eq!(self.wheel.reschedule(now, key, deadline), alive, "reschedule finds what is alive");
        if alive {
            self.stopped(number);
            self.started(now, deadline, number);
        }
        self.noticed(now);
        self.inspect();
        alive
    }

    /// Brings out what is due by `now`, entry by entry.
    pub fn expire(&mut self, now: Tick, budget: usize, fate: Fate) -> Step {
        let cascaded = self.cascaded();
        let mut left = budget;
        let mut expired = 0;
        let end = loop {
            let budget_before = left;
            match self.wheel.expire(now, &mut left) {
                Step::Expired(key) => {
                    assert!(left < budget_before, "an expiry is paid for");
                    expired += 1;
                    let number = self.expect_first(now, key);
                    self.dispose(number, fate);
                }
                end => break end,
            }
        };
        self.check_budget(budget, left, expired + self.cascaded() - cascaded);
        self.check_end(now, left, end);
        self.inspect();
        end
    }

    /// The same through [`Wheel::advance`], which removes what it brings out.
    pub fn advance(&mut self, now: Tick, budget: usize) -> Advance {
        let cascaded = self.cascaded();
        let mut due: Vec<Expired<usize>> = Vec::new();
        let progress = self.wheel.advance(now, budget, &mut due);
        let moved = due.len() as u64 + self.cascaded() - cascaded;
        for expired in due {
            let number = self.expect_first(now, expired.key);
            assert_eq!((expired.value, expired.deadline), (number, self.clock), "value and deadline belong together");
            self.set_state(number, State::Gone);
        }
        assert!(moved <= budget as u64, "the budget is kept");
        let left = budget - moved as usize;
        self.moves += moved;
        self.check_end(now, left, if progress == Advance::Done { Step::Done } else { Step::Exhausted });
        self.inspect();
        progress
    }

    /// Cascades ahead of time; nothing may come of it but a better start for later calls.
    pub fn prepare(&mut self, now: Tick, pace: usize, budget: usize) -> Advance {
        self.noticed(now);
        let cascaded = self.cascaded();
        let progress = self.wheel.prepare(now, pace, budget);
        let moved = self.cascaded() - cascaded;
        self.moves += moved;
        assert!(moved <= budget as u64, "the budget is kept");
        match progress {
            Advance::Exhausted => assert_eq!(moved, budget as u64, "all of the budget was used before giving up"),
            Advance::Done => {
                // What is due comes first; after it there is nothing to prepare.
                let due = self.wheel.next_expiration().is_some_and(|next| next <= now);
                let next = self.wheel.next_wake(pace);
                let later = next.is_none_or(|next| next > now);
                assert!(due || later, "nothing is left to prepare at {now}, but the next wake is at {next:?}");
            }
        }
        self.inspect();
        progress
    }

    /// Detaches entry `number` before its time; true if it was waiting.
    pub fn detach(&mut self, number: usize) -> bool {
        let Issued { key, state, .. } = self.issued[number];
        let waiting = matches!(state, State::Waiting { .. });
        assert_eq!(self.wheel.detach(key), waiting, "only what waits can be detached");
        if waiting {
            self.stopped(number);
            self.dispose(number, Fate::Loose);
        }
        self.inspect();
        waiting
    }

    /// Takes entry `number` off the list of held entries, if it is there.
    pub fn release(&mut self, number: usize) {
        if self.issued[number].state != State::Held {
            return;
        }
        self.wheel.release(&mut self.held, self.issued[number].key);
        self.held_model.retain(|held| *held != number);
        self.issued[number].state = State::Loose;
        self.inspect();
    }

    /// Puts the detached entry `number` at the end of the list of held entries, if it is loose.
    pub fn hold(&mut self, number: usize) {
        if self.issued[number].state != State::Loose {
            return;
        }
        self.wheel.hold(&mut self.held, self.issued[number].key);
        self.held_model.push_back(number);
        self.issued[number].state = State::Held;
        self.inspect();
    }

    /// Removes entry `number`, which only works on one that has expired.
    pub fn remove(&mut self, number: usize) -> bool {
        self.release(number);
        let Issued { key, state, .. } = self.issued[number];
        let detached = state == State::Loose;
        assert_eq!(self.wheel.remove(key), detached.then_some(number), "only what is detached can be removed");
        if detached {
            self.set_state(number, State::Gone);
        }
        self.inspect();
        detached
    }

    /// Tries a key that the wheel has not issued, or no longer knows.
    pub fn try_dead_key(&mut self, now: Tick, key: Key) {
        if self.issued.iter().any(|issued| issued.key == key && issued.state != State::Gone) {
            return;
        }
        assert_eq!(self.wheel.cancel(key), None);
        assert_eq!(self.wheel.remove(key), None);
        assert!(!self.wheel.detach(key));
        assert!(!self.wheel.reschedule(now, key, now));
        assert_eq!((self.wheel.get(key), self.wheel.deadline(key), self.wheel.bucket_of(key)), (None, None, None));
        assert!(!self.wheel.is_waiting(key));
        self.noticed(now);
        self.inspect();
    }

    /// Goes to the end of time: everything comes out, and the wheel is as empty as a new one.
    pub fn finish(&mut self) {
        while let Some(number) = self.held_model.front().copied() {
            self.remove(number);
        }
        assert_eq!(self.advance(Tick::MAX, usize::MAX), Advance::Done);
        for number in 0..self.issued.len() {
            self.remove(number);
        }
        assert!(self.wheel.is_empty() && self.waiting.is_empty());
        assert_eq!((self.wheel.next_expiration(), self.wheel.queued_buckets()), (None, 0));
        self.inspect_buckets();
        for scheme in &self.schemes {
            assert_eq!(scheme.len(), 0, "{} is empty too", scheme.name());
        }
    }

    /// The wheel has expired the entry of `key`: it must be the first of the model, and due.
    fn expect_first(&mut self, now: Tick, key: Key) -> usize {
        let ((deadline, start), number) = self.waiting.pop_first().expect("what expires was waiting");
        assert_eq!(key, self.issued[number].key, "the first entry comes first: due {deadline}, start {start}");
        assert!(deadline <= now, "never early");
        assert!(deadline >= self.clock, "deadlines only grow");
        self.clock = deadline;
        self.issued[number].state = State::Gone;
        if !self.schemes.is_empty() {
            self.unconfirmed.push(Expiry { deadline, id: start });
        }
        number
    }

    /// Does with a detached entry what the caller wants.
    fn dispose(&mut self, number: usize, fate: Fate) {
        let key = self.issued[number].key;
        assert!(!self.wheel.is_waiting(key) && self.wheel.bucket_of(key).is_none(), "it is out of its bucket");
        assert_eq!(self.wheel.get(key), Some(&number), "but alive until it is removed");
        assert_eq!(self.wheel.cancel(key), None, "and past cancelling");
        match fate {
            Fate::Remove => {
                assert_eq!(self.wheel.remove(key), Some(number));
                self.set_state(number, State::Gone);
            }
            Fate::Loose => {
                self.detached += 1;
                self.issued[number].state = State::Loose;
            }
            Fate::Hold => {
                self.detached += 1;
                self.issued[number].state = State::Loose;
                self.wheel.hold(&mut self.held, key);
                self.held_model.push_back(number);
                self.issued[number].state = State::Held;
            }
        }
    }

    /// Notes a start: a new entry, or a new deadline for an old one.
    fn started(&mut self, now: Tick, deadline: Tick, number: usize) {
        let key = self.issued[number].key;
        let stored = self.wheel.deadline(key).expect("a new entry is alive");
        if now >= self.latest {
            assert_eq!(stored, deadline.max(now).min(MAX_TICK), "a past deadline counts as now");
        } else {
            // Time was turned back. The wheel's clock does not go with it, and holds the deadline up.
            let clock = self.wheel.snapshot().clock;
            assert!(clock <= self.latest, "the wheel cannot be ahead of all it was told");
            assert_eq!(stored, deadline.max(now).max(clock).min(MAX_TICK), "a deadline before the clock counts as it");
        }
        self.noticed(now);
        self.starts += 1;
        let start = self.starts;
        self.waiting.insert((stored, start), number);
        self.set_state(number, State::Waiting { deadline: stored, start });
        self.issued[number].handles = self.schemes.iter_mut().map(|scheme| scheme.start(stored, start)).collect();
        assert!(self.wheel.is_waiting(key));
        assert_eq!(self.wheel.get(key), Some(&number));
    }

    /// Takes a waiting entry out of the model and the schemes.
    fn stopped(&mut self, number: usize) {
        let State::Waiting { deadline, start } = self.issued[number].state else {
            return;
        };
        assert_eq!(self.waiting.remove(&(deadline, start)), Some(number));
        for (scheme, handle) in self.schemes.iter_mut().zip(self.issued[number].handles.drain(..)) {
            assert!(scheme.stop(handle), "{} has the timer", scheme.name());
            assert!(!scheme.stop(handle), "{} stops it once", scheme.name());
        }
    }

    /// The wheel was told this time.
    fn noticed(&mut self, now: Tick) {
        self.latest = self.latest.max(now).min(MAX_TICK);
    }

    fn set_state(&mut self, number: usize, state: State) {
        if matches!(self.issued[number].state, State::Loose | State::Held) {
            self.detached -= 1;
        }
        self.issued[number].state = state;
    }

    fn check_budget(&mut self, budget: usize, left: usize, moved: u64) {
        assert_eq!((budget - left) as u64, moved, "the budget counts what was moved");
        self.moves += moved;
    }

    /// After a call that went on until it was done or had no budget left.
    fn check_end(&mut self, now: Tick, left: usize, end: Step) {
        let reached = now >= self.latest;
        self.noticed(now);
        if end == Step::Exhausted {
            assert_eq!(left, 0, "only an empty budget is exhausted");
            assert!(self.wheel.next_expiration().is_some_and(|next| next <= now), "and only if there is more to do");
            return;
        }
        assert!(self.earliest().is_none_or(|earliest| earliest > now), "never late");
        assert!(self.wheel.next_expiration().is_none_or(|next| next > now), "nothing more to do at {now}");
        if reached {
            self.confirm(now.min(MAX_TICK));
        }
    }

    /// Lets the schemes come to `now`: they must fire what the wheel has fired since the last time.
    fn confirm(&mut self, now: Tick) {
        let mut expired = Vec::new();
        for scheme in &mut self.schemes {
            expired.clear();
            scheme.per_tick(now, &mut expired);
            assert_eq!(expired, self.unconfirmed, "{} fires the same entries in the same order", scheme.name());
            assert_eq!(scheme.len(), self.waiting.len(), "{} holds as many", scheme.name());
        }
        self.unconfirmed.clear();
    }
}

//! A checked wheel: every operation is applied to the real wheel and to a sorted list, and compared.
//!
//! The list is the whole specification. Waiting entries expire by deadline and, within one tick, in the order of the
//! starts (a reschedule is a new start). On request the [seven schemes](crate) run along and must fire the same entries
//! as the wheel.
//!
//! [`CheckedWheel`] has the operations, and panics as soon as the wheel deviates from the list; `inspect` checks the
//! wheel from outside after every operation. Tests and the fuzz target only choose the next operation.

#![allow(clippy::expect_used)]

mod inspect;

use std::collections::{BTreeMap, VecDeque};

use actix_timers::timing::{Advance, Expired, Key, List, MAX_TICK, Tick, Wheel, WheelSize};

use crate::{Expiry, Handle, Scheme};

/// The fate of an entry that has left its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is removed at once.
    Remove,
    /// It stays detached, in no list.
    Loose,
    /// It is appended to the list of held entries.
    Hold,
}

/// The location of an entry in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting { deadline: Tick, start: u64 },
    Loose,
    Held,
    Gone,
}

/// A key that the wheel has issued, dead or alive.
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
    /// The waiting entries in the order of expiration: by deadline and number of the start.
    waiting: BTreeMap<(Tick, u64), usize>,
    held: List,
    held_model: VecDeque<usize>,
    detached: usize,
    starts: u64,
    /// The latest time given to an operation.
    latest: Tick,
    /// The deadline of the latest expired entry.
    clock: Tick,
    schemes: Vec<Box<dyn Scheme>>,
    /// Entries expired since the last call of the schemes.
    unconfirmed: Vec<Expiry>,
    /// Entries moved so far, expired or cascaded.
    pub moves: u64,
}

impl CheckedWheel {
    /// Returns an empty wheel of `size` buckets per level, and the schemes to compare it with.
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

    /// Returns the real wheel, for reading.
    pub const fn wheel(&self) -> &Wheel<usize> {
        &self.wheel
    }

    /// Returns the number of issued keys; [`cancel`](Self::cancel) and the like take any number below it.
    pub fn issued(&self) -> usize {
        self.issued.len()
    }

    /// Returns the earliest deadline of the waiting entries.
    pub fn earliest(&self) -> Option<Tick> {
        self.waiting.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Returns the level of the waiting entry `number`.
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

    /// Cancels entry `number`, wherever it is. Returns whether it was waiting.
    pub fn cancel(&mut self, number: usize) -> bool {
        let Issued { key, state, .. } = self.issued[number];
        let waiting = matches!(state, State::Waiting { .. });
        assert_eq!(self.wheel.cancel(key), waiting.then_some(number), "cancel returns only a waiting entry");
        if waiting {
            self.stopped(number);
            self.set_state(number, State::Gone);
        }
        self.inspect();
        waiting
    }

    /// Moves entry `number`, wherever it is, to another deadline. Returns whether it was alive.
    pub fn reschedule(&mut self, now: Tick, number: usize, deadline: Tick) -> bool {
        self.release(number);
        let Issued { key, state, .. } = self.issued[number];
        let alive = state != State::Gone;
        assert_eq!(self.wheel.reschedule(now, key, deadline), alive, "reschedule finds only a live entry");
        if alive {
            self.stopped(number);
            self.started(now, deadline, number);
        }
        self.noticed(now);
        self.inspect();
        alive
    }

    /// Expires the entries due by `now`, one by one.
    pub fn expire(&mut self, now: Tick, budget: usize, fate: Fate) -> Advance {
        let cascaded = self.cascaded();
        let mut left = budget;
        let mut expired = 0;
        let end = loop {
            let budget_before = left;
            match self.wheel.expire(now, &mut left) {
                Ok(key) => {
                    assert!(left < budget_before, "an expiry costs budget");
                    expired += 1;
                    let number = self.expect_first(now, key);
                    self.dispose(number, fate);
                }
                Err(end) => break end,
            }
        };
        self.check_budget(budget, left, expired + self.cascaded() - cascaded);
        self.check_end(now, left, end);
        self.inspect();
        end
    }

    /// Expires the entries due by `now` through [`Wheel::advance`], which removes them.
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
        self.check_end(now, left, progress);
        self.inspect();
        progress
    }

    /// Frees storage, without any effect on later results.
    pub fn trim(&mut self, budget: usize) {
        let mut left = budget;
        let progress = self.wheel.trim(&mut left);
        assert!(left <= budget && (progress == Advance::Done) == (left > 0), "the budget is used before giving up");
        self.inspect();
    }

    /// Cascades ahead of time, without any effect on later results.
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
                // Due entries come first; after them there is nothing to prepare.
                let due = self.wheel.next_expiration().is_some_and(|next| next <= now);
                let next = self.wheel.next_wake(pace);
                let later = next.is_none_or(|next| next > now);
                assert!(due || later, "nothing is left to prepare at {now}, but the next wake is at {next:?}");
            }
        }
        self.inspect();
        progress
    }

    /// Detaches entry `number` before its deadline. Returns whether it was waiting.
    pub fn detach(&mut self, number: usize) -> bool {
        let Issued { key, state, .. } = self.issued[number];
        let waiting = matches!(state, State::Waiting { .. });
        assert_eq!(self.wheel.detach(key), waiting, "only a waiting entry can be detached");
        if waiting {
            self.stopped(number);
            self.dispose(number, Fate::Loose);
        }
        self.inspect();
        waiting
    }

    /// Removes entry `number` from the list of held entries, if it is there.
    pub fn release(&mut self, number: usize) {
        if self.issued[number].state != State::Held {
            return;
        }
        self.wheel.release(&mut self.held, self.issued[number].key);
        self.held_model.retain(|held| *held != number);
        self.issued[number].state = State::Loose;
        self.inspect();
    }

    /// Appends the detached entry `number` to the list of held entries, if it is loose.
    pub fn hold(&mut self, number: usize) {
        if self.issued[number].state != State::Loose {
            return;
        }
        self.wheel.hold(&mut self.held, self.issued[number].key);
        self.held_model.push_back(number);
        self.issued[number].state = State::Held;
        self.inspect();
    }

    /// Removes entry `number`, which only succeeds for an expired one.
    pub fn remove(&mut self, number: usize) -> bool {
        self.release(number);
        let Issued { key, state, .. } = self.issued[number];
        let detached = state == State::Loose;
        assert_eq!(self.wheel.remove(key), detached.then_some(number), "only a detached entry can be removed");
        if detached {
            self.set_state(number, State::Gone);
        }
        self.inspect();
        detached
    }

    /// Tries a key that the wheel never issued, or that is dead.
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

    /// Goes to the end of time: all entries expire, and the wheel is as empty as a new one.
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

    /// Checks that the entry of `key`, which the wheel has expired, is due and the first of the model.
    fn expect_first(&mut self, now: Tick, key: Key) -> usize {
        let ((deadline, start), number) = self.waiting.pop_first().expect("an expired entry was waiting");
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

    /// Gives a detached entry the requested fate.
    fn dispose(&mut self, number: usize, fate: Fate) {
        let key = self.issued[number].key;
        assert!(!self.wheel.is_waiting(key) && self.wheel.bucket_of(key).is_none(), "it is out of its bucket");
        assert_eq!(self.wheel.get(key), Some(&number), "but alive until it is removed");
        assert_eq!(self.wheel.cancel(key), None, "and cannot be cancelled");
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

    /// Records a start: a new entry, or a new deadline for an old one.
    fn started(&mut self, now: Tick, deadline: Tick, number: usize) {
        let key = self.issued[number].key;
        let stored = self.wheel.deadline(key).expect("a new entry is alive");
        if now >= self.latest {
            assert_eq!(stored, deadline.max(now).min(MAX_TICK), "a past deadline counts as now");
        } else {
            // Time went back. The wheel's clock stays, and delays the deadline.
            let clock = self.wheel.snapshot().clock;
            assert!(clock <= self.latest, "the wheel is never ahead of the latest time");
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

    /// Removes a waiting entry from the model and the schemes.
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

    /// Records a time that was given to the wheel.
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
        assert_eq!((budget - left) as u64, moved, "the budget counts the moves");
        self.moves += moved;
    }

    /// Checks a call that returned because it was done or had no budget left.
    fn check_end(&mut self, now: Tick, left: usize, end: Advance) {
        let reached = now >= self.latest;
        self.noticed(now);
        if end == Advance::Exhausted {
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

    /// Advances the schemes to `now`: they must fire the same entries as the wheel since the last time.
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

//! Random operations on the engine against a simple model: a list of timers in the order of scheduling.
//!
//! It covers the parts beyond the wheel model: owners and their inboxes, the states of a timer, names, keys, groups,
//! wall-clock times, capacity and the counters. After every operation the counters must add up and agree with the
//! model.

use std::collections::HashMap;
use std::time::Duration;

use crate::engine::{
    ClockReading, DeadLetterReason, Due, Engine, EngineConfig, KeyScope, Marks, MessageKind, MissedTickBehavior,
    NextRun, NotPending, Outcome, OwnerId, Recurrence, RejectReason, RepeatMode, Repeated, ScopedKey, Timer,
    TimerGroup, TimerKey, TimerState, next_on_grid,
};
use crate::timing::{Advance, Key, MAX_TICK, Tick, WheelSize};

/// Returns another tag each time.
fn tag() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    key: Key,
    deadline: Tick,
    /// Order of scheduling, and the payload.
    sequence: u64,
    /// Its owner, or the queue that a message for a recipient is in.
    owner: Option<OwnerId>,
    state: TimerState,
    repeats: Option<Repeats>,
    /// It repeats, and its message is being made.
    is_making: bool,
    /// Its key.
    label: Option<ModelKey>,
    /// Its group, and the requested one.
    group: Option<(u8, u64)>,
    /// It was given labels, whether it still has them or not.
    is_labelled: bool,
}

impl Known {
    /// Half of the owners' own timers have handlers whose end is known.
    const fn is_until_handled(&self) -> bool {
        self.owner.is_some() && self.sequence.is_multiple_of(2)
    }

    const fn new(key: Key, deadline: Tick, sequence: u64, owner: Option<OwnerId>) -> Self {
        let (state, is_making, is_labelled) = (TimerState::Waiting, false, false);
        Self { key, deadline, sequence, owner, state, is_making, is_labelled, repeats: None, label: None, group: None }
    }
}

/// A key, and the scope and the kind of messages for which it is unique.
type ModelKey = (KeyScope, u32, u8);

fn text(key: u8) -> TimerKey {
    TimerKey::from(format!("key {key}"))
}

fn scoped((scope, kind, key): ModelKey) -> ScopedKey {
    ScopedKey { scope, kind: MessageKind(kind), key: text(key) }
}

fn group(group: u8) -> TimerGroup {
    TimerGroup::from(format!("group {group}"))
}

/// How a timer repeats, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Repeats {
    mode: RepeatMode,
    due: Duration,
    left: u64,
    /// A cancel was requested while it was in flight.
    is_stopped: bool,
}

fn at(tick: Tick) -> ClockReading {
    ClockReading { time: Duration::from_millis(tick), wall: None }
}

/// Schedules a timer at time 0.
fn schedule<P: Copy, O>(engine: &mut Engine<P, O>, deadline: Tick, owner: Option<OwnerId>, payload: P) -> Key {
    engine.schedule(tag(), 0, deadline, owner, Timer::new(payload, Marks::NONE), None).unwrap()
}

/// The model's state.
#[derive(Default)]
struct Book {
    timers: Vec<Known>,
    ended: HashMap<Key, Outcome>,
    /// Repetitions that were delivered and not the last.
    repeated: u64,
    /// Repetitions that were dead letters and not the last.
    came_back: u64,
    /// Timers rejected because the capacity was used up.
    rejected_full: u64,
    /// Timers rejected because their owner had ended.
    rejected_closed: u64,
    inboxes: HashMap<OwnerId, Vec<u64>>,
    sequence: u64,
}

impl Book {
    fn position(&self, key: Key) -> Option<usize> {
        self.timers.iter().position(|timer| timer.key == key)
    }

    fn end(&mut self, key: Key, outcome: Outcome) -> u64 {
        let timer = self.timers.remove(self.position(key).unwrap());
        self.ended.insert(key, outcome);
        if let Some(inbox) = timer.owner.and_then(|owner| self.inboxes.get_mut(&owner)) {
            inbox.retain(|sequence| *sequence != timer.sequence);
        }
        timer.sequence
    }

    fn holder(&self, key: ModelKey) -> Option<Known> {
        self.timers.iter().find(|timer| timer.label == Some(key)).copied()
    }

    /// Returns the waiting timer that has to come out first.
    fn first_waiting(&self) -> Option<Known> {
        let waiting = self.timers.iter().filter(|timer| timer.state == TimerState::Waiting);
        waiting.min_by_key(|timer| (timer.deadline, timer.sequence)).copied()
    }
}

const CAPACITY: usize = 90;

/// The payload of a timer in the model is its sequence, which rises when it is moved.
fn set_payload<P: Copy, O>(engine: &mut Engine<P, O>, key: Key, payload: P) {
    if let Some(timer) = engine.wheel.get_mut(key) {
        timer.payload = payload;
    }
}

struct Run {
    engine: Engine<u64, &'static str>,
    book: Book,
    owners: Vec<OwnerId>,
    queue: OwnerId,
    issued: Vec<Key>,
    now: Tick,
    rng: Rng,
}

impl Run {
    fn new(seed: u64, wheel_size: usize) -> Self {
        let config = EngineConfig {
            wheel_size: WheelSize::new(wheel_size).unwrap(),
            capacity: CAPACITY,
            cascade_batch: 3,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config);
        let owners = (0..3).map(|_| engine.add_owner(|_| "owner").unwrap()).collect();
        let queue = engine.add_owner(|_| "queue").unwrap();
        Self { engine, book: Book::default(), owners, queue, issued: Vec::new(), now: 0, rng: Rng(seed) }
    }

    fn delay(&mut self) -> u64 {
        let ranges = [1, 4, 30, 1000, 1 << 20, 1 << 45];
        let range = ranges[self.rng.below(ranges.len())];
        self.rng.next() % range
    }

    fn any_key(&mut self) -> Option<Key> {
        let at = self.rng.below(self.issued.len());
        self.issued.get(at).copied()
    }

    fn step(&mut self) {
        match self.rng.below(24) {
            0..=4 | 14..=17 => self.schedule(),
            5 => self.cancel(),
            6 => self.reschedule(),
            7..=9 => self.expire(),
            10 | 11 => self.take_due(),
            12 | 20 | 21 => self.take_held(),
            13 | 18 => self.repeat_one(),
            19 => self.resume_one(),
            // Whatever the budget, and whether or not it is worth while.
            23 => drop(self.engine.trim(&mut self.rng.below(200))),
            _ => self.end_owner(),
        }
        self.check();
    }

    /// Schedules, also with a key, a group or both; the present holder of the key is replaced if possible.
    fn schedule(&mut self) {
        let choice = self.rng.below(6);
        let owner = self.owners.get(choice).copied();
        let scope = owner.map_or(KeyScope::Recipient(choice as u64), KeyScope::Owner);
        let may_be_labelled = self.rng.below(2) > 0;
        let key = (may_be_labelled && self.rng.below(3) > 0)
            .then(|| (scope, self.rng.below(2) as u32, self.rng.below(2) as u8));
        let joins = (may_be_labelled && self.rng.below(2) > 0).then(|| self.rng.below(2) as u8);
        let deadline = self.now + self.delay();
        self.book.sequence += 1;
        let sequence = self.book.sequence;
        let old = key.and_then(|key| self.engine.labels().holder(&scoped(key)));
        assert_eq!(old, key.and_then(|key| self.book.holder(key)).map(|timer| timer.key));
        let timer = Timer::new(sequence, Marks::NONE);
        let scheduled = self.engine.schedule(tag(), self.now, deadline, owner, timer, old);
        let replaceable = old.filter(|old| self.expectation(*old).is_ok());
        let timer = match scheduled {
            Ok(timer) => timer,
            Err(rejected) => {
                assert_eq!(rejected, RejectReason::Capacity);
                assert!(self.book.timers.len() == CAPACITY && replaceable.is_none());
                self.book.rejected_full += 1;
                return;
            }
        };
        assert!(self.book.timers.len() < CAPACITY || replaceable.is_some());
        assert!(!self.issued.contains(&timer), "a key is never issued twice");
        self.issued.push(timer);
        if let Some(old) = old {
            match (self.engine.cancel(old), replaceable) {
                (Ok(payload), Some(old)) => assert_eq!(payload, self.book.end(old, Outcome::Cancelled)),
                (Err(NotPending::InFlight), None) => {
                    let at = self.book.position(old).unwrap();
                    let old = &mut self.book.timers[at];
                    old.label = None;
                    old.repeats = old.repeats.map(|repeats| Repeats { is_stopped: true, ..repeats });
                }
                other => panic!("{other:?}"),
            }
        }
        let number = self.engine.labels().joined();
        self.engine.label(timer, key.map(scoped), joins.map(group));
        let is_labelled = key.is_some() || joins.is_some();

        let known = Known::new(timer, deadline, sequence, owner);
        self.book.timers.push(Known { label: key, group: joins.map(|joins| (joins, number)), is_labelled, ..known });
        if self.rng.below(2) == 0 {
            self.let_repeat();
        }
    }

    /// Makes the timer scheduled last repeat.
    fn let_repeat(&mut self) {
        let timer = self.book.timers.last_mut().unwrap();
        let due = Duration::from_millis(timer.deadline);
        let left = 1 + self.rng.next() % 6;
        let ranges = [3, 40, 1000, 1 << 30];
        let range = ranges[self.rng.below(ranges.len())];
        let period = Duration::from_millis(1 + self.rng.next() % range);
        let mode = match self.rng.below(4) {
            0 => RepeatMode::FixedRate { period, missed: MissedTickBehavior::Skip },
            1 => RepeatMode::FixedRate { period, missed: MissedTickBehavior::Burst },
            2 => RepeatMode::FixedRate { period, missed: MissedTickBehavior::Delay },
            _ => RepeatMode::FixedDelay { period },
        };
        timer.repeats = Some(Repeats { mode, due, left, is_stopped: false });
        self.engine.set_recurrence(timer.key, Recurrence::new(mode, due).times(left));
    }

    /// Finishes the message of one of the timers that wait for it.
    fn repeat_one(&mut self) {
        let making = |timer: &&Known| timer.is_making;
        let count = self.book.timers.iter().filter(making).count();
        let nth = self.rng.below(count);
        let Some(timer) = self.book.timers.iter().filter(making).nth(nth).copied() else { return };
        assert!(self.engine.is_making(timer.key));
        match self.rng.below(7) {
            0 => {
                let reason = Outcome::DeadLettered(DeadLetterReason::SourcePanicked);
                assert_eq!(self.engine.finish(timer.key, reason), Some(timer.sequence));
                self.book.end(timer.key, reason);
                assert_eq!(self.engine.finish(timer.key, reason), None);
            }
            1 => self.break_off(timer),
            2 | 3 => self.set_off(timer),
            _ => self.repeat(timer, false),
        }
        assert!(!self.engine.is_making(timer.key));
    }

    /// A handler runs whose end will be known; a cancel meanwhile applies from then on.
    fn set_off(&mut self, timer: Known) {
        let next = self.next_run(timer);
        assert_eq!(self.engine.plan(timer.key, next), Repeated::Between);
        assert_eq!(self.engine.plan(timer.key, next), Repeated::Gone, "it is in flight");
        let is_cancelled = self.rng.below(3) == 0;
        if is_cancelled {
            assert_eq!(self.engine.cancel(timer.key), Err(NotPending::InFlight));
        }
        let repeats =
            timer.repeats.map(|repeats| Repeats { is_stopped: repeats.is_stopped || is_cancelled, ..repeats });
        self.repeat(Known { repeats, ..timer }, true);
    }

    fn next_run(&self, timer: Known) -> NextRun {
        self.engine.recurrence(timer.key).unwrap().after_this(at(self.now), timer.is_until_handled())
    }

    /// Delivers the message of a timer, which may have been planned.
    fn repeat(&mut self, timer: Known, is_planned: bool) {
        let Repeats { mode, due, left, is_stopped } = timer.repeats.unwrap();
        let until_handled = timer.is_until_handled();
        let now = at(self.now);
        let next = self.next_run(timer);
        let repeated = if is_planned {
            self.engine.repeat_as_planned(timer.key, now)
        } else {
            self.engine.repeat(timer.key, next, now)
        };
        let due = match mode {
            _ if is_stopped || left == 1 => {
                assert_eq!(repeated, Repeated::Last(timer.sequence));
                self.book.end(timer.key, Outcome::Delivered);
                assert_eq!(self.engine.repeat(timer.key, next, now), Repeated::Gone);
                return;
            }
            RepeatMode::FixedDelay { .. } if until_handled => None,
            RepeatMode::FixedRate { period, missed } => Some(next_on_grid(due.min(now.time), period, missed, now.time)),
            RepeatMode::FixedDelay { period } => Some(now.time + period),
            RepeatMode::Calendar => unreachable!("the model schedules no calendar"),
        };
        self.book.repeated += 1;
        let at = self.book.position(timer.key).unwrap();
        let known = &mut self.book.timers[at];
        let repeats = known.repeats.as_mut().unwrap();
        repeats.left -= 1;
        known.is_making = false;
        match due {
            Some(due) => {
                repeats.due = due;
                self.wait_again(timer.key, due);
                assert_eq!(repeated, Repeated::Armed(self.engine.wheel().deadline(timer.key).unwrap()));
            }
            None => {
                known.state = TimerState::Between;
                assert_eq!(repeated, Repeated::Between);
            }
        }
        assert_eq!(self.engine.repeat(timer.key, next, now), Repeated::Gone, "once for each repetition");
    }

    /// In the model a timer waits again, behind all timers due in the same tick.
    fn wait_again(&mut self, key: Key, due: Duration) {
        let at = self.book.position(key).unwrap();
        let mut timer = self.book.timers.remove(at);
        self.book.sequence += 1;
        timer.sequence = self.book.sequence;
        timer.deadline = (due.as_millis() as Tick).max(self.now);
        timer.state = TimerState::Waiting;
        set_payload(&mut self.engine, key, timer.sequence);
        self.book.timers.push(timer);
    }

    /// A repetition was delivered and came back.
    fn break_off(&mut self, timer: Known) {
        let before = self.engine.counters();
        self.repeat(timer, false);
        let reason = DeadLetterReason::RecipientStopped;
        let was_pending = self.book.position(timer.key);
        let payload = was_pending.map(|at| self.book.timers[at].sequence);
        assert_eq!(self.engine.break_off(timer.key, reason), payload);
        if was_pending.is_some() {
            self.book.end(timer.key, Outcome::Cancelled);
            self.book.repeated -= 1;
            self.book.came_back += 1;
        } else {
            self.book.ended.insert(timer.key, Outcome::DeadLettered(reason));
        }
        let after = self.engine.counters();
        assert_eq!((after.delivered, after.recipient_stopped), (before.delivered, before.recipient_stopped + 1));
    }

    /// The handler of a timer between two repetitions is done.
    fn resume_one(&mut self) {
        let between = self.book.timers.iter().find(|timer| timer.state == TimerState::Between).copied();
        let Some(timer) = between else { return };
        let Some(RepeatMode::FixedDelay { period }) = timer.repeats.map(|repeats| repeats.mode) else {
            panic!("{timer:?}")
        };
        let due = at(self.now).time + period;
        let resumed = self.engine.resume(timer.key, at(self.now));
        let position = self.book.position(timer.key).unwrap();
        self.book.timers[position].repeats.as_mut().unwrap().due = due;
        self.wait_again(timer.key, due);
        assert_eq!(resumed, Repeated::Armed(self.engine.wheel().deadline(timer.key).unwrap()));
        assert_eq!(self.engine.resume(timer.key, at(self.now)), Repeated::Gone);
    }

    fn expectation(&self, key: Key) -> Result<usize, NotPending> {
        match self.book.position(key) {
            Some(at) if self.book.timers[at].state == TimerState::InFlight => Err(NotPending::InFlight),
            Some(at) => Ok(at),
            None => Err(NotPending::Unknown),
        }
    }

    /// A slot knows how its last timer ended; for earlier ones "unknown" is correct, too.
    fn agrees(&self, key: Key, answer: NotPending, expected: NotPending) -> bool {
        let delivered = self.book.ended.get(&key) == Some(&Outcome::Delivered);
        answer == expected || (answer == NotPending::Delivered && expected == NotPending::Unknown && delivered)
    }

    fn cancel(&mut self) {
        let Some(key) = self.any_key() else { return };
        match (self.engine.cancel(key), self.expectation(key)) {
            (Ok(payload), Ok(_)) => assert_eq!(payload, self.book.end(key, Outcome::Cancelled)),
            (Err(answer), Err(expected)) => {
                assert!(self.agrees(key, answer, expected), "{answer:?}, {expected:?}");
                if let Some(at) = self.book.position(key)
                    && let Some(repeats) = &mut self.book.timers[at].repeats
                {
                    repeats.is_stopped = true;
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn reschedule(&mut self) {
        let Some(key) = self.any_key() else { return };
        let deadline = self.now + self.delay();
        let moved = self.engine.reschedule(self.now, key, deadline);
        let is_making = self.book.position(key).is_some_and(|at| self.book.timers[at].is_making);
        let expectation = if is_making { Err(NotPending::InFlight) } else { self.expectation(key) };
        match (moved, expectation) {
            (Ok(()), Ok(at)) => {
                let mut timer = self.book.timers.remove(at);
                if let Some(inbox) = timer.owner.and_then(|owner| self.book.inboxes.get_mut(&owner)) {
                    inbox.retain(|sequence| *sequence != timer.sequence);
                }
                // A reset is a new request: it goes behind the timers of the same tick.
                self.book.sequence += 1;
                timer.sequence = self.book.sequence;
                set_payload(&mut self.engine, key, timer.sequence);
                timer.deadline = deadline;
                timer.state = TimerState::Waiting;
                let due = Duration::from_millis(deadline);
                self.engine.set_due(key, due);
                timer.repeats = timer.repeats.map(|repeats| Repeats { due, ..repeats });
                timer.owner = timer.owner.filter(|owner| *owner != self.queue);
                self.book.timers.push(timer);
            }
            (Err(answer), Err(expected)) => assert!(self.agrees(key, answer, expected), "{answer:?}, {expected:?}"),
            other => panic!("{other:?}"),
        }
    }

    fn expire(&mut self) {
        self.now += self.delay();
        let given = if self.rng.below(2) == 0 { self.rng.below(5) } else { 1000 };
        let mut budget = given;
        loop {
            let first = self.book.first_waiting().filter(|timer| timer.deadline <= self.now);
            match self.engine.expire(self.now, None, &mut budget) {
                Ok(Due::Inbox(owner)) => {
                    let first = first.expect("something is due");
                    assert_eq!(first.owner, Some(owner));
                    self.book.inboxes.entry(owner).or_default().push(first.sequence);
                    let at = self.book.position(first.key).unwrap();
                    self.book.timers[at].state = TimerState::Due;
                }
                Ok(Due::Recipient(due)) => {
                    let first = first.expect("something is due");
                    assert_eq!((due.key, due.deadline, due.payload), (first.key, first.deadline, first.sequence));
                    let at = self.book.position(first.key).unwrap();
                    assert_eq!(first.owner, None);
                    let repeats = first.repeats.is_some();
                    self.book.timers[at].state = if repeats { TimerState::Due } else { TimerState::InFlight };
                    self.book.timers[at].is_making = repeats;
                    if self.rng.below(3) == 0 {
                        self.enqueue(at);
                    } else if !repeats {
                        self.finish(first.key);
                    }
                }
                Err(Advance::Done) => {
                    assert_eq!(first, None);
                    break;
                }
                Err(Advance::Exhausted) => {
                    assert_eq!(budget, 0);
                    break;
                }
            }
        }
        assert!(budget <= given);
    }

    /// Puts a message for a recipient into the queue.
    fn enqueue(&mut self, at: usize) {
        let timer = &mut self.book.timers[at];
        self.engine.enqueue(timer.key, self.queue, timer.sequence as u32);
        (timer.state, timer.owner, timer.is_making) = (TimerState::Due, Some(self.queue), false);
        self.book.inboxes.entry(self.queue).or_default().push(timer.sequence);
        self.engine.enqueue(timer.key, self.queue, timer.sequence as u32);
    }

    /// Ends a timer in flight at once, or leaves it there for some time.
    fn finish(&mut self, key: Key) {
        if self.rng.below(4) == 0 {
            return;
        }
        let delivered = self.rng.below(2) == 0;
        let outcome =
            if delivered { Outcome::Delivered } else { Outcome::DeadLettered(DeadLetterReason::RecipientStopped) };
        self.engine.finish(key, outcome);
        self.book.end(key, outcome);
        self.engine.finish(key, Outcome::Delivered);
    }

    fn take_due(&mut self) {
        let owner = self.owners[self.rng.below(3)];
        let first = self.book.inboxes.get(&owner).and_then(|inbox| inbox.first().copied());
        let taken = self.engine.take_due(owner);
        assert_eq!(taken.map(|due| due.payload), first);
        let Some(due) = taken else { return };
        let at = self.book.position(due.key).unwrap();
        if self.book.timers[at].repeats.is_some() {
            self.start_making(owner, at);
        } else {
            self.book.end(due.key, Outcome::Delivered);
        }
    }

    /// A repeating timer has left the inbox, and its message is to be made.
    fn start_making(&mut self, owner: OwnerId, at: usize) {
        self.book.inboxes.get_mut(&owner).unwrap().remove(0);
        let timer = &mut self.book.timers[at];
        (timer.state, timer.is_making) = (TimerState::Due, true);
    }

    fn take_held(&mut self) {
        let owner = self.owners.get(self.rng.below(6)).copied().unwrap_or(self.queue);
        let first = self.book.inboxes.get(&owner).and_then(|inbox| inbox.first().copied());
        let last = self.book.inboxes.get(&owner).and_then(|inbox| inbox.last().copied());
        assert_eq!(self.engine.last_due(owner).and_then(|key| self.engine.payload(key)), last);
        let taken = self.engine.first_due(owner).and_then(|key| self.engine.send_off(key));
        assert_eq!(taken.map(|due| due.payload), first);
        if let Some(due) = taken {
            self.book.inboxes.get_mut(&owner).unwrap().remove(0);
            let at = self.book.position(due.key).unwrap();
            let timer = &mut self.book.timers[at];
            timer.state = TimerState::InFlight;
            timer.owner = timer.owner.filter(|owner| *owner != self.queue);
            if timer.repeats.is_some() {
                (timer.state, timer.is_making) = (TimerState::Due, true);
            } else {
                self.finish(due.key);
            }
        }
    }

    fn end_owner(&mut self) {
        if self.rng.below(4) != 0 {
            return;
        }
        let at = self.rng.below(3);
        let owner = self.owners[at];
        while let Some(payload) = self.engine.cancel_one_of(owner) {
            let timer = *self.book.timers.iter().find(|timer| timer.sequence == payload).unwrap();
            assert_eq!(timer.owner, Some(owner));
            self.book.end(timer.key, Outcome::Cancelled);
        }
        assert_eq!(self.engine.remove_owner(owner), Some("owner"));
        assert_eq!(self.engine.remove_owner(owner), None);
        let is_full = self.book.timers.len() == CAPACITY;
        let late = self.engine.schedule(tag(), self.now, self.now, Some(owner), Timer::new(0, Marks::NONE), None);
        let reason = if is_full { RejectReason::Capacity } else { RejectReason::Closed };
        assert_eq!(late, Err(reason), "an owner that has ended gets no more timers");
        self.book.rejected_full += u64::from(is_full);
        self.book.rejected_closed += u64::from(!is_full);
        // The timers in flight have no owner now, and still have to end.
        for timer in self.book.timers.iter_mut().filter(|timer| timer.owner == Some(owner)) {
            assert_eq!(timer.state, TimerState::InFlight);
            timer.owner = None;
            timer.repeats = timer.repeats.map(|repeats| Repeats { is_stopped: true, ..repeats });
        }
        self.owners[at] = self.engine.add_owner(|_| "owner").unwrap();
    }

    fn check(&self) {
        let counters = self.engine.counters();
        assert!(counters.balance(), "{counters:?}");
        assert_eq!(counters.pending as usize, self.book.timers.len());
        let ended = |outcome: Outcome| self.book.ended.values().filter(|known| **known == outcome).count() as u64;
        assert_eq!(counters.delivered, ended(Outcome::Delivered) + self.book.repeated);
        assert_eq!(counters.cancelled, ended(Outcome::Cancelled));
        let stopped = ended(Outcome::DeadLettered(DeadLetterReason::RecipientStopped)) + self.book.came_back;
        assert_eq!(counters.recipient_stopped, stopped);
        assert_eq!(counters.source_panicked, ended(Outcome::DeadLettered(DeadLetterReason::SourcePanicked)));
        let rejected = (self.book.rejected_full, self.book.rejected_closed);
        assert_eq!((counters.rejected_capacity, counters.rejected_closed), rejected);
        for timer in &self.book.timers {
            let stage = self.engine.timer(timer.key).unwrap().stage;
            let (deadline, owner) = (self.engine.wheel().deadline(timer.key), self.engine.owner_of(timer.key));
            assert_eq!((stage.into(), deadline, owner), (timer.state, Some(timer.deadline), timer.owner));
            assert_eq!(self.engine.wheel().bucket_of(timer.key).is_some(), timer.state == TimerState::Waiting);
            let is_queued = timer.owner == Some(self.queue);
            let number = is_queued.then_some(timer.sequence as u32);
            assert_eq!(self.engine.number_in_queue(timer.key), number);
        }
        self.check_labels();
        for owner in self.owners.iter().chain([&self.queue]) {
            let is_own = |timer: &&Known| timer.owner == Some(*owner) && *owner != self.queue;
            let owned = self.book.timers.iter().filter(is_own).count();
            assert_eq!(self.engine.owned(*owner), owned);
            let first = self.book.inboxes.get(owner).and_then(|inbox| inbox.first());
            let first = self.book.timers.iter().find(|timer| Some(&timer.sequence) == first);
            assert_eq!(self.engine.oldest_due(*owner), first.map(|timer| timer.deadline));
        }
        let repeating = self.book.timers.iter().filter(|timer| timer.repeats.is_some()).count();
        assert_eq!(self.engine.repeating_timers(), repeating);
        let first = self.book.first_waiting().map(|timer| timer.deadline);
        assert!(self.engine.next_wake().is_none_or(|wake| first.is_none_or(|first| wake <= first)));
        assert_eq!(self.engine.wheel().next_expiration().is_none(), first.is_none());
    }
}

impl Run {
    fn check_labels(&self) {
        for timer in &self.book.timers {
            let key = timer.label.map(|(.., key)| text(key));
            assert_eq!(self.engine.key_of(timer.key), key.as_ref());
            assert_eq!(self.engine.group_of(timer.key), timer.group.map(|(name, _)| group(name)).as_ref());
            if let Some(key) = timer.label {
                assert_eq!(self.engine.labels().holder(&scoped(key)), Some(timer.key));
            }
        }
        let labelled = self.book.timers.iter().filter(|timer| timer.is_labelled).count();
        assert_eq!(self.engine.labels().len(), labelled, "ended timers keep no labels");
        for name in 0..2 {
            let members = self.book.timers.iter().filter_map(|timer| timer.group.map(|group| (group, timer.key)));
            let mut members: Vec<(u64, Key)> =
                members.filter(|((known, _), _)| *known == name).map(|((_, number), key)| (number, key)).collect();
            members.sort_unstable();
            assert_eq!(self.engine.labels().group_len(&group(name)), members.len());
            let from = members.get(members.len() / 2).map_or(0, |(number, _)| *number);
            members.retain(|(number, _)| *number >= from);
            assert_eq!(self.engine.labels().members(&group(name), from).collect::<Vec<_>>(), members);
        }
        for choice in 0..6 {
            let scope =
                self.owners.get(choice).map_or(KeyScope::Recipient(choice as u64), |owner| KeyScope::Owner(*owner));
            for key in 0..2 {
                let holder = |kind| self.book.holder((scope, kind, key)).map(|timer| timer.key);
                for kind in 0..2 {
                    assert_eq!(self.engine.labels().holder(&scoped((scope, kind, key))), holder(kind));
                }
                let holders: Vec<Key> =
                    self.engine.labels().holders(scope, &text(key), 0..9).map(|(_, key)| key).collect();
                assert_eq!(holders, (0..2).filter_map(holder).collect::<Vec<Key>>());
            }
        }
    }
}

#[test]
fn the_engine_agrees_with_a_naive_book() {
    for seed in 1..=20 {
        for wheel_size in [2, 3, 8, 256] {
            let mut run = Run::new(seed * 0x9E37_79B9 + wheel_size as u64, wheel_size);
            for _ in 0..300 {
                run.step();
            }
        }
    }
}

/// After a burst storage goes back as far as the last timer that is left, whose name stays.
#[test]
fn storage_goes_back_after_a_burst() {
    let mut engine: Engine<u64, ()> = Engine::new(EngineConfig::default());
    let owner = engine.add_owner(|_| ()).unwrap();
    let timers: Vec<Key> = (0..20_000_u64).map(|at| schedule(&mut engine, 10 + at, Some(owner), at)).collect();
    for (name, timer) in (0..).zip(&timers) {
        engine.set_name(*timer, name);
        engine.label(*timer, Some(scoped((KeyScope::Owner(owner), 0, name as u8))), None);
    }
    assert!(!engine.has_surplus());
    let stays = timers[4_999];
    let ends = |timer: &&Key| **timer != stays;
    timers.iter().filter(ends).for_each(|timer| assert!(engine.cancel(*timer).is_ok()));
    assert!(engine.has_surplus());
    let mut slices = 0;
    while engine.trim(&mut 64) == Advance::Exhausted {
        slices += 1;
    }
    assert!(slices > 500, "in small steps: {slices}");
    assert!(!engine.has_surplus(), "no more can go back before it ends");
    let slots = engine.wheel().slots();
    assert!((5_000..6_000).contains(&slots), "{slots}");
    assert_eq!((engine.named(4_999), engine.named(6_001), engine.named(0)), (Some(stays), None, Some(timers[0])));
    // The lowest slots are taken again; the last timer ends, and all goes back.
    let next = schedule(&mut engine, 7, Some(owner), 1);
    assert!(next.index() < 64, "{next:?}");
    assert!(engine.cancel(next).is_ok() && engine.cancel(stays).is_ok() && engine.has_surplus());
    while engine.trim(&mut 64) == Advance::Exhausted {}
    assert_eq!((engine.wheel().slots(), engine.named(4_999), engine.has_surplus()), (0, None, false));
    assert_eq!(engine.cancel(stays), Err(NotPending::Unknown));
}

/// Timers that come and go after a burst move to the lowest slots, and the storage goes back behind them.
#[test]
fn storage_goes_back_although_some_timers_go_on() {
    let mut engine: Engine<u64, ()> = Engine::new(EngineConfig::default());
    let mut timers: Vec<Key> = (0..20_000_u64).map(|at| schedule(&mut engine, 1000 + at, None, at)).collect();
    let mut going_on = timers.split_off(19_000);
    timers.iter().for_each(|timer| assert!(engine.cancel(*timer).is_ok()));
    let mut trims = 0;
    for _ in 0..4 {
        if engine.has_surplus() {
            trims += 1;
            while engine.trim(&mut 1024) == Advance::Exhausted {}
        }
        for timer in &mut going_on {
            assert!(engine.cancel(*timer).is_ok());
            *timer = schedule(&mut engine, 1000, None, 0);
        }
    }
    assert!(engine.wheel().slots() < 1500 && trims < 4, "{} slots, {trims} trims", engine.wheel().slots());
}

#[test]
fn a_queue_is_removed_only_when_empty() {
    let mut engine: Engine<u64, &str> = Engine::new(EngineConfig::default());
    let queue = engine.add_owner(|_| "queue").unwrap();
    for n in 0..3 {
        let key = schedule(&mut engine, 1, None, n);
        while engine.expire(1, None, &mut 1000) != Err(Advance::Done) {}
        engine.enqueue(key, queue, n as u32);
    }
    assert_eq!(engine.remove_owner(queue), None);
    for n in 0..3 {
        let due = engine.first_due(queue).and_then(|key| engine.send_off(key)).unwrap();
        assert_eq!(due.payload, n);
        engine.finish(due.key, Outcome::Delivered);
    }
    assert_eq!((engine.remove_owner(queue), engine.owners()), (Some("queue"), 0));
    assert_eq!(engine.remove_owner(queue), None);
}

#[test]
fn everything_unfinished_is_given_back_in_order_of_deadline() {
    let mut run = Run::new(7, 4);
    for _ in 0..500 {
        run.step();
    }
    run.engine.close();
    let rejected = run.engine.schedule(tag(), run.now, run.now, None, Timer::new(1, Marks::NONE), None).unwrap_err();
    assert_eq!(rejected, RejectReason::Closed);
    let mut last = 0;
    for (deadline, key) in run.engine.unfinished() {
        assert!(deadline >= last);
        last = deadline;
        let returned = run.engine.give_up(key, Outcome::Returned).unwrap();
        assert_eq!(returned.payload, run.book.end(key, Outcome::Returned));
        assert!(run.engine.give_up(key, Outcome::Returned).is_none());
    }
    assert!(run.book.timers.iter().all(|timer| timer.state == TimerState::InFlight || timer.is_making));
    // The timers in flight are delivered and do not come again.
    for timer in run.book.timers.clone() {
        if timer.repeats.is_some() {
            assert_eq!(run.engine.repeat_as_planned(timer.key, at(run.now)), Repeated::Last(timer.sequence));
        } else {
            run.engine.finish(timer.key, Outcome::Delivered);
        }
    }
    assert_eq!(run.engine.counters().pending, 0);
    assert!(run.engine.counters().balance());
}

#[test]
fn a_delivered_timer_is_remembered_until_its_slot_delivers() {
    let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
    let key = schedule(&mut engine, 0, None, 1);
    assert!(matches!(engine.expire(0, None, &mut 9), Ok(Due::Recipient(_))));
    assert_eq!(engine.cancel(key), Err(NotPending::InFlight));
    assert_eq!(engine.reschedule(0, key, 5), Err(NotPending::InFlight));
    engine.finish(key, Outcome::Delivered);
    assert_eq!(engine.cancel(key), Err(NotPending::Delivered));
    assert_eq!(engine.reschedule(0, key, 5), Err(NotPending::Delivered));
    let next = schedule(&mut engine, 0, None, 2);
    assert_eq!(next.index(), key.index());
    assert_eq!(engine.cancel(key), Err(NotPending::Delivered), "the old key does not reach the new timer");
    assert_eq!(engine.cancel(next), Ok(2));
    assert_eq!(engine.cancel(key), Err(NotPending::Delivered));
    assert_eq!(engine.cancel(next), Err(NotPending::Unknown));
    let last = schedule(&mut engine, 0, None, 3);
    assert_eq!(last.index(), key.index());
    assert!(matches!(engine.expire(0, None, &mut 9), Ok(Due::Recipient(_))));
    engine.finish(last, Outcome::Delivered);
    assert_eq!(engine.cancel(last), Err(NotPending::Delivered));
    assert_eq!(engine.cancel(key), Err(NotPending::Unknown));
    engine.bounce(key, DeadLetterReason::RecipientStopped);
    assert_eq!(engine.cancel(last), Err(NotPending::Delivered));
    engine.bounce(last, DeadLetterReason::RecipientStopped);
    assert_eq!(engine.cancel(last), Err(NotPending::Unknown));
}

#[test]
fn a_name_outlives_its_timer_until_the_slot_is_used_again() {
    let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
    let key = schedule(&mut engine, 10, None, 1);
    engine.set_name(key, 77);
    assert_eq!((engine.named(77), engine.name_of(key)), (Some(key), Some(77)));
    assert_eq!(engine.names_beginning_with(77 >> 4, 4).next(), Some(key));
    let other = schedule(&mut engine, 10, None, 2);
    assert_eq!(engine.cancel(key), Ok(1));
    assert_eq!((engine.named(77), engine.name_of(key)), (Some(key), None));
    assert_eq!(engine.names_beginning_with(77 >> 4, 4).next(), None);
    let reused = schedule(&mut engine, 10, None, 3);
    assert_eq!(reused.index(), key.index());
    assert_eq!(engine.named(77), None);
    engine.set_name(other, 77);
    assert_eq!(engine.named(77), Some(other));
}

#[test]
fn an_owners_timers_are_listed_in_the_order_of_scheduling() {
    let mut engine: Engine<u32, ()> = Engine::new(EngineConfig::default());
    let (owner, other) = (engine.add_owner(|_| ()).unwrap(), engine.add_owner(|_| ()).unwrap());
    assert!(engine.own_slots(owner).is_empty());
    let mut timers: Vec<Key> = (0..200).map(|number| schedule(&mut engine, 10, Some(owner), number)).collect();
    let slots = engine.own_slots(owner);
    let listed = |engine: &Engine<u32, ()>, slots: &[u32]| -> Vec<Key> {
        slots.iter().filter_map(|slot| engine.own_timer_in(*slot, owner)).collect()
    };
    assert_eq!(listed(&engine, &slots), timers);
    for (at, takes_its_slot) in [(100, false), (0, true)] {
        assert!(engine.cancel(timers.remove(at)).is_ok());
        if takes_its_slot {
            schedule(&mut engine, 10, Some(other), 999);
        }
    }
    assert_eq!(listed(&engine, &slots), timers, "one has ended, and one slot is another owner's");
    assert_eq!(listed(&engine, &engine.own_slots(owner)), timers);
}

/// The wall clock was stepped between the two schedules: one deadline is still the earlier estimate.
#[test]
fn a_timer_moved_within_its_tick_comes_after_one_moved_into_it() {
    let second = Duration::from_secs(1);
    let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
    for (payload, deadline) in [(1, 30_000), (2, 20_000), (3, 30_000)] {
        let key = engine.schedule(tag(), 1000, deadline, None, Timer::new(payload, Marks::NONE), None).unwrap();
        engine.set_wall_time(key, 30 * second);
    }
    engine.follow_wall_clock(1000, 11 * second);
    let mut order = Vec::new();
    while let Ok(Due::Recipient(due)) = engine.expire(20_000, Some(30 * second), &mut 99) {
        order.push((due.payload, due.deadline));
    }
    assert_eq!(order, [(1, 20_000), (2, 20_000), (3, 20_000)]);
}

/// There is no later tick in which to wait for its wall-clock time.
#[test]
fn a_timer_on_the_wall_clock_is_due_at_the_end_of_time() {
    for end in [MAX_TICK, Tick::MAX] {
        let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
        let key = schedule(&mut engine, 1000, None, 1);
        engine.set_wall_time(key, Duration::from_secs(11));
        let due = engine.expire(end, Some(Duration::from_secs(10)), &mut 99);
        assert!(matches!(due, Ok(Due::Recipient(due)) if due.payload == 1), "{due:?}");
    }
}

/// Only the first repetition was set to a wall-clock time: a wall clock that is set back delays none of the others, and
/// one set forward advances none.
#[test]
fn only_a_repetition_with_a_time_of_day_follows_the_wall_clock() {
    let second = Duration::from_secs(1);
    let period = 5 * second;
    let fixed_rate = RepeatMode::FixedRate { period, missed: MissedTickBehavior::Skip };
    for (mode, until_handled) in [(fixed_rate, false), (RepeatMode::FixedDelay { period }, true)] {
        let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
        let key = schedule(&mut engine, 1000, None, 1);
        engine.set_wall_time(key, 11 * second);
        engine.set_recurrence(key, Recurrence::new(mode, second).at(11 * second));
        assert!(matches!(engine.expire(1000, Some(11 * second), &mut 99), Ok(Due::Recipient(_))));
        let next = engine.recurrence(key).unwrap().after_this(at(1000), until_handled);
        assert_eq!(next == NextRun::AfterHandler, until_handled);
        let repeated = engine.repeat(key, next, at(1000));
        assert_eq!((engine.wall_time(key), engine.wall_timers()), (None, 0));
        if until_handled {
            assert_eq!(repeated, Repeated::Between);
            assert_eq!(engine.resume(key, at(1000)), Repeated::Armed(6000));
        } else {
            assert_eq!(repeated, Repeated::Armed(6000));
        }
        engine.follow_wall_clock(1000, 100 * second);
        assert_eq!(engine.wheel().deadline(key), Some(6000));
        assert!(
            matches!(engine.expire(6000, Some(Duration::ZERO), &mut 99), Ok(Due::Recipient(due)) if due.deadline == 6000)
        );
    }
}

#[test]
fn a_missed_repetition_does_not_wait_for_the_next_tick() {
    let micros = Duration::from_micros;
    let mode = RepeatMode::FixedRate { period: micros(100), missed: MissedTickBehavior::Burst };
    for due in [10_200, 10_500] {
        let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
        let key = schedule(&mut engine, 0, None, 1);
        engine.set_recurrence(key, Recurrence::new(mode, micros(due - 100)));
        assert!(matches!(engine.expire(10, None, &mut 99), Ok(Due::Recipient(_))));
        let now = ClockReading { time: micros(10_500), wall: None };
        let next = engine.recurrence(key).unwrap().after_this(now, false);
        assert_eq!(next, NextRun::At { due: micros(due), wall: None });
        assert_eq!(engine.repeat(key, next, now), Repeated::Armed(10));
    }
}

#[test]
fn a_capacity_beyond_the_slots_of_the_wheel_is_reduced() {
    let config = EngineConfig { capacity: usize::MAX, ..EngineConfig::default() };
    let engine: Engine<u8, ()> = Engine::new(config);
    assert_eq!(engine.config().capacity, 4_294_967_294);
}

/// An actor prefetches the upcoming messages whenever their chunk changes.
#[test]
fn upcoming_messages_of_each_chunk_are_all_messages() {
    let mut engine: Engine<u32, ()> = Engine::new(EngineConfig::default());
    let owner = engine.add_owner(|_| ()).unwrap();
    for payload in 0..100 {
        schedule(&mut engine, 1, Some(owner), payload);
    }
    while engine.expire(1, None, &mut 1000) != Err(Advance::Done) {}
    let (mut chunk, mut fetched, mut taken) = (None, Vec::new(), Vec::new());
    while let Some(next) = engine.first_due(owner).and_then(|key| engine.payload(key)) {
        let upcoming = engine.upcoming_chunk(owner);
        if std::mem::replace(&mut chunk, upcoming) != upcoming {
            fetched.extend(engine.upcoming(owner));
        }
        assert!(fetched.contains(&next));
        taken.extend(engine.take_due(owner).map(|due| due.payload));
    }
    assert_eq!(taken, (0..100).collect::<Vec<_>>());
    assert_eq!(fetched, taken, "each once");
    engine.remove_owner(owner).unwrap();
    assert_eq!(engine.upcoming_chunk(owner), None);
}

/// However they end; and a timer that takes another place in its owner's list still keeps its actor alive.
#[test]
fn the_end_of_the_last_timer_keeping_its_actor_is_reported() {
    let mut engine: Engine<u8, ()> = Engine::new(EngineConfig::default());
    let owner = engine.add_owner(|_| ()).unwrap();
    let schedule = |engine: &mut Engine<u8, ()>, keeps| {
        engine.schedule(tag(), 0, 10, Some(owner), Timer::new(0, Marks::keeping(keeps)), None).unwrap()
    };
    let other = schedule(&mut engine, false);
    assert!(!engine.keeps_alive(owner));
    let first = schedule(&mut engine, true);
    assert_eq!(engine.cancel(first), Ok(0));
    assert!(engine.released().is_empty(), "it was not asked for");
    let [cancelled, delivered] = [schedule(&mut engine, true), schedule(&mut engine, true)];
    assert!(engine.keeps_alive(owner));
    assert_eq!(engine.cancel(cancelled), Ok(0));
    assert!(engine.released().is_empty() && engine.keeps_alive(owner), "there is another one");
    while engine.expire(10, None, &mut 9) != Err(Advance::Done) {}
    assert_eq!(engine.take_due(owner).map(|due| due.key), Some(other));
    assert!(engine.released().is_empty());
    assert_eq!(engine.take_due(owner).map(|due| due.key), Some(delivered));
    assert_eq!(engine.take_released(), [owner]);
    assert!(engine.released().is_empty());
    assert!(!engine.keeps_alive(owner));
}

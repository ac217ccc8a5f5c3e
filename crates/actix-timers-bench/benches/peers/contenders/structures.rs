//! The bare structures, without a clock, and the life of their entries of 16 bytes: each does the same work in the same
//! loop.

use std::future::poll_fn;
use std::hint::black_box;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix_timers::timing::{Advance, Key, Wheel};
use bench::quad_heap::{Handle, QuadHeap};
use bench::random::Random;
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use nexus_timer::store::SlabStore;
use nexus_timer::{BoundedWheel, TimerHandle, TimerWheel, WheelEntry};
use tokio::runtime::{Builder, Runtime};
use tokio::time;
use tokio_util::time::{DelayQueue, delay_queue};

use crate::rounds::Life;

pub(crate) type Payload = [u64; 2];

/// The most entries that expire in one turn, where turns are bounded.
const BUDGET: usize = 4096;

/// A store of values until their deadline.
pub(crate) trait Structure {
    /// The handle of an entry.
    type Key;

    /// Stores entry `number` until `deadline`, in milliseconds from the beginning. No two entries have the same number.
    fn insert(&mut self, deadline: u64, number: u64) -> Self::Key;

    /// Stores an entry that is not removed.
    fn insert_to_stay(&mut self, deadline: u64, number: u64) {
        self.insert(deadline, number);
    }

    /// Removes an entry; fails if it is not there.
    fn remove(&mut self, key: Self::Key);

    fn len(&self) -> usize;

    /// Expires all entries, as on a clock that jumps from one deadline to the next. Returns their number.
    fn expire(&mut self) -> usize;
}

/// The operations of `workloads/life.rs`.
pub(crate) fn live(life: &mut Life, size: usize, structure: &mut impl Structure) {
    let mut random = Random::new(1);
    let mut keys = Vec::with_capacity(size);
    let mut numbers = 0..u64::MAX;
    let mut next = move || numbers.next().unwrap_or_default();
    life.each("start", size, || keys.push(structure.insert(random.delay_ms(), next())));
    if life.wants("churn") {
        life.each("churn", size, || {
            let fresh = structure.insert(random.delay_ms(), next());
            structure.remove(mem::replace(&mut keys[random.index(size)], fresh));
        });
    }
    if life.wants("steady-start") {
        random.shuffle(&mut keys);
        keys.drain(size / 2..).for_each(|key| structure.remove(key));
        life.each("steady-start", size - size / 2, || keys.push(structure.insert(random.delay_ms(), next())));
    }
    assert_eq!(structure.len(), size);
    random.shuffle(&mut keys);
    let mut keys = keys.into_iter();
    life.each("stop", size, || keys.by_ref().take(1).for_each(|key| structure.remove(key)));
    assert_eq!(structure.len(), 0);
}

pub(crate) fn expire(life: &mut Life, size: usize, structure: &mut impl Structure) {
    let mut random = Random::new(1);
    (0..size as u64).for_each(|number| structure.insert_to_stay(random.delay_ms(), number));
    assert_eq!(life.time("expire", size, || structure.expire()), size);
}

impl Structure for Wheel<Payload> {
    type Key = Key;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> Key {
        self.insert(0, deadline, [number; 2]).unwrap()
    }

    #[inline]
    fn remove(&mut self, key: Key) {
        black_box(self.cancel(key).unwrap());
    }

    fn len(&self) -> usize {
        self.len()
    }

    /// In bounded turns from one wake-up to the next, as a driver does.
    fn expire(&mut self) -> usize {
        let mut due = Vec::with_capacity(BUDGET);
        let (mut expired, mut now) = (0, 0);
        while let Some(next) = self.next_expiration() {
            now = next.max(now);
            loop {
                let progress = self.advance(now, BUDGET, &mut due);
                expired += black_box(&due).len();
                due.clear();
                if progress != Advance::Exhausted {
                    break;
                }
            }
        }
        expired
    }
}

/// `DelayQueue` of tokio-util: a hierarchical wheel of six levels of 64 buckets, in ticks of a millisecond.
pub(crate) struct Queue<'r, const WORDS: usize, const READS_CLOCK: bool> {
    entries: DelayQueue<[u64; WORDS]>,
    origin: time::Instant,
    runtime: &'r Runtime,
}

/// With absolute deadlines, like a bare wheel.
pub(crate) type QueueAt<'r> = Queue<'r, 2, false>;
/// With delays, like an actor's context, and a message of 32 bytes.
pub(crate) type QueueAfter<'r> = Queue<'r, 4, true>;

/// Works with a queue on a runtime, because it sets a tokio sleep to its first deadline. Entries expire on a paused clock.
pub(crate) fn with_queue<const WORDS: usize, const READS_CLOCK: bool>(
    is_paused: bool,
    work: impl FnOnce(&mut Queue<'_, WORDS, READS_CLOCK>),
) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(is_paused).build().unwrap();
    let _inside = runtime.enter();
    work(&mut Queue { entries: DelayQueue::new(), origin: time::Instant::now(), runtime: &runtime });
}

impl<const WORDS: usize, const READS_CLOCK: bool> Structure for Queue<'_, WORDS, READS_CLOCK> {
    type Key = delay_queue::Key;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> delay_queue::Key {
        let (value, delay) = ([number; WORDS], Duration::from_millis(deadline));
        if READS_CLOCK { self.entries.insert(value, delay) } else { self.entries.insert_at(value, self.origin + delay) }
    }

    #[inline]
    fn remove(&mut self, key: delay_queue::Key) {
        black_box(self.entries.remove(&key));
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// In the order of their deadlines, all of which have passed.
    fn expire(&mut self) -> usize {
        self.runtime.block_on(async {
            time::advance(Duration::from_secs(3601)).await;
            let mut expired = 0;
            while let Some(entry) = poll_fn(|context| self.entries.poll_expired(context)).await {
                black_box(entry.into_inner());
                expired += 1;
            }
            expired
        })
    }
}

/// The crate `nexus-timer`: seven levels of 64 buckets, each eight times as wide as the one below; linked lists of
/// entries, addressed by pointers that are unlinked without a search or a check.
///
/// As its documentation recommends: the default configuration, with memory that grows in chunks of 4096 entries or with
/// a capacity that is known in advance, and the poll that also moves entries to lower levels. A handle belongs to one
/// wheel and one thread, and has to be given back; a dropped one leaks its entry.
pub(crate) struct Nexus<S: SlabStore<Item = WheelEntry<Payload>>> {
    wheel: TimerWheel<Payload, S>,
    origin: Instant,
}

pub(crate) fn nexus() -> Nexus<impl SlabStore<Item = WheelEntry<Payload>>> {
    const CHUNK: usize = 4096;
    let origin = Instant::now();
    Nexus { wheel: nexus_timer::Wheel::unbounded(CHUNK, origin), origin }
}

/// With room for all, and for the one more that a churn schedules before it cancels.
pub(crate) fn bounded_nexus(size: usize) -> Nexus<impl SlabStore<Item = WheelEntry<Payload>>> {
    let origin = Instant::now();
    Nexus { wheel: BoundedWheel::bounded(size + 1, origin), origin }
}

impl<S: SlabStore<Item = WheelEntry<Payload>>> Structure for Nexus<S> {
    type Key = TimerHandle<Payload>;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> TimerHandle<Payload> {
        self.wheel.schedule(self.origin + Duration::from_millis(deadline), [number; 2])
    }

    fn insert_to_stay(&mut self, deadline: u64, number: u64) {
        self.wheel.schedule_forget(self.origin + Duration::from_millis(deadline), [number; 2]);
    }

    #[inline]
    fn remove(&mut self, handle: TimerHandle<Payload>) {
        black_box(self.wheel.cancel(handle).unwrap());
    }

    fn len(&self) -> usize {
        self.wheel.len()
    }

    /// In bounded turns. Each poll is a microsecond after the deadline, as after a sleep: at the very moment that
    /// `next_deadline` names, its division by the tick rounds down, and nothing is due.
    fn expire(&mut self) -> usize {
        let (mut due, mut expired) = (Vec::with_capacity(BUDGET), 0);
        while let Some(next) = self.wheel.next_deadline() {
            self.wheel.poll_and_rebalance_with_limit(next + Duration::from_micros(1), BUDGET, &mut due);
            expired += black_box(&due).len();
            due.clear();
        }
        expired
    }
}

impl Structure for QuadHeap<Payload> {
    type Key = Handle;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> Handle {
        self.insert(deadline, [number; 2])
    }

    #[inline]
    fn remove(&mut self, handle: Handle) {
        black_box(self.remove(handle).unwrap());
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expire(&mut self) -> usize {
        let (mut expired, mut before) = (0, 0);
        while let Some((deadline, value)) = self.pop() {
            assert!(before <= deadline, "in order");
            before = deadline;
            black_box(value);
            expired += 1;
        }
        expired
    }
}

/// The crate `hierarchical_hash_wheel_timer`: four wheels of 256 buckets and a hash map from ids to entries. A cancel
/// removes the entry from the map; its rest in the wheel is freed when its bucket is reached. The wheel does not tell
/// the number of its entries.
#[derive(Default)]
pub(crate) struct HashWheel {
    wheel: QuadWheelWithOverflow<Entry>,
    len: usize,
}

/// A payload, the first half of which is the id.
#[derive(Debug)]
pub(crate) struct Entry(Payload);

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0[0]
    }
}

impl Structure for HashWheel {
    type Key = u64;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> u64 {
        let entry = Rc::new(Entry([number; 2]));
        self.wheel.insert_ref_with_delay(entry, Duration::from_millis(deadline)).unwrap();
        self.len += 1;
        number
    }

    #[inline]
    fn remove(&mut self, id: u64) {
        self.wheel.cancel(&id).unwrap();
        self.len -= 1;
    }

    fn len(&self) -> usize {
        self.len
    }

    fn expire(&mut self) -> usize {
        let mut expired = 0;
        loop {
            match self.wheel.can_skip() {
                Skip::Empty => return expired,
                Skip::Millis(ticks) => self.wheel.skip(ticks),
                Skip::None => {}
            }
            expired += black_box(self.wheel.tick()).len();
        }
    }
}

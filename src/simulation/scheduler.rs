//! The threads of a simulation, and the choice between them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use generator::{Generator, Gn};

use crate::service::owner::thread_registry;
use crate::service::owner::thread_registry::ThreadRegistry;

/// Nanoseconds of virtual time.
pub(super) type Nanos = u64;

const MILLISECOND: Nanos = 1_000_000;

/// The stack size of a thread, in words.
const STACK: usize = if cfg!(debug_assertions) { 0x4_0000 } else { 0x1_0000 };

/// The greatest number of steps. A simulation that takes more does not terminate.
const MAX_STEPS: u64 = 400_000;

/// The greatest number of points at which one thread continues while others could run.
const MAX_RUN: u32 = 400;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    /// Whether a thread of the simulation runs.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Coroutines that have ended, for reuse.
    static IDLE: RefCell<Vec<Generator<'static, (), ()>>> = const { RefCell::new(Vec::new()) };
    /// The work of the next coroutine to begin.
    static JOB: RefCell<Option<Job>> = const { RefCell::new(None) };
    /// Whether the last coroutine has completed its work.
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
}

type Job = Box<dyn FnOnce()>;

/// The payload of a panic that ends a thread together with its simulation.
struct Ended;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runnable,
    /// It waits for a wake-up, or a time.
    Rests(Option<Nanos>),
    /// It is kept busy until a time, holding no lock.
    Busy(Nanos),
    /// It was preempted, anywhere.
    Preempted(Nanos),
    /// It waits for a lock.
    Waits(usize),
    /// It waits for a notification of a condition, or a time.
    Listens(usize, Option<Nanos>),
    Done,
}

struct Thread {
    name: &'static str,
    state: State,
    /// It was unparked while it was not parked.
    token: bool,
    timed_out: bool,
    priority: u64,
    job: Option<Job>,
    coroutine: Option<Generator<'static, (), ()>>,
    places: ThreadRegistry,
}

/// The strategy that chooses the next thread.
#[derive(Debug, Clone, Copy)]
struct Strategy {
    /// One in `switch` points is a switch.
    switch: u64,
    /// One in `preempt` points is a longer preemption; never, if 0.
    preempt: u64,
    /// Whether the runnable thread of highest priority runs, instead of any.
    by_priority: bool,
}

struct World {
    random: u64,
    now: Nanos,
    threads: Vec<Thread>,
    current: usize,
    alarms: BTreeMap<(Nanos, u64), Waker>,
    last_alarm: u64,
    strategy: Strategy,
    steps: u64,
    run: u32,
    digest: u64,
    failure: Option<String>,
}

impl World {
    /// xorshift64*.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random() % bound.max(1)
    }

    /// Returns whether the running thread stops here.
    fn stops(&mut self) -> bool {
        self.steps += 1;
        self.run += 1;
        let strategy = self.strategy;
        if strategy.preempt > 0 && self.below(strategy.preempt) == 0 {
            let longest = [1, 3, 21, 25, 45][self.below(5) as usize] * MILLISECOND;
            let until = self.now + 1 + self.below(longest);
            self.threads[self.current].state = State::Preempted(until);
            return true;
        }
        if self.run > MAX_RUN {
            self.demote();
            return true;
        }
        if self.below(strategy.switch) == 0 {
            if strategy.by_priority && self.below(2) == 0 {
                self.demote();
            }
            return true;
        }
        false
    }

    fn demote(&mut self) {
        let lowest = self.threads.iter().map(|thread| thread.priority).min().unwrap_or(0);
        self.threads[self.current].priority = lowest.saturating_sub(1);
    }

    /// Returns the next thread to run.
    fn choose(&mut self) -> Option<usize> {
        let runnable = |thread: &Thread| thread.state == State::Runnable;
        let count = self.threads.iter().filter(|thread| runnable(thread)).count();
        if count == 0 {
            return None;
        }
        if self.strategy.by_priority {
            let highest = self.threads.iter().enumerate().filter(|(_, thread)| runnable(thread));
            return highest.max_by_key(|(_, thread)| thread.priority).map(|(index, _)| index);
        }
        let chosen = self.below(count as u64) as usize;
        self.threads.iter().enumerate().filter(|(_, thread)| runnable(thread)).map(|(index, _)| index).nth(chosen)
    }

    /// Returns the time of the next alarm or the end of the next wait.
    fn next_event(&self) -> Option<Nanos> {
        let threads = self.threads.iter().filter_map(|thread| match thread.state {
            State::Rests(until) | State::Listens(_, until) => until,
            State::Busy(until) | State::Preempted(until) => Some(until),
            State::Runnable | State::Waits(_) | State::Done => None,
        });
        threads.chain(self.alarms.keys().map(|(time, _)| *time)).min()
    }

    /// Advances time to `time`. Returns the wakers of expired alarms.
    fn pass(&mut self, time: Nanos) -> Vec<Waker> {
        self.now = self.now.max(time);
        let now = self.now;
        for thread in &mut self.threads {
            let is_over = match thread.state {
                State::Rests(until) | State::Listens(_, until) => until.is_some_and(|until| until <= now),
                State::Busy(until) | State::Preempted(until) => until <= now,
                State::Runnable | State::Waits(_) | State::Done => false,
            };
            if is_over {
                thread.state = State::Runnable;
                thread.timed_out = true;
            }
        }
        let later = self.alarms.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.alarms, later).into_values().collect()
    }

    fn stillness(&self) -> Stillness {
        let all = |is: fn(State) -> bool| self.threads.iter().all(|thread| is(thread.state));
        if all(|state| matches!(state, State::Rests(_) | State::Listens(..) | State::Done)) {
            Stillness::Rest
        } else if all(|state| matches!(state, State::Rests(_) | State::Listens(..) | State::Busy(_) | State::Done)) {
            Stillness::Busy
        } else {
            Stillness::Disturbed
        }
    }
}

/// The state of the threads when none can run before time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stillness {
    /// All threads wait for work.
    Rest,
    /// Some are kept busy, but hold no lock.
    Busy,
    /// Some were preempted, and may hold locks that others wait for.
    Disturbed,
}

fn with<R>(change: impl FnOnce(&mut World) -> R) -> Option<R> {
    WORLD.with_borrow_mut(|world| world.as_mut().map(change))
}

/// Returns whether the caller is a thread of a simulation.
pub(super) fn is_inside() -> bool {
    INSIDE.get()
}

/// Switches to another thread, if the strategy chooses to.
pub(super) fn point() {
    if INSIDE.get() && !std::thread::panicking() && with(World::stops) == Some(true) {
        leave();
    }
}

/// Lets other threads run, and time pass: the caller may be waiting for one that is kept busy.
pub(super) fn give_way() {
    const WHILE: Nanos = 1_000;
    let until = with(|world| {
        world.steps += 1;
        world.demote();
        world.now + WHILE
    });
    suspend(State::Preempted(until.unwrap_or_default()));
}

#[allow(deprecated, reason = "the other way needs a handle in each function between here and the start of the thread")]
fn leave() {
    generator::yield_with(());
}

/// Suspends the thread until it is runnable again; ends it with the simulation.
fn suspend(state: State) -> bool {
    let index = with(|world| {
        let current = world.current;
        let thread = &mut world.threads[current];
        thread.timed_out = false;
        thread.state = state;
        current
    });
    leave();
    let ends = WORLD.with_borrow(Option::is_none);
    if ends && !std::thread::panicking() {
        resume_unwind(Box::new(Ended));
    }
    index.and_then(|index| with(|world| world.threads[index].timed_out)).unwrap_or(true)
}

/// Waits until `lock` is released.
pub(super) fn wait(lock: usize) {
    suspend(State::Waits(lock));
}

/// Waits for a notification of `condition`, or until a time. Returns whether that time has come.
pub(super) fn listen(condition: usize, until: Option<Nanos>) -> bool {
    suspend(State::Listens(condition, until))
}

/// Makes the threads that wait for `lock` runnable.
pub(super) fn release(lock: usize) {
    with(|world| {
        for thread in world.threads.iter_mut().filter(|thread| thread.state == State::Waits(lock)) {
            thread.state = State::Runnable;
        }
    });
}

/// Notifies one of the threads that wait on `condition`.
pub(super) fn call(condition: usize) {
    with(|world| {
        let listens = |thread: &&mut Thread| matches!(thread.state, State::Listens(at, _) if at == condition);
        if let Some(thread) = world.threads.iter_mut().find(listens) {
            thread.state = State::Runnable;
        }
    });
}

/// Waits for a wake-up, or until a time.
pub(super) fn park(until: Option<Nanos>) {
    point();
    let called = with(|world| {
        let current = world.current;
        std::mem::take(&mut world.threads[current].token)
    });
    if called != Some(true) {
        suspend(State::Rests(until));
        with(|world| {
            let current = world.current;
            world.threads[current].token = false;
        });
    }
}

/// Wakes a thread. No other thread runs before the caller continues: it may hold a lock unknown to the simulation.
pub(super) fn unpark(index: usize) {
    with(|world| {
        if let Some(thread) = world.threads.get_mut(index) {
            thread.token = true;
            if matches!(thread.state, State::Rests(_)) {
                thread.state = State::Runnable;
            }
        }
    });
}

pub(super) fn current() -> usize {
    with(|world| world.current).unwrap_or(usize::MAX)
}

/// Returns the virtual time.
pub fn now() -> Nanos {
    with(|world| world.now).unwrap_or(0)
}

/// Returns a random number below `bound`, derived from the seed.
pub fn random(bound: u64) -> u64 {
    with(|world| world.below(bound)).unwrap_or(0)
}

/// Returns a number derived from the seed, on a thread of a simulation, which must not depend on the system's
/// randomness.
pub(crate) fn unguessable() -> Option<u64> {
    if !INSIDE.get() {
        return None;
    }
    with(|world| world.random() << 32 ^ world.random())
}

/// Lets the thread wait, without work, for this time.
pub fn rest(time: Nanos) {
    let until = now() + time;
    while now() < until {
        suspend(State::Rests(Some(until)));
    }
}

/// Keeps the thread busy for this time.
pub fn stall(time: Nanos) {
    let until = now() + time;
    suspend(State::Busy(until));
}

/// Sets an alarm and returns its number, which is `number` if an earlier alarm, not yet expired, had that.
pub(super) fn set_alarm(time: Nanos, waker: &Waker, number: Option<u64>) -> u64 {
    with(|world| {
        let number = number.unwrap_or_else(|| {
            world.last_alarm += 1;
            world.last_alarm
        });
        (number, world.alarms.insert((time, number), waker.clone()))
    })
    .map_or(0, |(number, _earlier)| number)
}

pub(super) fn drop_alarm(time: Nanos, number: u64) {
    drop(with(|world| world.alarms.remove(&(time, number))));
}

/// Starts a thread.
pub fn spawn(name: &'static str, run: impl FnOnce() + 'static) -> usize {
    with(|world| {
        let priority = (1 << 32) + world.random();
        world.threads.push(Thread {
            name,
            state: State::Runnable,
            token: false,
            timed_out: false,
            priority,
            job: Some(Box::new(run)),
            coroutine: None,
            places: ThreadRegistry::default(),
        });
        world.threads.len() - 1
    })
    .unwrap_or(usize::MAX)
}

/// A simulation: there is one at a time on a thread.
pub struct Simulation(());

impl Simulation {
    pub fn new(seed: u64) -> Self {
        // splitmix64, so that consecutive seeds are unrelated.
        let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let mut world = World {
            random: (mixed ^ (mixed >> 31)) | 1,
            now: 0,
            threads: Vec::new(),
            current: 0,
            alarms: BTreeMap::new(),
            last_alarm: 0,
            strategy: Strategy { switch: 1, preempt: 0, by_priority: false },
            steps: 0,
            run: 0,
            digest: seed,
            failure: None,
        };
        world.strategy = Strategy {
            switch: [2, 6, 20, 60][world.below(4) as usize],
            preempt: [0, 40, 150, 500][world.below(4) as usize],
            by_priority: world.below(2) == 0,
        };
        WORLD.replace(Some(world));
        Self(())
    }

    /// Abandons a failed simulation: the stacks of its threads are leaked, since they may be in any state.
    pub fn abandon(&self) {
        if let Some(world) = WORLD.take() {
            world.threads.into_iter().filter_map(|thread| thread.coroutine).for_each(std::mem::forget);
        }
    }

    /// Returns the number of steps so far, and a digest of the threads that took them.
    pub fn digest(&self) -> (u64, u64) {
        with(|world| (world.steps, world.digest)).unwrap_or_default()
    }

    /// Runs until all threads wait and no event is pending, or until time `end`. Whenever no thread can run before time
    /// passes, calls `still` with the state of the threads and the time of the next event.
    ///
    /// # Errors
    /// A thread panicked, a deadlock, or the simulation does not terminate.
    pub fn run(
        &self,
        end: Nanos,
        mut still: impl FnMut(Stillness, Option<Nanos>) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            while let Some(index) = with(World::choose).flatten() {
                self.resume(index);
                if let Some(failure) = with(|world| world.failure.take()).flatten() {
                    return Err(failure);
                }
                if with(|world| world.steps).unwrap_or(0) > MAX_STEPS {
                    return Err(format!("the simulation does not terminate: {}", self.states()));
                }
            }
            let (stillness, next) =
                with(|world| (world.stillness(), world.next_event())).unwrap_or((Stillness::Rest, None));
            still(stillness, next)?;
            match next {
                // A preempted thread continues, even after the end.
                Some(next) if next <= end || stillness == Stillness::Disturbed => {
                    let woken = with(|world| world.pass(next)).unwrap_or_default();
                    woken.into_iter().for_each(Waker::wake);
                }
                _ if stillness == Stillness::Disturbed => return Err(format!("a deadlock: {}", self.states())),
                _ => return Ok(()),
            }
        }
    }

    fn states(&self) -> String {
        with(|world| {
            // Without addresses, which differ from run to run.
            let state = |thread: &Thread| match thread.state {
                State::Waits(_) => "waits for a lock".to_owned(),
                State::Listens(_, until) => format!("waits on a condition until {until:?}"),
                state => format!("{state:?}"),
            };
            let threads = world.threads.iter().map(|thread| format!("{}: {}", thread.name, state(thread)));
            threads.collect::<Vec<_>>().join(", ")
        })
        .unwrap_or_default()
    }

    /// Runs a thread until it stops.
    fn resume(&self, index: usize) {
        let (coroutine, job, mut places) = with(|world| {
            world.current = index;
            world.run = 0;
            world.digest = (world.digest ^ index as u64 ^ (world.steps << 8)).wrapping_mul(0x100_0000_01B3);
            let thread = &mut world.threads[index];
            (thread.coroutine.take(), thread.job.take(), std::mem::take(&mut thread.places))
        })
        .unwrap_or_default();
        let mut coroutine = coroutine.unwrap_or_else(fresh);
        if job.is_some() {
            JOB.replace(job);
        }
        thread_registry::swap(&mut places);
        INSIDE.set(true);
        coroutine.resume();
        INSIDE.set(false);
        thread_registry::swap(&mut places);
        let is_done = with(|world| {
            let thread = &mut world.threads[index];
            thread.places = places;
            thread.state == State::Done
        });
        if is_done == Some(true) {
            IDLE.with_borrow_mut(|idle| idle.push(coroutine));
        } else {
            with(|world| world.threads[index].coroutine = Some(coroutine));
        }
    }
}

impl Drop for Simulation {
    /// Ends all waiting threads.
    fn drop(&mut self) {
        let Some(world) = WORLD.take() else { return };
        for thread in world.threads {
            let Some(mut coroutine) = thread.coroutine else { continue };
            if std::thread::panicking() {
                std::mem::forget(coroutine);
                continue;
            }
            let mut places = thread.places;
            thread_registry::swap(&mut places);
            IS_DONE.set(false);
            INSIDE.set(true);
            for _ in 0..MAX_RUN {
                coroutine.resume();
                if IS_DONE.get() {
                    break;
                }
            }
            INSIDE.set(false);
            thread_registry::swap(&mut places);
            if IS_DONE.get() {
                IDLE.with_borrow_mut(|idle| idle.push(coroutine));
            } else {
                std::mem::forget(coroutine);
            }
        }
    }
}

/// Returns a coroutine that runs one job after another.
fn fresh() -> Generator<'static, (), ()> {
    IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        Gn::new_opt(STACK, || {
            loop {
                if let Some(job) = JOB.take() {
                    let ended = catch_unwind(AssertUnwindSafe(job));
                    with(|world| {
                        let current = world.current;
                        world.threads[current].state = State::Done;
                        if let Err(panic) = &ended
                            && !panic.is::<Ended>()
                        {
                            let name = world.threads[current].name;
                            world.failure.get_or_insert_with(|| format!("{name} panicked: {}", text_of(&**panic)));
                        }
                    });
                    IS_DONE.set(true);
                }
                leave();
            }
        })
    })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

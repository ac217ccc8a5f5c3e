//! Locks, atomics and threads as in the standard library, with a possible switch of threads at each operation. On a
//! thread outside of a simulation they are those of the standard library; created within a [model](super::model), they
//! are loom's.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{self, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::model::is_modelled;
use super::scheduler::{self, Nanos, is_inside, point};

#[derive(Debug)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
    /// Locked before `inner`.
    modelled: Option<loom::sync::Mutex<()>>,
    /// The simulation that holds it. Threads outside, such as other tests that publish all counters, let it go by
    /// themselves.
    holder: atomic::AtomicUsize,
}

/// Returns the number of the simulation of this thread, which is not 0; it is the same for all its simulated threads.
fn simulation() -> usize {
    std::thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}

pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    inner: Option<std::sync::MutexGuard<'a, T>>,
    modelled: Option<loom::sync::MutexGuard<'a, ()>>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self { modelled: is_modelled().then(loom::sync::Mutex::default), ..Self::new(T::default()) }
    }
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self { inner: std::sync::Mutex::new(value), modelled: None, holder: atomic::AtomicUsize::new(0) }
    }

    fn place(&self) -> usize {
        std::ptr::from_ref(&self.inner) as usize
    }

    fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        if is_inside() {
            self.holder.store(simulation(), Ordering::Relaxed);
        }
        MutexGuard { lock: self, inner: Some(inner), modelled: None }
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if !is_inside() {
            let modelled =
                self.modelled.as_ref().map(|modelled| modelled.lock().unwrap_or_else(PoisonError::into_inner));
            let with = |inner| {
                let mut guard = self.guard(inner);
                guard.modelled = modelled;
                guard
            };
            return match self.inner.lock() {
                Ok(inner) => Ok(with(inner)),
                Err(poisoned) => Err(PoisonError::new(with(poisoned.into_inner()))),
            };
        }
        point();
        loop {
            match self.inner.try_lock() {
                Ok(inner) => return Ok(self.guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Err(PoisonError::new(self.guard(poisoned.into_inner())));
                }
                Err(TryLockError::WouldBlock) if self.holder.load(Ordering::Relaxed) == simulation() => {
                    scheduler::wait(self.place());
                }
                Err(TryLockError::WouldBlock) => drop(self.inner.lock()),
            }
        }
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        let modelled = match &self.modelled {
            None => None,
            Some(modelled) => Some(modelled.try_lock().map_err(|_| TryLockError::WouldBlock)?),
        };
        match self.inner.try_lock() {
            Ok(inner) => {
                let mut guard = self.guard(inner);
                guard.modelled = modelled;
                Ok(guard)
            }
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(self.guard(poisoned.into_inner()))))
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("given up only when it is dropped"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inner {
            Some(inner) => inner,
            None => unreachable!("given up only when it is dropped"),
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.lock.holder.store(0, Ordering::Relaxed);
            drop(inner);
            drop(self.modelled.take());
            if is_inside() {
                scheduler::release(self.lock.place());
                point();
            }
        }
    }
}

pub use self::condition::Condvar;

mod condition {
    use super::*;

    #[derive(Debug, Default)]
    pub struct Condvar {
        inner: std::sync::Condvar,
    }

    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        pub const fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub const fn new() -> Self {
            Self { inner: std::sync::Condvar::new() }
        }

        fn place(&self) -> usize {
            std::ptr::from_ref(&self.inner) as usize
        }

        pub fn notify_one(&self) {
            if is_inside() {
                point();
                scheduler::call(self.place());
            }
            self.inner.notify_one();
        }

        pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            let lock = guard.lock;
            if is_inside() {
                self.wait_inside(guard, None);
                return lock.lock();
            }
            let Some(inner) = guard.inner.take() else { return lock.lock() };
            let inner = self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner);
            Ok(lock.guard(inner))
        }

        pub fn wait_timeout<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            let lock = guard.lock;
            if is_inside() {
                let timed_out = self.wait_inside(guard, Some(until(time)));
                let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                return Ok((guard, WaitTimeoutResult(timed_out)));
            }
            let Some(inner) = guard.inner.take() else { unreachable!("given up only when it is dropped") };
            let (inner, result) = self.inner.wait_timeout(inner, time).unwrap_or_else(PoisonError::into_inner);
            Ok((lock.guard(inner), WaitTimeoutResult(result.timed_out())))
        }

        /// Releases the lock and begins to wait in one step.
        fn wait_inside<T>(&self, mut guard: MutexGuard<'_, T>, until: Option<Nanos>) -> bool {
            guard.lock.holder.store(0, Ordering::Relaxed);
            drop(guard.inner.take());
            scheduler::release(guard.lock.place());
            drop(guard);
            scheduler::listen(self.place(), until)
        }
    }
}

macro_rules! atomic {
    ($name:ident, $inner:ty, $value:ty, $($method:ident($($argument:ident),*) -> $result:ty;)*) => {
        #[derive(Debug)]
        pub enum $name {
            Real($inner),
            Modelled(loom::sync::atomic::$name),
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }

        #[allow(dead_code, reason = "as the standard library's")]
        impl $name {
            pub fn new(value: $value) -> Self {
                if is_modelled() {
                    Self::Modelled(loom::sync::atomic::$name::new(value))
                } else {
                    Self::Real(<$inner>::new(value))
                }
            }

            pub fn load(&self, ordering: Ordering) -> $value {
                point();
                match self {
                    Self::Real(inner) => inner.load(ordering),
                    Self::Modelled(inner) => inner.load(ordering),
                }
            }

            $(pub fn $method(&self, $($argument: $value,)* ordering: Ordering) -> $result {
                point();
                match self {
                    Self::Real(inner) => inner.$method($($argument,)* ordering),
                    Self::Modelled(inner) => inner.$method($($argument,)* ordering),
                }
            })*
        }
    };
}

atomic!(AtomicBool, std::sync::atomic::AtomicBool, bool, store(value) -> (); swap(value) -> bool;);
atomic!(AtomicU64, std::sync::atomic::AtomicU64, u64,
    store(value) -> (); swap(value) -> u64; fetch_add(value) -> u64; fetch_min(value) -> u64;);
atomic!(AtomicUsize, std::sync::atomic::AtomicUsize, usize,
    store(value) -> (); fetch_add(value) -> usize; fetch_sub(value) -> usize;);

/// A waker shared with other threads; each operation is one step.
#[derive(Debug)]
pub enum AtomicWaker {
    Real(futures_util::task::AtomicWaker),
    /// Modelled with a lock.
    Modelled(loom::sync::Mutex<Option<Waker>>),
}

impl Default for AtomicWaker {
    fn default() -> Self {
        if is_modelled() { Self::Modelled(loom::sync::Mutex::default()) } else { Self::Real(Default::default()) }
    }
}

impl AtomicWaker {
    pub fn register(&self, waker: &Waker) {
        point();
        match self {
            Self::Real(inner) => inner.register(waker),
            Self::Modelled(inner) => *inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone()),
        }
    }

    pub fn wake(&self) {
        point();
        match self {
            Self::Real(inner) => inner.wake(),
            Self::Modelled(inner) => {
                let waker = inner.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
        point();
    }
}

/// A thread that can be unparked.
#[derive(Debug, Clone)]
pub enum Thread {
    Real(std::thread::Thread),
    Simulated(usize),
}

impl Thread {
    pub fn unpark(&self) {
        match self {
            Self::Real(thread) => thread.unpark(),
            Self::Simulated(index) => {
                point();
                scheduler::unpark(*index);
            }
        }
    }
}

fn until(time: Duration) -> Nanos {
    scheduler::now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX))
}

pub fn park() {
    if is_inside() { scheduler::park(None) } else { std::thread::park() }
}

pub fn park_timeout(time: Duration) {
    if is_inside() { scheduler::park(Some(until(time))) } else { std::thread::park_timeout(time) }
}

pub fn yield_now() {
    if is_inside() { scheduler::give_way() } else { std::thread::yield_now() }
}

/// Returns the time since some moment in the past: virtual within a simulation.
pub fn elapsed() -> Duration {
    static EPOCH: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    if is_inside() { Duration::from_nanos(scheduler::now()) } else { EPOCH.elapsed() }
}

/// Starts a thread.
pub fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
    if is_inside() {
        return Ok(Thread::Simulated(scheduler::spawn("thread", run)));
    }
    std::thread::Builder::new().name(name).spawn(run).map(|handle| Thread::Real(handle.thread().clone()))
}

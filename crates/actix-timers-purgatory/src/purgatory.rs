//! The handle, and what its requests share.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use actix::Addr;
use actix_timers::integration::contain;
use actix_timers::{MailboxPolicy, ScheduleError, Target, TimerOptions, Timers};

use crate::attempt::{Attempt, End};
use crate::builder::{PurgatoryBuilder, Settings};
use crate::error::{Outcome, StartError, WaitError};
use crate::expirations::{Expirations, Expire};
use crate::keys::{Key, Keys};
use crate::metrics::Meters;
use crate::request::{Registration, Request, Watched};
use crate::wait::Wait;
use crate::watchers::{Group, Watchers};

/// Requests that wait for a condition or their time-out, watched under keys of the type `K`.
///
/// This is a handle, usable on any thread; its clones belong to the same purgatory. If all are dropped, waiting requests
/// still end by their time-out.
pub struct Purgatory<K>(Arc<Shared<K>>);

/// The data of a purgatory.
pub(crate) struct Shared<K> {
    name: String,
    capacity: usize,
    options: TimerOptions,
    timers: Timers,
    target: Target<Expire>,
    /// Keeps the target alive.
    _expirations: Addr<Expirations>,
    watchers: Watchers<K>,
    watched: AtomicUsize,
    delayed: AtomicUsize,
    next_number: AtomicU64,
    is_closed: AtomicBool,
    pub(crate) meters: Meters,
}

impl<K: Key> Purgatory<K> {
    /// Starts a purgatory with the default settings.
    ///
    /// # Errors
    /// As [`PurgatoryBuilder::start`].
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> PurgatoryBuilder<K> {
        PurgatoryBuilder::new()
    }

    pub(crate) fn new(settings: Settings, timers: Timers, expirations: Addr<Expirations>) -> Self {
        let Settings { name, capacity, slack } = settings;
        Self(Arc::new(Shared {
            meters: Meters::new(&name, timers.name()),
            name,
            capacity,
            options: TimerOptions::new().slack(slack),
            timers,
            // A time-out is never dropped for a full mailbox.
            target: Target::from(&expirations).mailbox_policy(MailboxPolicy::Unbounded),
            _expirations: expirations,
            watchers: Watchers::new(),
            watched: AtomicUsize::new(0),
            delayed: AtomicUsize::new(0),
            next_number: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }))
    }

    /// Waits until `condition` returns a value, but not longer than `timeout`.
    ///
    /// The condition is tried at once, again as soon as it is watched, and then whenever a [`check`](Self::check) names
    /// one of the keys. The time-out counts from the first try.
    ///
    /// The future answers once: with the value of the condition, or [`Outcome::Expired`], or an error. An error of a
    /// request that was refused, because the purgatory is full or closed, contains the condition.
    pub fn wait<V, C>(&self, keys: impl Into<Keys<K>>, timeout: Duration, mut condition: C) -> Wait<V, C>
    where
        V: Send + 'static,
        C: FnMut() -> Option<V> + Send + 'static,
    {
        let shared = &self.0;
        if self.is_closed() {
            shared.meters.count(End::Closed);
            return Wait::answered(Err(WaitError::Closed { condition: Some(condition) }));
        }
        match contain(&mut condition) {
            Ok(Some(value)) => {
                shared.meters.count(End::Completed);
                return Wait::answered(Ok(Outcome::Completed(value)));
            }
            Ok(None) => {}
            Err(message) => {
                shared.meters.count(End::Panicked);
                return Wait::answered(Err(WaitError::ConditionPanicked { message }));
            }
        }
        if !shared.reserve_place() {
            shared.meters.count(End::Full);
            return Wait::answered(Err(WaitError::Full { condition }));
        }
        let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
        let request = Arc::new(Request { shared: Arc::clone(shared), number, attempt: Attempt::new(condition) });
        let timer = shared.timers.timer(shared.target.clone(), shared.options.clone());
        let timer = match timer.try_schedule(timeout, Expire::new(request.clone())) {
            Ok(timer) => timer,
            Err(error) => {
                let is_full = matches!(error, ScheduleError::CapacityReached { .. });
                error.into_message().dismiss();
                shared.release_place();
                let end = if is_full { End::Full } else { End::Closed };
                shared.meters.count(end);
                let condition = request.attempt.end(end).and_then(|remains| remains.condition);
                return Wait::answered(Err(match condition {
                    Some(condition) if is_full => WaitError::Full { condition },
                    condition => WaitError::Closed { condition },
                }));
            }
        };
        let group = shared.join(keys.into(), request.clone());
        match request.attempt.hold(Registration { group, timer }) {
            // It has ended meanwhile.
            Some(registration) => shared.withdraw(&registration, number, End::Dropped),
            None if self.is_closed() => _ = request.end(End::Closed),
            // The condition may have been met before a check could find it.
            None => _ = request.try_now(),
        }
        Wait::watched(request)
    }

    /// Tries the conditions of the requests that are watched under `key`, in the order of their begin, and returns how
    /// many of them this call has completed.
    ///
    /// Call it after each change that can fulfil a condition. If a condition is being tried by another thread at this
    /// moment, that thread tries it again.
    pub fn check<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.watchers.of(key).iter().filter(|request| request.try_now()).count()
    }

    /// Ends the requests that are watched under `key` with [`WaitError::Cancelled`], and returns how many this call has
    /// ended. If a condition is being tried at this moment, its value is dropped.
    pub fn cancel<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.0.watchers.of(key).iter().filter(|request| request.end(End::Cancelled)).count()
    }

    /// Closes the purgatory: ends all requests with [`WaitError::Closed`], and refuses new ones. Returns how many
    /// requests this call has ended. If a condition is being tried at this moment, its value is dropped.
    pub fn close(&self) -> usize {
        // Before the requests are listed: a request that joins later finds it.
        self.0.is_closed.store(true, Ordering::SeqCst);
        self.0.watchers.all().iter().filter(|request| request.end(End::Closed)).count()
    }

    /// Returns whether the purgatory was closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::SeqCst)
    }

    /// Returns the name of the purgatory, as in the label `purgatory` of its metrics.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the number of waiting requests.
    pub fn delayed(&self) -> usize {
        self.0.delayed.load(Ordering::Relaxed)
    }

    /// Returns the number of watchers: for each waiting request the number of its keys.
    pub fn watched(&self) -> usize {
        self.0.watched.load(Ordering::Relaxed)
    }
}

impl<K: Key> Shared<K> {
    fn reserve_place(&self) -> bool {
        let reserve = |delayed: usize| (delayed < self.capacity).then(|| delayed + 1);
        let is_reserved = self.delayed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok();
        if is_reserved {
            self.meters.add_delayed(1.0);
        }
        is_reserved
    }

    pub(crate) fn release_place(&self) {
        self.delayed.fetch_sub(1, Ordering::Relaxed);
        self.meters.add_delayed(-1.0);
    }

    fn join(&self, keys: Keys<K>, request: Arc<dyn Watched>) -> Arc<Group<K>> {
        let watchers = keys.as_slice().len();
        let group = self.watchers.join(keys, request);
        self.watched.fetch_add(watchers, Ordering::Relaxed);
        self.meters.add_watched(watchers as f64);
        group
    }

    /// Ends the watch of a request, and its timer unless that has ended the request.
    pub(crate) fn withdraw(&self, registration: &Registration<K>, number: u64, end: End) {
        let Registration { group, timer } = registration;
        self.watchers.leave(group, number);
        self.watched.fetch_sub(group.keys(), Ordering::Relaxed);
        self.meters.add_watched(-(group.keys() as f64));
        if end != End::Expired {
            self.timers.cancel(*timer);
        }
    }
}

impl<K> Clone for Purgatory<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for Purgatory<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purgatory").field("name", &self.0.name).finish_non_exhaustive()
    }
}

//! Clocks: where a timer actor reads the time and what it sleeps on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::model::alarm::Alarms;
use crate::model::manual_clock::ManualClock;
use crate::model::request_time::RequestTime;

/// A future that is ready when the clock has reached the time it was made for.
pub type Alarm = Pin<Box<dyn Future<Output = ()>>>;

/// A source of time for one timer actor, and for those of companion crates that share it.
///
/// [`SystemClock`] is the default. [`ManualClock`] moves only when told. An implementation of your own can, for
/// example, let time pass faster than it does.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time since the clock's origin. Delays run on it. Should it go back all the same, time stands still for
    /// the timers until it has caught up.
    fn now(&self) -> Duration;

    /// The time of day.
    fn wall(&self) -> SystemTime;

    /// How much time of this clock has passed since `instant`, which was taken from tokio's clock: how long a request
    /// has waited in a mailbox.
    fn since(&self, instant: Instant) -> Duration;

    /// How much time of this clock has passed since a request was made. [`since`](Self::since) its
    /// [instant](RequestTime::instant) unless implemented, and zero if it has none that this thread can compare. A clock that
    /// is built on a manual one passes the question on.
    fn since_request(&self, made: RequestTime) -> Duration {
        made.instant().map_or(Duration::ZERO, |instant| self.since(instant))
    }

    /// A future that is ready once [`now`](Self::now) is not before `time`. It may be ready late, never early.
    fn alarm(&self, time: Duration) -> Alarm;

    /// Called in the runtime of the timer actor before the first alarm is set there, perhaps more than once: for clocks that
    /// have to know whose time they show. Does nothing unless implemented.
    fn started(&self) {}

    /// Whether the wall clock needs not be looked at now and then: it moves along with the monotonic one, and when it is
    /// set whoever waits for an alarm is woken. Not so unless an implementation says it.
    fn wall_is_steady(&self) -> bool {
        false
    }

    /// Whether time passes here when `clock` is moved: what [`ManualClock::advance`] waits for are the timer actors whose
    /// clocks say so. A clock that is built on a manual one passes the question on.
    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        let _ = clock;
        false
    }
}

/// A clock can be shared.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }

    fn wall(&self) -> SystemTime {
        (**self).wall()
    }

    fn since(&self, instant: Instant) -> Duration {
        (**self).since(instant)
    }

    fn since_request(&self, made: RequestTime) -> Duration {
        (**self).since_request(made)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        (**self).alarm(time)
    }

    fn started(&self) {
        (**self).started();
    }

    fn wall_is_steady(&self) -> bool {
        (**self).wall_is_steady()
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        (**self).is_moved_by(clock)
    }
}

/// Somebody's clock, kept from going back.
///
/// The engine's time never goes back. A deadline counted from an earlier reading would lie in the engine's past, and be
/// due at once.
pub(crate) struct Forward<C> {
    clock: C,
    latest: Mutex<Duration>,
}

impl<C: Clock> Forward<C> {
    pub(crate) const fn new(clock: C) -> Self {
        Self { clock, latest: Mutex::new(Duration::ZERO) }
    }
}

impl<C: Clock> Clock for Forward<C> {
    fn now(&self) -> Duration {
        let now = self.clock.now();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(*latest);
        *latest
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn since(&self, instant: Instant) -> Duration {
        self.clock.since(instant)
    }

    fn since_request(&self, made: RequestTime) -> Duration {
        self.clock.since_request(made)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.clock.alarm(time)
    }

    fn started(&self) {
        self.clock.started();
    }

    fn wall_is_steady(&self) -> bool {
        self.clock.wall_is_steady()
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.clock.is_moved_by(clock)
    }
}

/// The monotonic clock of tokio, and the wall clock of the system.
///
/// Under `tokio::time::pause` both stand still, and both move with `tokio::time::advance` and with tokio's own
/// advancing when everything is idle. Pausing reaches one runtime; whoever asks from outside of it is told its time all
/// the same, if it was paused when the timer actor started there or when an alarm was set.
///
/// On Linux alarms are set with a timer of the kernel besides tokio's own; see
/// [`without_kernel_timer`](Self::without_kernel_timer).
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
    wall_origin: SystemTime,
    /// The runtime that the timer actor runs in, if its clock was found paused.
    paused: OnceLock<Handle>,
    alarms: Alarms,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self::with(Alarms::new(false))
    }

    /// A clock whose origin is now, and whose alarms are tokio's alone: up to two milliseconds late instead of a fraction
    /// of one. Where it is not on Linux, it is like [`new`](Self::new).
    ///
    /// It is meant for runtimes that were made without I/O (`enable_time` instead of `enable_all`). Such a runtime cannot
    /// wait for a timer of the kernel, and tokio says so only with a panic. A clock made with `new` catches that panic and
    /// does without from then on; but the panic hook has reported it, and in a program that aborts on panics it is the end.
    ///
    /// ```
    /// use actix_timers::{SystemClock, TimerActor};
    ///
    /// let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// actix::System::with_tokio_rt(runtime).block_on(async {
    ///     let timers = TimerActor::builder().clock(SystemClock::without_kernel_timer()).start()?;
    ///     # drop(timers);
    ///     # Ok::<(), actix_timers::BuildError>(())
    /// }).unwrap();
    /// ```
    pub fn without_kernel_timer() -> Self {
        Self::with(Alarms::new(true))
    }

    fn with(alarms: Alarms) -> Self {
        Self { origin: Instant::now(), wall_origin: SystemTime::now(), paused: OnceLock::new(), alarms }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let _inside = self.paused.get().map(Handle::enter);
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        let _inside = self.paused.get().map(Handle::enter);
        if is_real() {
            return SystemTime::now();
        }
        self.wall_origin.checked_add(self.now()).unwrap_or(self.wall_origin)
    }

    fn since(&self, instant: Instant) -> Duration {
        let _inside = self.paused.get().map(Handle::enter);
        instant.elapsed()
    }

    fn since_request(&self, made: RequestTime) -> Duration {
        let _inside = self.paused.get().map(Handle::enter);
        made.instant().map_or(Duration::ZERO, |instant| instant.elapsed())
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.started();
        match self.origin.checked_add(time) {
            Some(instant) if self.paused.get().is_none() => self.alarms.at(instant),
            Some(instant) => Box::pin(tokio::time::sleep_until(instant)),
            None => Box::pin(std::future::pending::<()>()),
        }
    }

    fn started(&self) {
        if self.paused.get().is_none()
            && !is_real()
            && let Ok(runtime) = Handle::try_current()
        {
            let _ = self.paused.set(runtime);
        }
    }

    fn wall_is_steady(&self) -> bool {
        self.paused.get().is_some()
    }
}

/// Whether tokio's clock, as seen by this thread, is the real one.
///
/// Tokio does not report whether its clock is paused. A paused one still does not go on when real time catches up with it:
/// hence a second reading.
pub(crate) fn is_real() -> bool {
    let Some(first) = real_reading() else { return false };
    let later = loop {
        let now = std::time::Instant::now();
        // Equal only where the clock's resolution is coarse.
        if now > first {
            break now;
        }
    };
    Instant::now().into_std() >= later
}

/// Whether tokio's clock, as seen by this thread, shows real time at this moment.
pub(crate) fn shows_real_time() -> bool {
    real_reading().is_some()
}

/// The reading of tokio's clock if it shows real time: one that was never paused shows exactly the time of the real clock, so
/// a reading lies between two readings of that. A paused one is ahead or behind.
fn real_reading() -> Option<std::time::Instant> {
    let before = std::time::Instant::now();
    let reading = Instant::now().into_std();
    (before..=std::time::Instant::now()).contains(&reading).then_some(reading)
}

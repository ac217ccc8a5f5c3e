//! Clocks: the time and the alarms of a timer actor.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::model::alarm;
use crate::model::manual_clock::ManualClock;
use crate::model::request_time::RequestTime;

/// A future that completes when its clock has reached the alarm's time.
pub type Alarm = Pin<Box<dyn Future<Output = ()>>>;

/// A source of time for a timer actor, and for the timers of companion crates that share it.
///
/// [`SystemClock`] is the default. [`ManualClock`] moves only on command, for tests. Implement this trait for other
/// kinds of time, for example one that passes faster than real time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the monotonic time since the clock's origin. Delays count on it. If it goes back all the same, time
    /// stands still for the timers until it has caught up.
    fn now(&self) -> Duration;

    /// Returns the wall-clock time.
    fn wall(&self) -> SystemTime;

    /// Returns the time of this clock that has passed since a request was created: its wait in a mailbox. A clock that
    /// wraps another one forwards the call; any other counts from the [instant](RequestTime::instant), and returns zero
    /// if there is none.
    fn since(&self, request: RequestTime) -> Duration;

    /// Returns a future that completes once [`now`](Self::now) is at least `time`. It may complete late, never early.
    fn alarm(&self, time: Duration) -> Alarm;

    /// Notifies the clock that it is used by a runtime, for clocks that depend on the runtime. Called in the runtime of
    /// the timer actor before its first alarm there, possibly more than once. Default: does nothing.
    fn started(&self) {}

    /// Returns true if the wall clock needs no periodic check: it advances with monotonic time, and setting it wakes
    /// all waiting alarms. Default: false.
    fn wall_is_steady(&self) -> bool {
        false
    }

    /// Returns true if moving `clock` also moves this clock: [`ManualClock::advance`] waits for the timer actors on
    /// such clocks. A clock that wraps a manual one forwards the call.
    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        let _ = clock;
        false
    }
}

/// Passes all calls but `now` on to another clock.
macro_rules! forward {
    ($self:ident, $clock:expr) => {
        fn wall(&$self) -> SystemTime {
            $clock.wall()
        }

        fn since(&$self, request: RequestTime) -> Duration {
            $clock.since(request)
        }

        fn alarm(&$self, time: Duration) -> Alarm {
            $clock.alarm(time)
        }

        fn started(&$self) {
            $clock.started();
        }

        fn wall_is_steady(&$self) -> bool {
            $clock.wall_is_steady()
        }

        fn is_moved_by(&$self, clock: &ManualClock) -> bool {
            $clock.is_moved_by(clock)
        }
    };
}

/// A shared clock.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }

    forward!(self, (**self));
}

/// A clock that never goes back, around any other.
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

    forward!(self, self.clock);
}

/// The default clock: tokio's monotonic clock, and the wall clock of the system.
///
/// Under `tokio::time::pause` both stand still, and both move with `tokio::time::advance` and with tokio's auto-advance
/// of an idle runtime. A pause affects one runtime. Calls from outside of it also see its time, if it was paused when
/// the timer actor started there or when an alarm was set.
///
/// On Linux alarms use a kernel timer besides tokio's; see [`without_kernel_timer`](Self::without_kernel_timer).
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
    wall_origin: SystemTime,
    /// The runtime of the timer actor, if its clock was found paused.
    paused: OnceLock<Handle>,
    /// The kernel timer is unwanted or unavailable.
    tokio_alone: AtomicBool,
    /// The source of its wall-clock time, if that is not the system's.
    wall: Option<WallClock>,
}

struct WallClock(Box<dyn Fn() -> SystemTime + Send + Sync>);

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

impl SystemClock {
    /// Returns a clock with its origin at the present time.
    pub fn new() -> Self {
        Self::with(false)
    }

    /// Returns a clock with its origin at the present time, and with tokio's alarms only: up to two milliseconds late
    /// (about 15 on Windows) instead of a fraction of one. Except on Linux, it is the same as [`new`](Self::new).
    ///
    /// Use it in runtimes built without I/O (`enable_time` instead of `enable_all`). They cannot poll a kernel timer,
    /// and tokio reports this only by a panic. A clock from `new` catches the panic and continues without kernel
    /// timers; but the panic hook has reported it, and a program that aborts on panics ends.
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
        Self::with(true)
    }

    pub(crate) fn is_without_kernel_timer(&self) -> bool {
        self.tokio_alone.load(Ordering::Relaxed)
    }

    pub(crate) fn with(tokio_alone: bool) -> Self {
        let tokio_alone = AtomicBool::new(tokio_alone);
        Self {
            origin: Instant::now(),
            wall_origin: SystemTime::now(),
            paused: OnceLock::new(),
            tokio_alone,
            wall: None,
        }
    }

    /// Replaces the wall clock.
    pub(crate) fn with_wall(wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { wall: Some(WallClock(Box::new(wall))), ..Self::new() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let Some(runtime) = self.paused.get() else { return self.origin.elapsed() };
        let _inside = runtime.enter();
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        if let Some(WallClock(wall)) = &self.wall {
            return wall();
        }
        let _inside = self.paused.get().map(Handle::enter);
        if is_real() {
            return SystemTime::now();
        }
        self.wall_origin.checked_add(self.now()).unwrap_or(self.wall_origin)
    }

    fn since(&self, request: RequestTime) -> Duration {
        let _inside = self.paused.get().map(Handle::enter);
        request.instant().map_or(Duration::ZERO, |instant| instant.elapsed())
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.started();
        match self.origin.checked_add(time) {
            Some(instant) if self.paused.get().is_none() => alarm::at(instant, &self.tokio_alone),
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
        self.paused.get().is_some() && self.wall.is_none()
    }
}

/// Returns true if tokio's clock, as seen by this thread, is the real one.
///
/// Tokio does not report whether its clock is paused. A paused clock stands still even if real time catches up with it:
/// hence a second reading.
pub(crate) fn is_real() -> bool {
    let Some(first) = real_reading() else { return false };
    let later = loop {
        let now = std::time::Instant::now();
        // Equal only if the clock's resolution is coarse.
        if now > first {
            break now;
        }
    };
    Instant::now().into_std() >= later
}

/// Returns true if tokio's clock, as seen by this thread, shows real time at present.
pub(crate) fn shows_real_time() -> bool {
    real_reading().is_some()
}

/// Returns the reading of tokio's clock if it shows real time. A clock that was never paused shows exactly the real
/// clock's time, so a reading lies between two readings of the real clock. A paused one is ahead or behind.
fn real_reading() -> Option<std::time::Instant> {
    let before = std::time::Instant::now();
    let reading = Instant::now().into_std();
    (before..=std::time::Instant::now()).contains(&reading).then_some(reading)
}

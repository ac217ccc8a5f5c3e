//! Clocks: where a timer actor reads the time and what it sleeps on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::alarm::Alarms;

/// A future that is ready when the clock has reached the time it was made for.
pub type Alarm = Pin<Box<dyn Future<Output = ()>>>;

/// A source of time for one timer actor.
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

    /// A future that is ready once [`now`](Self::now) is not before `time`. It may be ready late, never early.
    fn alarm(&self, time: Duration) -> Alarm;

    /// Called in the runtime of the timer actor before the first alarm is set there, perhaps more than once: for clocks that
    /// have to know whose time they show. Does nothing unless implemented.
    fn started(&self) {}
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

    fn alarm(&self, time: Duration) -> Alarm {
        (**self).alarm(time)
    }

    fn started(&self) {
        (**self).started();
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

    fn alarm(&self, time: Duration) -> Alarm {
        self.clock.alarm(time)
    }

    fn started(&self) {
        self.clock.started();
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
}

/// Whether tokio's clock, as seen by this thread, is the real one.
///
/// Tokio does not say whether its clock is paused. But one that never was shows exactly the time of the real clock, so a
/// reading lies between two readings of that. A paused one is ahead or behind, and when real time just catches up with
/// it, it still does not go on: hence a second reading.
pub(crate) fn is_real() -> bool {
    let before = std::time::Instant::now();
    let first = Instant::now().into_std();
    if first < before || first > std::time::Instant::now() {
        return false;
    }
    let later = loop {
        let now = std::time::Instant::now();
        // Equal only where the clock's resolution is coarse.
        if now > first {
            break now;
        }
    };
    Instant::now().into_std() >= later
}

/// A clock that moves only when told, for tests.
///
/// Its origin is time zero; the wall clock moves along, and can be set on its own. Clones show and move the same time:
/// give one to the timer actor's builder and keep the other.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), Duration::from_secs(60));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    hands: Arc<Mutex<Hands>>,
}

#[derive(Debug)]
struct Hands {
    now: Duration,
    wall: SystemTime,
    sleepers: Vec<Sleeper>,
    /// Alarms made so far.
    alarms: u64,
}

/// An alarm that has not rung.
#[derive(Debug)]
struct Sleeper {
    alarm: u64,
    time: Duration,
    waker: Waker,
}

impl ManualClock {
    /// A clock at time zero, whose wall clock shows the Unix epoch.
    pub fn new() -> Self {
        Self::starting_at(SystemTime::UNIX_EPOCH)
    }

    /// A clock at time zero, whose wall clock shows `wall`.
    pub fn starting_at(wall: impl Into<SystemTime>) -> Self {
        let hands = Hands { now: Duration::ZERO, wall: wall.into(), sleepers: Vec::new(), alarms: 0 };
        Self { hands: Arc::new(Mutex::new(hands)) }
    }

    /// Lets time pass, on both clocks. Saturates at the end of the range.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.now = hands.now.saturating_add(by);
        hands.wall = hands.wall.checked_add(by).unwrap_or_else(|| end_of_time(hands.wall));
        let now = hands.now;
        let woken: Vec<Sleeper> = hands.sleepers.extract_if(.., |sleeper| sleeper.time <= now).collect();
        drop(hands);
        woken.into_iter().for_each(|sleeper| sleeper.waker.wake());
    }

    /// Steps the wall clock, forward or back, while monotonic time stands still.
    pub fn set_wall(&self, wall: impl Into<SystemTime>) {
        self.hands().wall = wall.into();
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The latest time that can be expressed, found from `from` by steps that get smaller.
fn end_of_time(from: SystemTime) -> SystemTime {
    let mut latest = from;
    for bit in (0..64).rev() {
        latest = latest.checked_add(Duration::from_secs(1 << bit)).unwrap_or(latest);
    }
    latest
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.hands().now
    }

    fn wall(&self) -> SystemTime {
        self.hands().wall
    }

    fn since(&self, _: Instant) -> Duration {
        // Time stands still between two calls of `advance`, so a request waits no time in a mailbox.
        Duration::ZERO
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let mut hands = self.hands();
        hands.alarms += 1;
        Box::pin(ManualAlarm { clock: self.clone(), number: hands.alarms, time })
    }
}

struct ManualAlarm {
    clock: ManualClock,
    number: u64,
    time: Duration,
}

impl Future for ManualAlarm {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut hands = self.clock.hands();
        if hands.now >= self.time {
            return Poll::Ready(());
        }
        match hands.sleepers.iter_mut().find(|sleeper| sleeper.alarm == self.number) {
            Some(sleeper) => sleeper.waker.clone_from(cx.waker()),
            None => {
                hands.sleepers.push(Sleeper { alarm: self.number, time: self.time, waker: cx.waker().clone() });
            }
        }
        Poll::Pending
    }
}

impl Drop for ManualAlarm {
    fn drop(&mut self) {
        self.clock.hands().sleepers.retain(|sleeper| sleeper.alarm != self.number);
    }
}

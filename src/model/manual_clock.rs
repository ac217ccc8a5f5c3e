//! A clock for tests, which moves only on command.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use crate::model::clock::{Alarm, Clock};
use crate::model::request_time::RequestTime;

/// A clock that moves only on command, for tests.
///
/// Its origin is time zero; the wall clock moves along, and can be set separately. Clones share the same time: give one
/// to the timer actor's builder and keep the other.
///
/// [`advance`](Self::advance) lets time pass from one event to the next, as in production, and returns when the due
/// messages have been handled. [`jump`](Self::jump) only changes the time.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{ManualClock, TimerActor, TimerContext};
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Tick;
///
/// #[derive(Message)]
/// #[rtype(result = "u32")]
/// struct Ticks;
///
/// #[derive(Default)]
/// struct Counter(u32);
///
/// impl Actor for Counter {
///     type Context = Context<Self>;
///     fn started(&mut self, ctx: &mut Self::Context) {
///         ctx.schedule_after(Duration::from_secs(60), Tick);
///     }
/// }
/// impl Handler<Tick> for Counter {
///     type Result = ();
///     fn handle(&mut self, _: Tick, ctx: &mut Self::Context) {
///         self.0 += 1;
///         ctx.schedule_after(Duration::from_secs(60), Tick);
///     }
/// }
/// impl Handler<Ticks> for Counter {
///     type Result = u32;
///     fn handle(&mut self, _: Ticks, _: &mut Self::Context) -> u32 {
///         self.0
///     }
/// }
///
/// # System::new().block_on(async {
/// let clock = ManualClock::new();
/// TimerActor::builder().clock(clock.clone()).install()?;
/// let counter = Counter::default().start();
///
/// clock.advance(Duration::from_secs(24 * 3600)).await;
/// assert_eq!(counter.send(Ticks).await?, 24 * 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
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
    /// Number of alarms created.
    alarms: u64,
    /// The steps that are preceded by requests, oldest first; at most [`STEPS_KEPT`].
    steps: VecDeque<Step>,
}

/// The number of steps that a clock remembers. A request that precedes more steps, each with requests of its own,
/// counts from the oldest one remembered: late, never early.
const STEPS_KEPT: usize = 1 << 16;

/// A step of the clock.
#[derive(Debug)]
struct Step {
    /// Requests with smaller numbers precede the step.
    requests: u64,
    /// The time before the step.
    from: Duration,
}

impl Hands {
    fn step(&mut self, by: Duration) {
        let requests = RequestTime::next_number();
        if self.steps.back().is_none_or(|last| last.requests < requests) {
            if self.steps.len() == STEPS_KEPT {
                self.steps.pop_front();
            }
            self.steps.push_back(Step { requests, from: self.now });
        }
        self.now = self.now.saturating_add(by);
    }

    /// Returns the time at which a request was created.
    fn shown_at(&self, made: RequestTime) -> Duration {
        let later = self.steps.partition_point(|step| step.requests <= made.number());
        self.steps.get(later).map_or(self.now, |step| step.from)
    }
}

/// A pending alarm.
#[derive(Debug)]
struct Sleeper {
    alarm: u64,
    time: Duration,
    waker: Waker,
}

impl ManualClock {
    /// Returns a clock at time zero, with the wall clock at the Unix epoch.
    pub fn new() -> Self {
        Self::starting_at(SystemTime::UNIX_EPOCH)
    }

    /// Returns a clock at time zero, with the wall clock at `wall`.
    pub fn starting_at(wall: impl Into<SystemTime>) -> Self {
        RequestTime::start_numbering();
        let (sleepers, steps) = (Vec::new(), VecDeque::new());
        let hands = Hands { now: Duration::ZERO, wall: wall.into(), sleepers, alarms: 0, steps };
        Self { hands: Arc::new(Mutex::new(hands)) }
    }

    /// Returns the time since the clock's start.
    pub fn now(&self) -> Duration {
        self.hands().now
    }

    /// Returns the time that the wall clock shows.
    pub fn wall(&self) -> SystemTime {
        self.hands().wall
    }

    /// Moves both clocks at once, and wakes the alarms that are reached. Saturates at the end of the range.
    ///
    /// Nothing happens in between, as after a suspension of the process for that time: messages due meanwhile are late.
    pub fn jump(&self, by: Duration) {
        let mut hands = self.hands();
        hands.step(by);
        hands.wall = hands.wall.checked_add(by).unwrap_or_else(|| end_of_time(hands.wall));
        let now = hands.now;
        let woken: Vec<Sleeper> = hands.sleepers.extract_if(.., |sleeper| sleeper.time <= now).collect();
        drop(hands);
        woken.into_iter().for_each(|sleeper| sleeper.waker.wake());
    }

    /// Sets the wall clock, forward or back, while monotonic time stands still.
    pub fn set_wall(&self, wall: impl Into<SystemTime>) {
        let mut hands = self.hands();
        hands.wall = wall.into();
        // Their alarms are still pending, but timers that follow the wall clock may have to be moved.
        let woken: Vec<Waker> = hands.sleepers.iter().map(|sleeper| sleeper.waker.clone()).collect();
        drop(hands);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns the time of the first pending alarm.
    pub(crate) fn next_alarm(&self) -> Option<Duration> {
        self.hands().sleepers.iter().map(|sleeper| sleeper.time).min()
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the latest time that can be expressed, found from `from` by ever smaller steps.
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
        self.now()
    }

    fn wall(&self) -> SystemTime {
        self.wall()
    }

    fn since(&self, request: RequestTime) -> Duration {
        // No real time passes on this clock. The wait of a request follows from its number.
        let hands = self.hands();
        hands.now.saturating_sub(hands.shown_at(request))
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let mut hands = self.hands();
        hands.alarms += 1;
        Box::pin(ManualAlarm { clock: self.clone(), number: hands.alarms, time })
    }

    fn wall_is_steady(&self) -> bool {
        true
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        Arc::ptr_eq(&self.hands, &clock.hands)
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
        // A waker is foreign code: it is neither cloned nor dropped under the lock.
        let waker = cx.waker().clone();
        let mut hands = self.clock.hands();
        if hands.now >= self.time {
            return Poll::Ready(());
        }
        let earlier = match hands.sleepers.iter_mut().find(|sleeper| sleeper.alarm == self.number) {
            Some(sleeper) => Some(std::mem::replace(&mut sleeper.waker, waker)),
            None => {
                hands.sleepers.push(Sleeper { alarm: self.number, time: self.time, waker });
                None
            }
        };
        drop(hands);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for ManualAlarm {
    fn drop(&mut self) {
        let mut hands = self.clock.hands();
        let gone: Vec<Sleeper> = hands.sleepers.extract_if(.., |sleeper| sleeper.alarm == self.number).collect();
        drop(hands);
        drop(gone);
    }
}

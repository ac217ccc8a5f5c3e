//! A minimal timer service: a wheel, a tick length, a virtual clock, and a driver that sleeps.
//!
//! The scenarios are written for any timer service; [`Service`] lets them run on the wheel alone. Its driver acts like
//! every driver of the wheel: it sleeps until [`Wheel::next_wake`], moves entries within a budget, turn after turn
//! until nothing is due, and goes back to sleep. It never wakes up for a tick.
//!
//! Times are milliseconds of the virtual clock. The verbs are those of the scenarios: *run to* goes from event to
//! event, *jump to* sets the clock first and lets the service run then. Deliveries are names with their times.

use std::time::Duration;

use actix_timers::timing::{Key, Tick, TickLength, Wheel, WheelSize};

/// Entries moved in one turn of the driver: few, so that the scenarios are interrupted often.
const BUDGET: usize = 7;

/// Entries cascaded per tick ahead of time.
const PACE: usize = 64;

/// Timers with names, on a clock that the test sets.
pub(crate) struct Service<N> {
    /// `None` is an anchor: a timer without a delivery.
    wheel: Wheel<Option<N>>,
    tick: TickLength,
    now: Duration,
    wake_ups: Vec<(u64, usize)>,
}

impl<N: Copy> Service<N> {
    /// A service at 0 with ticks of a millisecond.
    pub(crate) fn new(wheel_size: usize) -> Self {
        Self::with_tick(1, wheel_size)
    }

    /// A service at 0 with ticks of `tick` milliseconds.
    pub(crate) fn with_tick(tick: u64, wheel_size: usize) -> Self {
        Self {
            wheel: Wheel::new(WheelSize::new(wheel_size).expect("the scenario has a valid wheel size")),
            tick: TickLength::new(Duration::from_millis(tick)).expect("the scenario has a valid tick"),
            now: Duration::ZERO,
            wake_ups: Vec::new(),
        }
    }

    /// Schedules a timer `delay` milliseconds from now.
    pub(crate) fn after(&mut self, delay: u64, name: N) -> Key {
        self.schedule(self.now + Duration::from_millis(delay), Some(name))
    }

    /// Schedules a timer for a time on the clock, future or past.
    pub(crate) fn at(&mut self, deadline: u64, name: N) -> Key {
        self.schedule(Duration::from_millis(deadline), Some(name))
    }

    /// Pins the wheel's own clock: an entry without a delivery expires at `deadline`.
    pub(crate) fn anchor(&mut self, deadline: u64) {
        self.schedule(Duration::from_millis(deadline), None);
    }

    /// Cancels a timer; true is the scenarios' *stopped*.
    pub(crate) fn cancel(&mut self, timer: Key) -> bool {
        self.wheel.cancel(timer).is_some()
    }

    /// Moves a timer to another time on the clock; false is *not found*.
    pub(crate) fn reset_to(&mut self, timer: Key, deadline: u64) -> bool {
        let deadline = self.tick.round_up(Duration::from_millis(deadline));
        self.wheel.reschedule(self.now_tick(), timer, deadline)
    }

    /// Returns the length of a tick in milliseconds.
    pub(crate) fn tick(&self) -> u64 {
        in_millis(self.tick.time_of(1))
    }

    /// Returns the number of timers neither delivered nor cancelled.
    pub(crate) fn pending(&self) -> usize {
        self.wheel.len()
    }

    /// Returns the time of the clock in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        in_millis(self.now)
    }

    /// Returns the next planned wake-up of the service.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.wheel.next_wake(PACE).map(|tick| in_millis(self.tick.time_of(tick)))
    }

    /// Returns all times so far at which the service got the CPU because its own sleep was over, each with the number of
    /// deliveries.
    pub(crate) fn wake_ups(&self) -> &[(u64, usize)] {
        &self.wake_ups
    }

    /// Returns the wheel, for inspection.
    pub(crate) const fn wheel(&self) -> &Wheel<Option<N>> {
        &self.wheel
    }

    /// *Run to* `end`: the clock goes from event to event.
    pub(crate) fn run_to(&mut self, end: u64) -> Vec<(N, u64)> {
        self.run_to_with(end, |_, _| {})
    }

    /// *Run to* `end` with a handler that gets every message, and may use the service.
    pub(crate) fn run_to_with(&mut self, end: u64, mut handler: impl FnMut(&mut Self, N)) -> Vec<(N, u64)> {
        let mut deliveries = self.turn(&mut handler);
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= end) {
            assert!(wake > self.now(), "a service that has done everything sleeps");
            self.now = Duration::from_millis(wake);
            deliveries.extend(self.wake_up(&mut handler));
        }
        self.now = self.now.max(Duration::from_millis(end));
        deliveries
    }

    /// *Run to* every instant up to `end`, one millisecond at a time.
    pub(crate) fn step_to(&mut self, end: u64) -> Vec<(N, u64)> {
        (self.now()..=end).flat_map(|instant| self.run_to(instant)).collect()
    }

    /// *Jump to* `time`: the clock is set before the service runs.
    pub(crate) fn jump_to(&mut self, time: u64) -> Vec<(N, u64)> {
        self.jump_to_with(time, |_, _| {})
    }

    /// *Jump to* `time` with a handler that gets every message, and may use the service.
    ///
    /// A clock that is set back is not followed: the service's own clock stays until the other one has passed it.
    pub(crate) fn jump_to_with(&mut self, time: u64, mut handler: impl FnMut(&mut Self, N)) -> Vec<(N, u64)> {
        self.now = self.now.max(Duration::from_millis(time));
        if self.next_wake().is_some_and(|wake| wake <= self.now()) {
            self.wake_up(&mut handler)
        } else {
            self.turn(&mut handler)
        }
    }

    /// *Slip to* `time`: the clock is set, and the service does not run.
    pub(crate) fn slip_to(&mut self, time: u64) {
        self.now = self.now.max(Duration::from_millis(time));
    }

    /// *Silent to* `end`: nothing is delivered on the way.
    pub(crate) fn silent_to(&mut self, end: u64)
    where
        N: std::fmt::Debug + PartialEq,
    {
        assert_eq!(self.run_to(end), [], "nothing is delivered up to {end}");
    }

    fn schedule(&mut self, deadline: Duration, name: Option<N>) -> Key {
        let deadline = self.tick.round_up(deadline);
        self.wheel.insert(self.now_tick(), deadline, name).ok().expect("the wheel has room")
    }

    fn now_tick(&self) -> Tick {
        self.tick.round_down(self.now)
    }

    fn wake_up(&mut self, handler: &mut impl FnMut(&mut Self, N)) -> Vec<(N, u64)> {
        let deliveries = self.turn(handler);
        self.wake_ups.push((self.now(), deliveries.len()));
        deliveries
    }

    /// Handles everything due now, a budget at a time.
    fn turn(&mut self, handler: &mut impl FnMut(&mut Self, N)) -> Vec<(N, u64)> {
        let now = self.now_tick();
        let mut deliveries = Vec::new();
        loop {
            self.wheel.prepare(now, PACE, BUDGET);
            let mut budget = BUDGET;
            while let Ok(timer) = self.wheel.expire(now, &mut budget) {
                if let Some(Some(name)) = self.wheel.remove(timer) {
                    deliveries.push((name, self.now()));
                    handler(self, name);
                }
            }
            if self.wheel.next_wake(PACE).is_none_or(|wake| wake > now) {
                return deliveries;
            }
        }
    }
}

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

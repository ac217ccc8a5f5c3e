//! Ticks: integer time, and the only place where a duration is rounded to it.
//!
//! A tick index counts whole ticks since the origin of a clock. A *deadline* rounds **up** to a tick and *now* rounds
//! **down**, so the deadline's tick is never reached before the deadline itself: this pair of roundings makes every
//! delivery never early.

use std::time::Duration;

/// A point in time, in ticks since the origin of its clock.
pub type Tick = u64;

/// The latest deadline a wheel can hold; later ones saturate here. With the default tick of one millisecond it is 584
/// million years after the origin.
pub const MAX_TICK: Tick = u64::MAX - 1;

/// The length of one tick.
///
/// ```
/// use std::time::Duration;
/// use actix_timers::timing::TickLength;
///
/// let tick = TickLength::new(Duration::from_millis(10))?;
/// assert_eq!(tick.round_up(Duration::from_millis(11)), 2);
/// assert_eq!(tick.round_down(Duration::from_millis(11)), 1);
/// assert_eq!(tick.time_of(2), Duration::from_millis(20));
/// # Ok::<(), actix_timers::timing::TimingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickLength {
    nanos: u64,
}

/// The shortest tick length: reading the clock takes longer than a shorter tick.
pub const MIN_TICK_LENGTH: Duration = Duration::from_micros(1);

/// The longest tick length: a day. Coarser timers have no use for a wheel.
pub const MAX_TICK_LENGTH: Duration = Duration::from_secs(24 * 60 * 60);

/// The reason why a wheel cannot be built from the given values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The tick is zero, shorter than [`MIN_TICK_LENGTH`] or longer than [`MAX_TICK_LENGTH`].
    #[error("a tick of {0:?} is out of range: choose one between 1 µs and 24 h (the default is 1 ms)")]
    TickLength(Duration),
    /// The wheel size is below 2 or above [`MAX_WHEEL_SIZE`](crate::timing::MAX_WHEEL_SIZE).
    #[error("a wheel of {0} buckets per level is out of range: choose between 2 and 65536 (the default is 256)")]
    WheelSize(usize),
}

impl TickLength {
    /// Returns a tick length of `length`, if it is in range.
    ///
    /// # Errors
    /// [`TimingError::TickLength`] outside of [`MIN_TICK_LENGTH`]`..=`[`MAX_TICK_LENGTH`].
    pub const fn new(length: Duration) -> Result<Self, TimingError> {
        let nanos = length.as_nanos();
        if nanos < MIN_TICK_LENGTH.as_nanos() || nanos > MAX_TICK_LENGTH.as_nanos() {
            return Err(TimingError::TickLength(length));
        }
        Ok(Self { nanos: nanos as u64 })
    }

    /// One millisecond, the default. `docs/decisions.md` gives the reason.
    pub const MILLISECOND: Self = Self { nanos: 1_000_000 };

    /// Returns the length as a duration.
    pub const fn length(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Returns the first tick that does not begin before `time`, at most [`MAX_TICK`].
    #[inline]
    pub fn round_up(self, time: Duration) -> Tick {
        match u64::try_from(time.as_nanos()) {
            Ok(nanos) => nanos.div_ceil(self.nanos),
            Err(_) => saturate(time.as_nanos().div_ceil(u128::from(self.nanos))),
        }
    }

    /// Returns the last tick that begins not after `time`, at most [`MAX_TICK`].
    #[inline]
    pub fn round_down(self, time: Duration) -> Tick {
        match u64::try_from(time.as_nanos()) {
            Ok(nanos) => nanos / self.nanos,
            Err(_) => saturate(time.as_nanos() / u128::from(self.nanos)),
        }
    }

    /// Returns the time from the origin to the beginning of `tick`; [`Duration::MAX`] if it cannot be expressed.
    pub fn time_of(self, tick: Tick) -> Duration {
        const NANOS_PER_SEC: u128 = 1_000_000_000;
        if let Some(nanos) = tick.checked_mul(self.nanos) {
            return Duration::from_nanos(nanos);
        }
        let nanos = u128::from(tick) * u128::from(self.nanos);
        match u64::try_from(nanos / NANOS_PER_SEC) {
            Ok(secs) => Duration::new(secs, (nanos % NANOS_PER_SEC) as u32),
            Err(_) => Duration::MAX,
        }
    }
}

impl Default for TickLength {
    fn default() -> Self {
        Self::MILLISECOND
    }
}

fn saturate(tick: u128) -> Tick {
    Tick::try_from(tick).unwrap_or(MAX_TICK).min(MAX_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(length: Duration) -> TickLength {
        TickLength::new(length).unwrap()
    }

    #[test]
    fn only_ticks_between_a_microsecond_and_a_day_are_accepted() {
        for refused in [
            Duration::ZERO,
            Duration::from_nanos(1),
            MIN_TICK_LENGTH - Duration::from_nanos(1),
            MAX_TICK_LENGTH + Duration::from_nanos(1),
            Duration::MAX,
        ] {
            assert_eq!(TickLength::new(refused), Err(TimingError::TickLength(refused)));
        }
        for accepted in [MIN_TICK_LENGTH, Duration::from_millis(1), MAX_TICK_LENGTH] {
            assert_eq!(tick(accepted).length(), accepted);
        }
        assert_eq!(TickLength::default(), tick(Duration::from_millis(1)));
    }

    #[test]
    fn deadlines_round_up_and_now_rounds_down() {
        let ten = tick(Duration::from_millis(10));
        for (nanos, up, down) in
            [(0, 0, 0), (1, 1, 0), (9_999_999, 1, 0), (10_000_000, 1, 1), (10_000_001, 2, 1), (20_000_000, 2, 2)]
        {
            let time = Duration::from_nanos(nanos);
            assert_eq!((ten.round_up(time), ten.round_down(time)), (up, down), "{time:?}");
        }
    }

    #[test]
    fn the_tick_of_a_deadline_never_begins_before_it() {
        for length in [1_000, 1_001, 999_999, 1_000_000, 7_777_777, 86_400_000_000_000] {
            let tick = tick(Duration::from_nanos(length));
            for nanos in
                (0..3 * length).step_by((length / 7) as usize + 1).take(50).chain([length - 1, length, length + 1])
            {
                let time = Duration::from_nanos(nanos);
                assert!(tick.time_of(tick.round_up(time)) >= time);
                assert!(tick.time_of(tick.round_down(time)) <= time);
                assert!(tick.round_up(time) - tick.round_down(time) <= 1);
            }
        }
    }

    #[test]
    fn the_end_of_the_range_saturates() {
        let micro = tick(MIN_TICK_LENGTH);
        assert_eq!(micro.round_up(Duration::MAX), MAX_TICK);
        assert_eq!(micro.round_down(Duration::MAX), MAX_TICK);
        let day = tick(MAX_TICK_LENGTH);
        assert_eq!(day.round_up(Duration::MAX), (u64::MAX / 86_400) + 1);
        assert_eq!(day.time_of(MAX_TICK), Duration::MAX);
        assert_eq!(micro.time_of(MAX_TICK), Duration::from_micros(MAX_TICK));
        // The u64 and the u128 branch agree where they meet.
        let edge = Duration::from_nanos(u64::MAX);
        assert_eq!(micro.round_up(edge), u64::MAX.div_ceil(1000));
        assert_eq!(micro.round_up(edge + Duration::from_nanos(1)), (u128::from(u64::MAX) + 1).div_ceil(1000) as u64);
        assert_eq!(micro.round_down(edge + Duration::from_nanos(1)), ((u128::from(u64::MAX) + 1) / 1000) as u64);
    }
}

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

    /// One millisecond, the default. `docs/decisions/wheel.md` gives the reason.
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

    /// Returns the last tick that begins not after `time`, below [`MAX_TICK`]: that one stands for all deadlines beyond the
    /// range, and never comes.
    #[inline]
    pub fn round_down(self, time: Duration) -> Tick {
        match u64::try_from(time.as_nanos()) {
            Ok(nanos) => nanos / self.nanos,
            Err(_) => saturate(time.as_nanos() / u128::from(self.nanos)).min(MAX_TICK - 1),
        }
    }

    /// Returns the time from the origin to the beginning of `tick`; [`Duration::MAX`] if it cannot be expressed.
    pub fn time_of(self, tick: Tick) -> Duration {
        if let Some(nanos) = tick.checked_mul(self.nanos) {
            return Duration::from_nanos(nanos);
        }
        duration_of(u128::from(tick) * u128::from(self.nanos))
    }
}

impl Default for TickLength {
    fn default() -> Self {
        Self::MILLISECOND
    }
}

/// Returns the duration of this number of nanoseconds; [`Duration::MAX`] if it cannot be expressed.
pub(crate) const fn duration_of(nanos: u128) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    if nanos > Duration::MAX.as_nanos() {
        return Duration::MAX;
    }
    Duration::new((nanos / NANOS_PER_SEC) as u64, (nanos % NANOS_PER_SEC) as u32)
}

fn saturate(tick: u128) -> Tick {
    Tick::try_from(tick).unwrap_or(MAX_TICK).min(MAX_TICK)
}

#[cfg(test)]
mod tests;

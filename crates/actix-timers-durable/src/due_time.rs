//! Wall-clock times of durable timers, in whole milliseconds.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A wall-clock time: milliseconds since 1970 began in UTC, at most [`MAX`](Self::MAX), which is in the year 4199.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers_durable::DueTime;
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_500);
/// let due = DueTime::at_or_after(time)?;
/// assert_eq!(due.as_millis(), 2, "never early: rounded up to a millisecond");
/// assert_eq!(DueTime::at_or_after(SystemTime::UNIX_EPOCH - Duration::from_secs(1))?, DueTime::MIN);
/// # Ok::<(), actix_timers_durable::OutOfRange>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DueTime(u64);

/// The error of a time too late for durable timers, after the year 4199.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time lies after the year 4199, later than durable timers can be due: choose an earlier one")]
pub struct OutOfRange;

impl DueTime {
    /// Width in bits of a time in a [`DurableId`](crate::DurableId).
    pub(crate) const BITS: u32 = 46;
    /// The beginning of 1970. Earlier times count as this: they are due at once, too.
    pub const MIN: Self = Self(0);
    /// The latest time, in the year 4199.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    /// Returns the first millisecond that is not before `time`.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is after [`MAX`](Self::MAX).
    pub fn at_or_after(time: SystemTime) -> Result<Self, OutOfRange> {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_millis(ceil_millis(since_epoch))
    }

    /// Returns the millisecond that contains `time`, rounded down: for readings of a clock.
    pub fn reached_at(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)).min(Self::MAX)
    }

    /// Creates a time from the milliseconds since 1970 began.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is after [`MAX`](Self::MAX).
    pub const fn from_millis(millis: u64) -> Result<Self, OutOfRange> {
        if millis > Self::MAX.0 { Err(OutOfRange) } else { Ok(Self(millis)) }
    }

    /// Returns the milliseconds since 1970 began.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time as a `SystemTime`.
    pub fn to_system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.0)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Adds `delay`, rounded up to a millisecond; at most [`MAX`](Self::MAX).
    #[must_use]
    pub fn saturating_add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(ceil_millis(delay))).min(Self::MAX)
    }

    /// Subtracts `delay`, in whole milliseconds; at least [`MIN`](Self::MIN).
    #[must_use]
    pub(crate) fn saturating_sub(self, delay: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub(crate) const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Returns the milliseconds of a duration, rounded up.
pub(crate) fn ceil_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl From<DueTime> for SystemTime {
    fn from(due: DueTime) -> Self {
        due.to_system_time()
    }
}

/// Writes the milliseconds since 1970 began.
impl fmt::Display for DueTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_round_up_and_readings_of_the_clock_down() {
        for (nanos, up, down) in [(0, 0, 0), (1, 1, 0), (999_999, 1, 0), (1_000_000, 1, 1), (1_000_001, 2, 1)] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
            assert_eq!(DueTime::at_or_after(time).unwrap().as_millis(), up);
            assert_eq!(DueTime::reached_at(time).as_millis(), down);
        }
    }

    #[test]
    fn the_ends_of_the_range_are_kept() {
        assert_eq!(DueTime::at_or_after(DueTime::MAX.to_system_time()), Ok(DueTime::MAX));
        let beyond = DueTime::MAX.to_system_time() + Duration::from_nanos(1);
        assert_eq!(DueTime::at_or_after(beyond), Err(OutOfRange));
        assert_eq!(DueTime::reached_at(beyond), DueTime::MAX);
        assert_eq!(DueTime::from_millis(DueTime::MAX.0 + 1), Err(OutOfRange));
        assert_eq!(DueTime::MIN.saturating_add(Duration::MAX), DueTime::MAX);
        assert_eq!(DueTime::MIN.saturating_add(Duration::from_nanos(1)).as_millis(), 1);
        assert_eq!(DueTime::MIN.saturating_since(DueTime::MAX), Duration::ZERO);
        assert_eq!(DueTime::MAX.saturating_sub(Duration::MAX), DueTime::MIN);
        assert_eq!(DueTime::MAX.saturating_sub(Duration::from_millis(1)).as_millis(), DueTime::MAX.0 - 1);
    }
}

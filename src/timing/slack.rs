//! Slack: timers that may be a little late share ticks.

use crate::timing::tick::Tick;

/// Returns the tick from `first` to `last` that is divisible by the highest power of two, or `first` if `last` is not
/// after it.
///
/// There is only one such tick: between two multiples of a power of two lies a multiple of the next power. Timers whose
/// ranges overlap tend to share a tick, whatever the lengths of the ranges, without a look at each other.
pub(crate) const fn coalesce(first: Tick, last: Tick) -> Tick {
    if last <= first || first == 0 {
        return first;
    }
    // The highest bit in which the end of the range differs from the tick before its beginning is set in the end. All
    // bits below it can be cleared without leaving the range; clearing that bit as well would leave it.
    let bit = ((first - 1) ^ last).ilog2();
    last >> bit << bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_tend_to_share_a_tick() {
        assert_eq!(coalesce(1001, 1100), 1024);
        assert_eq!(coalesce(1020, 1120), 1024);
        assert_eq!(coalesce(1030, 1040), 1040);
        assert_eq!(coalesce(1001, 1001), 1001);
    }

    #[test]
    fn it_is_the_tick_divisible_by_the_highest_power_of_two() {
        for first in 0..300u64 {
            for last in first..300 {
                let power = |tick: &u64| if *tick == 0 { u64::BITS } else { tick.trailing_zeros() };
                let best = (first..=last).max_by_key(power).unwrap();
                assert_eq!(coalesce(first, last), best, "{first}..={last}");
                assert_eq!((first..=last).filter(|tick| power(tick) == power(&best)).count(), 1);
            }
        }
    }

    #[test]
    fn it_never_leaves_the_range() {
        for (first, last) in [(1, u64::MAX), (u64::MAX - 3, u64::MAX), (u64::MAX, u64::MAX), (1 << 63, u64::MAX - 1)] {
            assert!((first..=last).contains(&coalesce(first, last)), "{first}..={last}");
        }
        assert_eq!(coalesce(7, 3), 7, "no slack is left");
    }
}

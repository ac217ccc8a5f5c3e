//! Times spread by hashes: jitter, and the phase of a period. Equal inputs have equal times, in each process.

use std::time::Duration;

use super::due_time::{DueTime, OutOfRange, ceil_millis};

/// Mixes `bits` so that each bit of the result depends on all of them (the finalizer of SplitMix64): stateless jitter
/// that differs by timer and attempt.
pub(super) const fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// Returns a hash (FNV-1a) of the key of a timer of a route. No later version may change it: it is the phase of the timer.
pub(super) fn hash_of_key(route: &str, key: &str) -> u64 {
    // No name of a route has this byte.
    let bytes = route.bytes().chain([0]).chain(key.bytes());
    mixed(bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)))
}

/// Returns a period in whole milliseconds: rounded up, at least one.
pub(super) fn whole_period(period: Duration) -> u64 {
    ceil_millis(period).clamp(1, DueTime::MAX.as_millis())
}

/// Returns the first time from `first` on in the phase that a hash gives to a period.
pub(super) fn in_phase(first: DueTime, period: Duration, hash: u64) -> Result<DueTime, OutOfRange> {
    let period = whole_period(period);
    let offset = (hash % period + period - first.as_millis() % period) % period;
    DueTime::from_millis(first.as_millis() + offset)
}

/// Adds a part of `jitter`, from nothing to all of it, which `random` decides.
pub(super) fn jittered(nominal: DueTime, jitter: Duration, random: u64) -> DueTime {
    let choices = jitter.as_millis().min(DueTime::MAX.as_millis().into()) + 1;
    nominal.saturating_add(Duration::from_millis(((choices * u128::from(random)) >> 64) as u64))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(millis: u64) -> DueTime {
        DueTime::from_millis(millis).unwrap()
    }

    #[test]
    fn the_phase_depends_on_the_hash_and_not_on_the_call() {
        let period = Duration::from_millis(100);
        for first in [0, 30, 31, 99, 100, 12_345] {
            let time = in_phase(at(first), period, 730).unwrap().as_millis();
            assert!(time % 100 == 30 && (first..first + 100).contains(&time), "{first}: {time}");
        }
        assert_eq!(in_phase(DueTime::MAX, period, 0), Err(OutOfRange));
        assert_eq!(in_phase(at(7), Duration::ZERO, 730), Ok(at(7)), "the shortest period is a millisecond");
        let end_of_range = in_phase(at(1), Duration::MAX, DueTime::MAX.as_millis() - 1);
        assert_eq!(end_of_range, Ok(at(DueTime::MAX.as_millis() - 1)));
    }

    #[test]
    fn the_phase_of_a_key_stays() {
        assert_eq!(hash_of_key("office", "tenant-7"), 11_750_136_106_963_482_929);
        assert_ne!(hash_of_key("office", "tenant-7"), hash_of_key("office", "tenant-8"));
        assert_ne!(hash_of_key("office", "tenant-7"), hash_of_key("officet", "enant-7"));
    }

    #[test]
    fn jitter_is_from_nothing_to_all_of_it() {
        let jitter = |random| jittered(at(1000), Duration::from_millis(9), random).as_millis();
        assert_eq!((jitter(0), jitter(u64::MAX)), (1000, 1009));
        assert_eq!((jitter(u64::MAX / 10), jitter(u64::MAX / 10 + 1)), (1000, 1001));
        assert_eq!(jittered(at(1), Duration::MAX, u64::MAX), DueTime::MAX);
        assert_eq!(jittered(at(1), Duration::ZERO, u64::MAX), at(1));
    }
}

//! Random numbers for jitter.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::secret::unguessable;

/// The increment of SplitMix64.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64 on an atomic counter: any thread takes a number without a lock.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// Starts from a seed, which determines all numbers, or from a random state.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(AtomicU64::new(seed.unwrap_or_else(unguessable)))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_chance_does_not() {
        let take = |random: Random| -> Vec<u64> { (0..100).map(|_| random.next()).collect() };
        assert_eq!(take(Random::new(Some(7))), take(Random::new(Some(7))));
        assert_ne!(take(Random::new(Some(7))), take(Random::new(Some(8))));
        assert_ne!(take(Random::new(None)), take(Random::new(None)));
    }

    /// Computed by Vigna's `splitmix64.c`.
    #[test]
    fn the_numbers_equal_the_output_of_splitmix64() {
        let random = Random::new(Some(1_234_567_u64.wrapping_add(STEP)));
        assert_eq!(
            [(); 5].map(|()| random.next()),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }
}

//! Unguessable numbers.
//!
//! A [`Secret`] is a key of 128 bits from the operating system for SipHash-2-4 (Aumasson and Bernstein, "SipHash: a
//! fast short-input PRF", 2012). Without the key no output reveals anything about another one.
//!
//! If the operating system has no random numbers, `TimerActorBuilder::build` fails. Calls that cannot fail then derive
//! a key from the time, the process and memory addresses, which can be guessed with much effort.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use siphasher::sip::SipHasher24;

/// The error of an operating system without random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRandomness;

/// A key that never leaves the process.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u64; 2]);

/// Prints no key.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Returns a key from the operating system.
    pub(crate) fn from_os() -> Result<Self, NoRandomness> {
        Self::from_source(|bytes| getrandom::fill(bytes).map_err(|_| NoRandomness))
    }

    /// Returns a key from the operating system, or else the best substitute.
    pub(crate) fn new() -> Self {
        Self::from_os().unwrap_or_else(|_| Self::makeshift())
    }

    fn from_source(fill: impl FnOnce(&mut [u8]) -> Result<(), NoRandomness>) -> Result<Self, NoRandomness> {
        #[cfg(test)]
        if FAILS.get() {
            return Err(NoRandomness);
        }
        let mut key = [0; 16];
        fill(&mut key)?;
        let key = u128::from_le_bytes(key);
        Ok(Self([key as u64, (key >> 64) as u64]))
    }

    /// Returns a different key each time, derived from values that vary between processes.
    fn makeshift() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let (on_the_stack, on_the_heap) = (0_u8, Box::new(0_u8));
        let places = [&raw const on_the_stack as u64, &raw const *on_the_heap as u64, &raw const MADE as u64];
        let numbers = [now, std::process::id().into(), MADE.fetch_add(1, Ordering::Relaxed)];
        let mixed = |key: Self, number: u64| Self([key.hash(number), key.hash(!number)]);
        places.into_iter().chain(numbers).fold(Self([0, 0]), mixed)
    }

    /// Returns a key of 256 bits for a cipher, derived from this one.
    pub(crate) fn seed(&self) -> [u8; 32] {
        let mut seed = [0; 32];
        for (word, number) in seed.chunks_exact_mut(8).zip(0..) {
            word.copy_from_slice(&self.hash(number).to_le_bytes());
        }
        seed
    }

    /// Returns the SipHash-2-4 of the eight bytes of `message`, the lowest first.
    pub(crate) fn hash(&self, message: u64) -> u64 {
        let [k0, k1] = self.0;
        SipHasher24::new_with_keys(k0, k1).hash(&message.to_le_bytes())
    }
}

/// Returns a number that reveals nothing about earlier and later ones, on this thread or others.
pub fn unguessable() -> u64 {
    thread_local! {
        static SOURCE: (Secret, Cell<u64>) = (Secret::new(), Cell::new(0));
    }
    #[cfg(any(test, actix_timers_simulation))]
    if let Some(number) = crate::simulation::unguessable() {
        return number;
    }
    SOURCE.with(|(secret, counter)| secret.hash(counter.replace(counter.get().wrapping_add(1))))
}

#[cfg(test)]
thread_local! {
    /// True if the operating system provides no random numbers to this thread.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without random numbers from the operating system.
#[cfg(test)]
pub(crate) fn without_randomness<T>(work: impl FnOnce() -> T) -> T {
    FAILS.set(true);
    let done = work();
    FAILS.set(false);
    done
}

#[cfg(test)]
impl Secret {
    pub(crate) const fn known(k0: u64, k1: u64) -> Self {
        Self([k0, k1])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The key and the input of 8 bytes of the reference implementation.
    #[test]
    fn the_hash_of_the_reference_implementation_is_known() {
        let secret = Secret::known(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(secret.hash(0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }

    /// Returns the number of the 64 bits that differ, as a mean over many messages, for each flipped bit.
    fn mean_of_flipped(changed: impl Fn(u32, u64) -> (u64, u64)) -> Vec<f64> {
        const MESSAGES: u64 = 2000;
        let differ = |(one, other): (u64, u64)| (one ^ other).count_ones();
        let sum = |bit| (0..MESSAGES).map(|message| differ(changed(bit, message))).sum::<u32>();
        (0..64).map(|bit| f64::from(sum(bit)) / MESSAGES as f64).collect()
    }

    /// The standard error of each mean is 0.09, so chance does not exceed six of them.
    #[test]
    fn a_change_of_one_bit_changes_half_of_the_hash() {
        let (k0, k1) = (unguessable(), unguessable());
        let secret = Secret::known(k0, k1);
        let of_message = mean_of_flipped(|bit, message| (secret.hash(message), secret.hash(message ^ 1 << bit)));
        let of_key =
            mean_of_flipped(|bit, message| (secret.hash(message), Secret::known(k0 ^ 1 << bit, k1).hash(message)));
        for mean in of_message.into_iter().chain(of_key) {
            assert!((31.4..32.6).contains(&mean), "{mean}");
        }
    }

    /// Keys of the standard library's `RandomState` differ by one within a thread.
    #[test]
    fn secrets_made_on_one_thread_are_unrelated() {
        let secrets: Vec<Secret> = (0..1000).map(|_| Secret::from_os().unwrap()).collect();
        for half in 0..2 {
            let distances = secrets.windows(2).map(|pair| (pair[0].0[half] ^ pair[1].0[half]).count_ones());
            let mean = f64::from(distances.sum::<u32>()) / 999.0;
            assert!((31.0..33.0).contains(&mean), "{mean}");
            assert!(secrets.windows(2).all(|pair| pair[0].0[half].abs_diff(pair[1].0[half]) > 1 << 20));
        }
    }

    #[test]
    fn without_randomness_there_is_an_error_or_another_key_each_time() {
        assert_eq!(without_randomness(Secret::from_os), Err(NoRandomness));
        let made: HashSet<u64> = without_randomness(|| (0..1000).map(|_| Secret::new().hash(0)).collect());
        assert_eq!(made.len(), 1000);
        let elsewhere = std::thread::spawn(|| without_randomness(unguessable)).join().unwrap();
        assert!(!made.contains(&elsewhere));
    }

    #[test]
    fn a_timer_actor_without_randomness_is_rejected_unless_it_starts_by_itself() {
        use crate::{BuildError, TimerActor};
        actix::System::new().block_on(async {
            without_randomness(|| {
                let rejected = TimerActor::builder().build().err();
                assert_eq!(rejected, Some(BuildError::NoRandomness));
                assert!(rejected.is_some_and(|error| error.to_string().contains("/dev/urandom")));
                assert_eq!(TimerActor::builder().install().err(), Some(BuildError::NoRandomness));
                assert!(crate::Timers::current().is_some());
            });
        });
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::known(1, 2)), "Secret(..)");
    }
}

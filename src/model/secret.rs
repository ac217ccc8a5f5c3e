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
    /// Returns a key from the operating system, if that has random numbers.
    pub(crate) fn from_os() -> Option<Self> {
        #[cfg(test)]
        if FAILS.get() {
            return None;
        }
        let mut key = [0; 16];
        getrandom::fill(&mut key).ok()?;
        let key = u128::from_le_bytes(key);
        Some(Self([key as u64, (key >> 64) as u64]))
    }

    /// Returns a key from the operating system, or else the best substitute.
    pub(crate) fn new() -> Self {
        Self::from_os().unwrap_or_else(Self::makeshift)
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
mod tests;

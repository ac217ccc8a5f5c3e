//! Tests of unguessable numbers.

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
    let of_key = mean_of_flipped(|bit, message| (secret.hash(message), Secret::known(k0 ^ 1 << bit, k1).hash(message)));
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
fn a_lack_of_randomness_is_an_error_or_another_key_each_time() {
    assert_eq!(without_randomness(Secret::from_os), None);
    let made: HashSet<u64> = without_randomness(|| (0..1000).map(|_| Secret::new().hash(0)).collect());
    assert_eq!(made.len(), 1000);
    let elsewhere = std::thread::spawn(|| without_randomness(unguessable)).join().unwrap();
    assert!(!made.contains(&elsewhere));
}

#[test]
fn only_an_automatic_timer_actor_starts_without_randomness() {
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

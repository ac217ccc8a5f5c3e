//! Several threads that wait, check, cancel and drop at once.

use std::time::Duration;

use actix_timers_purgatory::{Outcome, WaitError};
use futures_util::FutureExt;
use support::Random;

use crate::{Level, World};

const THREADS: u64 = 4;
const ROUNDS: u64 = 500;

/// Each thread raises a level and checks its key while others begin to wait for it. No request would ever expire: a
/// lost wake-up would leave one waiting.
#[actix::test]
async fn no_wake_up_is_lost_between_threads() {
    let world = World::new();
    for round in 0..ROUNDS {
        let level = Level::default();
        let key = round as u32 % 3;
        let waiting: Vec<_> = (0..THREADS - 1)
            .map(|number| {
                let (purgatory, level) = (world.purgatory.clone(), level.clone());
                std::thread::spawn(move || {
                    let keys = if number == 0 { vec![key] } else { vec![7, key] };
                    purgatory.wait(keys, Duration::MAX, level.reached(1))
                })
            })
            .collect();
        let purgatory = world.purgatory.clone();
        let checking = std::thread::spawn(move || {
            level.set(1);
            purgatory.check(&key);
        });
        checking.join().unwrap();
        for wait in waiting {
            let wait = wait.join().unwrap();
            // Every check and every first try has returned.
            assert!(wait.now_or_never().is_some(), "round {round}");
        }
        world.assert_empty();
    }
}

/// Each has an answer, and leaves nothing. `handshakes` proves that two ends of one request are one.
#[actix::test]
async fn each_request_ends_on_many_threads() {
    let world = World::new();
    let level = Level::default();
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (purgatory, level) = (world.purgatory.clone(), level.clone());
            std::thread::spawn(move || {
                let mut random = Random::new(seed);
                let (mut waits, mut completed, mut cancelled) = (Vec::new(), 0, 0);
                for _ in 0..ROUNDS {
                    let key = random.below(4) as u32;
                    match random.below(8) {
                        0..4 => waits.push(purgatory.wait([key, 9], Duration::MAX, level.reached(level.get() + 1))),
                        4..6 => {
                            level.set(level.get() + 1);
                            completed += purgatory.check(&key);
                        }
                        6 => cancelled += purgatory.cancel(&key),
                        // Ended on this thread and perhaps on another one at the same time.
                        _ => drop(purgatory.wait([key, 9], Duration::MAX, level.reached(level.get() + 1))),
                    }
                }
                cancelled += purgatory.cancel(&9);
                (waits, completed, cancelled)
            })
        })
        .collect();
    let (mut completed, mut cancelled) = (0, 0);
    let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (waits, by_check, by_cancel) in ended {
        completed += by_check;
        cancelled += by_cancel;
        for wait in waits {
            let answer = wait.now_or_never();
            assert!(matches!(answer, Some(Ok(Outcome::Completed(_)) | Err(WaitError::Cancelled))), "{answer:?}");
        }
    }
    world.assert_empty();
    assert!(completed > 0 && cancelled > 0, "{completed}, {cancelled}");
}

/// A close on another thread leaves no request behind, whether it began before or after.
#[actix::test]
async fn a_close_on_another_thread_leaves_no_request() {
    for _ in 0..ROUNDS {
        let world = World::new();
        let purgatory = world.purgatory.clone();
        let waiting = std::thread::spawn(move || {
            let wait = purgatory.wait([1], Duration::MAX, crate::never);
            (purgatory.delayed(), wait)
        });
        world.purgatory.close();
        let (_, wait) = waiting.join().unwrap();
        assert!(matches!(wait.now_or_never(), Some(Err(WaitError::Closed { .. }))));
        world.assert_empty();
    }
}

//! Code of users: conditions that panic, or call the purgatory; destructors and wakers that do.

use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use actix_timers_purgatory::Wait;
use futures_util::FutureExt;
use support::{ON_PURPOSE, OnDrop, count_panics, panic_on_purpose};

use crate::{Answer, Level, SECOND, World, answer, never};

#[actix::test]
async fn a_panic_of_any_try_ends_its_own_request_and_no_other() {
    count_panics();
    for panicking in [1, 2, 3] {
        let (world, level) = (World::new(), Level::default());
        let mut before = world.purgatory.wait([1], SECOND, level.reached(1));
        let mut tries = 0;
        let mut wait = world.purgatory.wait([1], SECOND, move || {
            tries += 1;
            if tries == panicking {
                panic_on_purpose();
            }
            never()
        });
        let mut after = world.purgatory.wait([1], SECOND, level.reached(1));
        level.set(1);
        assert_eq!(world.purgatory.check(&1), 2);
        assert_eq!(answer(&mut wait), Some(Answer::Panicked(ON_PURPOSE.to_owned())), "try {panicking}");
        assert_eq!([&mut before, &mut after].map(answer), [(); 2].map(|()| Some(Answer::Completed(1))));
        world.assert_empty();
    }
}

/// A destructor that panics in the middle of a check, a cancel or a close must not keep others from their end.
#[actix::test]
async fn destructors_that_panic_disturb_no_other_request() {
    count_panics();
    let ends: [fn(&World) -> usize; 3] =
        [|world| world.purgatory.check(&1), |world| world.purgatory.cancel(&1), |world| world.purgatory.close()];
    for end in ends {
        let world = World::new();
        let level = Level::default();
        let mut waits: Vec<Wait<u32, _>> = (0..3)
            .map(|_| {
                let (bomb, mut reached) = (OnDrop::new(panic_on_purpose), level.reached(1));
                world.purgatory.wait([1], SECOND, move || {
                    _ = &bomb;
                    reached()
                })
            })
            .collect();
        level.set(1);
        assert_eq!(end(&world), 3);
        assert!(waits.iter_mut().all(|wait| answer(wait).is_some()));
        world.assert_empty();
    }
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic_on_purpose();
    }
}

#[actix::test]
async fn wakers_that_panic_disturb_no_other_request() {
    count_panics();
    let world = World::new();
    let level = Level::default();
    let waker = Waker::from(Arc::new(PanickingWaker));
    let mut waits = [(); 3].map(|()| world.purgatory.wait([1], SECOND, level.reached(1)));
    for wait in &mut waits {
        assert!(wait.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    }
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 3);
    assert!(waits.iter_mut().all(|wait| answer(wait) == Some(Answer::Completed(1))));
}

#[actix::test]
async fn a_condition_may_check_other_keys() {
    let world = World::new();
    let level = Level::default();
    // Each request completes the next one.
    let mut waits: Vec<_> = (0..5)
        .map(|key| {
            let (purgatory, level, mut reached) = (world.purgatory.clone(), level.clone(), level.reached(key + 1));
            world.purgatory.wait([key], SECOND, move || {
                let value = reached()?;
                level.set(value + 1);
                purgatory.check(&(key + 1));
                Some(value)
            })
        })
        .collect();
    level.set(1);
    assert_eq!(world.purgatory.check(&0), 1);
    for (number, wait) in (1..).zip(&mut waits) {
        assert_eq!(answer(wait), Some(Answer::Completed(number)));
    }
    world.assert_empty();
}

/// The change comes after the condition has looked, in the same try.
#[actix::test]
async fn a_condition_that_checks_its_own_key_is_tried_again() {
    let world = World::new();
    let (purgatory, level) = (world.purgatory.clone(), Level::default());
    let mut reached = level.reached(1);
    let changes = level.clone();
    let mut tries = 0;
    let mut wait = world.purgatory.wait([1], SECOND, move || {
        tries += 1;
        if let Some(level) = reached() {
            return Some(level * 100 + tries);
        }
        if tries == 3 {
            changes.set(1);
            assert_eq!(purgatory.check(&1), 0, "another try completes it");
        }
        None
    });
    assert_eq!(answer(&mut wait), None);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(104)));
}

#[actix::test]
async fn conditions_that_always_check_their_own_keys_come_to_an_end() {
    let world = World::new();
    let tries = Level::default();
    let mut waits = [[1, 2], [2, 1]].map(|keys| {
        let (purgatory, tries) = (world.purgatory.clone(), tries.clone());
        world.purgatory.wait(keys, SECOND, move || {
            tries.set(tries.get() + 1);
            purgatory.check(&keys[1]);
            never()
        })
    });
    assert_eq!(world.purgatory.check(&1), 0);
    assert!(tries.get() < 50, "{}", tries.get());
    world.clock.advance(SECOND).await;
    assert_eq!(waits.each_mut().map(answer), [(); 2].map(|()| Some(Answer::Expired)));
}

#[actix::test]
async fn a_condition_may_wait() {
    let world = World::new();
    let level = Level::default();
    let inner = Arc::new(Mutex::new(None));
    let (purgatory, state, kept) = (world.purgatory.clone(), level.clone(), Arc::clone(&inner));
    let mut reached = level.reached(1);
    let mut outer = world.purgatory.wait([1], SECOND, move || {
        let value = reached()?;
        *kept.lock().unwrap() = Some(purgatory.wait([1], SECOND, state.reached(2)));
        Some(value)
    });
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut outer), Some(Answer::Completed(1)));
    let mut inner = inner.lock().unwrap().take().unwrap();
    assert_eq!(answer(&mut inner), None);
    level.set(2);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut inner), Some(Answer::Completed(2)));
    world.assert_empty();
}

#[actix::test]
async fn a_condition_may_cancel_and_close_also_itself() {
    type End = fn(&actix_timers_purgatory::Purgatory<u32>) -> usize;
    let ends: [(End, Answer); 2] =
        [(|purgatory| purgatory.cancel(&1), Answer::Cancelled), (|purgatory| purgatory.close(), Answer::Closed)];
    for (end, expected) in ends {
        let world = World::new();
        let level = Level::default();
        let ended = Level::default();
        let (purgatory, count, mut reached) = (world.purgatory.clone(), ended.clone(), level.reached(1));
        let mut ending = world.purgatory.wait([1], SECOND, move || {
            let value = reached()?;
            count.set(end(&purgatory) as u32);
            Some(value)
        });
        let mut other = world.purgatory.wait([1], SECOND, level.reached(1));
        level.set(1);
        assert_eq!(world.purgatory.check(&1), 0);
        assert_eq!(ended.get(), 2);
        assert_eq!((answer(&mut ending), answer(&mut other)), (Some(expected.clone()), Some(expected)));
        world.assert_empty();
    }
}

#[actix::test]
async fn destructors_may_call_the_purgatory() {
    let world = World::new();
    let level = Level::default();
    let ended = Level::default();
    let call = || {
        let (purgatory, ended) = (world.purgatory.clone(), ended.clone());
        OnDrop::new(move || {
            let nested = purgatory.wait([1, 2], SECOND, never);
            ended.set(ended.get() + 1 + purgatory.check(&1) as u32);
            drop(nested);
        })
    };
    let waiting = || {
        let (on_drop, mut reached) = (call(), level.reached(1));
        move || {
            _ = &on_drop;
            reached()
        }
    };
    // By a cancel, by a dropped future, by the time-out, by a value, by a close.
    let cancelled = world.purgatory.wait([1], SECOND, waiting());
    assert_eq!(world.purgatory.cancel(&1), 1);
    drop(world.purgatory.wait([1], SECOND, waiting()));
    let expired = world.purgatory.wait([1], SECOND, waiting());
    world.clock.advance(SECOND).await;
    let completed = world.purgatory.wait([1], SECOND, waiting());
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    level.set(0);
    let closed = world.purgatory.wait([1], SECOND, waiting());
    assert_eq!(world.purgatory.close(), 1);
    assert_eq!(ended.get(), 5);
    drop((cancelled, expired, completed, closed));
    world.assert_empty();
}

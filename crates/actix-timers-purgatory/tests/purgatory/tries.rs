//! Tries of conditions: before and after watching, and by checks.

use std::sync::{Arc, Mutex};

use actix_timers_purgatory::Keys;

use crate::{Answer, Level, SECOND, World, answer, never};

#[actix::test]
async fn a_condition_that_is_met_completes_its_request_at_once() {
    let world = World::new();
    let level = Level::default();
    level.set(3);
    let mut wait = world.purgatory.wait([1], SECOND, level.reached(2));
    world.assert_empty();
    assert_eq!(level.users(), 0);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(3)));
}

/// Met between the first try and the watch, a condition would wait for a check that has already come.
#[actix::test]
async fn a_condition_is_tried_again_once_it_is_watched() {
    let world = World::new();
    let (mut tries, purgatory) = (0, world.purgatory.clone());
    let mut wait = world.purgatory.wait([1], SECOND, move || {
        tries += 1;
        (tries > 1).then(|| purgatory.watched() as u32)
    });
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)), "it was watched then");
    world.assert_empty();
}

#[actix::test]
async fn a_check_completes_the_requests_whose_condition_is_met() {
    let world = World::new();
    let level = Level::default();
    let mut low = world.purgatory.wait([1, 2], SECOND, level.reached(1));
    let mut high = world.purgatory.wait([1], SECOND, level.reached(2));
    let mut other = world.purgatory.wait([3], SECOND, level.reached(1));
    assert_eq!((world.purgatory.delayed(), world.purgatory.watched()), (3, 4));
    assert_eq!(world.purgatory.check(&1), 0);
    level.set(1);
    assert_eq!(world.purgatory.check(&4), 0);
    assert_eq!(answer(&mut low), None);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut low), Some(Answer::Completed(1)));
    assert_eq!((answer(&mut high), answer(&mut other)), (None, None));
    assert_eq!((world.purgatory.delayed(), world.purgatory.watched()), (2, 2));
    assert_eq!(world.purgatory.check(&2), 0, "it has ended");
    level.set(2);
    assert_eq!(world.purgatory.check(&1) + world.purgatory.check(&3), 2);
    assert_eq!((answer(&mut high), answer(&mut other)), (Some(Answer::Completed(2)), Some(Answer::Completed(2))));
    world.assert_empty();
}

#[actix::test]
async fn a_check_tries_requests_in_the_order_of_their_begin() {
    let world = World::new();
    let tried = Arc::new(Mutex::new(Vec::new()));
    let waits: Vec<_> = (0..50)
        .map(|number| {
            let tried = Arc::clone(&tried);
            // Some share their keys, and some do not.
            let keys = if number % 3 == 0 { vec![1] } else { vec![number % 5 + 2, 1] };
            world.purgatory.wait(keys, SECOND, move || {
                tried.lock().unwrap().push(number);
                None::<()>
            })
        })
        .collect();
    tried.lock().unwrap().clear();
    assert_eq!(world.purgatory.check(&1), 0);
    assert_eq!(*tried.lock().unwrap(), (0..50).collect::<Vec<_>>());
    drop(waits);
    world.assert_empty();
}

/// A token is taken by the first request that finds it.
#[actix::test]
async fn the_first_request_takes_what_only_one_can_have() {
    let world = World::new();
    let tokens = Level::default();
    let take = || {
        let tokens = tokens.clone();
        move || {
            let left = tokens.get().checked_sub(1)?;
            tokens.set(left);
            Some(left)
        }
    };
    let mut waits = [(); 3].map(|()| world.purgatory.wait([1], SECOND, take()));
    tokens.set(2);
    assert_eq!(world.purgatory.check(&1), 2);
    assert_eq!(waits.each_mut().map(answer), [Some(Answer::Completed(1)), Some(Answer::Completed(0)), None]);
}

#[actix::test]
async fn a_key_that_is_given_twice_is_tried_once_a_check() {
    let world = World::new();
    let tries = Level::default();
    let counted = tries.clone();
    let wait = world.purgatory.wait([1, 1, 2, 1], SECOND, move || {
        counted.set(counted.get() + 1);
        never()
    });
    assert_eq!(tries.get(), 2);
    world.purgatory.check(&1);
    assert_eq!(tries.get(), 3);
    drop(wait);
    world.assert_empty();
    assert_eq!(world.purgatory.check(&1), 0);
    assert_eq!(tries.get(), 3);
}

#[actix::test]
async fn requests_with_equal_keys_end_independently() {
    let world = World::new();
    let level = Level::default();
    let keys: Keys<u32> = (0..100).collect();
    let mut waits: Vec<_> = (0..10)
        .map(|number| {
            let keys = if number % 2 == 0 { keys.clone() } else { (0..100).collect() };
            world.purgatory.wait(keys, SECOND, level.reached(number + 1))
        })
        .collect();
    assert_eq!(world.purgatory.watched(), 1000);
    for number in 0..10 {
        level.set(number + 1);
        assert_eq!(world.purgatory.check(&(number * 7)), 1);
        assert_eq!(answer(&mut waits[number as usize]), Some(Answer::Completed(number + 1)));
    }
    world.assert_empty();
    // The keys can be watched again.
    let mut again = world.purgatory.wait(keys, SECOND, level.reached(11));
    level.set(11);
    assert_eq!(world.purgatory.check(&99), 1);
    assert_eq!(answer(&mut again), Some(Answer::Completed(11)));
    world.assert_empty();
}

#[actix::test]
async fn keys_may_be_checked_by_a_borrowed_form() {
    let purgatory: actix_timers_purgatory::Purgatory<String> = actix_timers_purgatory::Purgatory::start().unwrap();
    let level = Level::default();
    let mut wait = purgatory.wait(["orders".to_owned()], SECOND, level.reached(1));
    level.set(1);
    assert_eq!(purgatory.check("orders"), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)));
    assert_eq!(purgatory.cancel("orders"), 0);
}

//! Tries of conditions: before and after watching, and by checks.

use std::sync::{Arc, Mutex};

use actix_timers_purgatory::Purgatory;

use crate::{Answer, Level, SECOND, World, answer};

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

/// So the first one takes something that only one can have.
#[actix::test]
async fn a_check_tries_requests_once_each_in_the_order_of_their_begin() {
    let world = World::new();
    let tried = Arc::new(Mutex::new(Vec::new()));
    let waits: Vec<_> = (0..50)
        .map(|number| {
            let tried = Arc::clone(&tried);
            // Some share their keys, and some have one twice.
            let keys = if number % 3 == 0 { vec![1] } else { vec![1, number % 5 + 2, 1] };
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
    assert_eq!((world.purgatory.check(&1), tried.lock().unwrap().len()), (0, 50));
}

#[actix::test]
async fn keys_may_be_checked_by_a_borrowed_form() {
    let purgatory: Purgatory<String> = Purgatory::start().unwrap();
    let level = Level::default();
    let mut wait = purgatory.wait(["orders".to_owned()], SECOND, level.reached(1));
    level.set(1);
    assert_eq!(purgatory.check("orders"), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)));
    assert_eq!(purgatory.cancel("orders"), 0);
}

/// Each try meets a check of another thread.
#[actix::test]
async fn a_time_out_ends_a_request_although_checks_repeat_its_try() {
    let world = World::new();
    let (purgatory, tries, checks) = (world.purgatory.clone(), Level::default(), Level::default());
    let (tried, checked) = (tries.clone(), checks.clone());
    let (go_on, at_the_time_out) = std::sync::mpsc::channel();
    let mut wait = world.purgatory.wait([1], SECOND, move || {
        tried.set(tried.get() + 1);
        // Two come with the request.
        if (3..100).contains(&tried.get()) {
            let purgatory = purgatory.clone();
            std::thread::spawn(move || purgatory.check(&1)).join().unwrap();
            checked.set(tried.get());
        }
        if tried.get() == 10 {
            at_the_time_out.recv().unwrap();
        }
        None::<u32>
    });
    let purgatory = world.purgatory.clone();
    let checking = std::thread::spawn(move || purgatory.check(&1));
    while checks.get() < 10 {
        std::thread::yield_now();
    }
    world.clock.advance(SECOND).await;
    go_on.send(()).unwrap();
    checking.join().unwrap();
    assert_eq!((answer(&mut wait), tries.get()), (Some(Answer::Expired), 11));
}

//! Time-outs, and ends without an answer. `model` has the others.

use std::time::Duration;

use actix_timers::testing;
use actix_timers_purgatory::{Outcome, Purgatory};

use crate::{Answer, Level, SECOND, World, answer, never};

const MILLISECOND: Duration = Duration::from_millis(1);

#[actix::test]
async fn tokios_paused_clock_works_too() {
    tokio::time::pause();
    let purgatory: Purgatory<&str> = Purgatory::start().unwrap();
    let start = tokio::time::Instant::now();
    let mut wait = purgatory.wait(["a"], SECOND, never);
    testing::advance(SECOND - MILLISECOND).await;
    assert_eq!(answer(&mut wait), None);
    assert_eq!(wait.await.unwrap(), Outcome::Expired);
    assert!(start.elapsed() >= SECOND && start.elapsed() <= SECOND + 2 * MILLISECOND, "{:?}", start.elapsed());
}

#[actix::test]
async fn any_time_out_is_accepted() {
    let world = World::new();
    let mut none = world.purgatory.wait([1], Duration::ZERO, never);
    let mut endless = world.purgatory.wait([1], Duration::MAX, never);
    world.clock.settle().await;
    assert_eq!(answer(&mut none), Some(Answer::Expired));
    world.clock.advance(Duration::from_secs(100 * 365 * 86_400)).await;
    assert_eq!(answer(&mut endless), None);
}

#[actix::test]
async fn with_slack_time_outs_expire_together_and_never_early() {
    let slack = 64 * MILLISECOND;
    let world = World::with(|timers| timers, |purgatory| purgatory.slack(slack));
    let waits: Vec<_> = (1..=60).map(|late| world.purgatory.wait([1], SECOND + late * MILLISECOND, never)).collect();
    world.clock.advance(SECOND).await;
    assert_eq!(world.purgatory.delayed(), waits.len());
    let (mut instants, mut delayed) = (0, waits.len());
    for late in 1..=60 + 64 {
        world.clock.advance(MILLISECOND).await;
        assert!(world.purgatory.delayed() + late >= waits.len(), "none is early");
        instants += usize::from(world.purgatory.delayed() < delayed);
        delayed = world.purgatory.delayed();
    }
    assert_eq!(delayed, 0);
    assert!(instants <= 2, "{instants}");
}

#[actix::test]
async fn an_unread_value_is_dropped_with_the_future() {
    let world = World::new();
    let (value, is_met) = (Level::default(), Level::default());
    let (returned, mut reached) = (value.clone(), is_met.reached(1));
    let wait = world.purgatory.wait([1], SECOND, move || reached().map(|_| returned.clone()));
    is_met.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(value.users(), 1, "the value; the condition is gone");
    drop(wait);
    assert_eq!(value.users(), 0);
}

#[actix::test]
async fn a_request_outlives_the_handles_of_its_purgatory() {
    let World { clock, purgatory, .. } = World::new();
    let mut wait = purgatory.wait([1], SECOND, never);
    drop(purgatory);
    clock.advance(SECOND).await;
    assert_eq!(answer(&mut wait), Some(Answer::Expired));
}

/// A drain returns the time-outs to the program, which could still look at them.
#[actix::test]
async fn a_request_ends_when_the_time_out_that_a_drain_returned_is_dropped() {
    let world = World::new();
    let mut wait = world.purgatory.wait([1], SECOND, never);
    let returned = world.timers.drain();
    assert_eq!((returned.len(), answer(&mut wait)), (1, None));
    drop(returned);
    assert_eq!(answer(&mut wait), Some(Answer::Closed));
    world.assert_empty();
}

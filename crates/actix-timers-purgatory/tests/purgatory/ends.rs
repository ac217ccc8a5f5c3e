//! Ends other than by the condition: time-out, cancel, close, a dropped future; each ends the request once, and frees
//! all of it.

use std::time::Duration;

use actix_timers::{Drain, testing};
use actix_timers_purgatory::{Outcome, Purgatory};
use futures_util::FutureExt;

use crate::{Answer, Level, SECOND, World, answer, never};

const MILLISECOND: Duration = Duration::from_millis(1);

#[actix::test]
async fn a_request_expires_at_its_time_out_and_never_early() {
    let world = World::new();
    let level = Level::default();
    let mut wait = world.purgatory.wait([1, 2], SECOND, level.reached(1));
    world.clock.advance(SECOND - MILLISECOND).await;
    assert_eq!(answer(&mut wait), None);
    world.clock.advance(MILLISECOND).await;
    assert_eq!(answer(&mut wait), Some(Answer::Expired));
    world.assert_empty();
    assert_eq!(level.users(), 0);
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 0);
}

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
async fn the_condition_or_the_time_out_whichever_is_first() {
    let world = World::new();
    let level = Level::default();
    let mut first = world.purgatory.wait([1], SECOND, level.reached(1));
    let mut second = world.purgatory.wait([1], 2 * SECOND, level.reached(1));
    world.clock.advance(SECOND).await;
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    world.clock.advance(2 * SECOND).await;
    assert_eq!((answer(&mut first), answer(&mut second)), (Some(Answer::Expired), Some(Answer::Completed(1))));
    world.assert_empty();
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
    assert_eq!(world.purgatory.cancel(&1), 1);
    world.assert_empty();
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
async fn a_request_without_keys_waits_for_its_time_out() {
    let world = World::new();
    let mut wait = world.purgatory.wait([], SECOND, never);
    assert_eq!((world.purgatory.delayed(), world.purgatory.watched()), (1, 0));
    world.clock.advance(SECOND).await;
    assert_eq!(answer(&mut wait), Some(Answer::Expired));
    let mut wait = world.purgatory.wait([], SECOND, never);
    assert_eq!(world.purgatory.close(), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Closed));
    world.assert_empty();
}

#[actix::test]
async fn a_cancel_ends_and_counts_the_requests_of_its_key() {
    let world = World::new();
    let level = Level::default();
    let [mut one, mut two, mut both] =
        [vec![1], vec![2], vec![2, 1]].map(|keys| world.purgatory.wait(keys, SECOND, level.reached(1)));
    assert_eq!(world.purgatory.cancel(&1), 2);
    assert_eq!(world.purgatory.cancel(&1), 0);
    assert_eq!((answer(&mut one), answer(&mut both)), (Some(Answer::Cancelled), Some(Answer::Cancelled)));
    assert_eq!(answer(&mut two), None);
    assert_eq!((level.users(), world.purgatory.watched(), world.timers.snapshot().pending()), (1, 1, 1));
    assert_eq!(world.purgatory.cancel(&2), 1);
    world.assert_empty();
}

#[actix::test]
async fn a_close_ends_all_requests() {
    let world = World::new();
    let level = Level::default();
    let mut waits = [vec![1], vec![1, 2], vec![3]].map(|keys| world.purgatory.wait(keys, SECOND, level.reached(1)));
    assert!(!world.purgatory.is_closed());
    assert_eq!(world.purgatory.close(), 3);
    assert!(world.purgatory.is_closed());
    assert_eq!(world.purgatory.close(), 0);
    for wait in &mut waits {
        let closed = wait.now_or_never().unwrap().unwrap_err();
        assert_eq!(closed.to_string(), "the purgatory is closed");
        assert!(closed.into_condition().is_none());
    }
    assert_eq!(level.users(), 0);
    world.assert_empty();
}

#[actix::test]
async fn dropping_the_future_ends_the_request_at_once() {
    let world = World::new();
    let level = Level::default();
    let dropped = world.purgatory.wait([1, 2], SECOND, level.reached(1));
    let mut polled = world.purgatory.wait([1, 2], SECOND, level.reached(1));
    let mut kept = world.purgatory.wait([1, 2], SECOND, level.reached(1));
    assert_eq!(answer(&mut polled), None);
    drop(dropped);
    assert_eq!((world.purgatory.watched(), level.users()), (4, 2));
    drop(polled);
    assert_eq!((world.purgatory.watched(), world.purgatory.delayed(), level.users()), (2, 1, 1));
    assert_eq!(world.timers.snapshot().pending(), 1);
    level.set(1);
    assert_eq!(world.purgatory.check(&2), 1);
    assert_eq!(answer(&mut kept), Some(Answer::Completed(1)));
    world.assert_empty();
}

#[actix::test]
async fn an_answer_is_given_once() {
    let world = World::new();
    let level = Level::default();
    let mut wait = world.purgatory.wait([1], SECOND, level.reached(1));
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)));
    let mut immediate = world.purgatory.wait([1], SECOND, level.reached(1));
    assert_eq!(answer(&mut immediate), Some(Answer::Completed(1)));
    assert_eq!((answer(&mut wait), answer(&mut immediate)), (None, None));
}

#[actix::test]
async fn an_unread_value_is_dropped_with_the_future() {
    let world = World::new();
    let level = Level::default();
    let (value, is_met) = (level.clone(), Level::default());
    let wait = {
        let is_met = is_met.clone();
        world.purgatory.wait([1], SECOND, move || (is_met.get() > 0).then(|| value.clone()))
    };
    is_met.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(level.users(), 1, "the value; the condition is gone");
    drop(wait);
    assert_eq!(level.users(), 0);
}

/// Without its timer a request would wait for ever.
#[actix::test]
async fn requests_end_with_their_timer_actor() {
    let world = World::new();
    let mut wait = world.purgatory.wait([1], SECOND, never);
    let returned = world.timers.addr().send(Drain::now()).await.unwrap();
    assert_eq!(returned.len(), 1);
    drop(returned);
    assert_eq!(answer(&mut wait), Some(Answer::Closed));
    world.assert_empty();
}

#[actix::test]
async fn a_request_outlives_the_handles_of_its_purgatory() {
    let World { clock, purgatory, .. } = World::new();
    let mut wait = purgatory.wait([1], SECOND, never);
    drop(purgatory);
    clock.advance(SECOND).await;
    assert_eq!(answer(&mut wait), Some(Answer::Expired));
}

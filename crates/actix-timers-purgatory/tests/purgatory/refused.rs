//! Refused requests, which hand their condition back; and purgatories that cannot start.

use actix_timers::{Drain, ManualClock, TimerActor};
use actix_timers_purgatory::{Purgatory, StartError, WaitError};
use futures_util::FutureExt;

use crate::{Answer, Level, SECOND, World, answer, never};

#[actix::test]
async fn a_full_purgatory_hands_the_condition_back() {
    let world = World::with(|timers| timers, |purgatory| purgatory.capacity(2));
    let level = Level::default();
    let mut waits = [1, 2].map(|number| world.purgatory.wait([1], SECOND, level.reached(number)));
    let refused = world.purgatory.wait([1], SECOND, level.reached(3)).now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, WaitError::Full { .. }), "{refused:?}");
    let condition = refused.into_condition().unwrap();
    assert_eq!((world.purgatory.delayed(), world.purgatory.watched()), (2, 2));

    // A request that need not wait needs no place, and an end frees one at once.
    level.set(1);
    let mut met = world.purgatory.wait([1], SECOND, level.reached(1));
    assert_eq!(answer(&mut met), Some(Answer::Completed(1)));
    assert_eq!(world.purgatory.check(&1), 1);
    let mut third = world.purgatory.wait([1], SECOND, condition);
    assert_eq!(answer(&mut third), None);
    level.set(3);
    assert_eq!(world.purgatory.check(&1), 2);
    assert_eq!(answer(&mut waits[1]), Some(Answer::Completed(3)));
    assert_eq!(answer(&mut third), Some(Answer::Completed(3)));
    world.assert_empty();
}

#[actix::test]
async fn a_full_timer_actor_hands_the_condition_back() {
    let world = World::with(|timers| timers.capacity(1), |purgatory| purgatory);
    let level = Level::default();
    let mut wait = world.purgatory.wait([1], SECOND, level.reached(1));
    let refused = world.purgatory.wait([1], SECOND, level.reached(1)).now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, WaitError::Full { .. }), "{refused:?}");
    assert!(refused.into_condition().is_some());
    assert_eq!((world.purgatory.delayed(), world.purgatory.watched()), (1, 1));
    level.set(1);
    assert_eq!(world.purgatory.check(&1), 1);
    assert_eq!(answer(&mut wait), Some(Answer::Completed(1)));
    world.assert_empty();
}

#[actix::test]
async fn a_closed_purgatory_hands_the_condition_back_untried() {
    let world = World::new();
    let level = Level::default();
    level.set(1);
    world.purgatory.close();
    let refused = world.purgatory.wait([1], SECOND, level.reached(1)).now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, WaitError::Closed { .. }), "{refused:?}");
    assert_eq!(refused.into_condition().unwrap()(), Some(1));
    world.assert_empty();
}

#[actix::test]
async fn a_purgatory_whose_timer_actor_was_drained_is_closed() {
    let world = World::new();
    world.timers.addr().send(Drain::now()).await.unwrap();
    let refused = world.purgatory.wait([1], SECOND, never).now_or_never().unwrap().unwrap_err();
    assert!(matches!(refused, WaitError::Closed { .. }), "{refused:?}");
    assert!(refused.into_condition().is_some());
    world.assert_empty();
}

#[test]
fn a_purgatory_needs_an_actix_system() {
    assert_eq!(Purgatory::<u32>::start().unwrap_err(), StartError::NoSystem);
}

#[actix::test]
async fn a_purgatory_needs_a_timer_actor_and_a_capacity() {
    assert_eq!(Purgatory::<u32>::builder().capacity(0).start().unwrap_err(), StartError::ZeroCapacity);
    let _own_clock = TimerActor::builder().clock(ManualClock::new()).start().unwrap();
    assert_eq!(Purgatory::<u32>::start().unwrap_err(), StartError::NotInstalled);
}

//! Refused requests, which hand their condition back; and purgatories that cannot start.

use actix_timers::{Drain, ManualClock, TimerActor};
use actix_timers_purgatory::{Purgatory, StartError, WaitError};
use futures_util::FutureExt;

use crate::{Level, SECOND, World, never};

/// Without its timer a request would wait for ever.
#[actix::test]
async fn refused_requests_hand_their_conditions_back() {
    let full = World::with(|timers| timers, |purgatory| purgatory.capacity(1));
    let full_timers = World::with(|timers| timers.capacity(1), |purgatory| purgatory);
    let waiting = [&full, &full_timers].map(|world| world.purgatory.wait([1], SECOND, never));
    let closed = World::new();
    closed.purgatory.close();
    let drained = World::new();
    let ended = drained.purgatory.wait([1], SECOND, never);
    assert_eq!(drained.timers.addr().send(Drain::now()).await.unwrap().len(), 1);
    let ended = ended.now_or_never().unwrap().unwrap_err();
    assert_eq!(ended.to_string(), "the purgatory is closed");
    assert!(ended.into_condition().is_none());
    for (world, is_full, is_tried) in
        [(&full, true, true), (&full_timers, true, true), (&closed, false, false), (&drained, false, true)]
    {
        let (level, tries, before) = (Level::default(), Level::default(), world.purgatory.watched());
        let (counted, mut reached) = (tries.clone(), level.reached(1));
        let condition = move || {
            counted.set(counted.get() + 1);
            reached()
        };
        let refused = world.purgatory.wait([1], SECOND, condition).now_or_never().unwrap().unwrap_err();
        assert_eq!(matches!(refused, WaitError::Full { .. }), is_full, "{refused:?}");
        assert_eq!(matches!(refused, WaitError::Closed { .. }), !is_full, "{refused:?}");
        assert_eq!((tries.get(), world.purgatory.watched()), (u32::from(is_tried), before), "{refused:?}");
        level.set(1);
        assert_eq!(refused.into_condition().unwrap()(), Some(1));
    }
    drop(waiting);
    [full, full_timers, closed, drained].iter().for_each(World::assert_empty);
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

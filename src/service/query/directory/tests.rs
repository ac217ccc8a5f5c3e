//! Tests of the directory: timer actors that leave it, clocks that it does not read, internal timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use actix::prelude::*;

use super::DIRECTORY;
use crate::api::timer_actor::TimerActor;
use crate::tests::fixture::{Bell, Ring};
use crate::{Alarm, Clock, RequestTime, TimerId, get};
use crate::{CancelOutcome, RescheduleOutcome, cancel};

#[test]
fn a_timer_actor_that_is_gone_leaves_the_directory() {
    let actor = TimerActor::builder().build().unwrap();
    let service = Arc::clone(actor.service());
    assert!(DIRECTORY.contains_key(&service.number));
    drop(actor);
    assert!(!DIRECTORY.contains_key(&service.number));
}

/// Counts how often it is read.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Clock for Counting {
    fn now(&self) -> Duration {
        self.0.fetch_add(1, Ordering::Relaxed);
        Duration::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn since(&self, _: RequestTime) -> Duration {
        Duration::ZERO
    }

    fn alarm(&self, _: Duration) -> Alarm {
        Box::pin(std::future::pending())
    }
}

/// The clock may belong to another runtime, or to a test.
#[test]
fn no_clock_is_read_for_an_id_of_another_timer_actor() {
    let clock = Counting::default();
    let actor = TimerActor::builder().clock(clock.clone()).build().unwrap();
    assert_eq!(get(TimerId::new()), None);
    assert_eq!(clock.0.load(Ordering::Relaxed), 0);
    drop(actor);
}

/// No user has such an id, so this cannot be tested from outside.
#[test]
fn the_id_of_an_internal_timer_finds_nothing() {
    System::new().block_on(async {
        let users = TimerActor::builder().install().unwrap();
        let internal = TimerActor::builder().internal().start().unwrap();
        let (bell, hour) = (Bell.start(), Duration::from_secs(3600));
        let id = internal.schedule_after(&bell, hour, Ring);
        assert_eq!((cancel(id), users.cancel(id)), (CancelOutcome::NotFound, CancelOutcome::NotFound));
        assert_eq!((get(id), users.get(id)), (None, None));
        assert_eq!(users.reschedule_after(id, hour), RescheduleOutcome::NotFound);
        assert_eq!(users.addr().send(crate::Cancel(id)).await.unwrap(), CancelOutcome::NotFound);
        assert_eq!(internal.service().cancel(id), CancelOutcome::Cancelled);
    });
}

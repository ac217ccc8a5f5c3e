//! The timer actor that contexts use: the installed one, and never a default one beside a user's clock.

use std::time::SystemTime;

use actix::prelude::*;
use actix_timers::integration::{InternalTimers, system_clock_with_wall};
use actix_timers::{
    BuildError, GetSnapshot, ManualClock, Repeat, ScheduleError, TimerActor, TimerActorBuilder, TimerContext,
    TimerOptions, Timers,
};
use support::{Note, eventually, ms, probe, run};

/// However it is started.
#[test]
fn contexts_are_rejected_beside_a_clock_that_is_only_started() {
    let starts: [fn(TimerActorBuilder) -> Addr<TimerActor>; 3] = [
        |builder| builder.start().unwrap().addr().clone(),
        |builder| builder.start_on(&Arbiter::current()).unwrap().addr().clone(),
        |builder| builder.build().unwrap().start(),
    ];
    for start in starts {
        support::in_real_time(async {
            let timers = start(TimerActor::builder().clock(ManualClock::new()));
            timers.send(GetSnapshot).await.unwrap();
            run(&probe().0, |_, ctx| {
                let rejected = ctx.timer(TimerOptions::new()).try_schedule(ms(1), Note(1)).unwrap_err();
                assert!(matches!(rejected, ScheduleError::NotInstalled { message: Note(1) }), "{rejected:?}");
                assert!(rejected.to_string().contains("`TimerActorBuilder::install`"), "{rejected}");
                let at = std::time::SystemTime::now();
                let rejected = ctx.timer(TimerOptions::new().key("k")).try_schedule(at, Note(2));
                assert!(matches!(rejected, Err(ScheduleError::NotInstalled { message: Note(2) })));
                let repeated = ctx.timer(TimerOptions::new()).try_repeat(Repeat::every(ms(1)), Note(3));
                assert_eq!(repeated.unwrap_err().into_message().next_message(), Note(3));
            })
            .await;
            assert!(Timers::current().is_none());
            assert_eq!(timers.send(GetSnapshot).await.unwrap().counters.accepted, 0);
        });
    }
}

#[test]
fn contexts_use_the_installed_one_although_others_started() {
    support::in_real_time(async {
        let other = TimerActor::builder().clock(ManualClock::new()).start().unwrap();
        let clock = ManualClock::new();
        let installed = TimerActor::builder().clock(clock.clone()).install().unwrap();
        let (addr, _) = probe();
        run(&addr, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
        clock.advance(ms(5)).await;
        assert_eq!(installed.snapshot().counters.delivered, 1);
        assert_eq!(other.snapshot().counters.accepted, 0);
        assert_eq!(Timers::current().unwrap().name(), installed.name());
    });
}

/// Beside a user's clock only after an explicit request to the registry.
#[test]
fn contexts_use_an_automatic_one_beside_others_in_system_time() {
    for is_requested in [false, true] {
        support::in_real_time(async {
            let builder = TimerActor::builder();
            let other = if is_requested { builder.clock(ManualClock::new()) } else { builder }.start().unwrap();
            let _default = is_requested.then(TimerActor::from_registry);
            run(&probe().0, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
            assert_eq!(other.snapshot().counters.accepted, 0);
            assert_eq!(Timers::current().unwrap().snapshot().counters.accepted, 1);
        });
    }
}

/// Durable timers of a store that processes share have the wall clock of that.
#[test]
fn contexts_use_an_automatic_one_beside_a_system_clock_with_another_wall_clock() {
    support::in_real_time(async {
        let clock = system_clock_with_wall(|| SystemTime::UNIX_EPOCH);
        let other = InternalTimers::start(TimerActor::builder().clock(clock)).unwrap();
        assert_eq!(other.clock().wall(), SystemTime::UNIX_EPOCH);
        run(&probe().0, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
        assert_eq!(other.snapshot().counters.accepted, 0);
        assert_eq!(Timers::current().unwrap().snapshot().counters.accepted, 1);
    });
}

/// A user's clock whose timer actor or system is gone is no reason to reject.
#[test]
fn a_timer_actor_that_has_stopped_is_forgotten() {
    support::in_real_time(async {
        let timers = TimerActor::builder().clock(ManualClock::new()).start().unwrap();
        let name = timers.name().to_owned();
        drop(timers);
        let (addr, _) = probe();
        let scheduled = || run(&addr, |_, ctx| ctx.timer(TimerOptions::new()).try_schedule(ms(5), Note(1)).is_ok());
        let mut turns = 0..1000;
        while !scheduled().await {
            assert!(turns.next().is_some(), "{name} has stopped");
            tokio::task::yield_now().await;
        }
        let _left = TimerActor::builder().clock(ManualClock::new()).start().unwrap();
    });
    support::in_real_time(async {
        let (addr, _) = probe();
        run(&addr, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
        eventually(|| Timers::current().is_some()).await;
    });
}

/// The advice of a rejected `install` holds however often it is called, and after a drain.
#[test]
fn a_rejected_install_advises_on_what_is_there() {
    support::in_real_time(async {
        let (addr, _) = probe();
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(5), Note(1))).await;
        for _ in 0..2 {
            let rejected = TimerActor::builder().install().unwrap_err();
            assert_eq!(rejected, BuildError::AlreadyRunning);
            assert!(rejected.to_string().contains("before the first timer of a context"), "{rejected}");
        }
    });
    support::in_real_time(async {
        let installed = TimerActor::builder().install().unwrap();
        let rejected = || TimerActor::builder().install().unwrap_err();
        for _ in 0..2 {
            assert_eq!(rejected(), BuildError::AlreadyInstalled);
        }
        assert_eq!(Timers::current().map(|timers| timers.name().to_owned()).as_deref(), Some(installed.name()));
        assert!(*installed.addr() == TimerActor::from_registry());
        assert!(*installed.addr() == <TimerActor as ArbiterService>::from_registry());
        drop(installed.drain());
        assert_eq!(rejected(), BuildError::AlreadyInstalled);
        assert!(rejected().to_string().contains("`start` for others beside it"), "{}", rejected());
        assert!(TimerActor::builder().start().is_ok());
    });
}

/// Contexts keep the drained timer actor; the `Timers` of another one accept the same message for the same actor.
#[test]
fn after_a_drain_the_timers_of_another_one_can_be_used() {
    support::in_real_time(async {
        let clock = ManualClock::new();
        let drained = TimerActor::builder().clock(clock.clone()).install().unwrap();
        drop(drained.drain());
        let another = TimerActor::builder().clock(clock.clone()).start().unwrap();
        let (addr, _) = probe();
        for _ in 0..2 {
            let rejected =
                run(&addr, |_, ctx| ctx.timer(TimerOptions::new()).try_schedule(ms(1), Note(1)).unwrap_err()).await;
            assert!(matches!(rejected, ScheduleError::Stopped { .. }));
            assert!(rejected.to_string().contains("the `Timers` of another one"), "{rejected}");
            another.schedule_after(&addr, ms(1), rejected.into_message());
        }
        clock.advance(ms(1)).await;
        assert_eq!(another.snapshot().counters.delivered, 2);
    });
}

//! Settings for the timer actors of all arbiters of a system.

use std::sync::{Arc, mpsc};
use std::time::Instant;

use actix::prelude::*;
use actix_timers::{
    BuildError, GetSnapshot, ManualClock, ScheduleError, SystemClock, TimerActor, TimerActorBuilder, TimerContext,
    TimerOptions, Timers, integration::Survey,
};
use support::{Note, eventually, ms, probe, probe_on, run};
use tokio::sync::oneshot;

fn web() -> TimerActorBuilder {
    TimerActor::builder().name("web").capacity(7)
}

/// Returns the result of a function that runs on an arbiter.
async fn on<R: Send + 'static>(arbiter: &Arbiter, job: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = oneshot::channel();
    arbiter.spawn_fn(move || assert!(tell.send(job()).is_ok()));
    told.await.unwrap()
}

fn name() -> String {
    Timers::current().unwrap().name().to_owned()
}

/// The names of the timer actors of this system.
fn all() -> Vec<String> {
    Survey::of_system(Some(System::current().id())).iter().map(|survey| survey.name().to_owned()).collect()
}

#[test]
fn every_arbiter_starts_with_the_settings_also_later_ones() {
    support::in_real_time(async {
        let earlier = Arbiter::new();
        web().install_for_all_arbiters().unwrap();
        assert_eq!(all(), [""; 0], "nothing has been started");
        let (addr, _) = probe();
        run(&addr, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
        assert_eq!(name(), "web-1");
        assert_eq!(on(&earlier, name).await, "web-2");
        let (there, _log) = probe_on::<u8>(&earlier, |_, _| ());
        let capacity = run(&there, |_, ctx| {
            (0..7).for_each(|note| _ = ctx.schedule_after(ms(60_000), Note(note)));
            ctx.timer(TimerOptions::new()).try_schedule(ms(60_000), Note(8)).unwrap_err()
        });
        assert!(matches!(capacity.await, ScheduleError::CapacityReached { capacity: 7, .. }));
        assert_eq!(on(&Arbiter::new(), name).await, "web-3");
        let system = <TimerActor as SystemService>::from_registry();
        assert_eq!(system.send(GetSnapshot).await.unwrap().name, "web-4");
        assert_eq!(all(), ["web-1", "web-2", "web-3", "web-4"]);
    });
}

#[test]
fn a_number_is_free_again_when_its_timer_actor_has_ended() {
    support::in_real_time(async {
        web().install_for_all_arbiters().unwrap();
        let (first, second) = (Arbiter::new(), Arbiter::new());
        assert_eq!((on(&first, name).await, on(&second, name).await), ("web-1".to_owned(), "web-2".to_owned()));
        first.stop();
        first.join().unwrap();
        assert_eq!(name(), "web-1");
        assert_eq!(on(&Arbiter::new(), name).await, "web-3");
    });
}

#[test]
fn an_arbiter_keeps_the_timer_actor_that_was_installed_on_it() {
    support::in_real_time(async {
        let installed = TimerActor::builder().name("own").install().unwrap();
        web().install_for_all_arbiters().unwrap();
        assert_eq!(name(), installed.name());
        let worker = Arbiter::new();
        let there =
            on(&worker, || TimerActor::builder().name("there").install().map(|timers| timers.name().to_owned()));
        assert_eq!(there.await.unwrap(), "there");
        assert_eq!(on(&worker, name).await, "there");
        assert_eq!(on(&Arbiter::new(), name).await, "web-1");
    });
}

#[test]
fn settings_for_all_arbiters_are_installed_once_and_in_time() {
    support::in_real_time(async {
        web().install_for_all_arbiters().unwrap();
        assert_eq!(name(), "web-1");
        let again = web().install_for_all_arbiters().unwrap_err();
        assert_eq!(again, BuildError::AlreadyInstalledForAllArbiters);
        assert!(again.to_string().contains("call `TimerActorBuilder::install` on an arbiter"), "{again}");
        assert_eq!(web().install().err(), Some(BuildError::AlreadyRunning));
    });
    support::in_real_time(async {
        let late = on(&Arbiter::new(), name).await;
        assert_eq!(web().install_for_all_arbiters(), Err(BuildError::AlreadyStarted(late)));
    });
    support::in_real_time(async {
        assert_eq!(web().capacity(0).install_for_all_arbiters(), Err(BuildError::Zero("capacity")));
        assert_eq!(web().install_for_all_arbiters(), Ok(()), "an invalid setting has installed nothing");
    });
    assert_eq!(std::thread::spawn(|| web().install_for_all_arbiters()).join().unwrap(), Err(BuildError::NoSystem));
}

/// Tests of one process run in systems of their own.
#[test]
fn other_systems_are_not_affected() {
    support::in_real_time(async {
        web().install_for_all_arbiters().unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            support::in_real_time(async {
                let default = name();
                tell.send((default.clone(), all() == [default])).unwrap();
            });
        });
        let (default, is_alone) = told.recv().unwrap();
        assert!(default.starts_with("timers-") && is_alone, "{default}");
        assert_eq!(name(), "web-1");
    });
    // The same thread, the next system. Without a name each timer actor has its default name.
    support::in_real_time(async {
        TimerActor::builder().install_for_all_arbiters().unwrap();
        let there = on(&Arbiter::new(), name).await;
        assert_ne!(name(), there);
        assert!(name().starts_with("timers-") && there.starts_with("timers-"), "{there}");
    });
}

#[test]
fn a_clock_is_released_when_its_system_has_ended() {
    let clock = Arc::new(ManualClock::new());
    let system = System::new();
    system.block_on(async { web().clock(Arc::clone(&clock)).install_for_all_arbiters().unwrap() });
    assert_eq!(Arc::strong_count(&clock), 2);
    drop(system);
    assert_eq!(Arc::strong_count(&clock), 1);
    let unused = System::new();
    web().clock(Arc::clone(&clock)).install_for_all_arbiters().unwrap();
    drop(unused);
    assert_eq!(Arc::strong_count(&clock), 1, "also if the system never ran");
}

/// A context beside a started timer actor with a clock of its own is in doubt only as long as nothing is installed.
#[test]
fn contexts_use_the_settings_beside_a_clock_of_another() {
    support::in_real_time(async {
        let _other = TimerActor::builder().clock(ManualClock::new()).start().unwrap();
        assert!(Timers::current().is_none());
        web().install_for_all_arbiters().unwrap();
        let (addr, _) = probe();
        run(&addr, |_, ctx| ctx.schedule_after(ms(5), Note(1))).await;
        assert_eq!(name(), "web-1");
    });
}

/// A system clock belongs to one runtime: a paused one of `main` must not stop the clocks of workers.
#[test]
fn a_system_clock_is_not_shared() {
    support::paused(async {
        web().clock(SystemClock::new()).install_for_all_arbiters().unwrap();
        let (here, worker) = (Timers::current().unwrap(), Arbiter::new());
        let stands = here.snapshot().now;
        let moves = on(&worker, || {
            let (there, begun) = (Timers::current().unwrap(), Instant::now());
            let start = there.snapshot().now;
            while there.snapshot().now == start && begun.elapsed() < support::PATIENCE {}
            there.snapshot().now > start
        });
        assert!(moves.await);
        assert_eq!(here.snapshot().now, stands);
    });
}

#[test]
fn a_survey_finds_every_timer_actor_but_internal_ones() {
    support::in_real_time(async {
        let installed = TimerActor::builder().name("installed").install().unwrap();
        let started = TimerActor::builder().name("started").start().unwrap();
        let worker = Arbiter::new();
        let elsewhere = TimerActor::builder().name("elsewhere").start_on(&worker.handle()).unwrap();
        elsewhere.addr().send(GetSnapshot).await.unwrap();
        let _internal =
            actix_timers::integration::InternalTimers::start(TimerActor::builder().name("internal")).unwrap();
        web().install_for_all_arbiters().unwrap();
        assert_eq!(on(&worker, name).await, "web-1");
        assert_eq!(all(), ["installed", "started", "elsewhere", "web-1"]);
        drop(elsewhere);
        eventually(|| all() == ["installed", "started", "web-1"]).await;
        drop((installed, started));
    });
}

/// As a server for tests does, which starts a system of its own on another thread: its workers call the factory of the
/// application. One manual clock moves the timers of all, and waits for them.
#[test]
fn workers_of_another_system_install_the_settings_themselves() {
    support::in_real_time(async {
        let clock = ManualClock::new();
        let shared = clock.clone();
        let install = move || web().clock(shared.clone()).install_for_all_arbiters();
        install().unwrap();
        let (tell, told) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = std::thread::spawn(move || {
            support::in_real_time(async {
                let workers = [Arbiter::new(), Arbiter::new()];
                let (mut installed, mut all) = (Vec::new(), Vec::new());
                for worker in &workers {
                    installed.push(on(worker, install.clone()).await);
                    let (addr, _log) = probe_on::<u8>(worker, |_, _| ());
                    run(&addr, |_, ctx| [60_000, 60_001].map(|delay| ctx.schedule_after(ms(delay), Note(1)))).await;
                    all.push((on(worker, || Timers::current().unwrap()).await, addr));
                }
                tell.send((installed, all)).unwrap();
                let _ = stopped.await;
            });
        });
        let (installed, all) = told.await.unwrap();
        assert_eq!(installed, [Ok(()), Err(BuildError::AlreadyInstalledForAllArbiters)]);
        assert_eq!([all[0].0.name(), all[1].0.name()], ["web-1", "web-2"]);
        for (by, delivered) in [(59_999, 0), (1, 1), (1, 2)] {
            clock.advance(ms(by)).await;
            assert!(all.iter().all(|(timers, _)| timers.snapshot().counters.delivered == delivered), "{by}");
        }
        drop(stop);
        server.join().unwrap();
    });
}

//! The watchdog's checks, with the test in its place.

use std::sync::OnceLock;

use tokio::runtime::Runtime;

use crate::service::deliver::next_check::{AT_ONCE, Nanos};
use crate::service::deliver::watchdog::Watchdog;
use crate::service::query::directory;
use crate::service::state::Settings;
use crate::sync::elapsed;
use crate::tests::by_hand::*;

/// A runtime on the real clock, as the watchdog requires.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().build().unwrap())
}

/// Returns a world on a manual clock that the watchdog may cover. (It does not by itself, since no runtime is there.)
fn watchable(builder: TimerActorBuilder) -> World {
    let clock = ManualClock::new();
    let actor = builder.clock(clock.clone()).build().unwrap();
    let settings = Settings { on_system_clock: true, ..actor.service().settings.clone() };
    let service = directory::enter(|number| Service::new(number, settings, Arc::new(clock.clone())));
    World::of(TimerActor::new(service), clock)
}

/// Registers a world with a watchdog without a thread.
fn watch_of(world: &World) -> Arc<Watchdog> {
    let watchdog = Arc::new(Watchdog::without_a_thread());
    let _entered = runtime().enter();
    world.service.join_watchdog_of(&watchdog);
    assert!(world.service.has_watchdog());
    // Registration has requested a first check.
    assert_eq!(watchdog.was_told(), AT_ONCE);
    watchdog
}

fn watched() -> (World, Arc<Watchdog>) {
    watched_by(TimerActorBuilder::default())
}

fn watched_by(builder: TimerActorBuilder) -> (World, Arc<Watchdog>) {
    let world = watchable(builder);
    let watchdog = watch_of(&world);
    (world, watchdog)
}

impl Ear {
    /// Schedules a closure that is logged like a message.
    fn run_after(&mut self, delay: u64, name: u32) {
        let log = move |listener: &mut Listener, _: &mut Context<Listener>| listener.0.lock().unwrap().push(name);
        self.run(move |ctx| ctx.run_after(ms(delay), log));
    }
}

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

impl Watchdog {
    /// Returns the requested time of the next check, and clears it.
    fn was_told(&self) -> Nanos {
        let next = self.next_check.next();
        self.next_check.begin();
        next
    }
}

/// Messages that the watchdog brings into an inbox have waited already: their actor's thread is busy. A running driver
/// lets inboxes run.
#[test]
fn messages_of_the_watchdog_have_waited_since_their_deadline() {
    for (by, since) in [(WakeupCause::Watchdog, ms(10)), (WakeupCause::Call, ms(40))] {
        let (mut world, _) = watched();
        world.ear.own(10, number(1));
        world.poll_driver();
        world.clock.jump(ms(40));
        assert!(matches!(world.service.turn(by), TurnResult::Sleep(_)));
        let waiting: Vec<_> = world.service.state().driver.watched_inboxes.iter().map(|(since, _)| *since).collect();
        assert_eq!(waiting, [since], "{by:?}");
    }
}

/// The watchdog handles all in time, so that no bucket is late.
#[test]
fn the_absence_of_the_driver_is_overdue() {
    let (mut world, watchdog) = watched();
    let overdue = |world: &World| {
        let state = &mut world.service.state();
        world.service.report(state, world.clock.now()).overdue
    };
    (1..=300).for_each(|name| _ = world.ear.own(10 * u64::from(name), number(name)));
    world.poll_driver();
    for _ in 0..300 {
        world.clock.jump(ms(10));
        watchdog.check();
    }
    assert!((ms(2980)..=ms(3000)).contains(&overdue(&world)), "{:?}", overdue(&world));
    world.poll_driver();
    assert_eq!(overdue(&world), ms(0));
    // It begins after a turn for a starved actor, while the next deadline is far away.
    let (mut world, watchdog) = watched();
    [10, 3_600_000].into_iter().for_each(|delay| _ = world.ear.own(delay, number(1)));
    world.poll_driver();
    world.driver_at(10);
    world.clock.jump(ms(30));
    watchdog.check();
    let other = Ear::new();
    (1..=300).for_each(|n| _ = world.timers.schedule_after(&other.addr, ms(10 * n), number(1)));
    for _ in 0..300 {
        world.clock.jump(ms(10));
        watchdog.check();
    }
    assert!(overdue(&world) >= ms(2900), "{:?}", overdue(&world));
}

/// Quiet actors with heartbeats do not wake the watchdog for each of them. The next message of a starved one does not wait
/// for the grace period again.
#[test]
fn the_watchdog_forgets_empty_inboxes_but_those_of_starved_actors() {
    let watches = |world: &World| world.service.state().driver.watched_inboxes.len();
    let (mut world, watchdog) = watched();
    world.ear.own(10, number(1));
    world.poll_driver();
    world.clock.jump(ms(10));
    world.poll_driver();
    watchdog.check();
    assert_eq!(watches(&world), 1);
    world.ear.poll();
    watchdog.check();
    assert_eq!((world.ear.log(), watches(&world)), (vec![1], 0));
    let (mut world, watchdog) = watched();
    world.ear.own(10, number(1));
    world.find_late(&watchdog);
    watchdog.check();
    assert_eq!(watches(&world), 1, "its message is in the mailbox");
    world.clock.jump(ms(20));
    watchdog.check();
    assert_eq!(watches(&world), 0);
}

/// A flooded actor handles a message that the watchdog has sent: the next one is sent at once.
#[test]
fn the_watchdog_looks_at_once_when_its_message_was_handled() {
    for (messages, looks_again) in [(2, true), (1, false)] {
        let (mut world, watchdog) = watched();
        let handled = Hook::default();
        world.ear.between(&handled);
        (0..messages).for_each(|n| _ = world.ear.own(10, number(n)));
        world.find_late(&watchdog);
        watchdog.was_told();
        let found = Arc::new(Mutex::new(None));
        let (seen, looks) = (Arc::clone(&found), Arc::clone(&watchdog));
        set_hook(&handled, move || *seen.lock().unwrap() = Some(looks.was_told()));
        world.ear.poll();
        assert_eq!(world.ear.log()[0], 0);
        let told = found.lock().unwrap().unwrap();
        assert_eq!(told <= nanos(elapsed() + ms(20)), looks_again, "{messages}");
    }
}

impl World {
    /// Lets the watchdog find messages that were due at 10 ms.
    fn find_late(&mut self, watchdog: &Watchdog) {
        self.poll_driver();
        self.clock.jump(ms(40));
        watchdog.check();
    }
}

/// A bell pulls as many messages as a poll of the inbox. Then others have their turn.
#[test]
fn bells_pull_the_messages_of_a_flooded_actor() {
    let (mut world, watchdog) = watched();
    world.ear.run(|ctx| ctx.enable_due_timers());
    (0..70).for_each(|n| _ = world.ear.own(10, number(n)));
    world.find_late(&watchdog);
    world.ear.poll();
    assert_eq!(world.ear.log().len(), 64);
    world.ear.poll();
    assert_eq!(world.ear.log(), (0..70).collect::<Vec<_>>());
}

#[test]
fn a_bell_pulls_nothing_while_the_context_waits() {
    let (mut world, watchdog) = watched();
    world.ear.run(|ctx| {
        ctx.enable_due_timers();
        let wait = |ctx: &mut Context<Listener>| ctx.wait(actix::fut::wrap_future(std::future::pending()));
        ctx.schedule_after(ms(10), Run(Box::new(wait)));
    });
    let behind = world.ear.own(10, number(1));
    world.find_late(&watchdog);
    world.ear.poll();
    assert_eq!((world.ear.log(), world.place(behind)), (vec![], Some("inbox")));
}

/// The search for a message is bounded, for it holds the lock.
#[test]
fn a_message_passes_at_most_256_closures() {
    for (closures, location) in [(256, None), (257, Some("inbox"))] {
        let (mut world, watchdog) = watched();
        (0..closures).for_each(|name| world.ear.run_after(10, name));
        let id = world.ear.own(10, number(999));
        world.poll_driver();
        // They are due in two turns.
        world.clock.jump(ms(40));
        (0..2).for_each(|_| _ = world.service.turn(WakeupCause::Watchdog));
        watchdog.check();
        assert_eq!(world.place(id), location, "{closures} closures");
    }
}

/// The inbox of an actor that was flooded is polled again, and has handled as many messages as one poll may.
#[test]
fn the_watchdog_leaves_an_inbox_alone_that_goes_on() {
    let (mut world, watchdog) = watched();
    let ids: Vec<_> = (0..70).map(|n| world.ear.own(10, number(n))).collect();
    world.find_late(&watchdog);
    assert_eq!(world.service.state().lanes.posted.len(), 1);
    world.ear.poll();
    assert_eq!(world.ear.log().len(), 1 + 64);
    watchdog.check();
    assert_eq!(world.place(ids[69]), Some("inbox"));
    assert!(world.service.state().lanes.posted.is_empty());
}

/// Queues wait for a driver that has much to do: the watchdog steps in 20 ms after its last turn, not after the answers
/// that called it.
#[test]
fn the_watchdog_leaves_queues_to_a_running_driver() {
    let (mut world, watchdog) = watched_by(TimerActorBuilder::default().expiry_budget(1));
    let mut ears = [(); 3].map(|()| Ear::new());
    for ear in &ears {
        let target = Target::tracked(&ear.addr).window(1);
        for name in [1, 2] {
            world.timers.schedule_after(&target, ms(10), number(name));
        }
    }
    world.clock.jump(ms(10));
    world.go_on();
    ears.iter_mut().for_each(Ear::poll);
    world.driver_at(15);
    for (passed, sent) in [(19, 1), (1, 2)] {
        world.clock.jump(ms(passed));
        watchdog.check();
        ears.iter_mut().for_each(Ear::poll);
        let seconds = ears.iter().filter(|ear| ear.log() == [1, 2]).count();
        assert_eq!(seconds, sent, "one by the driver, and then another by the watchdog");
    }
}

#[test]
fn an_idle_watchdog_check_does_not_wake_the_driver() {
    let (mut world, watchdog) = watched();
    world.after(1000, 1);
    world.poll_driver();
    world.driver_called.take();
    assert!(watchdog.check() > nanos(elapsed()));
    assert_eq!(world.driver_called.take(), 0);
}

/// A message will be late in 6 ms, and the driver may still be in time.
#[test]
fn the_watchdog_looks_every_ten_milliseconds_at_most() {
    let mut world = watchable(TimerActorBuilder::default());
    world.after(5, 1);
    world.poll_driver();
    world.clock.jump(ms(19));
    let watchdog = watch_of(&world);
    let before = elapsed();
    assert!(watchdog.check() >= nanos(before + ms(10)));
}

/// The handle of a runtime keeps its files open, and a service lives as long as its `Timers`.
#[test]
fn a_service_that_has_stopped_lets_go_of_its_runtime_and_is_forgotten() {
    let (world, watchdog) = watched();
    watchdog.check();
    assert_eq!(watchdog.looks_after(), 1);
    let World { service, driver, ear, timers, .. } = world;
    drop(driver);
    assert!(service.is_stopped());
    assert!(!service.has_watchdog());
    assert!(!service.watchdog_entry.get().unwrap().has_runtime());
    let is_gone = Arc::downgrade(&service);
    drop((service, ear, timers));
    drop(World::new());
    assert_eq!(is_gone.strong_count(), 0);
    watchdog.check();
    assert_eq!(watchdog.looks_after(), 0);
}

/// A turn of the watchdog publishes while the last handler runs.
#[test]
fn the_end_of_a_series_after_its_handler_is_published() {
    let mut world = World::new();
    let end = world.clock.wall() + ms(1000);
    let (service, clock) = (Arc::clone(&world.service), world.clock.clone());
    world.ear.run(move |ctx| {
        let pause = Repeat::every(ms(10)).until(end).with_fixed_delay();
        let code: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            clock.jump(ms(1000));
            let _ = service.turn(WakeupCause::Watchdog);
        });
        ctx.run_every(pause, move |_, _| code());
    });
    world.driver_at(10);
    world.driver_called.take();
    world.ear.poll();
    assert_eq!(world.service.state().engine.counters().cancelled, 1);
    let is_due = world.service.state().reports.published.is_due(Duration::MAX);
    assert_eq!((is_due, world.driver_called.take() > 0), (Ok(()), true));
}

//! The watchdog's checks, with the test in its place.

use std::sync::OnceLock;

use tokio::runtime::Runtime;

use crate::service::deliver::next_check::{AT_ONCE, IDLE, Nanos};
use crate::service::deliver::turns::TurnBy;
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
    let observed = Observed { hands: ManualClock::new(), reading: Reading::default(), alarms: Arc::default() };
    let actor = builder.clock(observed.clone()).build().unwrap();
    let settings = Settings { on_system_clock: true, ..actor.service().settings.clone() };
    let service = directory::enter(|number| Service::new(number, settings, Arc::new(observed.clone())));
    World::of(TimerActor::new(service), observed)
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

/// The wall clock is stepped forward just before the arbiter is blocked.
#[test]
fn the_watchdog_knows_of_deadlines_that_have_become_earlier() {
    let (mut world, watchdog) = watched();
    let target = world.addr.clone();
    let hour = Duration::from_secs(3600);
    let wall = world.clock.wall();
    world.timers.schedule_at(&target, wall + hour, number(1));
    world.poll_driver();
    watchdog.was_told();
    world.clock.set_wall(wall + hour - ms(100));
    world.poll_driver();
    assert!(watchdog.was_told() < nanos(elapsed() + ms(200)));
    let (mut idle, watchdog) = watched();
    idle.poll_driver();
    assert_eq!(watchdog.was_told(), IDLE, "nothing is pending");
}

/// Messages that the watchdog brings into an inbox have waited already: their actor's thread is busy. A running driver
/// lets inboxes run.
#[test]
fn messages_of_the_watchdog_have_waited_since_their_deadline() {
    for (by, since) in [(TurnBy::Watchdog, ms(10)), (TurnBy::Driver, ms(40))] {
        let (mut world, _) = watched();
        world.own(10, number(1));
        world.poll_driver();
        world.clock.jump(ms(40));
        assert!(matches!(world.service.turn(by), TurnResult::Sleep(_)));
        let waiting: Vec<_> = world.service.state().driver.watched_inboxes.iter().map(|(since, _)| *since).collect();
        assert_eq!(waiting, [since], "{by:?}");
    }
}

/// A flooded actor handles a message that the watchdog has sent: the next one is sent at once.
#[test]
fn the_watchdog_looks_at_once_when_its_message_was_handled() {
    for (messages, looks_again) in [(2, true), (1, false)] {
        let (mut world, watchdog) = watched();
        let handled = Hook::default();
        world.addr.do_send(Between(Arc::clone(&handled)));
        (0..messages).for_each(|n| world.own(10, number(n)));
        world.find_late(&watchdog);
        watchdog.was_told();
        let found = Arc::new(Mutex::new(None));
        let (seen, looks) = (Arc::clone(&found), Arc::clone(&watchdog));
        *handled.lock().unwrap() = Some(Box::new(move || *seen.lock().unwrap() = Some(looks.was_told())));
        world.poll_listener();
        assert_eq!(world.log()[0], 0);
        let told = found.lock().unwrap().unwrap();
        assert_eq!(told <= nanos(elapsed() + ms(20)), looks_again, "{messages}");
    }
}

/// Reads the counter of the watchdog's interventions.
fn interventions(recorder: &metrics_exporter_prometheus::PrometheusRecorder) -> u64 {
    let page = recorder.handle().render();
    let series = page.lines().filter(|line| line.starts_with("actix_timers_wakeups_total"));
    let watchdog = series.filter(|line| line.contains("reason=\"watch\""));
    watchdog.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A flooded actor gets its next message as soon as it has handled one, and not at the watchdog's next regular check.
#[test]
fn a_flooded_actor_gets_messages_one_after_the_other() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let (mut world, watchdog) = metrics::with_local_recorder(&recorder, watched);
    let flooded = Hook::default();
    world.addr.do_send(Between(Arc::clone(&flooded)));
    let ids = [1, 2].map(|n| {
        world.own(10, number(n));
        LAST_OWN.take().unwrap()
    });
    world.find_late(&watchdog);
    assert_eq!(interventions(&recorder), 1);
    let places = move |timers: &Timers| ids.map(|id| timers.get(id).map(|timer| timer.location.as_str()));
    assert_eq!(places(&world.timers), [None, Some("inbox")]);
    // After the mailbox, and before the inbox.
    let (timers, found) = (world.timers.clone(), Arc::new(Mutex::new(None)));
    let seen = Arc::clone(&found);
    *flooded.lock().unwrap() = Some(Box::new(move || {
        watchdog.check();
        *seen.lock().unwrap() = Some(places(&timers));
    }));
    world.poll_listener();
    assert_eq!(*found.lock().unwrap(), Some([None, None]));
    assert_eq!(interventions(&recorder), 2);
    world.poll_listener();
    assert_eq!(world.log(), [1, 2]);
}

impl World {
    /// Lets the listener schedule a closure that is logged like a message.
    fn run_after(&mut self, delay: u64, name: u32) {
        let log = move |listener: &mut Listener, _: &mut Context<Listener>| listener.0.lock().unwrap().push(name);
        self.run(move |ctx| LAST_OWN.set(Some(ctx.run_after(ms(delay), log))));
    }

    /// Lets the watchdog find messages that were due at 10 ms.
    fn find_late(&mut self, watchdog: &Watchdog) {
        self.poll_driver();
        self.clock.jump(ms(40));
        watchdog.check();
    }

    /// Lets the watchdog check between mailbox and inbox at each poll of the listener.
    fn flood(&mut self, watchdog: &Arc<Watchdog>) {
        let (flooded, watchdog) = (Hook::default(), Arc::clone(watchdog));
        self.addr.do_send(Between(Arc::clone(&flooded)));
        self.poll_listener();
        fn checks(hook: &Hook, watchdog: Arc<Watchdog>) {
            let again = Arc::clone(hook);
            *hook.lock().unwrap() = Some(Box::new(move || {
                watchdog.check();
                checks(&again, watchdog);
            }));
        }
        checks(&flooded, watchdog);
    }

    fn location(&self, id: TimerId) -> Option<&'static str> {
        self.timers.get(id).map(|timer| timer.location.as_str())
    }
}

/// A closure cannot be sent. Messages behind it go past it; closures keep their order, and so do messages.
#[test]
fn messages_of_a_flooded_actor_pass_its_closures() {
    let (mut world, watchdog) = watched();
    world.flood(&watchdog);
    world.run_after(10, 1);
    world.own(10, number(2));
    world.run_after(10, 3);
    world.own(10, number(4));
    world.own(10, number(5));
    world.run_after(10, 6);
    world.find_late(&watchdog);
    for _ in 0..4 {
        world.poll_listener();
    }
    assert_eq!(world.log(), [2, 4, 5, 1, 3, 6]);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.pending), (6, 0));
}

/// A bell pulls as many messages as a poll of the inbox. Then others have their turn.
#[test]
fn bells_pull_the_messages_of_a_flooded_actor() {
    let (mut world, watchdog) = watched();
    world.run(|ctx| ctx.enable_due_timers());
    (0..70).for_each(|n| world.own(10, number(n)));
    world.find_late(&watchdog);
    world.poll_listener();
    assert_eq!(world.log().len(), 64);
    world.poll_listener();
    assert_eq!(world.log(), (0..70).collect::<Vec<_>>());
}

#[test]
fn a_bell_pulls_nothing_while_the_context_waits() {
    let (mut world, watchdog) = watched();
    world.run(|ctx| {
        ctx.enable_due_timers();
        let wait = |ctx: &mut Context<Listener>| ctx.wait(actix::fut::wrap_future(std::future::pending()));
        ctx.schedule_after(ms(10), Run(Box::new(wait)));
    });
    world.own(10, number(1));
    world.find_late(&watchdog);
    world.poll_listener();
    let behind = LAST_OWN.take().unwrap();
    assert_eq!((world.log(), world.location(behind)), (vec![], Some("inbox")));
}

/// The search for a message is bounded, for it holds the lock.
#[test]
fn a_message_passes_at_most_256_closures() {
    for (closures, location) in [(256, None), (257, Some("inbox"))] {
        let (mut world, watchdog) = watched();
        (0..closures).for_each(|name| world.run_after(10, name));
        world.own(10, number(999));
        let id = LAST_OWN.take().unwrap();
        world.poll_driver();
        world.clock.jump(ms(40));
        // They are due in two turns.
        (0..2).for_each(|_| _ = world.service.turn(TurnBy::Watchdog));
        watchdog.check();
        assert_eq!(world.location(id), location, "{closures} closures");
    }
}

/// The inbox of an actor that was flooded is polled again, and has handled as many messages as one poll may.
#[test]
fn the_watchdog_leaves_an_inbox_alone_that_goes_on() {
    let (mut world, watchdog) = watched();
    for n in 0..70 {
        world.own(10, number(n));
    }
    let last = LAST_OWN.take().unwrap();
    world.find_late(&watchdog);
    assert_eq!(world.service.state().lanes.posted.len(), 1);
    world.poll_listener();
    assert_eq!(world.log().len(), 1 + 64);
    watchdog.check();
    assert_eq!(world.timers.get(last).map(|timer| timer.location.as_str()), Some("inbox"));
    assert!(world.service.state().lanes.posted.is_empty());
}

/// Queues wait for a driver that has much to do: the watchdog steps in 20 ms after its last turn, not after the answers
/// that called it.
#[test]
fn the_watchdog_leaves_queues_to_a_running_driver() {
    let (mut world, watchdog) = watched_by(TimerActorBuilder::default().expiry_budget(1));
    let mut ears = [(); 3].map(|()| Ear::new());
    for ear in &ears {
        for n in [1, 2] {
            world.timers.schedule_after(Target::tracked(&ear.addr).window(1), ms(10), number(n));
        }
    }
    world.clock.jump(ms(10));
    world.go_on();
    ears.iter_mut().for_each(Ear::poll);
    world.clock.jump(ms(15));
    world.poll_driver();
    let mut second_ones = |world: &World, passed| {
        world.clock.jump(ms(passed));
        watchdog.check();
        ears.iter_mut().for_each(Ear::poll);
        ears.iter().filter(|ear| ear.log() == [1, 2]).count()
    };
    assert_eq!(second_ones(&world, 19), 1, "the driver has sent one");
    assert_eq!(second_ones(&world, 1), 2, "the watchdog has sent another");
}

#[test]
fn an_idle_watchdog_check_does_not_wake_the_driver() {
    let (mut world, watchdog) = watched();
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(1000), number(1));
    world.poll_driver();
    world.driver_called.take();
    assert!(watchdog.check() > nanos(elapsed()));
    assert_eq!(world.driver_called.take(), 0);
}

/// A message will be late in 6 ms, and the driver may still be in time.
#[test]
fn the_watchdog_looks_every_ten_milliseconds_at_most() {
    let mut world = watchable(TimerActorBuilder::default());
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(5), number(1));
    world.poll_driver();
    world.clock.jump(ms(19));
    let watchdog = watch_of(&world);
    let before = elapsed();
    assert!(watchdog.check() >= nanos(before + ms(10)));
}

#[test]
fn the_watchdog_forgets_services_that_are_gone() {
    let (world, watchdog) = watched();
    assert_eq!(watchdog.looks_after(), 1);
    watchdog.check();
    assert_eq!(watchdog.looks_after(), 1);
    let service = Arc::downgrade(&world.service);
    drop(world);
    drop(World::new());
    assert_eq!(service.strong_count(), 0);
    watchdog.check();
    assert_eq!(watchdog.looks_after(), 0);
}

/// The handle of a runtime keeps its files open, and a service lives as long as its `Timers`.
#[test]
fn a_service_that_has_stopped_lets_go_of_its_runtime() {
    let (world, _) = watched();
    let World { service, driver, .. } = world;
    drop(driver);
    assert!(service.is_stopped());
    assert!(!service.has_watchdog());
    assert!(!service.watchdog_entry.get().unwrap().has_runtime());
}

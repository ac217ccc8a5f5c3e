//! User code that is called by the service, or calls it at an awkward time: a message whose `Drop` panics does not end
//! the service, and one whose `Drop` cancels or schedules does not deadlock it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    Alarm, Cancel, CancelOutcome, Clock, Drain, ManualClock, RequestTime, ScheduleAfter, ScheduleAt, ScheduleBatch,
    TimerActor, TimerContext, TimerId, TimerOptions,
};
use support::{
    Census, Log, Note, OnDrop, Probe, StopWatch, Way, World, count_panics, idle, in_virtual_time, ms, panic_on_purpose,
    paused, run,
};

fn grenade() -> OnDrop {
    OnDrop::new(panic_on_purpose)
}

/// Asserts that the service still accepts and delivers, directly, by message and to the actor itself.
async fn assert_alive(world: &World) {
    let (addr, log) = world.probe();
    for (name, way) in Way::ALL.into_iter().enumerate() {
        world.schedule(way, &addr, ms(10), name).await.unwrap();
    }
    world.run_to(world.now() + 10).await;
    let mut names = log.names();
    names.sort_unstable();
    assert_eq!(names, [0, 1, 2]);
    assert_eq!(world.pending(), 0);
}

/// Runs `test` with a probe in both kinds of virtual time; each time this number of messages panics when dropped, and the
/// service is asserted to be alive.
fn survives(panics: usize, test: impl AsyncFn(&World, Addr<Probe<u8>>)) {
    let before = count_panics();
    in_virtual_time(
        || TimerActor::builder().capacity(6),
        async |world| {
            test(&world, world.probe::<u8>().0).await;
            assert_alive(&world).await;
        },
    );
    assert_eq!(count_panics() - before, 2 * panics);
}

#[test]
fn a_drop_that_panics_on_cancel_leaves_the_service_up() {
    for way in Way::ALL {
        survives(2, async |world, addr| {
            let direct = world.timers.schedule_after(&addr, ms(10), grenade());
            let own = run(&addr, |_, ctx| ctx.schedule_after(ms(10), grenade())).await;
            for id in [direct, own] {
                assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled);
            }
            assert_eq!(world.timers.snapshot().counters.cancelled, 2);
        });
    }
}

#[test]
fn drops_that_panic_with_their_actor_leave_the_service_up() {
    survives(6, async |world, addr| {
        (0..3).for_each(|_| _ = world.timers.schedule_after(&addr, ms(10), grenade()));
        run(&addr, |_, ctx| (0..3).for_each(|_| _ = ctx.schedule_after(ms(10), grenade()))).await;
        drop(addr);
        world.settle().await;
        assert_eq!((world.timers.snapshot().counters.cancelled, world.pending()), (3, 3));
        world.run_to(10).await;
        assert_eq!((world.timers.snapshot().counters.recipient_stopped, world.pending()), (3, 0));
    });
}

/// At shutdown the other messages are dropped as well, and nothing unwinds out of the system.
#[test]
fn drops_that_panic_at_shutdown_keep_no_others_from_it() {
    let before = count_panics();
    let census = Census::default();
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, _log) = world.probe::<u8>();
        for _ in 0..3 {
            world.timers.schedule_after(&addr, ms(10), grenade());
            world.timers.schedule_after(&addr, ms(10), census.payload());
        }
        assert_eq!(census.live(), 3);
    });
    assert_eq!((count_panics() - before, census.live()), (3, 0));
}

/// A rejected request without a receiver for its answer drops its message inside the service, and so does a drain.
#[test]
fn drops_that_panic_in_an_abandoned_answer_leave_the_service_up() {
    survives(5, async |world, addr| {
        let full: Vec<TimerId> = (0..6).map(|name| world.after(&addr, 1000, name)).collect();
        let timers = world.timers.addr();
        timers.do_send(ScheduleAfter::new(&addr, ms(10), grenade()));
        timers.do_send(ScheduleAt::new(&addr, world.wall(10), grenade()));
        // One by one, since two panics at once abort the process.
        let mut batch = ScheduleBatch::new();
        (0..3).for_each(|_| _ = batch.after(&addr, ms(10), grenade()));
        timers.do_send(batch);
        world.settle().await;
        assert_eq!(world.timers.snapshot().counters.rejected_capacity, 5);
        full.into_iter().for_each(|id| assert!(world.timers.cancel(id).is_cancelled()));
    });
    survives(3, async |_, addr| {
        let drained = TimerActor::builder().start().unwrap();
        (0..3).for_each(|_| _ = drained.schedule_after(&addr, ms(10), grenade()));
        drained.addr().do_send(Drain::now());
        assert_eq!(drained.addr().send(Cancel(TimerId::new())).await, Ok(CancelOutcome::NotFound));
        assert_eq!(drained.snapshot().counters.returned, 3);
    });
}

/// The fate of the message that calls the timers from its `Drop`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Cancelled,
    DeadLettered,
    OwnerEnds,
    Drained,
}

/// Leads the message to its fate, in the given way where there is a choice.
async fn meet(fate: Fate, way: Way, world: &World, message: OnDrop, own_id: &Mutex<Option<TimerId>>) {
    let (addr, _log) = world.probe::<u8>();
    let own = way == Way::Context || fate == Fate::OwnerEnds;
    let id = match own {
        true => run(&addr, move |_, ctx| ctx.schedule_after(ms(10), message)).await,
        false => world.timers.schedule_after(&addr, ms(10), message),
    };
    *own_id.lock().unwrap() = Some(id);
    match fate {
        Fate::Cancelled => assert_eq!(world.cancel(way, &addr, id).await, CancelOutcome::Cancelled),
        Fate::DeadLettered | Fate::OwnerEnds => drop(addr),
        Fate::Drained => drop(world.timers.drain()),
    }
    world.run_to(world.now() + 20).await;
}

/// It cancels another timer, is not found itself any more, and schedules a message. A deadlock would not end.
#[test]
fn a_message_whose_drop_calls_the_timers_does_not_lock_up() {
    let fates = [Fate::Cancelled, Fate::DeadLettered, Fate::OwnerEnds, Fate::Drained];
    for (fate, way) in fates.into_iter().flat_map(|fate| Way::ALL.map(|way| (fate, way))) {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log) = world.probe();
            let other = world.after(&addr, 1000, "other");
            let (outcome, own_id) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
            let (answer, own, timers) = (Arc::clone(&outcome), Arc::clone(&own_id), world.timers.clone());
            let target = addr.clone();
            let message = OnDrop::new(move || {
                let own: TimerId = own.lock().unwrap().unwrap();
                assert_eq!((timers.cancel(own), timers.get(own)), (CancelOutcome::NotFound, None));
                *answer.lock().unwrap() = Some(timers.cancel(other));
                timers.schedule_after(target, Duration::ZERO, Note("from drop"));
            });
            meet(fate, way, &world, message, &own_id).await;
            world.run_to(2000).await;
            let (expected, names): (_, &[&str]) = match fate {
                Fate::Drained => (CancelOutcome::NotFound, &[]),
                _ => (CancelOutcome::Cancelled, &["from drop"]),
            };
            assert_eq!((*outcome.lock().unwrap(), &log.names()[..]), (Some(expected), names), "{fate:?} {way:?}");
        });
    }
}

/// The same at the end of the service: the message's `Drop` finds it closed.
#[test]
fn a_drop_that_calls_the_timers_at_shutdown_does_not_lock_up() {
    let log = Log::<&str>::default();
    for manual in [false, true] {
        paused(async {
            let world =
                if manual { World::manual(TimerActor::builder()) } else { World::paused(TimerActor::builder()) };
            let (addr, _log) = world.probe::<&str>();
            let other = world.after(&addr, 1000, "other");
            let (timers, target, answers) = (world.timers.clone(), addr.clone(), log.clone());
            let message = OnDrop::new(move || {
                assert_eq!(timers.cancel(other), CancelOutcome::NotFound);
                assert!(
                    timers.timer(target, TimerOptions::new()).try_schedule(Duration::ZERO, Note("rejected")).is_err()
                );
                assert_eq!(timers.snapshot().pending(), 0);
                answers.push("dropped", 0);
            });
            world.timers.schedule_after(&addr, ms(10), message);
        });
        assert_eq!(log.names(), ["dropped"]);
    }
}

/// A clock that panics at a call of this name, once or always.
#[derive(Clone)]
struct Grumpy {
    hands: ManualClock,
    at: Arc<Mutex<Option<&'static str>>>,
    always: bool,
}

impl Grumpy {
    fn called(&self, name: &'static str) {
        let mut at = self.at.lock().unwrap();
        if *at == Some(name) {
            *at = at.filter(|_| self.always);
            drop(at);
            panic_on_purpose();
        }
    }
}

impl Clock for Grumpy {
    fn now(&self) -> Duration {
        self.called("now");
        self.hands.now()
    }

    fn wall(&self) -> SystemTime {
        self.called("wall");
        self.hands.wall()
    }

    fn since(&self, request: RequestTime) -> Duration {
        self.hands.since(request)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.called("alarm");
        self.hands.alarm(time)
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.hands.is_moved_by(clock)
    }
}

#[test]
fn a_clock_that_panics_once_in_a_turn_costs_no_timer() {
    for call in ["now", "wall", "alarm"] {
        paused(async {
            let before = count_panics();
            let clock = Grumpy { hands: ManualClock::new(), at: Arc::default(), always: false };
            let timers = TimerActor::builder().clock(clock.clone()).start().unwrap();
            let (probe, hands) = (Probe::new(StopWatch::Source(Arc::default())), &clock.hands);
            let (log, addr) = (probe.log.clone(), probe.start());
            timers.schedule_at(&addr, hands.wall() + ms(5), Note(1));
            timers.schedule_after(&addr, ms(500), Note(2));
            hands.settle().await;
            *clock.at.lock().unwrap() = Some(call);
            hands.jump(ms(10));
            idle().await;
            assert_eq!((log.names(), *clock.at.lock().unwrap()), (vec![1], None), "{call}");
            hands.advance(ms(490)).await;
            assert_eq!((log.names(), count_panics() - before), (vec![2], 1), "{call}");
        });
    }
}

#[test]
fn a_clock_that_always_panics_does_not_keep_the_thread_busy() {
    paused(async {
        let clock = Grumpy { hands: ManualClock::new(), at: Arc::default(), always: true };
        let timers = TimerActor::builder().clock(clock.clone()).start().unwrap();
        let addr = Probe::<u8>::new(StopWatch::Source(Arc::default())).start();
        timers.schedule_after(&addr, ms(5), Note(1));
        clock.hands.settle().await;
        let before = count_panics();
        *clock.at.lock().unwrap() = Some("now");
        clock.hands.jump(ms(10));
        tokio::time::sleep(ms(1000)).await;
        *clock.at.lock().unwrap() = None;
        let panics = count_panics() - before;
        assert!((5..=12).contains(&panics), "{panics} in a second");
        tokio::time::sleep(ms(100)).await;
        idle().await;
        assert_eq!(timers.snapshot().counters.delivered, 1);
    });
}

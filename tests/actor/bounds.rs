//! Bounds: floods do not delay due messages, masses of due messages do not freeze the arbiter, and idle threads do not
//! wake up. The tests count turns, entries and wake-ups; they never measure time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use actix::prelude::*;
use actix_timers::{
    Cancel, CancelOutcome, GetSnapshot, ScheduleAfter, ScheduleError, Target, TimerActor, TimerActorBuilder,
    TimerContext, TimerId, TimerOptions, Timers,
};
use support::{Note, Probe, Way, World, block, idle, in_virtual_time, ms, paused, probe, run};

const HOUR: u64 = 3_600_000;

/// Nor does one of cancels. A due message is delivered after a bounded number of them.
#[test]
fn a_flood_of_requests_does_not_delay_due_messages() {
    const FLOOD: u64 = 5_000;
    for (budget, way, cancels) in [
        (256, Way::Direct, false),
        (256, Way::Context, false),
        (10, Way::Direct, false),
        (10, Way::Context, false),
        (256, Way::Direct, true),
    ] {
        let builder = || TimerActor::builder().request_budget(budget);
        in_virtual_time(builder, async |world| {
            let timers = world.timers.clone();
            let handled = move || {
                let counters = timers.snapshot().counters;
                if cancels { counters.cancelled } else { counters.accepted.saturating_sub(2) }
            };
            let (before, count) = (Arc::new(Mutex::new(Vec::new())), handled.clone());
            let seen = Arc::clone(&before);
            let (addr, log) = world.probe_with(|probe: &mut Probe<u64>| {
                probe.hook = Box::new(move |_, _| seen.lock().unwrap().push(count()));
            });
            let (other, _log) = world.probe();
            let ids: Vec<_> =
                (0..if cancels { FLOOD } else { 0 }).map(|name| world.after(&other, HOUR, name)).collect();
            for delay in [10, 11] {
                world.schedule(way, &addr, ms(delay), delay).await.unwrap();
            }
            world.settle().await;
            for name in 0..FLOOD {
                match ids.get(name as usize) {
                    Some(id) => world.timers.addr().do_send(Cancel(*id)),
                    None => world.timers.addr().do_send(ScheduleAfter::new(&other, ms(HOUR), Note(name))),
                }
            }
            world.slip_to(11).await;
            while handled() < FLOOD {
                tokio::task::yield_now().await;
            }
            world.settle().await;
            assert_eq!(log.take(), [(10, 11), (11, 11)]);
            let most = before.lock().unwrap().iter().copied().max().unwrap();
            assert!(most <= 2 * budget as u64, "{most} requests were handled before, {way:?}");
        });
    }
}

/// Two actors that send each other a ball, until it is over: each throw is a turn of another actor on the arbiter.
/// Counts the throws, and the maximum number of events between two of them.
struct Rally {
    happened: Box<dyn Fn() -> u64>,
    over: Box<dyn Fn() -> bool>,
    last: Cell<u64>,
    most: Cell<u64>,
    throws: Cell<u64>,
}

struct Player(Rc<Rally>);

#[derive(Message)]
#[rtype(result = "()")]
struct Ball(Addr<Player>);

impl Actor for Player {
    type Context = Context<Self>;
}

impl Handler<Ball> for Player {
    type Result = ();

    fn handle(&mut self, Ball(thrower): Ball, ctx: &mut Self::Context) {
        let rally = &self.0;
        let now = (rally.happened)();
        rally.most.set(rally.most.get().max(now - rally.last.replace(now)));
        rally.throws.set(rally.throws.get() + 1);
        if !(rally.over)() {
            thrower.do_send(Ball(ctx.address()));
        }
    }
}

/// Runs a rally until both players and all other actors are idle. Returns the maximum number of events between two
/// throws, and the number of throws.
async fn rally(happened: impl Fn() -> u64 + 'static, over: impl Fn() -> bool + 'static) -> (u64, u64) {
    let (last, most, throws) = (Cell::new(happened()), Cell::default(), Cell::default());
    let rally = Rc::new(Rally { happened: Box::new(happened), over: Box::new(over), last, most, throws });
    Player(Rc::clone(&rally)).start().do_send(Ball(Player(Rc::clone(&rally)).start()));
    idle().await;
    (rally.most.get(), rally.throws.get())
}

/// Schedules `many` messages to an actor, due after 64 ms.
async fn schedule_many(world: &World, way: Way, addr: &Addr<Probe<u64>>, many: u64) {
    if way == Way::Context {
        run(addr, move |_, ctx| (0..many).for_each(|name| _ = ctx.schedule_after(ms(64), Note(name)))).await;
    } else {
        let target = Target::from(addr);
        (0..many).for_each(|name| _ = world.after(&target, 64, name));
    }
}

/// Makes `many` messages due at once, or while their actor waits. Each handler may spawn a future. Returns the maximum
/// number handled between two turns of another actor, and the number of its turns meanwhile.
fn due_at_once(builder: TimerActorBuilder, way: Way, many: u64, spawns: bool, in_inbox: bool) -> (u64, u64) {
    paused(async {
        let world = World::manual(builder);
        let (addr, log) = world.probe_with(|probe| {
            probe.hook = Box::new(move |_, ctx| {
                if spawns {
                    ctx.spawn(actix::fut::ready(()));
                }
            });
        });
        schedule_many(&world, way, &addr, many).await;
        let handled = {
            let log = log.clone();
            move || log.len() as u64
        };
        if in_inbox {
            let go = block(&addr).await;
            world.run_to(64).await;
            go.send(()).unwrap();
        } else {
            idle().await;
            world.clock().hands.jump(ms(64));
        }
        assert_eq!((handled(), world.pending()), (0, many));
        let result = rally(handled, move || log.len() as u64 == many).await;
        assert_eq!((world.now(), world.pending()), (64, 0));
        result
    })
}

/// Messages due at once for a recipient, or in one actor, also if they wait in its inbox since it was busy, or if each
/// handler spawns a future into its actor's context, which makes the context poll all its items again: another actor
/// has its turn after each budget of them.
#[test]
fn masses_due_at_once_do_not_freeze_the_arbiter() {
    const MANY: u64 = 20_000;
    let cases = [
        (TimerActor::builder(), Way::Direct, false, false, 2 * 1024),
        (TimerActor::builder().expiry_budget(10), Way::Direct, false, false, 2 * 10),
        (TimerActor::builder(), Way::Context, false, false, 1024),
        (TimerActor::builder(), Way::Context, true, false, 1024),
        (TimerActor::builder(), Way::Context, false, true, 1024),
        (TimerActor::builder(), Way::Context, true, true, 1024),
    ];
    for (builder, way, spawns, in_inbox, bound) in cases {
        let (most, turns) = due_at_once(builder, way, MANY, spawns, in_inbox);
        assert!(most <= bound, "{most} messages in one turn of the others, of at most {bound}");
        assert!(turns >= MANY / bound, "{turns} turns");
    }
}

/// Nor does a backlog, if messages join it while its recipient makes room.
#[test]
fn messages_that_join_a_backlog_do_not_freeze_the_arbiter() {
    const WINDOW: u64 = 1_000;
    paused(async {
        let world = World::manual(TimerActor::builder().expiry_budget(10));
        let (addr, log) = world.probe::<u64>();
        let target = Target::from(&addr).window(1_000);
        let go = block(&addr).await;
        (0..2 * WINDOW).for_each(|name| _ = world.after(&target, 1, name));
        (0..10).for_each(|name| _ = world.after(&target, 60, name));
        world.run_to(10).await;
        go.send(()).unwrap();
        world.clock().hands.jump(ms(50));
        let timers = world.timers.clone();
        let sent = move || timers.snapshot().counters.delivered;
        assert_eq!(sent(), WINDOW);
        let (most, _) = rally(sent, move || log.len() as u64 == 2 * WINDOW + 10).await;
        assert!(most <= 2 * 10, "{most} messages in one turn of the others");
    });
}

/// Cascades count as work, too: with small wheels all due timers descend several levels at once.
#[test]
fn cascades_of_masses_do_not_freeze_the_arbiter() {
    const MANY: u64 = 20_000;
    paused(async {
        let world = World::manual(TimerActor::builder().wheel_size(4).expiry_budget(100));
        let (addr, log) = world.probe::<u64>();
        let target = Target::from(&addr);
        for name in 0..MANY {
            world.timers.schedule_after(&target, ms(3_000_000 + name % 7), Note(name));
        }
        idle().await;
        let moved = |timers: &Timers| {
            let inspection = timers.snapshot();
            let cascaded: u64 = inspection.wheel.levels.iter().map(|level| level.stats.cascaded).sum();
            cascaded + inspection.counters.delivered
        };
        let (timers, all) = (world.timers.clone(), world.timers.clone());
        let before = moved(&timers);
        world.clock().hands.jump(ms(4_000_000));
        let (most, _) = rally(move || moved(&timers), move || all.snapshot().counters.delivered == MANY).await;
        assert!(moved(&world.timers) - before > 5 * MANY, "much had to cascade");
        assert!(most <= 2 * 100, "{most} entries in one turn of the others");
        let mut expected: Vec<u64> = (0..MANY).collect();
        expected.sort_by_key(|name| name % 7);
        assert_eq!(log.names(), expected);
    });
}

#[test]
fn the_end_of_masses_of_timers_does_not_freeze_the_arbiter() {
    const MANY: u64 = 50_000;
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _log) = world.probe();
        schedule_many(&world, Way::Context, &addr, MANY).await;
        idle().await;
        let timers = world.timers.clone();
        let cancelled = move || timers.snapshot().counters.cancelled;
        drop(addr);
        let (most, _) = rally(cancelled.clone(), move || cancelled() == MANY).await;
        assert!(most <= 2 * 1024, "{most} timers in one turn of the others");
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
    });
}

#[test]
fn the_capacity_holds_against_several_threads() {
    const CAPACITY: u64 = 1000;
    support::in_real_time(async {
        let timers = TimerActor::builder().capacity(1000).start().unwrap();
        let (addr, _) = probe();
        let (rejected, begin) = (AtomicU64::new(0), Barrier::new(4));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (timers, addr, rejected, begin) = (timers.clone(), addr.clone(), &rejected, &begin);
                scope.spawn(move || {
                    begin.wait();
                    for name in 0..500 {
                        let name = thread * 500 + name;
                        match timers.timer(&addr, TimerOptions::new()).try_schedule(ms(HOUR), Note(name)) {
                            Ok(_) => assert!(timers.snapshot().pending() <= CAPACITY),
                            Err(ScheduleError::CapacityReached { message, .. }) => {
                                assert_eq!(message, Note(name));
                                rejected.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        let counters = timers.snapshot().counters;
        assert_eq!((counters.pending, counters.rejected_capacity), (CAPACITY, 1000));
        assert_eq!(rejected.into_inner(), 1000);
    });
}

/// With nothing pending the driver sleeps for ever; otherwise until the next timer is due or has to cascade.
#[test]
fn the_driver_does_not_wake_up_when_nothing_is_due() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let clock = world.clock().clone();
        world.settle().await;
        assert_eq!(clock.next_alarm(), None, "not even to begin with");

        world.after(&addr, 2 * HOUR, "later");
        world.schedule(Way::Context, &addr, ms(2 * HOUR), "later").await.unwrap();
        // The counters have been published by then.
        world.run_to(1000).await;
        let (alarms, rung, reads) = (clock.alarms(), clock.rung(), clock.reads());
        assert!(clock.next_alarm().is_some_and(|next| next > ms(HOUR)));
        for minute in 1..60 {
            world.run_to(minute * 60_000).await;
            // A foreign id does not wake a timer actor, not even one without any hint of its owner.
            assert_eq!(actix_timers::cancel(TimerId::new()), CancelOutcome::NotFound);
            assert_eq!(world.timers.cancel(TimerId::new()), CancelOutcome::NotFound);
        }
        assert_eq!((clock.alarms(), clock.rung(), clock.reads()), (alarms, rung, reads));
        // A request lets the driver look, and that leaves its alarm.
        world.timers.addr().send(GetSnapshot).await.unwrap();
        assert_eq!((clock.alarms(), clock.rung()), (alarms, rung));
        assert!(clock.reads() > reads);
        assert_eq!(log.len(), 0);

        world.run_to(2 * HOUR).await;
        assert_eq!(log.names(), ["later"; 2]);
        // Two hours are on the third level: two cascades, and the deadline.
        assert!(clock.rung() - rung <= 3, "{} alarms", clock.rung() - rung);
        world.run_to(2 * HOUR + 1000).await;
        assert_eq!(clock.next_alarm(), None);
        assert!(clock.most_alarms_at_once() <= 2);
    });
}

/// Every new timer is the new head: there is one alarm at a time, and no more wake-ups than deliveries, coarse buckets
/// and publications of the counters.
#[test]
fn thousands_of_new_heads_leave_one_alarm() {
    paused(async {
        let world = World::manual(TimerActor::builder().wheel_size(20));
        let (addr, log) = world.probe();
        let clock = world.clock().clone();
        let mut ids = Vec::new();
        for delay in (1..=3000).rev() {
            ids.push((delay, world.after(&addr, delay, delay)));
            world.settle().await;
        }
        for (_, id) in ids.iter().filter(|(delay, _)| delay % 2 == 0) {
            assert!(world.timers.cancel(*id).is_cancelled());
        }
        let rung = clock.rung();
        world.run_to(3000).await;
        assert_eq!(log.take(), (1..=3000).step_by(2).map(|delay| (delay, delay)).collect::<Vec<_>>());
        assert!(clock.rung() - rung <= 1500 + 180 + 3000 / 250, "{} wake-ups", clock.rung() - rung);
        assert_eq!(world.pending(), 0);
        assert!(clock.most_alarms_at_once() <= 2, "the new one and the one it replaces");
    });
}

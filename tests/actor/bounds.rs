//! Bounds: floods do not delay due messages, masses of due messages do not freeze the arbiter, and idle threads do not
//! wake up. The tests count turns, entries and wake-ups; they never measure time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use actix::prelude::*;
use actix_timers::{
    Cancel, ScheduleAfter, ScheduleError, Target, TimerActor, TimerActorBuilder, TimerContext, TimerOptions, Timers,
};
use support::{Note, Probe, StopWatch, Way, World, idle, in_virtual_time, ms, paused, run, with_probe};

const HOUR: u64 = 3_600_000;

/// A mailbox full of requests does not delay a due message: it is delivered after a bounded number of requests.
#[test]
fn a_flood_of_requests_does_not_delay_due_messages() {
    const FLOOD: u64 = 20_000;
    for (budget, way) in [(256, Way::Direct), (256, Way::Context), (10, Way::Direct), (10, Way::Context)] {
        let builder = || TimerActor::builder().request_budget(budget);
        in_virtual_time(builder, |world| async move {
            let timers = world.timers.clone();
            let accepted_before = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&accepted_before);
            let (addr, log) = world.probe_with(|probe: &mut Probe<u64>| {
                probe.hook = Box::new(move |_, _| seen.lock().unwrap().push(timers.snapshot().counters.accepted));
            });
            let (other, _log) = world.probe();
            for delay in [10, 11] {
                world.schedule(way, &addr, ms(delay), delay).await.unwrap();
            }
            world.settle().await;
            for name in 0..FLOOD {
                world.timers.addr().do_send(ScheduleAfter::new(&other, ms(HOUR), Note(name)));
            }
            world.slip_to(11).await;
            while world.timers.snapshot().counters.accepted < FLOOD + 2 {
                tokio::task::yield_now().await;
            }
            world.settle().await;
            assert_eq!(log.take(), [(10, 11), (11, 11)]);
            for accepted in accepted_before.lock().unwrap().iter() {
                assert!(*accepted <= 2 + 2 * budget as u64, "{accepted} requests were handled before, {way:?}");
            }
        });
    }
}

/// Two actors that send each other a ball: each throw is a turn of another actor on the arbiter. Records the maximum
/// number of events between two throws.
struct Rally {
    most: Rc<Cell<u64>>,
    throws: Rc<Cell<u64>>,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Ball(Addr<Player>);

struct Player {
    happened: Rc<dyn Fn() -> u64>,
    last: Rc<Cell<u64>>,
    most: Rc<Cell<u64>>,
    throws: Rc<Cell<u64>>,
    over: Rc<dyn Fn() -> bool>,
}

impl Actor for Player {
    type Context = Context<Self>;
}

impl Handler<Ball> for Player {
    type Result = ();

    fn handle(&mut self, Ball(thrower): Ball, ctx: &mut Self::Context) {
        let happened = (self.happened)();
        self.most.set(self.most.get().max(happened - self.last.replace(happened)));
        self.throws.set(self.throws.get() + 1);
        if !(self.over)() {
            thrower.do_send(Ball(ctx.address()));
        }
    }
}

impl Rally {
    /// Starts a rally that ends when `over` returns true.
    fn start(happened: impl Fn() -> u64 + 'static, over: impl Fn() -> bool + 'static) -> Self {
        let rally = Self { most: Rc::default(), throws: Rc::default() };
        let happened: Rc<dyn Fn() -> u64> = Rc::new(happened);
        let (over, last): (Rc<dyn Fn() -> bool>, _) = (Rc::new(over), Rc::new(Cell::new(happened())));
        let player = || {
            let (most, throws) = (Rc::clone(&rally.most), Rc::clone(&rally.throws));
            Player { happened: Rc::clone(&happened), last: Rc::clone(&last), most, throws, over: Rc::clone(&over) }
        };
        player().start().do_send(Ball(player().start()));
        rally
    }

    /// Waits until both players and all other actors are idle.
    async fn end(self) -> (u64, u64) {
        idle().await;
        (self.most.get(), self.throws.get())
    }
}

/// Counts its messages and acts on its context.
struct Counter {
    handled: Rc<Cell<u64>>,
    handle: fn(&mut Context<Self>),
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Note<u64>> for Counter {
    type Result = ();

    fn handle(&mut self, _: Note<u64>, ctx: &mut Self::Context) {
        self.handled.set(self.handled.get() + 1);
        (self.handle)(ctx);
    }
}

/// Schedules `many` messages to itself, due after 64 ms.
#[derive(Message)]
#[rtype(result = "()")]
struct Begin {
    timers: Timers,
    way: Way,
    many: u64,
}

impl Handler<Begin> for Counter {
    type Result = ();

    fn handle(&mut self, Begin { timers, way, many }: Begin, ctx: &mut Self::Context) {
        let target = Target::from(ctx.address());
        for name in 0..many {
            match way {
                Way::Context => ctx.schedule_after(ms(64), Note(name)),
                _ => timers.schedule_after(&target, ms(64), Note(name)),
            };
        }
    }
}

/// Makes the actor wait for a future; until then it handles nothing.
#[derive(Message)]
#[rtype(result = "()")]
struct Wait(tokio::sync::oneshot::Receiver<()>);

impl Handler<Wait> for Counter {
    type Result = ();

    fn handle(&mut self, Wait(future): Wait, ctx: &mut Self::Context) {
        ctx.wait(actix::fut::wrap_future(async move { future.await.unwrap() }));
    }
}

/// Makes `many` messages due at once, or while their actor waits. Returns the maximum number handled between two turns of
/// another actor, and the number of its turns meanwhile.
fn due_at_once(
    builder: TimerActorBuilder,
    way: Way,
    many: u64,
    handle: fn(&mut Context<Counter>),
    in_inbox: bool,
) -> (u64, u64) {
    paused(async {
        let world = World::manual(builder);
        let handled = Rc::new(Cell::new(0));
        let addr = Counter { handled: Rc::clone(&handled), handle }.start();
        addr.send(Begin { timers: world.timers.clone(), way, many }).await.unwrap();
        let (go, wait) = tokio::sync::oneshot::channel();
        if in_inbox {
            addr.send(Wait(wait)).await.unwrap();
            world.run_to(64).await;
        } else {
            idle().await;
            world.clock().hands.jump(ms(64));
        }
        assert_eq!((handled.get(), world.pending()), (0, many));
        let _ = go.send(());
        let all = Rc::clone(&handled);
        let rally = Rally::start(move || handled.get(), move || all.get() == many);
        let result = rally.end().await;
        assert_eq!((world.now(), world.pending()), (64, 0));
        result
    })
}

/// Messages due at once for a recipient, or in one actor, also if they wait in its inbox since it was busy, or if each
/// handler spawns a future into its actor's context, which makes the context poll all its items again: another actor has
/// its turn after each budget of them.
#[test]
fn masses_due_at_once_do_not_freeze_the_arbiter() {
    type Handle = fn(&mut Context<Counter>);
    let (rest, spawn): (Handle, Handle) = (|_| (), |ctx| _ = ctx.spawn(actix::fut::ready(())));
    let cases = [
        (TimerActor::builder(), Way::Direct, 200_000, rest, false, 2 * 1024),
        (TimerActor::builder().expiry_budget(10), Way::Direct, 20_000, rest, false, 2 * 10),
        (TimerActor::builder(), Way::Context, 200_000, rest, false, 1024),
        (TimerActor::builder(), Way::Context, 20_000, spawn, false, 1024),
        (TimerActor::builder(), Way::Context, 20_000, rest, true, 1024),
        (TimerActor::builder(), Way::Context, 20_000, spawn, true, 1024),
    ];
    for (builder, way, many, handle, in_inbox, bound) in cases {
        let (most, turns) = due_at_once(builder, way, many, handle, in_inbox);
        assert!(most <= bound, "{most} messages in one turn of the others, of at most {bound}");
        assert!(turns >= many / bound, "{turns} turns");
    }
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
        let rally = Rally::start(move || moved(&timers), move || all.snapshot().counters.delivered == MANY);
        let (most, _) = rally.end().await;
        assert!(moved(&world.timers) - before > 5 * MANY, "much had to cascade");
        assert!(most <= 2 * 100, "{most} entries in one turn of the others");
        let mut expected: Vec<u64> = (0..MANY).collect();
        expected.sort_by_key(|name| name % 7);
        assert_eq!(log.names(), expected);
    });
}

/// An actor with masses of timers stops: they are freed within the budget, too.
#[test]
fn the_end_of_masses_of_timers_does_not_freeze_the_arbiter() {
    const MANY: u64 = 50_000;
    paused(async {
        let world = World::manual(TimerActor::builder());
        let addr = Counter { handled: Rc::default(), handle: |_| () }.start();
        addr.send(Begin { timers: world.timers.clone(), way: Way::Context, many: MANY }).await.unwrap();
        idle().await;
        let (timers, all) = (world.timers.clone(), world.timers.clone());
        let rally = Rally::start(
            move || timers.snapshot().counters.cancelled,
            move || all.snapshot().counters.cancelled == MANY,
        );
        drop(addr);
        let (most, _) = rally.end().await;
        assert!(most <= 2 * 1024, "{most} timers in one turn of the others");
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
    });
}

/// Several threads never exceed the capacity together; each message over it is returned.
#[test]
fn the_capacity_holds_against_several_threads() {
    const CAPACITY: u64 = 1000;
    support::in_real_time(async {
        let timers = TimerActor::builder().capacity(1000).start().unwrap();
        let addr = Probe::new(StopWatch::Source(Arc::default())).start();
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
        }
        assert_eq!((clock.alarms(), clock.rung(), clock.reads()), (alarms, rung, reads));
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

/// A timer later than the head does not touch the alarm; a cancelled head does not leave it set for long.
#[test]
fn the_alarm_moves_only_for_something_earlier() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        let clock = world.clock().clone();
        world.after(&addr, 1000, 0);
        world.run_to(600).await;
        let alarms = clock.alarms();
        for name in 1..1000 {
            let id = world.after(&addr, 400 + name % 7, name);
            assert!(world.timers.cancel(id).is_cancelled());
            world.after(&addr, HOUR, name);
            world.settle().await;
        }
        // One to publish the counters.
        assert!(clock.alarms() - alarms <= 2, "{} alarms for nothing", clock.alarms() - alarms);
        world.run_to(1000).await;
        assert_eq!(log.take(), [(0, 1000)]);

        let head = world.after(&addr, 10_000, 1000);
        world.run_to(2000).await;
        assert!(world.timers.cancel(head).is_cancelled());
        world.run_to(20_000).await;
        let rung = clock.rung();
        world.run_to(HOUR / 2).await;
        assert_eq!(clock.rung(), rung);
        assert_eq!(log.len(), 0);
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

/// An actor's ordinary messages do not wake the timer actor, however many timers either has.
#[test]
fn ordinary_messages_do_not_wake_the_driver() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        run(&addr, |_, ctx| (0..10_000).for_each(|name| _ = ctx.schedule_after(ms(HOUR), Note(name)))).await;
        world.run_to(1000).await;
        let clock = world.clock().clone();
        let before = (clock.reads(), clock.alarms());
        for _ in 0..1000 {
            run(&addr, |_, _| ()).await;
        }
        assert_eq!((clock.reads(), clock.alarms()), before);
    });
}

/// An endless stream of cancels by message does not delay a due message.
#[test]
fn a_flood_of_cancels_does_not_delay_due_messages() {
    with_probe(async |world, addr, log| {
        let ids: Vec<_> = (0..5000).map(|_| world.after(&addr, HOUR, "cancelled")).collect();
        let late = Arc::new(AtomicBool::new(true));
        let (in_time, timers) = (Arc::clone(&late), world.timers.clone());
        let (due, _log) = world.probe_with(|probe: &mut Probe<&str>| {
            probe.hook = Box::new(move |_, _| {
                let cancelled = timers.snapshot().counters.cancelled;
                in_time.store(cancelled > 2 * 256, Ordering::SeqCst);
            });
        });
        world.after(&due, 10, "due");
        world.settle().await;
        for id in &ids {
            world.timers.addr().do_send(Cancel(*id));
        }
        world.slip_to(10).await;
        world.run_to(100).await;
        assert!(!late.load(Ordering::SeqCst));
        assert_eq!((world.pending(), log.len()), (0, 0));
    });
}

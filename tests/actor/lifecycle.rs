//! Lifecycle: a timer made through a context belongs to that incarnation of that actor. It ends with the incarnation,
//! does not keep it alive, and reaches it also when the actor has no address left.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, Drain, RescheduleOutcome, ScheduleError, TimerActor, TimerContext, TimerFilter, TimerId,
    TimerOptions, Timers,
};
use support::{
    Census, Log, Note, OnDrop, Probe, Recluse, Run, StopWatch, Way, World, block_then, count_panics, idle,
    in_virtual_time, ms, panic_on_purpose, paused, probe_on, run, with_probe,
};

/// Timers end with their actor, however it ends: at once, not at their deadlines, and their messages are freed.
#[test]
fn own_timers_end_with_the_actor() {
    type End = fn(&mut Context<Probe<u32>>);
    let ends: [(&str, End); 4] = [
        ("stop", |ctx| ctx.stop()),
        ("terminate", |ctx| ctx.terminate()),
        ("panic", |_| panic_on_purpose()),
        ("no address left", |_| ()),
    ];
    count_panics();
    for (how, end) in ends {
        in_virtual_time(TimerActor::builder, |world| async move {
            let census = Census::default();
            let (addr, log) = world.probe();
            let counted = census.clone();
            let id = run(&addr, move |_, ctx| {
                ctx.schedule_after(ms(50), counted.payload());
                ctx.schedule_after(ms(10), Note(1));
                ctx.schedule_after(ms(20), Note(2))
            })
            .await;
            world.run_to(10).await;
            addr.do_send(Run(Box::new(move |_, ctx| end(ctx))));
            drop(addr);
            world.settle().await;
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.delivered, counters.cancelled, counters.pending), (1, 2, 0), "{how}");
            assert_eq!(counters.abandoned, if how == "no address left" { 2 } else { 0 }, "{how}");
            assert_eq!((census.live(), world.timers.snapshot().owners), (0, 0), "{how}");
            assert_eq!(world.timers.cancel(id), CancelOutcome::NotFound, "{how}");
            world.run_to(100).await;
            assert_eq!(log.take(), [(1, 10)], "{how}");
        });
    }
}

/// An actor that refuses to stop keeps its timers.
#[test]
fn an_actor_that_rejects_to_stop_keeps_its_timers() {
    struct Stubborn {
        refusals: Arc<AtomicU64>,
        log: Log<u32>,
        watch: StopWatch,
    }
    impl Actor for Stubborn {
        type Context = Context<Self>;

        fn started(&mut self, ctx: &mut Self::Context) {
            ctx.schedule_after(ms(10), Note(1));
        }

        fn stopping(&mut self, ctx: &mut Self::Context) -> Running {
            if self.refusals.fetch_add(1, Ordering::SeqCst) == 0 {
                ctx.schedule_after(ms(20), Note(2));
                return Running::Continue;
            }
            // These end with the actor.
            ctx.schedule_after(Duration::ZERO, Note(3));
            Running::Stop
        }

        fn stopped(&mut self, ctx: &mut Self::Context) {
            ctx.schedule_after(Duration::ZERO, Note(4));
        }
    }
    impl Handler<Note<u32>> for Stubborn {
        type Result = ();

        fn handle(&mut self, Note(name): Note<u32>, ctx: &mut Self::Context) {
            self.log.push(name, self.watch.now());
            if name == 1 || name == 2 {
                ctx.stop();
            }
        }
    }
    in_virtual_time(TimerActor::builder, |world| async move {
        let (refusals, log) = (Arc::default(), Log::default());
        let stubborn = Stubborn { refusals: Arc::clone(&refusals), log: log.clone(), watch: world.watch.clone() };
        let addr = stubborn.start();
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 10), (2, 30)]);
        assert_eq!(refusals.load(Ordering::SeqCst), 2);
        assert!(!addr.connected());
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.cancelled, counters.pending), (4, 2, 0));
    });
}

/// When the arbiter of an actor and its timer actor stops, the counters add up and nothing is pending.
#[test]
fn own_timers_end_with_their_arbiter() {
    support::in_real_time(async {
        let census = Census::default();
        let arbiter = Arbiter::new();
        let probe_census = census.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        arbiter.spawn_fn(move || {
            let mut probe = Probe::<u8>::new(StopWatch::Source(Arc::default()));
            probe.on_start = Box::new(move |ctx| {
                (0..3).for_each(|_| _ = ctx.schedule_after(ms(3_600_000), probe_census.payload()));
            });
            let addr = probe.start();
            actix_rt::spawn(async move {
                run(&addr, |_, _| ()).await;
                let timers = Timers::current().unwrap();
                let other = addr.clone();
                assert_eq!(timers.snapshot().pending(), 3);
                timers.schedule_after(&other, ms(3_600_000), Note(1));
                assert!(tell.send((timers, addr)).is_ok());
            });
        });
        let (timers, addr) = told.await.unwrap();
        assert_eq!(census.live(), 3);
        arbiter.stop();
        arbiter.join().unwrap();
        assert!(!addr.connected());
        let counters = timers.snapshot().counters;
        assert!(counters.balance());
        assert_eq!((counters.accepted, counters.pending, census.live()), (4, 0, 0));
        assert_eq!(counters.cancelled + counters.service_stopped, 4);
    });
}

/// Starts a supervised probe that schedules its incarnation number, due after 1000, at each start.
fn supervised(world: &World, change: impl FnOnce(&mut Probe<u64>)) -> (Addr<Probe<u64>>, Log<u64>) {
    let mut incarnation = 0;
    let mut probe = Probe::new(world.watch.clone());
    probe.on_start = Box::new(move |ctx| {
        incarnation += 1;
        ctx.schedule_after(ms(1000), Note(incarnation));
    });
    change(&mut probe);
    let log = probe.log.clone();
    (Supervisor::start(|_| probe), log)
}

/// After a supervised restart the old incarnation's timers are gone; messages that others scheduled for the address
/// survive.
#[test]
fn timers_of_the_old_incarnation_never_reach_the_new_one() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = supervised(&world, |_| ());
        world.settle().await;
        world.after(&addr, 4300, 77);
        world.run_to(600).await;
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        world.settle().await;
        assert_eq!((world.pending(), world.timers.snapshot().owners), (2, 1));
        world.run_to(1599).await;
        assert_eq!(log.take(), []);
        world.run_to(5000).await;
        assert_eq!(log.take(), [(2, 1600), (77, 4300)]);
        assert_eq!(world.timers.snapshot().counters.cancelled, 1);
    });
}

/// The same for timers that are already due and wait for the old incarnation, which is busy and then restarts.
#[test]
fn timers_due_at_the_restart_never_reach_the_new_incarnation() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = supervised(&world, |_| ());
        world.run_to(900).await;
        let unblock = block_then(&addr, |ctx| ctx.stop()).await;
        world.after(&addr, 3400, 77);
        world.run_to(1100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 2));
        unblock.send(()).unwrap();
        world.run_to(2099).await;
        assert_eq!(log.take(), []);
        world.run_to(5000).await;
        assert_eq!(log.take(), [(2, 2100), (77, 4300)]);
        assert_eq!(world.pending(), 0);
    });
}

type LetterContext = Context<Probe<&'static str>>;

/// Makes three own messages of an actor due together; the handler of the first calls `act`.
async fn three_due_at_10(world: &World, act: impl FnOnce(&mut LetterContext) + 'static) -> Log<&'static str> {
    let mut act = Some(act);
    let mut probe = Probe::new(world.watch.clone());
    probe.hook = Box::new(move |name, ctx| {
        if *name == "A" {
            act.take().unwrap()(ctx);
        }
    });
    let log = probe.log.clone();
    let addr = Supervisor::start(|_| probe);
    run(&addr, |_, ctx| ["A", "B", "C"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
    world.run_to(100).await;
    addr.do_send(Note("alive"));
    world.settle().await;
    assert_eq!(world.pending(), 0);
    log
}

/// A handler that stops or restarts its actor is the last one: messages due with it end.
#[test]
fn messages_due_with_one_that_stops_the_actor_do_not_come() {
    type End = fn(&mut LetterContext);
    for end in [(|ctx| ctx.stop()) as End, |ctx| ctx.terminate()] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let log = three_due_at_10(&world, end).await;
            assert_eq!(log.take(), [("A", 10), ("alive", 100)]);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.delivered, counters.cancelled), (1, 2));
        });
    }
}

/// While the actor waits for a future that the first handler has started, the other messages wait, too.
#[test]
fn messages_due_with_one_that_waits_come_after_the_wait() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        world.probe_with(|probe: &mut Probe<&'static str>| {
            let go = Mutex::new(Some(go));
            probe.hook = Box::new(move |_, _| go.lock().unwrap().take().unwrap().send(()).unwrap());
            probe.on_start = Box::new(|ctx| {
                // Keeps itself alive, and receives "go" after 50 ms.
                ctx.spawn(actix::fut::wrap_future(std::future::pending()));
                ctx.schedule_after(ms(50), Note("go"));
            });
        });
        let log = three_due_at_10(&world, |ctx| support::wait(ctx, wait, |_| ())).await;
        assert_eq!(log.take(), [("A", 10), ("B", 50), ("C", 50), ("alive", 100)]);
    });
}

/// Ids of the old incarnation do not match timers of the new one.
#[test]
fn an_id_of_the_old_incarnation_cancels_nothing_of_the_new_one() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
        let made = Arc::clone(&ids);
        let mut probe = Probe::<u8>::new(world.watch.clone());
        probe.on_start = Box::new(move |ctx| made.lock().unwrap().push(ctx.schedule_after(ms(1000), Note(1))));
        let log = probe.log.clone();
        let addr = Supervisor::start(|_| probe);
        for _ in 0..3 {
            run(&addr, |_, ctx| ctx.stop()).await;
            world.settle().await;
        }
        let ids = ids.lock().unwrap().clone();
        let distinct: std::collections::HashSet<&TimerId> = ids.iter().collect();
        assert_eq!((ids.len(), distinct.len()), (4, 4));
        for id in &ids[..3] {
            assert_eq!(world.cancel(Way::Context, &addr, *id).await, CancelOutcome::NotFound);
        }
        world.run_to(1000).await;
        assert_eq!(log.take(), [(1, 1000)]);
    });
}

/// Timers scheduled before the actor starts, and in its `started`, are ordinary own timers.
#[test]
fn timers_can_be_scheduled_before_the_actor_has_started() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let mut probe = Probe::new(world.watch.clone());
        probe.on_start = Box::new(|ctx| _ = ctx.schedule_after(ms(10), Note("started")));
        let log = probe.log.clone();
        let addr = Probe::create(|ctx| {
            ctx.schedule_after(ms(10), Note("created"));
            probe
        });
        world.settle().await;
        assert_eq!((world.pending(), world.timers.snapshot().owners), (2, 1));
        world.run_to(10).await;
        assert_eq!(log.take(), [("created", 10), ("started", 10)]);
        drop(addr);
    });
}

/// An actor without addresses, kept alive by its own future, gets its messages on time and in order.
#[test]
fn an_actor_without_addresses_gets_its_messages_in_order() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| {
            for (name, delay) in [("E", 30), ("A", 10), ("B", 10), ("D", 20), ("C", 10)] {
                ctx.schedule_after(ms(delay), Note(name));
            }
        })
        .await;
        let recluse = Recluse::make(addr).await;
        world.run_to(15).await;
        assert_eq!(log.take(), [("A", 10), ("B", 10), ("C", 10)]);
        // Scheduled without an address.
        recluse.run(|_, ctx| _ = ctx.schedule_after(ms(5), Note("F"))).await;
        world.run_to(30).await;
        assert_eq!(log.take(), [("D", 20), ("F", 20), ("E", 30)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.pending), (6, 0));
    });
}

/// Hundreds are due at once, and the first handler cancels some and moves some: the rest come in order, one by one.
#[test]
fn an_actor_without_addresses_can_cancel_and_move_due_messages() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
        let (all, outcomes) = (Arc::clone(&ids), Arc::new(Mutex::new(Vec::new())));
        let answers = Arc::clone(&outcomes);
        let (addr, log) = world.probe_with(|probe| {
            probe.hook = Box::new(move |name, ctx: &mut Context<Probe<usize>>| {
                if *name == 0 {
                    for (name, id) in all.lock().unwrap().iter().enumerate().skip(1) {
                        match name % 3 {
                            0 => answers.lock().unwrap().push(ctx.cancel_timer(*id).is_cancelled()),
                            1 => answers.lock().unwrap().push(ctx.reschedule_timer(*id, ms(5)).is_rescheduled()),
                            _ => (),
                        }
                    }
                }
            });
        });
        *ids.lock().unwrap() =
            run(&addr, |_, ctx| (0..300).map(|name| ctx.schedule_after(ms(10), Note(name))).collect::<Vec<TimerId>>())
                .await;
        let recluse = Recluse::make(addr).await;
        world.run_to(12).await;
        assert_eq!(log.take(), (0..300).filter(|n| *n == 0 || n % 3 == 2).map(|n| (n, 10)).collect::<Vec<_>>());
        world.run_to(20).await;
        assert_eq!(log.take(), (0..300).filter(|n| n % 3 == 1).map(|n| (n, 15)).collect::<Vec<_>>());
        assert!(outcomes.lock().unwrap().iter().all(|done| *done));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (201, 99, 0));
        drop(recluse);
    });
}

/// A message in the mailbox of a waiting actor is delivered; the messages behind it can be cancelled.
#[test]
fn an_actor_without_addresses_gets_only_the_first_due_message() {
    with_probe(async |world, addr, log| {
        let ids = run(&addr, |_, ctx| ["A", "B", "C"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
        let recluse = Recluse::make(addr).await;
        world.settle().await;
        let unblock = recluse.block_then(|_| ()).await;
        world.run_to(20).await;
        assert_eq!(log.take(), []);
        let outcomes = [0, 1, 0].map(|i| world.timers.cancel(ids[i]));
        assert_eq!(
            outcomes,
            [CancelOutcome::AlreadyDelivered, CancelOutcome::Cancelled, CancelOutcome::AlreadyDelivered]
        );
        assert_eq!(world.pending(), 1);
        unblock.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.take(), [("A", 20), ("C", 20)]);
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::AlreadyDelivered);
        assert_eq!(world.pending(), 0);
    });
}

/// An actor that regains an address gets each remaining message once and in order.
#[test]
fn an_actor_with_an_address_again_gets_messages_once_in_order() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| (0..40).for_each(|name| _ = ctx.schedule_after(ms(10 + name / 4), Note(name)))).await;
        let weak = addr.downgrade();
        let recluse = Recluse::make(addr).await;
        world.run_to(12).await;
        let addr = weak.upgrade().unwrap();
        world.run_to(14).await;
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(6), Note(100))).await;
        world.run_to(16).await;
        drop(addr);
        world.run_to(30).await;
        let mut expected: Vec<(u64, u64)> = (0..40).map(|name| (name, 10 + name / 4)).collect();
        expected.push((100, 20));
        assert_eq!(log.take(), expected);
        assert_eq!(world.pending(), 0);
        drop(recluse);
    });
}

/// An actor without addresses stops while messages wait: the message in its mailbox and all its other timers end with
/// it, at the latest at the next deadline.
#[test]
fn timers_of_an_actor_without_addresses_end_with_it() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let (addr, log) = world.probe();
        let counted = census.clone();
        run(&addr, move |_, ctx| {
            for (name, delay) in [("A", 10), ("B", 50), ("C", 3_600_000)] {
                ctx.schedule_after(ms(delay), Note(name));
            }
            ctx.schedule_after(ms(7_200_000), counted.payload());
        })
        .await;
        let recluse = Recluse::make(addr).await;
        world.run_to(20).await;
        assert_eq!(log.take(), [("A", 10)]);
        drop(recluse);
        world.run_to(50).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (1, 3, 0));
        assert_eq!((census.live(), world.timers.snapshot().owners), (0, 0));
        world.run_to(8_000_000).await;
        assert_eq!(log.take(), []);
    });
}

/// It stops while the first of several due messages is in its mailbox, where that ends with it.
#[test]
fn a_message_in_a_stopping_mailbox_is_delivered_and_not_handled() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| ["A", "B"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
        let recluse = Recluse::make(addr).await;
        world.settle().await;
        let unblock = recluse.block_then(|ctx| ctx.stop()).await;
        world.run_to(20).await;
        unblock.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.take(), []);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (1, 1, 0));
        drop(recluse);
    });
}

/// The system ends while a message is in the mailbox.
#[test]
fn counters_balance_if_a_system_ends_with_a_mailbox_message() {
    let mut seen = None;
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (addr, log) = world.probe();
        run(&addr, |_, ctx| ["A", "B"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
        let recluse = Recluse::make(addr).await;
        world.settle().await;
        recluse.run(|_, ctx| ctx.wait(actix::fut::wrap_future(std::future::pending()))).await;
        world.run_to(20).await;
        seen = Some((world.timers.clone(), log));
    });
    let (timers, log) = seen.unwrap();
    let counters = timers.snapshot().counters;
    assert!(counters.balance());
    assert_eq!((log.len(), counters.delivered, counters.pending), (0, 1, 0), "{counters:?}");
}

/// On a thread that runs actors without being an arbiter of a system, a context finds a timer actor once it is started,
/// and returns the message until then.
#[test]
fn a_context_without_a_system_hands_the_message_back() {
    let runtime = support::paused_runtime();
    let local = tokio::task::LocalSet::new();
    let log = local.block_on(&runtime, async {
        let mut probe = Probe::new(StopWatch::Paused(tokio::time::Instant::now()));
        probe.on_start = Box::new(|ctx| _ = ctx.schedule_after(ms(10), Note("started")));
        let log = probe.log.clone();
        let addr = Probe::create(|ctx| {
            let rejected = ctx.timer(TimerOptions::new()).try_schedule(ms(10), Note("created")).unwrap_err();
            assert!(matches!(rejected, ScheduleError::NoSystem { message: Note("created") }));
            let id = ctx.schedule_after(ms(10), Note("dropped"));
            assert_eq!(actix_timers::cancel(id), CancelOutcome::NotFound);
            probe
        });
        assert!(Timers::current().is_none());
        tokio::time::sleep(ms(10)).await;
        idle().await;
        assert!(addr.connected());
        log
    });
    assert_eq!(log.take(), [("started", 10)]);
}

/// An actor on another arbiter has its own timer actor there, and its ids work from here.
#[test]
fn an_actor_uses_the_timer_actor_of_its_own_arbiter() {
    support::in_real_time(async {
        let here = Timers::current().unwrap();
        let arbiter = Arbiter::new();
        let dropped = Arc::new(AtomicBool::new(false));
        let message = {
            let dropped = Arc::clone(&dropped);
            OnDrop::new(move || dropped.store(true, Ordering::SeqCst))
        };
        let (addr, _log) = probe_on::<u8>(&arbiter, |_, _| ());
        let (id, there) =
            run(&addr, move |_, ctx| (ctx.schedule_after(ms(3_600_000), message), Timers::current().unwrap())).await;
        assert_ne!(here.name(), there.name());
        assert_eq!((here.snapshot().pending(), there.snapshot().pending()), (0, 1));
        assert_eq!(here.cancel(id), CancelOutcome::Cancelled);
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(there.snapshot().pending(), 0);
        arbiter.stop();
        arbiter.join().unwrap();
    });
}

/// Each new system on a thread has a timer actor of its own.
#[test]
fn a_second_system_on_a_thread_has_a_timer_actor_of_its_own() {
    let first = paused(async { Timers::current().unwrap() });
    let second = paused(async {
        let (probe, second) = (Probe::new(StopWatch::Paused(tokio::time::Instant::now())), Timers::current().unwrap());
        let (log, addr) = (probe.log.clone(), probe.start());
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(10), Note(1))).await;
        tokio::time::sleep(ms(20)).await;
        assert_eq!(log.take(), [(1, 10)]);
        assert!(matches!(
            first.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(2)),
            Err(ScheduleError::Stopped { .. })
        ));
        second
    });
    assert_ne!(first.name(), second.name());
}

/// While the timers of a stopped actor are freed, a few in each turn, no caller finds them any more.
#[test]
fn timers_of_an_ended_life_are_found_by_no_caller() {
    let builder = || TimerActor::builder().expiry_budget(1);
    in_virtual_time(builder, |world| async move {
        let (addr, _log) = world.probe::<u64>();
        let ids = run(&addr, |_, ctx| {
            let group = || TimerOptions::new().group("g");
            (0..300).map(|n| ctx.timer(group()).schedule(ms(1000), Note(n))).collect::<Vec<_>>()
        })
        .await;
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        while world.pending() == 300 {
            tokio::task::yield_now().await;
        }
        let pending = world.pending();
        assert!(pending > 0, "some are not freed yet");
        for id in ids {
            assert_eq!(world.timers.reschedule_after(id, ms(10)), RescheduleOutcome::NotFound);
            assert_eq!(world.timers.cancel(id), CancelOutcome::NotFound);
            assert!(world.timers.get(id).is_none());
        }
        assert_eq!(world.timers.list(&TimerFilter::new()).len(), 0);
        assert_eq!(world.timers.list(&TimerFilter::new().group("g")).len(), 0);
        assert_eq!((world.group_len("g"), world.timers.cancel_group("g")), (0, 0));
        assert_eq!(world.timers.cancel_all_for(&addr), 0);
        assert_eq!(world.pending(), pending, "they are freed in the driver's turns");
        let returned = world.timers.addr().send(Drain::now()).await.unwrap();
        assert_eq!(returned.len(), 0);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.cancelled, counters.returned, counters.pending), (300, 300, 0, 0));
    });
}

/// At full capacity an actor restarts, and its new life schedules before the timers of the old one are freed.
#[test]
fn a_new_life_has_the_room_of_the_old_one() {
    let builder = || TimerActor::builder().capacity(3);
    in_virtual_time(builder, |world| async move {
        let (addr, log) = supervised(&world, |_| ());
        run(&addr, |_, ctx| [1, 2].map(|n| ctx.schedule_after(ms(50_000), Note(n)))).await;
        assert_eq!(world.pending(), 3);
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        world.run_to(2000).await;
        assert_eq!(log.names().len(), 1, "the first timer of the new life");
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.rejected_capacity, counters.pending), (0, 0));
    });
}

//! Lifecycle: a timer made through a context belongs to that incarnation of that actor. It ends with the incarnation,
//! does not keep it alive, and reaches it also when the actor has no address left.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, Drain, Repeat, RescheduleOutcome, ScheduleError, TimerActor, TimerContext, TimerFilter, TimerId,
    TimerOptions, Timers,
};
use support::{
    Census, Log, Note, Probe, Recluse, Run, StopWatch, count_panics, idle, in_virtual_time, ms, panic_on_purpose,
    paused, paused_runtime, run, with_probe,
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

/// After a supervised restart the old incarnation's timers are gone; messages that others scheduled for the address
/// survive. Even at full capacity there is room for the timers of the new one, before those of the old one are freed.
#[test]
fn timers_of_the_old_incarnation_never_reach_the_new_one() {
    let builder = || TimerActor::builder().capacity(4);
    in_virtual_time(builder, |world| async move {
        let mut incarnation = 0;
        let mut probe = Probe::new(world.watch.clone());
        probe.on_start = Box::new(move |ctx| {
            incarnation += 1;
            ctx.schedule_after(ms(1000), Note(incarnation));
        });
        let log = probe.log.clone();
        let addr = Supervisor::start(|_| probe);
        run(&addr, |_, ctx| [1, 2].map(|n| ctx.schedule_after(ms(50_000), Note(n)))).await;
        world.after(&addr, 4300, 77);
        world.run_to(600).await;
        assert_eq!(world.pending(), 4);
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
        world.settle().await;
        assert_eq!((world.pending(), world.timers.snapshot().owners), (2, 1));
        world.run_to(60_000).await;
        assert_eq!(log.take(), [(2, 1600), (77, 4300)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.rejected_capacity, counters.pending), (3, 0, 0));
    });
}

/// While the actor waits for a future that the handler of the first has started, the others wait, too. A handler that
/// stops or restarts its actor is the last one: messages due with it end.
#[test]
fn messages_due_with_one_that_waits_or_stops_wait_or_end() {
    for stops in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (go, gate) = tokio::sync::oneshot::channel();
            let mut gate = Some(gate);
            let mut probe = Probe::new(world.watch.clone());
            probe.hook = Box::new(move |name, ctx| match (*name, stops) {
                ("A", false) => support::wait(ctx, gate.take().unwrap(), |_| ()),
                ("A", true) => ctx.stop(),
                _ => (),
            });
            let log = probe.log.clone();
            let addr = Supervisor::start(|_| probe);
            run(&addr, |_, ctx| ["A", "B", "C"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
            world.run_to(50).await;
            assert_eq!(log.take(), [("A", 10)]);
            let _ = go.send(());
            world.settle().await;
            addr.do_send(Note("alive"));
            world.settle().await;
            let expected = if stops { vec!["alive"] } else { vec!["B", "C", "alive"] };
            assert_eq!(log.names(), expected);
            assert_eq!(world.timers.snapshot().counters.cancelled, if stops { 2 } else { 0 });
        });
    }
}

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

/// A message in the mailbox of a waiting actor is delivered, even if it ends there with the actor. The messages behind it
/// can be cancelled.
#[test]
fn an_actor_without_addresses_gets_only_the_first_due_message() {
    for stops in [false, true] {
        with_probe(async |world, addr, log| {
            let ids = run(&addr, |_, ctx| ["A", "B", "C"].map(|name| ctx.schedule_after(ms(10), Note(name)))).await;
            let recluse = Recluse::make(addr).await;
            world.settle().await;
            let unblock = recluse
                .block_then(move |ctx| {
                    if stops {
                        ctx.stop();
                    }
                })
                .await;
            world.run_to(20).await;
            assert_eq!(log.take(), []);
            use CancelOutcome::{AlreadyDelivered, Cancelled};
            let outcomes = [0, 1, 0].map(|i| world.timers.cancel(ids[i]));
            assert_eq!(outcomes, [AlreadyDelivered, Cancelled, AlreadyDelivered]);
            unblock.send(()).unwrap();
            world.settle().await;
            assert_eq!(log.names(), if stops { vec![] } else { vec!["A", "C"] });
            let counters = world.timers.snapshot().counters;
            let expected = if stops { (1, 2, 0) } else { (2, 1, 0) };
            assert_eq!((counters.delivered, counters.cancelled, counters.pending), expected);
        });
    }
}

#[test]
fn an_actor_with_an_address_again_gets_messages_once_in_order() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| (0..40).for_each(|name| _ = ctx.schedule_after(ms(10 + name / 4), Note(name)))).await;
        let weak = addr.downgrade();
        let recluse = Recluse::make(addr).await;
        world.run_to(12).await;
        // Scheduled without an address.
        recluse.run(|_, ctx| _ = ctx.schedule_after(ms(13), Note(200))).await;
        let addr = weak.upgrade().unwrap();
        world.run_to(14).await;
        run(&addr, |_, ctx| _ = ctx.schedule_after(ms(6), Note(100))).await;
        world.run_to(16).await;
        drop(addr);
        world.run_to(30).await;
        let mut expected: Vec<(u64, u64)> = (0..40).map(|name| (name, 10 + name / 4)).collect();
        expected.extend([(100, 20), (200, 25)]);
        assert_eq!(log.take(), expected);
        assert_eq!(world.pending(), 0);
        drop(recluse);
    });
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

/// Also while the first is still there, which does not run any more, and nor does its timer actor.
#[test]
fn a_second_system_on_a_thread_has_a_timer_actor_of_its_own() {
    for is_kept in [false, true] {
        let system = System::with_tokio_rt(paused_runtime);
        let first = system.block_on(async { Timers::current().unwrap() });
        let _kept = is_kept.then_some(system);
        let second = paused(async {
            let probe = Probe::new(StopWatch::Paused(tokio::time::Instant::now()));
            let (log, addr) = (probe.log.clone(), probe.start());
            run(&addr, |_, ctx| _ = ctx.schedule_after(ms(10), Note(1))).await;
            tokio::time::sleep(ms(20)).await;
            assert_eq!(log.take(), [(1, 10)]);
            let late = first.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(2));
            assert!(is_kept || matches!(late, Err(ScheduleError::Stopped { .. })));
            Timers::current().unwrap()
        });
        assert_ne!(first.name(), second.name());
    }
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

/// It lives by a future of its own. Its inbox has left, and a message through its mailbox would have to end first. Later
/// it may accept bells.
#[test]
fn handlers_that_do_not_end_hold_up_no_message_of_an_actor_without_an_address() {
    struct Session {
        log: Rc<RefCell<Vec<u32>>>,
        rings_from: u32,
        gates: Vec<tokio::sync::oneshot::Sender<()>>,
    }

    impl Actor for Session {
        type Context = Context<Self>;

        fn started(&mut self, ctx: &mut Self::Context) {
            ctx.spawn(actix::fut::wrap_future(std::future::pending()));
            for number in [1, 2, 3, 50, 50, 51] {
                ctx.schedule_after(ms(100 * u64::from(number)), Note(number));
            }
            ctx.timer(TimerOptions::new()).repeat(Repeat::every(ms(10_000)), Note(100));
        }
    }

    impl Handler<Note<u32>> for Session {
        type Result = ResponseFuture<()>;

        fn handle(&mut self, Note(number): Note<u32>, ctx: &mut Self::Context) -> Self::Result {
            self.log.borrow_mut().push(number);
            if number == self.rings_from {
                ctx.enable_due_timers();
            }
            let (go, gate) = tokio::sync::oneshot::channel();
            self.gates.push(go);
            // The first of the repetitions ends while the second one is under way.
            if number == 100 && self.gates.len() == 8 {
                self.gates.remove(6);
            }
            Box::pin(async { drop(gate.await) })
        }
    }

    actix_timers::impl_due_timers!(Session);

    // The rule of bells is one of the type: the case with bells comes last.
    for rings_from in [0, 2] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let log = Rc::default();
            drop(Session { log: Rc::clone(&log), rings_from, gates: Vec::new() }.start());
            for (time, handled) in [(100, 1), (200, 2), (300, 3), (4999, 3), (5000, 5), (5100, 6)] {
                world.run_to(time).await;
                assert_eq!(log.borrow().len(), handled, "at {time} ms");
            }
            assert!(log.borrow().is_sorted());
            for repetition in 1..5 {
                world.run_to(10_000 * repetition).await;
                assert_eq!(log.borrow().len(), 6 + repetition as usize);
            }
        });
    }
}

/// A check of an actor without an address wakes it, and needs an alarm.
#[test]
fn an_actor_without_an_address_is_not_checked_without_timers() {
    /// Lives by a future that counts its polls.
    struct Session(Rc<Cell<u32>>);

    impl Actor for Session {
        type Context = Context<Self>;

        fn started(&mut self, ctx: &mut Self::Context) {
            let polls = Rc::clone(&self.0);
            ctx.spawn(actix::fut::wrap_future(std::future::poll_fn(move |_| {
                polls.set(polls.get() + 1);
                std::task::Poll::<()>::Pending
            })));
            ctx.schedule_after(ms(10), Note(1));
        }
    }

    impl Handler<Note<u32>> for Session {
        type Result = ();

        fn handle(&mut self, Note(number): Note<u32>, ctx: &mut Self::Context) {
            if number == 1 {
                ctx.schedule_after(ms(1000), Note(2));
            }
        }
    }

    in_virtual_time(TimerActor::builder, |world| async move {
        let polls = Rc::default();
        drop(Session(Rc::clone(&polls)).start());
        world.run_to(500).await;
        assert_eq!(world.timers.snapshot().owners, 1, "it has scheduled again");
        world.run_to(6100).await;
        assert_eq!((world.timers.snapshot().owners, world.timers.snapshot().counters.pending), (0, 0));
        let before = polls.get();
        world.run_to(3_600_000).await;
        assert_eq!(polls.get(), before);
    });
}

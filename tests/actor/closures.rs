//! Closures as timers of an actor: delivered, ordered, cancelled and counted as messages are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::prelude::*;
use actix_timers::{
    ActorTimers, CancelOutcome, Repeat, ScheduleError, TimerActor, TimerContext, TimerFilter, TimerId, TimerOptions,
};
use support::{Note, Probe, Recluse, World, in_virtual_time, ms, paused, run, with_probe};

type Ctx = Context<Probe<u64>>;

/// Returns a closure that logs `name`, as the handler of a note does.
fn note(name: u64) -> impl FnMut(&mut Probe<u64>, &mut Ctx) + Clone {
    move |probe, _| probe.log.push(name, probe.watch.now())
}

#[test]
fn closures_and_messages_run_in_the_order_of_their_deadlines() {
    with_probe(async |world, addr, log| {
        let at = world.wall(25);
        run(&addr, move |_, ctx| {
            ctx.run_at(at, note(5));
            ctx.run_after(ms(10), note(3));
            ctx.schedule_after(ms(5), Note(1));
            ctx.run_after(ms(5), note(2));
            ctx.schedule_after(ms(10), Note(4));
        })
        .await;
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 5), (2, 5), (3, 10), (4, 10), (5, 25)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.delivered, counters.pending), (5, 5, 0));
    });
}

/// It schedules another one at each run, and cancels itself at the third.
#[test]
fn a_closure_repeats_on_its_grid_until_it_is_cancelled_or_with_a_fixed_delay() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| {
            ctx.run_every(Repeat::every(ms(15)).times(2).with_fixed_delay(), note(7));
            let own = Rc::new(Cell::new(None));
            let (id, mut runs) = (Rc::clone(&own), 0);
            let count = move |probe: &mut Probe<u64>, ctx: &mut Ctx| {
                runs += 1;
                probe.log.push(runs, probe.watch.now());
                ctx.run_after(ms(1), note(100 + runs));
                if runs == 3 {
                    assert_eq!(id.take().map(|id| ctx.cancel_timer(id)), Some(CancelOutcome::Cancelled));
                }
            };
            own.set(Some(ctx.run_every(ms(10), count)));
        })
        .await;
        world.run_to(100).await;
        let expected = [(1, 10), (101, 11), (7, 15), (2, 20), (102, 21), (7, 30), (3, 30), (103, 31)];
        assert_eq!((log.take(), world.pending()), (expected.to_vec(), 0));
    });
}

/// And so is a pending one, by a drain.
#[test]
fn a_rejected_closure_is_returned() {
    let builder = || TimerActor::builder().capacity(1);
    in_virtual_time(builder, |world| async move {
        let (addr, log) = world.probe();
        run(&addr, |probe, ctx| {
            ctx.run_after(ms(10), note(1));
            let once = ctx
                .timer(TimerOptions::new())
                .try_run(ms(10), |probe: &mut Probe<u64>, _: &mut Ctx| probe.log.push(2, probe.watch.now()));
            let Err(rejected @ ScheduleError::CapacityReached { .. }) = once else { panic!("{once:?}") };
            rejected.into_message()(probe, ctx);
            let many = ctx.timer(TimerOptions::new()).try_run_repeatedly(ms(10), note(3));
            let Err(rejected @ ScheduleError::CapacityReached { .. }) = many else { panic!("{many:?}") };
            rejected.into_message()(probe, ctx);
            let never = ctx.timer(TimerOptions::new()).try_run_repeatedly(ms(0), note(4));
            assert!(matches!(never, Err(ScheduleError::ZeroPeriod { .. })));
        })
        .await;
        let returned = world.timers.drain();
        assert!(returned.len() == 1 && returned[0].message_type.contains("closures::note"), "{returned:?}");
        drop(returned);
        world.run_to(100).await;
        assert_eq!((log.names(), world.pending()), (vec![2, 3], 0));
    });
}

/// An example of a helper of an application: its calls are the places of its closures.
#[track_caller]
fn soon(ctx: &mut Ctx, run: impl FnOnce(&mut Probe<u64>, &mut Ctx) + 'static) -> TimerId {
    ctx.run_after(ms(10), run)
}

/// The place of the call and the function of the closure take the place of the type of the message.
#[test]
fn a_closure_is_described_by_the_place_of_its_call() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _) = world.probe();
        let id = run(&addr, |_, ctx| ctx.run_after(ms(10), note(1))).await;
        let info = world.timers.get(id).unwrap();
        assert!(info.message_type.contains("closures::note"), "{}", info.message_type);
        let named = TimerFilter::new().message_type_containing("closures::note");
        assert_eq!(world.timers.list(&named).len(), 1);

        fn tick(_: &mut Probe<u64>, _: &mut Ctx) {}
        fn tock<T>(_: &mut Probe<u64>, _: &mut Ctx) {}
        let id = run(&addr, |_, ctx| ctx.run_every(ms(10), tock::<Vec<u8>>)).await;
        assert!(world.timers.get(id).unwrap().message_type.ends_with("::tock<alloc::vec::Vec<u8>>"));
        let (first, ids) = run(&addr, |_, ctx| {
            let options = TimerOptions::new;
            let first = line!() + 1;
            let ids = [
                ctx.run_after(ms(10), |_, _| ()),
                ctx.run_at(std::time::SystemTime::now(), |_, _| ()),
                ctx.run_every(ms(10), |_, _| ()),
                ctx.timer(options()).run(ms(10), |_, _| ()),
                ctx.timer(options()).run_repeatedly(ms(10), |_, _| ()),
                ctx.timer(options()).try_run(ms(10), |_, _| ()).map_err(drop).unwrap(),
                ctx.timer(options()).try_run_repeatedly(ms(10), |_, _| ()).map_err(drop).unwrap(),
                soon(ctx, |_, _| ()),
            ];
            let boxed = Box::new(|_: &mut Probe<u64>, _: &mut Ctx| ());
            let named = [ctx.run_after(ms(10), tick), ctx.run_after(ms(10), boxed)];
            (first, [ids.to_vec(), named.to_vec()].concat())
        })
        .await;
        let described: Vec<_> = ids.iter().map(|id| world.timers.get(*id).unwrap().message_type).collect();
        let here = module_path!();
        let function = "a_closure_is_described_by_the_place_of_its_call";
        let at = |line| format!("closure at {}:{line} in ", file!());
        for (line, described) in (first + 1..).zip(&described[..8]) {
            assert_eq!(*described, format!("{}{here}::{function}", at(line)));
        }
        assert!(described[8].starts_with(here) && described[8].ends_with("::tick"), "{}", described[8]);
        assert!(described[9].starts_with(&at(first + 11)), "{}", described[9]);
        let at_one_place = TimerFilter::new().message_type_containing(format!("closures.rs:{}", first + 3));
        assert_eq!(world.timers.list(&at_one_place).len(), 1);
    });
}

/// Without an address, and without anything else in its context.
#[test]
fn a_closure_keeps_its_actor_alive_and_a_message_does_not() {
    const BOTH: [(u64, u64); 2] = [(1, 10), (2, 20)];
    for (keeps, message_keeps, expected) in [
        (None, None, BOTH.to_vec()),
        (Some(true), None, BOTH.to_vec()),
        (Some(false), None, vec![]),
        (Some(false), Some(true), vec![(1, 10), (2, 20), (3, 40)]),
    ] {
        in_virtual_time(TimerActor::builder, async |world| {
            let options = |keeps: Option<bool>| keeps.into_iter().fold(TimerOptions::new(), TimerOptions::keep_alive);
            let (of_closures, of_message) = (options(keeps), options(message_keeps));
            let stopped = Rc::new(RefCell::default());
            let stop = Rc::clone(&stopped);
            let (addr, log) = world.probe_with(move |probe: &mut Probe<u64>| {
                stop.replace(Arc::clone(&probe.stopped));
                probe.on_start = Box::new(move |ctx| {
                    ctx.timer(of_closures.clone()).run(ms(10), note(1));
                    ctx.timer(of_closures.clone()).run_repeatedly(Repeat::every(ms(20)).times(1), note(2));
                    ctx.timer(of_message.clone()).schedule(ms(40), Note(3));
                    ctx.schedule_after(ms(50), Note(4));
                });
            });
            drop(addr);
            world.run_to(100).await;
            assert_eq!(log.take(), expected, "{keeps:?}");
            assert!(stopped.take().load(Ordering::SeqCst), "it stops with the last of them");
            assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
        });
    }
}

/// Nothing else wakes the actor. A list visits all its timers, and leaves them as they were.
#[test]
fn an_actor_stops_when_the_timer_keeping_it_is_cancelled() {
    in_virtual_time(TimerActor::builder, async |world| {
        let handle = Rc::new(RefCell::new(ActorTimers::default()));
        let kept = Rc::clone(&handle);
        let (addr, log) = world.probe_with(move |probe: &mut Probe<u64>| {
            probe.on_start = Box::new(move |ctx| {
                ctx.run_after(ms(10), note(1));
                ctx.run_after(ms(20), note(2));
                kept.replace(ctx.actor_timers());
            });
        });
        drop(addr);
        world.settle().await;
        let timers = handle.borrow().list();
        assert_eq!((timers.len(), world.timers.snapshot().owners), (2, 1));
        for (left, timer) in [(1, &timers[0]), (0, &timers[1])] {
            assert_eq!(world.timers.cancel(timer.id), CancelOutcome::Cancelled);
            world.settle().await;
            assert_eq!(world.timers.snapshot().owners, left);
        }
        world.run_to(100).await;
        assert_eq!(log.take(), []);
    });
}

/// Whatever the order in which actix polls its items: one that ends is replaced by the last one.
#[test]
fn an_actor_without_an_address_stops_after_its_last_closure() {
    for futures in 0..3 {
        with_probe(async |world, addr, log| {
            run(&addr, move |_, ctx| {
                (0..futures).for_each(|_| _ = ctx.spawn(actix::fut::ready(())));
                ctx.run_after(ms(10), note(1));
            })
            .await;
            let weak = addr.downgrade();
            drop(addr);
            world.run_to(100).await;
            assert_eq!(log.take(), [(1, 10)]);
            assert!(weak.upgrade().is_none(), "{futures}");
        });
    }
}

/// The actor lives by a stream. Unless a timer keeps it alive its inbox leaves, and only a request through the mailbox
/// reaches it. The first closure waits for a future.
#[test]
fn closures_without_an_address_run_if_they_keep_it_alive_or_due_timers_are_accepted() {
    for (accepts, keeps) in [(true, false), (false, true), (false, false)] {
        with_probe(async |world, addr, log| {
            let options = move || TimerOptions::new().keep_alive(keeps);
            run(&addr, move |_, ctx| {
                if accepts {
                    ctx.enable_due_timers();
                }
                let wait = |probe: &mut Probe<u64>, ctx: &mut Ctx| {
                    probe.log.push(1, probe.watch.now());
                    ctx.wait(actix::fut::wrap_future(async {
                        for _ in 0..3 {
                            tokio::task::yield_now().await;
                        }
                    }));
                };
                ctx.timer(options()).run(ms(10), wait);
                ctx.timer(options()).run(ms(10), note(2));
                ctx.schedule_after(ms(10), Note(3));
                for name in 4..100 {
                    ctx.timer(options()).run(ms(30), note(name));
                }
            })
            .await;
            let recluse = Recluse::make(addr).await;
            recluse.run(move |_, ctx| ctx.timer(options()).run(ms(40), note(100))).await;
            world.run_to(100).await;
            let mut all = vec![(1, 10), (2, 10), (3, 10)];
            all.extend((4..100).map(|name| (name, 30)).chain([(100, 40)]));
            // The message goes past closures that do not run.
            assert_eq!(log.take(), if accepts || keeps { all } else { vec![(3, 10)] }, "{accepts} {keeps}");
            let owners = if accepts || keeps { 0 } else { 1 };
            assert_eq!(world.timers.snapshot().owners, owners, "without timers it is no owner");
            drop(recluse);
        });
    }
}

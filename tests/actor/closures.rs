//! Closures as timers of an actor: delivered, ordered, cancelled and counted as messages are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use actix::prelude::*;
use actix_timers::{
    ActorTimers, CancelOutcome, Drain, Repeat, ScheduleError, TimerActor, TimerContext, TimerFilter, TimerId,
    TimerOptions, TimerState,
};
use support::{Note, Probe, Recluse, World, in_virtual_time, ms, paused, run, with_probe};

type Ctx = Context<Probe<u64>>;

/// Returns a closure that logs `name`, as the handler of a note does.
fn note(name: u64) -> impl FnMut(&mut Probe<u64>, &mut Ctx) + Clone {
    move |probe, _| probe.log.push(name, probe.watch.now())
}

async fn run_after(addr: &Addr<Probe<u64>>, delay: u64, name: u64) -> TimerId {
    run(addr, move |_, ctx| ctx.run_after(ms(delay), note(name))).await
}

#[test]
fn a_closure_runs_at_its_deadline_with_its_actor() {
    with_probe(async |world, addr, log| {
        let id = run_after(&addr, 10, 1).await;
        assert_eq!(world.timers.get(id).unwrap().state, TimerState::Waiting);
        world.run_to(9).await;
        assert_eq!(log.take(), []);
        world.run_to(30).await;
        assert_eq!(log.take(), [(1, 10)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.delivered, counters.pending), (1, 1, 0));
        assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
    });
}

/// Neither the message nor its result is `Send`.
#[derive(Message)]
#[rtype(result = "Rc<u64>")]
struct Local(Rc<u64>);

struct Keeper(Arc<Mutex<Vec<u64>>>);

impl Actor for Keeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let message = Local(Rc::new(7));
        ctx.run_after(ms(10), move |_, ctx| ctx.notify(message));
        let message = Local(Rc::new(8));
        ctx.timer(TimerOptions::new().key("second")).run(ms(20), move |_, ctx| ctx.notify(message));
    }
}

impl Handler<Local> for Keeper {
    type Result = MessageResult<Local>;

    fn handle(&mut self, Local(value): Local, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(*value);
        MessageResult(value)
    }
}

#[test]
fn a_message_that_is_not_send_keeps_its_actor_alive() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let seen = Arc::new(Mutex::new(Vec::new()));
        drop(Keeper(Arc::clone(&seen)).start());
        world.settle().await;
        world.run_to(15).await;
        assert_eq!(*seen.lock().unwrap(), [7]);
        world.run_to(100).await;
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
        assert_eq!(*seen.lock().unwrap(), [7, 8]);
    });
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
    });
}

#[test]
fn a_closure_repeats_on_its_grid_until_it_is_cancelled_or_with_a_fixed_delay() {
    with_probe(async |world, addr, log| {
        let id = run(&addr, |_, ctx| {
            let mut runs = 0;
            let count = move |probe: &mut Probe<u64>, _: &mut Ctx| {
                runs += 1;
                probe.log.push(runs, probe.watch.now());
            };
            ctx.run_every(Repeat::every(ms(15)).times(2).with_fixed_delay(), note(7));
            ctx.run_every(ms(10), count)
        })
        .await;
        world.run_to(35).await;
        assert_eq!(log.take(), [(1, 10), (7, 15), (2, 20), (7, 30), (3, 30)]);
        assert_eq!(run(&addr, move |_, ctx| ctx.cancel_timer(id)).await, CancelOutcome::Cancelled);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// The closure is due already, and its handler has not begun.
#[test]
fn a_due_closure_is_cancelled_exactly() {
    with_probe(async |world, addr, log| {
        let outcome = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&outcome);
        run(&addr, move |_, ctx| {
            let second = Rc::new(Cell::new(None));
            let victim = Rc::clone(&second);
            let first = move |probe: &mut Probe<u64>, ctx: &mut Ctx| {
                probe.log.push(1, probe.watch.now());
                *seen.lock().unwrap() = victim.take().map(|id| ctx.cancel_timer(id));
            };
            ctx.run_after(ms(10), first);
            second.set(Some(ctx.run_after(ms(10), note(2))));
        })
        .await;
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 10)]);
        assert_eq!(*outcome.lock().unwrap(), Some(CancelOutcome::Cancelled));
    });
}

#[test]
fn a_shared_key_names_closures_and_messages_alike() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| {
            let keyed = || TimerOptions::new().shared_key("expiry").group("g");
            ctx.timer(keyed()).schedule(ms(10), Note(1));
            ctx.timer(keyed()).run(ms(20), note(2));
            assert!(ctx.actor_timers().get("expiry").is_some());
        })
        .await;
        assert_eq!(world.pending(), 1);
        world.run_to(100).await;
        assert_eq!(log.take(), [(2, 20)]);
    });
}

/// A value that shows on which thread it is dropped, and whether it was.
struct Witness(Rc<()>, Arc<Mutex<Vec<std::thread::ThreadId>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(std::thread::current().id());
    }
}

/// By id, by group, and by a drain. The captured `Rc` is on its own thread throughout.
#[test]
fn captures_of_a_closure_are_dropped_on_their_own_thread() {
    with_probe(async |world, addr, log| {
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let ids = Arc::clone(&dropped);
        let (one, shared) = run(&addr, move |_, ctx| {
            let shared = Rc::new(());
            let mut closures = (0..3)
                .map(|_| Witness(Rc::clone(&shared), Arc::clone(&ids)))
                .map(|witness| move |_: &mut Probe<u64>, _: &mut Ctx| assert!(Rc::strong_count(&witness.0) > 0));
            let one = ctx.run_after(ms(10), closures.next().unwrap());
            let grouped = || TimerOptions::new().group("g");
            ctx.timer(grouped()).run(ms(10), closures.next().unwrap());
            ctx.timer(grouped()).run_repeatedly(ms(10), closures.next().unwrap());
            (one, shared.as_ref() as *const () as usize)
        })
        .await;
        assert_ne!(shared, 0);
        let timers = world.timers.clone();
        let cancelled = std::thread::spawn(move || (timers.cancel(one), timers.cancel_group("g")));
        assert_eq!(cancelled.join().unwrap(), (CancelOutcome::Cancelled, 2));
        world.settle().await;
        assert_eq!(*dropped.lock().unwrap(), vec![std::thread::current().id(); 3]);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

#[test]
fn a_rejected_closure_is_returned() {
    let builder = || TimerActor::builder().capacity(1);
    in_virtual_time(builder, |world| async move {
        let (addr, _) = world.probe();
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
    });
}

#[test]
fn closures_end_with_their_actor_and_its_restart() {
    with_probe(async |world, addr, log| {
        let captured = Arc::new(());
        let held = Arc::clone(&captured);
        run(&addr, move |_, ctx| {
            ctx.run_every(ms(10), move |_: &mut Probe<u64>, _: &mut Ctx| drop(Arc::clone(&held)));
        })
        .await;
        run(&addr, |_, ctx| ctx.stop()).await;
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
        assert_eq!(Arc::strong_count(&captured), 1, "the captures are dropped");
    });
}

/// The place of the call and the function of the closure take the place of the type of the message.
#[test]
fn a_closure_is_described_by_the_place_of_its_call() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _) = world.probe();
        let id = run_after(&addr, 10, 1).await;
        let info = world.timers.get(id).unwrap();
        assert!(info.message_type.contains("closures::note"), "{}", info.message_type);
        let named = TimerFilter::new().message_type_containing("closures::note");
        assert_eq!(world.timers.list(&named).len(), 1);

        fn tick(_: &mut Probe<u64>, _: &mut Ctx) {}
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
        for (line, described) in (first + 1..).zip(&described[..7]) {
            assert_eq!(*described, format!("{}{here}::{function}", at(line)));
        }
        assert!(described[7].starts_with(here) && described[7].ends_with("::tick"), "{}", described[7]);
        assert!(described[8].starts_with(&at(first + 10)), "{}", described[8]);
        let at_one_place = TimerFilter::new().message_type_containing(format!("closures.rs:{}", first + 3));
        assert_eq!(world.timers.list(&at_one_place).len(), 1);
    });
}

/// An example of a helper of an application.
#[track_caller]
fn soon(ctx: &mut Ctx, run: impl FnOnce(&mut Probe<u64>, &mut Ctx) + 'static) -> TimerId {
    ctx.run_after(ms(10), run)
}

#[test]
fn a_helper_names_the_place_of_its_own_call() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _) = world.probe();
        let (line, id) = run(&addr, |_, ctx| (line!(), soon(ctx, |_, _| ()))).await;
        let described = world.timers.get(id).unwrap().message_type;
        assert!(described.starts_with(&format!("closure at {}:{line} in ", file!())), "{described}");
    });
}

#[test]
fn a_drain_returns_closures_without_running_them() {
    with_probe(async |world, addr, log| {
        run_after(&addr, 10, 1).await;
        let returned = world.timers.addr().send(Drain::now()).await.unwrap();
        assert_eq!(returned.len(), 1);
        assert!(returned[0].message_type.starts_with("closure at "), "{}", returned[0].message_type);
        drop(returned);
        world.run_to(100).await;
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// Without an address, and without anything else in its context.
#[test]
fn a_closure_keeps_its_actor_alive_and_a_message_does_not() {
    for (keeps, expected) in
        [(None, vec![(1, 10), (2, 20)]), (Some(true), vec![(1, 10), (2, 20)]), (Some(false), vec![])]
    {
        in_virtual_time(TimerActor::builder, |world| {
            let expected = expected.clone();
            async move {
                let options = keeps.map_or(TimerOptions::new(), |keeps| TimerOptions::new().keep_alive(keeps));
                let stopped = Arc::new(Mutex::new(None));
                let stop = Arc::clone(&stopped);
                let (addr, log) = world.probe_with(move |probe: &mut Probe<u64>| {
                    *stop.lock().unwrap() = Some(Arc::clone(&probe.stopped));
                    probe.on_start = Box::new(move |ctx| {
                        ctx.timer(options.clone()).run(ms(10), note(1));
                        ctx.timer(options.clone()).run_repeatedly(Repeat::every(ms(20)).times(1), note(2));
                        ctx.schedule_after(ms(40), Note(3));
                    });
                });
                drop(addr);
                world.run_to(100).await;
                assert_eq!(log.take(), expected, "{keeps:?}");
                let stopped = stopped.lock().unwrap().take().unwrap();
                assert!(stopped.load(Ordering::SeqCst), "it stops with the last of them");
                assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
            }
        });
    }
}

#[test]
fn a_message_keeps_its_actor_alive_if_asked_to() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log) = world.probe_with(|probe: &mut Probe<u64>| {
            probe.on_start = Box::new(|ctx| {
                ctx.timer(TimerOptions::new().keep_alive(true)).schedule(ms(10), Note(1));
                ctx.schedule_after(ms(5), Note(0));
                ctx.schedule_after(ms(15), Note(2));
            });
        });
        drop(addr);
        world.run_to(100).await;
        assert_eq!(log.take(), [(0, 5), (1, 10)]);
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
    });
}

/// Nothing else wakes the actor.
#[test]
fn an_actor_stops_when_the_timer_keeping_it_is_cancelled() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ids = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&ids);
        let (addr, log) = world.probe_with(move |probe: &mut Probe<u64>| {
            probe.on_start = Box::new(move |ctx| {
                known.lock().unwrap().extend(ctx.timer(TimerOptions::new()).try_run(ms(10), note(1)));
                known.lock().unwrap().extend(ctx.timer(TimerOptions::new()).try_run(ms(20), note(2)));
            });
        });
        drop(addr);
        world.settle().await;
        assert_eq!(world.timers.snapshot().owners, 1);
        let ids: Vec<_> = ids.lock().unwrap().drain(..).collect();
        for (left, id) in [(1, ids[0]), (0, ids[1])] {
            assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            world.settle().await;
            assert_eq!(world.timers.snapshot().owners, left);
        }
        world.run_to(100).await;
        assert_eq!(log.take(), []);
    });
}

/// A list visits all timers of an actor, and leaves them as they were.
#[test]
fn an_actor_stops_with_its_last_closure_after_a_list() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let handle = Rc::new(RefCell::new(ActorTimers::default()));
        let kept = Rc::clone(&handle);
        let (addr, log) = world.probe_with(move |probe: &mut Probe<u64>| {
            probe.on_start = Box::new(move |ctx| {
                ctx.run_after(ms(10), note(1));
                *kept.borrow_mut() = ctx.actor_timers();
            });
        });
        drop(addr);
        world.settle().await;
        let timers = handle.borrow().list();
        assert_eq!((timers.len(), world.timers.snapshot().owners), (1, 1));
        assert_eq!(world.timers.cancel(timers[0].id), CancelOutcome::Cancelled);
        world.settle().await;
        assert_eq!((log.take(), world.timers.snapshot().owners), (vec![], 0));
    });
}

/// The actor lives by a stream. Its inbox has left, since no timer keeps it alive: only a request through the mailbox
/// reaches it.
#[test]
fn closures_without_an_address_run_if_due_timers_are_accepted() {
    for accepts in [true, false] {
        with_probe(async |world, addr, log| {
            run(&addr, move |_, ctx| {
                if accepts {
                    ctx.enable_due_timers();
                }
                let weak = || TimerOptions::new().keep_alive(false);
                ctx.timer(weak()).run(ms(10), note(1));
                ctx.timer(weak()).run(ms(10), note(2));
                ctx.schedule_after(ms(10), Note(3));
                for name in 4..100 {
                    ctx.timer(weak()).run(ms(30), note(name));
                }
            })
            .await;
            let recluse = Recluse::make(addr).await;
            world.run_to(100).await;
            let ran = log.take();
            match accepts {
                true => {
                    assert_eq!(ran[..3], [(1, 10), (2, 10), (3, 10)]);
                    assert_eq!(ran[3..], (4..100).map(|name| (name, 30)).collect::<Vec<_>>());
                }
                // The message goes past them.
                false => assert_eq!(ran, [(3, 10)]),
            }
            assert_eq!(world.timers.snapshot().owners, 1);
            drop(recluse);
        });
    }
}

/// The first one waits for a future, and nothing else is due later.
#[test]
fn a_request_for_due_timers_is_not_lost_while_the_actor_waits() {
    with_probe(async |world, addr, log| {
        run(&addr, move |_, ctx| {
            ctx.enable_due_timers();
            let weak = || TimerOptions::new().keep_alive(false);
            let wait = |probe: &mut Probe<u64>, ctx: &mut Ctx| {
                probe.log.push(1, probe.watch.now());
                ctx.wait(actix::fut::wrap_future(async {
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                }));
            };
            ctx.timer(weak()).run(ms(10), wait);
            ctx.timer(weak()).run(ms(10), note(2));
            ctx.schedule_after(ms(10), Note(3));
        })
        .await;
        let recluse = Recluse::make(addr).await;
        world.run_to(50).await;
        assert_eq!(log.take(), [(1, 10), (2, 10), (3, 10)]);
        drop(recluse);
    });
}

/// A poll of the inbox lets others in after 64 handlers. So does a request through the mailbox.
#[test]
fn other_actors_have_their_turn_between_many_due_closures() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (other, log_of_other) = world.probe::<u64>();
        let (addr, log) = world.probe();
        run(&addr, move |_, ctx| {
            ctx.enable_due_timers();
            let weak = || TimerOptions::new().keep_alive(false);
            let tell = move |_: &mut Probe<u64>, _: &mut Ctx| other.do_send(Note(0));
            ctx.timer(weak()).run(ms(10), tell);
            for name in 1..500 {
                let (log_of_other, note) = (log_of_other.clone(), name);
                let count = move |probe: &mut Probe<u64>, _: &mut Ctx| {
                    probe.log.push(note, log_of_other.len() as u64);
                };
                ctx.timer(weak()).run(ms(10), count);
            }
        })
        .await;
        let recluse = Recluse::make(addr).await;
        world.run_to(50).await;
        let seen = log.take();
        assert_eq!(seen.len(), 499);
        let before = seen.iter().filter(|(_, heard)| *heard == 0).count();
        assert!((1..=2 * 64).contains(&before), "{before} closures ran before the other actor had its turn");
        drop(recluse);
    });
}

/// The same with a timer that keeps it alive: its inbox stays.
#[test]
fn closures_of_an_actor_without_an_address_run_by_default() {
    with_probe(async |world, addr, log| {
        run(&addr, move |_, ctx| {
            ctx.run_after(ms(10), note(1));
            ctx.schedule_after(ms(20), Note(2));
        })
        .await;
        let recluse = Recluse::make(addr).await;
        recluse.run(|_, ctx| ctx.run_after(ms(20), note(3))).await;
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 10), (2, 20), (3, 20)]);
    });
}

/// A closure schedules the next one: the borrow of a repeated closure is no obstacle.
#[test]
fn a_closure_may_schedule_and_cancel() {
    with_probe(async |world, addr, log| {
        run(&addr, |_, ctx| {
            let own = Rc::new(RefCell::new(None));
            let id = Rc::clone(&own);
            let until_third = move |probe: &mut Probe<u64>, ctx: &mut Ctx| {
                probe.log.push(0, probe.watch.now());
                ctx.run_after(ms(1), note(1));
                if probe.watch.now() == 30 {
                    let _ = id.take().map(|id| ctx.cancel_timer(id));
                }
            };
            *own.borrow_mut() = Some(ctx.run_every(ms(10), until_third));
        })
        .await;
        world.run_to(100).await;
        assert_eq!(log.take(), [(0, 10), (1, 11), (0, 20), (1, 21), (0, 30), (1, 31)]);
        assert_eq!(world.pending(), 0);
    });
}

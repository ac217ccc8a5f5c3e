//! Never early, in order, and exactly cancelled: the guarantees for each single message, on random schedules and in
//! every state of a timer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, Reschedule, RescheduleOutcome, TimerActor, TimerActorBuilder, TimerContext, TimerId, TimerState,
    Timers,
};
use support::{
    Census, Log, Note, OnDrop, Probe, Random, Run, Way, World, block, in_virtual_time, ms, paused, run, with_probe,
};

/// Returns settings with frequent cascades and short turns, and the defaults.
fn awkward_settings() -> [fn() -> TimerActorBuilder; 4] {
    [
        TimerActor::builder,
        || TimerActor::builder().wheel_size(2).expiry_budget(1),
        || TimerActor::builder().wheel_size(4).expiry_budget(3).tick(ms(7)),
        || TimerActor::builder().wheel_size(8).expiry_budget(10).tick(ms(10)),
    ]
}

const HOUR: u64 = 3_600_000;

/// Returns the first tick boundary not before `deadline`.
fn round_up(deadline: u64, tick: u64) -> u64 {
    deadline.div_ceil(tick) * tick
}

/// Random delays and random steps of time: each message comes at its own tick, in the order of ticks and within a tick
/// in the order of scheduling, whatever levels and cascades it passed.
/// Scenario O-06.
#[test]
fn messages_come_at_their_tick_and_in_the_order_of_scheduling() {
    for (seed, builder) in awkward_settings().into_iter().enumerate() {
        for way in [Way::Direct, Way::Context] {
            in_virtual_time(builder, |world| async move {
                let tick = u64::try_from(world.timers.snapshot().tick.as_millis()).unwrap();
                let mut random = Random::new(seed as u64);
                let (addr, log) = world.probe();
                let mut expected = Vec::new();
                for name in 0..600 {
                    let delay = random.spread(12);
                    world.schedule(way, &addr, ms(delay), name).await.unwrap();
                    // A message that is already due does not wait for a tick.
                    let now = world.now();
                    expected.push((if delay == 0 { now } else { round_up(now + delay, tick) }, name));
                    if random.below(4) == 0 {
                        let step = random.below(30);
                        world.run_to(now + step).await;
                    }
                }
                world.run_to(world.now() + 5000).await;
                expected.sort_unstable();
                let arrived: Vec<(u64, u64)> = log.take().into_iter().map(|(name, at)| (at, name)).collect();
                assert_eq!(arrived, expected, "{way:?}");
                assert_eq!(world.pending(), 0);
            });
        }
    }
}

/// After a jump many messages are overdue: they come late but in order, and none comes early.
#[test]
fn after_a_jump_messages_come_in_the_order_of_their_deadlines() {
    for (seed, builder) in awkward_settings().into_iter().enumerate() {
        for way in [Way::Direct, Way::Context] {
            in_virtual_time(builder, |world| async move {
                let tick = u64::try_from(world.timers.snapshot().tick.as_millis()).unwrap();
                let mut random = Random::new(100 + seed as u64);
                let (addr, log) = world.probe();
                let mut waiting: Vec<(u64, u64)> = Vec::new();
                let mut name = 0;
                for _ in 0..20 {
                    let now = world.now();
                    for _ in 0..random.below(60) {
                        let delay = 1 + random.spread(12);
                        world.schedule(way, &addr, ms(delay), name).await.unwrap();
                        waiting.push((round_up(now + delay, tick), name));
                        name += 1;
                    }
                    let to = now + random.below(1500);
                    world.jump_to(to).await;
                    waiting.sort_unstable();
                    let later = waiting.split_off(waiting.partition_point(|(due, _)| *due <= to));
                    let due: Vec<(u64, u64)> = waiting.iter().map(|(_, name)| (*name, to)).collect();
                    assert_eq!(log.take(), due, "{way:?}");
                    waiting = later;
                }
                assert_eq!(world.pending(), waiting.len() as u64);
            });
        }
    }
}

/// Never early to the nanosecond: deadlines between ticks, with ticks that are not whole milliseconds.
#[test]
fn no_message_is_early_by_a_nanosecond() {
    for tick in [1_000, 33_333, 1_000_000, 7_777_777] {
        paused(async {
            let timers = {
                let world = World::manual(TimerActor::builder().tick(Duration::from_nanos(tick)));
                let log: Log<u64> = Log::default();
                let clock = world.clock().clone();
                let addr = NanoProbe { log: log.clone(), clock: clock.clone() }.start();
                let mut random = Random::new(tick);
                let mut deadlines = HashMap::new();
                for name in 0..500 {
                    let delay = Duration::from_nanos(random.below(20 * tick));
                    world.timers.schedule_after(&addr, delay, Note(name));
                    let deadline = clock.hands.now() + delay;
                    deadlines.insert(name, u64::try_from(deadline.as_nanos()).unwrap());
                    clock.hands.jump(Duration::from_nanos(random.below(tick)));
                    if random.below(3) == 0 {
                        world.settle().await;
                    }
                }
                for _ in 0..200 {
                    clock.hands.jump(Duration::from_nanos(tick / 3));
                    world.settle().await;
                }
                let arrived = log.take();
                assert_eq!(arrived.len(), 500);
                for (name, at) in arrived {
                    assert!(at >= deadlines[&name], "{name} came {} ns early", deadlines[&name] - at);
                }
                world.timers.clone()
            };
            assert_eq!(timers.snapshot().pending(), 0);
        });
    }
}

/// Records the time in nanoseconds.
struct NanoProbe {
    log: Log<u64>,
    clock: support::WatchedClock,
}

impl Actor for NanoProbe {
    type Context = Context<Self>;
}

impl Handler<Note<u64>> for NanoProbe {
    type Result = ();

    fn handle(&mut self, Note(name): Note<u64>, _: &mut Self::Context) {
        self.log.push(name, u64::try_from(self.clock.hands.now().as_nanos()).unwrap());
    }
}

/// Messages of several types for one recipient keep their order.
#[test]
fn messages_of_different_types_keep_their_order() {
    struct Mixed(Log<u32>);
    impl Actor for Mixed {
        type Context = Context<Self>;
    }
    macro_rules! messages {
        ($($name:ident)+) => {
            $(
                struct $name(u32);
                impl Message for $name {
                    type Result = ();
                }
                impl Handler<$name> for Mixed {
                    type Result = ();

                    fn handle(&mut self, message: $name, _: &mut Self::Context) {
                        self.0.push(message.0, 0);
                    }
                }
            )+
        };
    }
    messages!(Red Green Blue);
    struct Begin(Way, actix_timers::Timers);
    impl Message for Begin {
        type Result = ();
    }
    impl Handler<Begin> for Mixed {
        type Result = ();

        fn handle(&mut self, Begin(way, timers): Begin, ctx: &mut Self::Context) {
            let addr = ctx.address();
            for round in 0..50 {
                let delay = ms(10 + u64::from(round % 5));
                let number = round % 5 * 1000 + round;
                match way {
                    Way::Context => {
                        ctx.schedule_after(delay, Red(number));
                        ctx.schedule_after(delay, Green(number));
                        ctx.schedule_after(delay, Blue(number));
                    }
                    _ => {
                        timers.schedule_after(&addr, delay, Red(number));
                        timers.schedule_after(&addr, delay, Green(number));
                        timers.schedule_after(&addr, delay, Blue(number));
                    }
                }
            }
        }
    }
    for way in [Way::Direct, Way::Context] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let log = Log::default();
            let addr = Mixed(log.clone()).start();
            addr.send(Begin(way, world.timers.clone())).await.unwrap();
            world.run_to(100).await;
            let names = log.names();
            assert_eq!(names.len(), 150);
            assert!(names.is_sorted(), "{names:?}");
            assert!(names.chunks(3).all(|three| three.iter().all(|name| *name == three[0])));
        });
    }
}

/// A moved timer counts as scheduled at the time of the move: it goes behind the timers already in its new tick.
#[test]
fn a_moved_timer_goes_behind_the_others_of_its_new_tick() {
    for way in Way::ALL {
        with_probe(async |world, addr, log| {
            let mut ids = Vec::new();
            for name in ["A", "B", "C"] {
                ids.push(world.schedule(way, &addr, ms(100), name).await.unwrap());
            }
            for id in [ids[0], ids[1]] {
                assert!(world.timers.reschedule_after(id, ms(100)).is_rescheduled());
            }
            assert!(world.timers.reschedule_after(ids[0], ms(50)).is_rescheduled());
            assert!(world.timers.reschedule_after(ids[0], ms(100)).is_rescheduled());
            world.run_to(100).await;
            assert_eq!(log.take(), [("C", 100), ("B", 100), ("A", 100)]);
            assert_eq!(world.timers.snapshot().counters.rescheduled, 4);
        });
    }
}

/// Starts an actor that waits, with due messages that it cannot handle yet; the result lets it continue.
async fn blocked(world: &World, names: &'static [&'static str]) -> Blocked {
    let (addr, log) = world.probe();
    let ids = run(&addr, move |_, ctx| {
        names.iter().map(|name| ctx.schedule_after(ms(10), Note(*name))).collect::<Vec<TimerId>>()
    })
    .await;
    let go = block(&addr).await;
    world.run_to(20).await;
    assert_eq!(log.len(), 0);
    Blocked { addr, log, ids, go }
}

struct Blocked {
    addr: Addr<Probe<&'static str>>,
    log: Log<&'static str>,
    ids: Vec<TimerId>,
    go: tokio::sync::oneshot::Sender<()>,
}

/// A due timer of the actor's own whose handler has not run can be cancelled exactly by any caller; the others come in
/// order.
/// Scenario O-42.
#[test]
fn an_actors_own_due_message_is_cancelled_exactly() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let it = blocked(&world, &["A", "thread", "B", "arbiter", "message", "other handler", "C"]).await;
        for id in &it.ids {
            let info = world.timers.get(*id).unwrap();
            assert_eq!((info.state, info.overdue, info.level), (TimerState::Due, ms(10), None));
        }
        let id = it.ids[1];
        let from_a_thread = std::thread::spawn(move || actix_timers::cancel(id)).join().unwrap();

        let (id, arbiter) = (it.ids[3], Arbiter::new());
        let (answer, question) = std::sync::mpsc::channel();
        arbiter.spawn_fn(move || answer.send(actix_timers::cancel(id)).unwrap());
        let from_an_arbiter = question.recv().unwrap();
        arbiter.stop();
        arbiter.join().unwrap();

        let by_message = world.cancel(Way::Message, &it.addr, it.ids[4]).await;
        let (other, _log) = world.probe::<u8>();
        let by_another_handler = world.cancel(Way::Context, &other, it.ids[5]).await;
        assert_eq!([from_a_thread, from_an_arbiter, by_message, by_another_handler], [CancelOutcome::Cancelled; 4]);
        for id in [1, 3, 4, 5] {
            assert_eq!(world.timers.cancel(it.ids[id]), CancelOutcome::NotFound);
            assert_eq!(world.timers.get(it.ids[id]), None);
        }
        it.go.send(()).unwrap();
        world.run_to(1000).await;
        assert_eq!(it.log.take(), [("A", 20), ("B", 20), ("C", 20)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled), (3, 4));
    });
}

/// A message is freed at the cancel, also when it was due.
#[test]
fn the_memory_of_a_due_message_is_freed_at_the_cancel() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let counted = census.clone();
        let (addr, _log) = world.probe::<u8>();
        let ids = run(&addr, move |_, ctx| {
            ctx.wait(actix::fut::wrap_future(std::future::pending()));
            [10, 3_600_000].map(|delay| ctx.schedule_after(ms(delay), counted.payload()))
        })
        .await;
        world.run_to(20).await;
        for (id, live) in ids.into_iter().zip([1, 0]) {
            assert!(world.timers.cancel(id).is_cancelled());
            assert_eq!(census.live(), live);
        }
    });
}

/// A due timer of the actor's own is moved: it waits again, and comes once, at its new deadline.
#[test]
fn an_actors_own_due_message_can_be_moved() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let it = blocked(&world, &["A", "B", "C", "D"]).await;
        assert_eq!(world.timers.reschedule_after(it.ids[1], ms(30)), RescheduleOutcome::Rescheduled);
        let by_message = world.timers.addr().send(Reschedule::after(it.ids[2], Duration::ZERO)).await;
        assert_eq!(by_message, Ok(RescheduleOutcome::Rescheduled));
        world.settle().await;
        let info = world.timers.get(it.ids[1]).unwrap();
        assert_eq!((info.state, info.remaining), (TimerState::Waiting, ms(30)));
        it.go.send(()).unwrap();
        world.run_to(49).await;
        assert_eq!(it.log.take(), [("A", 20), ("D", 20), ("C", 20)]);
        world.run_to(1000).await;
        assert_eq!(it.log.take(), [("B", 50)]);
        assert_eq!(world.timers.cancel(it.ids[1]), CancelOutcome::AlreadyDelivered);
        assert_eq!(world.timers.snapshot().counters.delivered, 4);
    });
}

/// A message in a recipient's mailbox counts as delivered and reports so; it arrives.
#[test]
fn a_message_in_a_recipients_mailbox_is_delivered() {
    for way in [Way::Direct, Way::Message] {
        with_probe(async |world, addr, log| {
            let id = world.schedule(way, &addr, ms(10), "A").await.unwrap();
            let go = block(&addr).await;
            world.run_to(20).await;
            assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
            assert_eq!(world.timers.reschedule_after(id, ms(10)), RescheduleOutcome::AlreadyDelivered);
            assert_eq!((log.len(), world.pending()), (0, 0));
            go.send(()).unwrap();
            world.run_to(30).await;
            assert_eq!(log.take(), [("A", 20)]);
        });
    }
}

/// A dead letter is counted before it is dropped: a cancel from its own `Drop` finds nothing.
#[test]
fn a_dead_letter_that_cancels_itself_is_not_found() {
    with_probe::<u8>(async |world, addr, _log| {
        let seen = Arc::new(Mutex::new(None));
        let own_id = Arc::new(Mutex::new(None));
        let (outcomes, own) = (Arc::clone(&seen), Arc::clone(&own_id));
        let message = OnDrop::new(move || {
            let id = own.lock().unwrap().unwrap();
            let state = actix_timers::get(id).map(|info| info.state);
            *outcomes.lock().unwrap() = Some((actix_timers::cancel(id), state));
        });
        let id = world.timers.schedule_after(&addr, ms(10), message);
        *own_id.lock().unwrap() = Some(id);
        drop(addr);
        world.run_to(10).await;
        assert_eq!(*seen.lock().unwrap(), Some((CancelOutcome::NotFound, None)));
        assert_eq!(world.timers.snapshot().counters.recipient_stopped, 1);
        assert_eq!(world.timers.cancel(id), CancelOutcome::NotFound);
        assert_eq!(world.pending(), 0);
    });
}

/// Two handlers due in the same turn cancel each other's message: the first runs, the other never does.
#[test]
fn a_handler_cancels_the_due_message_of_another_actor() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ids: Arc<Mutex<Vec<TimerId>>> = Arc::default();
        let outcomes: Arc<Mutex<Vec<CancelOutcome>>> = Arc::default();
        let mut probes = Vec::new();
        for number in 0..2 {
            let (all, answers) = (Arc::clone(&ids), Arc::clone(&outcomes));
            let (addr, log) = world.probe_with(|probe: &mut Probe<u8>| {
                probe.hook = Box::new(move |_, ctx| {
                    let rival = all.lock().unwrap()[1 - number];
                    answers.lock().unwrap().push(ctx.cancel_timer(rival));
                });
            });
            let id = world.schedule(Way::Context, &addr, ms(10), 0).await.unwrap();
            ids.lock().unwrap().push(id);
            probes.push((addr, log));
        }
        world.run_to(100).await;
        assert_eq!(probes.iter().map(|(_, log)| log.len()).sum::<usize>(), 1);
        assert_eq!(*outcomes.lock().unwrap(), [CancelOutcome::Cancelled]);
        assert_eq!(world.pending(), 0);
    });
}

/// During and after its handler a message counts as delivered; its id is remembered for a while.
#[test]
fn a_message_whose_handler_runs_is_delivered() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, |world| async move {
            let id = Arc::new(Mutex::new(None));
            let outcomes: Arc<Mutex<Vec<CancelOutcome>>> = Arc::default();
            let (own, answers) = (Arc::clone(&id), Arc::clone(&outcomes));
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(move |_, ctx: &mut Context<Probe<&str>>| {
                    answers.lock().unwrap().push(ctx.cancel_timer(own.lock().unwrap().unwrap()));
                });
            });
            *id.lock().unwrap() = Some(world.schedule(way, &addr, ms(10), "A").await.unwrap());
            world.run_to(20).await;
            let id = id.lock().unwrap().unwrap();
            outcomes.lock().unwrap().push(world.timers.cancel(id));
            assert_eq!(*outcomes.lock().unwrap(), [CancelOutcome::AlreadyDelivered; 2]);
            assert_eq!(log.take(), [("A", 10)]);
        });
    }
}

/// Each of several timer actors forwards a query to the owner of the id, whatever kind of id it is.
#[test]
fn a_cancel_finds_the_owner_among_several_timer_actors() {
    with_probe(async |world, addr, log| {
        let services: Vec<_> = (0..5).map(|_| TimerActor::builder().start().unwrap()).collect();
        let mut ids = Vec::new();
        for service in &services {
            for direct in [true, false] {
                ids.push(match direct {
                    true => service.schedule_after(&addr, ms(HOUR), Note("N")),
                    false => {
                        let request = actix_timers::ScheduleAfter::new(&addr, ms(HOUR), Note("N"));
                        service.addr().send(request).await.unwrap().unwrap()
                    }
                });
            }
        }
        ids.push(world.schedule(Way::Context, &addr, ms(HOUR), "N").await.unwrap());
        // Only the timer that is found matters here. Virtual time may pass meanwhile, and deadlines round up to a tick.
        let remaining = |service: &Timers, id: TimerId| service.get(id).expect("any service finds it").remaining;
        let nearly = |hours: u64| ms(hours * HOUR) - ms(10_000)..=ms(hours * HOUR + 1);
        for (number, id) in ids.iter().enumerate() {
            let found = remaining(&services[number % 5], *id);
            assert!(nearly(1).contains(&found), "{number}: {found:?}");
            assert!(services[(number + 1) % 5].reschedule_after(*id, ms(2 * HOUR)).is_rescheduled());
            let found = remaining(&services[(number + 3) % 5], *id);
            assert!(nearly(2).contains(&found), "{number}: {found:?}");
            let foreign = &services[(number + 2) % 5];
            let outcome = match number % 3 {
                0 => foreign.cancel(*id),
                1 => foreign.addr().send(actix_timers::Cancel(*id)).await.unwrap(),
                _ => {
                    let id = *id;
                    std::thread::spawn(move || actix_timers::cancel(id)).join().unwrap()
                }
            };
            assert_eq!(outcome, CancelOutcome::Cancelled, "{number}");
        }
        assert_eq!(log.take(), []);
        assert!(services.iter().all(|service| service.snapshot().pending() == 0));
    });
}

/// Random schedules, cancels and moves by any way at any time, compared with a list: each timer is either cancelled or
/// delivered once, at the tick of its last deadline.
#[test]
fn random_cancels_and_moves_leave_exactly_the_others() {
    for seed in 0..6 {
        for way in [Way::Direct, Way::Context] {
            let builder = || TimerActor::builder().wheel_size(4).expiry_budget(2);
            in_virtual_time(builder, |world| async move {
                let mut random = Random::new(seed);
                let (addr, log) = world.probe();
                let mut timers: Vec<(TimerId, Option<u64>)> = Vec::new();
                for _ in 0..400 {
                    let now = world.now();
                    match random.below(5) {
                        0 | 1 => {
                            let (name, delay) = (timers.len(), random.below(200));
                            let id = world.schedule(way, &addr, ms(delay), name).await.unwrap();
                            timers.push((id, Some(now + delay)));
                        }
                        2 if !timers.is_empty() => {
                            let chosen = random.index_of(&timers);
                            let (id, due) = &mut timers[chosen];
                            let outcome = world.timers.cancel(*id);
                            match outcome {
                                CancelOutcome::Cancelled => assert!(due.take().is_some_and(|due| due >= now)),
                                CancelOutcome::AlreadyDelivered => assert!(due.is_some_and(|due| due <= now)),
                                CancelOutcome::NotFound => assert!(due.is_none_or(|due| due <= now)),
                                CancelOutcome::InProgress => unreachable!("nothing is being sent"),
                            }
                        }
                        3 if !timers.is_empty() => {
                            let chosen = random.index_of(&timers);
                            let (id, due) = &mut timers[chosen];
                            let delay = random.below(200);
                            if world.timers.reschedule_after(*id, ms(delay)).is_rescheduled() {
                                assert!(due.is_some_and(|due| due >= now));
                                *due = Some(now + delay);
                            } else {
                                assert!(due.is_none_or(|due| due <= now));
                            }
                        }
                        _ => world.run_to(now + random.below(20)).await,
                    }
                }
                world.run_to(world.now() + 300).await;
                let mut arrived = log.take();
                arrived.sort_unstable();
                let expected: Vec<(usize, u64)> =
                    timers.iter().enumerate().filter_map(|(name, (_, due))| due.map(|due| (name, due))).collect();
                assert_eq!(arrived, expected);
                assert_eq!(world.pending(), 0);
            });
        }
    }
}

/// Two threads that take turns share one order. (On a manual clock: tokio's is paused for one thread only.)
#[test]
fn two_schedulers_of_one_recipient_share_one_order() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, log) = world.probe();
        for name in 0..100 {
            if name % 2 == 0 {
                world.after(&addr, 64, name);
            } else {
                let timers = world.timers.clone();
                let target = addr.clone();
                std::thread::spawn(move || timers.schedule_after(&target, ms(64), Note(name))).join().unwrap();
            }
        }
        world.run_to(64).await;
        assert_eq!(log.names(), (0..100).collect::<Vec<_>>());
        addr.do_send(Run(Box::new(|_, ctx| ctx.stop())));
    });
}

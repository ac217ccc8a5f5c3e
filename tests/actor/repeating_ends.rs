//! The end of repeating timers, and events between two repetitions: cancels and moves from everywhere, targets and
//! actors that stop (O-39, O-40, O-56), message sources that fail, and drains.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, MessageSource, Repeat, RescheduleOutcome, Target, TimerActor, TimerContext,
    TimerId, TimerState,
};
use support::repeat::{Kind, times};
use support::{
    Census, Counted, Note, Probe, Recluse, Way, block_then, count_panics, in_virtual_time, listen, ms,
    panic_on_purpose, run, with_probe,
};

/// An id that is set after the message source that needs it was made.
type Later = Arc<OnceLock<TimerId>>;

/// Returns a source of notes with numbers from one.
fn numbered() -> MessageSource<Note<u64>> {
    let mut number = 0;
    MessageSource::from_fn(move || {
        number += 1;
        Note(number)
    })
}

/// The ways to schedule; an actor without addresses is reached by its mailbox.
fn ways_and_addresses() -> impl Iterator<Item = (Way, bool)> {
    Way::ALL.into_iter().map(|way| (way, true)).chain([(Way::Context, false)])
}

/// Keeps a probe alive until the result is dropped.
async fn alive(addr: Addr<Probe<u64>>, has_address: bool) -> (Option<Addr<Probe<u64>>>, Option<Recluse<u64>>) {
    if has_address { (Some(addr), None) } else { (None, Some(Recluse::make(addr).await)) }
}

#[test]
fn a_handler_can_cancel_its_own_timer_or_move_it_and_it_goes_on_from_there() {
    in_virtual_time(TimerActor::builder, async |world| {
        for (way, has_address) in ways_and_addresses() {
            for (kind, cancel) in Kind::ALL.into_iter().flat_map(|kind| [true, false].map(|cancel| (kind, cancel))) {
                let start = world.now();
                let (addr, log) = world.probe();
                let id = Later::default();
                let own = Arc::clone(&id);
                run(&addr, move |probe, _| {
                    probe.hook = Box::new(move |number, ctx| match (number, cancel) {
                        (2, true) => assert_eq!(ctx.cancel_timer(*own.get().unwrap()), CancelOutcome::Cancelled),
                        (2, false) => {
                            let moved = ctx.reschedule_timer(*own.get().unwrap(), ms(33));
                            assert_eq!(moved, RescheduleOutcome::Rescheduled);
                        }
                        _ => {}
                    });
                })
                .await;
                id.set(world.repeat(way, kind, &addr, ms(10), numbered()).await.unwrap()).unwrap();
                let alive = alive(addr, has_address).await;
                world.run_to(start + 70).await;
                let expected: &[u64] = if cancel { &[10, 20] } else { &[10, 20, 53, 63] };
                let expected: Vec<u64> = expected.iter().map(|at| start + at).collect();
                assert_eq!(times(&log), expected, "{way:?} {kind:?}");
                drop(alive);
                // An actor without addresses is checked every five seconds.
                world.run_to(start + 12_000).await;
                assert_eq!(world.pending(), 0);
            }
        }
    });
}

#[test]
fn a_timer_moved_to_a_time_of_day_goes_on_with_its_period() {
    with_probe(async |world, addr, log| {
        let id = world.repeat(Way::Direct, Kind::Rate, &addr, ms(100), Note(())).await.unwrap();
        world.run_to(150).await;
        let to = world.wall(170);
        assert_eq!(world.timers.reschedule_at(id, to), RescheduleOutcome::Rescheduled);
        world.run_to(400).await;
        assert_eq!(times(&log), [100, 170, 270, 370]);
        if world.is_manual() {
            // The wall-clock time comes early, since the wall clock is stepped. The period counts from it.
            world.timers.reschedule_at(id, world.wall(10_000)).is_rescheduled();
            world.run_to(450).await;
            world.clock().hands.set_wall(world.wall(10_000));
            // The wall clock is read every ten seconds, and at other events.
            world.timers.schedule_after(&addr, ms(0), Note(()));
            world.run_to(600).await;
            assert_eq!(times(&log), [450, 450, 550]);
        }
    });
}

#[test]
fn a_repetition_at_a_time_of_day_is_neither_lost_nor_late_by_a_step_of_the_wall_clock() {
    with_probe(async |world, addr, log| {
        if !world.is_manual() {
            return;
        }
        let read_wall_clock = |millis| {
            world.clock().hands.set_wall(world.wall(millis));
            world.timers.schedule_after(&addr, ms(0), Note(()));
        };
        // Forward, to before the end.
        let repeat = Repeat::every(ms(100)).until(world.wall(10_000));
        let forward = world.timers.schedule_at_fixed_rate(&addr, repeat, Note(()));
        assert_eq!(world.timers.reschedule_at(forward, world.wall(9000)), RescheduleOutcome::Rescheduled);
        world.run_to(50).await;
        read_wall_clock(9500);
        world.run_to(160).await;
        assert_eq!(times(&log), [50, 50, 150]);
        world.timers.cancel(forward);
        // Back, by half a period and more.
        let repeat = Repeat::every(ms(100)).missed_ticks(actix_timers::MissedTickBehavior::Burst);
        let back = world.timers.schedule_at_fixed_rate(&addr, repeat, Note(()));
        assert_eq!(world.timers.reschedule_at(back, world.wall(9700)), RescheduleOutcome::Rescheduled);
        world.run_to(200).await;
        read_wall_clock(9290);
        world.run_to(720).await;
        assert_eq!(times(&log), [200, 610, 710]);
    });
}

/// Also in the queue of a recipient, where its place is free afterwards.
#[test]
fn a_timer_is_pending_while_its_message_is_made() {
    type Queue = fn(&Addr<Probe<u64>>) -> Target<Note<u64>>;
    let queues: [Queue; 2] = [|addr| Target::from(addr).window(1), |addr| Target::tracked(addr).window(1)];
    let ways = Way::ALL.into_iter().flat_map(|way| Kind::ALL.map(|kind| Ok((way, kind))));
    for way in ways.chain(queues.map(Err)) {
        in_virtual_time(TimerActor::builder, async |world| {
            let (addr, log) = world.probe();
            let (id, seen) = (Later::default(), Arc::new(Mutex::new(Vec::new())));
            let (own, noted, timers) = (Arc::clone(&id), Arc::clone(&seen), world.timers.clone());
            let census = Census::default();
            let payload = census.payload();
            let mut number = 0;
            let source = MessageSource::from_fn(move || {
                let _lives_as_long_as_the_source = &payload;
                number += 1;
                if number == 2 {
                    let id = *own.get().unwrap();
                    let state = timers.get(id).map(|info| info.state);
                    let moved = timers.reschedule_after(id, ms(500));
                    noted.lock().unwrap().push((state, moved, timers.cancel(id), timers.cancel(id)));
                    assert!(timers.snapshot().counters.balance());
                }
                Note(number)
            });
            let timer = match way {
                Ok((way, kind)) => world.repeat(way, kind, &addr, ms(10), source).await.unwrap(),
                Err(queue) => world.timers.schedule_at_fixed_rate(queue(&addr), ms(10), source),
            };
            id.set(timer).unwrap();
            if let Err(queue) = way {
                world.after(queue(&addr), 20, 7);
            }
            world.run_to(1000).await;
            let names = if way.is_ok() { vec![1] } else { vec![1, 7] };
            assert_eq!(log.names(), names, "cancelled while it was made, it is not delivered");
            let expected = (
                Some(TimerState::Due),
                RescheduleOutcome::InProgress,
                CancelOutcome::Cancelled,
                CancelOutcome::NotFound,
            );
            assert_eq!(*seen.lock().unwrap(), [expected]);
            assert_eq!((world.pending(), census.live()), (0, 0));
        });
    }
}

#[test]
fn a_source_that_panics_ends_its_own_timer_and_nothing_else() {
    in_virtual_time(TimerActor::builder, async |world| {
        count_panics();
        let (_listener, letters) = listen(&world.timers);
        for ((way, has_address), kind) in ways_and_addresses().flat_map(|way| Kind::ALL.map(|kind| (way, kind))) {
            let before = (world.timers.snapshot().counters, count_panics());
            let (addr, log) = world.probe();
            let mut number = 0;
            let source = MessageSource::from_fn(move || {
                number += 1;
                if number == 3 {
                    panic_on_purpose();
                }
                Note(number)
            });
            let start = world.now();
            let bad = world.repeat(way, kind, &addr, ms(10), source).await.unwrap();
            let good = world.repeat(way, kind, &addr, ms(10), Note(100)).await.unwrap();
            let _alive = alive(addr, has_address).await;
            world.run_to(start + 55).await;
            assert_eq!(log.names(), [1, 100, 2, 100, 100, 100, 100], "{way:?} {kind:?}");
            assert_eq!(world.timers.cancel(bad), CancelOutcome::NotFound);
            assert!(world.timers.cancel(good).is_cancelled());
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.source_panicked, counters.pending), (before.0.source_panicked + 1, 0));
            assert_eq!(count_panics(), before.1 + 1);
            let letters: Vec<_> = letters.try_iter().map(|letter| (letter.id, letter.reason)).collect();
            assert_eq!(letters, [(bad, DeadLetterReason::SourcePanicked)]);
        }
    });
}

/// A message whose clone or destructor panics has the same effect.
#[derive(Message)]
#[rtype(result = "()")]
struct Brittle(u32);

impl Clone for Brittle {
    fn clone(&self) -> Self {
        if self.0 == 0 {
            panic_on_purpose();
        }
        Self(self.0)
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        if self.0 == 0 {
            panic_on_purpose();
        }
    }
}

impl Handler<Brittle> for Probe<u64> {
    type Result = ();

    fn handle(&mut self, _: Brittle, _: &mut Self::Context) {
        self.log.push(0, self.watch.now());
    }
}

#[test]
fn a_clone_and_destructor_that_panic_end_only_their_own_timer() {
    in_virtual_time(TimerActor::builder, async |world| {
        count_panics();
        let (addr, log) = world.probe();
        world.timers.schedule_at_fixed_rate(&addr, ms(10), Brittle(0));
        run(&addr, |_, ctx| ctx.schedule_at_fixed_rate(ms(10), Brittle(0))).await;
        world.timers.schedule_at_fixed_rate(&addr, Repeat::every(ms(10)).times(2), Brittle(1));
        world.run_to(100).await;
        assert_eq!(times(&log), [10, 20]);
        assert_eq!((world.timers.snapshot().counters.source_panicked, world.pending()), (2, 0));
    });
}

/// Scenario O-39.
#[test]
fn the_target_of_a_periodic_timer_dies() {
    for keep_address in [true, false] {
        in_virtual_time(TimerActor::builder, async |world| {
            let (x, log_x) = world.probe::<u64>();
            let (y, log_y) = world.probe::<u64>();
            world.after(&x, 100, 1);
            world.after(&x, 200, 2);
            let periodic = world.repeat(Way::Direct, Kind::Rate, &x, ms(50), Note(3)).await.unwrap();
            world.after(&y, 100, 4);
            world.run_to(60).await;
            run(&x, |_, ctx| ctx.stop()).await;
            let weak = x.downgrade().recipient();
            let x = keep_address.then_some(x);
            world.run_to(1000).await;
            assert_eq!((log_x.take(), log_y.take()), (vec![(3, 50)], vec![(4, 100)]));
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.recipient_stopped, counters.pending), (3, 0), "one of them for the periodic");
            assert_eq!(world.timers.cancel(periodic), CancelOutcome::NotFound);
            let late = world.timers.schedule_at_fixed_rate(weak, ms(10), Note(5));
            world.run_to(1100).await;
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.recipient_stopped, counters.delivered, counters.pending), (4, 2, 0));
            assert_eq!(world.timers.cancel(late), CancelOutcome::NotFound);
            assert_eq!(log_x.len(), 0);
            drop(x);
        });
    }
}

/// Scenario O-40.
#[test]
fn a_periodic_timer_does_not_keep_its_target_alive() {
    for way in Way::ALL {
        in_virtual_time(TimerActor::builder, async |world| {
            let mut stopped = Arc::default();
            let (addr, log) = world.probe_with(|probe: &mut Probe<u64>| stopped = Arc::clone(&probe.stopped));
            world.schedule(way, &addr, ms(3_600_000), 1).await.unwrap();
            world.repeat(way, Kind::Rate, &addr, ms(3_600_000), Note(2)).await.unwrap();
            drop(addr);
            world.settle().await;
            assert!(stopped.load(Ordering::SeqCst), "{way:?}");
            world.run_to(3_600_000).await;
            assert_eq!((world.pending(), log.len()), (0, 0));
        });
    }
}

/// Scenario O-56.
#[test]
fn repetitions_of_the_previous_incarnation_are_discarded() {
    for kind in Kind::ALL {
        in_virtual_time(TimerActor::builder, async |world| {
            let mut incarnation = 0;
            let mut probe = Probe::new(world.watch.clone());
            probe.on_start = Box::new(move |ctx| {
                incarnation += 1;
                match kind {
                    Kind::Rate => ctx.schedule_at_fixed_rate(ms(1000), Note(incarnation)),
                    Kind::Delay => ctx.schedule_with_fixed_delay(ms(1000), Note(incarnation)),
                };
            });
            let log = probe.log.clone();
            let addr = Supervisor::start(|_| probe);
            world.after(&addr, 4300, 99);
            world.run_to(1000).await;
            assert_eq!(log.take(), [(1, 1000)]);
            let unblock = block_then(&addr, |ctx| ctx.stop()).await;
            world.run_to(2100).await;
            assert_eq!(log.len(), 0, "a second one waits");
            unblock.send(()).unwrap();
            for (to, expected) in [
                (2600, vec![]),
                (3099, vec![]),
                (3100, vec![(2, 3100)]),
                (4200, vec![(2, 4100)]),
                (4300, vec![(99, 4300)]),
            ] {
                world.run_to(to).await;
                assert_eq!(log.take(), expected, "{kind:?}");
            }
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.pending, counters.cancelled), (1, 1));
        });
    }
}

#[test]
fn an_actor_without_addresses_gets_repetitions_by_the_mailbox() {
    in_virtual_time(TimerActor::builder, async |world| {
        for kind in Kind::ALL {
            let start = world.now();
            let (addr, log) = world.probe();
            let id = world.repeat(Way::Context, kind, &addr, ms(10), numbered()).await.unwrap();
            let counted =
                world.repeat(Way::Context, kind, &addr, Repeat::every(ms(10)).times(3), Note(100)).await.unwrap();
            let recluse = Recluse::make(addr).await;
            world.run_to(start + 25).await;
            assert_eq!(log.take(), [(1, 10), (100, 10), (2, 20), (100, 20)].map(|(name, at)| (name, start + at)));
            world.run_to(start + 45).await;
            assert_eq!(log.take(), [(3, 30), (100, 30), (4, 40)].map(|(name, at)| (name, start + at)));
            assert_eq!(world.timers.cancel(counted), CancelOutcome::AlreadyDelivered);
            assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            world.run_to(start + 100).await;
            assert_eq!((log.len(), world.pending()), (0, 0));
            drop(recluse);
        }
    });
}

/// The next repetition is counted from the delivery into the mailbox, as for a target. It waits behind that message, and
/// stands for those missed meanwhile.
#[test]
fn one_repetition_waits_while_a_message_lies_in_a_mailbox() {
    with_probe(async |world, addr, log| {
        world.repeat(Way::Context, Kind::Rate, &addr, ms(10), numbered()).await.unwrap();
        let recluse = Recluse::make(addr).await;
        world.settle().await;
        let unblock = recluse.block_then(|_| ()).await;
        world.run_to(45).await;
        assert_eq!(log.len(), 0);
        unblock.send(()).unwrap();
        world.run_to(65).await;
        assert_eq!(log.take(), [(1, 45), (2, 45), (3, 50), (4, 60)]);
        drop(recluse);
    });
}

#[test]
fn a_drain_gives_the_next_message_of_each_series_back() {
    in_virtual_time(TimerActor::builder, async |world| {
        count_panics();
        let (addr, log) = world.probe();
        for way in Way::ALL {
            world.repeat(way, Kind::Rate, &addr, ms(10), numbered()).await.unwrap();
        }
        let mut made = 0;
        let brittle = MessageSource::from_fn(move || {
            made += 1;
            if made == 2 {
                panic_on_purpose();
            }
            Note(70)
        });
        world.repeat(Way::Direct, Kind::Rate, &addr, ms(20), brittle).await.unwrap();
        world.run_to(25).await;
        log.take();
        let returned = world.timers.drain();
        let next: Vec<u64> = returned.into_iter().map(|one| one.into_message::<Note<u64>>().unwrap().0).collect();
        assert_eq!(next, [3, 3, 3]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.returned, counters.source_panicked, world.pending()), (3, 1, 0));
        world.run_to(100).await;
        assert_eq!(log.len(), 0, "nothing is armed again");
    });
}

/// In its source nothing is pending yet; in its handler the next repetition is returned.
#[test]
fn a_drain_during_a_message_arms_nothing_afterwards() {
    for ((way, kind), in_handler) in [Way::Direct, Way::Context]
        .into_iter()
        .flat_map(|way| Kind::ALL.map(|kind| (way, kind)))
        .flat_map(|case| [(case, false), (case, true)])
    {
        with_probe(async |world, addr, log| {
            let (timers, returned) = (world.timers.clone(), Arc::new(Mutex::new(Vec::new())));
            let noted = Arc::clone(&returned);
            let drain = move || {
                let drained = timers.drain().into_iter();
                noted.lock().unwrap().extend(drained.map(|one| one.into_message::<Note<u64>>().unwrap().0));
            };
            let source = if in_handler {
                run(&addr, move |probe, _| probe.hook = Box::new(move |_, _| drain())).await;
                numbered()
            } else {
                MessageSource::from_fn(move || {
                    drain();
                    Note(1)
                })
            };
            world.repeat(way, kind, &addr, ms(10), source).await.unwrap();
            world.run_to(100).await;
            let next = if in_handler { vec![2] } else { vec![] };
            assert_eq!((log.names(), &*returned.lock().unwrap()), (vec![1], &next), "{way:?} {kind:?}");
            assert_eq!((world.pending(), world.timers.snapshot().counters.delivered), (0, 1));
        });
    }
}

#[test]
fn messages_and_sources_are_freed_with_their_timer() {
    in_virtual_time(TimerActor::builder, async |world| {
        let census = Census::default();
        let (addr, _) = world.probe::<u64>();
        let source = || {
            let census = census.clone();
            let held = census.payload();
            MessageSource::<Counted>::from_fn(move || {
                let _held = &held;
                census.payload()
            })
        };
        let twice = Repeat::every(ms(10)).times(2);
        world.timers.schedule_at_fixed_rate(&addr, twice, source());
        let own = source();
        run(&addr, move |_, ctx| ctx.schedule_with_fixed_delay(twice, own)).await;
        let cancelled = world.timers.schedule_at_fixed_rate(&addr, ms(10), source());
        let own = source();
        run(&addr, move |_, ctx| ctx.schedule_at_fixed_rate(ms(10), own)).await;
        world.run_to(15).await;
        assert_eq!(census.live(), 4, "the sources alone");
        assert!(world.timers.cancel(cancelled).is_cancelled());
        assert_eq!(census.live(), 3);
        world.run_to(25).await;
        assert_eq!(census.live(), 1);
        run(&addr, |_, ctx| ctx.stop()).await;
        world.settle().await;
        assert_eq!((census.live(), world.pending()), (0, 0));
    });
}

#[test]
fn wall_clock_steps_are_followed_by_the_end_of_a_series() {
    in_virtual_time(TimerActor::builder, async |world| {
        if !world.is_manual() {
            // Only a manual clock's wall clock can be stepped.
            return;
        }
        let (addr, log) = world.probe::<u64>();
        let until = world.wall(1000);
        world.timers.schedule_at_fixed_rate(&addr, Repeat::every(ms(100)).until(until), Note(1));
        run(&addr, move |_, ctx| ctx.schedule_at_fixed_rate(Repeat::every(ms(100)).until(until), Note(1))).await;
        world.run_to(250).await;
        world.clock().hands.set_wall(world.wall(5000));
        world.run_to(600).await;
        assert_eq!(times(&log), [100, 100, 200, 200], "the end has passed");
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.pending), (2, 0));
    });
}

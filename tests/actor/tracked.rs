//! Tracked delivery: exact cancel for any recipient, acknowledgement, windows, and the end of either side.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, DueTimers, MailboxPolicy, RescheduleOutcome, Target, TimerActor, TimerId,
    TimerState, impl_due_timers,
};
use support::{
    Census, Log, Note, Probe, Random, World, block, eventually, in_virtual_time, letters, listen, ms, run, with_probe,
};
use tokio::sync::oneshot;

#[test]
fn a_message_behind_its_token_is_cancelled_and_freed_at_once() {
    with_probe::<u32>(async |world, addr, _log| {
        let census = Census::default();
        let target = Target::tracked(&addr);
        let waiting = world.timers.schedule_after(&target, ms(20), census.payload());
        let due = world.timers.schedule_after(&target, ms(10), census.payload());
        let go = block(&addr).await;
        world.run_to(15).await;
        assert_eq!(world.timers.get(due).unwrap().state, TimerState::Due);
        assert_eq!((world.pending(), census.live()), (2, 2));
        assert_eq!(world.timers.cancel(due), CancelOutcome::Cancelled);
        assert_eq!(census.live(), 1);
        assert_eq!(world.timers.cancel(due), CancelOutcome::NotFound);
        assert_eq!(world.timers.cancel(waiting), CancelOutcome::Cancelled);
        assert_eq!((world.pending(), census.live()), (0, 0));
        go.send(()).unwrap();
        world.run_to(30).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.cancelled, counters.delivered), (2, 0));
    });
}

#[test]
fn a_cancel_tells_the_truth_before_in_and_after_the_handler() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let id = Rc::new(RefCell::new(None));
        let (timers, inside, own) = (world.timers.clone(), Rc::clone(&seen), Rc::clone(&id));
        let (addr, log) = world.probe_with(|probe: &mut Probe<u32>| {
            probe.hook = Box::new(move |_, _| {
                let id = own.borrow().unwrap();
                let counters = timers.snapshot().counters;
                inside.borrow_mut().push((timers.cancel(id), counters.pending, counters.balance()));
                assert_eq!(timers.reschedule_after(id, ms(1)), RescheduleOutcome::InProgress);
            });
        });
        let timer = world.after(Target::tracked(&addr), 10, 1);
        *id.borrow_mut() = Some(timer);
        world.run_to(10).await;
        assert_eq!(log.take(), [(1, 10)]);
        assert_eq!(*seen.borrow(), [(CancelOutcome::InProgress, 1, true)]);
        assert_eq!(world.timers.cancel(timer), CancelOutcome::AlreadyDelivered);
        assert_eq!((world.pending(), world.timers.snapshot().counters.delivered), (0, 1));
    });
}

/// Answers with futures that end on demand.
struct Slow {
    log: Log<u32>,
    gates: VecDeque<oneshot::Receiver<()>>,
}

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Note<u32>> for Slow {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Note(n): Note<u32>, _: &mut Self::Context) -> Self::Result {
        self.log.push(n, 0);
        let gate = self.gates.pop_front().unwrap();
        Box::pin(async { drop(gate.await) }.into_actor(self))
    }
}

impl_due_timers!(Slow);

#[test]
fn the_end_of_a_future_acknowledges_and_opens_the_window() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (go, gates): (Vec<_>, VecDeque<_>) = (0..4).map(|_| oneshot::channel()).unzip();
        let log = Log::default();
        let addr = Slow { log: log.clone(), gates }.start();
        let target = Target::tracked(&addr).window(2);
        let ids: Vec<TimerId> = (0..4).map(|n| world.timers.schedule_after(&target, ms(10), Note(n))).collect();
        world.run_to(20).await;
        assert_eq!(log.names(), [0, 1]);
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::InProgress);
        let mut go = go.into_iter();
        let (first, second) = (go.next().unwrap(), go.next().unwrap());
        second.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [2], "the window is open for one more");
        assert_eq!(world.timers.cancel(ids[1]), CancelOutcome::AlreadyDelivered);
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::InProgress);
        assert_eq!(world.timers.cancel(ids[3]), CancelOutcome::Cancelled);
        first.send(()).unwrap();
        world.settle().await;
        assert_eq!(world.pending(), 1);
        // The actor ends, and with it the future of its answer.
        drop(addr);
        drop(go);
        world.settle().await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, world.pending()), (3, 1, 0));
    });
}

#[test]
fn a_place_in_the_window_is_free_at_a_cancel_or_move() {
    with_probe::<u32>(async |world, addr, log| {
        let target = Target::tracked(&addr).window(1);
        let go = block(&addr).await;
        let ids: Vec<TimerId> = (0..4).map(|n| world.after(&target, 10, n)).collect();
        world.run_to(10).await;
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::Cancelled);
        assert!(world.timers.reschedule_after(ids[1], ms(10)).is_rescheduled());
        world.settle().await;
        assert_eq!(world.timers.reschedule_after(ids[2], ms(5)), RescheduleOutcome::Rescheduled);
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [3]);
        world.run_to(30).await;
        assert_eq!(log.take(), [(2, 15), (1, 20)]);
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
    });
}

struct Block(oneshot::Receiver<()>);

impl Message for Block {
    type Result = ();
}

impl Handler<Block> for Slow {
    type Result = ();

    fn handle(&mut self, Block(gate): Block, ctx: &mut Self::Context) {
        ctx.wait(actix::fut::wrap_future(async { drop(gate.await) }));
    }
}

#[test]
fn a_moved_message_gives_its_place_in_the_window_back_once() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (ends, gates): (Vec<_>, VecDeque<_>) = (0..4).map(|_| oneshot::channel()).unzip();
        let log = Log::default();
        let addr = Slow { log: log.clone(), gates }.start();
        let (go, gate) = oneshot::channel();
        addr.send(Block(gate)).await.unwrap();
        let target = Target::tracked(&addr).window(1);
        let ids: Vec<TimerId> = (0..4).map(|n| world.timers.schedule_after(&target, ms(10), Note(n))).collect();
        world.run_to(10).await;
        assert!(world.timers.reschedule_after(ids[0], ms(1000)).is_rescheduled());
        world.settle().await;
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::Cancelled);
        world.settle().await;
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [1], "one handler at a time");
        ends.into_iter().for_each(|end| end.send(()).unwrap());
        world.settle().await;
        assert_eq!(log.names(), [2, 3]);
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn an_old_token_does_not_bring_a_moved_message_forward() {
    with_probe::<u32>(async |world, addr, log| {
        let target = Target::tracked(&addr);
        let go = block(&addr).await;
        let id = world.after(&target, 10, 0);
        world.run_to(10).await;
        assert!(world.timers.reschedule_after(id, ms(10)).is_rescheduled());
        world.after(&target, 5, 1);
        world.run_to(20).await;
        // In the mailbox: a token without a message, the one of 1, and the new one of 0.
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [1, 0]);
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn a_drain_returns_messages_behind_tokens() {
    with_probe::<u32>(async |world, addr, log| {
        let go = block(&addr).await;
        for (n, target) in [Target::tracked(&addr), Target::tracked(&addr).window(1)].iter().cycle().take(6).enumerate()
        {
            world.after(target, 10, n as u32);
        }
        world.after(Target::tracked(&addr), 1000, 6);
        world.run_to(10).await;
        let returned: Vec<(u32, bool)> = world
            .timers
            .drain()
            .into_iter()
            .map(|timer| (timer.overdue, timer.into_message::<Note<u32>>().unwrap().0))
            .map(|(overdue, n)| (n, overdue))
            .collect();
        assert_eq!(returned.len(), 7);
        assert!((0..7).all(|n| returned.contains(&(n, n < 6))));
        go.send(()).unwrap();
        world.run_to(20).await;
        assert_eq!(log.len(), 0);
        assert_eq!((world.pending(), world.timers.snapshot().counters.returned), (0, 7));
    });
}

#[test]
fn a_mailbox_closed_before_its_tokens_makes_dead_letters() {
    for window in [1, 3, 100] {
        in_virtual_time(TimerActor::builder, move |world| async move {
            let (_listener, receiver) = listen(&world.timers);
            let (addr, log) = world.probe::<u32>();
            let go = block(&addr).await;
            let target = Target::tracked(&addr).window(window);
            (0..5).for_each(|n| {
                world.after(&target, 10, n);
            });
            // Sent first, so that it ends the actor before the tokens are handled.
            addr.do_send(support::Run(Box::new(|_, ctx| ctx.stop())));
            world.run_to(10).await;
            go.send(()).unwrap();
            world.settle().await;
            let mut lost = letters(&receiver);
            lost.sort_unstable_by_key(|letter| letter.0);
            assert_eq!(lost, [0, 1, 2, 3, 4].map(|n| (n, DeadLetterReason::RecipientStopped)), "window {window}");
            assert_eq!((log.len(), world.pending()), (0, 0));
            world.after(&target, 10, 7);
            world.run_to(30).await;
            assert_eq!(letters(&receiver), [(7, DeadLetterReason::RecipientStopped)]);
        });
    }
}

#[test]
fn a_handler_that_panics_makes_the_rest_dead_letters() {
    support::count_panics();
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let (addr, log) = world.probe_with(|probe: &mut Probe<u32>| {
            probe.hook = Box::new(|name, _| {
                if *name == 1 {
                    support::panic_on_purpose();
                }
            });
        });
        let ids: Vec<TimerId> = (0..4).map(|n| world.after(Target::tracked(&addr).window(2), 10, n)).collect();
        world.run_to(11).await;
        assert_eq!(log.names(), [0, 1]);
        assert_eq!(world.timers.cancel(ids[1]), CancelOutcome::AlreadyDelivered);
        let mut lost = letters(&receiver);
        lost.sort_unstable_by_key(|letter| letter.0);
        assert_eq!(lost, [2, 3].map(|n| (n, DeadLetterReason::RecipientStopped)));
        assert_eq!(world.pending(), 0);
    });
}

/// Without its periodic timer.
/// Scenario O-39.
#[test]
fn the_target_dies_before_its_timers_are_due() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let ((x, x_log), (y, y_log)) = (world.probe::<u32>(), world.probe::<u32>());
        for target in [Target::from(&x), Target::tracked(&x)] {
            world.after(&target, 100, 1);
            world.after(&target, 200, 2);
        }
        world.after(Target::tracked(&y), 100, 3);
        world.run_to(60).await;
        run(&x, |_, ctx| ctx.stop()).await;
        world.run_to(1000).await;
        assert_eq!((x_log.len(), y_log.take()), (0, vec![(3, 100)]));
        assert_eq!(letters(&receiver), [1, 1, 2, 2].map(|n| (n, DeadLetterReason::RecipientStopped)));
        world.after(Target::tracked(&x), 10, 4);
        world.run_to(1100).await;
        assert_eq!(letters(&receiver), [(4, DeadLetterReason::RecipientStopped)]);
        assert_eq!(world.pending(), 0);
    });
}

/// The service outlives its addresses as long as a message is in progress.
/// Scenario O-41.
#[test]
fn the_client_lets_go_of_the_service() {
    for kind in 0..3 {
        in_virtual_time(TimerActor::builder, move |world| async move {
            let (addr, log) = world.probe::<u32>();
            let timers = match &world.watch {
                support::StopWatch::Manual(clock) => TimerActor::builder().clock(clock.clone()),
                _ => TimerActor::builder(),
            };
            let timers = timers.start().unwrap();
            let target = match kind {
                0 => Target::from(&addr),
                1 => Target::from(&addr).window(1),
                _ => Target::tracked(&addr).window(1),
            };
            let go = block(&addr).await;
            (0..3).for_each(|n| {
                timers.schedule_after(&target, ms(500), Note(n));
            });
            drop(timers);
            world.run_to(500).await;
            go.send(()).unwrap();
            world.settle().await;
            assert_eq!(log.take(), [0, 1, 2].map(|n| (n, 500)), "target of kind {kind}");
        });
    }
}

#[test]
fn order_is_kept_with_cheap_messages() {
    with_probe::<u32>(async |world, addr, log| {
        let (cheap, tracked) = (Target::from(&addr), Target::tracked(&addr));
        let mut random = Random::new(7);
        let mut expected = Vec::new();
        for n in 0..400 {
            let delay = 10 + random.below(12);
            let target = if random.below(2) == 0 { &cheap } else { &tracked };
            world.after(target, delay, n);
            expected.push((delay, n));
        }
        expected.sort_unstable();
        let expected: Vec<u32> = expected.into_iter().map(|(_, n)| n).collect();
        world.jump_to(30).await;
        assert_eq!(log.names(), expected);
    });
}

#[test]
fn the_policy_discards_or_keeps_messages_beyond_the_window() {
    const DISCARD: MailboxPolicy = MailboxPolicy::Discard { window: 2 };
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        for policy in [DISCARD, MailboxPolicy::Wait { window: 100 }, MailboxPolicy::Unbounded] {
            let (addr, log) =
                world.probe_with(|probe: &mut Probe<u32>| probe.on_start = Box::new(|ctx| ctx.set_mailbox_capacity(2)));
            let go = block(&addr).await;
            let target = Target::tracked(&addr).mailbox_policy(policy);
            let ids: Vec<TimerId> = (0..6).map(|n| world.after(&target, 10, n)).collect();
            world.run_to(world.now() + 20).await;
            let lost: Vec<u32> = letters(&receiver).into_iter().map(|letter| letter.0).collect();
            assert_eq!(lost, if policy == DISCARD { vec![2, 3, 4, 5] } else { vec![] });
            assert_eq!(world.timers.cancel(ids[1]), CancelOutcome::Cancelled);
            let moved = world.timers.reschedule_after(ids[2], ms(30));
            assert_eq!(moved.is_rescheduled(), policy != DISCARD);
            go.send(()).unwrap();
            world.run_to(world.now() + 40).await;
            assert_eq!(log.names(), if policy == DISCARD { vec![0] } else { vec![0, 3, 4, 5, 2] });
            assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
        }
    });
}

#[test]
fn a_request_that_is_not_run_makes_a_dead_letter() {
    struct Deaf;
    impl Actor for Deaf {
        type Context = Context<Self>;
    }
    impl Handler<Note<u32>> for Deaf {
        type Result = ();
        fn handle(&mut self, _: Note<u32>, _: &mut Self::Context) {}
    }
    impl Handler<DueTimers> for Deaf {
        type Result = ();
        fn handle(&mut self, _: DueTimers, _: &mut Self::Context) {}
    }
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let addr = Deaf.start();
        world.timers.schedule_after(Target::tracked(&addr), ms(10), Note(1));
        world.run_to(10).await;
        assert_eq!(letters(&receiver), [(1, DeadLetterReason::RecipientStopped)]);
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn an_ending_timer_actor_takes_back_messages_behind_requests() {
    support::in_real_time(async {
        let arbiter = Arbiter::new();
        let timers = TimerActor::builder().start_on(&arbiter.handle()).unwrap();
        let (_listener, receiver) = listen(&timers);
        let (addr, log) = (Probe::<u32>::new(support::StopWatch::Source(Arc::default())), Log::default());
        let mut addr = addr;
        addr.log = Log::clone(&log);
        let addr = addr.start();
        let go = block(&addr).await;
        (0..3).for_each(|n| {
            timers.schedule_after(Target::tracked(&addr).window(2), ms(0), Note(n));
        });
        eventually(|| timers.snapshot().wheel.levels.iter().all(|level| level.stats.entries == 0)).await;
        arbiter.stop();
        arbiter.join().unwrap();
        go.send(()).unwrap();
        let mut lost = Vec::new();
        eventually(|| {
            lost.extend(letters(&receiver));
            lost.len() == 3
        })
        .await;
        run(&addr, |_, _| ()).await;
        assert_eq!(log.len(), 0);
        assert!(lost.iter().all(|letter| letter.1 == DeadLetterReason::ServiceStopped));
        assert!(timers.snapshot().counters.balance());
    });
}

/// Random operations in random order against a list: every message is either handled once or taken away.
#[test]
fn any_operations_in_any_order_end_each_timer_exactly_once() {
    for seed in 0..12 {
        in_virtual_time(TimerActor::builder, move |world| random_operations(world, seed));
    }
}

async fn random_operations(world: World, seed: u64) {
    let mut random = Random::new(seed);
    let (_listener, receiver) = listen(&world.timers);
    let census = Census::default();
    let mut recipients = Vec::new();
    let mut timers: Vec<(TimerId, u32)> = Vec::new();
    let mut cancelled = Vec::new();
    let mut made = 0;
    let log = Log::<u32>::default();
    for step in 0..300 {
        if recipients.len() < 3 {
            let own = log.clone();
            let capacity = 1 + usize::try_from(random.below(4)).unwrap();
            let (addr, _) = world.probe_with(move |probe: &mut Probe<u32>| {
                probe.log = own;
                probe.on_start = Box::new(move |ctx| ctx.set_mailbox_capacity(capacity));
            });
            recipients.push((addr, None));
        }
        let which = random.index_of(&recipients);
        match random.below(10) {
            0..=3 => {
                let addr = &recipients[which].0;
                let target = Target::tracked(addr);
                let target = match random.below(4) {
                    0 => target,
                    1 => target.mailbox_policy(MailboxPolicy::Discard { window: 2 }),
                    _ => target.window(1 + which),
                };
                timers.push((world.after(target, random.below(12), made), made));
                world.timers.schedule_after(Target::tracked(addr).window(1), ms(3), census.payload());
                made += 1;
            }
            4 | 5 if !timers.is_empty() => {
                let (id, n) = timers[random.index_of(&timers)];
                match world.timers.cancel(id) {
                    CancelOutcome::Cancelled => cancelled.push(n),
                    CancelOutcome::InProgress => panic!("nothing runs while the test does"),
                    CancelOutcome::AlreadyDelivered | CancelOutcome::NotFound => {}
                }
            }
            6 if !timers.is_empty() => {
                let (id, _) = timers[random.index_of(&timers)];
                let _ = world.timers.reschedule_after(id, ms(random.below(12)));
            }
            7 => {
                let (addr, go) = &mut recipients[which];
                if go.take().is_none() {
                    *go = Some(block(addr).await);
                }
            }
            8 if random.below(5) == 0 => {
                let (addr, go) = recipients.swap_remove(which);
                addr.do_send(support::Run(Box::new(|_, ctx| ctx.stop())));
                drop(go);
            }
            _ => world.run_to(world.now() + random.below(4)).await,
        }
        assert!(world.timers.snapshot().counters.balance(), "step {step} of seed {seed}");
    }
    recipients.iter_mut().for_each(|(_, go)| drop(go.take()));
    world.run_to(world.now() + 1000).await;
    assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0), "seed {seed}");
    let mut ends: Vec<u32> = log.names();
    let (delivered, taken) = (ends.len(), cancelled.len());
    ends.extend(cancelled);
    let notes = receiver.try_iter().filter_map(|letter| letter.take::<Note<u32>>()).map(|note| note.0);
    ends.extend(notes);
    ends.sort_unstable();
    assert_eq!(ends, (0..made).collect::<Vec<_>>(), "seed {seed}");
    assert_eq!(census.live(), 0);
    assert!(delivered > 0 && taken > 0);
}

//! Mailbox policies: messages for slow recipients, and scenario O-42.

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, MailboxPolicy, ScheduleBatch, Target, TimerActor, TimerActorBuilder, TimerId,
    TimerState,
};
use support::{Log, Note, Probe, World, block, block_then, in_virtual_time, letters, listen, ms, wait};
use tokio::sync::oneshot;

use crate::slow::{open, slow};

const DISCARD: MailboxPolicy = MailboxPolicy::Discard { window: 2 };

/// Starts a probe with `slots` slots in its mailbox that, after its first note, handles nothing until it is released.
fn blocked(world: &World, slots: usize) -> (Addr<Probe<u32>>, Log<u32>, oneshot::Sender<()>) {
    let (go, gate) = oneshot::channel::<()>();
    let mut gate = Some(gate);
    let (addr, log) = world.probe_with(|probe| {
        probe.on_start = Box::new(move |ctx| ctx.set_mailbox_capacity(slots));
        probe.hook = Box::new(move |_, ctx| {
            if let Some(gate) = gate.take() {
                wait(ctx, gate, |_| ());
            }
        });
    });
    (addr, log, go)
}

fn with(policy: MailboxPolicy) -> impl Fn() -> TimerActorBuilder {
    move || TimerActor::builder().mailbox_policy(policy)
}

/// The rest waits in the timer actor, or by default in the mailbox past its capacity, as with `do_send`; or it is
/// discarded: one message is handled, and two are in the window.
/// Scenario O-42.
#[test]
fn one_target_full_another_free() {
    for (policy, handled) in
        [(MailboxPolicy::Wait { window: 2 }, 10..20), (MailboxPolicy::default(), 10..20), (DISCARD, 10..13)]
    {
        in_virtual_time(with(policy), |world| {
            let handled = handled.clone();
            async move {
                let (_listener, receiver) = listen(&world.timers);
                let (full, full_log, go) = blocked(&world, 2);
                let (free, free_log) = world.probe::<u32>();
                for n in 10..20u32 {
                    world.after(&full, n.into(), n);
                    world.after(&free, n.into(), n);
                }
                world.run_to(19).await;
                assert_eq!(free_log.take(), (10..20).map(|n| (n, n.into())).collect::<Vec<_>>());
                world.run_to(50).await;
                assert_eq!(full_log.len(), 1, "it is blocked");
                go.send(()).unwrap();
                world.run_to(100).await;
                assert_eq!(full_log.names(), handled.clone().collect::<Vec<_>>());
                let lost: Vec<_> = (handled.end..20).map(|n| (n, DeadLetterReason::WindowFull)).collect();
                assert_eq!(letters(&receiver), lost);
                let counters = world.timers.snapshot().counters;
                assert_eq!((counters.delivered, world.pending()), (20 - lost.len() as u64, 0));
                assert_eq!(counters.window_full, lost.len() as u64);
            }
        });
    }
}

#[test]
fn no_more_than_the_window_is_sent() {
    // Window, slots, and the number of messages sent while the recipient is blocked: the blocking one and the ones
    // behind it. The capacity of the mailbox is no bound.
    for (window, slots, sent) in [(1, 16, 2), (3, 16, 4), (5, 2, 6), (100, 1, 10), (0, 16, 2)] {
        in_virtual_time(with(MailboxPolicy::Wait { window }), move |world| async move {
            let (addr, log, go) = blocked(&world, slots);
            let ids: Vec<TimerId> = (10..20).map(|n| world.after(&addr, n.into(), n)).collect();
            world.run_to(50).await;
            assert_eq!(world.pending(), 10 - sent, "window {window}, {slots} slots");
            for (n, id) in ids.iter().enumerate() {
                let state = world.timers.get(*id).map(|timer| timer.state);
                assert_eq!(state, (n as u64 >= sent).then_some(TimerState::Due), "timer {n}");
            }
            go.send(()).unwrap();
            world.settle().await;
            assert_eq!(log.names(), (10..20).collect::<Vec<_>>());
            assert_eq!(world.pending(), 0);
        });
    }
}

#[test]
fn waiting_messages_are_cancelled_and_moved_exactly() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (addr, log, go) = blocked(&world, 16);
        let ids: Vec<TimerId> = (10..18).map(|n| world.after(&addr, n.into(), n)).collect();
        world.run_to(50).await;
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::AlreadyDelivered);
        assert_eq!(world.timers.cancel(ids[1]), CancelOutcome::AlreadyDelivered, "in the mailbox");
        assert_eq!(world.timers.cancel(ids[2]), CancelOutcome::Cancelled, "next in the queue");
        assert_eq!(world.timers.cancel(ids[4]), CancelOutcome::Cancelled, "in the middle");
        assert!(world.timers.reschedule_after(ids[3], ms(20)).is_rescheduled());
        go.send(()).unwrap();
        world.run_to(60).await;
        assert_eq!(log.names(), [10, 11, 15, 16, 17]);
        world.run_to(100).await;
        assert_eq!(log.take(), [(13, 70)]);
    });
}

#[test]
fn a_drain_with_a_time_limit_waits_for_messages_held_back() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (addr, log, go) = blocked(&world, 16);
        (10..20).for_each(|n| _ = world.after(&addr, 10, n));
        world.after(&addr, 1000, 20);
        world.run_to(15).await;
        let timers = world.timers.clone();
        let drain = actix::spawn(async move { timers.drain_within(ms(100)).await });
        world.run_to(50).await;
        assert_eq!((log.names(), world.pending()), (vec![10], 9), "no more than the window, now as before");
        go.send(()).unwrap();
        world.run_to(200).await;
        assert_eq!(log.names(), (11..20).collect::<Vec<_>>());
        let returned = drain.await.unwrap();
        assert_eq!((returned.len(), world.pending()), (1, 0));
    });
}

/// Messages already in the mailbox are out of the timer actor's reach.
#[test]
fn messages_that_wait_are_dead_letters_when_the_recipient_stops() {
    for window in [1, 2] {
        in_virtual_time(with(MailboxPolicy::Wait { window }), |world| async move {
            let (_listener, receiver) = listen(&world.timers);
            let (addr, log) = world.probe::<u32>();
            let go = block_then(&addr, |ctx| ctx.stop()).await;
            (0..20).for_each(|n| _ = world.after(&addr, 10, n));
            world.run_to(50).await;
            assert_eq!(world.pending(), 20 - window as u64);
            go.send(()).unwrap();
            world.settle().await;
            assert_eq!((log.len(), world.pending(), world.timers.snapshot().owners), (0, 0, 0));
            let lost = (window as u32..20).map(|n| (n, DeadLetterReason::RecipientStopped));
            assert_eq!(letters(&receiver), lost.collect::<Vec<_>>());
        });
    }
}

#[test]
fn a_handler_that_answers_with_a_future_is_done_when_that_ends() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (addr, log, gates) = slow(&world);
        (0..3).for_each(|n| _ = world.timers.schedule_after(&addr, ms(10), Note(n)));
        world.run_to(20).await;
        for n in 0..3 {
            assert_eq!(log.names(), [n]);
            open(&gates, 0);
            world.settle().await;
        }
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn the_policy_of_a_target_goes_before_that_of_the_timer_actor() {
    in_virtual_time(with(DISCARD), |world| async move {
        let (addr, log, go) = blocked(&world, 1);
        let plain = Target::from(&addr).mailbox_policy(MailboxPolicy::Unbounded);
        (0..5).for_each(|n| _ = world.after(&plain, 10, n));
        let (other, other_log, other_go) = blocked(&world, 16);
        let mut batch = ScheduleBatch::with_capacity(5);
        let narrow = Target::from(&other).window(1);
        (0..5).for_each(|n| _ = batch.after(&narrow, ms(10), Note(n)));
        let answers = world.timers.addr().send(batch).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
        world.run_to(10).await;
        assert_eq!((world.timers.snapshot().counters.delivered, world.pending()), (5 + 2, 3));
        [go, other_go].into_iter().for_each(|go| go.send(()).unwrap());
        world.settle().await;
        assert_eq!((log.names(), other_log.names()), (vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 4]));
    });
}

/// A window bounds the messages of the timer actor alone, and no alarm is set for waiting ones.
#[test]
fn a_mailbox_filled_by_others_holds_no_message_back() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 2 }), |world| async move {
        let (addr, log, go) = blocked(&world, 2);
        world.after(&addr, 10, 0);
        world.run_to(10).await;
        (100..110).for_each(|n| addr.do_send(Note(n)));
        (1..5u32).for_each(|n| _ = world.after(&addr, n.into(), n));
        world.run_to(500).await;
        assert_eq!(world.pending(), 2);
        if world.is_manual() {
            let alarms = world.clock().rung();
            world.run_to(5_000).await;
            assert!(world.clock().rung() <= alarms + 1, "it may publish, and rests");
        }
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [0].into_iter().chain(100..110).chain(1..5).collect::<Vec<_>>());
        assert_eq!(world.pending(), 0);
    });
}

/// Two repetitions beyond the window are lost, and the third finds room: the recipient answers in between.
#[test]
fn a_full_window_has_room_as_soon_as_a_handler_has_ended() {
    for is_tracked in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (_listener, receiver) = listen(&world.timers);
            let (addr, log, go) = blocked(&world, 16);
            let target = if is_tracked { Target::tracked(&addr) } else { Target::from(&addr) };
            let target = target.mailbox_policy(MailboxPolicy::Discard { window: 1 });
            (0..5u32).for_each(|n| _ = world.after(&target, (10 + 10 * n).into(), n));
            world.run_to(45).await;
            assert_eq!(letters(&receiver), [2, 3].map(|n| (n, DeadLetterReason::WindowFull)));
            go.send(()).unwrap();
            world.run_to(60).await;
            assert_eq!((log.names(), world.pending()), (vec![0, 1, 4], 0));
        });
    }
}

#[test]
fn recipients_with_a_backlog_take_turns() {
    const WINDOW: usize = 200;
    let builder = || TimerActor::builder().expiry_budget(64);
    in_virtual_time(builder, |world| async move {
        let log = Log::default();
        let recipients = [(); 2].map(|()| world.probe_with(|probe: &mut Probe<u32>| probe.log = log.clone()).0);
        let mut gates = Vec::new();
        for (recipient, addr) in (0..).zip(&recipients) {
            gates.push(block(addr).await);
            let target = Target::from(addr).window(WINDOW);
            (0..10 * WINDOW).for_each(|_| _ = world.after(&target, 10, recipient));
        }
        world.run_to(10).await;
        gates.into_iter().for_each(|go| go.send(()).unwrap());
        world.settle().await;
        let names = log.names();
        assert_eq!(names.len(), 20 * WINDOW);
        let longest = names.chunk_by(u32::eq).map(<[u32]>::len).max();
        assert!(longest <= Some(2 * WINDOW), "{longest:?} messages while the other waits");
    });
}

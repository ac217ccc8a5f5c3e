//! Mailbox policies: messages for slow recipients, and scenario O-42.

use std::sync::mpsc;
use std::time::Instant;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, MailboxPolicy, ScheduleBatch, Target, TimerActor, TimerActorBuilder, TimerId,
    TimerState,
};
use support::{
    Listener, Log, Note, PATIENCE, Probe, World, eventually, in_virtual_time, letters, listen, ms, probe_on, wait,
};
use tokio::sync::oneshot;

const WIDE: MailboxPolicy = MailboxPolicy::Wait { window: 100 };
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

/// Checks the handled messages and the dead letters of the rest.
type Check = fn(&World, &[u32], &[(u32, DeadLetterReason)]);

/// Schedules ten timers each for a full recipient and for a free one, and checks those of the full one (O-42).
fn one_full_another_free(policy: MailboxPolicy, check: Check) {
    in_virtual_time(with(policy), move |world| async move {
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
        let before = full_log.names();
        assert_eq!(before, [10], "it is blocked");
        go.send(()).unwrap();
        world.run_to(100).await;
        let handled: Vec<u32> = before.into_iter().chain(full_log.names()).collect();
        let letters = letters(&receiver);
        assert_eq!(handled.len() + letters.len(), 10, "none is lost silently, none comes twice");
        assert!(handled.is_sorted() && letters.is_sorted_by_key(|letter| letter.0));
        check(&world, &handled, &letters);
        assert_eq!(world.pending(), 0);
    });
}

/// In the timer actor, or by default in the mailbox past its capacity, as with `do_send`.
/// Scenario O-42.
#[test]
fn one_target_full_another_free_the_rest_waits() {
    for policy in [MailboxPolicy::Wait { window: 2 }, MailboxPolicy::default()] {
        one_full_another_free(policy, |_, handled, letters| {
            assert_eq!(handled, (10..20).collect::<Vec<_>>());
            assert!(letters.is_empty());
        });
    }
}

/// Scenario O-42.
#[test]
fn one_target_full_another_free_the_rest_is_discarded() {
    one_full_another_free(DISCARD, |world, handled, letters| {
        assert_eq!(handled, [10, 11, 12], "one is handled, two are in the window");
        assert_eq!(letters, (13..20).map(|n| (n, DeadLetterReason::WindowFull)).collect::<Vec<_>>());
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.window_full), (3 + 10, 7));
    });
}

/// The same with recipients on their own arbiters and a handler that blocks its thread.
/// Scenario O-42.
#[test]
fn across_arbiters() {
    for policy in [WIDE, MailboxPolicy::Wait { window: 1 }, DISCARD] {
        support::in_real_time(async move {
            let timers = TimerActor::builder().mailbox_policy(policy).start().unwrap();
            let (sender, receiver) = mpsc::channel();
            let listener = Listener(sender).start();
            timers.subscribe_dead_letters(listener.clone());
            let (full_arbiter, free_arbiter) = (Arbiter::new(), Arbiter::new());
            let (go, gate) = mpsc::channel::<()>();
            let (started, has_started) = mpsc::channel();
            let (full, full_log) = probe_on::<u32>(&full_arbiter, move |probe, ctx| {
                ctx.set_mailbox_capacity(2);
                started.send(()).expect("the test waits");
                let mut gate = Some(gate);
                probe.hook = Box::new(move |_, _| {
                    if let Some(gate) = gate.take() {
                        gate.recv_timeout(PATIENCE).expect("the test lets go");
                    }
                });
            });
            let (free, free_log) = probe_on::<u32>(&free_arbiter, |_, _| ());
            // Until then its mailbox has actix's own capacity.
            has_started.recv_timeout(PATIENCE).expect("the arbiter runs");
            for n in 10..20u32 {
                timers.schedule_after(&full, ms(n.into()), Note(n));
                timers.schedule_after(Target::from(&free).mailbox_policy(WIDE), ms(n.into()), Note(n));
            }
            eventually(|| free_log.len() == 10).await;
            assert_eq!(free_log.names(), (10..20).collect::<Vec<_>>());
            if policy == DISCARD {
                eventually(|| timers.snapshot().pending() == 0).await;
            }
            assert!(full_log.len() <= 1);
            go.send(()).unwrap();
            eventually(|| timers.snapshot().pending() == 0).await;
            let delivered = timers.snapshot().counters.delivered as usize;
            eventually(|| full_log.len() == delivered - 10).await;
            let handled = full_log.names();
            let mut lost = Vec::new();
            eventually(|| {
                lost.extend(letters(&receiver));
                handled.len() + lost.len() == 10
            })
            .await;
            assert!(handled.is_sorted() && lost.is_sorted_by_key(|letter| letter.0), "{handled:?}, {lost:?}");
            assert_eq!(lost.is_empty(), policy != DISCARD);
            assert!(timers.snapshot().counters.balance());
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
fn waiting_messages_are_cancelled_moved_and_returned_exactly() {
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

        let (addr, log, go) = blocked(&world, 16);
        (0..6u32).for_each(|n| {
            world.after(&addr, n.into(), n);
        });
        world.run_to(150).await;
        let returned: Vec<u32> =
            world.timers.drain().into_iter().map(|timer| timer.into_message::<Note<u32>>().unwrap().0).collect();
        assert_eq!(returned, [2, 3, 4, 5]);
        go.send(()).unwrap();
        world.run_to(200).await;
        assert_eq!(log.names(), [0, 1]);
    });
}

#[test]
fn a_drain_with_a_time_limit_waits_for_messages_held_back() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (addr, log, go) = blocked(&world, 16);
        (10..20).for_each(|n| {
            world.after(&addr, 10, n);
        });
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

#[test]
fn messages_that_wait_are_dead_letters_when_the_recipient_stops() {
    for policy in [MailboxPolicy::Wait { window: 1 }, MailboxPolicy::Wait { window: 2 }] {
        in_virtual_time(with(policy), |world| async move {
            let (_listener, receiver) = listen(&world.timers);
            let (go, gate) = oneshot::channel::<()>();
            let mut gate = Some(gate);
            let (addr, log) = world.probe_with(|probe: &mut Probe<u32>| {
                probe.on_start = Box::new(|ctx| ctx.set_mailbox_capacity(3));
                probe.hook = Box::new(move |_, ctx| {
                    if let Some(gate) = gate.take() {
                        wait(ctx, gate, |ctx| ctx.stop());
                    }
                });
            });
            (10..30).for_each(|n| {
                world.after(&addr, n.into(), n);
            });
            world.run_to(50).await;
            let waiting = world.pending();
            assert!(waiting >= 15);
            go.send(()).unwrap();
            world.settle().await;
            // Messages already in the mailbox are out of the timer actor's reach.
            assert_eq!((log.names(), world.pending()), (vec![10], 0));
            let first = 30 - u32::try_from(waiting).unwrap();
            assert_eq!(
                letters(&receiver),
                (first..30).map(|n| (n, DeadLetterReason::RecipientStopped)).collect::<Vec<_>>()
            );
        });
    }
}

#[test]
fn a_recipient_that_ends_with_waiting_messages_leaves_no_line() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let (addr, log) = world.probe_with(|probe: &mut Probe<u32>| {
            probe.hook = Box::new(|name, ctx| {
                if *name == 1 {
                    ctx.stop();
                }
            });
        });
        (0..5).for_each(|n| {
            world.after(&addr, 10, n);
        });
        world.run_to(10).await;
        assert_eq!(log.names(), [0, 1]);
        assert_eq!(letters(&receiver), [2, 3, 4].map(|n| (n, DeadLetterReason::RecipientStopped)));
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
    });
}

#[test]
fn the_policy_of_a_target_goes_before_that_of_the_timer_actor() {
    in_virtual_time(with(DISCARD), |world| async move {
        let (addr, log, go) = blocked(&world, 1);
        let plain = Target::from(&addr).mailbox_policy(MailboxPolicy::Unbounded);
        (0..5).for_each(|n| {
            world.after(&plain, 10, n);
        });
        world.run_to(10).await;
        assert_eq!(world.timers.snapshot().counters.delivered, 5);
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [0, 1, 2, 3, 4]);
    });
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log, go) = blocked(&world, 16);
        let narrow = Target::from(&addr).window(1);
        let mut entries = ScheduleBatch::with_capacity(5);
        for n in 0..5 {
            entries.after(&narrow, ms(10), Note(n));
        }
        let answers = world.timers.addr().send(entries).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
        world.run_to(10).await;
        assert_eq!(world.pending(), 3);
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(log.names(), [0, 1, 2, 3, 4]);
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
        (1..5u32).for_each(|n| {
            world.after(&addr, n.into(), n);
        });
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
            (0..5u32).for_each(|n| {
                world.after(&target, (10 + 10 * n).into(), n);
            });
            world.run_to(45).await;
            assert_eq!(letters(&receiver), [2, 3].map(|n| (n, DeadLetterReason::WindowFull)));
            go.send(()).unwrap();
            world.run_to(60).await;
            assert_eq!((log.names(), world.pending()), (vec![0, 1, 4], 0));
        });
    }
}

/// An actor whose handlers answer with futures that end on demand.
struct Slow {
    log: Log<u32>,
    gates: Vec<Option<oneshot::Receiver<()>>>,
}

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Note<u32>> for Slow {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Note(n): Note<u32>, _: &mut Self::Context) -> Self::Result {
        self.log.push(n, 0);
        let gate = self.gates[n as usize].take().unwrap();
        Box::pin(async { drop(gate.await) })
    }
}

#[test]
fn a_handler_that_answers_with_a_future_is_done_when_that_ends() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (go, gates): (Vec<_>, Vec<_>) =
            (0..3).map(|_| oneshot::channel()).map(|(go, gate)| (go, Some(gate))).unzip();
        let log = Log::default();
        let addr = Slow { log: log.clone(), gates }.start();
        for n in 0..3 {
            world.timers.schedule_after(&addr, ms(10), Note(n));
        }
        world.run_to(20).await;
        for (n, go) in (0..3).zip(go) {
            assert_eq!(log.names(), [n]);
            go.send(()).unwrap();
            world.settle().await;
        }
        assert_eq!(world.pending(), 0);
    });
}

#[test]
fn one_slow_recipient_delays_no_other_of_thousands() {
    in_virtual_time(with(MailboxPolicy::Wait { window: 1 }), |world| async move {
        let (slow, slow_log, go) = blocked(&world, 4);
        let fast: Vec<_> = (0..500).map(|_| world.probe::<u32>()).collect();
        (0..2000).for_each(|n| {
            world.after(&slow, 10, n);
        });
        fast.iter().for_each(|(addr, _)| {
            world.after(addr, 10, 7);
        });
        world.run_to(10).await;
        assert!(fast.iter().all(|(_, log)| log.take() == [(7, 10)]));
        go.send(()).unwrap();
        world.run_to(11).await;
        assert_eq!(slow_log.names(), (0..2000).collect::<Vec<_>>());
    });
}

/// While the timer actor's arbiter is blocked, the watchdog moves the queues on.
#[test]
fn lines_move_on_while_the_timer_actors_thread_is_blocked() {
    support::in_real_time(async {
        let timers = TimerActor::builder().start().unwrap();
        let arbiter = Arbiter::new();
        let (addr, log) = probe_on::<u32>(&arbiter, |_, _| ());
        // The watchdog knows a timer actor once it has run.
        timers.schedule_after(&addr, ms(1), Note(9));
        eventually(|| !log.names().is_empty()).await;
        for n in 0..5 {
            timers.schedule_after(Target::from(&addr).window(1), ms(1), Note(n));
        }
        let began = Instant::now();
        while log.len() < 5 && began.elapsed() < PATIENCE {
            // Blocks the arbiter on purpose.
            std::thread::sleep(ms(1));
        }
        assert_eq!(log.names(), [0, 1, 2, 3, 4]);
    });
}

/// Many recipients on other threads, each with a narrow window: all messages arrive, in order, and the counters add up.
#[test]
fn threads_that_answer_at_any_time_lose_nothing() {
    const RECIPIENTS: u32 = 6;
    const MESSAGES: u32 = 300;
    support::in_real_time(async {
        let timers = TimerActor::builder().start().unwrap();
        let arbiters: Vec<Arbiter> = (0..2).map(|_| Arbiter::new()).collect();
        let began = Instant::now();
        let recipients: Vec<(Addr<Probe<u32>>, Log<u32>)> = (0..RECIPIENTS)
            .map(|n| {
                let arbiter = &arbiters[n as usize % arbiters.len()];
                probe_on(arbiter, |_, ctx| ctx.set_mailbox_capacity(3))
            })
            .collect();
        for message in 0..MESSAGES {
            for (n, (addr, _)) in recipients.iter().enumerate() {
                let target = Target::from(addr).window(n + 1);
                timers.schedule_after(target, ms(u64::from(message / 20)), Note(message));
            }
        }
        eventually(|| recipients.iter().all(|(_, log)| log.len() == MESSAGES as usize)).await;
        eventually(|| timers.snapshot().pending() == 0).await;
        for (_, log) in &recipients {
            assert!(log.names().is_sorted());
        }
        let counters = timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.balance()), (u64::from(RECIPIENTS * MESSAGES), true));
        assert!(began.elapsed() < PATIENCE);
    });
}

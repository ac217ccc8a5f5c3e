//! Repeating timers for slow recipients, and under tracked delivery.

use std::sync::mpsc;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetter, DeadLetterReason, MailboxPolicy, MessageSource, MissedTickBehavior, Repeat, RepeatTimes,
    RescheduleOutcome, Target, TimerActor, TimerOptions, TimerState,
};
use support::repeat::times;
use support::{Log, Note, Probe, World, block, in_virtual_time, listen, ms, with_probe};

use crate::slow::{open, slow};

/// Returns a source of notes with the numbers 0, 1, 2 …
fn numbered() -> MessageSource<Note<u32>> {
    let mut number = 0;
    MessageSource::from_fn(move || {
        number += 1;
        Note(number - 1)
    })
}

/// Starts a probe with `slots` slots in its mailbox.
fn narrow(world: &World, slots: usize) -> (Addr<Probe<u32>>, Log<u32>) {
    world.probe_with(|probe| probe.on_start = Box::new(move |ctx| ctx.set_mailbox_capacity(slots)))
}

fn letters(receiver: &mpsc::Receiver<DeadLetter>) -> Vec<(Option<u32>, DeadLetterReason)> {
    receiver.try_iter().map(|letter| (letter.take::<Note<u32>>().map(|note| note.0), letter.reason)).collect()
}

#[test]
fn a_tracked_fixed_delay_counts_from_the_end_of_the_future() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log, gates) = slow(&world);
        let timer = world.timers.schedule_with_fixed_delay(Target::tracked(&addr), ms(10), numbered());
        world.run_to(35).await;
        assert_eq!(log.take(), [(0, 10)]);
        assert_eq!(world.timers.get(timer).unwrap().state, TimerState::InFlight);
        open(&gates, 0);
        world.run_to(44).await;
        assert_eq!(log.take(), []);
        assert_eq!(world.timers.get(timer).unwrap().state, TimerState::Waiting);
        world.run_to(46).await;
        assert_eq!(log.take(), [(1, 45)]);
        open(&gates, 0);
        world.run_to(60).await;
        assert_eq!(log.take(), [(2, 56)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.delivered, world.pending()), (3, 2, 1));
        // The recipient ends, and its future with it.
        drop(addr);
        gates.borrow_mut().clear();
        world.run_to(100).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.recipient_stopped, world.pending()), (3, 1, 0));
    });
}

#[test]
fn a_series_cancelled_or_replaced_during_its_handler_cannot_be_moved() {
    for is_replaced in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log, gates) = slow(&world);
            let keyed = || world.timers.timer(Target::tracked(&addr), TimerOptions::new().key(1));
            let timer = keyed().repeat(Repeat::every(ms(10)), Note(0));
            world.run_to(10).await;
            if is_replaced {
                keyed().schedule(ms(20), Note(1));
            } else {
                assert_eq!(world.timers.cancel(timer), CancelOutcome::InProgress);
            }
            assert_eq!(world.timers.reschedule_after(timer, ms(5)), RescheduleOutcome::InProgress);
            open(&gates, 0);
            world.run_to(100).await;
            assert_eq!(log.take(), if is_replaced { vec![(0, 10), (1, 30)] } else { vec![(0, 10)] });
        });
    }
}

#[test]
fn a_move_during_its_last_handler_does_not_prolong_a_series() {
    type Times = fn(&World) -> RepeatTimes;
    let ends: [Times; 3] = [
        |_| Repeat::every(ms(10)).times(1).into(),
        |world| Repeat::every(ms(10)).until(world.wall(15)).into(),
        |world| {
            let mut once = Some(world.wall(10));
            Repeat::computed(move |_| once.take())
        },
    ];
    for times in ends {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (addr, log, gates) = slow(&world);
            let timer = world.timers.schedule_at_fixed_rate(Target::tracked(&addr), times(&world), Note(0));
            world.run_to(10).await;
            assert_eq!(world.timers.reschedule_after(timer, ms(2)), RescheduleOutcome::InProgress);
            open(&gates, 0);
            world.run_to(100).await;
            assert_eq!((log.take(), world.pending()), (vec![(0, 10)], 0));
        });
    }
}

#[test]
fn a_tracked_fixed_rate_never_has_two_under_way() {
    for (missed, expected) in [
        (MissedTickBehavior::Skip, vec![10, 45, 50, 60]),
        (MissedTickBehavior::Burst, vec![10, 45, 45, 45, 50, 60]),
        (MissedTickBehavior::Delay, vec![10, 45, 55, 65]),
    ] {
        in_virtual_time(TimerActor::builder, |world| {
            let expected = expected.clone();
            async move {
                let (addr, log, gates) = slow(&world);
                let every = Repeat::every(ms(10)).missed_ticks(missed);
                world.timers.schedule_at_fixed_rate(Target::tracked(&addr), every, numbered());
                world.run_to(45).await;
                assert_eq!((log.names().len(), gates.borrow().len()), (1, 1));
                // From here on each is handled at once.
                let mut seen = vec![10];
                for now in 45..=65 {
                    world.run_to(now).await;
                    while !gates.borrow().is_empty() {
                        assert_eq!(gates.borrow().len(), 1, "one at a time");
                        open(&gates, 0);
                        world.settle().await;
                    }
                    seen.extend(times(&log));
                }
                let expected: Vec<u64> =
                    expected.into_iter().filter(|at| *at < 65 || missed == MissedTickBehavior::Delay).collect();
                assert_eq!(seen, expected, "{missed:?}");
                assert_eq!(world.pending(), 1);
            }
        });
    }
}

#[test]
fn a_timer_goes_on_after_a_dead_letter_of_a_full_window() {
    for is_tracked in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (_listener, receiver) = listen(&world.timers);
            let (addr, log) = narrow(&world, 1);
            let go = block(&addr).await;
            let target = if is_tracked { Target::tracked(&addr) } else { Target::from(&addr) };
            let target = target.mailbox_policy(MailboxPolicy::Discard { window: 2 });
            // Under tracked delivery only one token of a timer is in the mailbox: other messages fill the window.
            for n in 0..if is_tracked { 2 } else { 0 } {
                world.after(&target, 5, 100 + n);
            }
            let timer = world.timers.schedule_at_fixed_rate(&target, ms(10), numbered());
            world.run_to(65).await;
            let dead = letters(&receiver);
            assert!(!dead.is_empty() && dead.iter().all(|(_, reason)| *reason == DeadLetterReason::WindowFull));
            assert!(world.timers.get(timer).is_some(), "a full window is no end");
            go.send(()).unwrap();
            world.run_to(85).await;
            let numbers = log.names().into_iter().filter(|n| *n < 100);
            let lost = dead.iter().filter_map(|(n, _)| *n).filter(|n| *n < 100);
            let mut all: Vec<u32> = numbers.chain(lost).collect();
            all.sort_unstable();
            assert_eq!(all, (0..8).collect::<Vec<_>>(), "each is handled or a dead letter");
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.window_full, world.pending()), (dead.len() as u64, 1));
        });
    }
}

#[test]
fn a_last_repetition_without_room_is_a_dead_letter_and_the_end() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let (addr, _) = narrow(&world, 1);
        let _go = block(&addr).await;
        let target = Target::from(&addr).mailbox_policy(MailboxPolicy::Discard { window: 2 });
        let timer = world.timers.schedule_at_fixed_rate(&target, Repeat::every(ms(10)).times(5), numbered());
        world.run_to(100).await;
        assert_eq!(letters(&receiver).last(), Some(&(Some(4), DeadLetterReason::WindowFull)));
        assert_eq!((world.timers.cancel(timer), world.pending()), (CancelOutcome::NotFound, 0));
    });
}

#[test]
fn a_recipient_that_stops_with_the_token_ends_the_timer() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let (addr, log) = world.probe_with(|probe| probe.hook = Box::new(|_, ctx| ctx.stop()));
        let target = Target::tracked(&addr);
        for _ in 0..2 {
            world.timers.schedule_with_fixed_delay(&target, ms(10), numbered());
        }
        world.run_to(15).await;
        assert_eq!(letters(&receiver), [(None, DeadLetterReason::RecipientStopped)], "the second, behind its token");
        world.run_to(60).await;
        assert_eq!(letters(&receiver), [(None, DeadLetterReason::RecipientStopped)], "the first, due again");
        assert_eq!(log.take(), [(0, 10)]);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.recipient_stopped, world.pending()), (1, 2, 0));
    });
}

#[test]
fn a_stopped_recipient_ends_the_timer_with_one_dead_letter() {
    with_probe::<u32>(async |world, addr, _log| {
        let targets: [Target<Note<u32>>; 4] = [
            Target::from(&addr).window(3),
            Target::from(&addr).mailbox_policy(MailboxPolicy::Discard { window: 2 }),
            Target::tracked(&addr),
            Target::tracked(&addr).window(3),
        ];
        drop(addr);
        world.settle().await;
        for target in targets {
            let source = MessageSource::from_fn(|| -> Note<u32> { panic!("no message is made for it") });
            world.timers.schedule_at_fixed_rate(target, ms(10), source);
        }
        world.run_to(50).await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.recipient_stopped, world.pending()), (4, 4, 0));
    });
}

#[test]
fn a_source_that_panics_behind_its_token_frees_its_place() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, receiver) = listen(&world.timers);
        let (addr, log) = world.probe::<u32>();
        for target in [Target::tracked(&addr).window(1), Target::from(&addr).window(1)] {
            let source = MessageSource::from_fn(|| -> Note<u32> { panic!("on purpose") });
            world.timers.schedule_at_fixed_rate(&target, ms(10), source);
            world.after(&target, 10, 7);
        }
        world.run_to(50).await;
        assert_eq!(log.take(), [(7, 10), (7, 10)]);
        assert_eq!(letters(&receiver), [(None, DeadLetterReason::SourcePanicked); 2]);
        assert_eq!(world.pending(), 0);
    });
}

fn delivered(world: &World) -> u64 {
    world.timers.snapshot().counters.delivered
}

#[test]
fn a_cancelled_repetition_frees_its_own_place_in_the_window() {
    with_probe::<u32>(async |world, addr, _log| {
        let go = block(&addr).await;
        let (plain, tracked) = (Target::from(&addr).window(1), Target::tracked(&addr).window(1));
        let timer = world.timers.schedule_at_fixed_rate(&tracked, ms(10), numbered());
        world.after(&plain, 12, 100);
        world.run_to(15).await;
        assert_eq!(delivered(&world), 0, "the window is taken by a request");
        assert_eq!(world.timers.cancel(timer), CancelOutcome::Cancelled);
        go.send(()).unwrap();
        world.settle().await;
        assert_eq!(delivered(&world), 1);
    });
    // After the handler of its last repetition a timer has no place in the window that a cancel could free.
    with_probe::<u32>(async |world, addr, _log| {
        let target = Target::tracked(&addr).window(1);
        let timer = world.timers.schedule_at_fixed_rate(&target, ms(10), numbered());
        world.run_to(11).await;
        let _go = block(&addr).await;
        world.after(&target, 1, 100);
        world.after(Target::from(&addr).window(1), 2, 101);
        world.run_to(15).await;
        assert_eq!(delivered(&world), 1);
        assert_eq!(world.timers.cancel(timer), CancelOutcome::Cancelled);
        world.settle().await;
        assert_eq!(delivered(&world), 1, "the request for another message takes the window");
    });
    // The same for a message in the mailbox.
    with_probe::<u32>(async |world, addr, _log| {
        let _go = block(&addr).await;
        let target = Target::from(&addr).window(2);
        let timer = world.timers.schedule_at_fixed_rate(&target, ms(10), numbered());
        world.after(Target::tracked(&addr).window(2), 12, 100);
        world.after(&target, 14, 101);
        world.run_to(15).await;
        assert_eq!(delivered(&world), 1);
        assert_eq!(world.timers.cancel(timer), CancelOutcome::Cancelled);
        world.settle().await;
        assert_eq!(delivered(&world), 1, "a message and a token take the window");
    });
}

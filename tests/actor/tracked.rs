//! Tracked delivery: exact cancel for any recipient, acknowledgement, windows, and the end of either side.

use std::cell::RefCell;
use std::rc::Rc;

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, DueTimers, RescheduleOutcome, Target, TimerActor, TimerId, TimerLocation,
    TimerState,
};
use support::{Census, Note, Probe, block, eventually, in_virtual_time, letters, listen, ms, probe, run, with_probe};

use crate::slow::{open, slow};

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

#[test]
fn the_end_of_a_future_acknowledges_and_opens_the_window() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (addr, log, gates) = slow(&world);
        let target = Target::tracked(&addr).window(2);
        let ids: Vec<TimerId> = (0..4).map(|n| world.timers.schedule_after(&target, ms(10), Note(n))).collect();
        world.run_to(20).await;
        assert_eq!(log.names(), [0, 1]);
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::InProgress);
        open(&gates, 1);
        world.settle().await;
        assert_eq!(log.names(), [2], "the window is open for one more");
        assert_eq!(world.timers.cancel(ids[1]), CancelOutcome::AlreadyDelivered);
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::InProgress);
        assert_eq!(world.timers.cancel(ids[3]), CancelOutcome::Cancelled);
        open(&gates, 0);
        world.settle().await;
        assert_eq!(world.pending(), 1);
        // The actor ends, and with it the future of its answer.
        drop(addr);
        gates.borrow_mut().clear();
        world.settle().await;
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, world.pending()), (3, 1, 0));
    });
}

/// And only once, also for a message that is cancelled after it was moved.
#[test]
fn a_place_in_the_window_is_free_at_a_cancel_or_move() {
    with_probe::<u32>(async |world, addr, log| {
        let target = Target::tracked(&addr).window(1);
        let go = block(&addr).await;
        let ids: Vec<TimerId> = (0..6).map(|n| world.after(&target, 10, n)).collect();
        world.run_to(10).await;
        assert_eq!(world.timers.cancel(ids[0]), CancelOutcome::Cancelled);
        assert!(world.timers.reschedule_after(ids[1], ms(10)).is_rescheduled());
        world.settle().await;
        assert!(world.timers.reschedule_after(ids[2], ms(1000)).is_rescheduled());
        world.settle().await;
        assert_eq!(world.timers.cancel(ids[2]), CancelOutcome::Cancelled);
        world.settle().await;
        let locations = [3, 4].map(|n| world.timers.get(ids[n]).unwrap().location);
        let next = TimerLocation::Queue { length: 3, ahead: Some(1), under_way: 1 };
        assert_eq!(locations, [TimerLocation::Mailbox { under_way: 1 }, next]);
        go.send(()).unwrap();
        world.run_to(30).await;
        assert_eq!(log.take(), [(3, 10), (4, 10), (5, 10), (1, 20)]);
        assert_eq!((world.pending(), world.timers.snapshot().owners), (0, 0));
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
            (0..5).for_each(|n| _ = world.after(&target, 10, n));
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
        let (addr, log) = probe::<u32>();
        let go = block(&addr).await;
        (0..3).for_each(|n| _ = timers.schedule_after(Target::tracked(&addr).window(2), ms(0), Note(n)));
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

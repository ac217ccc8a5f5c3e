//! Order for one recipient: an actor's own timers among themselves, and the ones that others made for it among
//! themselves.

use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext};
use support::{Note, Probe, World, ms, run};

/// Own messages have even numbers. Each kind is due in another order than it was scheduled in, and the driver is late.
#[test]
fn own_messages_and_messages_of_others_keep_an_order_each() {
    support::paused(async {
        let world = World::manual(TimerActor::builder());
        let probe = Probe::new(world.watch.clone());
        let log = probe.log.clone();
        let addr = probe.start();
        run(&addr, |_, ctx| {
            for (delay, number) in [(40, 8), (10, 2), (20, 4), (20, 6)] {
                ctx.schedule_after(ms(delay), Note(number));
            }
        })
        .await;
        for (delay, number) in [(50, 9), (10, 1), (30, 5), (30, 7), (20, 3)] {
            world.after(&addr, delay, number);
        }
        world.clock().hands.jump(ms(100));
        world.settle().await;
        let (own, others): (Vec<u64>, Vec<u64>) = log.names().into_iter().partition(|number| number % 2 == 0);
        assert_eq!((own, others), (vec![2, 4, 6, 8], vec![1, 3, 5, 7, 9]));
        assert_eq!(world.timers.snapshot().pending(), 0);
    });
}

/// A message for a target is in the mailbox at its deadline, whatever the target's own timers do. It survives a restart.
#[test]
fn a_message_of_others_does_not_wait_for_due_own_messages() {
    support::paused(async {
        let world = World::manual(TimerActor::builder());
        let mut probe = Probe::new(world.watch.clone());
        probe.hook = Box::new(|name, ctx| {
            if *name == 2 {
                ctx.stop();
            }
        });
        let log = probe.log.clone();
        let addr = Supervisor::start(|_| probe);
        run(&addr, |_, ctx| {
            for number in [2, 4] {
                ctx.schedule_after(ms(10), Note(number));
            }
        })
        .await;
        let others: Vec<_> = [1, 3].map(|number| world.after(&addr, 10, number)).into();
        world.clock().hands.jump(ms(10));
        world.settle().await;
        assert_eq!(log.names(), [1, 3, 2], "4 ended with its incarnation");
        assert!(others.iter().all(|id| world.timers.cancel(*id) == CancelOutcome::AlreadyDelivered));
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (3, 1, 0));
    });
}

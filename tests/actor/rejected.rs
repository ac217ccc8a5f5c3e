//! Rejected timers of calls that take the message in any case: it becomes a dead letter.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetter, DeadLetterReason, MessageSource, Repeat, TimerActor, TimerContext, TimerId,
    TimerOptions, Timers,
};
use support::{Census, Note, Probe, World, in_virtual_time, listen, ms, run};

type Ctx = Context<Probe<u32>>;

/// Schedules a note with its name.
type OwnCall = fn(&mut Ctx, u32) -> TimerId;
type Call = fn(&Timers, &Addr<Probe<u32>>, u32) -> TimerId;

const OWN_CALLS: [OwnCall; 9] = [
    |ctx, name| ctx.schedule_after(ms(10), Note(name)),
    |ctx, name| ctx.schedule_at(SystemTime::now(), Note(name)),
    |ctx, name| ctx.schedule_at_fixed_rate(ms(10), Note(name)),
    |ctx, name| ctx.schedule_with_fixed_delay(ms(10), MessageSource::from_fn(move || Note(name))),
    |ctx, name| ctx.schedule_at_fixed_rate(Repeat::every(Duration::ZERO), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new().key("k")).after(ms(10), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new()).at(SystemTime::now(), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new()).at_fixed_rate(ms(10), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new()).with_fixed_delay(ms(10), Note(name)),
];

const CALLS: [Call; 8] = [
    |timers, addr, name| timers.schedule_after(addr, ms(10), Note(name)),
    |timers, addr, name| timers.schedule_at(addr, SystemTime::now(), Note(name)),
    |timers, addr, name| timers.schedule_at_fixed_rate(addr, ms(10), Note(name)),
    |timers, addr, name| timers.schedule_with_fixed_delay(addr, ms(10), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new().key("k")).after(ms(10), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new()).at(SystemTime::now(), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new()).at_fixed_rate(ms(10), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new()).with_fixed_delay(ms(10), Note(name)),
];

type Told = (TimerId, DeadLetterReason, Duration, Duration, Option<Note<u32>>);

fn told(letters: &mpsc::Receiver<DeadLetter>) -> Vec<Told> {
    letters
        .try_iter()
        .map(|letter| (letter.id, letter.reason, letter.overdue, letter.remaining, letter.take()))
        .collect()
}

/// Makes all calls, whose timers are rejected, and asserts that each message is a dead letter.
async fn assert_all_become_dead_letters(world: &World) {
    let (_listener, letters) = listen(&world.timers);
    let (addr, log) = world.probe();
    let before = world.timers.snapshot().counters;
    let mut expected = Vec::new();
    for (name, call) in (0..).zip(OWN_CALLS) {
        expected.push((run(&addr, move |_, ctx| call(ctx, name)).await, name));
    }
    for (name, call) in (100..).zip(CALLS) {
        expected.push((call(&world.timers, &addr, name), name));
    }
    world.settle().await;
    let zero = Duration::ZERO;
    let expected: Vec<Told> =
        expected.into_iter().map(|(id, name)| (id, DeadLetterReason::Rejected, zero, zero, Some(Note(name)))).collect();
    for (id, ..) in &expected {
        assert_eq!((world.timers.get(*id), world.timers.cancel(*id)), (None, CancelOutcome::NotFound));
    }
    let calls = expected.len() as u64;
    assert_eq!(told(&letters), expected);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.rejected, counters.accepted), (before.rejected + calls, before.accepted + calls));
    assert!(counters.balance());
    world.run_to(100).await;
    assert!(log.take().iter().all(|(name, _)| *name == 1000), "none of them is delivered");
}

#[test]
fn the_message_beyond_the_capacity_is_a_dead_letter() {
    in_virtual_time(
        || TimerActor::builder().capacity(1),
        |world| async move {
            let (addr, _log) = world.probe();
            world.after(&addr, 50, 1000);
            assert_all_become_dead_letters(&world).await;
        },
    );
}

#[test]
fn the_message_after_a_drain_is_a_dead_letter() {
    in_virtual_time(TimerActor::builder, |world| async move {
        drop(world.timers.drain());
        assert_all_become_dead_letters(&world).await;
    });
}

/// Closures are no messages that a subscriber could take; it is told of them.
#[test]
fn a_rejected_closure_is_dropped_and_reported() {
    in_virtual_time(
        || TimerActor::builder().capacity(1),
        |world| async move {
            let (_listener, letters) = listen(&world.timers);
            let (addr, log) = world.probe();
            world.after(&addr, 3_600_000, 1000u32);
            let census = Census::default();
            let counted = census.clone();
            let ids: Vec<TimerId> = run(&addr, move |_, ctx: &mut Ctx| {
                let captured = || counted.payload();
                let (a, b, c) = (captured(), captured(), captured());
                vec![
                    ctx.run_after(ms(10), move |_, _| drop(a)),
                    ctx.run_every(ms(10), move |_, _| _ = &b),
                    ctx.notify_after(ms(10), c),
                ]
            })
            .await;
            world.settle().await;
            let seen: Vec<DeadLetter> = letters.try_iter().collect();
            assert_eq!(seen.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids);
            assert!(seen[0].message_type.contains("rejected") && seen[2].message_type.ends_with("Counted"), "{seen:?}");
            drop(seen);
            world.settle().await;
            assert_eq!(census.dropped(), 3);
            assert_eq!(log.take(), []);
        },
    );
}

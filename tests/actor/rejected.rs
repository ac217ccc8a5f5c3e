//! Rejected timers of calls that take the message in any case: it becomes a dead letter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetter, DeadLetterReason, MessageSource, Repeat, ScheduleAfter, ScheduleAtFixedRate,
    ScheduleBatch, ScheduleError, TimerActor, TimerContext, TimerId, TimerOptions, Timers,
};
use support::{Census, Counted, Log, Note, Probe, World, in_virtual_time, letters, listen, ms, probe, run};

type Ctx = Context<Probe<u32>>;

/// Schedules a note with its name.
type OwnCall = fn(&mut Ctx, u32) -> TimerId;
type Call = fn(&Timers, &Addr<Probe<u32>>, u32) -> TimerId;

const OWN_CALLS: [OwnCall; 8] = [
    |ctx, name| ctx.schedule_after(ms(10), Note(name)),
    |ctx, name| ctx.schedule_at(SystemTime::now(), Note(name)),
    |ctx, name| ctx.schedule_at_fixed_rate(ms(10), Note(name)),
    |ctx, name| ctx.schedule_with_fixed_delay(ms(10), Note(name)),
    |ctx, name| ctx.schedule_at_fixed_rate(Repeat::every(Duration::ZERO), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new().key("k")).schedule(ms(10), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new()).schedule(SystemTime::now(), Note(name)),
    |ctx, name| ctx.timer(TimerOptions::new()).repeat(ms(10), Note(name)),
];

const CALLS: [Call; 7] = [
    |timers, addr, name| timers.schedule_after(addr, ms(10), Note(name)),
    |timers, addr, name| timers.schedule_at(addr, SystemTime::now(), Note(name)),
    |timers, addr, name| timers.schedule_at_fixed_rate(addr, ms(10), Note(name)),
    |timers, addr, name| timers.schedule_with_fixed_delay(addr, ms(10), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new().key("k")).schedule(ms(10), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new()).schedule(SystemTime::now(), Note(name)),
    |timers, addr, name| timers.timer(addr, TimerOptions::new()).repeat(ms(10), Note(name)),
];

type Told = (TimerId, DeadLetterReason, Duration, Duration, Option<Note<u32>>);

fn told(letters: &mpsc::Receiver<DeadLetter>) -> Vec<Told> {
    letters
        .try_iter()
        .map(|letter| (letter.id, letter.reason, letter.overdue, letter.remaining, letter.take()))
        .collect()
}

#[test]
fn messages_beyond_the_capacity_or_after_a_drain_are_dead_letters() {
    for is_drained in [false, true] {
        let builder = || TimerActor::builder().capacity(1);
        in_virtual_time(builder, |world| async move {
            let (addr, log) = world.probe();
            world.after(&addr, 900, 1000);
            if is_drained {
                drop(world.timers.drain());
            }
            let (_listener, letters) = listen(&world.timers);
            let before = world.timers.snapshot().counters;
            let mut expected = Vec::new();
            for (name, call) in (0..).zip(OWN_CALLS) {
                expected.push((run(&addr, move |_, ctx| call(ctx, name)).await, name));
            }
            for (name, call) in (100..).zip(CALLS) {
                expected.push((call(&world.timers, &addr, name), name));
            }
            // Sent at intervals.
            world.run_to(500).await;
            let zero = Duration::ZERO;
            let expected: Vec<Told> = expected
                .into_iter()
                .map(|(id, name)| (id, DeadLetterReason::Rejected, zero, zero, Some(Note(name))))
                .collect();
            for (id, ..) in &expected {
                assert_eq!((world.timers.get(*id), world.timers.cancel(*id)), (None, CancelOutcome::NotFound));
            }
            let calls = expected.len() as u64;
            assert_eq!(told(&letters), expected);
            let counters = world.timers.snapshot().counters;
            assert_eq!((counters.rejected, counters.accepted), (before.rejected + calls, before.accepted + calls));
            assert!(counters.balance());
            world.run_to(1000).await;
            assert!(log.take().iter().all(|(name, _)| *name == 1000), "none of them is delivered");
        });
    }
}

/// A request that was sent with `do_send`, or whose sender gave up meanwhile, cannot hand its message back either.
#[test]
fn messages_of_rejected_requests_that_nobody_awaits_are_dead_letters() {
    let builder = || TimerActor::builder().capacity(1).request_budget(2);
    in_virtual_time(builder, |world| async move {
        let (addr, _log) = world.probe::<u32>();
        world.after(&addr, 900, 1000);
        let (_listener, receiver) = listen(&world.timers);
        let timers = world.timers.addr();
        let batch = |names: Range<u32>| {
            let mut batch = ScheduleBatch::new();
            names.for_each(|name| _ = batch.after(&addr, ms(10), Note(name)));
            batch
        };
        timers.do_send(ScheduleAfter::new(&addr, ms(10), Note(0)));
        timers.do_send(ScheduleAtFixedRate::new(&addr, ms(10), Note(1)));
        timers.do_send(batch(2..7));
        let request = timers.send(batch(7..500));
        while world.timers.snapshot().counters.rejected_capacity <= 7 {
            tokio::task::yield_now().await;
        }
        drop(request);
        world.run_to(500).await;
        let expected: Vec<_> = (0..500).map(|name| (name, DeadLetterReason::Rejected)).collect();
        assert_eq!(letters(&receiver), expected);
        assert_eq!((world.timers.snapshot().counters.rejected, world.pending()), (500, 1));
    });
}

/// Closures are no messages that a subscriber could take; it is told of them.
#[test]
fn a_rejected_closure_is_dropped_and_reported() {
    let builder = || TimerActor::builder().capacity(1);
    in_virtual_time(builder, |world| async move {
        let (_listener, letters) = listen(&world.timers);
        let (addr, log) = world.probe();
        world.after(&addr, 3_600_000, 1000u32);
        let census = Census::default();
        let counted = census.clone();
        let ids: Vec<TimerId> = run(&addr, move |_, ctx: &mut Ctx| {
            let captured = || counted.payload();
            let (a, b) = (captured(), captured());
            vec![ctx.run_after(ms(10), move |_, _| drop(a)), ctx.run_every(ms(10), move |_, _| _ = &b)]
        })
        .await;
        assert_eq!(census.dropped(), 2, "at once, on their thread");
        world.run_to(500).await;
        let seen: Vec<DeadLetter> = letters.try_iter().collect();
        assert_eq!(seen.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids);
        let place = concat!("closure at ", file!(), ":");
        assert!(seen.iter().all(|letter| letter.message_type.starts_with(place)), "{seen:?}");
        assert!(seen[0].message_type.contains("rejected"), "{seen:?}");
        assert!(seen.iter().all(|letter| letter.take::<Counted>().is_none()));
        assert_eq!(log.take(), []);
    });
}

/// The source is not asked for a message: the caller may hold a lock that it takes.
#[test]
fn a_rejected_source_makes_no_message() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, letters) = listen(&world.timers);
        let (addr, _log): (_, Log<u32>) = world.probe();
        let source = MessageSource::from_fn(|| -> Note<u32> { panic!("a message was made") });
        let id = world.timers.schedule_at_fixed_rate(&addr, Duration::ZERO, source);
        world.run_to(500).await;
        assert_eq!(told(&letters), [(id, DeadLetterReason::Rejected, Duration::ZERO, Duration::ZERO, None)]);
    });
}

/// Schedules each lost message again, as the plain call allows.
struct Stubborn {
    timers: Timers,
    target: Addr<Probe<u32>>,
    letters: Arc<AtomicU64>,
}

impl Actor for Stubborn {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Stubborn {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, _: &mut Self::Context) {
        self.letters.fetch_add(1, Ordering::SeqCst);
        let message = letter.take::<Note<u32>>().unwrap();
        self.timers.schedule_after(&self.target, ms(10), message);
    }
}

#[test]
fn a_subscriber_that_reschedules_leaves_time_for_others() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (target, _log) = world.probe();
        let letters = Arc::new(AtomicU64::new(0));
        let stubborn = Stubborn { timers: world.timers.clone(), target: target.clone(), letters: Arc::clone(&letters) };
        let stubborn = stubborn.start();
        world.timers.subscribe_dead_letters(stubborn.clone());
        drop(world.timers.drain());
        world.timers.schedule_after(&target, ms(10), Note(1));
        world.run_to(1100).await;
        assert_eq!(letters.load(Ordering::SeqCst), 5, "at 0, 250, 500, 750 and 1000");
    });
}

#[test]
fn few_letters_about_rejected_messages_are_kept() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (_listener, letters) = listen(&world.timers);
        let (addr, _log): (_, Log<u32>) = world.probe();
        drop(world.timers.drain());
        let census = Census::default();
        (0..2000).for_each(|_| _ = world.timers.schedule_after(&addr, ms(10), census.payload()));
        assert_eq!(census.live(), 1024);
        world.run_to(500).await;
        assert_eq!(letters.try_iter().count(), 1024);
        assert_eq!(world.timers.snapshot().counters.rejected, 2000);
    });
}

/// Standard error belongs to the process. A subscriber learns of rejections by letters.
#[test]
fn unread_rejections_are_printed_once_a_thread() {
    let output = support::in_own_process!(unread_rejections_are_printed_once_a_thread, || {
        let on_each_thread: [fn(&Timers, &mut Ctx); 4] = [
            |_, ctx| {
                ctx.run_every(Duration::ZERO, |_, _| {});
                ctx.schedule_at_fixed_rate(Duration::ZERO, Note(1));
            },
            |timers, ctx| {
                (0..3).for_each(|name| _ = ctx.schedule_after(ms(3_600_000), Note(name)));
                timers.schedule_after(ctx.address(), ms(3_600_000), Note(4));
            },
            |timers, ctx| {
                drop(timers.drain());
                (0..2).for_each(|name| _ = timers.schedule_after(ctx.address(), ms(10), Note(name)));
            },
            |timers, ctx| {
                let (_listener, _letters) = listen(timers);
                timers.schedule_at_fixed_rate(ctx.address(), Duration::ZERO, Note(1));
            },
        ];
        for reject in on_each_thread {
            let life = move || {
                support::in_real_time(async {
                    let timers = TimerActor::builder().capacity(1).install().unwrap();
                    let (addr, _) = probe();
                    run(&addr, move |_, ctx| reject(&timers, ctx)).await;
                });
            };
            std::thread::spawn(life).join().unwrap();
        }
    });
    let Some(output) = output else { return };
    let printed: Vec<&str> = output.lines().filter(|line| line.starts_with("actix-timers: ")).collect();
    let message = ();
    let errors = [
        ScheduleError::ZeroPeriod { message },
        ScheduleError::CapacityReached { capacity: 1, message },
        ScheduleError::Stopped { message },
    ];
    assert_eq!(printed.len(), errors.len(), "{output}");
    for (line, error) in printed.iter().zip(errors) {
        assert!(line.ends_with(&error.to_string()), "{line}");
    }
}

/// No driver is left to send the letters.
#[test]
fn messages_for_a_stopped_timer_actor_are_dropped_and_counted() {
    let census = Census::default();
    let (timers, addr) = support::in_real_time(async {
        let world = World::manual(TimerActor::builder());
        (world.timers.clone(), world.probe::<u32>().0)
    });
    timers.schedule_after(&addr, ms(10), census.payload());
    assert_eq!((census.live(), timers.snapshot().counters.rejected), (0, 1));
}

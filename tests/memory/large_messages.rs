//! Messages of 12 kB need no box: without optimization, where each move is a copy on the stack, 2 MiB, the default of a
//! thread, suffice for them on every way.
#![allow(clippy::large_stack_arrays, clippy::large_types_passed_by_value)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    DeadLetter, Drain, MailboxPolicy, ManualClock, MessageSource, Repeat, ScheduleAfter, ScheduleAt,
    ScheduleAtFixedRate, ScheduleBatch, ScheduleWithFixedDelay, Target, TimerActor, TimerContext, TimerOptions, Timers,
};
use support::eventually;

const STACK: usize = 2 << 20;

/// The size of the messages. Larger ones belong in a box.
const SIZE: usize = 12 << 10;

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Large([u8; SIZE]);

impl Message for Large {
    type Result = ();
}

fn large() -> Large {
    Large([7; SIZE])
}

struct Sink;

impl Actor for Sink {
    type Context = Context<Self>;
}

impl Handler<Large> for Sink {
    type Result = ();

    fn handle(&mut self, message: Large, _: &mut Self::Context) {
        HANDLED.fetch_add(u64::from(message.0[SIZE / 2]), Ordering::SeqCst);
    }
}

actix_timers::impl_due_timers!(Sink);

impl Handler<DeadLetter> for Sink {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, _: &mut Self::Context) {
        drop(letter);
        HANDLED.fetch_add(7, Ordering::SeqCst);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Run(fn(&mut Context<Sink>));

impl Handler<Run> for Sink {
    type Result = ();

    fn handle(&mut self, Run(job): Run, ctx: &mut Self::Context) {
        job(ctx);
    }
}

const SOON: Duration = Duration::from_millis(1);

fn twice() -> Repeat {
    Repeat::every(SOON).times(2)
}

struct World {
    clock: ManualClock,
    timers: Timers,
    sink: Addr<Sink>,
}

impl World {
    fn target(&self) -> Target<Large> {
        Target::from(&self.sink)
    }

    fn after(&self, target: Target<Large>) {
        self.timers.schedule_after(target, SOON, large());
    }

    fn repeat(&self, target: Target<Large>) {
        self.timers.schedule_at_fixed_rate(target.clone(), twice(), large());
        self.timers.schedule_with_fixed_delay(target, twice(), MessageSource::from_fn(large));
    }

    fn own(&self, job: fn(&mut Context<Sink>)) {
        self.sink.do_send(Run(job));
    }
}

type Step = fn(&World);

/// Returns the ways to send messages.
fn ways() -> Vec<(&'static str, Step)> {
    vec![
        ("actix: do_send", |world| world.sink.do_send(large())),
        ("actix: try_send", |world| assert!(world.sink.clone().recipient().try_send(large()).is_ok())),
        ("actix: notify_later", |world| world.own(|ctx| _ = ctx.notify_later(large(), Duration::ZERO))),
        ("own", |world| world.own(|ctx| _ = ctx.schedule_after(SOON, large()))),
        ("own, with options", |world| {
            world.own(|ctx| _ = ctx.timer(TimerOptions::new().key("k")).schedule(SOON, large()));
        }),
        ("own, at a fixed rate", |world| world.own(|ctx| _ = ctx.schedule_at_fixed_rate(twice(), large()))),
        ("own, with a fixed delay", |world| world.own(|ctx| _ = ctx.schedule_with_fixed_delay(twice(), large()))),
        ("target", |world| world.after(world.target())),
        ("target, with options", |world| {
            let options = TimerOptions::new().group("g");
            world.timers.timer(world.target(), options).schedule(SOON, large());
        }),
        ("window", |world| (0..3).for_each(|_| world.after(world.target().window(1)))),
        ("drop", |world| {
            (0..40).for_each(|_| world.after(world.target().mailbox_policy(MailboxPolicy::Discard { window: 8 })));
        }),
        ("tracked", |world| world.after(Target::tracked(&world.sink))),
        ("repeating", |world| world.repeat(world.target())),
        ("repeating, window", |world| world.repeat(world.target().window(1))),
        ("repeating, discard", |world| {
            world.repeat(world.target().mailbox_policy(MailboxPolicy::Discard { window: 8 }))
        }),
        ("repeating, tracked", |world| world.repeat(Target::tracked(&world.sink))),
        ("request", |world| {
            world.timers.addr().do_send(ScheduleAfter::new(world.target(), SOON, large()));
        }),
        ("request, at a time", |world| {
            let at = std::time::SystemTime::UNIX_EPOCH + SOON;
            world.timers.addr().do_send(ScheduleAt::new(world.target(), at, large()));
        }),
        ("request, at a fixed rate", |world| {
            world.timers.addr().do_send(ScheduleAtFixedRate::new(world.target(), twice(), large()));
        }),
        ("request, with a fixed delay", |world| {
            world.timers.addr().do_send(ScheduleWithFixedDelay::new(world.target(), twice(), large()));
        }),
        ("batch", |world| {
            let mut batch = ScheduleBatch::new();
            batch.after(world.target(), SOON, large()).after(world.target(), SOON, large());
            world.timers.addr().do_send(batch);
        }),
        ("cron", |world| {
            #[cfg(feature = "cron")]
            {
                let cron = actix_timers::Cron::new("* * * * * *").unwrap();
                world.timers.schedule_cron(world.target(), cron, large());
            }
            #[cfg(not(feature = "cron"))]
            world.after(world.target());
        }),
        ("cancel", |world| {
            let id = world.timers.schedule_after(world.target(), SOON, large());
            assert!(world.timers.cancel(id).is_cancelled());
            HANDLED.fetch_add(7, Ordering::SeqCst);
        }),
        ("drain", |world| {
            world.after(world.target());
            world.repeat(world.target());
            world.own(|ctx| _ = ctx.schedule_after(SOON, large()));
            world.timers.addr().do_send(Drain::now());
            HANDLED.fetch_add(7, Ordering::SeqCst);
        }),
        ("dead letter", |world| {
            let gone = Sink.start();
            world.timers.subscribe_dead_letters(world.sink.clone());
            world.after(Target::from(&gone));
            world.repeat(Target::from(&gone));
            gone.do_send(Run(|ctx| ctx.stop()));
        }),
    ]
}

async fn live(way: &str, step: Step) {
    HANDLED.store(0, Ordering::SeqCst);
    let clock = ManualClock::new();
    let timers = TimerActor::builder().clock(clock.clone()).install().unwrap();
    let world = World { clock, timers, sink: Sink.start() };
    step(&world);
    world.clock.settle().await;
    world.clock.advance(Duration::from_secs(2)).await;
    eventually(|| HANDLED.load(Ordering::SeqCst) > 0).await;
    println!("{way}: arrived");
}

/// A stack overflow ends the process, whose output then lacks the way.
#[test]
fn large_messages_fit_on_a_small_stack() {
    support::in_own_process!(large_messages_fit_on_a_small_stack, || {
        for (way, step) in ways() {
            let life = move || support::in_real_time(live(way, step));
            std::thread::Builder::new().stack_size(STACK).spawn(life).unwrap().join().unwrap();
        }
    });
}

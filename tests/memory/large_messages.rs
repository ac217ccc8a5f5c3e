//! Messages of 12 kB need no box: without optimization, where each move is a copy on the stack, 2 MiB, the default of a
//! thread, suffice for them on every way.
//!
//! A stack overflow ends the process, so each way runs in its own process, which is this test again.
#![allow(clippy::large_stack_arrays, clippy::large_types_passed_by_value)]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    DeadLetter, Drain, MailboxPolicy, ManualClock, MessageSource, Repeat, ScheduleAfter, ScheduleAt,
    ScheduleAtFixedRate, ScheduleBatch, ScheduleWithFixedDelay, Target, TimerActor, TimerContext, TimerOptions, Timers,
};

const STACK: usize = 2 << 20;

/// In the child: way and size.
const JOB: &str = "ACTIX_TIMERS_LARGE_MESSAGE";

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Large<const N: usize>([u8; N]);

impl<const N: usize> Message for Large<N> {
    type Result = ();
}

fn large<const N: usize>() -> Large<N> {
    Large([7; N])
}

struct Sink;

impl Actor for Sink {
    type Context = Context<Self>;
}

impl<const N: usize> Handler<Large<N>> for Sink {
    type Result = ();

    fn handle(&mut self, message: Large<N>, _: &mut Self::Context) {
        HANDLED.fetch_add(u64::from(message.0[N / 2]), Ordering::SeqCst);
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

struct World {
    clock: ManualClock,
    timers: Timers,
    sink: Addr<Sink>,
}

impl World {
    fn target<const N: usize>(&self) -> Target<Large<N>> {
        Target::from(&self.sink)
    }

    fn after<const N: usize>(&self, target: Target<Large<N>>) {
        self.timers.schedule_after(target, SOON, large::<N>());
    }

    fn repeat<const N: usize>(&self, target: Target<Large<N>>) {
        let every = Repeat::every(SOON).times(2);
        self.timers.schedule_at_fixed_rate(target.clone(), every, large::<N>());
        self.timers.schedule_with_fixed_delay(target, every, MessageSource::from_fn(large::<N>));
    }

    fn own<const N: usize>(&self) {
        self.sink.do_send(Run(|ctx| _ = ctx.schedule_after(SOON, large::<N>())));
    }
}

type Step<const N: usize> = fn(&World);

/// Returns the ways to send messages of `N` bytes.
fn ways<const N: usize>() -> Vec<(&'static str, Step<N>)> {
    vec![
        ("actix: do_send", |world| world.sink.do_send(large::<N>())),
        ("actix: try_send", |world| assert!(world.sink.clone().recipient().try_send(large::<N>()).is_ok())),
        ("actix: notify_later", |world| {
            world.sink.do_send(Run(|ctx| _ = ctx.notify_later(large::<N>(), Duration::ZERO)));
        }),
        ("own", World::own::<N>),
        ("own, with options", |world| {
            world.sink.do_send(Run(|ctx| {
                ctx.timer(TimerOptions::new().key("k")).schedule(SOON, large::<N>());
            }));
        }),
        ("own, at a fixed rate", |world| {
            world.sink.do_send(Run(|ctx| {
                ctx.schedule_at_fixed_rate(Repeat::every(SOON).times(2), large::<N>());
            }));
        }),
        ("own, with a fixed delay", |world| {
            world.sink.do_send(Run(|ctx| {
                ctx.schedule_with_fixed_delay(Repeat::every(SOON).times(2), large::<N>());
            }));
        }),
        ("target", |world| world.after::<N>(world.target())),
        ("target, with options", |world| {
            let options = TimerOptions::new().group("g");
            world.timers.timer(world.target::<N>(), options).schedule(SOON, large::<N>());
        }),
        ("window", |world| (0..3).for_each(|_| world.after::<N>(world.target().window(1)))),
        ("drop", |world| {
            (0..40).for_each(|_| world.after::<N>(world.target().mailbox_policy(MailboxPolicy::Discard { window: 8 })));
        }),
        ("tracked", |world| world.after::<N>(Target::tracked(&world.sink))),
        ("repeating", |world| world.repeat::<N>(world.target())),
        ("repeating, window", |world| world.repeat::<N>(world.target().window(1))),
        ("repeating, discard", |world| {
            world.repeat::<N>(world.target().mailbox_policy(MailboxPolicy::Discard { window: 8 }))
        }),
        ("repeating, tracked", |world| world.repeat::<N>(Target::tracked(&world.sink))),
        ("request", |world| {
            world.timers.addr().do_send(ScheduleAfter::new(world.target::<N>(), SOON, large::<N>()));
        }),
        ("request, at a time", |world| {
            let at = std::time::SystemTime::UNIX_EPOCH + SOON;
            world.timers.addr().do_send(ScheduleAt::new(world.target::<N>(), at, large::<N>()));
        }),
        ("request, at a fixed rate", |world| {
            let every = Repeat::every(SOON).times(2);
            world.timers.addr().do_send(ScheduleAtFixedRate::new(world.target::<N>(), every, large::<N>()));
        }),
        ("request, with a fixed delay", |world| {
            let every = Repeat::every(SOON).times(2);
            world.timers.addr().do_send(ScheduleWithFixedDelay::new(world.target::<N>(), every, large::<N>()));
        }),
        ("batch", |world| {
            let mut batch = ScheduleBatch::new();
            batch.after(world.target::<N>(), SOON, large::<N>()).after(world.target::<N>(), SOON, large::<N>());
            world.timers.addr().do_send(batch);
        }),
        ("cron", |world| {
            #[cfg(feature = "cron")]
            {
                let cron = actix_timers::Cron::new("* * * * * *").unwrap();
                world.timers.schedule_cron(world.target::<N>(), cron, large::<N>());
            }
            #[cfg(not(feature = "cron"))]
            world.after::<N>(world.target());
        }),
        ("cancel", |world| {
            let id = world.timers.schedule_after(world.target::<N>(), SOON, large::<N>());
            assert!(world.timers.cancel(id).is_cancelled());
            HANDLED.fetch_add(7, Ordering::SeqCst);
        }),
        ("drain", |world| {
            world.after::<N>(world.target());
            world.repeat::<N>(world.target());
            world.own::<N>();
            world.timers.addr().do_send(Drain::now());
            HANDLED.fetch_add(7, Ordering::SeqCst);
        }),
        ("dead letter", |world| {
            let gone = Sink.start();
            world.timers.subscribe_dead_letters(world.sink.clone());
            world.after::<N>(Target::from(&gone));
            world.repeat::<N>(Target::from(&gone));
            gone.do_send(Run(|ctx| ctx.stop()));
        }),
    ]
}

async fn live<const N: usize>(way: &str) {
    let clock = ManualClock::new();
    let timers = TimerActor::builder().clock(clock.clone()).install().unwrap();
    let world = World { clock, timers, sink: Sink.start() };
    let (_, step) = ways::<N>().into_iter().find(|(name, _)| *name == way).unwrap();
    step(&world);
    world.clock.settle().await;
    world.clock.advance(Duration::from_secs(2)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        if HANDLED.load(Ordering::SeqCst) > 0 {
            break;
        }
        std::thread::yield_now();
        tokio::time::sleep(SOON).await;
    }
    assert!(HANDLED.load(Ordering::SeqCst) > 0, "{way}: nothing has arrived");
}

fn on_a_small_stack<const N: usize>(way: String) {
    let life = move || support::in_real_time(live::<N>(&way));
    std::thread::Builder::new().stack_size(STACK).spawn(life).unwrap().join().unwrap();
}

const KB: usize = 1 << 10;

/// The child's part.
#[test]
fn a_child_lives_through_one_way() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (size, way) = job.split_once(' ').unwrap();
    let way = way.to_owned();
    match size.parse::<usize>().unwrap() {
        4 => on_a_small_stack::<{ 4 * KB }>(way),
        8 => on_a_small_stack::<{ 8 * KB }>(way),
        12 => on_a_small_stack::<{ 12 * KB }>(way),
        16 => on_a_small_stack::<{ 16 * KB }>(way),
        32 => on_a_small_stack::<{ 32 * KB }>(way),
        64 => on_a_small_stack::<{ 64 * KB }>(way),
        96 => on_a_small_stack::<{ 96 * KB }>(way),
        128 => on_a_small_stack::<{ 128 * KB }>(way),
        224 => on_a_small_stack::<{ 224 * KB }>(way),
        320 => on_a_small_stack::<{ 320 * KB }>(way),
        other => panic!("{other} kB"),
    }
}

fn survives(way: &str, size: usize) -> bool {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "large_messages::a_child_lives_through_one_way"])
        .env(JOB, format!("{size} {way}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    child.unwrap().success()
}

/// The size in kB that every way has to survive. Larger messages belong in a box.
const FLOOR: usize = 12;

#[test]
fn large_messages_fit_on_a_small_stack() {
    if std::env::var(JOB).is_ok() {
        return;
    }
    for (way, _) in ways::<1>() {
        assert!(survives(way, FLOOR), "{way}: {FLOOR} kB");
    }
}

/// Prints the largest message that each way survives, in kB.
#[test]
#[ignore = "a measurement"]
fn the_largest_message_of_each_way() {
    for (way, _) in ways::<1>() {
        let sizes = [4, 8, 12, 16, 32, 64, 96, 128, 224, 320];
        let most = sizes.into_iter().take_while(|size| survives(way, *size)).last();
        println!("{way:<28} {most:?}");
    }
}

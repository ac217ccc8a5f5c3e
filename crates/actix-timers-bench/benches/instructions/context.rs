//! The whole path of an actor's own timers, and of timers that are sent to it as a recipient: context or request, the
//! counters, the engine, and for delivery the inbox and the handler. Messages, and the captures of closures, have 32
//! bytes. The same again with the Prometheus recorder installed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{
    Cancel, ManualClock, ScheduleAfter, Target, TimerActor, TimerActorBuilder, TimerContext, TimerId, Timers,
    impl_due_timers,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::sync::oneshot;

use crate::Operation;
use bench::random::Random;

const TIMERS: usize = 20_000;
/// The sum of their numbers.
const SUM: u64 = TIMERS as u64 * (TIMERS as u64 - 1) / 2;

/// Messages under way to a recipient with a window.
const WINDOW: usize = 64;

pub(crate) fn operations() -> Vec<Operation> {
    let operation = |name, counted, work| Operation { name, counted, entries: TIMERS as u64, work };
    vec![
        operation("context start", "counted_schedule", start::<false>),
        operation("context stop", "counted_cancel", stop::<false>),
        operation("context churn", "counted_replace", churn),
        operation("context fire", "counted_delivery", fire::<false>),
        operation("closure start", "counted_run_after", start::<true>),
        operation("closure stop", "counted_cancel", stop::<true>),
        operation("closure fire", "counted_delivery", fire::<true>),
        operation("recipient fire", "counted_delivery", || send(|addr| Target::from(addr))),
        operation("windowed fire", "counted_delivery", || send(|addr| Target::from(addr).window(WINDOW))),
        operation("tracked fire", "counted_delivery", || send(Target::tracked)),
        operation("recipients fire", "counted_delivery", send_to_each),
        operation("recipients do_send", "counted_sends", do_send_to_each),
        operation("request start", "counted_requests", request),
        operation("request do_send", "counted_sends", do_send),
        operation("recorded start", "counted_schedule", || recorded(start::<false>)),
        operation("recorded stop", "counted_cancel", || recorded(stop::<false>)),
        operation("recorded fire", "counted_delivery", || recorded(fire::<false>)),
        operation("recorded recipient fire", "counted_delivery", || recorded(|| send(|addr| Target::from(addr)))),
    ]
}

#[derive(Message)]
#[rtype(result = "()")]
struct Note([u64; 4]);

/// Runs a function with the actor's context.
#[derive(Message)]
#[rtype(result = "()")]
struct Do(fn(&mut Owner, &mut Context<Owner>));

struct Owner {
    random: Random,
    ids: Vec<TimerId>,
    received: Rc<Received>,
}

impl Owner {
    fn schedule<const AS_CLOSURES: bool>(&mut self, ctx: &mut Context<Self>) {
        if AS_CLOSURES { self.counted_run_after(ctx) } else { self.counted_schedule(ctx) }
    }

    #[inline(never)]
    fn counted_schedule(&mut self, ctx: &mut Context<Self>) {
        for number in 0..TIMERS as u64 {
            let delay = self.random.delay();
            self.ids.push(ctx.schedule_after(delay, Note([number; 4])));
        }
    }

    #[inline(never)]
    fn counted_run_after(&mut self, ctx: &mut Context<Self>) {
        for number in 0..TIMERS as u64 {
            let (delay, note) = (self.random.delay(), Note([number; 4]));
            self.ids.push(ctx.run_after(delay, handle(note)));
        }
    }

    #[inline(never)]
    fn counted_cancel(&mut self, ctx: &mut Context<Self>) {
        for id in &self.ids {
            assert!(ctx.cancel_timer(*id).is_cancelled());
        }
    }

    #[inline(never)]
    fn counted_replace(&mut self, ctx: &mut Context<Self>) {
        for number in 0..TIMERS as u64 {
            let delay = self.random.delay();
            let fresh = ctx.schedule_after(delay, Note([number; 4]));
            let place = self.random.index(TIMERS);
            let old = std::mem::replace(&mut self.ids[place], fresh);
            assert!(ctx.cancel_timer(old).is_cancelled());
        }
    }
}

/// Returns a closure whose type does not name the counted function that schedules it, as the functions that drop it do.
fn handle(note: Note) -> impl FnOnce(&mut Owner, &mut Context<Owner>) {
    move |owner, ctx| owner.handle(note, ctx)
}

impl Actor for Owner {
    type Context = Context<Self>;
}

impl_due_timers!(Owner);

impl Handler<Do> for Owner {
    type Result = ();

    fn handle(&mut self, Do(work): Do, ctx: &mut Self::Context) {
        work(self, ctx);
    }
}

impl Handler<Note> for Owner {
    type Result = ();

    fn handle(&mut self, note: Note, _: &mut Self::Context) {
        self.received.add(note);
    }
}

/// One of many recipients, each of which gets one message.
struct Each(Rc<Received>);

impl Actor for Each {
    type Context = Context<Self>;
}

impl Handler<Note> for Each {
    type Result = ();

    fn handle(&mut self, note: Note, _: &mut Self::Context) {
        self.0.add(note);
    }
}

#[derive(Default)]
struct Received {
    messages: Cell<usize>,
    sum: Cell<u64>,
    all: Cell<Option<oneshot::Sender<u64>>>,
}

impl Received {
    #[inline(always)]
    fn add(&self, Note(numbers): Note) {
        self.sum.set(self.sum.get() + numbers[0]);
        self.messages.set(self.messages.get() + 1);
        if self.messages.get() == TIMERS
            && let Some(all) = self.all.take()
        {
            let _ = all.send(self.sum.get());
        }
    }
}

/// A system with one actor.
struct World {
    runner: SystemRunner,
    timers: Timers,
    owner: Addr<Owner>,
    received: Rc<Received>,
    all_received: oneshot::Receiver<u64>,
}

impl World {
    fn new(builder: TimerActorBuilder) -> Self {
        let runner = System::new();
        let (sender, all_received) = oneshot::channel();
        let received = Rc::new(Received { all: Cell::new(Some(sender)), ..Received::default() });
        let (timers, owner) = runner.block_on(async {
            let timers = builder.install().unwrap();
            let ids = Vec::with_capacity(TIMERS);
            (timers, Owner { random: Random::new(1), ids, received: Rc::clone(&received) }.start())
        });
        Self { runner, timers, owner, received, all_received }
    }

    /// Starts a recipient for each message.
    fn add_recipients(&self) -> Vec<Addr<Each>> {
        let start = async { (0..TIMERS).map(|_| Each(Rc::clone(&self.received)).start()).collect() };
        let recipients = self.runner.block_on(start);
        // A new task comes after all that are ready: each context has been polled then.
        self.runner.block_on(async { actix::spawn(async {}).await.unwrap() });
        recipients
    }

    fn act(&self, work: fn(&mut Owner, &mut Context<Owner>)) {
        self.runner.block_on(self.owner.send(Do(work))).unwrap();
    }
}

/// Runs the work with recorded metrics. Each operation has its own process, without an earlier recorder.
fn recorded(work: fn()) {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets).unwrap();
    }
    let handle = builder.install_recorder().unwrap();
    work();
    let page = actix_timers::scrape(|| handle.render());
    let scheduled = page.lines().find(|line| line.starts_with("actix_timers_scheduled_total{"));
    assert!(scheduled.is_some_and(|line| line.ends_with(&format!(" {TIMERS}"))), "{page}");
}

/// Schedules all, with a new actor and a new timer actor.
fn start<const AS_CLOSURES: bool>() {
    let world = World::new(TimerActor::builder());
    world.act(|owner, ctx| owner.schedule::<AS_CLOSURES>(ctx));
    world.act(|owner, _| assert_eq!(owner.ids.len(), TIMERS));
}

/// Cancels all by id, in shuffled order.
fn stop<const AS_CLOSURES: bool>() {
    let world = World::new(TimerActor::builder());
    world.act(|owner, ctx| {
        owner.schedule::<AS_CLOSURES>(ctx);
        owner.random.shuffle(&mut owner.ids);
        owner.counted_cancel(ctx);
    });
}

/// Schedules one and cancels a random one, with all others pending.
fn churn() {
    let world = World::new(TimerActor::builder());
    world.act(|owner, ctx| {
        owner.counted_schedule(ctx);
        owner.counted_replace(ctx);
    });
}

/// Delivers all that `schedule` schedules, which are due at once: cascades, turns of the driver, inbox and handlers. A
/// manual clock makes the number of turns independent of real time.
fn deliver(schedule: impl FnOnce(&World)) {
    let clock = ManualClock::new();
    let mut world = World::new(TimerActor::builder().clock(clock.clone()));
    schedule(&world);
    assert_eq!(counted_delivery(&mut world, &clock), SUM);
}

fn fire<const AS_CLOSURES: bool>() {
    deliver(|world| world.act(|owner, ctx| owner.schedule::<AS_CLOSURES>(ctx)));
}

/// The same for messages sent to the actor as a recipient.
fn send(target: fn(&Addr<Owner>) -> Target<Note>) {
    deliver(|world| {
        let mut random = Random::new(1);
        for number in 0..TIMERS as u64 {
            world.timers.schedule_after(target(&world.owner), random.delay(), Note([number; 4]));
        }
    });
}

/// The same with a recipient for each message.
fn send_to_each() {
    let mut recipients = Vec::new();
    deliver(|world| {
        recipients = world.add_recipients();
        let mut random = Random::new(1);
        for (number, recipient) in recipients.iter().enumerate() {
            world.timers.schedule_after(recipient, random.delay(), Note([number as u64; 4]));
        }
    });
}

/// The share of actix in that: the messages are sent at once.
fn do_send_to_each() {
    let mut world = World::new(TimerActor::builder());
    let recipients = world.add_recipients();
    counted_sends(&mut world, |number| recipients[number].do_send(Note([number as u64; 4])));
}

/// Requests to the timer actor, as from another arbiter, until the last is handled.
fn request() {
    let mut world = World::new(TimerActor::builder());
    let (timers, target) = (world.timers.addr().clone(), Target::from(&world.owner));
    counted_requests(&mut world, |number| {
        timers.do_send(ScheduleAfter::new(&target, Duration::from_secs(60 + number as u64), Note([number as u64; 4])));
    });
    assert_eq!(world.timers.snapshot().counters.pending, TIMERS as u64);
}

/// The share of actix in that: messages of the same size to an actor that does nothing with them.
fn do_send() {
    let mut world = World::new(TimerActor::builder());
    let owner = world.owner.clone();
    counted_sends(&mut world, |number| owner.do_send(Note([number as u64; 4])));
}

#[inline(never)]
fn counted_sends(world: &mut World, send: impl Fn(usize)) {
    (0..TIMERS).for_each(send);
    assert_eq!(world.runner.block_on(&mut world.all_received).unwrap(), SUM);
}

#[inline(never)]
fn counted_requests(world: &mut World, send: impl Fn(usize)) {
    (0..TIMERS).for_each(send);
    world.runner.block_on(world.timers.addr().send(Cancel(TimerId::new()))).unwrap();
}

#[inline(never)]
fn counted_delivery(world: &mut World, clock: &ManualClock) -> u64 {
    clock.jump(Duration::from_secs(3600));
    world.runner.block_on(&mut world.all_received).unwrap()
}

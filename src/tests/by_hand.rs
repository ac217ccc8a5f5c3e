//! The service step by step: the test polls the contexts itself, and acts as the watchdog.
//!
//! This file covers the turn protocol; `recipient_queues`, `inboxes`, `calls` and `watched` cover the rest.

mod calls;
mod inboxes;
mod recipient_queues;
mod watched;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use actix::dev::ContextFut;
use actix::prelude::*;

use crate::api::timer_actor::TimerActor;
use crate::engine::OwnerId;
use crate::service::deliver::driver::TurnResult;
use crate::service::deliver::turns::TurnBy;
use crate::service::lane::lanes::Progress;
use crate::service::owner::thread_registry;
use crate::service::state::{Service, Session};
use crate::tests::fixture::ms;
use crate::{
    Alarm, CancelOutcome, Clock, DeadLetter, ManualClock, MessageSource, Repeat, RequestTime, Target,
    TimerActorBuilder, TimerContext, TimerId, TimerOptions, Timers,
};

/// The context of a listener, to be polled.
type Listening = Box<ContextFut<Listener, Context<Listener>>>;

thread_local! {
    /// The timer that a listener has scheduled last.
    static LAST_OWN: Cell<Option<TimerId>> = const { Cell::new(None) };
    /// A listener that is polled during an operation.
    static POLLED: RefCell<Option<Listening>> = const { RefCell::new(None) };
    /// A listener that is restarted during an operation.
    static RESTARTS: RefCell<Option<Listening>> = const { RefCell::new(None) };
}

/// User code that runs during an operation.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn call(hook: &Hook) {
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Number(u32, Hook);

impl Drop for Number {
    fn drop(&mut self) {
        call(&self.1);
    }
}

fn number(number: u32) -> Number {
    Number(number, Hook::default())
}

struct Listener(Arc<Mutex<Vec<u32>>>);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Supervised for Listener {}

impl Handler<Number> for Listener {
    type Result = ();

    fn handle(&mut self, number: Number, _: &mut Context<Self>) {
        self.0.lock().unwrap().push(number.0);
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct After(u64, Number);

impl Handler<After> for Listener {
    type Result = ();

    fn handle(&mut self, After(delay, number): After, ctx: &mut Context<Self>) {
        LAST_OWN.set(Some(ctx.schedule_after(Duration::from_millis(delay), number)));
    }
}

/// Schedules one message by a repeating timer. The hook is called while the message is produced.
#[derive(Message)]
#[rtype(result = "()")]
struct StartRepeating(u32, Hook);

impl Handler<StartRepeating> for Listener {
    type Result = ();

    fn handle(&mut self, StartRepeating(message, hook): StartRepeating, ctx: &mut Context<Self>) {
        ctx.schedule_at_fixed_rate(Repeat::every(ms(10)).times(1), made(message, hook));
    }
}

/// Returns a source that calls the hook during production.
fn made(message: u32, hook: Hook) -> MessageSource<Number> {
    MessageSource::from_fn(move || {
        call(&hook);
        number(message)
    })
}

/// Spawns a future that calls the hook at each poll of the context's items; before the inbox, if spawned first.
#[derive(Message)]
#[rtype(result = "()")]
struct Between(Hook);

impl Handler<Between> for Listener {
    type Result = ();

    fn handle(&mut self, Between(hook): Between, ctx: &mut Context<Self>) {
        ctx.spawn(actix::fut::wrap_future(std::future::poll_fn(move |_| {
            call(&hook);
            Poll::Pending
        })));
    }
}

/// Runs a job with the context.
#[derive(Message)]
#[rtype(result = "()")]
struct Run(Job);

type Job = Box<dyn FnOnce(&mut Context<Listener>) + Send>;

impl Handler<Run> for Listener {
    type Result = ();

    fn handle(&mut self, Run(job): Run, ctx: &mut Context<Self>) {
        job(ctx);
    }
}

/// A message whose handler answers with a future that never ends.
#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Endless(u32);

impl Handler<Endless> for Listener {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Endless(number): Endless, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(number);
        Box::pin(actix::fut::wrap_future(std::future::pending()))
    }
}

/// Collects dead letters.
#[derive(Default)]
struct Clerk(Arc<Mutex<Vec<DeadLetter>>>);

impl Actor for Clerk {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Clerk {
    type Result = ();

    fn handle(&mut self, letter: DeadLetter, _: &mut Context<Self>) {
        self.0.lock().unwrap().push(letter);
    }
}

/// A manual clock that runs user code at each reading, until that returns true, and records its alarms.
#[derive(Clone)]
struct Observed {
    hands: ManualClock,
    reading: Reading,
    alarms: Arc<Mutex<Vec<Duration>>>,
}

/// User code that returns true when it is done.
type Reading = Arc<Mutex<Option<Box<dyn FnMut() -> bool + Send>>>>;

impl Clock for Observed {
    fn now(&self) -> Duration {
        let reading = self.reading.lock().unwrap().take();
        if let Some(mut reading) = reading
            && !reading()
        {
            *self.reading.lock().unwrap() = Some(reading);
        }
        self.hands.now()
    }

    fn wall(&self) -> SystemTime {
        self.hands.wall()
    }

    fn since(&self, instant: tokio::time::Instant) -> Duration {
        self.hands.since(instant)
    }

    fn since_request(&self, made: RequestTime) -> Duration {
        self.hands.since_request(made)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.alarms.lock().unwrap().push(time);
        self.hands.alarm(time)
    }

    fn wall_is_steady(&self) -> bool {
        true
    }
}

/// Counts wake-ups, and runs a hook at the next one.
#[derive(Default)]
struct Called {
    calls: AtomicUsize,
    hook: Hook,
}

impl Called {
    fn take(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }
}

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        call(&self.hook);
    }
}

fn poll<A: Actor<Context = Context<A>>>(context: &mut ContextFut<A, Context<A>>, called: &Arc<Called>) {
    let waker = Waker::from(Arc::clone(called));
    assert!(Pin::new(context).poll(&mut TaskContext::from_waker(&waker)) == Poll::Pending);
}

/// An actor that only the test polls.
struct Ear {
    addr: Addr<Listener>,
    context: Listening,
    called: Arc<Called>,
    log: Arc<Mutex<Vec<u32>>>,
}

impl Ear {
    fn new() -> Self {
        let log = Arc::default();
        let context = Context::new();
        let addr = context.address();
        let context = Box::new(context.into_future(Listener(Arc::clone(&log))));
        let mut ear = Self { addr, context, called: Arc::default(), log };
        ear.poll();
        ear
    }

    fn poll(&mut self) {
        poll(&mut self.context, &self.called);
    }

    fn log(&self) -> Vec<u32> {
        self.log.lock().unwrap().clone()
    }
}

/// A timer actor and an actor that only the test polls.
struct World {
    clock: ManualClock,
    reading: Reading,
    alarms: Arc<Mutex<Vec<Duration>>>,
    service: Arc<Service>,
    timers: Timers,
    driver: Box<ContextFut<TimerActor, Context<TimerActor>>>,
    driver_called: Arc<Called>,
    addr: Addr<Listener>,
    listener: Listening,
    listener_called: Arc<Called>,
    log: Arc<Mutex<Vec<u32>>>,
}

impl World {
    fn new() -> Self {
        Self::with(TimerActorBuilder::default(), ManualClock::new())
    }

    fn with(builder: TimerActorBuilder, clock: ManualClock) -> Self {
        let observed = Observed { hands: clock, reading: Reading::default(), alarms: Arc::default() };
        Self::of(builder.clock(observed.clone()).build().unwrap(), observed)
    }

    fn of(actor: TimerActor, Observed { hands, reading, alarms }: Observed) -> Self {
        let service = Arc::clone(actor.service());
        let context = Context::new();
        let timers = Timers::new(Arc::clone(&service), context.address());
        thread_registry::set_current(&service);
        let Ear { addr, context: listener, called: listener_called, log } = Ear::new();
        let mut world = Self {
            clock: hands,
            reading,
            alarms,
            service,
            timers,
            driver: Box::new(context.into_future(actor)),
            driver_called: Arc::default(),
            addr,
            listener,
            listener_called,
            log,
        };
        world.poll_driver();
        world
    }

    /// Runs `job` at a clock reading while `id` is in flight: out of its queue, and not in a mailbox yet.
    fn when_in_flight(&self, id: TimerId, job: impl FnOnce() + Send + 'static) {
        let (service, mut job) = (Arc::clone(&self.service), Some(job));
        *self.reading.lock().unwrap() = Some(Box::new(move || {
            let is_waiting = service.get(id).is_some_and(|timer| timer.location.as_str() != "flight");
            match job.take_if(|_| !is_waiting) {
                Some(job) => {
                    job();
                    true
                }
                None => false,
            }
        }));
    }

    /// Subscribes to dead letters. The function that it returns handles those in the subscriber's mailbox.
    fn letters(&self) -> impl FnOnce() -> Vec<DeadLetter> + use<> {
        let (clerk, office) = (Clerk::default(), Context::new());
        let (letters, addr) = (Arc::clone(&clerk.0), office.address());
        self.timers.subscribe_dead_letters(addr.clone());
        let mut office = Box::new(office.into_future(clerk));
        move || {
            poll(&mut office, &Arc::default());
            drop(addr);
            std::mem::take(&mut letters.lock().unwrap())
        }
    }

    /// Runs `job` with the listener's context.
    fn run(&mut self, job: impl FnOnce(&mut Context<Listener>) + Send + 'static) {
        self.addr.do_send(Run(Box::new(job)));
        self.poll_listener();
    }

    /// Polls both contexts until neither has been woken.
    fn go_on(&mut self) {
        loop {
            match (self.driver_called.take() > 0, self.listener_called.take() > 0) {
                (false, false) => return,
                (driver, listener) => {
                    if driver {
                        self.poll_driver();
                    }
                    if listener {
                        self.poll_listener();
                    }
                }
            }
        }
    }

    fn owner(&self) -> OwnerId {
        *self.service.state().lanes.own.values().next().unwrap()
    }

    fn poll_driver(&mut self) {
        poll(&mut self.driver, &self.driver_called);
    }

    fn poll_listener(&mut self) {
        poll(&mut self.listener, &self.listener_called);
    }

    /// Lets the listener schedule a message to itself.
    fn own(&mut self, delay: u64, number: Number) {
        self.addr.do_send(After(delay, number));
        self.poll_listener();
    }

    fn log(&self) -> Vec<u32> {
        self.log.lock().unwrap().clone()
    }
}

/// Returns a target whose actor is gone: a message for it is dropped in the turn in which it is due.
fn dead_target() -> Target<Number> {
    let context = Context::<Listener>::new();
    let target = Target::from(context.address());
    drop(context);
    target
}

/// Serves the lane of an owner that the watchdog has found starved.
fn post_own(service: &Arc<Service>, owner: OwnerId) {
    service.state().engine.owner_mut(owner).unwrap().progress = Progress::Starved;
    Session::new(service).serve(owner);
}

/// The driver finds the turn taken and goes to sleep without an alarm. It must be woken after the turn.
#[test]
fn a_driver_that_found_the_turn_taken_is_called_after_it() {
    let mut world = World::new();
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(10), number(1));
    world.poll_driver();
    world.driver_called.take();

    let service = Arc::clone(&world.service);
    let claim = service.turns.claim(TurnBy::Watchdog);
    assert!(claim.is_some());
    world.clock.jump(ms(10));
    assert_eq!(world.driver_called.take(), 1, "by its alarm");
    world.poll_driver();
    assert!(world.log().is_empty(), "the turn is taken");
    drop(claim);
    assert!(world.driver_called.take() > 0, "otherwise it would sleep for ever");
    world.poll_driver();
    world.poll_listener();
    assert_eq!(world.log(), [1]);
}

/// The same for a turn of the watchdog: the driver is polled during it.
#[test]
fn the_watchdog_calls_the_driver_after_its_turn() {
    let mut world = World::new();
    let target = world.addr.clone();
    let driver = Hook::default();
    world.timers.schedule_after(dead_target(), ms(10), Number(0, Arc::clone(&driver)));
    world.timers.schedule_after(&target, ms(50), number(1));
    world.poll_driver();
    world.clock.jump(ms(30));
    world.driver_called.take();

    let service = Arc::clone(&world.service);
    let found = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&found);
    *driver.lock().unwrap() = Some(Box::new(move || {
        *seen.lock().unwrap() = Some(matches!(service.turn(TurnBy::Driver), TurnResult::Taken));
    }));
    assert!(matches!(world.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    assert_eq!(*found.lock().unwrap(), Some(true), "in the middle of the turn it is taken");
    assert!(world.driver_called.take() > 0, "it has to set its alarm");
    world.poll_driver();
    world.clock.jump(ms(20));
    assert_eq!(world.driver_called.take(), 1, "by its alarm");
}

crate::impl_due_timers!(Listener);

/// Two messages are due for a window of one. While a bell for the first is being sent, a drain gives it back, and the
/// second, which the driver is sending, is pulled.
#[test]
fn a_drain_leaves_a_bell_to_a_message_of_the_driver() {
    let mut world = World::new();
    let target = Target::tracked(&world.addr).window(1);
    world.timers.schedule_after(&target, ms(10), number(1));
    world.timers.schedule_after(&target, ms(10), number(2));
    world.poll_driver();
    world.clock.jump(ms(10));
    let (service, drained) = (Arc::clone(&world.service), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&drained);
    *world.listener_called.hook.lock().unwrap() = Some(Box::new(move || {
        count.store(service.drain().len(), Ordering::SeqCst);
    }));
    for _ in 0..4 {
        world.poll_driver();
        world.poll_listener();
    }
    assert_eq!((drained.load(Ordering::SeqCst), world.log()), (1, vec![2]));
    assert_eq!(world.timers.snapshot().pending(), 0);
}

/// A handler has run before the watchdog notes that its message is sent. The watchdog continues with the next late message by itself, and not after another 20 ms.
#[test]
fn the_watchdog_goes_on_after_a_handler_quicker_than_its_sender() {
    let mut world = World::new();
    world.own(10, number(1));
    world.own(10, number(2));
    let second = LAST_OWN.take().unwrap();
    world.poll_driver();
    world.clock.jump(ms(40));
    assert!(matches!(world.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    let owner = world.owner();
    world.service.state().watch_inbox(owner, ms(10));

    let called = Arc::clone(&world.listener_called);
    *called.hook.lock().unwrap() = Some(Box::new(|| {
        let mut listener = POLLED.take().unwrap();
        poll(&mut listener, &Arc::default());
        POLLED.set(Some(listener));
    }));
    let idle = Box::new(Context::new().into_future(Listener(Arc::default())));
    POLLED.set(Some(std::mem::replace(&mut world.listener, idle)));
    assert!(world.service.find_starved());
    assert!(matches!(world.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    world.listener = POLLED.take().unwrap();
    assert_eq!(world.log(), [1]);
    assert_eq!(world.timers.cancel(second), CancelOutcome::AlreadyDelivered, "it is on its way");
    (0..2).for_each(|_| world.poll_listener());
    assert_eq!(world.log(), [1, 2]);
}

/// Counts the self-wake-ups of a listener that is polled twice while the hook runs.
fn calls_while(hook: &Hook, world: &mut World, work: impl FnOnce(&Arc<Service>)) -> usize {
    let calls = Arc::new(AtomicUsize::new(usize::MAX));
    let (called, counted) = (Arc::clone(&world.listener_called), Arc::clone(&calls));
    *hook.lock().unwrap() = Some(Box::new(move || {
        let mut listener = POLLED.take().unwrap();
        poll(&mut listener, &called);
        called.take();
        poll(&mut listener, &called);
        counted.store(called.take(), Ordering::SeqCst);
        POLLED.set(Some(listener));
    }));
    let idle = Box::new(Context::new().into_future(Listener(Arc::default())));
    POLLED.set(Some(std::mem::replace(&mut world.listener, idle)));
    work(&world.service);
    world.listener = POLLED.take().unwrap();
    calls.load(Ordering::SeqCst)
}

/// The watchdog makes an own message for an actor whose inbox is polled meanwhile. The inbox waits until the message is
/// sent, without polling itself: user code may take any time.
#[test]
fn an_inbox_sleeps_while_the_watchdog_makes_its_message() {
    let (mut world, hook) = (World::new(), Hook::default());
    world.addr.do_send(StartRepeating(1, Arc::clone(&hook)));
    world.poll_listener();
    world.own(10, number(2));
    world.poll_driver();
    world.clock.jump(ms(40));
    assert!(matches!(world.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    let owner = world.owner();

    let calls = calls_while(&hook, &mut world, |service| {
        post_own(service, owner);
    });
    assert_eq!(calls, 0);
    assert!(world.listener_called.take() > 0, "the inbox is woken");
    (0..3).for_each(|_| world.poll_listener());
    assert_eq!(world.log(), [1, 2]);
}

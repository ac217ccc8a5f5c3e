//! The service step by step: the tests poll the contexts themselves, and act as the watchdog.

mod calls;
mod inboxes;
mod recipient_queues;
mod watched;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use actix::dev::ContextFut;
use actix::prelude::*;

use crate::api::timer_actor::TimerActor;
use crate::engine::OwnerId;
use crate::metrics::WakeupCause;
use crate::service::deliver::driver::TurnResult;
use crate::service::lane::lanes::Progress;
use crate::service::owner::thread_registry;
use crate::service::state::{Service, Session};
use crate::tests::fixture::ms;
use crate::{
    CancelOutcome, DeadLetter, ManualClock, MessageSource, Repeat, Target, TimerActorBuilder, TimerContext, TimerId,
    TimerOptions, Timers,
};

/// The context of a listener, to be polled.
type Listening = Box<ContextFut<Listener, Context<Listener>>>;

thread_local! {
    /// A listener in the hands of hooks, which poll it, restart it or drop it.
    static ELSEWHERE: RefCell<Option<Listening>> = const { RefCell::new(None) };
}

/// User code that runs during an operation.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

fn set_hook(hook: &Hook, code: impl FnOnce() + Send + 'static) {
    *hook.lock().unwrap() = Some(Box::new(code));
}

fn is_called(hook: &Hook) -> bool {
    hook.lock().unwrap().is_none()
}

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

/// Returns a source that calls the hook during production.
fn made(message: u32, hook: Hook) -> MessageSource<Number> {
    MessageSource::from_fn(move || {
        call(&hook);
        number(message)
    })
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

/// A dead letter in the log.
const LETTER: u32 = u32::MAX;

impl Handler<DeadLetter> for Listener {
    type Result = ();

    fn handle(&mut self, _: DeadLetter, _: &mut Self::Context) {
        self.0.lock().unwrap().push(LETTER);
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

    /// Polls it with a waker whose last copy calls the hook when it is dropped, by a later poll.
    fn poll_with_last(&mut self, hook: &Hook) {
        let waker = Waker::from(Arc::new(Last(Arc::clone(hook))));
        assert!(Pin::new(&mut *self.context).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }

    /// Runs `job` with its context.
    fn run<R: Send + 'static>(&mut self, job: impl FnOnce(&mut Context<Listener>) -> R + Send + 'static) -> R {
        let (answer, result) = std::sync::mpsc::channel();
        self.addr.do_send(Run(Box::new(move |ctx| answer.send(job(ctx)).unwrap())));
        self.poll();
        result.try_recv().unwrap()
    }

    /// Lets it schedule a message to itself.
    fn own(&mut self, delay: u64, number: Number) -> TimerId {
        self.run(move |ctx| ctx.schedule_after(ms(delay), number))
    }

    /// Spawns a future that calls the hook at each poll of the context's items; before the inbox, if spawned first.
    fn between(&mut self, hook: &Hook) {
        let hook = Arc::clone(hook);
        self.run(move |ctx| {
            ctx.spawn(actix::fut::wrap_future(std::future::poll_fn(move |_| {
                call(&hook);
                Poll::Pending
            })));
        });
    }

    fn lose_address(&mut self) {
        self.addr = Context::new().address();
    }

    /// Leaves its context to hooks during `work`.
    fn elsewhere_during(&mut self, work: impl FnOnce()) {
        let idle = Box::new(Context::new().into_future(Listener(Arc::default())));
        ELSEWHERE.set(Some(std::mem::replace(&mut self.context, idle)));
        work();
        if let Some(context) = ELSEWHERE.take() {
            self.context = context;
        }
    }

    fn log(&self) -> Vec<u32> {
        self.log.lock().unwrap().clone()
    }
}

/// A waker that runs a hook when its last copy is dropped.
struct Last(Hook);

impl Wake for Last {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Last {
    fn drop(&mut self) {
        call(&self.0);
    }
}

/// A timer actor and an actor that only the test polls.
struct World {
    clock: ManualClock,
    service: Arc<Service>,
    timers: Timers,
    driver: Box<ContextFut<TimerActor, Context<TimerActor>>>,
    driver_called: Arc<Called>,
    ear: Ear,
}

impl World {
    fn new() -> Self {
        Self::with(TimerActorBuilder::default(), ManualClock::new())
    }

    fn with(builder: TimerActorBuilder, clock: ManualClock) -> Self {
        Self::of(builder.clock(clock.clone()).build().unwrap(), clock)
    }

    fn of(actor: TimerActor, clock: ManualClock) -> Self {
        let service = Arc::clone(actor.service());
        let context = Context::new();
        let timers = Timers::new(Arc::clone(&service), context.address());
        thread_registry::set_current(&service);
        let driver = Box::new(context.into_future(actor));
        let mut world = Self { clock, service, timers, driver, driver_called: Arc::default(), ear: Ear::new() };
        world.poll_driver();
        world
    }

    /// Schedules a message for the listener.
    fn after(&self, delay: u64, name: u32) -> TimerId {
        self.timers.schedule_after(&self.ear.addr, ms(delay), number(name))
    }

    /// Returns a subscriber to dead letters.
    fn clerk(&self) -> Ear {
        let clerk = Ear::new();
        self.timers.subscribe_dead_letters(clerk.addr.clone());
        clerk
    }

    /// Polls both contexts until neither has been woken.
    fn go_on(&mut self) {
        loop {
            match (self.driver_called.take() > 0, self.ear.called.take() > 0) {
                (false, false) => return,
                (driver, listener) => {
                    if driver {
                        self.poll_driver();
                    }
                    if listener {
                        self.ear.poll();
                    }
                }
            }
        }
    }

    fn owner(&self) -> OwnerId {
        let state = self.service.state();
        state.engine.owner_at(*state.lanes.own.values().next().unwrap()).unwrap()
    }

    fn place(&self, id: TimerId) -> Option<&'static str> {
        self.timers.get(id).map(|timer| timer.location.as_str())
    }

    fn poll_driver(&mut self) {
        poll(&mut self.driver, &self.driver_called);
    }

    /// Lets `by` pass, and polls the driver.
    fn driver_at(&mut self, by: u64) {
        self.clock.jump(ms(by));
        self.poll_driver();
    }

    /// Lets `by` pass, and the watchdog take a turn.
    fn watch_at(&self, by: u64) {
        self.clock.jump(ms(by));
        assert!(matches!(self.service.turn(WakeupCause::Watchdog), TurnResult::Sleep(_)));
    }
}

/// Serves the lane of an owner that the watchdog has found starved.
fn post_own(service: &Arc<Service>, owner: OwnerId) {
    service.state().engine.owner_mut(owner).unwrap().progress = Progress::Starved;
    Session::new(service).serve(owner, 1);
}

crate::impl_due_timers!(Listener);

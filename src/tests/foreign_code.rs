//! No user code runs under the lock: messages, their copies and sources, computed times, handlers' answers, clocks,
//! wakers and addresses check at each use and drop whether it is held.
//!
//! All runs on one thread, on a clock that the watchdog does not cover: if the lock is held, it is held around this
//! very call.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use actix::prelude::*;

use crate::api::batch::ScheduleBatch;
use crate::api::context::TimerContext;
use crate::api::drain::Drain;
use crate::api::messages::{Cancel, Reschedule};
use crate::api::schedule_requests::{ScheduleAfter, ScheduleAtFixedRate, ScheduleWithFixedDelay};
use crate::api::timer_actor::TimerActor;
use crate::api::timers::Timers;
use crate::model::clock::{Alarm, Clock};
use crate::model::dead_letter::DeadLetter;
use crate::model::id::TimerId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::model::manual_clock::ManualClock;
use crate::model::options::TimerOptions;
use crate::model::repeat::{Repeat, RepeatTimes};
use crate::model::request_time::RequestTime;
use crate::model::source::MessageSource;
use crate::model::target::Target;
use crate::service::state::Service;
use crate::tests::fixture::ms;

thread_local! {
    static SERVICE: RefCell<Weak<Service>> = const { RefCell::new(Weak::new()) };
    static LOOKS: Cell<usize> = const { Cell::new(0) };
    static UNDER_THE_LOCK: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Records whether the lock is held around user code.
fn look(code: &'static str) {
    let service = SERVICE.try_with(|service| service.borrow().upgrade()).ok().flatten();
    if let Some(service) = service {
        LOOKS.set(LOOKS.get() + 1);
        if service.is_locked() {
            UNDER_THE_LOCK.with_borrow_mut(|all| all.insert(code));
        }
        // Not the last reference, which would drop the service here.
        drop(service);
    }
}

/// A value that checks the lock when it is dropped.
struct Looks(&'static str);

impl Drop for Looks {
    fn drop(&mut self) {
        look(self.0);
    }
}

/// A message that checks the lock, as its answer does.
struct Tender {
    _dropped: Looks,
}

const fn tender() -> Tender {
    Tender { _dropped: Looks("the drop of a message") }
}

impl Clone for Tender {
    fn clone(&self) -> Self {
        look("the clone of a message");
        tender()
    }
}

impl Message for Tender {
    type Result = Looks;
}

/// Returns times that a closure computes, without an end or a limited number.
fn computed(times: Option<usize>) -> RepeatTimes {
    let (captured, mut left) = (Looks("the drop of a computation"), times);
    Repeat::computed(move |last| {
        let _captured = &captured;
        look("a computation");
        if let Some(left) = &mut left {
            *left = left.checked_sub(1)?;
        }
        Some(last.due + ms(4))
    })
}

/// An actor that answers at once or never.
struct Shop {
    answers: bool,
    _dropped: Looks,
}

impl Actor for Shop {
    type Context = Context<Self>;
}

impl Supervised for Shop {}

impl Handler<Tender> for Shop {
    type Result = ResponseFuture<Looks>;

    fn handle(&mut self, _: Tender, _: &mut Self::Context) -> Self::Result {
        look("a handler");
        let answer = Looks("the drop of an answer");
        if self.answers { Box::pin(async { answer }) } else { Box::pin(std::future::pending()) }
    }
}

crate::impl_due_timers!(Shop);

type Job = Box<dyn FnOnce(&mut Context<Shop>) + Send>;

#[derive(Message)]
#[rtype(result = "()")]
struct Run(Job);

impl Handler<Run> for Shop {
    type Result = ();

    fn handle(&mut self, Run(job): Run, ctx: &mut Self::Context) {
        job(ctx);
    }
}

struct Clerk;

impl Actor for Clerk {
    type Context = Context<Self>;
}

impl Handler<DeadLetter> for Clerk {
    type Result = ();

    fn handle(&mut self, _: DeadLetter, _: &mut Self::Context) {
        look("a handler of dead letters");
    }
}

/// A clock that checks the lock.
struct Watchdog(ManualClock);

impl Clock for Watchdog {
    fn now(&self) -> Duration {
        look("the clock: now");
        self.0.now()
    }

    fn wall(&self) -> SystemTime {
        look("the clock: wall");
        self.0.wall()
    }

    fn since(&self, request: RequestTime) -> Duration {
        look("the clock: since");
        self.0.since(request)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        look("the clock: alarm");
        self.0.alarm(time)
    }

    fn is_moved_by(&self, clock: &ManualClock) -> bool {
        self.0.is_moved_by(clock)
    }
}

/// Polls a future with its own wakers, as combinators of futures do.
struct WithItsOwnWaker<F>(Pin<Box<F>>);

struct Woken {
    waker: Waker,
    _dropped: Looks,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        look("a waker: wake");
        self.waker.wake_by_ref();
    }
}

impl<F: Future> Future for WithItsOwnWaker<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Polling<'_>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Woken { waker: cx.waker().clone(), _dropped: Looks("a waker: drop") }));
        self.0.as_mut().poll(&mut Polling::from_waker(&waker))
    }
}

/// A timer actor whose clock and whose user code check the lock.
struct World {
    clock: ManualClock,
    timers: Timers,
    _clerk: Addr<Clerk>,
}

impl World {
    fn new(policy: MailboxPolicy, capacity: usize) -> Self {
        let clock = ManualClock::new();
        let builder = TimerActor::builder().clock(Watchdog(clock.clone())).mailbox_policy(policy).capacity(capacity);
        let timers = builder.install().unwrap();
        SERVICE.set(Arc::downgrade(timers.service()));
        let clerk = Clerk.start();
        timers.subscribe_dead_letters(clerk.clone());
        Self { clock, timers, _clerk: clerk }
    }

    /// Lets `millis` milliseconds pass.
    async fn pass(&self, millis: u64) {
        for _ in 0..millis {
            give_way().await;
            self.clock.jump(ms(1));
        }
        give_way().await;
    }

    fn shop(answers: bool) -> Addr<Shop> {
        let ctx = Context::new();
        let addr = ctx.address();
        actix::spawn(WithItsOwnWaker(Box::pin(
            ctx.into_future(Shop { answers, _dropped: Looks("the drop of an actor") }),
        )));
        addr
    }

    /// Schedules timers of all kinds, all due in some milliseconds.
    async fn fill(&self, addr: &Addr<Shop>) -> Vec<TimerId> {
        let timers = &self.timers;
        let mut ids = Vec::new();
        let targets = [
            Target::from(addr),
            Target::from(addr).strong(),
            Target::from(addr).window(2),
            Target::from(addr).mailbox_policy(MailboxPolicy::Discard { window: 2 }),
            Target::from(addr).strong().window(1),
            Target::tracked(addr),
            Target::tracked(addr).window(1),
        ];
        for target in &targets {
            for _ in 0..3 {
                ids.push(timers.schedule_after(target, ms(5), tender()));
            }
            let keyed = || timers.timer(target, TimerOptions::new().key("k").group("g"));
            ids.push(keyed().schedule(ms(5), tender()));
            ids.push(keyed().schedule(ms(6), tender()));
            let made = MessageSource::from_fn(|| {
                look("a source");
                tender()
            });
            ids.push(timers.schedule_at_fixed_rate(target, Repeat::every(ms(4)).times(3), made));
            ids.push(timers.schedule_with_fixed_delay(target, ms(4), tender()));
            let until = self.clock.wall() + ms(9);
            ids.push(timers.schedule_at_fixed_rate(target, Repeat::every(ms(4)).until(until), tender()));
            ids.push(timers.schedule_at(target, self.clock.wall() + ms(5), tender()));
            for times in [Some(0), Some(2), None] {
                ids.push(timers.schedule_at_fixed_rate(target, computed(times), tender()));
                timers.addr().do_send(ScheduleAtFixedRate::new(target, computed(times), tender()));
            }
            ids.push(keyed().repeat(computed(None), tender()));
            ids.push(keyed().repeat(computed(None), tender()));
            timers.addr().do_send(ScheduleAfter::new(target, ms(5), tender()));
            timers.addr().do_send(ScheduleAtFixedRate::new(target, ms(5), tender()));
            timers.addr().do_send(ScheduleWithFixedDelay::new(target, ms(5), tender()));
            let mut batch = ScheduleBatch::new();
            batch.after(target, ms(5), tender()).after(target, ms(5), tender());
            timers.addr().do_send(batch);
        }
        addr.do_send(Run(Box::new(|ctx| {
            for _ in 0..70 {
                ctx.schedule_after(ms(5), tender());
            }
            ctx.timer(TimerOptions::new().key("k")).schedule(ms(5), tender());
            ctx.timer(TimerOptions::new().key("k")).schedule(ms(5), tender());
            ctx.schedule_at_fixed_rate(ms(4), tender());
            ctx.schedule_with_fixed_delay(Repeat::every(ms(4)).times(2), tender());
            for times in [Some(0), Some(2), None] {
                ctx.schedule_at_fixed_rate(computed(times), tender());
            }
        })));
        give_way().await;
        ids
    }
}

/// Gives all tasks some turns; work left undone does not matter here.
async fn give_way() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Delivery,
    CancelBefore,
    CancelAfter,
    CancelAll,
    Reschedule,
    ActorStops,
    ActorStopsWithAnswersToCome,
    NoAddressLeft,
    Drain,
    DrainWithin,
    Shutdown,
}

async fn live_through(policy: MailboxPolicy, capacity: usize, answers: bool, end: End) {
    let world = World::new(policy, capacity);
    let addr = World::shop(answers);
    let ids = world.fill(&addr).await;
    let timers = &world.timers;
    match end {
        End::Delivery => {}
        End::CancelBefore => {
            for id in ids {
                timers.addr().do_send(Cancel(id));
            }
        }
        End::CancelAfter => {
            world.clock.jump(ms(5));
            for id in ids {
                tokio::task::yield_now().await;
                timers.cancel(id);
            }
        }
        End::CancelAll => {
            timers.cancel_group("g");
            timers.cancel_all_for(&addr);
        }
        End::Reschedule => {
            world.pass(5).await;
            for id in ids {
                timers.addr().do_send(Reschedule::after(id, ms(3)));
            }
        }
        End::ActorStops => addr.do_send(Run(Box::new(|ctx| ctx.stop()))),
        End::ActorStopsWithAnswersToCome => {
            world.pass(4).await;
            addr.do_send(Run(Box::new(|ctx| ctx.stop())));
            drop(addr);
            world.pass(20).await;
            return;
        }
        End::NoAddressLeft => {
            addr.do_send(Run(Box::new(|ctx| {
                ctx.run_later(Duration::from_secs(1), |_, _| ());
            })));
            drop(addr);
            world.pass(20).await;
            return;
        }
        End::Drain => {
            world.clock.jump(ms(5));
            tokio::task::yield_now().await;
            drop(timers.addr().send(Drain::now()).await);
        }
        End::DrainWithin => timers.addr().do_send(Drain::within(ms(5))),
        End::Shutdown => {
            world.clock.jump(ms(5));
            tokio::task::yield_now().await;
            return;
        }
    }
    world.pass(20).await;
    drop(addr);
    world.pass(20).await;
}

#[test]
fn no_code_of_the_user_runs_under_the_lock() {
    let policies = [MailboxPolicy::Unbounded, MailboxPolicy::Wait { window: 2 }, MailboxPolicy::Discard { window: 2 }];
    let ends = [
        End::Delivery,
        End::CancelBefore,
        End::CancelAfter,
        End::CancelAll,
        End::Reschedule,
        End::ActorStops,
        End::ActorStopsWithAnswersToCome,
        End::NoAddressLeft,
        End::Drain,
        End::DrainWithin,
        End::Shutdown,
    ];
    for policy in policies {
        for (capacity, answers) in [(1000, true), (1000, false), (20, true)] {
            for end in ends {
                LOOKS.set(0);
                System::new().block_on(live_through(policy, capacity, answers, end));
                let seen = UNDER_THE_LOCK.take();
                assert!(LOOKS.get() > 100, "{policy:?} {capacity} {answers} {end:?}: {}", LOOKS.get());
                assert!(seen.is_empty(), "{policy:?} {capacity} {answers} {end:?}: {seen:?}");
            }
        }
    }
}

/// The last address of a stopped actor is the sender that a queue has kept: its drop wakes the poller of the actor.
#[test]
fn a_kept_sender_is_not_dropped_under_the_lock() {
    for repeats in [false, true] {
        System::new().block_on(async {
            let world = World::new(MailboxPolicy::Unbounded, 100);
            let addr = World::shop(false);
            let target = Target::from(&addr).window(5);
            let repeat = Repeat::every(ms(1)).times(1);
            let schedule = |delay| match repeats {
                false => world.timers.schedule_after(&target, ms(delay), tender()),
                true => world.timers.schedule_at_fixed_rate(&target, repeat.first_after(ms(delay)), tender()),
            };
            schedule(1);
            schedule(10);
            world.pass(2).await;
            addr.do_send(Run(Box::new(|ctx| {
                // Not at once: then its mailbox is polled once more, and keeps the waker.
                let later = actix::fut::wrap_future::<_, Shop>(tokio::task::yield_now());
                ctx.spawn(later.map(|(), _, ctx: &mut Context<Shop>| ctx.stop()));
            })));
            drop(addr);
            world.pass(20).await;
            assert_eq!(world.timers.snapshot().counters.recipient_stopped, 1);
        });
        assert_eq!(UNDER_THE_LOCK.take(), BTreeSet::new(), "repeats: {repeats}");
    }
}

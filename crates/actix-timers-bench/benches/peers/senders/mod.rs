//! Ways to deliver a message to an actor later, each as its own documentation shows it.
//!
//! `messages` is the message and its receiver, `book` the record of deliveries.

pub(crate) mod book;
pub(crate) mod messages;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use actix::{Addr, AsyncContext, Context, SpawnHandle};
use actix_timers::{CancelOutcome, Target, TimerActor, TimerContext, TimerId, Timers, cancel};
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;
use uuid::Uuid;

use self::messages::{Due, Receiver};

/// A way to send later. Created and used on the scheduling arbiter.
pub(crate) trait Sender: 'static {
    /// The handle by which the caller cancels.
    type Handle: 'static;

    /// Returns a sender to these receivers; [`Due::receiver`] is the index.
    fn to(receivers: Vec<Addr<Receiver>>) -> Self;

    /// Schedules `due` for delivery at its deadline. `ctx` is that of the scheduling actor.
    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> Self::Handle;

    fn cancel(&self, ctx: &mut Context<Receiver>, handle: Self::Handle);
}

/// actix-timers, an actor to itself: `ctx.schedule_after`.
pub(crate) struct OwnContext;

impl Sender for OwnContext {
    type Handle = TimerId;

    fn to(_: Vec<Addr<Receiver>>) -> Self {
        Self
    }

    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> TimerId {
        ctx.schedule_after(due.delay(), due)
    }

    fn cancel(&self, ctx: &mut Context<Receiver>, id: TimerId) {
        assert_eq!(ctx.cancel_timer(id), CancelOutcome::Cancelled);
    }
}

/// actix-timers, to other actors, of this arbiter or of another: `Timers::schedule_after`.
pub(crate) struct ToTarget {
    timers: Timers,
    targets: Vec<Target<Due>>,
}

impl Sender for ToTarget {
    type Handle = TimerId;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let timers = TimerActor::builder().start().expect("a timer actor");
        Self { timers, targets: receivers.iter().map(Target::from).collect() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> TimerId {
        let target = self.targets[due.receiver as usize].clone();
        self.timers.schedule_after(target, due.delay(), due)
    }

    fn cancel(&self, _: &mut Context<Receiver>, id: TimerId) {
        assert_eq!(cancel(id), CancelOutcome::Cancelled);
    }
}

/// actix's own `notify_later`: a future per message in the actor's context.
pub(crate) struct NotifyLater;

impl Sender for NotifyLater {
    type Handle = SpawnHandle;

    fn to(_: Vec<Addr<Receiver>>) -> Self {
        Self
    }

    fn schedule(&self, ctx: &mut Context<Receiver>, due: Due) -> SpawnHandle {
        ctx.notify_later(due, due.delay())
    }

    fn cancel(&self, ctx: &mut Context<Receiver>, handle: SpawnHandle) {
        assert!(ctx.cancel_future(handle));
    }
}

/// tokio-util's `DelayQueue`: a task polls it, and sends expired messages with `do_send`.
pub(crate) struct Queue(Rc<RefCell<DelayQueue<Due>>>);

impl Queue {
    pub(crate) fn insert(&self, due: Due) -> Key {
        self.0.borrow_mut().insert_at(due, Instant::from_std(due.deadline))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

impl Sender for Queue {
    type Handle = Key;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let queue = Rc::new(RefCell::new(DelayQueue::<Due>::new()));
        let polled = Rc::clone(&queue);
        actix::spawn(async move {
            loop {
                // An empty queue is at its end for now, and wakes the task at the next insertion.
                let expired = poll_fn(|cx| match polled.borrow_mut().poll_expired(cx) {
                    Poll::Ready(Some(expired)) => Poll::Ready(expired),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                });
                let due = expired.await.into_inner();
                receivers[due.receiver as usize].do_send(due);
            }
        });
        Self(queue)
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> Key {
        self.insert(due)
    }

    fn cancel(&self, _: &mut Context<Receiver>, key: Key) {
        self.0.borrow_mut().remove(&key);
    }
}

/// tokio's `sleep_until`: a task per message.
pub(crate) struct Sleeps {
    /// Shared, because clones of an address would cost more than the sleep.
    receivers: Rc<[Addr<Receiver>]>,
}

impl Sender for Sleeps {
    type Handle = JoinHandle<()>;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        Self { receivers: receivers.into() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> JoinHandle<()> {
        let receivers = Rc::clone(&self.receivers);
        actix::spawn(async move {
            sleep_until(Instant::from_std(due.deadline)).await;
            receivers[due.receiver as usize].do_send(due);
        })
    }

    fn cancel(&self, _: &mut Context<Receiver>, task: JoinHandle<()>) {
        assert!(!task.is_finished());
        task.abort();
    }
}

/// hierarchical_hash_wheel_timer: a wheel with its own thread, which runs closures.
pub(crate) struct HashWheel {
    timer: RefCell<TimerRef<Uuid, OneShotClosureState<Uuid>, PeriodicClosureState<Uuid>>>,
    receivers: Arc<[Addr<Receiver>]>,
}

impl Sender for HashWheel {
    type Handle = Uuid;

    fn to(receivers: Vec<Addr<Receiver>>) -> Self {
        let wheel = TimerWithThread::for_uuid_closures();
        let timer = RefCell::new(wheel.timer_ref());
        // Its thread runs until the process ends, and panics if all handles are dropped.
        std::mem::forget(wheel);
        Self { timer, receivers: receivers.into() }
    }

    fn schedule(&self, _: &mut Context<Receiver>, due: Due) -> Uuid {
        let id = Uuid::new_v4();
        let receivers = Arc::clone(&self.receivers);
        let action = move |_| receivers[due.receiver as usize].do_send(due);
        self.timer.borrow_mut().schedule_action_once(id, due.delay(), action);
        id
    }

    fn cancel(&self, _: &mut Context<Receiver>, id: Uuid) {
        self.timer.borrow_mut().cancel(&id);
    }
}

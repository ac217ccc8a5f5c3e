//! The stores of delayed messages that work inside an actor, each used through its context.

use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext, TimerId, Timers};
use tokio::task::JoinHandle;

use crate::contenders::owner::{self, Keeper, Note, Owner, Report, Work, work};
use crate::rounds::Life;

/// The timer actor of the arbiter: `ctx.schedule_after`, and `ctx.cancel_timer` by id.
pub(crate) struct Ours;

impl Keeper for Ours {
    type Id = TimerId;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> TimerId {
        ctx.schedule_after(delay, note)
    }

    fn cancel(ctx: &mut Context<Owner<Self>>, id: TimerId) -> bool {
        ctx.cancel_timer(id) == CancelOutcome::Cancelled
    }
}

/// Installs and returns the timer actor of this thread, with the default settings.
pub(crate) fn install() -> Timers {
    TimerActor::builder().install().unwrap()
}

pub(crate) fn ours(life: &mut Life, size: usize) {
    System::new().block_on(async {
        let timers = install();
        owner::live::<Ours>(life, size, || ()).await;
        assert_eq!(timers.snapshot().pending(), 0);
    });
}

/// actix's own timers, `ctx.notify_later` and `ctx.cancel_future`: a boxed future each in the actor's context. The actor
/// polls all of them after each message, and a cancel scans them.
pub(crate) struct ActorContext;

impl Keeper for ActorContext {
    type Id = SpawnHandle;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> SpawnHandle {
        ctx.notify_later(note, delay)
    }

    fn cancel(ctx: &mut Context<Owner<Self>>, handle: SpawnHandle) -> bool {
        ctx.cancel_future(handle)
    }
}

/// The numbers of operations are small, since more would take minutes.
pub(crate) fn notify_later(life: &mut Life, size: usize) {
    /// The maximum size for stops: each takes a quarter of a millisecond there.
    const MOST_TO_STOP: usize = 100_000;
    const STOPS: usize = 2_000;
    const CHURNS: usize = 10;
    System::new().block_on(async {
        let owner = Owner::<ActorContext>::with_room_for(size).start();
        // All in one call, so that the actor scans them only once.
        life.keep("start", size, work(&owner, size, size, Work::Start).await);
        if life.wants("churn") {
            // One per call: the cost if each incoming message touches a timer.
            life.keep("churn", CHURNS, work(&owner, CHURNS, 1, Work::Churn).await);
        }
        assert_eq!(owner.send(Report).await.unwrap().delivered, 0, "nothing was due so soon");
    });
    if life.wants("stop") && size <= MOST_TO_STOP {
        // A stop takes time proportional to the number of timers, so the mean of all stops is the time at half of them.
        System::new().block_on(async {
            let stops = STOPS.min(size / 2);
            let pending = size / 2 + stops / 2;
            let owner = Owner::<ActorContext>::with_room_for(pending).start();
            work(&owner, pending, pending, Work::Start).await;
            owner.send(Work::Shuffle).await.unwrap();
            life.keep("stop", stops, work(&owner, stops, stops, Work::Stop).await);
            assert_eq!(owner.send(Report).await.unwrap().cancelled, stops);
        });
    }
}

/// A way to wait in a task.
pub(crate) trait Sleep: 'static {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static;
}

pub(crate) struct Tokio;

impl Sleep for Tokio {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        tokio::time::sleep(delay)
    }
}

/// Pingora rounds a time up to 10 ms and keeps one notification for all sleeps of that time, in an ordered map per
/// thread. An aborted sleep leaves its time in the map until a thread of its own, awake every 10 ms, has passed it.
pub(crate) struct Pingora;

impl Sleep for Pingora {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        pingora_timeout::sleep(delay)
    }
}

/// A task per timer, which sleeps and then sends the message; a cancel aborts it.
struct Tasks<S>(PhantomData<S>);

thread_local! {
    /// Shared by the tasks that have neither ended nor been dropped.
    static ALIVE: Rc<()> = Rc::default();
}

impl<S: Sleep> Keeper for Tasks<S> {
    type Id = JoinHandle<()>;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> JoinHandle<()> {
        let (addr, alive) = (ctx.address(), ALIVE.with(Rc::clone));
        actix::spawn(async move {
            S::sleep(delay).await;
            addr.do_send(note);
            drop(alive);
        })
    }

    fn cancel(_: &mut Context<Owner<Self>>, task: JoinHandle<()>) -> bool {
        task.abort();
        true
    }
}

pub(crate) fn tasks<S: Sleep>(life: &mut Life, size: usize) {
    let alive = || ALIVE.with(Rc::strong_count) - 1;
    System::new().block_on(async {
        owner::live::<Tasks<S>>(life, size, || assert_eq!(alive(), size)).await;
        assert_eq!(alive(), 0, "all were aborted");
    });
}

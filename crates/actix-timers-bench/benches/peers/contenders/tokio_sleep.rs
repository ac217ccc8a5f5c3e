//! A task per timer, which sleeps and then sends the message; a cancel aborts it. The sleep is tokio's, or that of the
//! crate `pingora-timeout`.
//!
//! Pingora rounds a time up to 10 ms and keeps one notification for all sleeps of that time, in an ordered map per
//! thread. An aborted sleep leaves its time in the map until a thread of its own, awake every 10 ms, has passed it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use actix::prelude::*;
use tokio::task::JoinHandle;

use crate::contenders::owner::{Keeper, Note, Owner, Work, keep};
use crate::rounds::Life;

/// Operations per call of a handler.
const AT_ONCE: usize = 1_000;

thread_local! {
    /// Tasks that have neither ended nor been dropped.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
}

struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
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

pub(crate) struct Pingora;

impl Sleep for Pingora {
    fn sleep(delay: Duration) -> impl Future<Output = ()> + 'static {
        pingora_timeout::sleep(delay)
    }
}

/// Timers as tasks of the runtime.
struct Tasks<S>(PhantomData<S>);

impl<S: Sleep> Keeper for Tasks<S> {
    type Id = JoinHandle<()>;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> JoinHandle<()> {
        let (addr, alive) = (ctx.address(), Alive::new());
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

pub(crate) fn live<S: Sleep>(life: &mut Life, size: usize) {
    System::new().block_on(async {
        let owner = Owner::<Tasks<S>>::with_room_for(size).start();
        keep(life, "start", &owner, size, AT_ONCE, Work::Start).await;
        if life.wants("churn") {
            keep(life, "churn", &owner, size, AT_ONCE, Work::Churn).await;
        }
        assert_eq!(ALIVE.get(), size);
        owner.send(Work::Shuffle).await.unwrap();
        keep(life, "stop", &owner, size, AT_ONCE, Work::Stop).await;
        assert_eq!(ALIVE.get(), 0, "all were aborted");
    });
}

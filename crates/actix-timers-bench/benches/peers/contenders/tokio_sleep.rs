//! A task per timer, which sleeps and then sends the message; a cancel aborts it.

use std::cell::Cell;
use std::time::Duration;

use actix::prelude::*;
use tokio::task::JoinHandle;

use crate::contenders::owner::{Keeper, Note, Owner, Work, work};
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

/// Timers as tasks of the runtime.
pub(crate) struct Tasks;

impl Keeper for Tasks {
    type Id = JoinHandle<()>;

    fn schedule(ctx: &mut Context<Owner<Self>>, delay: Duration, note: Note) -> JoinHandle<()> {
        let (addr, alive) = (ctx.address(), Alive::new());
        actix::spawn(async move {
            tokio::time::sleep(delay).await;
            addr.do_send(note);
            drop(alive);
        })
    }

    fn cancel(_: &mut Context<Owner<Self>>, task: JoinHandle<()>) -> bool {
        task.abort();
        true
    }
}

pub(crate) fn live(life: &mut Life, size: usize) {
    System::new().block_on(async {
        let owner = Owner::<Tasks>::with_room_for(size).start();
        life.keep("start", size, work(&owner, size, AT_ONCE, Work::Start).await);
        if life.wants("churn") {
            life.keep("churn", size, work(&owner, size, AT_ONCE, Work::Churn).await);
        }
        assert_eq!(ALIVE.get(), size);
        owner.send(Work::Shuffle).await.unwrap();
        life.keep("stop", size, work(&owner, size, AT_ONCE, Work::Stop).await);
        assert_eq!(ALIVE.get(), 0, "all were aborted");
    });
}

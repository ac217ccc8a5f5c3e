//! actix's own `notify_later`: a future per message in the actor's context.

use actix::{Addr, AsyncContext, Context, SpawnHandle};

use super::Sender;
use super::messages::{Due, Receiver};

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

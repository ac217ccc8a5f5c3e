//! The spare: restores the inbox of an actor that cancels it by mistake.
//!
//! After a restart actix counts the items of a context from one again. A handle that an actor has kept from before may
//! then refer to its inbox, and `cancel_future` drops the item with that number. So a context has two items, and each
//! spawns the other again. Only if both are dropped has the context ended or been restarted.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix::dev::AsyncContextParts;
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext};

use crate::engine::OwnerId;
use crate::model::mailbox_id::MailboxId;
use crate::service::owner::inbox::Inbox;
use crate::service::state::Service;

/// The presence of the two items in the context.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) inbox: Cell<bool>,
    pub(crate) spare: Cell<bool>,
}

pub(crate) struct Spare {
    service: Arc<Service>,
    owner: OwnerId,
    mailbox: MailboxId,
    pair: Rc<Pair>,
    /// Whether it left with the inbox, because no address of the actor was left.
    left: bool,
}

impl Spare {
    pub(crate) const fn new(service: Arc<Service>, owner: OwnerId, mailbox: MailboxId, pair: Rc<Pair>) -> Self {
        Self { service, owner, mailbox, pair, left: false }
    }
}

impl<A> ActorFuture<A> for Spare
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut A, ctx: &mut A::Context, _: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !ctx.parts().connected() && !this.service.state().engine.keeps_alive(this.owner) {
            this.left = true;
            return Poll::Ready(());
        }
        if !this.pair.inbox.get() {
            Inbox::come_back(&this.service, this.owner, this.mailbox, &this.pair, ctx);
        }
        Poll::Pending
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.pair.spare.set(false);
        if !self.left && !self.pair.inbox.get() {
            Inbox::end_unless_present(&self.service, self.owner, self.mailbox);
        }
    }
}

//! The spare: restores the inbox of an actor that cancels it by mistake.
//!
//! After a restart actix counts the items of a context from one again. A handle that an actor has kept from before may
//! then refer to its inbox, and `cancel_future` drops the item with that number. So a context has two items, and each
//! spawns the other again. Only if both are dropped has the context ended or been restarted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix::dev::AsyncContextParts;
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext};

use crate::engine::OwnerId;
use crate::service::owner::actor_link::OwnerLink;
use crate::service::owner::inbox::Inbox;
use crate::service::state::Service;

pub(crate) struct Spare {
    service: Arc<Service>,
    owner: OwnerId,
    link: OwnerLink,
}

impl Spare {
    /// Moves a spare into the context, unless one is there.
    pub(crate) fn spawn_unless_present<A, C>(service: &Arc<Service>, owner: OwnerId, link: &OwnerLink, ctx: &mut C)
    where
        A: Actor<Context = C>,
        C: AsyncContext<A> + AsyncContextParts<A>,
    {
        if !link.spare.is_present() {
            link.spare.enter();
            ctx.spawn(Self { service: Arc::clone(service), owner, link: Arc::clone(link) });
        }
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
            this.link.spare.leave();
            return Poll::Ready(());
        }
        if !this.link.inbox.is_present()
            && let Some(link) = Inbox::return_to(&this.service, this.owner)
        {
            Inbox::spawn(&this.service, this.owner, link, ctx);
        }
        Poll::Pending
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // Left with the inbox, because no address of the actor is left.
        let left = self.link.spare.end();
        if !left && !self.link.inbox.is_present() {
            self.service.end_owner(self.owner);
        }
    }
}

//! The spare: restores the inbox of an actor that cancels it by mistake.
//!
//! After a restart actix counts the items of a context from one again. A handle that an actor has kept from before may
//! then refer to its inbox, and `cancel_future` drops the item with that number. So a context has two items, and each
//! spawns the other again. Only if both are dropped has the context ended or been restarted. Two old handles may refer to
//! both, so an actor known to be restarted passes the numbers of most old handles first.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use actix::dev::AsyncContextParts;
use actix::fut::ActorFuture;
use actix::{Actor, AsyncContext};

use crate::service::owner::actor_link::ActorLink;
use crate::service::owner::inbox::Inbox;
use crate::service::state::Service;

/// Old handles are mostly those of the first futures.
const OLD_HANDLES: usize = 32;

/// Spawns futures that end at once, to which old handles then refer.
#[cold]
pub(crate) fn pass_old_handles<A, C>(ctx: &mut C)
where
    A: Actor<Context = C>,
    C: AsyncContext<A>,
{
    (0..OLD_HANDLES).for_each(|_| _ = ctx.spawn(actix::fut::ready(())));
}

pub(crate) struct Spare<A: Actor> {
    service: Arc<Service>,
    link: Arc<ActorLink<A>>,
}

impl<A> Spare<A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    /// Moves a spare into the context, unless one is there.
    pub(crate) fn spawn_unless_present(service: &Arc<Service>, link: &Arc<ActorLink<A>>, ctx: &mut A::Context) {
        if !link.has_spare.load(Ordering::Relaxed) {
            link.has_spare.store(true, Ordering::Relaxed);
            ctx.spawn(Self { service: Arc::clone(service), link: Arc::clone(link) });
        }
    }
}

impl<A> ActorFuture<A> for Spare<A>
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut A, ctx: &mut A::Context, _: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !ctx.parts().connected() && !this.service.state().engine.keeps_alive(this.link.owner) {
            this.link.has_spare.store(false, Ordering::Relaxed);
            return Poll::Ready(());
        }
        if !this.link.has_inbox.load(Ordering::Relaxed)
            && let Some(link) = Inbox::<A>::return_to(&this.service, this.link.owner)
        {
            Inbox::spawn(&this.service, link, ctx);
        }
        Poll::Pending
    }
}

impl<A: Actor> Drop for Spare<A> {
    fn drop(&mut self) {
        // If it has left, the owner lives on.
        let left = !self.link.has_spare.load(Ordering::Relaxed);
        self.link.has_spare.store(false, Ordering::Relaxed);
        if !left && !self.link.has_inbox.load(Ordering::Relaxed) {
            self.service.end_owner(self.link.owner);
        }
    }
}

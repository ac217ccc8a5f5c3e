//! The handling of a request to run an actor's own due timers.

use std::any::Any;

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::registry;

/// Runs the due timers of the actor, if it is of type `A`, in its context.
pub(crate) fn run_own<A>(actor: &mut dyn Any, ctx: &mut dyn Any)
where
    A: Actor,
    A::Context: AsyncContext<A> + AsyncContextParts<A>,
{
    let Some((actor, ctx)) = actor.downcast_mut::<A>().zip(ctx.downcast_mut::<A::Context>()) else { return };
    if let Some((service, owner)) = registry::known_owner_of_context(ctx) {
        service.run_due(owner, actor, ctx);
    }
}

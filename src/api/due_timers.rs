//! The handling of a request to run due timers.

use actix::dev::AsyncContextParts;
use actix::{Actor, AsyncContext};

use crate::api::registry;
use crate::model::due_timers::DueTimers;

impl DueTimers {
    /// Runs the due timers of the actor, at most 64 of them; another request follows for the rest.
    pub fn run<A>(self, actor: &mut A, ctx: &mut A::Context)
    where
        A: Actor,
        A::Context: AsyncContext<A> + AsyncContextParts<A>,
    {
        if let Some((service, owner)) = registry::known_owner_of_context(ctx) {
            service.run_due(owner, actor, ctx);
        }
    }
}

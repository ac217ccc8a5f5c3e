//! Durable timers scheduled by an actor that handles the result.

use actix::fut::{ActorFutureExt, wrap_future};
use actix::{Actor, AsyncContext};

use super::error::ScheduleError;
use super::id::DurableId;
use super::message::DurableMessage;
use super::schedule_future::{ScheduleFuture, Scheduled};

/// Lets an actor schedule durable timers without waiting for the disk. Implemented for every async context.
///
/// A durable timer names its target by a route, not by an address: unlike timers of a context
/// ([`TimerContext`](actix_timers::TimerContext)) it outlives the actor that scheduled it.
pub trait DurableContext<A>: AsyncContext<A>
where
    A: Actor<Context = Self>,
{
    /// Schedules a durable timer while the actor handles other messages. When it is on disk or rejected, `done` runs in
    /// this actor.
    ///
    /// If the actor stops earlier, the timer may or may not exist; see [`ScheduleFuture`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers_durable::{DurableContext, DurableMessage, DurableTimers, MemoryStore};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Remind(u32);
    /// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
    /// struct Orders {
    ///     timers: DurableTimers,
    ///     reminders: u32,
    /// }
    ///
    /// impl Actor for Orders {
    ///     type Context = Context<Self>;
    ///
    ///     fn started(&mut self, ctx: &mut Self::Context) {
    ///         let reminder = self.timers.schedule_after("reminders", Duration::from_secs(60), Remind(7));
    ///         ctx.schedule_durably(reminder, |orders, result, _| match result {
    ///             Ok(_) => orders.reminders += 1,
    ///             Err(error) => eprintln!("not scheduled: {error}"),
    ///         });
    ///     }
    /// }
    /// # System::new().block_on(async {
    /// # let timers = DurableTimers::builder(MemoryStore::new()).open_route::<Remind>("reminders").start().unwrap();
    /// # Orders { timers, reminders: 0 }.start();
    /// # });
    /// ```
    fn schedule_durably<M, F>(&mut self, scheduling: ScheduleFuture<M>, done: F) -> DurableId
    where
        M: DurableMessage,
        F: FnOnce(&mut A, Result<Scheduled, ScheduleError<M>>, &mut Self) + 'static,
    {
        let id = scheduling.id();
        self.spawn(wrap_future::<_, A>(scheduling).map(|result, actor, ctx| done(actor, result, ctx)));
        id
    }

    /// Schedules a durable timer, and handles no other message before `done` has run: no message sees the actor before
    /// the result is known.
    fn wait_durably<M, F>(&mut self, scheduling: ScheduleFuture<M>, done: F) -> DurableId
    where
        M: DurableMessage,
        F: FnOnce(&mut A, Result<Scheduled, ScheduleError<M>>, &mut Self) + 'static,
    {
        let id = scheduling.id();
        self.wait(wrap_future::<_, A>(scheduling).map(|result, actor, ctx| done(actor, result, ctx)));
        id
    }
}

impl<A, C> DurableContext<A> for C
where
    A: Actor<Context = C>,
    C: AsyncContext<A>,
{
}

//! The bounds on messages together with the actors that handle them.
//!
//! Each asks the message for its actor, instead of the actor for its handler: the compiler then decides when it knows
//! the type of the message, and the error can name it. With `do_not_recommend` it reports the text of these traits, not
//! the one bound of actix that fails.

use std::any::Any;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, WeakAddr, WeakRecipient};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::unconstrained;

use crate::model::due_timers::DueTimers;
use crate::model::reply::{BoxedReply, ReplyFuture};
use crate::model::timer_message::TimerMessage;

/// A message that a timer can deliver to actors of type `A`, which handle it.
///
/// Implemented for every [`TimerMessage`] and the actors with a `Handler` for it; there is nothing to implement.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{HandledBy, TimerContext};
///
/// fn in_a_minute<A, M>(ctx: &mut Context<A>, message: M)
/// where
///     A: Actor<Context = Context<A>>,
///     M: HandledBy<A>,
/// {
///     ctx.schedule_after(Duration::from_secs(60), message);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a timer cannot deliver `{Self}` to `{A}`",
    label = "no `Send` message that `{A}` handles",
    note = "the time comes before the message: `schedule_after(delay, message)`",
    note = "a message needs a handler: write `impl Handler<{Self}> for {A}`",
    note = "a closure is run by `run_after`, `run_at` or `run_every`",
    note = "a closure that makes each message of a repeating timer: `MessageSource::from_fn(closure)`",
    note = "for a message that is not `Send` to its own actor: `run_after(delay, move |_, ctx| ctx.notify(message))`"
)]
#[expect(private_bounds, reason = "implemented here for all")]
pub trait HandledBy<A: Actor>: TimerMessage + Delivered<A> {}

#[diagnostic::do_not_recommend]
impl<A, M> HandledBy<A> for M
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: TimerMessage,
{
}

/// The ways of a message to its actor.
pub(crate) trait Delivered<A: Actor>: TimerMessage + Sized {
    /// Runs the handler, whose result is dropped.
    fn handle_in(self, actor: &mut A, ctx: &mut A::Context);

    /// Sends the message to the mailbox, as a request.
    fn request(self, addr: &Addr<A>) -> ReplyFuture;

    fn recipient(addr: WeakAddr<A>) -> WeakRecipient<Self>;
}

#[diagnostic::do_not_recommend]
impl<A, M> Delivered<A> for M
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: TimerMessage,
{
    #[inline(always)]
    fn handle_in(self, actor: &mut A, ctx: &mut A::Context) {
        <A as Handler<M>>::handle(actor, self, ctx).handle(ctx, None);
    }

    fn request(self, addr: &Addr<A>) -> ReplyFuture {
        let request = addr.send(self);
        // The poller knows its reason to wait: tokio's budget would only make a present answer look absent.
        Box::pin(unconstrained(async move { request.await.ok().map(|answer| Box::new(answer) as BoxedReply) }))
    }

    fn recipient(addr: WeakAddr<A>) -> WeakRecipient<M> {
        addr.recipient()
    }
}

/// An actor that accepts [`DueTimers`], by [`impl_due_timers!`](crate::impl_due_timers).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not accept `DueTimers`",
    label = "the context of an actor without `impl_due_timers!`",
    note = "write `actix_timers::impl_due_timers!({Self});`"
)]
pub(crate) trait AcceptsDueTimers: Actor<Context: ToEnvelope<Self, DueTimers>> + Handler<DueTimers> {}

#[diagnostic::do_not_recommend]
impl<A> AcceptsDueTimers for A
where
    A: Actor + Handler<DueTimers>,
    A::Context: ToEnvelope<A, DueTimers>,
{
}

/// A message that actors of type `A`, which accept [`DueTimers`], handle under tracked delivery.
#[diagnostic::on_unimplemented(
    message = "`{A}` does not accept `{Self}` under tracked delivery",
    label = "the address of an actor without `impl_due_timers!`",
    note = "write `actix_timers::impl_due_timers!({A});`, beside `impl Handler<{Self}> for {A}`"
)]
pub(crate) trait TrackedBy<A: Actor>: TimerMessage + Sized {
    fn bells(addr: WeakAddr<A>) -> WeakRecipient<DueTimers>;

    /// Runs the handler. Returns its reply, if that is still to come.
    fn handle_tracked(self, actor: &mut dyn Any, ctx: &mut dyn Any) -> Option<ReplyFuture>;
}

#[diagnostic::do_not_recommend]
impl<A, M> TrackedBy<A> for M
where
    A: Actor<Context: ToEnvelope<A, DueTimers> + 'static> + Handler<M> + Handler<DueTimers>,
    M: TimerMessage,
{
    fn bells(addr: WeakAddr<A>) -> WeakRecipient<DueTimers> {
        addr.recipient()
    }

    fn handle_tracked(self, actor: &mut dyn Any, ctx: &mut dyn Any) -> Option<ReplyFuture> {
        let (actor, ctx) = (actor.downcast_mut::<A>()?, ctx.downcast_mut::<A::Context>()?);
        let (answer, mut answered) = oneshot::channel();
        <A as Handler<M>>::handle(actor, self, ctx).handle(ctx, Some(answer));
        // Most handlers have answered already, and need no future.
        if !matches!(answered.try_recv(), Err(TryRecvError::Empty)) {
            return None;
        }
        let boxed = async move { answered.await.ok().map(|answer| Box::new(answer) as BoxedReply) };
        Some(Box::pin(unconstrained(boxed)))
    }
}

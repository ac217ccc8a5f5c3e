//! Tracked delivery: the message stays in the timer actor until its handler begins.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use actix::dev::MessageResponse;
use actix::{Actor, Handler, Message};
use tokio::sync::oneshot;
use tokio::task::unconstrained;

use crate::engine::DeadLetterReason;
use crate::model::carried::{Boxed, Carried, is_large};
use crate::model::timer_message::TimerMessage;
use crate::service::queue::reply_waiter::wait_for;
use crate::service::state::Service;
use crate::timing::Key;

/// What a recipient gets instead of a message under tracked delivery: a token. The message itself stays with the timer
/// actor until the token is handled, so that it can be cancelled, moved, or given back by a drain until then.
///
/// A recipient accepts tokens with one queue, [`impl_tracked!`](crate::impl_tracked); it is scheduled for with
/// [`Target::tracked`](crate::Target::tracked).
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{CancelOutcome, Target, TimerActor, impl_tracked};
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Remind;
///
/// struct Customer;
///
/// impl Actor for Customer {
///     type Context = Context<Self>;
/// }
///
/// impl Handler<Remind> for Customer {
///     type Result = ();
///
///     fn handle(&mut self, _: Remind, _: &mut Self::Context) {}
/// }
///
/// impl_tracked!(Customer: Remind);
///
/// # System::new().block_on(async {
/// let customer = Customer.start();
/// let timers = TimerActor::builder().start()?;
/// let target = Target::tracked(&customer).window(4);
/// let id = timers.schedule_after(&target, Duration::from_secs(60), Remind).unwrap();
/// assert_eq!(timers.cancel(id), CancelOutcome::Cancelled);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
///
/// A token that is dropped instead of [run](Self::run) makes its message a dead letter.
pub struct Tracked<M> {
    service: Arc<Service>,
    key: Key,
    /// Which token of the timer it is: one that was moved after it was due gets another.
    number: u64,
    /// It still has something to do.
    is_open: bool,
    message: PhantomData<fn() -> M>,
}

impl<M: Message> Message for Tracked<M> {
    type Result = ();
}

impl<M> Tracked<M> {
    pub(crate) const fn new(service: Arc<Service>, key: Key, number: u64) -> Self {
        Self { service, key, number, is_open: true, message: PhantomData }
    }

    /// Does nothing any more.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// The message cannot be handed over.
    pub(crate) fn give_up(&mut self, reason: DeadLetterReason) {
        if std::mem::replace(&mut self.is_open, false) {
            self.service.lose(self.key, self.number, reason);
        }
    }
}

impl<M> Tracked<M>
where
    M: TimerMessage,
{
    /// Takes the message from the timer actor and handles it. Does nothing if the timer was cancelled, moved or returned
    /// meanwhile.
    ///
    /// The delivery is acknowledged when the handler ends or, if it answers with a future, when that ends.
    pub fn run<A>(mut self, actor: &mut A, ctx: &mut A::Context)
    where
        A: Actor + Handler<M>,
    {
        self.close();
        if const { is_large::<M>() } { self.run_as::<Boxed<M>, A>(actor, ctx) } else { self.run_as::<M, A>(actor, ctx) }
    }

    fn run_as<C, A>(&self, actor: &mut A, ctx: &mut A::Context)
    where
        C: Carried<Message = M>,
        A: Actor + Handler<M>,
    {
        let Some((message, acknowledgement, _delivering)) = self.service.begin::<C>(self.key, self.number) else {
            return;
        };
        let (answer, answered) = oneshot::channel();
        <A as Handler<M>>::handle(actor, message.unpack(), ctx).handle(ctx, Some(answer));
        drop(wait_for(Box::pin(unconstrained(answered)), acknowledgement));
    }
}

impl<M> Drop for Tracked<M> {
    /// The mailbox was closed before the token was handled.
    fn drop(&mut self) {
        self.give_up(DeadLetterReason::RecipientStopped);
    }
}

impl<M> fmt::Debug for Tracked<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tracked<{}>", std::any::type_name::<M>())
    }
}

/// Lets an actor accept messages under tracked delivery: implements `Handler<Tracked<M>>` for each of the messages that it
/// handles. See [`Tracked`].
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::impl_tracked;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Invoice;
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
/// # impl Handler<Invoice> for Customer { type Result = (); fn handle(&mut self, _: Invoice, _: &mut Context<Self>) {} }
///
/// impl_tracked!(Customer: Remind, Invoice);
/// ```
#[macro_export]
macro_rules! impl_tracked {
    ($actor:ty: $($message:ty),+ $(,)?) => {
        $(
            impl $crate::__private::Handler<$crate::Tracked<$message>> for $actor {
                type Result = ();

                fn handle(&mut self, tracked: $crate::Tracked<$message>, ctx: &mut Self::Context) {
                    tracked.run(self, ctx);
                }
            }
        )+
    };
}

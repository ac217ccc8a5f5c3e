//! Tracked delivery: the message stays in the timer actor until its handler begins.

use std::fmt;
use std::sync::Arc;

use actix::dev::MessageResponse;
use actix::{Actor, Handler, Message};
use tokio::sync::oneshot;
use tokio::task::unconstrained;

use crate::engine::DeadLetterReason;
use crate::model::reply::{BoxedReply, ReplyFuture};
use crate::model::timer_message::TimerMessage;
use crate::timing::Key;

/// A token that a recipient gets instead of a message under tracked delivery. The message itself stays with the timer
/// actor until the token is handled, so that it can be cancelled, moved, or returned by a drain until then.
///
/// A recipient accepts tokens with one line, [`impl_tracked!`](crate::impl_tracked); schedule for it with
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
/// let id = timers.schedule_after(&target, Duration::from_secs(60), Remind);
/// assert_eq!(timers.cancel(id), CancelOutcome::Cancelled);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
///
/// A token that is dropped instead of [run](Self::run) makes its message a dead letter.
pub struct Tracked<M> {
    host: Arc<dyn TokenHost<M>>,
    key: Key,
    number: u64,
    is_open: bool,
}

/// The timer actor that holds the message of a token.
pub(crate) trait TokenHost<M>: Send + Sync {
    /// Takes the message of a token and passes it to `handle`, unless the token is no longer valid. The reply of the
    /// handler marks its end.
    fn run(self: Arc<Self>, key: Key, number: u64, handle: &mut dyn FnMut(M) -> ReplyFuture);

    /// Turns the message of a token that will never be handled into a dead letter.
    fn lose(&self, key: Key, number: u64, reason: DeadLetterReason);
}

impl<M: Message> Message for Tracked<M> {
    type Result = ();
}

impl<M> Tracked<M> {
    pub(crate) const fn new(host: Arc<dyn TokenHost<M>>, key: Key, number: u64) -> Self {
        Self { host, key, number, is_open: true }
    }

    /// Disarms the token.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Reports that the message cannot be delivered.
    pub(crate) fn give_up(&mut self, reason: DeadLetterReason) {
        if std::mem::replace(&mut self.is_open, false) {
            self.host.lose(self.key, self.number, reason);
        }
    }
}

impl<M> Tracked<M>
where
    M: TimerMessage,
{
    /// Takes the message from the timer actor and handles it. Does nothing if the timer was cancelled, moved or
    /// returned meanwhile.
    ///
    /// The delivery is acknowledged when the handler ends or, if it returns a future, when that ends.
    pub fn run<A>(mut self, actor: &mut A, ctx: &mut A::Context)
    where
        A: Actor + Handler<M>,
    {
        self.close();
        Arc::clone(&self.host).run(self.key, self.number, &mut |message| {
            let (answer, answered) = oneshot::channel();
            <A as Handler<M>>::handle(actor, message, ctx).handle(ctx, Some(answer));
            Box::pin(unconstrained(async move { answered.await.ok().map(|answer| Box::new(answer) as BoxedReply) }))
        });
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

/// Implements `Handler<Tracked<M>>` for an actor and its messages, so that it accepts them under tracked delivery. See
/// [`Tracked`].
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
///
/// For a generic actor its parameters come first, in brackets:
///
/// ```
/// # use actix::prelude::*;
/// # use actix_timers::impl_tracked;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct Remind;
/// # struct Shop<S>(S);
/// # impl<S: Clone + Unpin + 'static> Actor for Shop<S> { type Context = Context<Self>; }
/// # impl<S: Clone + Unpin + 'static> Handler<Remind> for Shop<S> {
/// #     type Result = ();
/// #     fn handle(&mut self, _: Remind, _: &mut Context<Self>) {}
/// # }
/// impl_tracked!([S: Clone + Unpin + 'static] Shop<S>: Remind);
/// ```
#[macro_export]
macro_rules! impl_tracked {
    (@each $parameters:tt $actor:ty: $($message:ty),+ $(,)?) => {
        $($crate::impl_tracked!(@one $parameters $actor, $message);)+
    };
    (@one [$($parameters:tt)*] $actor:ty, $message:ty) => {
        impl<$($parameters)*> $crate::__private::Handler<$crate::Tracked<$message>> for $actor {
            type Result = ();

            fn handle(&mut self, tracked: $crate::Tracked<$message>, ctx: &mut Self::Context) {
                tracked.run(self, ctx);
            }
        }
    };
    ([$($parameters:tt)*] $($actor:tt)+) => {
        $crate::impl_tracked!(@each [$($parameters)*] $($actor)+);
    };
    ($($actor:tt)+) => {
        $crate::impl_tracked!(@each [] $($actor)+);
    };
}

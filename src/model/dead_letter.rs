//! Dead letters: notices of messages that could not be delivered.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::Message;

use crate::engine::DeadLetterReason;
use crate::model::id::TimerId;
use crate::model::timer_message::TimerMessage;
use crate::timing::Tick;

/// A timer that ended without its message being delivered, and the reason. Sent to all
/// [subscribers](crate::Timers::subscribe_dead_letters).
///
/// All subscribers share the one message: the first to [take](Self::take) it gets it. A message that nobody takes is
/// dropped with the last of its letters.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{DeadLetter, DeadLetterReason, TimerActor};
///
/// #[derive(Message, Debug, PartialEq)]
/// #[rtype(result = "()")]
/// struct Remind(u32);
/// # struct Customer;
/// # impl Actor for Customer { type Context = Context<Self>; }
/// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
///
/// struct Undertaker(tokio::sync::mpsc::UnboundedSender<(DeadLetterReason, Option<Remind>)>);
///
/// impl Actor for Undertaker {
///     type Context = Context<Self>;
/// }
///
/// impl Handler<DeadLetter> for Undertaker {
///     type Result = ();
///
///     fn handle(&mut self, letter: DeadLetter, _: &mut Self::Context) {
///         let _ = self.0.send((letter.reason, letter.take::<Remind>()));
///     }
/// }
///
/// # System::new().block_on(async {
/// let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
/// let undertaker = Undertaker(sender).start();
/// let timers = TimerActor::builder().start()?;
/// timers.subscribe_dead_letters(undertaker.clone());
///
/// let customer = Customer.start();
/// timers.schedule_after(&customer, Duration::from_millis(1), Remind(7));
/// drop(customer);
/// assert_eq!(seen.recv().await, Some((DeadLetterReason::RecipientStopped, Some(Remind(7)))));
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the timer. It no longer names a pending timer.
    pub id: TimerId,
    /// The name of the timer actor.
    pub timer: Arc<str>,
    /// The reason why the message could not be delivered.
    pub reason: DeadLetterReason,
    /// Time since the deadline; zero if the timer was not due yet.
    pub overdue: Duration,
    /// Time left until the deadline; zero if it had passed.
    pub remaining: Duration,
    /// The type of the message; of a closure its place, as in [`TimerInfo`](crate::TimerInfo::message_type).
    pub message_type: &'static str,
    pub(crate) message: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
}

impl DeadLetter {
    /// Takes the message out, if it is of type `M` and nobody has taken it. The message is also missing if it was lost
    /// after it had been sent.
    pub fn take<M: 'static>(&self) -> Option<M> {
        let mut place = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        match place.take()?.downcast() {
            Ok(message) => Some(*message),
            Err(other) => {
                *place = Some(other);
                None
            }
        }
    }

    /// Returns true if the message is present and of type `M`.
    pub fn holds<M: 'static>(&self) -> bool {
        self.message.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|message| message.is::<M>())
    }
}

impl Message for DeadLetter {
    type Result = ();
}

/// The message inside need not be `Debug`.
impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("id", &self.id)
            .field("timer", &self.timer)
            .field("reason", &self.reason)
            .field("overdue", &self.overdue)
            .field("message_type", &self.message_type)
            .finish_non_exhaustive()
    }
}

/// A lost message, and data of its timer.
pub(crate) struct DeadLetterEvent {
    pub(crate) id: TimerId,
    /// `None` if there was no timer.
    pub(crate) deadline: Option<Tick>,
    pub(crate) reason: DeadLetterReason,
    pub(crate) message_type: &'static str,
    /// `None` if it was under way already.
    pub(crate) message: Option<Box<dyn Any + Send>>,
    /// The text of the error, if the timer was rejected.
    pub(crate) error: Option<Box<str>>,
}

impl DeadLetterEvent {
    /// Describes a lost message whose type is known here.
    pub(crate) fn of<M: TimerMessage>(
        id: TimerId,
        deadline: Tick,
        reason: DeadLetterReason,
        message: Option<M>,
    ) -> Self {
        let message = message.map(|message| Box::new(message) as _);
        Self { id, deadline: Some(deadline), reason, message_type: type_name::<M>(), message, error: None }
    }
}

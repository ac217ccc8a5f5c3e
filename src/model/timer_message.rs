//! The bound on messages.

use actix::Message;

/// A message that a timer can deliver: `Send`, `'static`, and with a result that is `Send`.
///
/// Implemented for every such [`Message`]; there is nothing to implement. It saves generic code the four bounds:
///
/// ```
/// use std::time::Duration;
/// use actix_timers::{Target, TimerId, TimerMessage, Timers};
///
/// fn in_a_minute<M: TimerMessage>(timers: &Timers, target: Target<M>, message: M) -> TimerId {
///     timers.schedule_after(target, Duration::from_secs(60), message)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a timer cannot deliver `{Self}`",
    label = "not a message that a timer can deliver",
    note = "the time comes before the message: `schedule_after(target, delay, message)`",
    note = "a message is an `actix::Message` and `Send`, with a result that is `Send`: derive `Message`",
    note = "a closure is run by `run_after`, `run_at` or `run_every`",
    note = "a closure that makes each message of a repeating timer: `MessageSource::from_fn(closure)`",
    note = "for a message that is not `Send` to its own actor: `run_after(delay, move |_, ctx| ctx.notify(message))`"
)]
pub trait TimerMessage: Message<Result: Send> + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<M> TimerMessage for M where M: Message<Result: Send> + Send + 'static {}

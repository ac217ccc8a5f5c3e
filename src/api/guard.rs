//! Guards: timers that are cancelled when a value is dropped.

use crate::api::timers::cancel;
use crate::model::id::TimerId;

/// A guard that cancels its timer when it is dropped; created by [`TimerId::into_guard`]. Dropping a [`TimerId`] itself
/// does nothing.
///
/// It can be dropped on any thread. If the timer has ended by then, nothing happens.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::TimerActor;
/// # #[derive(Message)]
/// # #[rtype(result = "()")]
/// # struct TimedOut;
/// # struct Order;
/// # impl Actor for Order { type Context = Context<Self>; }
/// # impl Handler<TimedOut> for Order { type Result = (); fn handle(&mut self, _: TimedOut, _: &mut Context<Self>) {} }
///
/// # System::new().block_on(async {
/// let timers = TimerActor::builder().start()?;
/// let order = Order.start();
/// {
///     let _timeout = timers.schedule_after(&order, Duration::from_secs(30), TimedOut).into_guard();
///     assert_eq!(timers.snapshot().pending(), 1);
///     // Whatever happens here, an early return or a panic included, the order does not time out afterwards.
/// }
/// assert_eq!(timers.snapshot().pending(), 0);
/// # Ok::<(), actix_timers::BuildError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the timer is cancelled as soon as its guard is dropped"]
pub struct TimerGuard {
    id: TimerId,
}

impl TimerGuard {
    /// Returns the id of the timer.
    pub const fn id(&self) -> TimerId {
        self.id
    }

    /// Releases the timer from the guard and returns its id.
    pub fn keep(self) -> TimerId {
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

impl Drop for TimerGuard {
    fn drop(&mut self) {
        cancel(self.id);
    }
}

impl TimerId {
    /// Returns a guard that cancels the timer when it is dropped.
    pub const fn into_guard(self) -> TimerGuard {
        TimerGuard { id: self }
    }
}

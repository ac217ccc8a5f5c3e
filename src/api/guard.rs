//! Guards: timers that are cancelled when a value is dropped.

use crate::api::timers::cancel;
use crate::model::id::TimerId;

/// Cancels its timer when it is dropped; made by [`TimerId::into_guard`]. A [`TimerId`] itself never does.
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
///     let _timeout = timers.schedule_after(&order, Duration::from_secs(30), TimedOut).unwrap().into_guard();
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
    /// The timer is to go on.
    kept: bool,
}

impl TimerGuard {
    /// The id of the timer.
    pub const fn id(&self) -> TimerId {
        self.id
    }

    /// Lets the timer go on without the guard.
    pub fn keep(mut self) -> TimerId {
        self.kept = true;
        self.id
    }
}

impl Drop for TimerGuard {
    fn drop(&mut self) {
        if !self.kept {
            let _ = cancel(self.id);
        }
    }
}

impl TimerId {
    /// A guard that cancels the timer when it is dropped.
    pub const fn into_guard(self) -> TimerGuard {
        TimerGuard { id: self, kept: false }
    }
}

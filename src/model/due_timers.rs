//! The request to an actor to run its due timers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use actix::{Actor, Message};

use crate::engine::OwnerId;

/// A request to an actor to run due timers now: its own, or a message for it under [tracked
/// delivery](crate::Target::tracked).
///
/// For own timers the crate sends it through the mailbox of a starved actor that
/// [accepts](crate::TimerContext::enable_due_timers) it, instead of the messages, and where a closure cannot be sent.
/// A closure is bound to the thread of its actor, so it cannot be sent through the mailbox as a message can. An actor
/// whose mailbox never becomes empty would run its closures late, and one that lives on without an address, by other
/// futures of its own, only while a timer [keeps it alive](crate::TimerOptions::keep_alive). Meanwhile messages go
/// past them. Two lines remove both limits, keep messages and closures in order, and every cancel exact:
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{TimerContext, impl_due_timers};
///
/// struct Session;
///
/// impl_due_timers!(Session);
///
/// impl Actor for Session {
///     type Context = Context<Self>;
///
///     fn started(&mut self, ctx: &mut Self::Context) {
///         ctx.enable_due_timers();
///         ctx.run_after(Duration::from_secs(1800), |_, ctx| ctx.stop());
///     }
/// }
/// # System::new().block_on(async { Session.start(); });
/// ```
///
/// Under tracked delivery, which needs no such call, the crate sends one for each due message, which stays in the timer
/// actor until its handler begins. A request that is dropped instead of [run](Self::run) makes its message a dead letter.
pub struct DueTimers {
    /// `None` once it is handled.
    host: Option<Arc<dyn BellHost>>,
    lane: OwnerId,
    /// The number of messages that had joined the lane when it was rung.
    joined: u64,
}

/// The timer actor that holds the messages of a lane.
pub(crate) trait BellHost: Send + Sync {
    /// Handles the first message of the lane, unless it joined after the bell was rung; of an own lane several.
    fn pull(self: Arc<Self>, lane: OwnerId, joined: u64, actor: &mut dyn Any, ctx: &mut dyn Any);

    /// Handles the drop of a bell. The message that it would have pulled becomes a dead letter, unless it is an own one.
    fn lose(self: Arc<Self>, lane: OwnerId, joined: u64);
}

impl DueTimers {
    pub(crate) const fn new(host: Arc<dyn BellHost>, lane: OwnerId, joined: u64) -> Self {
        Self { host: Some(host), lane, joined }
    }

    /// Runs due timers of the actor: at most 64 own ones, for which another request follows if there are more, or the
    /// handler of one message under tracked delivery.
    pub fn run<A: Actor<Context: 'static>>(mut self, actor: &mut A, ctx: &mut A::Context) {
        if let Some(host) = self.host.take() {
            host.pull(self.lane, self.joined, actor, ctx);
        }
    }
}

impl Drop for DueTimers {
    /// The mailbox was closed before it was handled, or its handler did not run it.
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            host.lose(self.lane, self.joined);
        }
    }
}

impl fmt::Debug for DueTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DueTimers")
    }
}

impl Message for DueTimers {
    type Result = ();
}

/// Implements `Handler<DueTimers>` for an actor; for a generic one with its parameters first, in brackets:
/// `impl_due_timers!([S: 'static] Shop<S>)`. See [`DueTimers`].
#[macro_export]
macro_rules! impl_due_timers {
    (@one [$($parameters:tt)*] $actor:ty) => {
        impl<$($parameters)*> $crate::__private::Handler<$crate::DueTimers> for $actor {
            type Result = ();

            fn handle(&mut self, due: $crate::DueTimers, ctx: &mut Self::Context) {
                due.run(self, ctx);
            }
        }
    };
    ([$($parameters:tt)*] $actor:ty) => {
        $crate::impl_due_timers!(@one [$($parameters)*] $actor);
    };
    ($actor:ty) => {
        $crate::impl_due_timers!(@one [] $actor);
    };
}

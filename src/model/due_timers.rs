//! The request to an actor to run its due timers.

use actix::Message;

/// A request to an actor to run its own due timers now. The crate sends it through the mailbox of an actor that
/// [accepts](crate::TimerContext::enable_due_timers) it, where a closure cannot be sent itself.
///
/// A closure is bound to the thread of its actor, so it cannot be sent through the mailbox as a message can. An actor
/// whose mailbox never becomes empty would run its closures late, and one that lives on without an address, by other
/// futures of its own, only while a timer [keeps it alive](crate::TimerOptions::keep_alive). Meanwhile late messages go
/// past them. Two lines remove both limits, and bring messages and closures in order:
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
#[derive(Debug)]
pub struct DueTimers(pub(crate) ());

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

//! Virtual time for tests of actors that use timers.
//!
//! The chapter [Testing](crate::guide::testing) of the guide describes both kinds of virtual time, with examples.

use std::time::Duration;

use crate::api::settling::Settling;
use crate::service::state::Service;

/// Advances tokio's clock by `by`, and returns when the due messages have been handled by the actors of this thread.
///
/// Under `tokio::time::pause` this takes no real time. Otherwise it takes `by`, with the same result. Tokio's clock
/// moves in whole milliseconds.
///
/// It does not wait for a handler's future, which may itself wait for a later time. Messages that an actor cannot
/// handle now, because it waits for a future (`ctx.wait`), stay due.
///
/// ```
/// use std::time::Duration;
/// use actix::prelude::*;
/// use actix_timers::{TimerContext, testing};
///
/// #[derive(Message)]
/// #[rtype(result = "()")]
/// struct Expire;
///
/// struct Session;
///
/// impl Actor for Session {
///     type Context = Context<Self>;
///     fn started(&mut self, ctx: &mut Self::Context) {
///         ctx.schedule_after(Duration::from_secs(30 * 60), Expire);
///     }
/// }
/// impl Handler<Expire> for Session {
///     type Result = ();
///     fn handle(&mut self, _: Expire, ctx: &mut Self::Context) {
///         ctx.stop();
///     }
/// }
///
/// # System::new().block_on(async {
/// tokio::time::pause();
/// let session = Session.start();
/// testing::advance(Duration::from_secs(30 * 60 - 1)).await;
/// assert!(session.connected());
/// testing::advance(Duration::from_secs(1)).await;
/// assert!(!session.connected());
/// # });
/// ```
pub async fn advance(by: Duration) {
    let mut settling = Settling::new(Service::is_here);
    settling.settle().await;
    tokio::time::sleep(by).await;
    settling.settle().await;
}

/// Returns when all due messages have been handled by the actors of this thread. No virtual time passes.
pub async fn settle() {
    Settling::new(Service::is_here).settle().await;
}

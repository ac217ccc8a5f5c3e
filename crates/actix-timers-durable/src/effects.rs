//! Effects of handlers that happen exactly once: in the transaction that ends the delivery.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use actix_timers::integration::{contain, drop_contained};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::envelope::{Durable, HandlerError};
use super::store::{Effect, Op, Outcome, StoreError};

/// An end with an effect, in progress from the first poll on. A handler can return it as its `ResponseFuture`.
pub type Ending<T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send>>;

const ENDED: &str = "the delivery has ended otherwise, by a cancel, its time-out, a stop or an earlier call: nothing of the \
    effect is kept";

const NO_STORE: &str = "a message of `Durable::for_test` has no store: test a handler that ends its delivery in a transaction \
    with `DurableTimers` on a `MemoryStore`";

impl<M> Durable<M> {
    /// Completes the timer together with an effect of its handler, on an [`EmbeddedStore`](super::EmbeddedStore) or a
    /// [`MemoryStore`](super::MemoryStore): the closure writes into tables of the application in the same database, and both
    /// are committed together, or neither is. So the effect happens exactly once, also if the process dies in between. A
    /// repetition continues with its next time.
    ///
    /// When the future returns `Ok`, effect and end are on disk, and the answer of the handler decides no more. Return its
    /// errors: the delivery has failed then, even if the answer is `Ok`, and the message comes again unless both were
    /// committed after all.
    ///
    /// The closure runs on the thread of the store, at most once, after the check that the delivery has not ended. It holds up
    /// all claims, ends and schedules: compute before it, and only write in it. It must not use these durable timers. An error or a
    /// panic undoes what it wrote, and harms no other request. Statements that begin, divide or end a transaction, attach a
    /// database, set a `PRAGMA`, analyze, alter a temporary table, or change a table of the store are refused as not authorized. That
    /// finds mistakes: a statement in the very words of one that the store has cached passes. A deferred foreign key that is
    /// violated at the commit fails the other effects of that commit, too; a conflict that rolls back, as of
    /// `INSERT OR ROLLBACK`, fails all its requests. Triggers do not run.
    ///
    /// [`EmbeddedStore::transaction`](super::EmbeddedStore::transaction) creates the tables.
    ///
    /// ```
    /// use std::time::Duration;
    /// use actix::prelude::*;
    /// use actix_timers::ManualClock;
    /// use actix_timers_durable::{Durable, DurableMessage, DurableTimers, HandlerError, MemoryStore};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Charge {
    ///     order: u32,
    /// }
    ///
    /// impl DurableMessage for Charge {
    ///     const NAME: &'static str = "charge";
    /// }
    ///
    /// struct Bank;
    ///
    /// impl Actor for Bank {
    ///     type Context = Context<Self>;
    /// }
    ///
    /// impl Handler<Durable<Charge>> for Bank {
    ///     type Result = ResponseFuture<Result<(), HandlerError>>;
    ///
    ///     fn handle(&mut self, charge: Durable<Charge>, _: &mut Context<Self>) -> Self::Result {
    ///         let order = charge.order;
    ///         charge.complete_with(move |connection| {
    ///             connection.execute("INSERT INTO charges VALUES (?1)", [order])?;
    ///             Ok(())
    ///         })
    ///     }
    /// }
    ///
    /// # System::new().block_on(async {
    /// // In production: `EmbeddedStore::open("timers")?`, and no clock.
    /// let mut store = MemoryStore::new();
    /// store.transaction(|connection| connection.execute_batch("CREATE TABLE IF NOT EXISTS charges (order_id INTEGER)"))?;
    /// let disk = store.disk().clone();
    /// let clock = ManualClock::new();
    /// let timers =
    ///     DurableTimers::builder(store).route::<Charge>("bank", Bank.start()).clock(clock.clone()).start()?;
    /// timers.schedule_after("bank", Duration::from_secs(60), Charge { order: 7 }).await?;
    /// clock.advance(Duration::from_secs(60)).await;
    /// let charged = disk.open().transaction(|connection| {
    ///     connection.query_row("SELECT order_id FROM charges", (), |row| row.get::<_, u32>(0))
    /// })?;
    /// assert_eq!(charged, 7);
    /// # timers.stop().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// That of the closure, or its panic; the delivery has ended otherwise; the store has failed, or is none of those above:
    /// on PostgreSQL a handler ends its delivery in a transaction of its own.
    pub fn complete_with<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&Connection) -> Result<T, HandlerError> + Send + 'static,
    ) -> Ending<T> {
        self.end_with(Ok(()), effect)
    }

    /// As [`complete_with`](Self::complete_with), but the handler has failed: with the effect the timer becomes pending again at
    /// the time of its next attempt, or a dead letter, as `error` says. During a [stop](super::DurableTimers::stop) an error that
    /// another attempt may fix uses up none.
    ///
    /// # Errors
    /// As [`complete_with`](Self::complete_with).
    pub fn fail_with<T: Send + 'static>(
        &self,
        error: HandlerError,
        effect: impl FnOnce(&Connection) -> Result<T, HandlerError> + Send + 'static,
    ) -> Ending<T> {
        self.end_with(Err(error), effect)
    }

    fn end_with<T: Send + 'static>(
        &self,
        answer: Result<(), HandlerError>,
        effect: impl FnOnce(&Connection) -> Result<T, HandlerError> + Send + 'static,
    ) -> Ending<T> {
        let under_way = Arc::clone(&self.under_way);
        let Some((committer, clock)) = under_way.node.clone() else {
            return Box::pin(ready(Err(HandlerError::new(NO_STORE))));
        };
        let (tell, mut told) = oneshot::channel();
        let effect = Effect::new(move |connection| {
            let panicked = |text| Err(HandlerError::new(format_args!("the effect panicked: {text}")));
            let made = contain(|| effect(connection)).unwrap_or_else(panicked);
            let is_kept = made.is_ok();
            // The receiver may be gone. The result is the user's.
            drop_contained(tell.send(made));
            is_kept
        });
        Box::pin(async move {
            let (delivery, next, end) = under_way.end_in_transaction(answer, clock.wall());
            let ended = committer.change(Op::EndWith(delivery, next, effect)).await;
            match &ended {
                Ok(Outcome::Ended { due }) => _ = under_way.written.set((*due, end)),
                Err(error) if matches!(**error, StoreError::Unknown(_) | StoreError::Failed(_)) => {}
                _ => under_way.was_refused(),
            }
            match (ended, told.try_recv()) {
                (_, Ok(Err(error))) => Err(error),
                (Ok(Outcome::Ended { .. }), Ok(made)) => made,
                (Ok(_), _) => Err(HandlerError::new(ENDED)),
                (Err(error), _) => Err(HandlerError::new(error)),
            }
        })
    }
}

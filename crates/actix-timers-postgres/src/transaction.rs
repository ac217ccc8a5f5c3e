//! Timers in a transaction of the user: committed with it, or gone with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_timers::CancelOutcome;
use actix_timers_durable::store::{OnKey, Placement};
use actix_timers_durable::{
    DurableError, DurableId, DurableMessage, PayloadCodec, Record, Schedule, ScheduleError, Scheduled, StoreError,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use crate::error::{Failure, unreadable};
use crate::outcomes::code;
use crate::{PostgresStore, plan, server_clock};

/// The clock is read again when it was last read this long ago: a store of a node that has joined reads it regularly.
const MAX_CLOCK_AGE: Duration = Duration::from_secs(30);

impl PostgresStore {
    /// Sets the codec of the messages that [`schedule_in`](Self::schedule_in) stores: the same as
    /// [`payload_codec`](actix_timers_durable::DurableTimersBuilder::payload_codec) of the nodes that deliver them.
    #[must_use]
    pub fn payload_codec(mut self, codec: impl PayloadCodec) -> Self {
        self.records = self.records.payload_codec(codec);
        self
    }

    /// Schedules a durable timer in a transaction of yours: committed with it, gone with it. No durable timers need run
    /// in this process.
    ///
    /// `client` is a `Transaction` or a `Client` of `tokio_postgres` on the database of the store. Its role needs the
    /// rights that the SQL functions need. The due time is of the server's clock, counted from the call that made the
    /// request, not from the commit.
    ///
    /// The route is not checked: if no node delivers it, its timers wait for one. A route with a pool of its own needs
    /// [`Schedule::pool`].
    ///
    /// A key is locked until the transaction ends: others that schedule with it wait, the nodes included. Keep the
    /// transaction short, and schedule in the order of keys. At the isolation levels `REPEATABLE READ` and
    /// `SERIALIZABLE` a key that another transaction has used since the first statement is a serialization failure, and
    /// a replaced timer that is due within a minute counts as in progress.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use actix_timers_durable::{DurableMessage, DurableOptions, Schedule};
    /// use actix_timers_postgres::PostgresStore;
    /// use tokio_postgres::Client;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Remind {
    ///     order: i64,
    /// }
    ///
    /// impl DurableMessage for Remind {
    ///     const NAME: &'static str = "remind";
    /// }
    ///
    /// async fn place_order(client: &mut Client, store: &PostgresStore) -> Result<i64, Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     let order = transaction.query_one("INSERT INTO orders DEFAULT VALUES RETURNING id", &[]).await?.get(0);
    ///     let in_an_hour = Schedule::after("office", Duration::from_secs(3600), Remind { order })
    ///         .options(DurableOptions::new().if_absent(format!("order-{order}")));
    ///     let _ = store.schedule_in(&transaction, in_an_hour).await?;
    ///     transaction.commit().await?;
    ///     Ok(order)
    /// }
    /// ```
    ///
    /// # Errors
    /// The message, with the reason: the due time is out of range, the message cannot be encoded or is too large, the
    /// pool is unknown, or a statement failed. A failed statement has aborted the transaction; it is
    /// [`StoreError::Aborted`] with the `tokio_postgres::error::DbError`, which has the code.
    pub async fn schedule_in<M: DurableMessage>(
        &self,
        client: &impl GenericClient,
        request: Schedule<M>,
    ) -> Result<Scheduled, ScheduleError<M>> {
        let pool = request.pool_name().to_owned();
        let prepared = self.prepare_in(client, &pool).await;
        let record = prepared.and_then(|shard| self.records.record(&request, shard));
        let scheduled = match record {
            Ok((record, on_key)) => self.put_in(client, &record, on_key).await,
            Err(reason) => Err(reason),
        };
        scheduled.map_err(|reason| ScheduleError::new(request.into_message(), reason))
    }

    /// Cancels a durable timer in a transaction of yours: if that is rolled back, the timer stays. Until it ends, the
    /// timer is not delivered, and its owner may wait for it: keep the transaction short.
    ///
    /// The outcomes are those of [`DurableTimers::cancel`](actix_timers_durable::DurableTimers::cancel). At the isolation
    /// levels `REPEATABLE READ` and `SERIALIZABLE` a timer that is due within a minute is
    /// [`InProgress`](CancelOutcome::InProgress), since they hide whether its delivery has begun.
    ///
    /// # Errors
    /// A statement failed, and has aborted the transaction: as [`schedule_in`](Self::schedule_in).
    pub async fn cancel_in(&self, client: &impl GenericClient, id: DurableId) -> Result<CancelOutcome, DurableError> {
        let sql = self.sql("SELECT @schema@.cancel($1)");
        let rows = query(client, &sql, &[(&Uuid::from(id), Type::UUID)]).await?;
        match rows.first().map(|row| row.get(0)) {
            Some("cancelled") => Ok(CancelOutcome::Cancelled),
            Some("in_progress") => Ok(CancelOutcome::InProgress),
            _ => Ok(CancelOutcome::NotFound),
        }
    }

    /// Reads the clock and the shards of the pool, unless they are known. Returns a shard.
    async fn prepare_in(&self, client: &impl GenericClient, pool: &str) -> Result<u16, DurableError> {
        if self.clock.age(Instant::now()).is_none_or(|age| age > MAX_CLOCK_AGE) {
            let rows = query(client, server_clock::SQL, &[]).await?;
            if let Some(row) = rows.first() {
                server_clock::follow(&self.clock, row.get(0));
            }
        }
        if !self.places.contains(pool) {
            let sql = self.sql("SELECT s.shard FROM @schema@.shards s WHERE s.pool = $1 ORDER BY s.shard");
            let rows = query(client, &sql, &[(&pool, Type::TEXT)]).await?;
            if rows.is_empty() {
                return Err(DurableError::UnknownPool { pool: pool.to_owned() });
            }
            self.places.add_pool(pool, rows.iter().map(|row| crate::columns::shard(row.get(0))));
        }
        Ok(self.places.shard(pool))
    }

    async fn put_in(
        &self,
        client: &impl GenericClient,
        record: &Record,
        on_key: OnKey,
    ) -> Result<Scheduled, DurableError> {
        let id = record.id;
        let (uuid, shard, due) = (Uuid::from(id), plan::shard(id.shard()), plan::time(record.progress.due));
        let (bytes, key) = (plan::encode(record), record.key.as_ref().map(|key| key.as_bytes()));
        let replaces = on_key == OnKey::Replace;
        let params: [Param<'_>; 6] = [
            (&shard, Type::INT2),
            (&uuid, Type::UUID),
            (&due, Type::INT8),
            (&bytes, Type::BYTEA),
            (&key, Type::BYTEA),
            (&replaces, Type::BOOL),
        ];
        let sql = self.sql("SELECT p.code, p.other FROM @schema@.put_timer($1, $2, $3, $4, $5, $6) p");
        let rows = query(client, &sql, &params).await?;
        let Some(row) = rows.first() else { return Ok(Scheduled::Created(id)) };
        let Some(other) = crate::columns::id(row, 1) else { return Err(store_error(unreadable("the id of a key"))) };
        Ok(match row.get(0) {
            code::EXISTS => Scheduled::Exists(other),
            code => Scheduled::Replaced { id, old: other, in_progress: code == code::REPLACED_IN_FLIGHT },
        })
    }

    fn sql(&self, text: &str) -> String {
        self.server.schema.sql(text)
    }
}

/// A parameter of a statement.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Runs a statement in one round trip.
async fn query(client: &impl GenericClient, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DurableError> {
    client.query_typed(sql, params).await.map_err(|error| {
        store_error(match (Failure::of(&error), error.as_db_error()) {
            (Failure::Reported { .. }, Some(reported)) => StoreError::Aborted(Box::new(reported.clone())),
            // Without a transaction it may have been executed.
            (failure, _) => StoreError::Unknown(failure.to_string()),
        })
    })
}

fn store_error(error: StoreError) -> DurableError {
    DurableError::Store(Arc::new(error))
}

//! Timers in a transaction of the user: committed with it, or gone with it.

use std::sync::Arc;
use std::time::Duration;

use actix_timers::CancelOutcome;
use actix_timers_durable::store::{
    NewTimer, Next, OnKey, boot_clock, headers_to_json, note_to_json, repeat_to_json, retry_to_json,
};
use actix_timers_durable::{
    DueTime, Durable, DurableError, DurableId, DurableMessage, HandlerError, PayloadCodec, Schedule, ScheduleError,
    Scheduled, StoreError,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, GenericClient, Row};
use uuid::Uuid;

use crate::error::{Failure, unreadable};
use crate::store::{PostgresStore, check, read_clock};

/// The clock is read again when it was last read this long ago: a store of a node that has joined reads it regularly.
const MAX_CLOCK_AGE: Duration = Duration::from_secs(30);

const SCHEDULE: &str = "
    SELECT s.id, s.outcome, s.other FROM @schema@.schedule(
        route => $1, message_type => $2, payload => $3::bytea, due => to_timestamp($4::bigint / 1000.0), key => $5,
        replace => $6, message_version => $7, headers => $8::text::jsonb, max_attempts => $9, retry => $10::text::jsonb,
        repeat => $11::text::jsonb, codec => $12, keep_key => $13::bigint * interval '1 ms') s";

const END: &str = "SELECT @schema@.end_delivery($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)";

/// A statement that schedules a timer, for any client of PostgreSQL: its text, and the values of `$1` to `$13` in the order
/// of the fields.
///
/// It returns one row: `id` of type `uuid`, `outcome` (`created`, `exists`, `replaced` or `replaced_in_progress`), and
/// `other`, the id of a replaced timer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleStatement {
    /// The text.
    pub sql: String,
    /// `$1`, a text.
    pub route: String,
    /// `$2`, a text.
    pub message_type: String,
    /// `$3`, `bytea`.
    pub payload: Vec<u8>,
    /// `$4`, `bigint`: milliseconds since 1970 by the server's clock.
    pub due: i64,
    /// `$5`, a text or null.
    pub key: Option<String>,
    /// `$6`, `boolean`.
    pub replace: bool,
    /// `$7`, `int`.
    pub message_version: i32,
    /// `$8`, a text or null.
    pub headers: Option<String>,
    /// `$9`, `int` or null.
    pub max_attempts: Option<i32>,
    /// `$10`, a text or null.
    pub retry: Option<String>,
    /// `$11`, a text or null.
    pub repeat: Option<String>,
    /// `$12`, a text or null.
    pub codec: Option<String>,
    /// `$13`, `bigint` or null: the milliseconds for which the key stays taken.
    pub keep_key_ms: Option<i64>,
}

/// A statement that ends a delivery, for any client of PostgreSQL: its text, and the values of `$1` to `$9` in the order of the
/// fields. It returns no value, and fails if the delivery has ended otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndStatement {
    /// The text.
    pub sql: String,
    /// `$1`, `uuid`.
    pub id: Uuid,
    /// `$2`, `bigint`.
    pub repetition: i64,
    /// `$3`, `int`.
    pub attempt: i32,
    /// `$4`, `bigint` or null: the next due time, in milliseconds since 1970 by the server's clock.
    pub due: Option<i64>,
    /// `$5`, `bigint` or null: that of the next message, retries aside.
    pub nominal: Option<i64>,
    /// `$6`, `bigint` or null: the number of the next repetition.
    pub next: Option<i64>,
    /// `$7`, a text or null: the reason of a dead letter.
    pub reason: Option<String>,
    /// `$8`, `integer`: the part of the budget of attempts that is returned.
    pub returned: i32,
    /// `$9`, a text or null: the facts for the past of the route, if it keeps one.
    pub note: Option<String>,
}

impl PostgresStore {
    /// Sets the codec of the messages that [`schedule_in`](Self::schedule_in) stores: the same as
    /// [`payload_codec`](actix_timers_durable::DurableTimersBuilder::payload_codec) of the nodes that deliver them.
    #[must_use]
    pub fn payload_codec(mut self, codec: impl PayloadCodec) -> Self {
        self.records = self.records.clone().payload_codec(codec);
        self
    }

    /// Schedules a durable timer in a transaction of yours: committed with it, gone with it. No durable timers need run
    /// in this process.
    ///
    /// `client` is a `Transaction` or a `Client` of `tokio_postgres` on the database of the store. Its role needs the
    /// rights that the SQL functions need. The due time is of the server's clock, counted from the call that made the
    /// request, not from the commit.
    ///
    /// The route is not checked: if no node delivers it, its timers wait for one.
    ///
    /// A key is locked until the transaction ends: others that schedule with it wait, the nodes included. Keep the
    /// transaction short, and schedule in the order of keys. At the isolation levels `REPEATABLE READ` and
    /// `SERIALIZABLE` a key that another transaction has used since the first statement is a serialization failure.
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
    /// The message, with the reason: the due time is out of range, the message cannot be encoded or is too large, or a
    /// statement failed. A failed statement has aborted the transaction; it is
    /// [`StoreError::Aborted`] with the `tokio_postgres::error::DbError`, which has the code.
    pub async fn schedule_in<M: DurableMessage>(
        &self,
        client: &impl GenericClient,
        request: Schedule<M>,
    ) -> Result<Scheduled, ScheduleError<M>> {
        // The message is not borrowed while a statement runs: it need not be `Sync`.
        let timer = self.prepare_in(client).await.and_then(|()| self.schedule_request(&request));
        let scheduled = match timer {
            Ok(timer) => self.put_in(client, timer).await,
            Err(reason) => Err(reason),
        };
        scheduled.map_err(|reason| ScheduleError::new(request.into_message(), reason))
    }

    /// Returns the statement of [`schedule_in`](Self::schedule_in) with its values, for a transaction of another client of
    /// PostgreSQL. A delay is counted by the server's clock as it was last read: at the connect, or by the durable timers of
    /// this store.
    ///
    /// With sqlx:
    ///
    /// ```text
    /// let timer = store.schedule_statement(Schedule::after("office", delay, Remind { order }))?;
    /// sqlx::query(&timer.sql)
    ///     .bind(timer.route).bind(timer.message_type).bind(timer.payload).bind(timer.due).bind(timer.key)
    ///     .bind(timer.replace).bind(timer.message_version).bind(timer.headers).bind(timer.max_attempts)
    ///     .bind(timer.retry).bind(timer.repeat).bind(timer.codec).bind(timer.keep_key_ms)
    ///     .fetch_one(&mut *transaction).await?;
    /// ```
    ///
    /// # Errors
    /// The message, with the reason: the due time is out of range, the message cannot be encoded or is too large.
    pub fn schedule_statement<M: DurableMessage>(
        &self,
        request: Schedule<M>,
    ) -> Result<ScheduleStatement, ScheduleError<M>> {
        self.schedule_request(&request).map_err(|reason| ScheduleError::new(request.into_message(), reason))
    }

    /// Cancels a durable timer in a transaction of yours: if that is rolled back, the timer stays. Until it ends, the
    /// timer is not delivered, and its owner may wait for it: keep the transaction short.
    ///
    /// The outcomes are those of [`DurableTimers::cancel`](actix_timers_durable::DurableTimers::cancel). At the isolation
    /// levels `REPEATABLE READ` and `SERIALIZABLE` a timer that was claimed since the first statement is a serialization failure.
    ///
    /// # Errors
    /// A statement failed, and has aborted the transaction: as [`schedule_in`](Self::schedule_in).
    pub async fn cancel_in(&self, client: &impl GenericClient, id: DurableId) -> Result<CancelOutcome, DurableError> {
        let sql = self.server.schema.sql("SELECT @schema@.cancel($1)");
        let rows = query(client, &sql, &[(&Uuid::from(id), Type::UUID)]).await?;
        match rows.first().map(|row| row.get(0)) {
            Some("cancelled") => Ok(CancelOutcome::Cancelled),
            Some("in_progress") => Ok(CancelOutcome::InProgress),
            _ => Ok(CancelOutcome::NotFound),
        }
    }

    /// Completes a durable timer in a transaction of its handler: the effects of the handler and the end of the timer are
    /// committed together, or neither is. So they happen exactly once, also if a process dies in between. A repetition continues with its
    /// next time.
    ///
    /// `client` is a `Transaction` of `tokio_postgres` on the database of the store. The answer of the handler decides no more:
    /// if the transaction is committed the delivery has ended, and if not it has failed, even if the answer is `Ok`. If the
    /// reply of the commit is lost, return the error: the message comes again only if nothing was committed. Joined with the future
    /// of another statement, by `tokio::join!`, it needs no round trip of its own.
    ///
    /// ```no_run
    /// use actix_timers_durable::{Durable, HandlerError};
    /// use actix_timers_postgres::PostgresStore;
    /// use tokio_postgres::Client;
    /// # struct Charge { order: i64 }
    /// # impl Charge { const NAME: &'static str = "charge"; }
    ///
    /// async fn charge(client: &mut Client, store: &PostgresStore, charge: &Durable<Charge>) -> Result<(), HandlerError> {
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("INSERT INTO charges (order_id) VALUES ($1)", &[&charge.order]).await?;
    ///     store.complete_in(&transaction, charge).await?;
    ///     Ok(transaction.commit().await?)
    /// }
    /// ```
    ///
    /// # Errors
    /// The statement failed, and has aborted the transaction, as of [`schedule_in`](Self::schedule_in): with the code
    /// `NO_DATA_FOUND` if the delivery has ended otherwise: by a cancel, its time-out, another node, or an earlier call in the
    /// same transaction. At the isolation level `SERIALIZABLE` ends of different timers that continue may conflict.
    pub async fn complete_in<M>(&self, client: &impl GenericClient, message: &Durable<M>) -> Result<(), DurableError> {
        self.end_in(client, message, Ok(())).await
    }

    /// As [`complete_in`](Self::complete_in), but the handler has failed: in the same transaction the timer becomes pending again
    /// at the time of its next attempt, or a dead letter.
    ///
    /// # Errors
    /// As [`complete_in`](Self::complete_in).
    pub async fn fail_in<M>(
        &self,
        client: &impl GenericClient,
        message: &Durable<M>,
        error: HandlerError,
    ) -> Result<(), DurableError> {
        self.end_in(client, message, Err(error)).await
    }

    async fn end_in<M>(
        &self,
        client: &impl GenericClient,
        message: &Durable<M>,
        answer: Result<(), HandlerError>,
    ) -> Result<(), DurableError> {
        self.prepare_in(client).await?;
        let end = self.end_statement(message, answer);
        let params: [Param<'_>; 9] = [
            (&end.id, Type::UUID),
            (&end.repetition, Type::INT8),
            (&end.attempt, Type::INT4),
            (&end.due, Type::INT8),
            (&end.nominal, Type::INT8),
            (&end.next, Type::INT8),
            (&end.reason, Type::TEXT),
            (&end.returned, Type::INT4),
            (&end.note, Type::TEXT),
        ];
        let ended = query(client, &end.sql, &params).await;
        if matches!(&ended, Err(DurableError::Store(error)) if matches!(**error, StoreError::Aborted(_))) {
            message.end_was_refused();
        }
        ended.map(drop)
    }

    /// Returns the statement of [`complete_in`](Self::complete_in) or, with an error, [`fail_in`](Self::fail_in) with its values,
    /// for a transaction of another client of PostgreSQL. Run it, or the delivery counts as failed.
    pub fn end_statement<M>(&self, message: &Durable<M>, answer: Result<(), HandlerError>) -> EndStatement {
        let now = self.clock.wall(boot_clock::now());
        let (delivery, next) = message.end_in_transaction(answer, now);
        let (next, note) = next.split();
        let (again, snoozed, reason) = match next {
            Next::Again(again) => (Some(*again), None, None),
            Next::Snooze(due) => (None, Some(*due), None),
            Next::GiveBack => (None, Some(DueTime::reached_at(now)), None),
            Next::Dead { reason, then } => (*then, None, Some(reason.to_string())),
            _ => (None, None, None),
        };
        EndStatement {
            sql: self.server.schema.sql(END),
            id: delivery.id.into(),
            repetition: delivery.repetition.cast_signed(),
            attempt: delivery.attempt.cast_signed(),
            due: again.map(|again| again.due).or(snoozed).map(|due| due.as_millis().cast_signed()),
            nominal: again.map(|again| again.nominal.as_millis().cast_signed()),
            next: again.map(|again| again.repetition.cast_signed()),
            reason,
            returned: again.map_or(i32::from(snoozed.is_some()), |again| again.returned.cast_signed()),
            note: note.map(note_to_json),
        }
    }

    /// Reads the clock, unless it is known.
    async fn prepare_in(&self, client: &impl GenericClient) -> Result<(), DurableError> {
        if self.clock.age(boot_clock::now()).is_none_or(|age| age > MAX_CLOCK_AGE) {
            read_clock(client, &self.clock).await.map_err(failed)?;
        }
        Ok(())
    }

    fn schedule_request<M: DurableMessage>(&self, request: &Schedule<M>) -> Result<ScheduleStatement, DurableError> {
        let NewTimer { record, on_key } = self.records.new_timer(request)?;
        check(&record).map_err(store_error)?;
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        Ok(ScheduleStatement {
            sql: self.server.schema.sql(SCHEDULE),
            route: record.route.to_string(),
            message_type: record.message_type.to_string(),
            payload: record.payload.to_vec(),
            // The function adds the jitter.
            due: record.progress.nominal.as_millis().cast_signed(),
            key: text(&record.key),
            replace: on_key == OnKey::Replace,
            message_version: record.message_version.cast_signed(),
            headers: headers_to_json(&record.headers),
            max_attempts: record.max_attempts.map(|attempts| i32::try_from(attempts).unwrap_or(i32::MAX)),
            retry: record.retry.as_ref().map(retry_to_json),
            repeat: record.repeat.as_ref().map(repeat_to_json),
            codec: text(&record.payload_codec),
            keep_key_ms: record.keep_key_ms().map(u64::cast_signed),
        })
    }

    async fn put_in(&self, client: &impl GenericClient, timer: ScheduleStatement) -> Result<Scheduled, DurableError> {
        let params: [Param<'_>; 13] = [
            (&timer.route, Type::TEXT),
            (&timer.message_type, Type::TEXT),
            (&timer.payload, Type::BYTEA),
            (&timer.due, Type::INT8),
            (&timer.key, Type::TEXT),
            (&timer.replace, Type::BOOL),
            (&timer.message_version, Type::INT4),
            (&timer.headers, Type::TEXT),
            (&timer.max_attempts, Type::INT4),
            (&timer.retry, Type::TEXT),
            (&timer.repeat, Type::TEXT),
            (&timer.codec, Type::TEXT),
            (&timer.keep_key_ms, Type::INT8),
        ];
        let rows = query(client, &timer.sql, &params).await?;
        let id = |row: &Row, column| DurableId::from_uuid(row.get::<_, Option<Uuid>>(column)?).ok();
        let scheduled = rows.first().and_then(|row| {
            Some(match row.get(1) {
                "exists" => Scheduled::Exists(id(row, 0)?),
                "created" => Scheduled::Created(id(row, 0)?),
                outcome => {
                    let in_progress = outcome == "replaced_in_progress";
                    Scheduled::Replaced { id: id(row, 0)?, old: id(row, 2)?, in_progress }
                }
            })
        });
        scheduled.ok_or_else(|| store_error(unreadable("the outcome of a request")))
    }
}

/// A parameter of a statement.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Runs a statement in one round trip.
async fn query(client: &impl GenericClient, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DurableError> {
    client.query_typed(sql, params).await.map_err(failed)
}

fn failed(error: Error) -> DurableError {
    store_error(match (Failure::of(&error), error.as_db_error()) {
        (Failure::Reported { .. }, Some(reported)) => StoreError::Aborted(Box::new(reported.clone())),
        // Without a transaction it may have been executed.
        (failure, _) => StoreError::Unknown(failure.to_string()),
    })
}

fn store_error(error: StoreError) -> DurableError {
    DurableError::Store(Arc::new(error))
}

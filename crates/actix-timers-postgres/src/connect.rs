//! Checks of a server, and the creation of the tables.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{StoreClock, codec};
use tokio::task::{LocalSet, spawn_local};
use tokio::{runtime, time};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};
use uuid::Uuid;

use crate::error::text;
use crate::session::Server;
use crate::sql::{FORMAT, REVISION, TABLES};
use crate::{ConnectError, PostgresOptions, server_clock};

/// The oldest supported version.
const OLDEST: i32 = 140_000;

/// The facts that a store needs before it joins.
#[derive(Debug)]
pub(crate) struct Found {
    /// The shards of each pool.
    pub(crate) pools: Vec<(String, u16)>,
}

/// Checks the server and creates the tables, on a thread of its own: the caller may have any runtime.
pub(crate) async fn connect(
    server: Arc<Server>,
    options: PostgresOptions,
    clock: StoreClock,
) -> Result<Found, ConnectError> {
    let (reply, replied) = tokio::sync::oneshot::channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(ConnectError::Thread)?;
    let run = move || {
        let result = LocalSet::new().block_on(&runtime, check(&server, &options, &clock));
        _ = reply.send(result);
    };
    std::thread::Builder::new().name("timers connect".to_owned()).spawn(run).map_err(ConnectError::Thread)?;
    replied.await.unwrap_or_else(|_| Err(ConnectError::Failed("the thread has ended".to_owned())))
}

/// Bounds a step.
pub(crate) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let over = || ConnectError::Failed(format!("no reply within {limit:?}"));
    time::timeout(limit, step).await.unwrap_or_else(|_| Err(over()))
}

pub(crate) async fn open(server: &Server) -> Result<Client, ConnectError> {
    let limit = server.timeout;
    let dialled = time::timeout(limit, server.dial.dial(&server.config)).await;
    let dialled = dialled.map_err(|_| ConnectError::Unreachable(format!("no reply within {limit:?}")))?;
    let (client, connection) = dialled.map_err(|error| ConnectError::Unreachable(text(&error)))?;
    spawn_local(async move { _ = connection.await });
    Ok(client)
}

async fn check(server: &Server, options: &PostgresOptions, clock: &StoreClock) -> Result<Found, ConnectError> {
    let client = open(server).await?;
    let limit = server.timeout + Duration::from_secs(1);
    within(limit, check_product(&client)).await?;
    within(limit, check_settings(&client)).await?;
    let other = open(server).await?;
    within(limit, check_session(&client, &other, server.timeout / 2)).await?;
    drop(other);
    within(limit, set_up(&client, server)).await?;
    migrate(&client, server, options, limit).await?;
    within(limit, check_rights(&client, server)).await?;
    within(limit, set_clock(&client, clock)).await?;
    within(limit, read_pools(&client, server)).await
}

pub(crate) fn failed(error: &Error) -> ConnectError {
    match error.code() {
        Some(state) if *state == SqlState::INSUFFICIENT_PRIVILEGE => ConnectError::MissingRight(text(error)),
        Some(state) if *state == SqlState::READ_ONLY_SQL_TRANSACTION => ConnectError::ReadOnly,
        _ => ConnectError::Failed(text(error)),
    }
}

/// Returns the only value of a simple query.
pub(crate) async fn value(client: &Client, sql: &str) -> Result<String, Error> {
    let messages = client.simple_query(sql).await?;
    let value = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(value.unwrap_or_default().to_owned())
}

pub(crate) async fn check_product(client: &Client) -> Result<(), ConnectError> {
    let version = value(client, "SELECT version()").await;
    let version = version.map_err(|error| ConnectError::NotPostgres(format!("unknown: {}", text(&error))))?;
    check_version_text(&version)?;
    let number = value(client, "SELECT current_setting('server_version_num')").await;
    let number = number.ok().and_then(|number| number.parse::<i32>().ok());
    match number {
        None => Err(ConnectError::NotPostgres(version)),
        Some(number) if number < OLDEST => Err(ConnectError::TooOld(version)),
        Some(_) => Ok(()),
    }
}

/// Rejects other engines with the same protocol.
fn check_version_text(version: &str) -> Result<(), ConnectError> {
    let others =
        ["-YB-", "Yugabyte", "Redshift", "Greenplum", "Cockroach", "CrateDB", "Materialize", "EdgeDB", "QuestDB", "H2"];
    let is_other = others.iter().any(|name| version.contains(name));
    if version.starts_with("PostgreSQL ") && !is_other {
        Ok(())
    } else {
        Err(ConnectError::NotPostgres(version.chars().take(100).collect()))
    }
}

pub(crate) async fn check_settings(client: &Client) -> Result<(), ConnectError> {
    let is = |sql: &'static str, wrong: &'static str| async move {
        Ok::<_, ConnectError>(value(client, sql).await.map_err(|error| failed(&error))? == wrong)
    };
    if is("SELECT pg_is_in_recovery()", "t").await? {
        return Err(ConnectError::Standby);
    }
    if is("SHOW transaction_read_only", "on").await? {
        return Err(ConnectError::ReadOnly);
    }
    if is("SHOW fsync", "off").await? {
        return Err(ConnectError::NotDurable("fsync"));
    }
    if is("SHOW synchronous_commit", "off").await? {
        return Err(ConnectError::NotDurable("synchronous_commit"));
    }
    Ok(())
}

/// Attempts to find a pooler.
const POOLER_CHECKS: u32 = 4;

/// Finds out whether a session stays with one process of the server, which the other one never has, while that is busy
/// or not. A pooler with a single connection to the server lets it wait for the other one, beyond a limit.
pub(crate) async fn check_session(client: &Client, other: &Client, limit: Duration) -> Result<(), ConnectError> {
    let failed = |error: Error| failed(&error);
    let pid = "SELECT pg_backend_pid()";
    let (first, others) = (value(client, pid).await.map_err(failed)?, value(other, pid).await.map_err(failed)?);
    for _ in 0..POOLER_CHECKS {
        other.batch_execute("BEGIN").await.map_err(|error| match error.code() {
            // There are no transactions of several statements.
            Some(state) if *state == SqlState::PROTOCOL_VIOLATION => ConnectError::Pooled,
            _ => failed(error),
        })?;
        let busy = value(other, pid).await.map_err(failed)?;
        let second = time::timeout(limit, value(client, pid)).await;
        let second = second.map_err(|_| ConnectError::Pooled)?.map_err(failed)?;
        other.batch_execute("ROLLBACK").await.map_err(failed)?;
        if [&*first, &others] != [&*second, &busy] || first == others {
            return Err(ConnectError::Pooled);
        }
    }
    Ok(())
}

async fn set_up(client: &Client, server: &Server) -> Result<(), ConnectError> {
    let sql = format!("{}; SET client_min_messages = warning", server.settings());
    client.batch_execute(&sql).await.map_err(|error| failed(&error))
}

/// Creates the tables, or checks that they are those of this version, and replaces older functions.
///
/// On an error the transaction ends with the connection.
async fn migrate(
    client: &Client,
    server: &Server,
    options: &PostgresOptions,
    limit: Duration,
) -> Result<(), ConnectError> {
    let run = |sql| within(limit, async move { client.batch_execute(sql).await.map_err(|error| failed(&error)) });
    run("BEGIN").await?;
    let migrated = async {
        migrate_alone(client, server, options).await.map_err(|migration| match migration {
            Migration::Failed(error) => error,
            Migration::Collides(reason) => ConnectError::ForeignSchema { schema: server.schema.name.clone(), reason },
        })
    };
    // It may wait for that of another node.
    if within(limit * 2, migrated).await? == Contents::Restored {
        forget_transactions(client, server, limit).await?;
    }
    run("COMMIT").await
}

#[derive(PartialEq, Eq)]
enum Contents {
    OfThisServer,
    /// A copy of the tables of another server.
    Restored,
}

enum Migration {
    Failed(ConnectError),
    /// Other objects have names of ours.
    Collides(String),
}

impl From<Error> for Migration {
    fn from(error: Error) -> Self {
        let collides = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT, SqlState::INVALID_FUNCTION_DEFINITION];
        match error.code() {
            Some(state) if collides.contains(state) => Self::Collides(text(&error)),
            _ => Self::Failed(failed(&error)),
        }
    }
}

async fn migrate_alone(client: &Client, server: &Server, options: &PostgresOptions) -> Result<Contents, Migration> {
    let schema = &server.schema;
    client
        .execute("SELECT pg_advisory_xact_lock(hashtextextended('actix-timers ' || $1::text, 0))", &[&schema.name])
        .await?;
    let exists = client.query_one("SELECT count(*) FROM pg_namespace n WHERE n.nspname = $1", &[&schema.name]).await?;
    if exists.get::<_, i64>(0) == 0 {
        client.batch_execute(&schema.sql("CREATE SCHEMA @schema@")).await?;
    }
    let is_there = "SELECT count(*), count(*) FILTER (WHERE c.relname = 'meta') FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";
    let is_there = client.query_one(is_there, &[&schema.name]).await?;
    if is_there.get::<_, i64>(1) == 0 {
        if is_there.get::<_, i64>(0) > 0 {
            return Err(Migration::Collides("it contains tables, and no table meta".to_owned()));
        }
        client.batch_execute(&(schema.tables() + &schema.functions())).await?;
        let shards = i32::from(options.shards);
        client
            .execute(
                &schema.sql("INSERT INTO @schema@.meta (format, revision, shards) VALUES ($1, $2, $3)"),
                &[&FORMAT, &REVISION, &shards],
            )
            .await?;
        let sql = schema.sql(
            "WITH s AS (INSERT INTO @schema@.shards (shard, pool)
                SELECT i, 'default' FROM generate_series(0, $1::int4 - 1) AS i RETURNING shard)
            INSERT INTO @schema@.progress (shard) SELECT s.shard FROM s",
        );
        client.execute(&sql, &[&shards]).await?;
        mark_system(client, server).await?;
        return Ok(Contents::OfThisServer);
    }
    let meta = client
        .query_opt(&schema.sql("SELECT m.format, m.shards, m.record_version, m.revision FROM @schema@.meta m"), &[])
        .await;
    let meta = meta.map_err(|error| match error.code() {
        Some(state) if *state == SqlState::UNDEFINED_COLUMN => Migration::Collides(text(&error)),
        _ => Migration::from(error),
    })?;
    let Some(meta) = meta else { return Err(Migration::Collides("its table meta is empty".to_owned())) };
    let (format, shards): (i32, i32) = (meta.get(0), meta.get(1));
    if format > FORMAT {
        return Err(Migration::Failed(ConnectError::NewerFormat { found: format, known: FORMAT }));
    }
    let found: i16 = meta.get(2);
    if found > i16::from(codec::NEWEST) {
        return Err(Migration::Failed(ConnectError::NewerRecords { found, known: codec::NEWEST }));
    }
    if shards != i32::from(options.shards) {
        return Err(Migration::Failed(ConnectError::OtherShards { found: shards, wanted: options.shards }));
    }
    if meta.get::<_, i32>(3) < REVISION {
        client.batch_execute(&schema.functions()).await?;
        client.execute(&schema.sql("UPDATE @schema@.meta SET revision = $1"), &[&REVISION]).await?;
    }
    mark_system(client, server).await
}

/// Notes the server in `meta`.
async fn mark_system(client: &Client, server: &Server) -> Result<Contents, Migration> {
    let is_known = "SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')";
    if !client.query_one(is_known, &[]).await?.get::<_, bool>(0) {
        return Ok(Contents::OfThisServer);
    }
    let sql = "SELECT m.system, s.system_identifier FROM @schema@.meta m, pg_control_system() s";
    let row = client.query_one(&server.schema.sql(sql), &[]).await?;
    let (noted, present): (Option<i64>, i64) = (row.get(0), row.get(1));
    if noted != Some(present) {
        let sql = "UPDATE @schema@.meta m SET system = $1";
        client.execute(&server.schema.sql(sql), &[&present]).await?;
    }
    let is_restored = noted.is_some_and(|noted| noted != present);
    Ok(if is_restored { Contents::Restored } else { Contents::OfThisServer })
}

/// Makes all timers old: in a restored copy the numbers of transactions and the snapshots mean nothing. No node runs.
async fn forget_transactions(client: &Client, server: &Server, limit: Duration) -> Result<(), ConnectError> {
    let sql = server.schema.sql(
        "WITH part AS (
            SELECT t.shard, t.due, t.id, t.arrived FROM @schema@.timers t
            WHERE t.arrived IS NOT NULL AND (t.shard::int, t.arrived, t.id) > ($1::int2, $2::text::xid8, $3)
            ORDER BY t.shard::int, t.arrived, t.id LIMIT 10000
        ), forgotten AS (
            UPDATE @schema@.timers t SET arrived = NULL FROM part p
            WHERE t.shard = p.shard AND t.due = p.due AND t.id = p.id
        )
        SELECT p.shard, p.arrived::text, p.id FROM part p ORDER BY p.shard DESC, p.arrived DESC, p.id DESC LIMIT 1",
    );
    let mut last = (-1_i16, "0".to_owned(), Uuid::nil());
    // Each part within the limit, however many there are.
    while let Some(row) = {
        let part = async { client.query_opt(&sql, &[&last.0, &last.1, &last.2]).await.map_err(|error| failed(&error)) };
        within(limit, part).await?
    } {
        last = (row.get(0), row.get(1), row.get(2));
    }
    let cursors = server.schema.sql("UPDATE @schema@.progress SET cursor = 0, seen = '1:1:'");
    within(limit, async { client.batch_execute(&cursors).await.map_err(|error| failed(&error)) }).await
}

async fn check_rights(client: &Client, server: &Server) -> Result<(), ConnectError> {
    let schema = &server.schema;
    let rows = "SELECT t.name, r.name FROM unnest($2::text[]) AS t(name)
            CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS r(name)
        WHERE NOT has_table_privilege(format('%I.%I', $1::text, t.name), r.name) LIMIT 1";
    let tables: &[&str] = &TABLES;
    let missing = client.query_opt(rows, &[&schema.name, &tables]).await.map_err(|error| failed(&error))?;
    if let Some(row) = missing {
        let (table, right): (&str, &str) = (row.get(0), row.get(1));
        return Err(ConnectError::MissingRight(format!("{right} on table {}.{table}", schema.name)));
    }
    let functions = "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE') LIMIT 1";
    let missing = client.query_opt(functions, &[&schema.name]).await.map_err(|error| failed(&error))?;
    match missing {
        Some(row) => {
            let function: &str = row.get(0);
            Err(ConnectError::MissingRight(format!("EXECUTE on function {}.{function}", schema.name)))
        }
        None => Ok(()),
    }
}

async fn set_clock(client: &Client, clock: &StoreClock) -> Result<(), ConnectError> {
    // Prepared before, for a quick reply.
    let statement = client.prepare(server_clock::SQL).await.map_err(|error| failed(&error))?;
    let row = client.query_one(&statement, &[]).await.map_err(|error| failed(&error))?;
    server_clock::follow(clock, row.get(0));
    Ok(())
}

async fn read_pools(client: &Client, server: &Server) -> Result<Found, ConnectError> {
    let sql = server.schema.sql("SELECT s.pool, s.shard FROM @schema@.shards s ORDER BY s.shard");
    let rows = client.query(&sql, &[]).await.map_err(|error| failed(&error))?;
    Ok(Found { pools: rows.iter().map(|row| (row.get(0), crate::columns::shard(row.get(1)))).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_only_speak_the_protocol_are_told_by_their_version() {
        let postgres = "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu";
        assert!(check_version_text(postgres).is_ok());
        let others = [
            "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)",
            "PostgreSQL 11.2-YB-2.19.0.0-b0 on x86_64-pc-linux-gnu",
            "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103",
            "",
        ];
        for version in others {
            assert!(matches!(check_version_text(version), Err(ConnectError::NotPostgres(_))), "{version}");
        }
    }
}

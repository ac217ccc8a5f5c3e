//! Checks of a server, and the migration of the tables.

use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::StoreClock;
use tokio::runtime;
use tokio::task::LocalSet;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::beat::read_clock;
use super::session::settings;
use crate::ConnectError;
use crate::connect::{check_product, check_session, check_settings, failed, open, within};
use crate::error::text;
use crate::server::{Schema, Server};

/// The definitions of the tables and functions, each with the changes of a version.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];
/// Notes the version.
const VERSION: &str = "
    CREATE TABLE IF NOT EXISTS @schema@.schema_version (version int NOT NULL, since timestamptz NOT NULL DEFAULT now());
    INSERT INTO @schema@.schema_version (version) VALUES ";
const TABLES: [&str; 7] = ["timers", "nodes", "dead_letters", "past", "routes", "pauses", "sessions"];

/// Returns the statements that bring the tables from a version (0: none) to that of this crate.
pub(super) fn migration(schema: &Schema, from: usize, has_schema: bool) -> String {
    let steps = MIGRATIONS.iter().zip(1..).skip(from);
    let sql: String = steps.map(|(sql, version)| format!("{sql}\n{VERSION}({version});\n")).collect();
    // Also if it exists this needs the right to create one.
    let create = if has_schema { "" } else { "CREATE SCHEMA IF NOT EXISTS @schema@;\n" };
    schema.sql(&format!("{create}{sql}"))
}

/// Checks the server and brings the tables up to date, on a thread of its own: the caller may have any runtime.
pub(super) async fn connect(server: Arc<Server>, migrates: bool, clock: StoreClock) -> Result<(), ConnectError> {
    let (reply, replied) = tokio::sync::oneshot::channel();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(ConnectError::Thread)?;
    let run = move || _ = reply.send(LocalSet::new().block_on(&runtime, check(&server, migrates, &clock)));
    std::thread::Builder::new().name("timers connect".to_owned()).spawn(run).map_err(ConnectError::Thread)?;
    replied.await.unwrap_or_else(|_| Err(ConnectError::Failed("the thread has ended".to_owned())))
}

async fn check(server: &Server, migrates: bool, clock: &StoreClock) -> Result<(), ConnectError> {
    let (client, _) = open(server).await.map_err(ConnectError::Unreachable)?;
    let limit = server.timeout + Duration::from_secs(1);
    within(limit, check_product(&client)).await?;
    let settings = format!("{}; SET lock_timeout = 0; SET client_min_messages = warning", settings(server));
    within(limit, run(&client, &settings)).await?;
    within(limit, check_settings(&client)).await?;
    let (other, _) = open(server).await.map_err(ConnectError::Unreachable)?;
    within(limit, check_session(&client, &other, server.timeout / 2)).await?;
    drop(other);
    within(limit, run(&client, "BEGIN")).await?;
    // It may wait for that of another node. On an error the transaction ends with the connection.
    within(limit * 2, migrate(&client, server, migrates)).await?;
    within(limit, run(&client, "COMMIT")).await?;
    within(limit, check_rights(&client, server)).await?;
    within(limit, async { read_clock(&client, clock).await.map_err(failed) }).await
}

async fn run(client: &Client, sql: &str) -> Result<(), ConnectError> {
    client.batch_execute(sql).await.map_err(failed)
}

/// Returns the version of the tables, and whether there is a schema.
async fn version(client: &Client, server: &Server) -> Result<(i32, bool), ConnectError> {
    let name = &server.schema.0;
    let foreign = |reason: String| foreign(server, reason);
    let tables = "SELECT count(c.oid), count(c.oid) FILTER (WHERE c.relname = 'schema_version'), count(*) > 0
        FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' WHERE n.nspname = $1";
    let tables = client.query_one(tables, &[name]).await.map_err(failed)?;
    let (all, versions): (i64, i64) = (tables.get(0), tables.get(1));
    if versions == 0 && all > 0 {
        return Err(foreign("it contains tables, and no table schema_version".to_owned()));
    }
    let found = if versions == 0 {
        0
    } else {
        let sql = server.schema.sql("SELECT max(v.version) FROM @schema@.schema_version v");
        let row = client.query_one(&sql, &[]).await.map_err(|error| match error.code() {
            Some(state) if *state == SqlState::UNDEFINED_COLUMN => foreign(text(&error)),
            _ => failed(error),
        })?;
        row.get::<_, Option<i32>>(0).ok_or_else(|| foreign("its table schema_version is empty".to_owned()))?
    };
    Ok((found, tables.get(2)))
}

fn foreign(server: &Server, reason: String) -> ConnectError {
    ConnectError::ForeignSchema { schema: server.schema.0.clone(), reason }
}

async fn migrate(client: &Client, server: &Server, migrates: bool) -> Result<(), ConnectError> {
    let (name, known) = (&server.schema.0, i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX));
    let (mut found, mut has_schema) = version(client, server).await?;
    if found < known && migrates {
        // Another node may be doing it.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('actix-timers ' || $1::text, 0))";
        client.execute(lock, &[name]).await.map_err(failed)?;
        (found, has_schema) = version(client, server).await?;
    }
    if found > known {
        return Err(ConnectError::NewerFormat { found, known });
    }
    if found == known {
        return Ok(());
    }
    if !migrates {
        return Err(ConnectError::Failed(format!(
            "the schema {name:?} has version {found} of {known}: run the statements of `PostgresStore::migration` by its owner"
        )));
    }
    let sql = migration(&server.schema, usize::try_from(found).unwrap_or(0), has_schema);
    client.batch_execute(&sql).await.map_err(|error| match error.code() {
        Some(state)
            if [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_FUNCTION, SqlState::DUPLICATE_OBJECT]
                .contains(state) =>
        {
            foreign(server, text(&error))
        }
        _ => failed(error),
    })
}

async fn check_rights(client: &Client, server: &Server) -> Result<(), ConnectError> {
    let sql = "SELECT r.name || ' on table ' || t.name FROM unnest($2::text[]) AS t(name)
            CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS r(name)
        WHERE (r.name = 'SELECT' OR t.name <> 'sessions') AND NOT has_table_privilege(format('%I.%I', $1::text, t.name), r.name)
        UNION ALL SELECT 'EXECUTE on function ' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'timers' AND c.relowner = p.proowner
        WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE') LIMIT 1";
    let tables: &[&str] = &TABLES;
    let missing = client.query_opt(sql, &[&server.schema.0, &tables]).await.map_err(failed)?;
    missing.map_or(Ok(()), |row| Err(ConnectError::MissingRight(row.get(0))))
}

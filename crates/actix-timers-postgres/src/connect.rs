//! Checks of a server.

use std::future::Future;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::ConnectError;
use crate::error::text;
use crate::server::Server;

/// The oldest supported version.
const OLDEST: i32 = 140_000;

/// Bounds a step.
pub(crate) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    time::timeout(limit, step).await.unwrap_or_else(|_| Err(ConnectError::Failed(no_reply(limit))))
}

/// Connects. The task ends with the client.
pub(crate) async fn open(server: &Server) -> Result<(Client, JoinHandle<()>), String> {
    let dialled = time::timeout(server.timeout, (server.dial)(&server.config)).await;
    let (client, connection) = dialled.map_err(|_| no_reply(server.timeout))?.map_err(|error| text(&error))?;
    Ok((client, spawn_local(async move { _ = connection.await })))
}

pub(crate) fn no_reply(limit: Duration) -> String {
    format!("no reply within {limit:?}")
}

const READ_ONLY: &str = "its session is read-only: unset default_transaction_read_only for this user and database";
const POOLED: &str =
    "a pooler in transaction or statement mode is between: connect directly, or through one in session mode";

pub(crate) fn failed(error: Error) -> ConnectError {
    match error.code() {
        Some(state) if *state == SqlState::INSUFFICIENT_PRIVILEGE => ConnectError::MissingRight(text(&error)),
        Some(state) if *state == SqlState::READ_ONLY_SQL_TRANSACTION => unsuitable(READ_ONLY),
        _ => ConnectError::Failed(text(&error)),
    }
}

fn unsuitable(reason: impl Into<String>) -> ConnectError {
    ConnectError::Unsuitable(reason.into())
}

/// Returns the only row of a simple query.
async fn row<const N: usize>(client: &Client, sql: &str) -> Result<[String; N], ConnectError> {
    let messages = client.simple_query(sql).await.map_err(failed)?;
    let row =
        messages.iter().find_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None });
    Ok(std::array::from_fn(|column| row.and_then(|row| row.get(column)).unwrap_or_default().to_owned()))
}

async fn value(client: &Client, sql: &str) -> Result<String, ConnectError> {
    row(client, sql).await.map(|[value]| value)
}

pub(crate) async fn check_product(client: &Client) -> Result<(), ConnectError> {
    let version = value(client, "SELECT version()").await;
    let version = version.map_err(|error| not_postgres(&format!("unknown ({error})")))?;
    check_version_text(&version)?;
    let number = value(client, "SELECT current_setting('server_version_num')").await;
    match number.ok().and_then(|number| number.parse::<i32>().ok()) {
        None => Err(not_postgres(&version)),
        Some(number) if number < OLDEST => Err(unsuitable(format!("it is {version}: upgrade it to 14 or later"))),
        Some(_) => Ok(()),
    }
}

fn not_postgres(version: &str) -> ConnectError {
    unsuitable(format!(
        "it is {version}, not PostgreSQL: its locks and snapshots may differ, so use PostgreSQL 14 or later"
    ))
}

/// Rejects other engines with the same protocol.
fn check_version_text(version: &str) -> Result<(), ConnectError> {
    let others =
        ["-YB-", "Yugabyte", "Redshift", "Greenplum", "Cockroach", "CrateDB", "Materialize", "EdgeDB", "QuestDB", "H2"];
    let is_other = others.iter().any(|name| version.contains(name));
    if version.starts_with("PostgreSQL ") && !is_other {
        return Ok(());
    }
    Err(not_postgres(&version.chars().take(100).collect::<String>()))
}

pub(crate) async fn check_settings(client: &Client) -> Result<(), ConnectError> {
    let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('fsync'),
        current_setting('server_encoding')";
    let facts = row::<4>(client, sql).await?;
    Err(match facts.each_ref().map(|fact| &**fact) {
        ["t", ..] => {
            unsuitable("it is a standby, which cannot write: connect to the primary, or name all hosts in the address")
        }
        [_, "on", ..] => unsuitable(READ_ONLY),
        [_, _, "off", _] => unsuitable("the setting fsync is off, so acknowledged timers could be lost: turn it on"),
        // Names of routes and keys are any text.
        [.., "UTF8"] => return Ok(()),
        [.., encoding] => unsuitable(format!(
            "its database has the encoding {encoding}, which does not hold every name and key: use one with UTF8"
        )),
    })
}

/// Attempts to find a pooler.
const POOLER_CHECKS: u32 = 4;

/// Finds out whether a session stays with one process of the server, which the other one never has, while that is busy
/// or not. A pooler with a single connection to the server lets it wait for the other one, beyond a limit.
pub(crate) async fn check_session(client: &Client, other: &Client, limit: Duration) -> Result<(), ConnectError> {
    let pid = "SELECT pg_backend_pid()";
    let (first, others) = (value(client, pid).await?, value(other, pid).await?);
    for _ in 0..POOLER_CHECKS {
        other.batch_execute("BEGIN").await.map_err(|error| match error.code() {
            // There are no transactions of several statements.
            Some(state) if *state == SqlState::PROTOCOL_VIOLATION => unsuitable(POOLED),
            _ => failed(error),
        })?;
        let busy = value(other, pid).await?;
        let second = time::timeout(limit, value(client, pid)).await;
        let second = second.map_err(|_| unsuitable(POOLED))??;
        other.batch_execute("ROLLBACK").await.map_err(failed)?;
        if [&*first, &others] != [&*second, &busy] || first == others {
            return Err(unsuitable(POOLED));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_the_same_protocol_are_told_by_their_version() {
        let postgres = "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu";
        assert!(check_version_text(postgres).is_ok());
        let others = [
            "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)",
            "PostgreSQL 11.2-YB-2.19.0.0-b0 on x86_64-pc-linux-gnu",
            "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103",
            "",
        ];
        for version in others {
            assert!(
                matches!(check_version_text(version), Err(ConnectError::Unsuitable(reason)) if reason.contains("not PostgreSQL")),
                "{version}"
            );
        }
    }
}

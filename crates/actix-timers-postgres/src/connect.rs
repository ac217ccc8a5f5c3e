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
    let dialled = time::timeout(server.timeout, server.dial.dial(&server.config)).await;
    let (client, connection) = dialled.map_err(|_| no_reply(server.timeout))?.map_err(|error| text(&error))?;
    Ok((client, spawn_local(async move { _ = connection.await })))
}

pub(crate) fn no_reply(limit: Duration) -> String {
    format!("no reply within {limit:?}")
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
            assert!(matches!(check_version_text(version), Err(ConnectError::NotPostgres(_))), "{version}");
        }
    }
}

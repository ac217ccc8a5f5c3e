//! Errors of connecting, and of statements.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use actix_timers_durable::StoreError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// A server that cannot be used, or options that no store can have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be parsed.
    #[error("not an address of a PostgreSQL server ({0}): write postgres://user:password@host:5432/database")]
    Address(String),
    /// The name of the schema is impossible.
    #[error(
        "{0:?} cannot be the name of a schema: use 1 to 63 bytes without $ and control characters that do not begin with pg_"
    )]
    SchemaName(String),
    /// The lease is impossible.
    #[error(
        "a lease of {0:?} is impossible: choose 2 s to an hour; a short pause must not cost a node its deliveries, and \
         those of a dead node come again after the lease"
    )]
    Lease(Duration),
    /// The poll interval is impossible.
    #[error("a poll interval of {0:?} is impossible: choose 1 ms up to the lease")]
    PollInterval(Duration),
    /// The time limit is impossible.
    #[error("a time limit of {0:?} is impossible: choose 10 ms to an hour")]
    TimeLimit(Duration),
    /// The server cannot be reached, or does not let the user in.
    #[error(
        "PostgreSQL cannot be reached ({0}): check address, network, TLS, user, password and pg_hba.conf, and that it runs"
    )]
    Unreachable(String),
    /// The server, its database, the session or a pooler before it cannot be used.
    #[error("the server is not suitable: {0}")]
    Unsuitable(String),
    /// The user may not do something.
    #[error(
        "the user lacks a right ({0}): let it create the schema, or grant it all on the schema, its tables and functions"
    )]
    MissingRight(String),
    /// The schema contains other tables.
    #[error("the schema {schema:?} holds objects of something else ({reason}): choose another schema, or drop it")]
    ForeignSchema {
        /// The schema.
        schema: String,
        /// The reason.
        reason: String,
    },
    /// The store was written by a later version.
    #[error(
        "the store has format {found}, and this version knows formats up to {known}: use a newer actix-timers-postgres"
    )]
    NewerFormat {
        /// The format of the store.
        found: i32,
        /// The newest supported format.
        known: i32,
    },
    /// A statement failed, or took too long.
    #[error("the server did not complete the set-up ({0}): fix the cause, and connect again")]
    Failed(String),
    /// The system has no more threads.
    #[error("no thread can be started ({0})")]
    Thread(std::io::Error),
}

/// The failure of a statement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Not sent: there is no connection.
    #[error("{0}")]
    NotSent(String),
    /// The server reports an error; the transaction is rolled back.
    #[error("{text}")]
    Reported { state: SqlState, text: String },
    /// No reply: the connection broke, or the time is over.
    #[error("{0}")]
    NoReply(String),
}

impl Failure {
    /// Classifies the error of a statement that was sent.
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            // A session that is ended may have committed before.
            Some(reported) if !is_fatal(reported) => {
                Self::Reported { state: reported.code().clone(), text: text(error) }
            }
            _ => Self::NoReply(text(error)),
        }
    }

    pub(crate) fn has_state(&self, wanted: &str) -> bool {
        matches!(self, Self::Reported { state, .. } if state.code() == wanted)
    }

    /// Returns whether the error is in one of these classes.
    fn is_of(&self, classes: &[&str]) -> bool {
        matches!(self, Self::Reported { state, .. } if state.code().get(..2).is_some_and(|class| classes.contains(&class)))
    }

    /// Returns whether the server has refused a change for a reason of its own: its data, limits, a trigger.
    pub(crate) fn is_refusal(&self) -> bool {
        !self.may_pass() && !self.is_of(&["26", "28", "3D", "3F", "42"])
    }

    /// Returns whether the same statement may succeed later: no connection, also of a foreign table, a lock, a time-out, no
    /// resources.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::Reported { .. })
            || self.has_state("HV00N")
            || self.is_of(&["08", "25", "40", "53", "55", "57", "58", "72"])
    }

    /// Returns the error of a request of which nothing was kept or, without a reply, perhaps something.
    pub(crate) fn error(&self) -> StoreError {
        match self {
            Self::NoReply(text) => StoreError::Unknown(text.clone()),
            // Or insufficient resources.
            Self::Reported { text, .. } if self.is_refusal() || self.is_of(&["53"]) => {
                StoreError::Rejected(std::io::Error::other(text.clone()))
            }
            Self::NotSent(text) | Self::Reported { text, .. } => StoreError::Unavailable(text.clone()),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error()
    }
}

/// Returns the error of data that this crate cannot have written.
pub(crate) fn unreadable(reason: &str) -> StoreError {
    StoreError::Unreadable { path: PathBuf::from("postgres"), reason: reason.to_owned() }
}

/// Returns whether an error has ended the session. The text of the severity is in the language of the server.
fn is_fatal(reported: &DbError) -> bool {
    matches!(reported.parsed_severity(), None | Some(Severity::Fatal | Severity::Panic))
}

/// Returns the text of an error with its causes.
pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return match reported.hint() {
            Some(hint) => format!("{} ({})", reported.message(), hint),
            None => reported.message().to_owned(),
        };
    }
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| (**cause).source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

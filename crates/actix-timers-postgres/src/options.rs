//! Options of a store.

use std::time::Duration;

use crate::ConnectError;

const HOUR: Duration = Duration::from_secs(3600);

/// Options of a [`PostgresStore`](crate::PostgresStore).
///
/// ```
/// use std::time::Duration;
/// use actix_timers_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new().schema("timers").node("shop-3").lease(Duration::from_secs(10));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    pub(crate) schema: String,
    pub(crate) node: String,
    pub(crate) lease: Duration,
    pub(crate) timeout: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) late_look_interval: Duration,
    pub(crate) migrate: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PostgresOptions {
    /// Creates the default options: schema `timers`, a lease of 10 s, 5 s for a statement.
    pub fn new() -> Self {
        Self {
            schema: "timers".to_owned(),
            node: "node".to_owned(),
            lease: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            poll_interval: Duration::from_millis(100),
            late_look_interval: Duration::from_secs(60),
            migrate: true,
        }
    }

    /// Sets the schema of the tables, which is created if it does not exist.
    #[must_use]
    pub fn schema(mut self, name: &str) -> Self {
        name.clone_into(&mut self.schema);
        self
    }

    /// Sets the name of this node, for people: it need not be unique.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node);
        self
    }

    /// Sets the lease, from 2 s to an hour, default 10 s. When a node has not been heard of for as long, others take over
    /// its deliveries. All nodes of a schema should have the same: each judges the others by its own when the server's clock
    /// is set forward.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the time limit of a statement, and of connecting: from 10 ms to an hour, default 5 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the interval at which a node looks for timers that will be due soon, also those of other nodes: from 1 ms to
    /// the lease, default 100 ms.
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the interval at which a node looks again for timers that were committed long after their due time, for tests:
    /// default a minute.
    #[doc(hidden)]
    #[must_use]
    pub const fn late_look_interval(mut self, interval: Duration) -> Self {
        self.late_look_interval = interval;
        self
    }

    /// Sets whether connecting creates the tables and brings them up to date, default true. Without it an administrator
    /// does, and nodes need no right to create anything.
    #[must_use]
    pub const fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Checks the values.
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        if self.schema.is_empty()
            || self.schema.len() > 63
            || self.schema.contains(|letter: char| letter == '$' || letter.is_control())
            || self.schema.starts_with("pg_")
        {
            return Err(ConnectError::SchemaName(self.schema.clone()));
        }
        if !(Duration::from_secs(2)..=HOUR).contains(&self.lease) {
            return Err(ConnectError::Lease(self.lease));
        }
        if !(Duration::from_millis(10)..=HOUR).contains(&self.timeout) {
            return Err(ConnectError::TimeLimit(self.timeout));
        }
        if !(Duration::from_millis(1)..=self.lease).contains(&self.poll_interval) {
            return Err(ConnectError::PollInterval(self.poll_interval));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_rejected() {
        let options = PostgresOptions::new;
        options().check().unwrap();
        for name in ["", "pg_timers", "a\0b", &"x".repeat(64)] {
            assert!(matches!(options().schema(name).check(), Err(ConnectError::SchemaName(_))), "{name:?}");
        }
        for lease in [Duration::from_millis(1999), HOUR + Duration::from_nanos(1), Duration::MAX] {
            assert!(matches!(options().lease(lease).check(), Err(ConnectError::Lease(_))), "{lease:?}");
        }
        for timeout in [Duration::ZERO, Duration::MAX] {
            assert!(matches!(options().timeout(timeout).check(), Err(ConnectError::TimeLimit(_))));
        }
        for interval in [Duration::ZERO, Duration::from_secs(11)] {
            assert!(matches!(options().poll_interval(interval).check(), Err(ConnectError::PollInterval(_))));
        }
    }
}

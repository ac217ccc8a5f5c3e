//! The way to a server, and to a schema there.

use std::time::Duration;

use tokio_postgres::Config;

use crate::PostgresOptions;
use crate::dial::Dial;

/// The way to the server.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) dial: Dial,
    pub(crate) schema: Schema,
    /// Time limit of a statement, and of connecting.
    pub(crate) timeout: Duration,
}

impl Server {
    /// Sets the limits of the connection that the user has left open.
    pub(crate) fn new(mut config: Config, dial: Dial, options: &PostgresOptions) -> Self {
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        if config.get_connect_timeout().is_none() {
            // One that does not answer leaves time for the others.
            config.connect_timeout(options.timeout / u32::try_from(hosts.max(1)).unwrap_or(u32::MAX));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(options.timeout);
        }
        if config.get_application_name().is_none() {
            config.application_name(format!("actix-timers {}", options.node));
        }
        if hosts > 1 {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        Self { config, dial, schema: Schema(options.schema.clone()), timeout: options.timeout }
    }
}

/// The name of a schema.
#[derive(Debug, Clone)]
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    /// Puts the quoted name into a text in place of `@schema@`.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("@schema@", &format!("\"{}\"", self.0.replace('"', "\"\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_it_contains() {
        let schema = Schema("a\"; DROP TABLE x; --".to_owned());
        assert_eq!(schema.sql("SELECT FROM @schema@.t"), "SELECT FROM \"a\"\"; DROP TABLE x; --\".t");
    }
}

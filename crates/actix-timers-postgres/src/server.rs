//! The way to a server.

use std::time::Duration;

use tokio_postgres::Config;

use crate::PostgresOptions;
use crate::dial::Dial;
use crate::sql::Schema;

/// The way to the server.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) dial: Box<dyn Dial>,
    pub(crate) schema: Schema,
    /// Time limit of a statement, and of connecting.
    pub(crate) timeout: Duration,
}

/// Sets the limits of a connection that the user has left open.
pub(crate) fn prepared(mut config: Config, options: &PostgresOptions) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(options.timeout);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(options.timeout);
    }
    if config.get_application_name().is_none() {
        config.application_name(format!("actix-timers {}", options.node));
    }
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    }
    config
}

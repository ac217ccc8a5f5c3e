//! Stores by their addresses.

use std::io::ErrorKind;
use std::path::Path;

use actix_timers_durable::store::{EmbeddedStore, Store};

use crate::Problem;

/// The address of a store: a directory, or that of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address<'a> {
    pub(crate) store: &'a str,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) schema: Option<&'a str>,
}

impl Address<'_> {
    /// Opens a store, and if `create` also makes files or tables that are missing. It does not join it: the service that
    /// starts next finds all as the last one has left it.
    pub(crate) fn open(self, create: bool) -> Result<Box<dyn Store>, Problem> {
        if is_database(self.store) {
            return self.connect(create);
        }
        if !create {
            find(self.store)?;
        }
        Ok(Box::new(EmbeddedStore::open(self.store)?))
    }

    #[cfg(feature = "postgres")]
    fn connect(self, create: bool) -> Result<Box<dyn Store>, Problem> {
        use actix_timers_postgres::{PostgresOptions, PostgresStore};
        use tokio_postgres::NoTls;

        let mut options = PostgresOptions::new().migrate(create);
        if let Some(schema) = self.schema {
            options = options.schema(schema);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let store = runtime.block_on(async {
            match config(self.store, std::env::var("PGPASSWORD").ok()) {
                Ok(config) => PostgresStore::connect_with(config, NoTls, options).await,
                // It says why the address is none.
                Err(_) => PostgresStore::connect(self.store, options).await,
            }
        });
        Ok(Box::new(store.map_err(|error| Problem::Other(error.to_string()))?))
    }

    #[cfg(not(feature = "postgres"))]
    fn connect(self, _create: bool) -> Result<Box<dyn Store>, Problem> {
        Err(Problem::Other("this command was compiled without the feature `postgres`".to_owned()))
    }
}

/// Returns the configuration for an address, with this password if it has none: others see the arguments of a command.
#[cfg(feature = "postgres")]
pub(crate) fn config(address: &str, password: Option<String>) -> Result<tokio_postgres::Config, tokio_postgres::Error> {
    let mut config: tokio_postgres::Config = address.parse()?;
    if let (None, Some(password)) = (config.get_password(), password.filter(|password| !password.is_empty())) {
        config.password(password);
    }
    Ok(config)
}

/// Returns whether a store is a database, by its address.
pub(crate) fn is_database(store: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| store.starts_with(scheme))
}

/// Returns whether a text resembles the address of a database, but is none that this command takes: with another scheme,
/// or as `host=... user=...`. As a directory it would be created, and it may hold a password.
pub(crate) fn is_mistaken(store: &str) -> bool {
    let key = store.split_once('=').map_or("", |(key, _)| key.trim());
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let scheme = store.split_once(':').map_or("", |(scheme, _)| scheme.trim()).to_ascii_lowercase();
    let has_scheme = ["postgres", "postgresql"].contains(&&*scheme);
    !is_database(store) && (store.contains("://") || has_scheme || is_key)
}

/// Returns an error unless there is a store: opening would create one.
pub(crate) fn find(directory: &str) -> Result<(), Problem> {
    // An unfinished backup is named by the store itself.
    for name in ["timers.db", "timers.db.backup"] {
        match Path::new(directory).join(name).try_exists() {
            Ok(true) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let problem =
                    format!("{directory} cannot be read ({error}): stores are private, be the user of the service");
                return Err(Problem::Other(problem));
            }
            _ => {}
        }
    }
    Err(Problem::Other(format!("{directory} is not a timer store: it has no timers.db")))
}

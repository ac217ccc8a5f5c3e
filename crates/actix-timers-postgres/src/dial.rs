//! A connection to the server, with any TLS.

use std::future::Future;
use std::pin::Pin;

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Error, Socket};

/// A future of the thread that runs the sessions.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A client, and the task that moves its bytes.
pub(crate) type Dialled = (Client, LocalFuture<'static, Result<(), Error>>);

/// Opens connections.
pub(crate) trait Dial: Send + Sync {
    fn dial<'a>(&'a self, config: &'a Config) -> LocalFuture<'a, Result<Dialled, Error>>;
}

impl<T> Dial for T
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: 'static,
{
    fn dial<'a>(&'a self, config: &'a Config) -> LocalFuture<'a, Result<Dialled, Error>> {
        let tls = self.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let connection: LocalFuture<'static, _> = Box::pin(connection);
            Ok((client, connection))
        })
    }
}

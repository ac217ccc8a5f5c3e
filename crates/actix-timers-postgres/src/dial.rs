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
pub(crate) type Dial = Box<dyn for<'a> Fn(&'a Config) -> LocalFuture<'a, Result<Dialled, Error>> + Send + Sync>;

/// Returns the way to open connections with this TLS.
pub(crate) fn with<T>(tls: T) -> Dial
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: 'static,
{
    Box::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(tls).await?;
            let connection: LocalFuture<'static, _> = Box::pin(connection);
            Ok((client, connection))
        })
    })
}

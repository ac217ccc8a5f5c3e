//! The TLS of the user: all sessions go through it.
//!
//! The test encrypts nothing: a proxy agrees to TLS in the name of the server, and the connector of the test counts the
//! connections.

use std::future::{Ready, ready};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;

use actix_timers_durable::TimerStore;
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Config, Socket};

use crate::server::{address, new_schema, serving};
use crate::with_server;

/// Counts connections, and passes bytes.
#[derive(Clone, Default)]
struct Connector(Arc<AtomicUsize>);

struct Plain(Socket);

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Plain;
    type TlsConnect = Self;
    type Error = std::io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self, Self::Error> {
        assert_eq!(domain, "127.0.0.1");
        Ok(self.clone())
    }
}

impl TlsConnect<Socket> for Connector {
    type Stream = Plain;
    type Error = std::io::Error;
    type Future = Ready<Result<Plain, Self::Error>>;

    fn connect(self, stream: Socket) -> Self::Future {
        self.0.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Plain(stream)))
    }
}

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Agrees to TLS, then passes bytes to the server.
fn agree(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let mut request = [0; 8];
    client.read_exact(&mut request)?;
    assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "a request for TLS");
    client.write_all(b"S")?;
    let mut server = TcpStream::connect(server)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
    std::io::copy(&mut client, &mut server).map(drop)
}

with_server! {
    fn all_sessions_use_the_tls_of_the_user() {
        let config = Config::from_str(&address()).unwrap();
        let server = format!("127.0.0.1:{}", config.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || agree(stream, &server));
            }
        });
        let user = config.get_user().unwrap();
        let config = Config::from_str(&format!("postgres://{user}@127.0.0.1:{port}/postgres?sslmode=require")).unwrap();
        let (connector, options) = (Connector::default(), PostgresOptions::new().schema(&new_schema()).shards(2));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let connecting = PostgresStore::connect_with(config.clone(), connector.clone(), options.clone());
        let mut store = runtime.block_on(connecting).unwrap();
        let checks = connector.0.load(Ordering::Relaxed);
        assert!(checks >= 1);
        assert_eq!(store.join(&serving()).unwrap().gained.len(), 2);
        assert_eq!(connector.0.load(Ordering::Relaxed), checks + 3, "writer, reader and keeper");
        // A server that does not agree is not used.
        let error = runtime.block_on(PostgresStore::connect(&format!("{}?sslmode=require", address()), options)).unwrap_err();
        println!("{error}");
    }
}

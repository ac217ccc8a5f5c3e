//! The TLS of the user: all sessions are encrypted, and the certificate of the server is checked.

use std::path::PathBuf;
use std::str::FromStr;

use actix_timers_durable::DueTime;
use actix_timers_durable::store::Store;
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Builder;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::server::{Session, address, connect_to, new_schema, node};
use crate::with_server;

/// Returns the file of the server's certificate.
fn certificate() -> PathBuf {
    std::env::var_os("DATABASE_CERTIFICATE").expect("DATABASE_CERTIFICATE: the file of the server's certificate").into()
}

/// Connects by TLS alone, with one root.
fn connect_with_root(certificate: PathBuf, schema: &str) -> Result<PostgresStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let tls = MakeRustlsConnect::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let config = Config::from_str(&format!("{}?sslmode=require", address())).unwrap();
    let options = PostgresOptions::new().schema(schema).node(schema);
    Builder::new_current_thread().build().unwrap().block_on(PostgresStore::connect_with(config, tls, options))
}

with_server! {
    fn all_sessions_use_the_tls_of_the_user() {
        let schema = new_schema();
        let mut store = connect_with_root(certificate(), &schema).unwrap();
        store.join(&node(), DueTime::MIN).unwrap();
        let _reader = store.reader().unwrap().unwrap();
        let pids = format!("SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = 'actix-timers {schema}'");
        let encrypted = format!("SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid IN ({pids})");
        let admin = Session::open();
        let encrypted: Vec<bool> = admin.query(&encrypted).iter().map(|row| row.get(0)).collect();
        assert_eq!(encrypted, [true; 3], "the one that writes, the one that looks, and the one for queries");
        let own = "SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()";
        assert!(!admin.query(own)[0].get::<_, bool>(0), "a session without TLS");
    }

    fn a_server_with_a_certificate_of_another_root_is_not_used() {
        let error = connect_with_root(certificate().with_file_name("other.crt"), &new_schema()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ConnectError::Unreachable(_)), "{text}");
        assert!(text.contains("certificate") && text.contains("check address, network, TLS"), "{text}");
    }

    fn an_address_that_requires_tls_is_not_used_without() {
        let options = PostgresOptions::new().schema(&new_schema());
        let error = connect_to(&format!("{}?sslmode=require", address()), options).unwrap_err();
        assert!(matches!(&error, ConnectError::Unreachable(reason) if reason.contains("TLS")), "{error}");
    }
}

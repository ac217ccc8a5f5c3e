//! Servers that a store cannot use: without fsync, standbys, behind a pooler of transactions.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use actix_timers_durable::DueTime;
use actix_timers_durable::store::Store;
use actix_timers_postgres::{ConnectError, PostgresOptions};
use tempfile::TempDir;

use crate::private::Server;
use crate::server::{address, connect_to, new_schema, node, until};
use crate::with_server;

fn options() -> PostgresOptions {
    PostgresOptions::new().schema(&new_schema()).timeout(Duration::from_secs(2))
}

/// A pooler in front of the server of the tests.
struct Pooler {
    process: Child,
    address: String,
    _directory: TempDir,
}

impl Pooler {
    fn start(settings: &str) -> Self {
        let config: tokio_postgres::Config = address().parse().unwrap();
        let (server_port, user) = (config.get_ports()[0], config.get_user().unwrap().to_owned());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let file = directory.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n{settings}\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "nobody", "--clear-groups", "pgbouncer"]);
            command
        } else {
            Command::new("pgbouncer")
        };
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("pgbouncer is installed");
        until("the pooler listens", Duration::from_secs(10), || {
            assert!(process.try_wait().unwrap().is_none(), "pgbouncer is installed, and starts");
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Self { process, address: format!("postgres://{user}@127.0.0.1:{port}/postgres"), _directory: directory }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

with_server! {
    fn a_pooler_of_transactions_is_rejected() {
        for mode in ["transaction", "statement"] {
            for more in ["", "default_pool_size = 1", "default_pool_size = 2\nserver_round_robin = 1"] {
                let pooler = Pooler::start(&format!("pool_mode = {mode}\n{more}"));
                let error = connect_to(&pooler.address, options()).expect_err(mode);
                assert!(matches!(error, ConnectError::Unsuitable(_)), "{mode} {more}: {error}");
                assert!(error.to_string().contains("connect directly"), "{error}");
            }
        }
    }

    fn a_pooler_of_sessions_is_accepted() {
        let pooler = Pooler::start("pool_mode = session");
        let mut store = connect_to(&pooler.address, options()).unwrap();
        store.join(&node(), DueTime::MIN).unwrap();
    }

    fn a_server_without_fsync_is_rejected() {
        let server = Server::private(&["fsync = off"]);
        let error = connect_to(server.url(), options()).unwrap_err();
        assert!(matches!(&error, ConnectError::Unsuitable(reason) if reason.contains("fsync")), "{error}");
        assert!(error.to_string().contains("turn it on"), "{error}");
    }

    fn a_standby_is_rejected() {
        let primary = Server::private(&[]);
        let standby = primary.standby(primary.address().port());
        let error = connect_to(standby.url(), options()).unwrap_err();
        assert!(matches!(&error, ConnectError::Unsuitable(reason) if reason.contains("standby")), "{error}");
        assert!(error.to_string().contains("primary"), "{error}");
        connect_to(primary.url(), options()).unwrap();
    }
}

//! The server of a test: that of `DATABASE_URL`, which the script `tests/server` starts, or a private one, which the
//! test stops, promotes or starves.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use tempfile::TempDir;
use tokio_postgres::Config;

/// The user of a private server, if the test runs as root.
const USER: &str = "postgres";

/// A server.
pub(crate) struct Server {
    url: String,
    address: SocketAddr,
    private: Option<Private>,
}

/// The files of a private server.
struct Private {
    data: PathBuf,
    /// Removed with the server, unless it is elsewhere.
    _directory: Option<TempDir>,
}

impl Server {
    /// Returns the server of `DATABASE_URL`, or a private one.
    pub(crate) fn any() -> Self {
        let Ok(url) = std::env::var("DATABASE_URL") else { return Self::private(&[]) };
        let port = Config::from_str(&url).unwrap().get_ports()[0];
        Self { url, address: SocketAddr::from(([127, 0, 0, 1], port)), private: None }
    }

    /// Starts a server with these lines in its configuration.
    pub(crate) fn private(settings: &[&str]) -> Self {
        let directory = open_directory();
        let data = directory.path().join("data");
        Self::create(data, Some(directory), settings)
    }

    /// Starts a server with its files in a directory of the user's.
    pub(crate) fn private_in(directory: &Path, settings: &[&str]) -> Self {
        Self::create(directory.join("data"), None, settings)
    }

    fn create(data: PathBuf, directory: Option<TempDir>, settings: &[&str]) -> Self {
        make_own(&data);
        let initdb = ["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"];
        run(program("initdb").args(initdb).arg(&data));
        let server = Self::at(data, directory);
        server.configure(settings);
        server.start();
        server
    }

    fn at(data: PathBuf, directory: Option<TempDir>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self {
            url: format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            private: Some(Private { data, _directory: directory }),
        }
    }

    fn configure(&self, settings: &[&str]) {
        let data = &self.files().data;
        let mut file = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).unwrap();
        let port = self.address.port();
        let basic = format!("port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n");
        file.write_all(format!("{basic}{}\n", settings.join("\n")).as_bytes()).unwrap();
    }

    fn files(&self) -> &Private {
        self.private.as_ref().expect("a private server")
    }

    /// Starts it, after it was stopped.
    pub(crate) fn start(&self) {
        let data = &self.files().data;
        run(program("pg_ctl").arg("-D").arg(data).arg("-l").arg(data.join("log")).args(["-w", "-t", "60", "start"]));
    }

    /// Ends it without a checkpoint, as by a crash. It may have ended already.
    pub(crate) fn stop(&self) {
        let mut stop = program("pg_ctl");
        stop.arg("-D").arg(&self.files().data).args(["-m", "immediate", "-w", "stop"]).stderr(Stdio::null());
        let _ = stop.stdout(Stdio::null()).status();
    }

    /// Returns whether its main process runs.
    pub(crate) fn is_running(&self) -> bool {
        let mut status = program("pg_ctl");
        status.arg("-D").arg(&self.files().data).arg("status").stdout(Stdio::null()).stderr(Stdio::null());
        status.status().unwrap().success()
    }

    /// Starts a standby, which reads the log of this server through a port.
    pub(crate) fn standby(&self, through: u16) -> Self {
        let directory = open_directory();
        let data = directory.path().join("data");
        make_own(&data);
        let source = format!("host=127.0.0.1 port={through} user=postgres application_name=standby");
        run(program("pg_basebackup").args(["-R", "-X", "stream", "-c", "fast", "-d", &source, "-D"]).arg(&data));
        let standby = Self::at(data, Some(directory));
        standby.configure(&[]);
        standby.start();
        standby
    }

    /// Lets a standby accept writes.
    pub(crate) fn promote(&self) {
        run(program("pg_ctl").arg("-D").arg(&self.files().data).args(["-w", "promote"]));
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of this server as seen through a port.
    pub(crate) fn url_through(&self, port: u16) -> String {
        self.url.replace(&format!(":{}/", self.address.port()), &format!(":{port}/"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.private.is_some() {
            self.stop();
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a directory that the user of the server can reach.
pub(crate) fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Makes a directory of the user of the server.
fn make_own(data: &Path) {
    fs::create_dir(data).unwrap();
    fs::set_permissions(data, fs::Permissions::from_mode(0o700)).unwrap();
    if is_root() {
        run(Command::new("chown").arg(USER).arg(data));
    }
}

/// Returns a program of PostgreSQL, to be run as its user.
fn program(name: &str) -> Command {
    let path = programs().join(name);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--init-groups"]).arg(path);
        command
    } else {
        Command::new(path)
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Returns the directory of the programs: that of `POSTGRES_BIN`, or of the newest version.
fn programs() -> PathBuf {
    if let Some(directory) = std::env::var_os("POSTGRES_BIN") {
        return directory.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql").expect("the package postgresql is installed");
    let of_version = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        Some((version, path.join("bin")))
    };
    versions.filter_map(of_version).max().expect("the package postgresql is installed").1
}

/// Runs a command, which must succeed. Servers that it starts keep its output open, so that is a file.
pub(crate) fn run(command: &mut Command) {
    let output = tempfile::tempfile().unwrap();
    let status = command.stdout(output.try_clone().unwrap()).stderr(output.try_clone().unwrap()).status();
    let is_success = status.as_ref().is_ok_and(|status| status.success());
    if !is_success {
        use std::io::{Read, Seek};
        let (mut text, mut output) = (String::new(), output);
        output.rewind().unwrap();
        let _ = output.read_to_string(&mut text);
        panic!("{command:?}: {status:?}: {text}");
    }
}

//! A private PostgreSQL: on a free port of this machine, with its data in a temporary directory, until it is dropped.

use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::sql;

/// The user of the database, who owns everything in it.
const USER: &str = "timers";

/// Settings that differ from the defaults: room for all connections, and no checkpoint within a measurement.
const SETTINGS: [&str; 5] = [
    "max_connections=120",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
    "log_min_messages=fatal",
    "log_min_error_statement=fatal",
];

pub(crate) struct Server {
    process: Child,
    url: String,
    /// Removed after the end of the process.
    _directory: TempDir,
}

/// The account that runs the server, because it does not run as root.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Server {
    /// Starts a server with its files in a new directory below `directory`.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start. The text is for people.
    pub(crate) fn start(directory: &Path, shared_buffers: &str) -> Result<Self, String> {
        let programs = programs()?;
        let account = if getuid().is_root() { Some(unprivileged()?) } else { None };
        let directory = tempfile::tempdir_in(directory).map_err(|error| format!("no directory: {error}"))?;
        let path = directory.path();
        let password = password();
        prepare(path, &password, account).map_err(|error| format!("{}: {error}", path.display()))?;
        let command = |program: &str| {
            // The server ends with this process, also if that is killed.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "QUIT"]);
            if let Some(Account { uid, gid }) = account {
                command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
            }
            command.arg(programs.join(program)).current_dir(path).stdin(Stdio::null());
            command
        };
        let made = command("initdb")
            .args(["--pgdata=data", "--encoding=UTF8", "--locale=C", "--no-sync", "--auth=scram-sha-256"])
            .args(["--username", USER, "--pwfile=password"])
            .output()
            .map_err(|error| format!("setpriv, of the package util-linux: {error}"))?;
        if !made.status.success() {
            return Err(format!("initdb has failed: {}", String::from_utf8_lossy(&made.stderr)));
        }
        // Another process may take the port before the server does.
        for _ in 0..3 {
            let port = free_port().map_err(|error| format!("no free port: {error}"))?;
            let url = format!("postgresql://{USER}:{password}@127.0.0.1:{port}/postgres");
            let log = File::create(path.join("log")).map_err(|error| format!("no log: {error}"))?;
            let mut process = command("postgres")
                .args(["-D", "data", "-k", "", "-h", "127.0.0.1", "-p", &port.to_string()])
                .args(["-c", &format!("shared_buffers={shared_buffers}")])
                .args(SETTINGS.iter().flat_map(|setting| ["-c", *setting]))
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .map_err(|error| format!("postgres: {error}"))?;
            if is_ready(&mut process, &url) {
                return Ok(Self { process, url, _directory: directory });
            }
            stop(&mut process);
        }
        let log = fs::read_to_string(path.join("log")).unwrap_or_default();
        Err(format!("postgres does not start: {log}"))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.process);
    }
}

/// Stops a server without a checkpoint, and waits for its end.
fn stop(process: &mut Child) {
    if let Ok(None) = process.try_wait()
        && let Ok(pid) = i32::try_from(process.id())
        && let Some(pid) = Pid::from_raw(pid)
    {
        let _ = kill_process(pid, Signal::QUIT);
    }
    let _ = process.wait();
}

/// Waits until a server accepts connections. Returns whether it does.
fn is_ready(process: &mut Child, url: &str) -> bool {
    let patience = Instant::now() + Duration::from_secs(60);
    while Instant::now() < patience && matches!(process.try_wait(), Ok(None)) {
        if sql::accepts(url) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Returns the directory of the server's programs: that of the highest version, or the one in the `PATH`.
fn programs() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(version).map(|path| path.join("bin"));
    let in_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let programs = newest.into_iter().chain(in_path).find(|path| path.join("initdb").exists());
    programs.ok_or_else(|| "PostgreSQL is not installed: `apt-get install postgresql`".to_owned())
}

/// Returns the account of PostgreSQL, or another one without rights.
fn unprivileged() -> Result<Account, String> {
    let accounts = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let account = |name| {
        let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
        Some(Account { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    };
    account("postgres").or_else(|| account("nobody")).ok_or_else(|| "no account `postgres` or `nobody`".to_owned())
}

/// Writes the password for `initdb`, and gives the directory to the account.
fn prepare(directory: &Path, password: &str, account: Option<Account>) -> io::Result<()> {
    let file = directory.join("password");
    fs::write(&file, password)?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    if let Some(Account { uid, gid }) = account {
        chown(&file, Some(uid), Some(gid))?;
        chown(directory, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Returns a password that other users of the machine do not guess.
fn password() -> String {
    let part = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", part(), part())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

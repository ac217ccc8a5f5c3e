//! Runs the example as users do.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

/// Flights on time, cancelled, late and early, from two airports.
pub(crate) const FIVE: &str = "scheduled,departed,carrier,flight,origin,destination
2013-07-01T09:00:00Z,2013-07-01T09:00:00Z,US,1431,EWR,CLT
2013-07-01T09:10:00Z,,UA,332,EWR,IAH
2013-07-01T09:20:00Z,2013-07-01T11:00:00Z,AA,701,JFK,MIA
2013-07-01T09:30:00Z,2013-07-01T09:25:00Z,B6,939,JFK,BQN
2013-07-01T09:40:00Z,2013-07-01T09:41:00Z,EV,4372,EWR,MSP
";
/// The time limit of a run; every test is far faster unless it hangs.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(300);

pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A process that is killed at the end of the test, at the latest.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn example() -> Command {
    Command::new(env!("CARGO_BIN_EXE_departures"))
}

pub(crate) fn start(arguments: &[&str]) -> Running {
    let piped = example().args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Running(piped.expect("the example starts"))
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = done.send(bytes);
    });
    text
}

pub(crate) fn run(arguments: &[&str]) -> Finished {
    finish(start(arguments))
}

/// Waits for the end of a process.
pub(crate) fn finish(mut running: Running) -> Finished {
    let stdout = read_all(running.0.stdout.take().expect("stdout is piped"));
    let stderr = read_all(running.0.stderr.take().expect("stderr is piped"));
    let [stdout, stderr] = [stdout, stderr].map(|pipe| {
        let bytes = pipe.recv_timeout(TOO_LONG).expect("the example ends");
        String::from_utf8(bytes).expect("the example writes UTF-8")
    });
    Finished { code: running.0.wait().expect("the example ends").code(), stdout, stderr }
}

/// A directory of a test, removed when dropped.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Writes an input file, and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(&format!("{name}.csv"));
        std::fs::write(&path, content).expect("a temporary file");
        path.into_os_string().into_string().expect("a path in UTF-8")
    }

    /// Returns the path for a new file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Returns the row of the table that begins with `name`, without spaces, since its numbers contain some.
pub(crate) fn row(finished: &Finished, name: &str) -> String {
    let line = finished.stdout.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no line {name} in\n{}\n{}", finished.stdout, finished.stderr));
    line.split("  ").map(|cell| cell.replace(' ', "")).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" ")
}

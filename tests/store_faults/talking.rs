//! A process in a test, and what it says as it says it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A process that does not end by itself by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, and what it says as it says it.
pub(crate) struct Talking {
    process: Child,
    pub(crate) lines: Receiver<String>,
}

impl Talking {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
        Self { process, lines }
    }

    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it goes on until it is stopped")
    }

    /// Everything until it has ended by itself.
    pub(crate) fn rest(mut self) -> Vec<String> {
        let mut rest = vec![];
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let _ = self.process.kill();
                    panic!("it does not end; it has said {rest:?}");
                }
            }
        }
        self.process.wait().unwrap();
        rest
    }

    /// Kills it with SIGKILL, and answers what it had said by then and was not read.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.rest()
    }
}

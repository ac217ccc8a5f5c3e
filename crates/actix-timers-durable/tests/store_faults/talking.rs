//! A process in a test, and its output while it runs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use schemes::random::Random;

/// A process that has not ended by itself by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, and its output while it runs.
pub(crate) struct Talking {
    process: Child,
    lines: Receiver<String>,
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

    /// Returns its lines until some random moment, often just after it has begun.
    pub(crate) fn listen(&self, random: &mut Random) -> Vec<String> {
        let (wanted, longest) = if random.one_in(4) { (0, 100_000) } else { (1 + random.below(300), 4000) };
        let mut said: Vec<_> = (0..wanted).map(|_| self.next()).collect();
        // At any moment, not only after an acknowledgement: this does not wait for a line.
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        said.extend(self.lines.try_iter());
        said
    }

    /// Returns everything until it has ended by itself.
    pub(crate) fn rest(mut self) -> Vec<String> {
        let mut rest = vec![];
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let _ = self.process.kill();
                    panic!("it does not end; it reported {rest:?}");
                }
            }
        }
        self.process.wait().unwrap();
        rest
    }

    /// Kills it with SIGKILL, and returns its unread lines.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.rest()
    }
}

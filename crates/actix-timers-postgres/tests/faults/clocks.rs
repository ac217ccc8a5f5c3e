//! Nodes whose wall clock is wrong: `clock.c` is preloaded into them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

/// The wall clock of a node. In the beginning it is right.
pub(crate) struct WrongClock {
    directory: TempDir,
}

impl WrongClock {
    /// Compiles the library.
    pub(crate) fn new() -> Self {
        let clock = Self { directory: tempfile::tempdir().unwrap() };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/clock.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.library()).arg(source).arg("-ldl");
        assert!(compiler.status().expect("a C compiler is installed").success());
        clock.set(0);
        clock
    }

    /// Sets the clock ahead by this many microseconds, or back.
    fn set(&self, ahead: i64) {
        use std::io::Write;
        // In place: nodes have mapped the file.
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(self.file()).unwrap();
        file.write_all(&ahead.to_ne_bytes()).unwrap();
    }

    pub(crate) fn ahead_by(&self, by: Duration) {
        self.set(by.as_micros() as i64);
    }

    pub(crate) fn behind_by(&self, by: Duration) {
        self.set(-(by.as_micros() as i64));
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("ahead")
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("libclock.so")
    }

    /// Gives this clock to a process.
    pub(crate) fn give(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library()).env("FAULTS_CLOCK", self.file());
    }
}

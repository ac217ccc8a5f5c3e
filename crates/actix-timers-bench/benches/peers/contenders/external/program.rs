//! The programs: their tools, their compilation and start, and the communication with them.
//!
//! A program reads one request per line. It replies with a line per operation, a name and `figure=value` pairs, and
//! finally `done`. It verifies its own work, and ends with an error if the check fails.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Once;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/external");
const COMPILED: &str = env!("CARGO_TARGET_TMPDIR");
/// Debian's path. The archive contains all that the timer needs.
const NETTY: &str = "/usr/share/java/netty-common.jar";
/// A class path with Kafka's `server-common`, its clients and slf4j: no package of Debian contains them.
const KAFKA: &str = "$KAFKA_SERVER_COMMON";
/// A GOPATH with the sources of `github.com/RussellLuo/timingwheel`.
const TIMINGWHEEL: &str = "$TIMINGWHEEL_GOPATH";

/// A peer and its program.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The required commands, files with a path, and environment variables with a dollar sign.
    needs: &'static [&'static str],
    /// The maximum number of timers.
    pub(crate) largest: usize,
    compiled: Once,
    compile: fn() -> Command,
    run: fn(usize) -> Command,
}

pub(crate) static PEERS: [Peer; 7] = [
    Peer {
        name: "netty",
        needs: &["java", "javac", NETTY],
        largest: usize::MAX,
        compiled: Once::new(),
        compile: || javac("Netty", NETTY),
        run: |size| java("Netty", NETTY, size, &["65536"]),
    },
    Peer {
        name: "netty, 512 slots",
        needs: &["java", "javac", NETTY],
        // The default size, for connections with timeouts of seconds: each tick scans a 512th of all timers.
        largest: 1_000_000,
        compiled: Once::new(),
        compile: || javac("Netty", NETTY),
        run: |size| java("Netty", NETTY, size, &["512"]),
    },
    Peer {
        name: "jdk",
        needs: &["java", "javac"],
        largest: usize::MAX,
        compiled: Once::new(),
        compile: || javac("Jdk", COMPILED),
        run: |size| java("Jdk", COMPILED, size, &[]),
    },
    Peer {
        name: "kafka",
        needs: &["java", "javac", KAFKA],
        largest: usize::MAX,
        compiled: Once::new(),
        compile: || javac("Kafka", &variable(KAFKA)),
        run: |size| java("Kafka", &variable(KAFKA), size, &[]),
    },
    Peer {
        name: "go",
        needs: &["go"],
        largest: usize::MAX,
        compiled: Once::new(),
        compile: || go_build("timers", "standard.go"),
        run: |size| command(&format!("{COMPILED}/timers"), &[&size.to_string()]),
    },
    Peer {
        name: "go-timingwheel",
        needs: &["go", TIMINGWHEEL],
        largest: usize::MAX,
        compiled: Once::new(),
        compile: || {
            let mut go = go_build("timingwheel", "timingwheel.go");
            go.env("GO111MODULE", "off").env("GOPATH", variable(TIMINGWHEEL));
            go
        },
        run: |size| command(&format!("{COMPILED}/timingwheel"), &[&size.to_string()]),
    },
    Peer {
        name: "erlang",
        needs: &["erl", "erlc"],
        // With ten million timers a round takes three minutes.
        largest: 1_000_000,
        compiled: Once::new(),
        compile: || command("erlc", &["-o", COMPILED, &format!("{SOURCES}/timers.erl")]),
        run: erl,
    },
];

fn javac(class: &str, class_path: &str) -> Command {
    let source = format!("{SOURCES}/{class}.java");
    command("javac", &["-cp", class_path, "-sourcepath", SOURCES, "-d", COMPILED, &source])
}

/// Returns Java at its best: no garbage collection during a round. The parallel collector is used because timers are
/// linked into lists all over the heap, which makes the default one (G1) several times as slow here; a round fits into
/// the young generation, and the kernel has provided all of it before the clock is read.
fn java(class: &str, class_path: &str, size: usize, arguments: &[&str]) -> Command {
    let megabytes = 512 + size * 480 / 1_000_000;
    let mut java = command("java", &["-XX:+UseParallelGC", "-XX:+AlwaysPreTouch"]);
    java.args([format!("-Xms{megabytes}m"), format!("-Xmx{megabytes}m"), format!("-Xmn{}m", megabytes / 4 * 3)]);
    java.args(["-cp", &format!("{class_path}:{COMPILED}"), class, &size.to_string()]).args(arguments);
    java
}

/// Returns the compilation of the program with one of the two kinds of timers.
fn go_build(program: &str, kind: &str) -> Command {
    let sources = [format!("{SOURCES}/timers.go"), format!("{SOURCES}/{kind}")];
    command("go", &["build", "-o", &format!("{COMPILED}/{program}"), &sources[0], &sources[1]])
}

/// Returns the value of a requirement that is an environment variable; empty if it is not set.
fn variable(need: &str) -> String {
    std::env::var(need.trim_start_matches('$')).unwrap_or_default()
}

/// Returns Erlang without the busy waiting of idle schedulers, which would count as CPU time.
fn erl(size: usize) -> Command {
    let mut erl = command("erl", &["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none", "-noshell"]);
    erl.args(["-pa", COMPILED, "-run", "timers", "main", &size.to_string()]);
    erl.env("ERL_CRASH_DUMP_BYTES", "0");
    erl
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

impl Peer {
    /// Returns the requirements that this machine lacks.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.needs.iter().copied().filter(|need| !is_here(need)).collect()
    }

    fn compile(&self) {
        let mut compile = (self.compile)();
        let status = compile.status().expect("the compiler starts");
        assert!(status.success(), "{}: {compile:?} ended with {status}", self.name);
    }
}

fn is_here(need: &str) -> bool {
    if need.starts_with('$') {
        return !variable(need).is_empty();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // `join` with an absolute path yields that path.
    std::env::split_paths(&path).any(|folder| folder.join(Path::new(need)).is_file())
}

/// A program that runs until dropped.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

/// The reply to one round.
#[derive(Default)]
pub(crate) struct Answer(HashMap<String, f64>);

impl Program {
    pub(crate) fn start(peer: &'static Peer, size: usize) -> Self {
        peer.compiled.call_once(|| peer.compile());
        let child = (peer.run)(size).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{} does not start: {error}", peer.name));
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { name: peer.name, child, requests, answers }
    }

    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        let requests = self.requests.as_mut().expect("open until dropped");
        writeln!(requests, "{request}").unwrap_or_else(|error| panic!("{} has ended: {error}", self.name));
        let mut answer = Answer::default();
        loop {
            let line = self.answers.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| panic!("{} has ended without an answer to '{request}'", self.name));
            if line == "done" {
                return answer;
            }
            answer.add(&line).unwrap_or_else(|| panic!("{} said '{line}'", self.name));
        }
    }
}

/// The program ends at the end of its input.
impl Drop for Program {
    fn drop(&mut self) {
        self.requests = None;
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Answer {
    fn add(&mut self, line: &str) -> Option<()> {
        let (operation, figures) = line.split_once(' ')?;
        for figure in figures.split(' ') {
            let (name, value) = figure.split_once('=')?;
            self.0.insert(format!("{operation} {name}"), value.parse().ok()?);
        }
        Some(())
    }

    pub(crate) fn get(&self, operation: &str, figure: &str) -> f64 {
        let name = format!("{operation} {figure}");
        *self.0.get(&name).unwrap_or_else(|| panic!("no {name} in the answer"))
    }
}

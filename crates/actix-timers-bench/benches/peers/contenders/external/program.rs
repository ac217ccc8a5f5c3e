//! The programs: their tools, their compilation and start, and the communication with them.
//!
//! A program reads one request per line. It replies with a line per operation, a name and `figure=value` pairs, and
//! finally `done`. It verifies its own work, and ends with an error if the check fails.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Once;

/// A peer and its program. Commands of the shell compile and run it: beside the variables that it needs, `$SOURCES` is the
/// folder of the sources, which may be compiled into the current one; `$SIZE` the number of timers.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The required commands, files with a path, and environment variables with a dollar sign.
    needs: &'static [&'static str],
    /// The maximum number of timers.
    pub(crate) largest: usize,
    compile: &'static str,
    run: &'static str,
    compiled: Once,
}

/// Debian's path. The archive contains all that the timer needs.
const NETTY: &str = "/usr/share/java/netty-common.jar";

pub(crate) static PEERS: [Peer; 7] = [
    Peer {
        name: "netty",
        needs: &["java", "javac", NETTY],
        largest: usize::MAX,
        compile: "javac -cp $NETTY -sourcepath $SOURCES -d . $SOURCES/Netty.java",
        run: "java $JAVA -cp $NETTY:. Netty $SIZE 65536",
        compiled: Once::new(),
    },
    Peer {
        name: "netty, 512 slots",
        needs: &["java", "javac", NETTY],
        // The default size, for connections with timeouts of seconds: each tick scans a 512th of all timers.
        largest: 1_000_000,
        compile: "javac -cp $NETTY -sourcepath $SOURCES -d . $SOURCES/Netty.java",
        run: "java $JAVA -cp $NETTY:. Netty $SIZE 512",
        compiled: Once::new(),
    },
    Peer {
        name: "jdk",
        needs: &["java", "javac"],
        largest: usize::MAX,
        compile: "javac -sourcepath $SOURCES -d . $SOURCES/Jdk.java",
        run: "java $JAVA -cp . Jdk $SIZE",
        compiled: Once::new(),
    },
    Peer {
        name: "kafka",
        // A class path with Kafka's `server-common`, its clients and slf4j: no package of Debian contains them.
        needs: &["java", "javac", "$KAFKA_SERVER_COMMON"],
        largest: usize::MAX,
        compile: r#"javac -cp "$KAFKA_SERVER_COMMON" -sourcepath $SOURCES -d . $SOURCES/Kafka.java"#,
        run: r#"java $JAVA -cp "$KAFKA_SERVER_COMMON:." Kafka $SIZE"#,
        compiled: Once::new(),
    },
    Peer {
        name: "go",
        needs: &["go"],
        largest: usize::MAX,
        compile: "go build -o timers $SOURCES/timers.go $SOURCES/standard.go",
        run: "./timers $SIZE",
        compiled: Once::new(),
    },
    Peer {
        name: "go-timingwheel",
        // A GOPATH with the sources of `github.com/RussellLuo/timingwheel`.
        needs: &["go", "$TIMINGWHEEL_GOPATH"],
        largest: usize::MAX,
        compile: "GO111MODULE=off GOPATH=$TIMINGWHEEL_GOPATH \
                  go build -o timingwheel $SOURCES/timers.go $SOURCES/timingwheel.go",
        run: "./timingwheel $SIZE",
        compiled: Once::new(),
    },
    Peer {
        name: "erlang",
        needs: &["erl", "erlc"],
        // With ten million timers a round takes three minutes.
        largest: 1_000_000,
        compile: "erlc $SOURCES/timers.erl",
        // Without the busy waiting of idle schedulers, which would count as CPU time.
        run: "ERL_CRASH_DUMP_BYTES=0 \
              erl +sbwt none +sbwtdcpu none +sbwtdio none -noshell -pa . -run timers main $SIZE",
        compiled: Once::new(),
    },
];

/// Returns a command of the shell for this many timers.
///
/// Java is at its best: no garbage collection during a round. The parallel collector is used because timers are linked
/// into lists all over the heap, which makes the default one (G1) several times as slow here; a round fits into the
/// young generation, and the kernel has provided all of it before the clock is read.
fn shell(script: &str, size: usize) -> Command {
    let all = 512 + size * 480 / 1_000_000;
    let java = format!("-XX:+UseParallelGC -XX:+AlwaysPreTouch -Xms{all}m -Xmx{all}m -Xmn{}m", all / 4 * 3);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).current_dir(env!("CARGO_TARGET_TMPDIR"));
    shell.env("SOURCES", concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/external"));
    shell.env("NETTY", NETTY).env("JAVA", java).env("SIZE", size.to_string());
    shell
}

impl Peer {
    /// Returns the requirements that this machine lacks.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.needs.iter().copied().filter(|need| !is_here(need)).collect()
    }
}

fn is_here(need: &str) -> bool {
    if let Some(variable) = need.strip_prefix('$') {
        return std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // `join` with an absolute path yields that path.
    std::env::split_paths(&path).any(|folder| folder.join(need).is_file())
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
        peer.compiled.call_once(|| {
            let status = shell(peer.compile, size).status().expect("a shell");
            assert!(status.success(), "{}: {} ended with {status}", peer.name, peer.compile);
        });
        let child = shell(&format!("exec env {}", peer.run), size).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a shell");
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

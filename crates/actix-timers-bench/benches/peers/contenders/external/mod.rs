//! Peers that are not written in Rust: Netty's `HashedWheelTimer`, the JDK's `ScheduledThreadPoolExecutor`, Kafka's
//! `SystemTimer`, Go's `time.AfterFunc` and `timingwheel`, Erlang's `send_after`.
//!
//! `benches/peers/external` has a program for each of them, and a script that installs their tools. `program` compiles
//! and starts a program, and requests rounds from it. This file turns the replies into rows.
//!
//! Some of them leave a part of the work to other threads, so the compared figure is the CPU time of all threads of the
//! program; the time of the caller's call is shown beside it.

mod program;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::arguments::Arguments;
use crate::child::Participant;
use crate::rounds::{Life, Subject};
use bench::rows::CALLER_ONLY;
use program::{Answer, PEERS, Peer, Program};

/// The operations of one round with timers pending.
const OPERATIONS: [&str; 3] = ["start", "churn", "stop"];

/// The figures of deliveries: name in the programs, unit in the table.
const FIGURES: [(&str, &str); 7] = [
    ("p50_ms", "p50 ms late"),
    ("p99_ms", "p99 ms late"),
    ("p999_ms", "p99.9 ms late"),
    ("max_ms", "max ms late"),
    ("early", "messages early"),
    ("cpu_after_s", "CPU s after scheduling"),
    ("cpu_all_s", "CPU s in all"),
];

/// Returns the peers that run with this many timers and whose tools are installed.
pub(crate) fn subjects(size: usize) -> Vec<Subject<'static>> {
    let here = PEERS.iter().filter(|peer| size <= peer.largest && peer.missing().is_empty());
    here.flat_map(|peer| in_one_program(peer, size)).collect()
}

/// Returns two subjects of one program: the first requests a round, the second shows another figure of the reply.
fn in_one_program(peer: &'static Peer, size: usize) -> [Subject<'static>; 2] {
    let last = Arc::new(Mutex::new(Answer::default()));
    let (asked, shown) = (Arc::clone(&last), last);
    let mut program = None;
    let ask = move |life: &mut Life, size| {
        let answer = program.get_or_insert_with(|| Program::start(peer, size)).ask("pending");
        keep(life, size, &answer, "cpu_ns");
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    };
    let show = move |life: &mut Life, size| {
        keep(life, size, &shown.lock().unwrap_or_else(PoisonError::into_inner), "wall_ns");
    };
    [Subject::new(peer.name, size, ask), Subject::new(format!("{}{CALLER_ONLY}", peer.name), size, show)]
}

fn keep(life: &mut Life, size: usize, answer: &Answer, figure: &str) {
    for operation in OPERATIONS {
        let nanoseconds = answer.get(operation, figure) * size as f64;
        life.keep(operation, size, Duration::from_secs_f64(nanoseconds / 1e9));
    }
}

/// Returns the selected peers whose tools are installed, each with `size` deliveries within `seconds`.
pub(crate) fn firing(arguments: &Arguments, size: usize, seconds: u64) -> impl Iterator<Item = Participant> {
    let here = PEERS.iter().filter(|peer| arguments.wants_peer(peer.name) && peer.missing().is_empty());
    here.map(move |peer| {
        let mut program = None;
        Participant::new("fire", peer.name, size, move || {
            let answer = program.get_or_insert_with(|| Program::start(peer, size)).ask(&format!("fire {seconds}"));
            FIGURES.map(|(figure, unit)| (unit.to_owned(), answer.get("fire", figure))).into()
        })
    })
}

/// Returns a line for each selected peer that cannot be measured, or not in all sizes.
pub(crate) fn left_out(arguments: &Arguments) -> Vec<String> {
    let pending = arguments.wants_any(&OPERATIONS) && arguments.wants_layer("context");
    if !pending && !arguments.wants("fire") {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for peer in PEERS.iter().filter(|peer| arguments.wants_peer(peer.name)) {
        let missing = peer.missing().join(", ");
        if !missing.is_empty() {
            let name = peer.name;
            lines.push(format!("{name}: not measured, {missing} missing: see docs/internals/benchmarking.md"));
        } else if arguments.sizes.iter().any(|size| *size > peer.largest) {
            lines.push(format!("{}: not measured with more than {} pending", peer.name, peer.largest));
        }
    }
    lines
}

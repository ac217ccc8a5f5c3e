//! Peers that are not written in Rust: Netty's `HashedWheelTimer`, Go's `time.AfterFunc`, Erlang's `send_after`.
//!
//! `benches/peers/external` has a program for each of them, and a script that installs what they need. `program` compiles
//! a program, starts it and asks it for rounds. This file makes rows of the answers.
//!
//! Some of them leave a part of the work to other threads. So what is compared is the processor time of all threads of the
//! program; the time that the caller's call took is shown beside it.

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

/// What a program calls the figures of its deliveries, and what the table does.
const FIGURES: [(&str, &str); 7] = [
    ("p50_ms", "p50 ms late"),
    ("p99_ms", "p99 ms late"),
    ("p999_ms", "p99.9 ms late"),
    ("max_ms", "max ms late"),
    ("early", "messages early"),
    ("cpu_after_s", "CPU s after scheduling"),
    ("cpu_all_s", "CPU s in all"),
];

/// Who has so many timers pending, of those whose tools are here.
pub(crate) fn subjects(size: usize) -> Vec<Subject<'static>> {
    let here = PEERS.iter().filter(|peer| size <= peer.largest && peer.missing().is_empty());
    here.flat_map(|peer| in_one_program(peer, size)).collect()
}

/// One program for two subjects: the first one asks for a round, the second one shows another figure of the answer.
fn in_one_program(peer: &'static Peer, size: usize) -> [Subject<'static>; 2] {
    let last = Arc::new(Mutex::new(Answer::default()));
    let (asked, shown) = (Arc::clone(&last), last);
    let mut program = None;
    let ask = move |life: &mut Life| {
        let answer = program.get_or_insert_with(|| Program::start(peer, size)).ask("pending");
        keep(life, size, &answer, "cpu_ns");
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    };
    let show = move |life: &mut Life| {
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

/// Those that are wanted and whose tools are here, each with so many deliveries within so many seconds.
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

/// A line for each peer that is wanted and cannot be measured, or not in all sizes.
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
            lines.push(format!("{name}: not measured, {missing} missing: run crates/actix-timers-bench/benches/peers/external/install.sh"));
        } else if arguments.sizes.iter().any(|size| *size > peer.largest) {
            lines.push(format!("{}: not measured with more than {} pending", peer.name, peer.largest));
        }
    }
    lines
}

//! The power fails at any moment, on a real file system: every acknowledged change is there afterwards.
//!
//! The tests need root, for loop devices; `.ci/run` runs them.

use std::process::Command;

use crate::book::Book;
use crate::kills;
use crate::machine::Machine;
use crate::shop::{CUSTOMERS, serving};
use crate::talking::Talking;
use schemes::random::Random;

/// Number of stores, one after the other, on one machine.
const STORES: u64 = 4;
/// Number of power cuts per store.
const CUTS: u64 = 5;

/// The reports of a process.
struct Said {
    /// Lines read before the cut.
    before: Vec<String>,
    /// Lines read after it, written before or after it.
    after: Vec<String>,
}

/// Runs a process on the machine, cuts the power at a random moment, and waits until the process has noticed.
fn run_into_a_power_cut(machine: &mut Machine, command: Command, random: &mut Random) -> Said {
    let cord = machine.cord();
    let talking = Talking::start(command);
    let before = talking.listen(random);
    cord.pull();
    let after = talking.rest();
    machine.restart();
    Said { before, after }
}

#[test]
#[ignore = "needs root and loop devices"]
fn groups_outlive_a_power_cut_whole_or_not_at_all() {
    let mut machine = Machine::new();
    let mut random = Random::new(u64::from(std::process::id()));
    for store in 0..STORES {
        let path = machine.disk().join(format!("store {store}"));
        let mut groups = 0;
        for cut in 0..CUTS {
            let said = run_into_a_power_cut(&mut machine, kills::child(&path, groups), &mut random);
            let certain = kills::groups_after(&said.before).unwrap_or(groups);
            // One more may have reached the disk without an answer.
            let possible = kills::groups_after(&said.after).unwrap_or(certain) + 1;
            groups = kills::groups_in(&path, certain..=possible, cut);
        }
    }
}

/// Without power nothing is acknowledged. If it was cut before the first write to the disk, the process does not begin.
fn assert_silence_after_rejection(said: &Said) {
    let lines: Vec<_> = said.before.iter().chain(&said.after).collect();
    let Some(rejected) = lines.iter().position(|line| line.starts_with("rejected ")) else {
        let has_begun = lines.iter().any(|line| acknowledges(line));
        return assert!(!has_begun, "it ended otherwise: {lines:?}");
    };
    let later: Vec<_> = lines[rejected..].iter().filter(|line| acknowledges(line)).collect();
    assert!(later.is_empty(), "acknowledged when an fsync had failed: {later:?}");
}

fn acknowledges(line: &str) -> bool {
    ["scheduled", "moved", "cancelled", "kept"].contains(&line.split(' ').next().unwrap_or_default())
}

#[test]
#[ignore = "needs root and loop devices"]
fn durable_timers_keep_their_promises_over_power_cuts() {
    let mut machine = Machine::new();
    let mut random = Random::new(u64::from(std::process::id()));
    for store in 0..STORES {
        let path = machine.disk().join(format!("store {store}"));
        let mut book = Book::default();
        for cut in 0..CUTS {
            let first = (1 + cut) * 1_000_000 * CUSTOMERS;
            let said = run_into_a_power_cut(&mut machine, serving(&path, first), &mut random);
            book.read(&said.before, true);
            book.read(&said.after, false);
            assert_silence_after_rejection(&said);
            book.compare(&path);
        }
        book.close(&path);
    }
}

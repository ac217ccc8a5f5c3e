//! SIGKILL in the middle of commits, with the checker in another process.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use actix_timers_durable::RecordState;
use actix_timers_durable::TimerStore;
use actix_timers_durable::store::{Change, EmbeddedStore, StoreError};

use crate::workshop::{id, open, open_owned, pending, put};
use schemes::random::Random;

const STORE: &str = "ACTIX_TIMERS_KILLED_STORE";
const FIRST: &str = "ACTIX_TIMERS_FIRST_GROUP";
const SIZE: u64 = 7;

/// Returns the changes of a group: some timers are put, the last one moves, and one of the group before is removed.
fn changes(group: u64) -> Vec<Change> {
    let first = group * SIZE;
    let payload = |number: u64| match number {
        _ if number.is_multiple_of(43) => 64 << 10,
        _ if number.is_multiple_of(23) => 20_000,
        _ if number.is_multiple_of(11) => 6000,
        _ => 100,
    };
    let mut changes: Vec<_> = (first..first + SIZE).map(|number| put(number, payload(number))).collect();
    let moved = id(first + SIZE - 1);
    let in_place = RecordState { attempt: 2, ..RecordState::first(moved.first_due()) };
    changes.push(Change::Move { id: moved, at: None, to: in_place });
    changes.push(Change::Move { id: moved, at: None, to: RecordState::first(moved.first_due()) });
    if let Some(before) = first.checked_sub(SIZE) {
        changes.push(Change::Remove { id: id(before), at: None });
    }
    changes
}

/// Returns the timers pending after the groups up to `groups` (exclusive).
fn expected(groups: u64) -> BTreeSet<u64> {
    let is_gone = |number: &u64| number.is_multiple_of(SIZE) && number / SIZE + 1 < groups;
    (0..groups * SIZE).filter(|number| !is_gone(number)).collect()
}

/// The process that is killed: commits group after group, and reports each acknowledgement. Does nothing in an ordinary
/// run.
#[test]
fn in_the_process_that_is_killed() {
    let (Ok(path), Ok(first)) = (std::env::var(STORE), std::env::var(FIRST)) else { return };
    let (mut store, fence) = open_owned(Path::new(&path));
    for group in first.parse().unwrap().. {
        store.commit(fence, &changes(group)).unwrap();
        // Past the harness, which would capture it, and in one piece.
        std::io::stderr().write_all(format!("acknowledged {group}\n").as_bytes()).unwrap();
    }
}

/// Returns the number of groups after this report of the child.
pub(crate) fn groups_after(line: &str) -> Option<u64> {
    Some(line.strip_prefix("acknowledged ")?.parse::<u64>().unwrap() + 1)
}

pub(crate) fn child(path: &Path, first: u64) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "kills::in_the_process_that_is_killed", "--nocapture"]);
    child.env(STORE, path).env(FIRST, first.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    child
}

#[test]
fn acknowledged_groups_outlive_a_kill_in_mid_commit_and_groups_are_atomic() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(u64::from(std::process::id()));
    let mut groups = 0;
    for round in 0..20 {
        let mut process = child(directory.path(), groups).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let wanted = 1 + random.below(30);
        let mut acknowledged = groups;
        let mut read = |line: std::io::Result<String>| {
            if let Some(groups) = groups_after(&line.unwrap()) {
                acknowledged = groups;
            }
        };
        for _ in 0..wanted {
            read(lines.next().expect("the child goes on until it is killed"));
        }
        process.kill().unwrap();
        assert_eq!(process.wait().unwrap().signal(), Some(9));
        // Its reports before the kill.
        lines.for_each(read);
        groups = groups_in(directory.path(), acknowledged..=acknowledged + 1, round);
    }
}

/// Returns the number of groups in a store, which must be complete and in the `possible` range.
pub(crate) fn groups_in(path: &Path, possible: RangeInclusive<u64>, round: u64) -> u64 {
    let mut store = open(path).unwrap_or_else(|error| panic!("round {round}: {error}"));
    assert_eq!(store.check().unwrap(), [], "round {round}");
    let (found, _) = pending(&mut store).unwrap();
    let groups = possible.clone().find(|groups| found == expected(*groups));
    groups.unwrap_or_else(|| panic!("round {round}: there are not {possible:?} groups, but {found:?}"))
}

#[test]
fn a_second_process_is_rejected_as_long_as_the_first_one_lives() {
    let directory = tempfile::tempdir().unwrap();
    let mut process = child(directory.path(), 0).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    lines.next().expect("it reports something").unwrap();
    for _ in 0..2 {
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::InUse(_)), "{error}");
        assert!(matches!(EmbeddedStore::open_existing(directory.path()), Err(StoreError::InUse(_))));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(!pending(&mut open(directory.path()).unwrap()).unwrap().0.is_empty());
}

//! SIGKILL in the middle of commits, with the checker in another process.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{Next, Op, Part, Record};
use schemes::random::Random;
use support::store::{at, claim};

use crate::talking::Talking;
use crate::workshop::{all, apply, assert_sound_once_made, delivery, id, number_of, open, process_of, put, say};

const STORE: &str = "ACTIX_TIMERS_KILLED_STORE";
const FIRST: &str = "ACTIX_TIMERS_FIRST_GROUP";
const SIZE: u64 = 7;

/// Returns the changes of a group: timers are put, two of them are claimed and one of these ends; of the group before one
/// is cancelled and one is moved.
fn changes(group: u64) -> Vec<Op> {
    let first = group * SIZE;
    let payload = |number: u64| match number {
        _ if number.is_multiple_of(43) => 64 << 10,
        _ if number.is_multiple_of(23) => 20_000,
        _ if number.is_multiple_of(11) => 6000,
        _ => 100,
    };
    let mut changes: Vec<_> = (first..first + SIZE).map(|number| put(number, payload(number))).collect();
    changes.push(claim(&[id(first + 1), id(first + 2)]));
    changes.push(Op::End(delivery(first + 1), Next::Delete));
    if let Some(before) = first.checked_sub(SIZE) {
        changes.extend([Op::Cancel(id(before)), Op::Move(id(before + 3), at(9))]);
    }
    changes
}

/// Returns the timers pending after this many groups, with the numbers of their attempts and whether they were moved.
fn expected(groups: u64) -> Vec<(u64, u32, bool)> {
    let is_last = |number: u64| number / SIZE + 1 == groups;
    let is_there = |number: &u64| match number % SIZE {
        0 => is_last(*number),
        step => step != 1,
    };
    let row = |number: u64| (number, u32::from(number % SIZE == 2), number % SIZE == 3 && !is_last(number));
    (0..groups * SIZE).filter(is_there).map(row).collect()
}

/// The process that is killed: commits group after group, and reports each acknowledgement. Does nothing in an ordinary
/// run.
#[test]
fn in_the_process_that_is_killed() {
    let (Ok(path), Ok(first)) = (std::env::var(STORE), std::env::var(FIRST)) else { return };
    let mut store = open(Path::new(&path)).unwrap();
    for group in first.parse().unwrap().. {
        apply(&mut store, &changes(group)).unwrap();
        say(format_args!("acknowledged {group}"));
    }
}

/// Returns the number of groups after the last of these reports of the child.
pub(crate) fn groups_after(lines: &[String]) -> Option<u64> {
    let group = |line: &String| line.strip_prefix("acknowledged ")?.parse::<u64>().ok();
    lines.iter().filter_map(group).next_back().map(|group| group + 1)
}

pub(crate) fn child(path: &Path, first: u64) -> Command {
    let mut child = process_of("kills::in_the_process_that_is_killed");
    child.env(STORE, path).env(FIRST, first.to_string());
    child
}

/// Returns the number of groups in a store, which must be complete and in the `possible` range.
pub(crate) fn groups_in(path: &Path, possible: RangeInclusive<u64>, round: u64) -> u64 {
    assert_sound_once_made(path);
    let mut store = open(path).unwrap_or_else(|error| panic!("round {round}: {error}"));
    let mut found: Vec<_> = all(&mut store, Part::Pending).unwrap().into_iter().map(|found| found.record).collect();
    found.sort_unstable_by_key(|record| number_of(record));
    // Compares slices: byte by byte, tests without optimization take minutes.
    let whole = |record: &Record| {
        let rest = &record.payload[8..];
        rest[0] == number_of(record) as u8 && rest[1..] == rest[..rest.len() - 1]
    };
    assert!(found.iter().all(|record| whole(record)), "round {round}");
    let found: Vec<_> =
        found.iter().map(|record| (number_of(record), record.progress.attempt, record.progress.due == at(9))).collect();
    let groups = possible.clone().find(|groups| found == expected(*groups));
    groups.unwrap_or_else(|| panic!("round {round}: there are not {possible:?} groups, but {found:?}"))
}

/// Each check reads the whole store: a hundred kills of one are five times slower than twenty kills of each of five.
fn acknowledged_groups_outlive_kills_of(store: u32, kills: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut random = Random::new(u64::from(std::process::id() + store));
    let mut groups = 0;
    for round in 0..kills {
        let talking = Talking::start(child(&path, groups));
        let mut said = talking.listen(&mut random);
        said.extend(talking.kill());
        let acknowledged = groups_after(&said).unwrap_or(groups);
        groups = groups_in(&path, acknowledged..=acknowledged + 1, round);
    }
    assert!(groups > kills, "only {groups} groups");
}

#[test]
fn acknowledged_groups_outlive_kills_and_groups_are_atomic() {
    acknowledged_groups_outlive_kills_of(0, 6);
}

#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn acknowledged_groups_outlive_a_hundred_kills() {
    (1..=5).for_each(|store| acknowledged_groups_outlive_kills_of(store, 20));
}

#[test]
fn a_second_process_is_rejected_as_long_as_the_first_one_lives() {
    let directory = tempfile::tempdir().unwrap();
    let first = Talking::start(child(directory.path(), 0));
    first.next();
    let error = open(directory.path()).map(drop).unwrap_err();
    assert!(matches!(&error, StoreError::InUse(path) if path == directory.path()), "{error}");
    let acknowledged = groups_after(&first.kill()).unwrap_or(1);
    groups_in(directory.path(), acknowledged..=acknowledged + 1, 0);
}

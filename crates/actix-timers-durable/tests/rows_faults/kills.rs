//! A process that is killed at random moments, twenty times in a row; this one, outside, compares its answers with the disk.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use actix_timers_durable::rows::{Next, Op, Outcome, SqliteStore, Store};
use support::Random;
use support::rows::{at, claim};

use crate::workshop::{id, open, pending, put};

const STORE: &str = "ACTIX_TIMERS_ROWS_STORE";
const FIRST: &str = "ACTIX_TIMERS_ROWS_FIRST";
const LIVES: u64 = 20;
/// The timers of a group: all are put, the first is cancelled, the second delivered and ended.
const GROUP: u64 = 16;

fn say(words: &str) {
    std::io::stderr().write_all(format!("{words}\n").as_bytes()).unwrap();
}

/// The process that is killed. Does nothing in an ordinary run.
#[test]
fn in_the_process_that_is_killed() {
    let Ok(path) = std::env::var(STORE) else { return };
    let mut store = open(Path::new(&path)).unwrap();
    let from: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    for group in from.. {
        let first = group * GROUP;
        let ops: Vec<Op> =
            (first..first + GROUP).map(|number| put(number, 100 + (number % 7) as usize * 400)).collect();
        say(&format!("putting {group}"));
        store.apply(&ops, at(0)).unwrap();
        say(&format!("put {group}"));
        let both = store.apply(&[Op::Cancel(id(first)), claim(&[id(first + 1)])], at(0)).unwrap();
        let Ok(Outcome::Claimed { records, .. }) = &both[1] else { panic!("no claim") };
        say(&format!("cancelled {group}"));
        store.apply(&[Op::End(records[0].delivery(), Next::Delete)], at(0)).unwrap();
        say(&format!("ended {group}"));
    }
}

#[test]
fn twenty_kills_lose_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut random = Random::new(1);
    let (mut next, mut said) = (0, vec![]);
    for life in 0..LIVES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::in_the_process_that_is_killed", "--nocapture"])
            .env(STORE, &path)
            .env(FIRST, next.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..random.below(200) {
            said.push(lines.next().expect("it goes on until it is killed").unwrap());
        }
        std::thread::sleep(Duration::from_micros(random.below(5000)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The last line may be torn.
        said.extend(lines.map_while(Result::ok));
        let number = |line: &String| line.rsplit(' ').next().and_then(|number| number.parse().ok());
        next = said.iter().filter_map(number).max().map_or(0, |last: u64| last + 1);
        check(&path, &said, life);
    }
    assert!(next > 100, "{next} groups");
    assert_eq!(SqliteStore::integrity_check(&path).unwrap(), [] as [String; 0]);
}

fn check(path: &Path, said: &[String], life: u64) {
    let mut store = open(path).unwrap();
    let found = pending(&mut store).unwrap();
    let groups = |word: &str| -> BTreeSet<u64> {
        let numbers = said.iter().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
        numbers.collect()
    };
    let (tried, put, cancelled, ended) = (groups("putting "), groups("put "), groups("cancelled "), groups("ended "));
    for group in &tried {
        let first = group * GROUP;
        let there = (first + 2..first + GROUP).filter(|number| found.contains(&id(*number))).count() as u64;
        let all = GROUP - 2;
        assert!(there == all || there == 0 && !put.contains(group), "life {life}, group {group}: {there} of {all}");
        assert!(!cancelled.contains(group) || !found.contains(&id(first)), "life {life}: {group} is not cancelled");
        assert!(!ended.contains(group) || !found.contains(&id(first + 1)), "life {life}: {group} has not ended");
        // Only an end that follows the acknowledged claim deletes it.
        let may_be_gone = cancelled.contains(group) || !put.contains(group);
        assert!(may_be_gone || found.contains(&id(first + 1)), "life {life}: {group} is lost");
    }
}

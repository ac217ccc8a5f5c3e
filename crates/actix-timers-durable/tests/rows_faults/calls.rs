//! Each system call of a store fails in turn, as in the tests of SQLite: in a process whose calls go through `interposer.c`.
//! The process reports the store's answers; this module compares them with the disk, where no call fails.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use actix_timers_durable::StoreError;
use actix_timers_durable::rows::{Op, SqliteStore, Store};
use support::copies::copy_directory;
use support::rows::{at, claim};

use crate::workshop::{claim_all, id, open, pending, put};

const ROOT: &str = "ACTIX_TIMERS_ROWS_ROOT";
const FAULTS: &str = "ACTIX_TIMERS_ROWS_FAULTS";
/// The groups while calls fail, and when they do not any more.
const FAILING: std::ops::Range<u64> = 1..12;
const SOUND: std::ops::Range<u64> = 12..16;
const GROUP: u64 = 10;
/// The runs of each kind of fault.
const RUNS: u64 = 40;

fn say(words: std::fmt::Arguments<'_>) {
    std::io::stderr().write_all(format!("{words}\n").as_bytes()).unwrap();
}

fn control(command: &str) -> String {
    let answer = std::fs::read_link(format!("/faults/{command}")).expect("the interposer is loaded");
    answer.to_string_lossy().into_owned()
}

/// Puts the timers of a group, cancels one of the group before, and claims one.
fn apply(store: &mut SqliteStore, group: u64) {
    let first = group * GROUP;
    let size = |number: u64| [100, 3000, 20_000, 700, 60_000][(number % 5) as usize];
    let mut ops: Vec<Op> = (first..first + GROUP).map(|number| put(number, size(number))).collect();
    ops.push(Op::Cancel(id(first - GROUP)));
    ops.push(claim(&[id(first - GROUP + 1)]));
    match store.apply(&ops, at(0)) {
        Ok(outcomes) => {
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            say(format_args!("acknowledged {group}"));
        }
        Err(StoreError::Rejected(_) | StoreError::Unavailable(_)) => say(format_args!("rejected {group}")),
        Err(StoreError::Unknown(_)) => say(format_args!("unknown {group}")),
        Err(error) => panic!("{error}"),
    }
}

/// The process whose calls fail. Does nothing in an ordinary run.
#[test]
fn in_the_process_whose_calls_fail() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let mut store = open(Path::new(&root)).unwrap();
    control(&format!("arm/{}", std::env::var(FAULTS).unwrap()));
    for group in FAILING {
        apply(&mut store, group);
        // No handler has begun.
        let _ = store.beat(&[], at(0));
    }
    say(format_args!("calls {}", control("disarm")));
    SOUND.for_each(|group| apply(&mut store, group));
    let beat = store.beat(&[], at(0)).unwrap();
    // What was claimed without the caller's knowledge can be claimed again.
    if beat.looks_begin_anew {
        let found = pending(&mut store).unwrap();
        let claimed = claim_all(&mut store, &found);
        assert_eq!(claimed, found.len());
    }
    say(format_args!("finished"));
    std::process::exit(0);
}

/// Returns the interposer, compiled once.
fn interposer() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interposer-rows-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store_faults/interposer.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let made = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .output();
        match made {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                Some(library)
            }
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "a C compiler is needed: {error}");
                eprintln!("not tested here: there is no C compiler, which the interposer needs");
                None
            }
        }
    };
    MADE.get_or_init(make).as_deref()
}

/// Returns a directory for many small stores: in memory if possible, since no power fails here.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn run(library: &Path, template: &Path, faults: &str) -> (Vec<String>, tempfile::TempDir) {
    let place = place();
    copy_directory(template, &place.path().join("store"));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "calls::in_the_process_whose_calls_fail", "--nocapture"])
        .env(ROOT, place.path().join("store"))
        .env(FAULTS, faults)
        .env("FAULTS_BELOW", place.path())
        .env("LD_PRELOAD", library)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    (said, place)
}

/// Lets calls fail: each, or every n-th, `length` in a row.
fn sweep(kind: &str, length: u64, files: &str) {
    let Some(library) = interposer() else { return };
    let template = place();
    let mut store = open(template.path()).unwrap();
    store.apply(&(0..GROUP).map(|number| put(number, 100)).collect::<Vec<_>>(), at(0)).unwrap();
    drop(store);
    let count = {
        // This kind counts as it does when calls fail, beyond the last one.
        let (said, _) = run(library, template.path(), &format!("{kind}/1000000/1/0{files}"));
        let calls = said.iter().find_map(|line| line.strip_prefix("calls "));
        calls.unwrap_or_else(|| panic!("{said:?}")).parse::<u64>().unwrap()
    };
    assert!(count >= 10, "{kind}{files}: {count} calls");
    let step = count.div_ceil(RUNS);
    for number in (1..=count).step_by(step as usize) {
        let faults = format!("{kind}/{number}/{length}/0{files}");
        let (said, place) = run(library, template.path(), &faults);
        assert!(said.iter().any(|line| line == "finished"), "{faults}: {said:?}");
        check(&place.path().join("store"), &said, &faults);
    }
    println!("{kind}{files}, {length} in a row: each {step}. of {count} calls");
}

fn check(path: &Path, said: &[String], faults: &str) {
    let mut store = open(path).unwrap();
    let found = pending(&mut store).unwrap();
    let groups = |word: &str| -> BTreeSet<u64> {
        said.iter().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect()
    };
    let (acknowledged, unknown) = (groups("acknowledged "), groups("unknown "));
    for group in SOUND {
        assert!(acknowledged.contains(&group), "{faults}: the store does not go on: {said:?}");
    }
    for group in FAILING.chain(SOUND) {
        let first = group * GROUP;
        let there = (first + 1..first + GROUP).filter(|number| found.contains(&id(*number))).count() as u64;
        let is_there = there == GROUP - 1;
        let may_be = if acknowledged.contains(&group) {
            is_there
        } else if unknown.contains(&group) {
            is_there || there == 0
        } else {
            there == 0
        };
        assert!(may_be, "{faults}: {there} of group {group}: {said:?}");
        if acknowledged.contains(&group) {
            assert!(!found.contains(&id(first - GROUP)), "{faults}: {group} has cancelled: {said:?}");
        }
    }
    assert_eq!(claim_all(&mut store, &found), found.len(), "{faults}");
    drop(store);
    assert_eq!(SqliteStore::integrity_check(path).unwrap(), [] as [String; 0], "{faults}");
}

const LASTING: u64 = 1 << 40;

#[test]
fn a_call_that_fails_is_survived() {
    sweep("io", 1, "/");
}

#[test]
fn calls_on_the_log_that_fail_for_a_while_are_survived() {
    sweep("io", 5, "/-wal");
}

#[test]
fn a_disk_that_fails_until_it_is_repaired_is_survived() {
    sweep("io", LASTING, "/");
}

#[test]
fn a_disk_that_is_full_for_a_while_is_survived() {
    sweep("full", LASTING, "/");
    sweep("short", 3, "/");
}

//! Stores for tests, and their contents.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use actix_timers_durable::store::{Delivery, EmbeddedStore, Found, Op, Outcome, Part, Query, Reads, Record, Store};
use actix_timers_durable::{DurableId, StoreError};
use support::store::{at, node, record, serving};

/// Opens a store for a process that serves the routes of the tests.
pub(crate) fn open(path: &Path) -> Result<EmbeddedStore, StoreError> {
    let mut store = EmbeddedStore::open(path)?;
    store.join(&node(&serving(&["a", "b"])), at(0))?;
    Ok(store)
}

/// Makes a store with a timer.
pub(crate) fn make(path: &Path) {
    apply(&mut open(path).unwrap(), &[put(1, 10)]).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes changes of which none fails.
pub(crate) fn apply(store: &mut impl Store, ops: &[Op]) -> Result<Vec<Outcome>, StoreError> {
    store.apply(ops, at(0))?.into_iter().collect()
}

/// Returns a timer of this number, due before the start, with a payload of the number and this many bytes of it.
pub(crate) fn timer(number: u64, payload: usize) -> Record {
    let mut timer = record(number, (number % 2000) as i64 - 2000);
    timer.payload = [&number.to_le_bytes()[..], &vec![number as u8; payload]].concat().into();
    timer
}

pub(crate) fn id(number: u64) -> DurableId {
    timer(number, 0).id
}

pub(crate) fn put(number: u64, payload: usize) -> Op {
    support::store::put(&timer(number, payload))
}

pub(crate) fn puts(numbers: std::ops::Range<u64>, payload: usize) -> Vec<Op> {
    numbers.map(|number| put(number, payload)).collect()
}

/// The first delivery of a timer.
pub(crate) fn delivery(number: u64) -> Delivery {
    Delivery { id: id(number), repetition: 1, attempt: 1 }
}

pub(crate) fn number_of(record: &Record) -> u64 {
    u64::from_le_bytes(record.payload[..8].try_into().unwrap())
}

/// Returns all timers of a part.
pub(crate) fn all(store: &mut impl Reads, part: Part) -> Result<Vec<Found>, StoreError> {
    let mut query = Query { limit: 500, ..Query::of(part) };
    let mut all = vec![];
    loop {
        let page = store.list(&query)?;
        assert_eq!(page.damaged, 0);
        all.extend(page.found);
        query.after = page.next;
        if page.next.is_none() {
            return Ok(all);
        }
    }
}

/// Returns the numbers of the pending timers, each of which is as it was stored.
pub(crate) fn pending(store: &mut impl Reads) -> Result<BTreeSet<u64>, StoreError> {
    let mut numbers = BTreeSet::new();
    for Found { record, .. } in all(store, Part::Pending)? {
        let number = number_of(&record);
        let stored = Record { progress: record.progress, ..timer(number, record.payload.len() - 8) };
        assert_eq!(*record, stored, "a timer is another one");
        assert!(numbers.insert(number), "{number} comes twice");
    }
    Ok(numbers)
}

#[track_caller]
pub(crate) fn assert_sound(path: &Path) {
    assert_eq!(EmbeddedStore::integrity_check(path).unwrap(), [] as [String; 0]);
}

/// Asserts that a store is sound, unless its process ended before it made one.
#[track_caller]
pub(crate) fn assert_sound_once_made(path: &Path) {
    if path.join("timers.db").exists() {
        assert_sound(path);
    }
}

/// Returns a process that runs one test of this binary, and reports to its standard error.
pub(crate) fn process_of(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::piped());
    child
}

/// Writes a line to the standard error in one piece, past the harness, which would capture it.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    std::io::stderr().write_all(format!("{line}\n").replace('\r', " ").as_bytes()).unwrap();
}

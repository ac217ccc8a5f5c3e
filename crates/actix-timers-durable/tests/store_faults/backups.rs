//! Backups of a store in use.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Next, Op, Reads, Store};
use schemes::random::Random;
use support::store::claim;

use crate::workshop::{apply, assert_sound, delivery, id, open, pending, process_of, put, puts};

#[test]
fn a_backup_has_the_changes_up_to_its_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    (0..50).for_each(|group| _ = apply(&mut store, &puts(group * 20..group * 20 + 20, 2500)).unwrap());
    let park = Op::End(delivery(3), Next::Park { reason: "paused by hand".into() });
    apply(&mut store, &[claim(&[id(3), id(5)]), park, Op::Cancel(id(4))]).unwrap();
    let target = directory.path().join("backups/one");
    let copying = store.back_up(&target).unwrap();
    let has_ended = Arc::<AtomicBool>::default();
    let ends = Arc::clone(&has_ended);
    let copying = std::thread::spawn(move || {
        let copied = copying();
        ends.store(true, Ordering::SeqCst);
        copied
    });
    // Enough that the log is written to the database while it is copied.
    let mut group = 50;
    while !has_ended.load(Ordering::SeqCst) || group < 150 {
        apply(&mut store, &puts(group * 20..group * 20 + 20, 2500)).unwrap();
        apply(&mut store, &[Op::Cancel(id(group))]).unwrap();
        group += 1;
    }
    copying.join().unwrap().unwrap();
    assert_eq!(store.counts(None).unwrap().pending, group * 20 - 2 - (group - 50));
    assert_sound(&target);
    let mut copy = open(&target).unwrap();
    assert_eq!(pending(&mut copy).unwrap(), (0..1000).filter(|number| ![3, 4].contains(number)).collect());
    assert_eq!(copy.counts(None).unwrap().parked, 1);
    let progress = copy.get(id(5)).unwrap().unwrap().record.progress;
    assert_eq!((progress.attempt, progress.used), (1, 1));
    apply(&mut copy, &[put(1_000_000, 10)]).unwrap();
    assert!(EmbeddedStore::in_memory().unwrap().back_up(&directory.path().join("other")).is_err());
}

#[test]
fn a_backup_does_not_overwrite_anything() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    apply(&mut store, &[put(1, 10)]).unwrap();
    let other = directory.path().join("other");
    drop(open(&other).unwrap());
    let notes = directory.path().join("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("notes.txt"), "mine").unwrap();
    for target in [other, notes] {
        let error = back_up(&mut store, &target).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    }
}

const STORE: &str = "ACTIX_TIMERS_BACKED_UP_STORE";
const TARGET: &str = "ACTIX_TIMERS_BACKUP";
/// A backup until it is finished.
const DRAFT: &str = "timers.db.backup";

fn back_up(store: &mut EmbeddedStore, target: &Path) -> Result<(), StoreError> {
    store.back_up(target)?()
}

fn assert_unfinished(target: &Path) {
    for error in [open(target).map(drop).unwrap_err(), EmbeddedStore::integrity_check(target).map(drop).unwrap_err()] {
        assert!(error.to_string().contains("a backup that was not finished"), "{error}");
        assert!(matches!(&error, StoreError::UnfinishedBackup(path) if path == target), "{error:?}");
    }
}

#[test]
fn a_backup_that_was_interrupted_says_so_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    apply(&mut store, &puts(0..20, 3000)).unwrap();
    let target = directory.path().join("backup");
    back_up(&mut store, &target).unwrap();
    let whole = fs::read(target.join("timers.db")).unwrap();
    // Before its first page, in the middle, and before its name.
    for length in [0, 5000, whole.len()] {
        fs::remove_file(target.join("timers.db")).unwrap();
        fs::write(target.join(DRAFT), &whole[..length]).unwrap();
        fs::write(target.join(format!("{DRAFT}-journal")), "torn").unwrap();
        assert_unfinished(&target);
        back_up(&mut store, &target).unwrap();
        assert_eq!(pending(&mut open(&target).unwrap()).unwrap().len(), 20);
        assert_sound(&target);
        assert!(!target.join(DRAFT).exists());
        let error = back_up(&mut store, &target).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "it is a store now: {error}");
    }
}

/// Makes a backup in the process that is killed. Does nothing in an ordinary run.
#[test]
fn in_the_process_that_is_killed_in_a_backup() {
    let (Ok(path), Ok(target)) = (std::env::var(STORE), std::env::var(TARGET)) else { return };
    back_up(&mut open(Path::new(&path)).unwrap(), Path::new(&target)).unwrap();
}

#[test]
fn a_backup_killed_midway_is_whole_or_says_that_it_is_not() {
    backups_are_whole_or_unfinished(4, 3);
}

#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn a_large_backup_killed_midway_is_whole_or_says_so() {
    backups_are_whole_or_unfinished(20, 6);
}

/// The backup has a thousand timers of 1500 bytes for each of its groups.
fn backups_are_whole_or_unfinished(groups: u64, rounds: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = open(&path).unwrap();
    (0..groups).for_each(|group| _ = apply(&mut store, &puts(group * 1000..group * 1000 + 1000, 1500)).unwrap());
    drop(store);
    let target = directory.path().join("backup");
    let mut random = Random::new(u64::from(std::process::id()));
    for round in 0..rounds {
        let mut child = process_of("backups::in_the_process_that_is_killed_in_a_backup");
        let mut process = child.env(STORE, &path).env(TARGET, &target).stderr(Stdio::null()).spawn().unwrap();
        // From the start of the copy, anywhere up to its end.
        while !target.join(DRAFT).exists() && process.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(1 + round * groups * 2000)));
        process.kill().unwrap();
        process.wait().unwrap();
        if !target.join("timers.db").exists() {
            assert_unfinished(&target);
            back_up(&mut open(&path).unwrap(), &target).unwrap();
        }
        assert!(pending(&mut open(&target).unwrap()).unwrap().into_iter().eq(0..groups * 1000), "round {round}");
        assert_sound(&target);
        fs::remove_dir_all(&target).unwrap();
    }
}

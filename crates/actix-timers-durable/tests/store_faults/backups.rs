//! Backups of a store in use.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use actix_timers_durable::TimerStore;
use actix_timers_durable::store::{Change, Claim, EmbeddedStore, StoreError};

use crate::workshop::{id, open, open_owned, pending, put};
use schemes::random::Random;

#[test]
fn a_backup_has_the_changes_committed_before_its_request_and_is_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(&directory.path().join("store"));
    store.commit(fence, &(0..500).map(|number| put(number, 5000)).collect::<Vec<_>>()).unwrap();
    store.commit(fence, &[Change::Park { id: id(3), at: None }, Change::Remove { id: id(4), at: None }]).unwrap();
    let claim = Claim { number: 9, members: vec![(id(5), id(5).first_due(), 1)] };
    store.commit(fence, &[Change::Claim(claim.clone())]).unwrap();
    let target = directory.path().join("backups/one");
    let back_up = store.back_up(&target).unwrap();
    // After the call, and during the copy.
    store.commit(fence, &[put(1000, 10), Change::Remove { id: id(5), at: None }]).unwrap();
    let copying = std::thread::spawn(back_up);
    for number in 1001..1050 {
        store.commit(fence, &[put(number, 10)]).unwrap();
    }
    copying.join().unwrap().unwrap();
    let mut copy = open(&target).unwrap();
    assert_eq!(copy.check().unwrap(), []);
    let expected: Vec<u64> = (0..500).filter(|number| ![3, 4].contains(number)).collect();
    assert_eq!(pending(&mut copy).unwrap().0.into_iter().collect::<Vec<_>>(), expected);
    let lease = copy.acquire(0).unwrap();
    assert_eq!(lease.claims, [claim]);
    assert_eq!(copy.counts(0).unwrap().parked, 1);
    copy.commit(lease.fence, &[put(7777, 10)]).unwrap();
    assert_eq!(store.counts(0).unwrap().pending, 498 - 1 + 50);
}

#[test]
fn a_backup_does_not_overwrite_anything() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(&directory.path().join("store"));
    store.commit(fence, &[put(1, 10)]).unwrap();
    let other = directory.path().join("other");
    drop(open_owned(&other));
    let notes = directory.path().join("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("notes.txt"), "mine").unwrap();
    for target in [other, notes, directory.path().join("store")] {
        let error = store.back_up(&target).and_then(|back_up| back_up()).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    }
}

const STORE: &str = "ACTIX_TIMERS_BACKED_UP_STORE";
const TARGET: &str = "ACTIX_TIMERS_BACKUP";
/// The mark of an unfinished backup.
const MARK: &str = "unfinished-backup";

fn back_up(store: &mut EmbeddedStore, target: &Path) -> Result<(), StoreError> {
    store.back_up(target)?()
}

fn assert_unfinished(target: &Path) {
    for error in [open(target).unwrap_err(), EmbeddedStore::open_existing(target).unwrap_err()] {
        assert!(error.to_string().contains("a backup that was not finished"), "{error}");
        assert!(matches!(&error, StoreError::UnfinishedBackup(path) if path == target), "{error:?}");
    }
}

/// Each state of a backup up to its end.
#[test]
fn a_backup_that_was_interrupted_says_so_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(&directory.path().join("store"));
    store.commit(fence, &(0..20).map(|number| put(number, 3000)).collect::<Vec<_>>()).unwrap();
    let target = directory.path().join("backup");
    let rename = |from: &str, to: &str| fs::rename(target.join(from), target.join(to)).unwrap();
    for state in 0..6 {
        back_up(&mut store, &target).unwrap();
        assert!(!target.join(MARK).exists());
        fs::write(target.join(MARK), "").unwrap();
        match state {
            // The directory has only the mark.
            0 => {
                let _ = ["format", "lock"].map(|file| fs::remove_file(target.join(file)).unwrap());
                fs::remove_dir_all(target.join("data")).unwrap();
            }
            // The backup was interrupted before its first copy.
            1 => {
                fs::remove_file(target.join("format")).unwrap();
                fs::remove_dir_all(target.join("data")).unwrap();
            }
            // The backup was interrupted in the middle of the copy.
            2 => {
                fs::remove_file(target.join("format")).unwrap();
                rename("data", "data.new");
                fs::remove_file(target.join("data.new/version")).unwrap();
            }
            // All is copied, but not recorded as complete.
            3 => {
                rename("format", "format.new");
                rename("data", "data.new");
            }
            // It is complete except for the names.
            4 => rename("data", "data.new"),
            _ => {}
        }
        if state < 4 {
            assert_unfinished(&target);
            back_up(&mut store, &target).unwrap();
        }
        let mut copy = open(&target).unwrap();
        assert_eq!(pending(&mut copy).unwrap().0.len(), 20, "state {state}");
        assert_eq!(copy.check().unwrap(), []);
        assert!(!target.join(MARK).exists());
        drop(copy);
        let error = back_up(&mut store, &target).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "it is a store now: {error}");
        fs::remove_dir_all(&target).unwrap();
    }
}

/// Makes a backup in the process that is killed. Does nothing in an ordinary run.
#[test]
fn in_the_process_that_is_killed_in_a_backup() {
    let (Ok(path), Ok(target)) = (std::env::var(STORE), std::env::var(TARGET)) else { return };
    back_up(&mut open(Path::new(&path)).unwrap(), Path::new(&target)).unwrap();
}

#[test]
fn a_backup_whose_process_is_killed_is_whole_or_says_that_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (mut store, fence) = open_owned(&path);
    let all: Vec<u64> = (0..3000).collect();
    for group in all.chunks(1000) {
        store.commit(fence, &group.iter().map(|number| put(*number, 1500)).collect::<Vec<_>>()).unwrap();
    }
    drop(store);
    let target = directory.path().join("backup");
    let mut random = Random::new(u64::from(std::process::id()));
    for round in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "backups::in_the_process_that_is_killed_in_a_backup"]);
        child.env(STORE, &path).env(TARGET, &target).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = child.spawn().unwrap();
        // From the start of the copy, anywhere up to its end.
        while !target.join(MARK).exists() && process.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(random.below(1 + round * 40_000)));
        process.kill().unwrap();
        process.wait().unwrap();
        if !target.join("format").exists() {
            assert_unfinished(&target);
            back_up(&mut open(&path).unwrap(), &target).unwrap();
        }
        let mut copy = open(&target).unwrap();
        assert!(pending(&mut copy).unwrap().0.into_iter().eq(all.iter().copied()), "round {round}");
        assert_eq!(copy.check().unwrap(), [], "round {round}");
        drop(copy);
        fs::remove_dir_all(&target).unwrap();
    }
}

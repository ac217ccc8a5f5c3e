//! A disk that is full, then has room again; backups.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_timers_durable::StoreError;
use actix_timers_durable::rows::{Next, Op, Outcome, Reads, SqliteStore, Store};
use support::rows::{at, claim};

use crate::workshop::{claim_all, id, open, pending, put};

/// A small disk in memory, if this process may mount one.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path, megabytes: u32) -> Option<Self> {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(path).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("not tested here: no right to mount a small disk");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Lazily, in case a test has failed with the store still open.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_rejects_whole_groups_loses_nothing_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 64) else { return };
    let path = disk.0.join("store");
    let mut store = open(&path).unwrap();
    fs::write(disk.0.join("ballast"), vec![1; 40 << 20]).unwrap();
    let (mut kept, mut rejected) = (vec![], 0);
    for number in (0..).step_by(10) {
        let group: Vec<_> = (number..number + 10).map(|number| put(number, 5000)).collect();
        match store.apply(&group, at(0)) {
            Ok(_) => kept.extend(number..number + 10),
            Err(StoreError::Rejected(_)) => rejected += 1,
            Err(other) => panic!("{other}"),
        }
        if rejected == 5 {
            break;
        }
    }
    assert!(kept.len() > 100, "{}", kept.len());
    let ids = |kept: &[u64]| kept.iter().map(|number| id(*number)).collect();
    assert_eq!(pending(&mut store).unwrap(), ids(&kept), "it can be read meanwhile");
    fs::remove_file(disk.0.join("ballast")).unwrap();
    let Ok(Outcome::Claimed { records, .. }) = store.apply(&[claim(&[id(0)])], at(0)).unwrap().pop().unwrap() else {
        panic!("not a claim")
    };
    store.apply(&[put(1_000_000, 5000), Op::End(records[0].delivery(), Next::Delete)], at(0)).unwrap();
    kept[0] = 1_000_000;
    drop(store);
    let mut store = open(&path).unwrap();
    assert_eq!(pending(&mut store).unwrap(), ids(&kept));
    drop(store);
    assert_eq!(SqliteStore::integrity_check(&path).unwrap(), [] as [String; 0]);
}

#[test]
fn a_backup_has_a_state_of_the_store_that_is_written_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    let group = |first: u64| (first..first + 100).map(|number| put(number, 500)).collect::<Vec<_>>();
    (0..50).for_each(|number| _ = store.apply(&group(number * 100), at(0)).unwrap());
    let target = directory.path().join("backup");
    let copying = store.back_up(&target).unwrap();
    let has_ended = Arc::<AtomicBool>::default();
    let ends = Arc::clone(&has_ended);
    // Enough that the log is written to the database while it is copied.
    let thread = std::thread::spawn(move || {
        let copied = copying();
        ends.store(true, Ordering::SeqCst);
        copied
    });
    let mut number = 50;
    while !has_ended.load(Ordering::SeqCst) || number < 150 {
        store.apply(&group(number * 100), at(0)).unwrap();
        number += 1;
    }
    thread.join().unwrap().unwrap();
    assert_eq!(store.counts(None).unwrap().pending, number * 100);
    assert_eq!(SqliteStore::integrity_check(&target).unwrap(), [] as [String; 0]);
    let mut copy = open(&target).unwrap();
    let found = pending(&mut copy).unwrap();
    assert_eq!(found, (0..5000).map(id).collect(), "the state when it was prepared");
    assert_eq!(claim_all(&mut copy, &found), 5000);
    let again = store.back_up(&target).unwrap()().unwrap_err();
    assert!(matches!(again, StoreError::InUse(_)), "{again}");
    drop(copy);
    let again = store.back_up(&target).unwrap()().unwrap_err();
    assert!(matches!(again, StoreError::Foreign { .. }), "{again}");
    assert!(SqliteStore::in_memory().unwrap().back_up(&target).is_err());
}

#[test]
fn a_backup_for_which_there_is_no_room_says_so_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    store.apply(&(0..1000).map(|number| put(number, 5000)).collect::<Vec<_>>(), at(0)).unwrap();
    let path = directory.path().join("disk");
    fs::create_dir(&path).unwrap();
    let Some(disk) = SmallDisk::mount(&path, 3) else { return };
    let target = path.join("backup");
    let rejected = store.back_up(&target).and_then(|back_up| back_up()).unwrap_err();
    assert!(matches!(&rejected, StoreError::Rejected(cause) if cause.to_string().contains("backup")), "{rejected}");
    let error = open(&target).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::UnfinishedBackup(_)), "{error}");
    let grown = Command::new("mount").args(["-o", "remount,size=64m"]).arg(disk.0).status();
    assert!(grown.unwrap().success());
    store.back_up(&target).and_then(|back_up| back_up()).unwrap();
    assert_eq!(pending(&mut open(&target).unwrap()).unwrap().len(), 1000);
}

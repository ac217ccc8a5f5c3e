//! A disk that is full, then has room again.

use std::fs;
use std::path::Path;
use std::process::Command;

use actix_timers_durable::TimerStore;
use actix_timers_durable::store::{EmbeddedStore, StoreError};

use crate::workshop::{open, open_owned, pending, put};

/// A small disk in memory, if this process may mount one.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path, megabytes: u32) -> Option<Self> {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(path))
    }
}

impl SmallDisk<'_> {
    fn grow(&self, megabytes: u32) {
        let size = format!("remount,size={megabytes}m");
        assert!(Command::new("mount").args(["-o", &size]).arg(self.0).status().unwrap().success());
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
    let Some(disk) = SmallDisk::mount(directory.path(), 24) else {
        eprintln!("not tested here: no right to mount a small disk; tests within the crate pretend to have one");
        return;
    };
    let path = disk.0.join("store");
    let (mut store, fence) = open_owned(&path);
    fs::write(disk.0.join("ballast"), vec![1; 8 << 20]).unwrap();
    let mut kept = Vec::new();
    let mut rejected = 0;
    for number in (0..).step_by(10) {
        let group: Vec<_> = (number..number + 10).map(|number| put(number, 5000)).collect();
        match store.commit(fence, &group) {
            Ok(_) => kept.extend(number..number + 10),
            Err(StoreError::Rejected(_)) => rejected += 1,
            Err(other) => panic!("{other}"),
        }
        if rejected == 5 {
            break;
        }
    }
    assert!(kept.len() > 100, "{}", kept.len());
    assert_eq!(pending(&mut store).unwrap().0.into_iter().collect::<Vec<_>>(), kept, "it can be read meanwhile");
    fs::remove_file(disk.0.join("ballast")).unwrap();
    store.commit(fence, &[put(1_000_000, 5000)]).unwrap();
    kept.push(1_000_000);
    assert_eq!(store.counts(0).unwrap().pending, kept.len() as u64);
    drop(store);
    let mut store = open(&path).unwrap();
    assert_eq!(pending(&mut store).unwrap().0.into_iter().collect::<Vec<_>>(), kept);
    assert_eq!(store.check().unwrap(), []);
}

/// A backup holds the database open, which has to be reopened after it.
#[test]
fn a_disk_that_is_full_in_mid_commit_during_a_backup_does_not_end_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 24) else {
        eprintln!("not tested here: no right to mount a small disk; tests within the crate pretend to have one");
        return;
    };
    let path = disk.0.join("store");
    let (mut store, fence) = open_owned(&path);
    fs::write(disk.0.join("ballast"), vec![1; 16 << 20]).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let back_up = store.back_up(&elsewhere.path().join("backup")).unwrap();
    let mut kept = Vec::new();
    let rejected = (0..).find_map(|number| match store.commit(fence, &[put(number, 100_000)]) {
        Ok(_) => {
            kept.push(number);
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(rejected, Some(StoreError::Rejected(_))), "{rejected:?}");
    let given_up = back_up().unwrap_err();
    assert!(matches!(given_up, StoreError::Rejected(_)), "{given_up}");
    fs::remove_file(disk.0.join("ballast")).unwrap();
    store.commit(fence, &[put(1_000_000, 100_000)]).unwrap();
    kept.push(1_000_000);
    assert_eq!(pending(&mut store).unwrap().0.into_iter().collect::<Vec<_>>(), kept);
    drop(store);
    assert_eq!(open(&path).unwrap().check().unwrap(), []);
}

#[test]
fn new_timers_are_rejected_before_the_disk_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::options().reserve(u64::MAX / 4).open(directory.path()).unwrap();
    let fence = store.acquire(0).unwrap().fence;
    let error = store.commit(fence, &[put(1, 10)]).unwrap_err();
    assert!(
        matches!(&error, StoreError::Rejected(cause) if cause.kind() == std::io::ErrorKind::StorageFull),
        "{error}"
    );
}

#[test]
fn a_backup_for_which_there_is_no_room_says_so_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(&directory.path().join("store"));
    store.commit(fence, &(0..1000).map(|number| put(number, 5000)).collect::<Vec<_>>()).unwrap();
    let path = directory.path().join("disk");
    fs::create_dir(&path).unwrap();
    for megabytes in 1..6 {
        let Some(disk) = SmallDisk::mount(&path, megabytes) else {
            eprintln!("not tested here: no right to mount a small disk");
            return;
        };
        let target = path.join("backup");
        let rejected = store.back_up(&target).and_then(|back_up| back_up()).unwrap_err();
        assert!(matches!(&rejected, StoreError::Rejected(cause) if cause.to_string().contains("backup")), "{rejected}");
        let error = open(&target).unwrap_err();
        assert!(matches!(error, StoreError::UnfinishedBackup(_)), "{megabytes} MB: {error}");
        // Its copied files are gone.
        fs::write(path.join("other"), vec![1; 900_000]).unwrap();
        disk.grow(64);
        store.back_up(&target).and_then(|back_up| back_up()).unwrap();
        let mut copy = open(&target).unwrap();
        assert_eq!(pending(&mut copy).unwrap().0.len(), 1000);
        assert_eq!(copy.check().unwrap(), []);
    }
}

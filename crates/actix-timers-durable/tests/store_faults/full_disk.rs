//! A disk that is full, then has room again.

use std::fs;
use std::path::Path;
use std::process::Command;

use actix_timers_durable::StoreError;
use actix_timers_durable::rusqlite::Connection;
use actix_timers_durable::store::{Effect, Next, Op, Outcome, Reads, Store};
use support::store::{at, claim};

use crate::workshop::{apply, assert_sound, delivery, id, open, pending, put, puts};

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
fn whole_groups_are_rejected_until_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 48) else { return };
    let path = disk.0.join("store");
    let mut store = open(&path).unwrap();
    fs::write(disk.0.join("ballast"), vec![1; 24 << 20]).unwrap();
    let mut kept = Vec::new();
    let mut rejected = 0;
    for number in (0..).step_by(10) {
        match apply(&mut store, &puts(number..number + 10, 50_000)) {
            Ok(_) => kept.extend(number..number + 10),
            Err(StoreError::Rejected(_)) => rejected += 1,
            Err(other) => panic!("{other}"),
        }
        if rejected == 5 {
            break;
        }
    }
    assert!(kept.len() > 100, "{}", kept.len());
    assert!(pending(&mut store).unwrap().into_iter().eq(kept.iter().copied()), "it can be read meanwhile");
    fs::remove_file(disk.0.join("ballast")).unwrap();
    apply(&mut store, &[claim(&[id(0)]), put(1_000_000, 50_000), Op::End(delivery(0), Next::Delete)]).unwrap();
    kept[0] = 1_000_000;
    assert_eq!(store.counts(None).unwrap().pending, kept.len() as u64);
    drop(store);
    assert_eq!(pending(&mut open(&path).unwrap()).unwrap(), kept.into_iter().collect());
    assert_sound(&path);
}

#[test]
fn a_full_disk_undoes_effects_with_their_ends() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 48) else { return };
    let path = disk.0.join("store");
    let mut store = open(&path).unwrap();
    store.transaction(|connection| connection.execute_batch("CREATE TABLE effects (bytes BLOB)")).unwrap();
    apply(&mut store, &puts(0..10, 100)).unwrap();
    apply(&mut store, &[claim(&(0..10).map(id).collect::<Vec<_>>())]).unwrap();
    fs::write(disk.0.join("ballast"), vec![1; 40 << 20]).unwrap();
    let effect = |bytes: u32| {
        Effect::new(move |connection| connection.execute("INSERT INTO effects VALUES (zeroblob(?1))", [bytes]).is_ok())
    };
    // The large one fills the cache, so that its pages are written before the commit.
    for bytes in [10 << 20, 64 << 20] {
        let ops = [Op::EndWith(delivery(0), Next::Delete, effect(bytes)), Op::End(delivery(1), Next::Delete)];
        let rejected = store.apply(&ops, at(0)).unwrap_err();
        assert!(matches!(rejected, StoreError::Rejected(_) | StoreError::Unavailable(_)), "{rejected}");
    }
    fs::remove_file(disk.0.join("ballast")).unwrap();
    let ops = (0..10).map(|number| Op::EndWith(delivery(number), Next::Delete, effect(10))).collect::<Vec<_>>();
    let outcomes = apply(&mut store, &ops).unwrap();
    assert_eq!(outcomes, vec![Outcome::Ended { due: None }; 10], "they are still claimed");
    let count =
        |connection: &Connection| connection.query_row("SELECT count(*) FROM effects", (), |row| row.get::<_, u32>(0));
    assert_eq!(store.transaction(count).unwrap(), 10);
    drop(store);
    assert_sound(&path);
}

/// A backup holds a snapshot, behind which the log cannot begin anew.
#[test]
fn a_disk_full_in_mid_commit_beside_a_backup_ends_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 48) else { return };
    let path = disk.0.join("store");
    let mut store = open(&path).unwrap();
    fs::write(disk.0.join("ballast"), vec![1; 36 << 20]).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let back_up = store.back_up(&elsewhere.path().join("backup")).unwrap();
    let mut kept = Vec::new();
    let rejected = (0..).find_map(|number| match apply(&mut store, &[put(number, 100_000)]) {
        Ok(_) => {
            kept.push(number);
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(rejected, Some(StoreError::Rejected(_))), "{rejected:?}");
    back_up().unwrap();
    assert_eq!(pending(&mut open(&elsewhere.path().join("backup")).unwrap()).unwrap(), [].into());
    fs::remove_file(disk.0.join("ballast")).unwrap();
    apply(&mut store, &[put(1_000_000, 100_000)]).unwrap();
    kept.push(1_000_000);
    assert_eq!(pending(&mut store).unwrap(), kept.into_iter().collect());
    drop(store);
    assert_sound(&path);
}

#[test]
fn a_backup_without_room_says_so_and_can_be_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("store")).unwrap();
    apply(&mut store, &puts(0..120, 50_000)).unwrap();
    let path = directory.path().join("disk");
    fs::create_dir(&path).unwrap();
    for megabytes in 1..6 {
        let Some(disk) = SmallDisk::mount(&path, megabytes) else { return };
        let target = path.join("backup");
        let rejected = store.back_up(&target).and_then(|back_up| back_up()).unwrap_err();
        assert!(matches!(&rejected, StoreError::Rejected(cause) if cause.to_string().contains("backup")), "{rejected}");
        let error = open(&target).map(drop).unwrap_err();
        assert!(matches!(error, StoreError::UnfinishedBackup(_)), "{megabytes} MB: {error}");
        // Its copied files are gone.
        fs::write(path.join("other"), vec![1; 900_000]).unwrap();
        disk.grow(64);
        store.back_up(&target).and_then(|back_up| back_up()).unwrap();
        assert_eq!(pending(&mut open(&target).unwrap()).unwrap().len(), 120);
        assert_sound(&target);
    }
}

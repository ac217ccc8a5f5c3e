//! Directories of other users, and links.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Store};
use tempfile::TempDir;

use crate::workshop::{make, open, pending, set_mode};

/// The user `nobody`.
const OTHER: u32 = 65534;

/// Returns all below a directory, and the directory itself, with modes, owners, sizes and times of the last change.
fn state(path: &Path) -> Vec<(PathBuf, u32, u32, u64, i64)> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut all = vec![(path.to_owned(), found.mode(), found.uid(), found.size(), found.ctime_nsec())];
    if found.is_dir() {
        all.extend(fs::read_dir(path).unwrap().flat_map(|entry| state(&entry.unwrap().path())));
        all.sort();
    }
    all
}

/// Tries all that opens a directory: a store, a check, a backup.
fn attempts(path: &Path) -> [Result<(), StoreError>; 3] {
    let source = tempfile::tempdir().unwrap();
    let mut source = open(&source.path().join("source")).unwrap();
    let backed_up = source.back_up(path).and_then(|back_up| back_up());
    [open(path).map(drop), EmbeddedStore::integrity_check(path).map(drop), backed_up]
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Acts as root against another user, and does nothing as one.
#[test]
fn a_directory_of_another_user_is_rejected_and_left_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = home();
    let [empty, store] = ["empty", "store"].map(|name| home.path().join(name));
    fs::create_dir(&empty).unwrap();
    make(&store);
    for (path, mode) in [(&empty, 0o755), (&empty, 0o700), (&store, 0o700)] {
        set_mode(path, mode);
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
        let before = state(home.path());
        for rejected in attempts(path) {
            let error = rejected.expect_err("another user owns it");
            assert!(matches!(&error, StoreError::Untrusted { path: other, owner: OTHER, user: 0 } if other == path));
            assert!(error.to_string().contains("`chown`"), "{error}");
        }
        assert_eq!(state(home.path()), before);
    }
    chown(&store, Some(0), None).unwrap();
    assert_eq!(pending(&mut open(&store).unwrap()).unwrap().len(), 1);
}

/// A data directory on another disk.
#[test]
fn a_link_to_the_directory_is_followed() {
    let home = home();
    let [link, target] = ["link", "disk/timers"].map(|name| home.path().join(name));
    fs::create_dir_all(&target).unwrap();
    symlink("disk/timers", &link).unwrap();
    make(&link);
    assert_eq!(pending(&mut open(&target).unwrap()).unwrap().len(), 1);
    // It is a circle.
    let circle = home.path().join("circle");
    symlink("circle", &circle).unwrap();
    assert!(matches!(open(&circle), Err(StoreError::Unreadable { .. })));
}

/// As with a store that was unpacked from an archive of others.
#[test]
fn links_in_the_directory_are_not_followed() {
    let home = home();
    let victim = home.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    set_mode(&victim, 0o644);
    for name in ["lock", "timers.db", "timers.db-wal", "timers.db-shm"] {
        let path = home.path().join("store");
        make(&path);
        let link = path.join(name);
        let _ = fs::remove_file(&link);
        symlink(&victim, &link).unwrap();
        let opened = [open(&path).map(drop), EmbeddedStore::integrity_check(&path).map(drop)];
        for rejected in opened {
            assert!(matches!(rejected, Err(StoreError::Unreadable { .. })), "{name}: {rejected:?}");
        }
        let found = fs::metadata(&victim).unwrap();
        assert_eq!((fs::read(&victim).unwrap(), found.mode() & 0o7777), (b"precious".to_vec(), 0o644), "{name}");
        fs::remove_dir_all(path).unwrap();
    }
}

/// As with a volume whose root is the directory of the store.
#[test]
fn a_directory_that_a_file_system_makes_is_no_hindrance() {
    let home = home();
    let lost = home.path().join("lost+found");
    fs::create_dir(&lost).unwrap();
    symlink("nowhere", lost.join("#12")).unwrap();
    make(home.path());
    open(home.path()).unwrap();
}

//! Other users of the machine, and their access to a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Store};

use crate::workshop::{apply, make, mode, open, pending, puts, set_mode};

const PLACE: &str = "ACTIX_TIMERS_PLACE";

/// Returns a directory and its contents.
fn all(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        if path.is_dir() {
            all.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
        next += 1;
    }
    all
}

#[track_caller]
fn assert_private(store: &Path) {
    for path in all(store) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{:o} {}", mode(&path), path.display());
    }
}

/// The process with another umask. Does nothing in an ordinary run.
#[test]
fn in_the_process_with_another_umask() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (path, target) = (Path::new(&place).join("above/store"), Path::new(&place).join("backups/one"));
    let mut store = open(&path).unwrap();
    assert_private(&path);
    // Enough for a checkpoint.
    for first in (0..500).step_by(100) {
        apply(&mut store, &puts(first..first + 100, 19_000)).unwrap();
    }
    assert!(path.join("timers.db-wal").exists() && path.join("timers.db-shm").exists());
    assert_private(&path);
    store.back_up(&target).unwrap()().unwrap();
    assert_private(&target);
    drop(store);
    assert_private(&path);
    assert_eq!(pending(&mut open(&target).unwrap()).unwrap().len(), 500);
}

#[test]
fn a_store_and_its_backups_are_private_with_any_umask() {
    for umask in ["000", "022", "077"] {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("umask {umask} && exec \"$0\" --exact modes::in_the_process_with_another_umask");
        let mut child = Command::new("sh");
        child.arg("-c").arg(script).arg(std::env::current_exe().unwrap()).env(PLACE, directory.path());
        let output = child.output().unwrap();
        assert!(output.status.success(), "umask {umask}: {}", String::from_utf8_lossy(&output.stdout));
        assert_private(&directory.path().join("above/store"));
        assert_private(&directory.path().join("backups/one"));
        for above in ["above", "backups"] {
            assert_eq!(mode(&directory.path().join(above)) & 0o022, 0, "others could replace the store");
        }
    }
}

/// The second as a copy from a read-only medium. (For root no file is read-only.)
#[test]
fn opening_closes_a_store_to_others() {
    for (of_directory, of_file) in [(0o755, 0o644), (0o500, 0o400)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        make(&path);
        for file in all(&path).into_iter().rev() {
            set_mode(&file, if file.is_dir() { of_directory } else { of_file });
        }
        let mut store = open(&path).unwrap();
        assert_private(&path);
        assert_eq!(pending(&mut store).unwrap().len(), 1);
        // An open file does not keep a new one from being created like that either.
        drop(store);
        set_mode(&path.join("lock"), 0o666);
        let _store = open(&path).unwrap();
        assert_private(&path);
    }
}

#[test]
fn a_directory_writable_to_others_is_rejected_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut source = open(&directory.path().join("source")).unwrap();
    let [empty, store] = ["empty", "store"].map(|name| directory.path().join(name));
    fs::create_dir(&empty).unwrap();
    drop(open(&store).unwrap());
    for path in [&empty, &store] {
        let before = all(path);
        for exposed in [0o777, 0o775, 0o757, 0o720, 0o1777] {
            set_mode(path, exposed);
            let back_up = source.back_up(path).and_then(|back_up| back_up());
            let opened = [open(path).map(drop), EmbeddedStore::integrity_check(path).map(drop)];
            for rejected in [back_up].into_iter().chain(opened) {
                let error = rejected.unwrap_err();
                let text = error.to_string();
                assert!(text.contains(&format!("mode {exposed:o}")) && text.contains("chmod 700"), "{text}");
                assert!(matches!(&error, StoreError::Exposed { path: rejected, .. } if rejected == path), "{error:?}");
            }
            assert_eq!((mode(path), all(path)), (exposed, before.clone()));
        }
        set_mode(path, 0o700);
        open(path).unwrap();
    }
}

//! Files that are refused, locks and modes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use actix_timers_durable::StoreError;
use actix_timers_durable::rows::{Reads, SqliteStore, Store};
use rusqlite::{Connection, OpenFlags};
use support::rows::at;

use crate::workshop::{open, put};

fn made(path: &Path) {
    open(path).unwrap().apply(&[put(1, 10)], at(0)).unwrap();
}

fn error(path: &Path) -> StoreError {
    SqliteStore::open(path).map(drop).unwrap_err()
}

#[test]
fn a_second_store_is_refused_while_a_reader_may_look() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = open(&path).unwrap();
    store.apply(&[put(1, 10)], at(0)).unwrap();
    assert!(matches!(error(&path), StoreError::InUse(_)));
    assert!(matches!(SqliteStore::integrity_check(&path), Err(StoreError::InUse(_))));
    let reader = Connection::open_with_flags(path.join("timers.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = || reader.query_row("SELECT count(*) FROM timers WHERE node IS NULL", (), |row| row.get::<_, i64>(0));
    assert_eq!(count().unwrap(), 1);
    store.apply(&[put(2, 10)], at(0)).unwrap();
    assert_eq!(count().unwrap(), 2);
    drop(store);
    let mut store = open(&path).unwrap();
    assert_eq!(store.counts(None).unwrap().pending, 2);
}

/// The process of the second store. Does nothing in an ordinary run.
#[test]
fn in_the_second_process() {
    let Ok(path) = std::env::var("ACTIX_TIMERS_ROWS_SECOND") else { return };
    let error = SqliteStore::open(path).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
    std::process::exit(7);
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _store = open(directory.path()).unwrap();
    let mut second = std::process::Command::new(std::env::current_exe().unwrap());
    second.args(["--exact", "files::in_the_second_process"]).env("ACTIX_TIMERS_ROWS_SECOND", directory.path());
    assert_eq!(second.output().unwrap().status.code(), Some(7));
}

#[test]
fn newer_foreign_and_damaged_files_are_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    made(&path);
    let database = path.join("timers.db");
    let original = fs::read(&database).unwrap();
    let refusal = |bytes: &[u8]| {
        fs::write(&database, bytes).unwrap();
        let error = error(&path);
        assert_eq!(fs::read(&database).unwrap(), bytes, "{error}");
        error
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = original.clone();
        bytes[at] = byte;
        bytes
    };
    let newer = refusal(&with(63, 9));
    assert!(matches!(newer, StoreError::NewerFormat { found: 9, known: 1, .. }), "{newer}");
    let other = refusal(&with(70, 0));
    assert!(matches!(&other, StoreError::Foreign { reason, .. } if reason.contains("another application")), "{other}");
    let no_database = refusal(&[7; 5000]);
    assert!(matches!(&no_database, StoreError::Foreign { .. }), "{no_database}");
    for short in [0, 1, 99] {
        let cut = refusal(&original[..short]);
        assert!(matches!(&cut, StoreError::Unreadable { .. }), "{cut}");
    }
    fs::write(&database, &original).unwrap();
    assert_eq!(open(&path).unwrap().counts(None).unwrap().pending, 1);
    // A newer version may have left its format in the log.
    let later = Connection::open(&database).unwrap();
    later.pragma_update(None, "user_version", 4).unwrap();
    let newer = error(&path);
    assert!(matches!(newer, StoreError::NewerFormat { found: 4, .. }), "{newer}");
}

#[test]
fn a_directory_with_other_files_is_refused() {
    for name in ["notes.txt", "timers.db-wal", "data"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), "mine").unwrap();
        let error = error(directory.path());
        assert!(matches!(&error, StoreError::Foreign { reason, .. } if reason.contains(name)), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn an_unfinished_store_is_made_again_and_an_unfinished_backup_is_none() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["timers.db.new", "timers.db.new-journal"] {
        fs::write(directory.path().join(name), "torn").unwrap();
    }
    made(directory.path());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("timers.db.backup"), "torn").unwrap();
    assert!(matches!(error(directory.path()), StoreError::UnfinishedBackup(_)));
}

#[test]
fn only_the_owner_may_read_the_files_and_other_owners_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = open(&path).unwrap();
    store.apply(&[put(1, 10)], at(0)).unwrap();
    let check = || {
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.iter().for_each(|name| assert_eq!(mode(name), 0o600, "{}", name.display()));
        names.len()
    };
    assert_eq!(check(), 4);
    drop(store);
    fs::set_permissions(path.join("timers.db"), Permissions::from_mode(0o644)).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(check(), 2);
    fs::set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(error(&path), StoreError::Exposed { .. }));
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    symlink("/etc/passwd", path.join("timers.db-journal")).unwrap();
    assert!(matches!(error(&path), StoreError::Untrusted { .. }));
    fs::remove_file(path.join("timers.db-journal")).unwrap();
    if chown(path.join("timers.db"), Some(65534), None).is_ok() {
        assert!(matches!(error(&path), StoreError::Untrusted { .. }));
    }
}

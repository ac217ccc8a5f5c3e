//! Directories that are not stores, not ours to use, or already in use.

use std::fs;
use std::os::unix::fs::symlink;

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{EmbeddedStore, Reads, Store};
use rusqlite::{Connection, OpenFlags};

use crate::workshop::{apply, make, mode, open, pending, put, set_mode};

fn error(path: &std::path::Path) -> StoreError {
    open(path).map(drop).unwrap_err()
}

#[test]
fn a_store_is_made_in_an_empty_or_missing_directory() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("a/b/c"), directory.path().join("empty")] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        make(&path);
        assert_eq!(pending(&mut open(&path).unwrap()).unwrap(), [1].into());
    }
}

#[test]
fn a_path_that_is_a_file_or_not_writable_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below"), "/proc/timers".into()] {
        let error = error(&path);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{}: {error}", path.display());
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

/// By its path and by a link, also for a check and for a backup onto itself; and it is closed to others even so.
#[test]
fn a_second_store_is_refused_while_a_reader_may_look() {
    let directory = tempfile::tempdir().unwrap();
    let [path, link] = ["store", "link"].map(|name| directory.path().join(name));
    let mut store = open(&path).unwrap();
    apply(&mut store, &[put(1, 10)]).unwrap();
    symlink("store", &link).unwrap();
    set_mode(&path, 0o755);
    set_mode(&path.join("lock"), 0o644);
    let back_up = store.back_up(&path).unwrap();
    // Each waits for a while.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let in_use = error(&path);
            assert!(in_use.to_string().contains("if this process had it open, it is not closed yet"), "{in_use}");
            assert!(matches!(in_use, StoreError::InUse(used) if used == path));
        });
        scope.spawn(|| assert!(matches!(error(&link), StoreError::InUse(used) if used == link)));
        scope.spawn(|| assert!(matches!(EmbeddedStore::integrity_check(&path), Err(StoreError::InUse(_)))));
        scope.spawn(|| assert!(matches!(back_up(), Err(StoreError::InUse(_)))));
    });
    assert_eq!((mode(&path), mode(&path.join("lock"))), (0o700, 0o600));
    let reader = Connection::open_with_flags(path.join("timers.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = || reader.query_row("SELECT count(*) FROM timers WHERE node IS NULL", (), |row| row.get::<_, i64>(0));
    assert_eq!(count().unwrap(), 1);
    apply(&mut store, &[put(2, 10)]).unwrap();
    assert_eq!(count().unwrap(), 2);
    drop(store);
    let mut store = open(&path).unwrap();
    assert_eq!(store.counts(None).unwrap().pending, 2);
}

/// It would drop SQLite's locks of the store that is open.
#[test]
fn a_refused_open_opens_no_file_of_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = open(&path).unwrap();
    apply(&mut store, &[put(1, 10)]).unwrap();
    let files = ["timers.db", "timers.db-wal", "timers.db-shm"].map(|name| path.join(name));
    files.iter().for_each(|file| set_mode(file, 0o640));
    assert!(matches!(error(&path), StoreError::InUse(_)));
    assert_eq!(files.map(|file| mode(&file)), [0o640; 3], "each file is opened to set its mode");
}

#[test]
fn newer_foreign_and_damaged_files_are_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    make(&path);
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

/// A mistyped path. A store's own files are private.
#[test]
fn files_beside_another_database_keep_their_modes() {
    let directory = tempfile::tempdir().unwrap();
    let files = [directory.path().join("timers.db"), directory.path().join("run.sh"), directory.path().to_owned()];
    files[..2].iter().for_each(|file| fs::write(file, [7; 5000]).unwrap());
    files.iter().for_each(|file| set_mode(file, 0o755));
    assert!(matches!(error(directory.path()), StoreError::Foreign { .. }));
    assert!(files.iter().all(|file| mode(file) == 0o755));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    fs::write(directory.path().join("lock"), "").unwrap();
    assert!(matches!(error(directory.path()), StoreError::Foreign { .. }));
    assert!(files[..2].iter().all(|file| mode(file) == 0o755), "with a file of that name");
}

#[test]
fn an_unfinished_store_is_made_again_and_no_unfinished_backup() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["timers.db.new", "timers.db.new-journal"] {
        fs::write(directory.path().join(name), "torn").unwrap();
    }
    make(directory.path());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("timers.db.backup"), "torn").unwrap();
    assert!(matches!(error(directory.path()), StoreError::UnfinishedBackup(_)));
}

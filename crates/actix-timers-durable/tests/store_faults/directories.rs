//! Directories that are not stores, not ours to use, or already in use.

use std::fs;

use actix_timers_durable::store::{EmbeddedStore, StoreError};

use crate::workshop::{open, open_owned, pending, put};
use actix_timers_durable::TimerStore;

#[test]
fn a_store_is_made_in_an_empty_or_missing_directory_and_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("a/b/c"), directory.path().join("empty")] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (mut store, fence) = open_owned(&path);
        store.commit(fence, &[put(1, 10)]).unwrap();
        drop(store);
        assert_eq!(pending(&mut open(&path).unwrap()).unwrap().0.len(), 1);
    }
}

#[test]
fn a_directory_with_something_else_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("notes.txt", "mine"), ("data/0.jnl", "mine"), ("format", "mine"), ("format", "\u{fffd}")] {
        let path = directory.path().join("foreign");
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{name}: {error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        fs::remove_dir_all(path).unwrap();
    }
    let missing = EmbeddedStore::open_existing(directory.path().join("nothing")).unwrap_err();
    assert!(matches!(missing, StoreError::Foreign { .. }), "{missing}");
    assert!(!directory.path().join("nothing").exists());
}

#[test]
fn a_path_that_is_a_file_or_not_writable_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below"), "/proc/timers".into()] {
        let error = open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{}: {error}", path.display());
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_newer_format_is_rejected_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(directory.path());
    store.commit(fence, &[put(1, 10)]).unwrap();
    drop(store);
    let file = directory.path().join("format");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "actix-timers store\nformat 1\n");
    fs::write(&file, text.replace('1', "2")).unwrap();
    match open(directory.path()).unwrap_err() {
        StoreError::NewerFormat { found: 2, known: 1, .. } => {}
        other => panic!("{other}"),
    }
    fs::write(&file, text).unwrap();
    assert_eq!(pending(&mut open(directory.path()).unwrap()).unwrap().0.len(), 1);
}

#[test]
fn a_store_is_open_once_and_free_again_when_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for _ in 0..3 {
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(&error, StoreError::InUse(path) if path == directory.path()), "{error}");
    }
    drop(store);
    open(directory.path()).unwrap();
}

#[test]
fn a_store_that_was_not_finished_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    // As if it had ended before the format file existed.
    fs::remove_file(directory.path().join("format")).unwrap();
    fs::rename(directory.path().join("data"), directory.path().join("data.new")).unwrap();
    fs::remove_file(directory.path().join("data.new/version")).unwrap();
    drop(open(directory.path()).unwrap());
    // As if it had ended between the format file and the name of the database.
    fs::rename(directory.path().join("data"), directory.path().join("data.new")).unwrap();
    let (mut store, fence) = open_owned(directory.path());
    store.commit(fence, &[put(1, 10)]).unwrap();
}

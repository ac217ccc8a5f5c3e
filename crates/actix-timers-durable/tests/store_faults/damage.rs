//! A disk that returns other data than was written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_timers_durable::store::{Change, ChangeOutcome, EmbeddedStore, OnKey, StoreError};
use actix_timers_durable::{Record, TimerStore};

use crate::workshop::{id, journal, journal_bytes, open, open_owned, pending, put, record};
use schemes::random::Random;
use support::copies::copy_directory;

const RECORDS: u64 = 3000;

/// Makes a store whose records are all in tables, by a backup.
fn in_tables(directory: &Path) -> PathBuf {
    let (mut store, fence) = open_owned(&directory.join("source"));
    for group in (0..RECORDS).collect::<Vec<_>>().chunks(500) {
        store.commit(fence, &group.iter().map(|number| put(*number, 100)).collect::<Vec<_>>()).unwrap();
    }
    let copy = directory.join("tables");
    store.back_up(&copy).unwrap()().unwrap();
    copy
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

fn file_names(path: &Path) -> BTreeSet<PathBuf> {
    let relative = |file: PathBuf| file.strip_prefix(path).unwrap().to_owned();
    // Opening a store locks it first.
    files_below(path).into_iter().map(relative).filter(|file| !file.ends_with("lock")).collect()
}

/// Returns all files but journals.
fn tables(path: &Path) -> Vec<PathBuf> {
    let is_table = |file: &PathBuf| file.extension().is_none_or(|extension| extension != "jnl");
    files_below(path).into_iter().filter(is_table).collect()
}

fn largest_table(path: &Path) -> PathBuf {
    tables(path).into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

fn flip(file: &Path, at: usize, bit: u8) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1 << bit;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_bit_flip_in_old_data_is_reported_and_the_rest_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let sound = in_tables(directory.path());
    let table = largest_table(&sound);
    let size = table.metadata().unwrap().len() as usize;
    assert!(size > 100 * RECORDS as usize, "{} is no table with the records", table.display());
    let mut random = Random::new(1);
    let mut damaged_stores = 0;
    for trial in 0..40 {
        let copy = directory.path().join("flipped");
        copy_directory(&sound, &copy);
        // Nearly all of it is data; the last bytes are the index.
        let at = if trial < 30 { random.index(size * 8 / 10) } else { size - 1 - random.index(size / 10) };
        flip(&copy.join(table.strip_prefix(&sound).unwrap()), at, random.index(8) as u8);
        match open(&copy) {
            Ok(mut store) => match pending(&mut store) {
                Ok((found, damaged)) => {
                    assert_eq!(damaged == 0, found.len() as u64 == RECORDS, "byte {at}: {damaged}, {}", found.len());
                    let is_data = at < size * 8 / 10;
                    let left = found.len() as u64;
                    assert!(!is_data || left > RECORDS - 60, "byte {at}: only {left} are left");
                    if damaged > 0 && is_data {
                        damaged_stores += 1;
                        assert!(!store.check().unwrap().is_empty());
                        assert_undamaged_records_can_be_changed(&mut store, found.into_iter().collect());
                    }
                }
                Err(error) => assert!(matches!(error, StoreError::Unreadable { .. }), "byte {at}: {error}"),
            },
            Err(error) => assert!(matches!(error, StoreError::Unreadable { .. }), "byte {at}: {error}"),
        }
        fs::remove_dir_all(copy).unwrap();
    }
    assert!(damaged_stores > 20, "{damaged_stores} of 40 flips did damage to records");
}

fn assert_undamaged_records_can_be_changed(store: &mut EmbeddedStore, left: Vec<u64>) {
    let fence = store.acquire(0).unwrap().fence;
    let lost: Vec<u64> = (0..RECORDS).filter(|number| !left.contains(number)).collect();
    for number in &lost {
        assert!(matches!(store.get(id(*number)), Err(StoreError::Unreadable { .. })), "{number} could be read");
    }
    let missing = lost[0];
    assert!(matches!(store.get(id(missing)), Err(StoreError::Unreadable { .. })));
    let remove = |number| Change::Remove { id: id(number), at: None };
    // A damaged one does not affect the others of its group.
    let outcomes = store.commit(fence, &[remove(left[0]), remove(missing), put(RECORDS, 10)]).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Removed, ChangeOutcome::Missing, ChangeOutcome::Created]);
    let (found, damaged) = pending(store).unwrap();
    assert!(damaged > 0 && found.len() == left.len());
}

#[test]
fn damage_within_a_journal_is_rejected_and_never_costs_groups_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    let (mut store, fence) = open_owned(&sound);
    let mut ends = vec![];
    for number in 0..60 {
        store.commit(fence, &[put(number, 300)]).unwrap();
        ends.push(journal_bytes(&sound).len());
    }
    drop(store);
    let bytes = journal_bytes(&sound);
    let mut random = Random::new(2);
    let copy = directory.path().join("flipped");
    copy_directory(&sound, &copy);
    for _ in 0..100 {
        let at = random.index(ends[58]);
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << random.index(8);
        fs::write(journal(&copy), &flipped).unwrap();
        match open(&copy) {
            Ok(_) => panic!("byte {at} of {} was flipped, and not detected", bytes.len()),
            Err(StoreError::Unreadable { reason, .. }) => assert!(reason.contains("would be lost"), "{reason}"),
            Err(other) => panic!("byte {at}: {other}"),
        }
        assert_eq!(fs::read(journal(&copy)).unwrap(), flipped, "it is left as it was found");
    }
    fs::write(journal(&copy), &bytes).unwrap();
    assert_eq!(pending(&mut open(&copy).unwrap()).unwrap().0.len(), 60);
}

#[test]
fn files_that_are_missing_or_empty_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let sound = in_tables(directory.path());
    let spaces = ["data/keyspaces/0/current", "data/keyspaces/1/current"];
    let files = ["format", "data/version", "data/lock", "data/0.jnl", spaces[0], spaces[1]];
    for (name, is_emptied) in files.iter().flat_map(|name| [(name, true), (name, false)]) {
        let copy = directory.path().join("broken");
        copy_directory(&sound, &copy);
        if is_emptied {
            fs::write(copy.join(name), "").unwrap();
        } else {
            fs::remove_file(copy.join(name)).unwrap();
        }
        let files = file_names(&copy);
        match open(&copy) {
            // They hold no records, since all are in tables.
            Ok(mut store) => {
                assert!(is_emptied && ["data/lock", "data/0.jnl"].contains(name), "{name}");
                assert_eq!(pending(&mut store).unwrap().0.len() as u64, RECORDS);
            }
            Err(StoreError::Unreadable { .. }) => {
                assert_ne!(*name, "format");
                assert_eq!(file_names(&copy), files, "{name}: the rest can still be rescued");
            }
            Err(StoreError::Foreign { .. }) => assert_eq!(*name, "format"),
            Err(other) => panic!("{name}: {other}"),
        }
        fs::remove_dir_all(copy).unwrap();
    }
}

/// Damages the file that names the present list of tables: an older list may still exist.
#[test]
fn a_bit_flip_in_the_pointer_to_the_tables_costs_no_table() {
    let directory = tempfile::tempdir().unwrap();
    let sound = in_tables(directory.path());
    let copy = directory.path().join("flipped");
    copy_directory(&sound, &copy);
    for space in 0..=5 {
        let current = format!("data/keyspaces/{space}/current");
        for (at, bit) in [(0, 0), (0, 1), (0, 3), (1, 0), (7, 7), (8, 0), (23, 7), (24, 0)] {
            flip(&copy.join(&current), at, bit);
            match open(&copy) {
                Ok(_) => panic!("bit {bit} of byte {at} of {current} was flipped, and not detected"),
                Err(error) => assert!(matches!(error, StoreError::Unreadable { .. }), "{error}"),
            }
            flip(&copy.join(&current), at, bit);
        }
    }
    assert_eq!(pending(&mut open(&copy).unwrap()).unwrap().0.len() as u64, RECORDS);
}

/// Tables do not record the last commit.
#[test]
fn timers_without_the_journal_that_tells_of_their_commits_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    let (mut store, fence) = open_owned(&sound);
    // Enough for a table.
    for group in (0..12_000).collect::<Vec<_>>().chunks(1000) {
        store.commit(fence, &group.iter().map(|number| put(*number, 1900)).collect::<Vec<_>>()).unwrap();
    }
    drop(store);
    let journal = journal(&sound);
    let length = fs::metadata(&journal).unwrap().len() as usize;
    for damage in [vec![0; length], vec![7; length]] {
        fs::write(&journal, damage).unwrap();
        let error = open(&sound).unwrap_err();
        assert!(error.to_string().contains("journal is damaged"), "{error}");
    }
}

#[test]
fn a_damaged_timer_does_not_keep_its_key_from_one_that_will_be_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let keyed = |number| {
        let record = Record { key: Some("key".into()), ..record(number, 100) };
        Change::Put { record: Arc::new(record), on_key: OnKey::KeepExisting }
    };
    let (mut store, fence) = open_owned(&directory.path().join("source"));
    store.commit(fence, &[keyed(1)]).unwrap();
    let sound = directory.path().join("tables");
    store.back_up(&sound).unwrap()().unwrap();
    let holds_it = |table: &PathBuf| fs::read(table).unwrap().windows(7).any(|bytes| bytes == b"Message");
    let table = tables(&sound).into_iter().find(holds_it).unwrap();
    let size = table.metadata().unwrap().len() as usize;
    let mut damaged = 0;
    for at in (0..size).step_by(size / 12) {
        let copy = directory.path().join("flipped");
        copy_directory(&sound, &copy);
        flip(&copy.join(table.strip_prefix(&sound).unwrap()), at, 3);
        let Ok(mut store) = open(&copy) else { continue };
        let fence = store.acquire(0).unwrap().fence;
        match store.commit(fence, &[keyed(2)]).unwrap()[0] {
            ChangeOutcome::Exists(holder) => {
                assert_eq!(holder, id(1));
                assert!(store.get(holder).unwrap().is_some(), "byte {at}: it is not there");
            }
            ChangeOutcome::Created => {
                damaged += 1;
                // Whatever happens to the damaged record, the key belongs to the new one.
                store.commit(fence, &[Change::Remove { id: id(1), at: None }]).unwrap();
                assert_eq!(store.find_key(0, "key").unwrap(), Some(id(2)));
                assert_eq!(store.get(id(2)).unwrap().unwrap().record.sequence, 2);
            }
            ref other => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(damaged > 0, "none of the flips in {size} bytes damaged the timer");
}

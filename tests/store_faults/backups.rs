//! Copies of a store that goes on.

use std::fs;

use actix_timers::durable::TimerStore;
use actix_timers::durable::store::{Change, Claim, StoreError};

use crate::workshop::{id, open, open_owned, pending, put};

#[test]
fn a_backup_has_what_was_committed_when_it_was_asked_for_and_is_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, fence) = open_owned(&directory.path().join("store"));
    store.commit(fence, &(0..500).map(|number| put(number, 5000)).collect::<Vec<_>>()).unwrap();
    store.commit(fence, &[Change::Park { id: id(3), at: None }, Change::Remove { id: id(4), at: None }]).unwrap();
    let claim = Claim { number: 9, members: vec![(id(5), id(5).first_due(), 1)] };
    store.commit(fence, &[Change::Claim(claim.clone())]).unwrap();
    let target = directory.path().join("backups/one");
    let back_up = store.back_up(&target).unwrap();
    // After it was asked for, and while it is made.
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

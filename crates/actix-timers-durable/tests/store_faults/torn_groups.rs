//! The power fails while a group is written: some of its pages are on the disk, some are not.

use std::collections::BTreeSet;
use std::fs;

use actix_timers_durable::TimerStore;

use crate::workshop::{journal, journal_bytes, open, open_owned, pending, put};
use schemes::random::Random;
use support::copies::copy_directory;

const ACKNOWLEDGED: u64 = 5;

/// A store with acknowledged groups and an unacknowledged one, in each of many states of the latter.
#[test]
fn acknowledged_groups_outlive_a_torn_group_of_records_of_any_size() {
    for (size, group) in [(100, 1), (100, 40), (2000, 3), (5600, 2), (20_000, 2), (64 << 10, 1), (64 << 10, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let whole = directory.path().join("whole");
        let (mut store, fence) = open_owned(&whole);
        for number in 0..ACKNOWLEDGED {
            store.commit(fence, &[put(number, size)]).unwrap();
        }
        let before = journal_bytes(&whole).len();
        let last: Vec<_> = (ACKNOWLEDGED..ACKNOWLEDGED + group).map(|number| put(number, size)).collect();
        store.commit(fence, &last).unwrap();
        drop(store);
        let bytes = journal_bytes(&whole);
        assert!(bytes.len() > before + size * group as usize);
        let mut random = Random::new(size as u64 + group);
        for trial in 0..12 {
            let torn = torn(&bytes, before, trial, &mut random);
            let target = directory.path().join("torn");
            copy_directory(&whole, &target);
            fs::write(journal(&target), &torn).unwrap();
            let expected: BTreeSet<u64> = (0..ACKNOWLEDGED).collect();
            let mut store = open(&target).unwrap_or_else(|error| panic!("{size} bytes, trial {trial}: {error}"));
            let all = || (0..ACKNOWLEDGED + group).collect();
            let (found, damaged) = pending(&mut store).unwrap();
            let is_whole = torn.starts_with(&bytes);
            assert!(found == if is_whole { all() } else { expected }, "{size} bytes, trial {trial}");
            assert_eq!((damaged, store.check().unwrap()), (0, vec![]));
            // The store continues from there.
            let fence = store.acquire(0).unwrap().fence;
            store.commit(fence, &[put(1000, size)]).unwrap();
            drop(store);
            assert_eq!(pending(&mut open(&target).unwrap()).unwrap().0.len(), found.len() + 1);
            fs::remove_dir_all(&target).unwrap();
        }
    }
}

/// Returns the journal as it may be after a power failure while the bytes after `before` are written.
fn torn(bytes: &[u8], before: usize, trial: usize, random: &mut Random) -> Vec<u8> {
    let mut torn = bytes.to_vec();
    // A file system keeps pages or sectors; unwritten ones are zeros.
    let page = if trial.is_multiple_of(2) { 4096 } else { 512 };
    match trial % 3 {
        0 => torn.truncate(before + random.index(bytes.len() - before)),
        1 => {
            for start in (before / page * page..bytes.len()).step_by(page) {
                if random.one_in(2) {
                    torn[start.max(before)..(start + page).min(bytes.len())].fill(0);
                }
            }
        }
        _ => {
            let pages = (bytes.len() - before).div_ceil(page);
            let start = (before / page + random.index(pages)) * page;
            torn[start.max(before)..(start + page).min(bytes.len())].fill(0);
        }
    }
    // A file keeps its length if only the pages are lost.
    torn.resize(torn.len() + 100_000, 0);
    torn
}

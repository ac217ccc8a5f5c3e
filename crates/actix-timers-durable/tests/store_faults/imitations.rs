//! Torn transactions of timers whose payloads imitate the files of the store.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use actix_timers_durable::store::{Op, Part, Record};
use schemes::random::Random;
use support::copies::copy_directory;

use crate::workshop::{all, apply, assert_sound, open, timer};

const PAGE: usize = 2048;
/// The header of the log, and of a frame in it.
const LOG: usize = 32;
const FRAME: usize = 24;

/// Returns a payload of pages of the database or frames of the log, with its present salts and sums: at any distance from
/// the beginning, since a payload begins anywhere in a page.
fn imitation(path: &Path, random: &mut Random) -> Vec<u8> {
    let [database, log] = ["timers.db", "timers.db-wal"].map(|name| fs::read(path.join(name)).unwrap());
    let part = |bytes: &[u8], unit: usize, random: &mut Random| {
        let first = random.index(bytes.len() / unit + 1);
        let some = bytes.chunks(unit).skip(first).take(1 + random.index(40)).flatten();
        some.copied().collect::<Vec<_>>()
    };
    let copied = match random.below(4) {
        0 => part(&database, PAGE, random),
        1 => log[..log.len().min(100_000)].to_vec(),
        2 if random.one_in(10) => vec![7; (1 << 20) - 4000],
        _ => part(&log[LOG.min(log.len())..], FRAME + PAGE, random),
    };
    [vec![0; 100 + random.index(PAGE)], copied].concat()
}

#[test]
fn transactions_of_imitating_payloads_are_whole_after_a_tear() {
    transactions_are_whole_after_tears(20);
}

#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn transactions_of_imitating_payloads_are_whole_after_many_tears() {
    transactions_are_whole_after_tears(60);
}

fn transactions_are_whole_after_tears(trials: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut random = Random::new(7);
    let mut store = open(&path).unwrap();
    let mut timers: Vec<Record> = vec![];
    let mut ends = vec![];
    let log = "timers.db-wal";
    while ends.len() < 25 {
        let group: Vec<_> = (0..1 + random.below(4))
            .map(|step| {
                let number = timers.len() as u64 + step;
                Record { payload: imitation(&path, &mut random).into(), ..timer(number, 0) }
            })
            .collect();
        apply(&mut store, &group.iter().map(support::store::put).collect::<Vec<Op>>()).unwrap();
        timers.extend(group);
        ends.push((fs::metadata(path.join(log)).unwrap().len(), timers.len()));
    }
    let image = directory.path().join("image");
    copy_directory(&path, &image);
    drop(store);
    let whole = fs::read(image.join(log)).unwrap();
    assert_eq!(whole.len() as u64, ends[24].0, "no checkpoint came between");
    for trial in 0..trials {
        let copy = directory.path().join("copy");
        copy_directory(&image, &copy);
        let (end, _) = ends[random.index(25)];
        // At any byte, or within the last frame of a transaction.
        let length = if trial % 2 == 0 { random.index(whole.len()) } else { end as usize - random.index(PAGE) };
        let mut torn = whole[..length].to_vec();
        // Behind the end lie frames of an earlier log, or other bytes.
        match trial % 3 {
            0 => torn.extend_from_slice(&whole[LOG..]),
            1 => torn.extend(std::iter::repeat_with(|| random.next() as u8).take(10_000)),
            _ => {}
        }
        fs::write(copy.join(log), torn).unwrap();
        let there = ends.iter().take_while(|(end, _)| *end <= length as u64).last().map_or(0, |(_, timers)| *timers);
        let mut found = all(&mut open(&copy).unwrap(), Part::Pending).unwrap();
        found.sort_unstable_by_key(|found| found.record.id.as_uuid().to_owned());
        let mut expected: Vec<_> = timers[..there].to_vec();
        expected.sort_unstable_by_key(|record| record.id.as_uuid().to_owned());
        assert_eq!(found.len(), expected.len(), "cut at {length}");
        for (found, expected) in found.into_iter().zip(expected) {
            let progress = found.record.progress;
            assert!(found.record == Arc::new(Record { progress, ..expected }), "cut at {length}");
        }
        assert_sound(&copy);
        fs::remove_dir_all(copy).unwrap();
    }
}

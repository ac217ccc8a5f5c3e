//! A million timers: the next start reads few of them.

use std::time::{Duration, Instant};

use actix_timers_durable::store::{Look, Next, Op, Reads, Record, Store};
use support::store::{at, claim, node, put, record, serving};

use crate::workshop::{apply, assert_sound, delivery, open, timer};

/// That each statement of a start uses an index is a unit test.
#[test]
#[ignore = "takes long; `.ci/run` runs it"]
fn a_store_of_many_timers_opens_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let count = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut ids = vec![];
    for first in (0..count).step_by(10_000) {
        let timers: Vec<_> = (first..first + 10_000).map(|number| record(number, (number % 1000) as i64)).collect();
        ids.extend(timers.iter().map(|timer| timer.id));
        store.apply(&timers.iter().map(support::store::put).collect::<Vec<_>>(), at(0)).unwrap();
    }
    // A thousand were with their handlers, and nothing was written after that.
    store.apply(&[claim(&ids[..1000])], at(1000)).unwrap();
    drop(store);
    let began = Instant::now();
    let mut store = open(directory.path()).unwrap();
    let look = Look { after: None, until: at(1000), filter: serving(&["a"]), limit: 1000, share: None };
    assert_eq!(store.look(&look, at(1000))().unwrap().hints.len(), 1000);
    let took = began.elapsed();
    println!("{count} timers, opened and looked at in {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(store.counts(None).unwrap().pending, count);
}

#[test]
fn begun_deliveries_of_the_last_process_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let timers: Vec<_> = (0..3).map(|number| record(number, 0)).collect();
    let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
    let mut store = open(directory.path()).unwrap();
    store.join(&node(&serving(&["a"])), at(0)).unwrap();
    store.apply(&timers.iter().map(support::store::put).collect::<Vec<_>>(), at(0)).unwrap();
    store.apply(&[claim(&ids[..2])], at(1)).unwrap();
    assert_eq!(store.gauges().interrupted, 0);
    drop(store);
    let mut store = open(directory.path()).unwrap();
    store.join(&node(&serving(&["a"])), at(2)).unwrap();
    store.apply(&[claim(&ids)], at(2)).unwrap();
    assert_eq!(store.gauges().interrupted, 2);
}

#[test]
fn kept_keys_are_sound_and_go_when_their_time_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    for number in [1, 2] {
        let keyed = Record { key: Some(format!("k{number}").into()), ..timer(number, 0) };
        let keep = Next::KeepKey(Duration::from_millis(number * 10));
        apply(&mut store, &[put(&keyed), claim(&[keyed.id]), Op::End(delivery(number), keep)]).unwrap();
    }
    drop(store);
    assert_sound(directory.path());
    let mut store = open(directory.path()).unwrap();
    let reader = rusqlite::Connection::open(directory.path().join("timers.db")).unwrap();
    for (now, kept) in [(9, 2), (10, 1), (19, 1), (20, 0)] {
        store.beat(&[], at(now)).unwrap();
        let rows = reader.query_row("SELECT count(*) FROM timers", (), |row| row.get::<_, i64>(0));
        assert_eq!(rows, Ok(kept), "{now}");
    }
}

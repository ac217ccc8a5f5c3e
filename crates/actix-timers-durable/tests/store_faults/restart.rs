//! A million timers: the next start reads few of them.

use std::time::{Duration, Instant};

use actix_timers_durable::store::{Look, NodeInfo, Reads, Store};
use support::store::{at, claim, record, serving};

use crate::workshop::open;

#[test]
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
    let look = Look { after: None, until: at(1000), filter: serving(&["a"]), limit: 1000 };
    assert_eq!(store.look(&look, at(1000)).unwrap().len(), 1000);
    let took = began.elapsed();
    println!("{count} timers, opened and looked at in {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(store.counts(None).unwrap().pending, count);
}

#[test]
fn deliveries_that_the_last_process_had_begun_are_counted_as_they_begin_again() {
    let directory = tempfile::tempdir().unwrap();
    let timers: Vec<_> = (0..3).map(|number| record(number, 0)).collect();
    let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
    let mut store = open(directory.path()).unwrap();
    store.join(&NodeInfo::default(), at(0)).unwrap();
    store.apply(&timers.iter().map(support::store::put).collect::<Vec<_>>(), at(0)).unwrap();
    store.apply(&[claim(&ids[..2])], at(1)).unwrap();
    assert_eq!(store.gauges().interrupted, 0);
    drop(store);
    let mut store = open(directory.path()).unwrap();
    store.join(&NodeInfo::default(), at(2)).unwrap();
    store.apply(&[claim(&ids)], at(2)).unwrap();
    assert_eq!(store.gauges().interrupted, 2);
}

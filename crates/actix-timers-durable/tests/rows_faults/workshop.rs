//! Stores for tests, and changes of them.

use std::collections::BTreeSet;
use std::path::Path;

use actix_timers_durable::rows::{NodeInfo, Op, Outcome, Part, Query, Reads, Record, SqliteStore, Store};
use actix_timers_durable::{DueTime, DurableId, StoreError};
use support::rows::{at, claim, record, serving};

pub(crate) fn join(store: &mut SqliteStore) -> Result<(), StoreError> {
    let node = NodeInfo { name: "test".into(), serves: (*serving(&["a"])).clone() };
    store.join(&node, at(0)).map(drop)
}

pub(crate) fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    let mut store = SqliteStore::open(path)?;
    join(&mut store)?;
    Ok(store)
}

/// Returns a timer of this number, due at the start, whose payload shows whether it is whole.
pub(crate) fn timer(number: u64, payload: usize) -> Record {
    Record { payload: vec![number as u8; payload].into(), ..record(number, (number % 2000) as i64 - 2000) }
}

pub(crate) fn id(number: u64) -> DurableId {
    timer(number, 0).id
}

pub(crate) fn put(number: u64, payload: usize) -> Op {
    support::rows::put(&timer(number, payload))
}

/// Returns the ids of all pending timers.
pub(crate) fn pending(store: &mut SqliteStore) -> Result<BTreeSet<DurableId>, StoreError> {
    let mut query = Query {
        part: Part::Pending,
        route: None,
        key: None,
        from: DueTime::MIN,
        until: DueTime::MAX,
        after: None,
        limit: 500,
    };
    let mut ids = BTreeSet::new();
    loop {
        let page = store.list(&query)?;
        assert_eq!(page.damaged, 0);
        ids.extend(page.found.iter().map(|found| found.record.id));
        query.after = page.next;
        if page.next.is_none() {
            return Ok(ids);
        }
    }
}

/// Claims all timers, and returns their number.
pub(crate) fn claim_all(store: &mut SqliteStore, ids: &BTreeSet<DurableId>) -> usize {
    let ids: Vec<_> = ids.iter().copied().collect();
    let Outcome::Claimed { records, .. } = store.apply(&[claim(&ids)], at(0)).unwrap().pop().unwrap().unwrap() else {
        panic!("not a claim")
    };
    records.len()
}

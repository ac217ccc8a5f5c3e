//! The operations of a store whose calls fail: groups of all sorts of changes, with a backup, a close and a reopening.

use std::sync::Arc;

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{Again, EmbeddedStore, Next, OnKey, Op, Part, Reads, Record, Store};
use support::store::{at, claim, new, node, serving};

use crate::workshop::{all, apply, delivery, id, number_of, put, timer};

const PER_GROUP: u64 = 8;
const HOUR: i64 = 3_600_000;

/// Returns the changes of one group. Each touches timers of the two groups before.
pub(crate) fn changes(group: u64) -> Vec<Op> {
    let first = group * PER_GROUP;
    let size = |number: u64| [100, 3000, 20_000, 700, 5600][(number % 5) as usize];
    let mut changes: Vec<_> = (first..first + 5).map(|number| put(number, size(number))).collect();
    let keyed = Record { key: Some(format!("key {}", group % 3).into()), ..timer(first + 5, 60_000) };
    changes.push(Op::Put(vec![new(&keyed, OnKey::Replace)]));
    if let Some(before) = first.checked_sub(PER_GROUP) {
        let again = Again { due: at(HOUR), nominal: at(HOUR), repetition: 2, returned: 0 };
        let dead = |then| Next::Dead { reason: "it failed".into(), then };
        // The fifth stays claimed.
        changes.push(claim(&(before..before + 5).map(id).collect::<Vec<_>>()));
        changes.extend([
            Op::End(delivery(before), Next::Delete),
            Op::End(delivery(before + 1), dead(Some(again))),
            Op::End(delivery(before + 2), Next::Park { reason: "paused by hand".into() }),
            Op::End(delivery(before + 3), dead(None)),
            Op::Move(id(before + 5), at(2 * HOUR)),
        ]);
    }
    if let Some(before) = first.checked_sub(2 * PER_GROUP) {
        changes.extend([
            Op::Discard(id(before + 1)),
            Op::Cancel(id(before + 2)),
            Op::Requeue(id(before + 3)),
            Op::Cancel(id(before + 4)),
        ]);
    }
    changes
}

/// Returns the contents of a store as text: equal if and only if the stores hold the same.
pub(crate) fn contents(store: &mut EmbeddedStore) -> Result<Vec<String>, StoreError> {
    let mut contents = Vec::new();
    let mut lengths = Vec::new();
    for part in [Part::Pending, Part::Parked, Part::Dead] {
        let found = all(store, part)?;
        lengths.push(found.len() as u64);
        contents.extend(found.into_iter().map(|found| {
            let (record, number) = (Arc::clone(&found.record), number_of(&found.record));
            let whole = Record {
                progress: record.progress,
                key: record.key.clone(),
                ..timer(number, record.payload.len() - 8)
            };
            assert_eq!(*record, whole, "{number} is another one");
            format!("{number} {:?} {:?} {} {:?}", record.progress, record.key, record.payload.len(), found.state)
        }));
    }
    let counts = store.counts(None)?;
    assert_eq!([counts.pending, counts.parked, counts.dead], lengths[..]);
    Ok(contents)
}

/// Returns the contents of a store after these groups, and a restart, by the rules of the store in memory.
pub(crate) fn expected(groups: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut store = EmbeddedStore::in_memory().unwrap();
    store.join(&node(&serving(&["a"])), at(0)).unwrap();
    groups.into_iter().for_each(|group| _ = apply(&mut store, &changes(group)).unwrap());
    store.join(&node(&serving(&["a"])), at(0)).unwrap();
    contents(&mut store).unwrap()
}

//! The operations of a store whose calls fail: groups of all sorts of changes, with a backup, a close and a reopening.

use std::sync::Arc;

use actix_timers_durable::store::{Change, Claim, MemoryDisk, OnKey, Part, StoreError};
use actix_timers_durable::{DueTime, DurableId, Record, RecordState, TimerStore};

use crate::workshop::{id, record};

const PER_GROUP: u64 = 8;

/// Returns the changes of one group. Each touches records of the two groups before.
pub(crate) fn changes(group: u64) -> Vec<Change> {
    let first = group * PER_GROUP;
    let size = |number: u64| [100, 3000, 20_000, 700, 5600][(number % 5) as usize];
    let mut changes: Vec<_> = (first..first + 5)
        .map(|number| {
            let is_keyed = number == first + 4;
            let key = is_keyed.then(|| format!("key {}", group % 3).into());
            let record = Arc::new(Record { key, ..record(number, size(number)) });
            Change::Put { record, on_key: OnKey::Replace }
        })
        .collect();
    if let Some(before) = first.checked_sub(PER_GROUP) {
        let later = |number| RecordState { attempt: 2, ..RecordState::first(due(id(number)).saturating_add(HOUR)) };
        let reason: Arc<str> = "it failed".into();
        let dead_letter = |number, then| {
            let (reason, dead_at) = (Arc::clone(&reason), due(id(number)));
            Change::DeadLetter { id: id(number), at: None, reason, dead_at, then }
        };
        let members = vec![(id(before + 1), due(id(before + 1)), 1)];
        changes.extend([
            Change::Claim(Claim { number: group, members }),
            Change::Remove { id: id(before), at: None },
            Change::Move { id: id(before + 1), at: None, to: later(before + 1) },
            Change::Park { id: id(before + 2), at: None },
            dead_letter(before + 3, None),
            dead_letter(before + 4, Some(later(before + 4))),
        ]);
    }
    if let Some(before) = first.checked_sub(2 * PER_GROUP) {
        changes.extend([
            Change::EndClaim { number: group - 1 },
            Change::Unpark { id: id(before + 2) },
            Change::Requeue { id: id(before + 3), due: due(id(before + 3)) },
            Change::Discard { id: id(before + 4) },
        ]);
    }
    changes
}

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

fn due(id: DurableId) -> DueTime {
    id.first_due()
}

/// Returns the contents of a store as text: equal if and only if the stores hold the same.
pub(crate) fn contents(store: &mut impl TimerStore) -> Result<Vec<String>, StoreError> {
    let mut contents = Vec::new();
    let mut lengths = Vec::new();
    for part in [Part::Pending, Part::Parked, Part::Dead] {
        let (mut after, mut length) = (None, 0);
        loop {
            let page = store.load(part, 0, after, DueTime::MAX, 100)?;
            assert_eq!(page.damaged, [], "records of {part:?} are damaged");
            length += page.found.len() as u64;
            contents.extend(page.found.iter().map(|found| {
                let record = &found.record;
                let whole = record.payload.iter().all(|byte| *byte == record.sequence as u8);
                assert!(whole, "{} has another payload", record.sequence);
                let (size, key) = (record.payload.len(), &record.key);
                format!("{part:?} {} {:?} {key:?} {size} {:?}", record.sequence, record.progress, found.dead_letter)
            }));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        lengths.push(length);
    }
    let counts = store.counts(0)?;
    assert_eq!([counts.pending, counts.parked, counts.dead], lengths[..]);
    let mut claims = store.acquire(0)?.claims;
    claims.sort_unstable_by_key(|claim| claim.number);
    contents.extend(claims.iter().map(|claim| format!("{claim:?}")));
    Ok(contents)
}

/// Returns the contents of a store after these groups, by the rules of the store in memory.
pub(crate) fn expected(groups: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut store = MemoryDisk::new().open();
    let fence = store.acquire(0).unwrap().fence;
    for group in groups {
        store.commit(fence, &changes(group)).unwrap();
    }
    contents(&mut store).unwrap()
}

//! The order of loading records, and its limits on both ends.

use actix_timers_durable::store::{Change, Claim, Counts, MAX_KEY_LEN, Part, Position, TimerStore};
use actix_timers_durable::{DueTime, DurableId, RecordState};

use crate::records::{Owned, at, dead_letter, id, keyed, put, record, remove};
use crate::subject::Subject;

pub(crate) fn pages_are_in_the_order_of_positions<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    // Due at the same times, but not first due then, and random bits the other way round.
    let mut expected = Vec::new();
    for number in 0..60 {
        let mut record = record(1000 + number * 37 % 11, 1000 - number);
        record.progress = RecordState { due: at(1000 + number % 7), ..record.progress };
        expected.push(Position { due: record.progress.due, id: record.id });
        store.does(put(record));
    }
    expected.sort_unstable();
    for page_size in [1, 7, 59, 60, 61] {
        let found = store.all(Part::Pending, page_size);
        let positions: Vec<_> =
            found.iter().map(|found| Position { due: found.record.progress.due, id: found.record.id }).collect();
        assert_eq!(positions, expected, "in pages of {page_size}");
    }
}

pub(crate) fn a_page_ends_with_its_time_and_its_limit<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let records = [(5, 1), (5, 2), (6, 3), (9, 4)];
    store.commit(&records.map(|(due, number)| put(record(due, number))));
    let mut page = |after: Option<(u64, u64)>, until, limit| {
        let after = after.map(|(due, number)| Position { due: at(due), id: id(due, number) });
        let page = store.store.load(Part::Pending, 0, after, at(until), limit).unwrap();
        let found: Vec<_> = page.found.iter().map(|found| found.record.sequence).collect();
        (found, page.next.map(|next| next.due.as_millis()))
    };
    assert_eq!(page(None, 4, 10), (vec![], None));
    assert_eq!(page(None, 5, 10), (vec![1, 2], None), "up to the time, inclusive");
    assert_eq!(page(None, 5, 2), (vec![1, 2], None), "full, and nothing more up to that time");
    assert_eq!(page(None, 6, 2), (vec![1, 2], Some(5)));
    assert_eq!(page(Some((5, 1)), 6, 2), (vec![2, 3], None));
    assert_eq!(page(Some((5, 2)), 9, 1), (vec![3], Some(6)));
    assert_eq!(page(Some((6, 2)), 9, 9), (vec![3, 4], None), "after an empty position");
    assert_eq!(page(Some((9, 4)), DueTime::MAX.as_millis(), 9), (vec![], None));
    assert_eq!(page(None, 9, usize::MAX).0.len(), 4);
}

pub(crate) fn the_ends_of_time_are_loaded<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let last = DueTime::MAX.as_millis();
    store.commit(&[put(record(0, 0)), put(record(last, u64::MAX >> 2)), put(record(last, 0))]);
    assert_eq!(store.ids(Part::Pending), [id(0, 0), id(last, 0), id(last, u64::MAX >> 2)]);
    for id in [id(0, 0), id(last, 0)] {
        store.does(Change::Move { id, at: None, to: RecordState::first(at(last - id.first_due().as_millis())) });
        assert!(store.store.get(id).unwrap().is_some());
    }
    assert_eq!(store.ids(Part::Pending).len(), 3);
}

/// Of stores that give one.
pub(crate) fn a_reader_sees_all_that_was_committed<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let Some(mut reader) = store.store.reader().unwrap() else { return };
    let [free, claimed, dead] = [keyed(5, 1, "k"), record(6, 2), record(7, 3)];
    store.commit(&[free.clone(), claimed.clone(), dead.clone()].map(put));
    store.does(dead_letter(dead.id, None));
    let members = vec![(claimed.id, claimed.progress.due, claimed.progress.attempt)];
    store.does(Change::Claim(Claim { number: 1, members }));
    let mut claims = || {
        let page = reader.list(Part::Pending, None, DueTime::MAX, 9).unwrap();
        let listed: Vec<_> = page.found.iter().map(|found| (found.record.id, found.is_claimed)).collect();
        let gotten = [free.id, claimed.id].map(|id| (id, reader.get(id).unwrap().unwrap().is_claimed));
        assert_eq!(listed, gotten);
        gotten.map(|(_, is_claimed)| is_claimed)
    };
    assert_eq!(claims(), [false, true]);
    store.does(Change::EndClaim { number: 1 });
    assert_eq!(claims(), [false, false]);
    assert_eq!(reader.list(Part::Dead, None, DueTime::MAX, 9).unwrap().found[0].record.id, dead.id);
    assert_eq!(reader.find_key("k").unwrap(), Some(free.id));
    assert_eq!(reader.find_key(&"k".repeat(MAX_KEY_LEN + 1)).unwrap(), None);
    assert_eq!(reader.total().unwrap(), Counts { pending: 2, parked: 0, dead: 1 });
    assert_eq!(reader.exact_total().unwrap(), reader.total().unwrap());
}

pub(crate) fn the_cursor_never_passes_pending_records<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let mut cursor_after = |changes: &[Change]| {
        store.commit(changes);
        // The next owner of the shard sees it.
        let lease = store.store.acquire(0).unwrap();
        store.fence = lease.fence;
        lease.cursor.as_millis()
    };
    let advance = |to| Change::Advance { to: at(to) };
    let moved = |number, due| Change::Move { id: id(100, number), at: None, to: RecordState::first(at(due)) };
    assert_eq!(cursor_after(&[put(record(100, 1)), put(record(100, 2)), put(record(100, 3))]), 0);
    assert_eq!(cursor_after(&[advance(90)]), 90);
    assert_eq!(cursor_after(&[advance(80)]), 90, "a weaker advance does not revoke a stronger one");
    assert_eq!(cursor_after(&[put(record(85, 4))]), 85, "something was put below");
    assert_eq!(cursor_after(&[remove(id(85, 4)), advance(90)]), 90);
    assert_eq!(cursor_after(&[moved(1, 70), advance(95)]), 70, "something was moved below, before");
    assert_eq!(cursor_after(&[moved(1, 100), advance(95)]), 95);
    assert_eq!(cursor_after(&[advance(99), put(record(60, 5))]), 60, "and after");
    assert_eq!(cursor_after(&[Change::Park { id: id(60, 5), at: None }, advance(99)]), 99);
    assert_eq!(cursor_after(&[Change::Unpark { id: id(60, 5) }]), 60, "something came back");
    let dead_letter = Change::DeadLetter { id: id(60, 5), at: None, reason: "x".into(), dead_at: at(1), then: None };
    assert_eq!(cursor_after(&[dead_letter, advance(99)]), 99);
    assert_eq!(cursor_after(&[Change::Requeue { id: id(60, 5), due: at(50) }]), 50);
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.cursor, at(50));
    let ids: Vec<DurableId> = store.ids(Part::Pending);
    assert_eq!(ids, [id(60, 5), id(100, 1), id(100, 2), id(100, 3)]);
}

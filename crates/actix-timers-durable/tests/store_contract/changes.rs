//! The effect and the outcome of each change.

use std::sync::Arc;
use std::time::Duration;

use actix_timers_durable::store::{
    Change, ChangeOutcome, Claim, Counts, Found, MAX_KEY_LEN, MAX_RECORD_LEN, Part, StoreError, TimerStore,
};
use actix_timers_durable::{
    DueTime, DurableId, Headers, Missed, Record, RecordState, RepeatMode, RetryPolicy, StoredRepeat,
};

use crate::records::{Owned, at, dead_letter, id, keyed, put, record, remove, replace};
use crate::subject::Subject;

fn repeating(due: u64, number: u64) -> Record {
    let mode = RepeatMode::FixedRate { period: Duration::from_millis(100), missed: Missed::Delay };
    Record { repeat: Some(StoredRepeat { mode, times: Some(9), until: None }), ..record(due, number) }
}

fn with_headers(due: u64, number: u64) -> Record {
    let headers = [("traceparent", "00-4bf9-00f0-01"), ("tenant", "Zürich"), ("empty", "")];
    Record { headers: Headers::of(headers).unwrap(), ..keyed(due, number, "key") }
}

pub(crate) fn headers_stay_with_their_timer<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let record = with_headers(5, 1);
    let id = record.id;
    store.does(put(record.clone()));
    let to = RecordState { due: at(9), attempt: 2, ..record.progress };
    let expect_moved = |outcome: ChangeOutcome| {
        let ChangeOutcome::Moved(moved) = outcome else { panic!("{outcome:?}") };
        assert_eq!(moved.headers, record.headers);
    };
    expect_moved(store.does(Change::Move { id, at: None, to }));
    store.does(Change::Park { id, at: None });
    assert_eq!(store.all(Part::Parked, 9)[0].record.headers, record.headers);
    expect_moved(store.does(Change::Unpark { id }));
    store.does(dead_letter(id, None));
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.all(Part::Dead, 9)[0].record.headers, record.headers);
    expect_moved(store.does(Change::Requeue { id, due: at(20) }));
    assert_eq!(store.all(Part::Pending, 9)[0].record.headers, record.headers);
}

pub(crate) fn a_record_comes_back_as_it_was_put<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let cron = RepeatMode::Cron { expression: "0 9 * * *".to_owned(), zone: "Europe/Berlin".to_owned() };
    let records = [
        record(5, 1),
        Record { payload: [].into(), ..keyed(6, 2, "ключ") },
        Record { payload: vec![7; 2048].into(), retry: Some(RetryPolicy::never()), ..repeating(7, 3) },
        Record { payload: vec![8; 100_000].into(), sequence: u64::MAX, ..record(8, 4) },
        Record {
            repeat: Some(StoredRepeat { mode: cron, times: None, until: Some(DueTime::MAX) }),
            progress: RecordState { due: at(4), nominal: at(2), attempt: 7, repetition: 1 << 40 },
            message_version: u32::MAX,
            ..record(9, 5)
        },
        with_headers(10, 6),
    ];
    for record in &records {
        assert_eq!(store.does(put(record.clone())), ChangeOutcome::Created);
    }
    let check = |store: &mut Owned<S::Store>| {
        for record in &records {
            let expected =
                Found { record: Arc::new(record.clone()), part: Part::Pending, dead_letter: None, is_claimed: false };
            assert_eq!(store.store.get(record.id).unwrap(), Some(expected));
        }
        assert_eq!(store.all(Part::Pending, 2).len(), records.len());
    };
    check(&mut store);
    drop(store);
    check(&mut Owned::new(subject.open()));
}

pub(crate) fn every_change_of_an_absent_record_returns_missing<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    store.does(put(record(5, 1)));
    let to = RecordState::first(at(9));
    let others = [id(5, 2), id(6, 1), DurableId::from_parts(1, at(5), 1)];
    for id in others {
        for at in [None, Some(at(5)), Some(id.first_due())] {
            for change in [
                Change::Remove { id, at },
                Change::Move { id, at, to },
                Change::DeadLetter { id, at, reason: "x".into(), dead_at: to.due, then: Some(to) },
                Change::Park { id, at },
                Change::Unpark { id },
                Change::Requeue { id, due: to.due },
                Change::Discard { id },
            ] {
                assert_eq!(store.does(change.clone()), ChangeOutcome::Missing, "{change:?}");
            }
        }
        assert_eq!(store.store.get(id).unwrap(), None);
    }
    // It exists, but not at the given time.
    let wrong = Some(at(6));
    assert_eq!(store.does(Change::Remove { id: id(5, 1), at: wrong }), ChangeOutcome::Missing);
    assert_eq!(store.does(Change::Move { id: id(5, 1), at: wrong, to }), ChangeOutcome::Missing);
    assert_eq!(store.does(Change::EndClaim { number: 3 }), ChangeOutcome::Done);
    assert_eq!(store.ids(Part::Pending), [id(5, 1)]);
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 0 });
}

pub(crate) fn a_removed_timer_is_gone_with_its_key<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    store.commit(&[put(keyed(5, 1, "k")), put(keyed(5, 2, "l")), put(record(5, 3))]);
    assert_eq!(store.does(Change::Remove { id: id(5, 1), at: Some(at(5)) }), ChangeOutcome::Removed);
    assert_eq!(store.does(remove(id(5, 2))), ChangeOutcome::Removed);
    assert_eq!(store.does(remove(id(5, 2))), ChangeOutcome::Missing);
    for key in ["k", "l"] {
        assert_eq!(store.store.find_key(0, key).unwrap(), None);
    }
    assert_eq!(store.does(put(keyed(6, 4, "k"))), ChangeOutcome::Created);
    assert_eq!(store.ids(Part::Pending), [id(5, 3), id(6, 4)]);
}

pub(crate) fn a_moved_timer_is_found_by_its_id_and_its_new_time_alone<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let original = Record { payload: vec![3; 5000].into(), ..keyed(50, 1, "k") };
    store.does(put(original.clone()));
    let id = original.id;
    for (from, due) in [(50, 90), (90, 10), (10, 10), (10, 50), (50, 51)] {
        let to = RecordState { due: at(due), nominal: at(50), attempt: 2, repetition: 3 };
        let moved = Arc::new(Record { progress: to, ..original.clone() });
        assert_eq!(store.does(Change::Move { id, at: Some(at(from)), to }), ChangeOutcome::Moved(moved.clone()));
        assert_eq!(store.store.get(id).unwrap().unwrap().record, moved);
        assert_eq!(store.store.find_key(0, "k").unwrap(), Some(id));
        assert_eq!(store.all(Part::Pending, 10).len(), 1);
        if from != due {
            assert_eq!(store.does(Change::Remove { id, at: Some(at(from)) }), ChangeOutcome::Missing);
        }
    }
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.does(remove(id)), ChangeOutcome::Removed);
    assert_eq!(store.store.counts(0).unwrap(), Counts::default());
}

pub(crate) fn a_key_belongs_to_one_timer<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    assert_eq!(store.does(put(keyed(5, 1, "k"))), ChangeOutcome::Created);
    assert_eq!(store.does(put(keyed(6, 2, "k"))), ChangeOutcome::Exists(id(5, 1)));
    assert_eq!(store.store.get(id(6, 2)).unwrap(), None);
    assert_eq!(store.does(replace(keyed(7, 3, "k"))), ChangeOutcome::Replaced(id(5, 1)));
    assert_eq!(store.does(replace(keyed(7, 4, "l"))), ChangeOutcome::Created);
    assert_eq!(store.ids(Part::Pending), [id(7, 3), id(7, 4)]);
    // One that was moved, and one that is parked.
    store.does(Change::Move { id: id(7, 3), at: None, to: RecordState::first(at(99)) });
    assert_eq!(store.does(replace(keyed(8, 5, "k"))), ChangeOutcome::Replaced(id(7, 3)));
    assert_eq!(store.does(Change::Park { id: id(8, 5), at: None }), ChangeOutcome::Removed);
    assert_eq!(store.does(put(keyed(9, 6, "k"))), ChangeOutcome::Exists(id(8, 5)));
    assert_eq!(store.does(replace(keyed(9, 7, "k"))), ChangeOutcome::Replaced(id(8, 5)));
    assert_eq!(store.store.find_key(0, "k").unwrap(), Some(id(9, 7)));
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 2, parked: 0, dead: 0 });
    // Dead letters have none.
    store.does(dead_letter(id(9, 7), None));
    assert_eq!(store.store.find_key(0, "k").unwrap(), None);
    assert_eq!(store.does(put(keyed(9, 8, "k"))), ChangeOutcome::Created);
}

pub(crate) fn a_key_belongs_to_one_timer_of_its_shard_or_of_a_shared_store<S: Subject>() {
    let subject = S::new();
    let mut store = subject.open();
    let [zero, last] = [0, S::LAST_SHARD].map(|shard| store.acquire(shard).unwrap().fence);
    let here = keyed(5, 1, "k");
    let there = Record { id: DurableId::from_parts(last.shard, at(5), 1), ..here.clone() };
    assert_eq!(store.commit(zero, &[put(here.clone())]).unwrap(), [ChangeOutcome::Created]);
    let (outcome, holder) =
        if S::IS_SHARED { (ChangeOutcome::Exists(here.id), here.id) } else { (ChangeOutcome::Created, there.id) };
    assert_eq!(store.commit(last, &[put(there)]).unwrap(), [outcome]);
    assert_eq!(store.find_key(0, "k").unwrap(), Some(here.id));
    assert_eq!(store.find_key(last.shard, "k").unwrap(), Some(holder));
}

pub(crate) fn changes_of_a_group_see_the_changes_before_them<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let to = RecordState { due: at(8), nominal: at(5), attempt: 2, repetition: 1 };
    let long = Record { payload: vec![1; 9000].into(), ..keyed(5, 1, "k") };
    let moved = Arc::new(Record { progress: to, ..long.clone() });
    let outcomes = store.commit(&[
        put(long.clone()),
        put(keyed(6, 2, "k")),
        Change::Move { id: long.id, at: Some(at(5)), to },
        Change::Park { id: long.id, at: Some(at(8)) },
        Change::Unpark { id: long.id },
        replace(keyed(7, 3, "k")),
        remove(long.id),
        put(record(7, 4)),
        remove(id(7, 4)),
        put(record(7, 5)),
        dead_letter(id(7, 5), None),
        Change::Requeue { id: id(7, 5), due: at(1) },
        dead_letter(id(7, 5), None),
        Change::Discard { id: id(7, 5) },
    ]);
    let requeued = Record { progress: RecordState { due: at(1), ..RecordState::first(at(7)) }, ..record(7, 5) };
    let expected = [
        ChangeOutcome::Created,
        ChangeOutcome::Exists(long.id),
        ChangeOutcome::Moved(moved.clone()),
        ChangeOutcome::Removed,
        ChangeOutcome::Moved(moved),
        ChangeOutcome::Replaced(long.id),
        ChangeOutcome::Missing,
        ChangeOutcome::Created,
        ChangeOutcome::Removed,
        ChangeOutcome::Created,
        ChangeOutcome::Removed,
        ChangeOutcome::Moved(Arc::new(requeued)),
        ChangeOutcome::Removed,
        ChangeOutcome::Removed,
    ];
    assert_eq!(outcomes, expected);
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.ids(Part::Pending), [id(7, 3)]);
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 0 });
}

pub(crate) fn a_failed_timer_is_a_dead_letter_until_it_is_requeued_or_discarded<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let original = Record {
        progress: RecordState { due: at(9), nominal: at(5), attempt: 10, repetition: 4 },
        payload: vec![6; 4097].into(),
        key: Some("k".into()),
        ..repeating(5, 1)
    };
    store.commit(&[put(original.clone()), put(record(6, 2))]);
    let id = original.id;
    assert_eq!(store.does(dead_letter(id, None)), ChangeOutcome::Removed);
    let dead = Found {
        record: Arc::new(original.clone()),
        part: Part::Dead,
        dead_letter: Some(("it failed".into(), at(77))),
        is_claimed: false,
    };
    assert_eq!(store.all(Part::Dead, 5), std::slice::from_ref(&dead));
    assert_eq!(store.store.get(id).unwrap(), Some(dead));
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 1 });
    for change in [remove(id), Change::Park { id, at: None }, dead_letter(id, None), Change::Unpark { id }] {
        assert_eq!(store.does(change), ChangeOutcome::Missing);
    }
    drop(store);
    let mut store = Owned::new(subject.open());
    let progress = RecordState { due: at(100), nominal: at(5), attempt: 1, repetition: 4 };
    let requeued = Arc::new(Record { progress, repeat: None, ..original });
    assert_eq!(store.does(Change::Requeue { id, due: at(100) }), ChangeOutcome::Moved(requeued.clone()));
    assert_eq!(store.does(Change::Requeue { id, due: at(100) }), ChangeOutcome::Missing);
    assert_eq!(store.store.get(id).unwrap().unwrap().record, requeued);
    assert_eq!(store.store.find_key(0, "k").unwrap(), Some(id));
    store.does(dead_letter(id, None));
    assert_eq!(store.does(Change::Discard { id }), ChangeOutcome::Removed);
    assert_eq!(store.does(Change::Discard { id }), ChangeOutcome::Missing);
    assert_eq!(store.store.get(id).unwrap(), None);
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 0 });
}

pub(crate) fn a_timer_that_repeats_goes_on_beside_its_dead_letter<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let original = Record { payload: vec![6; 4097].into(), key: Some("k".into()), ..repeating(5, 1) };
    let id = original.id;
    store.does(put(original.clone()));
    let mut due = 5;
    for repetition in 2..4 {
        due += 100;
        let next = RecordState { repetition, ..RecordState::first(at(due)) };
        let moved = Arc::new(Record { progress: next, ..original.clone() });
        assert_eq!(store.does(dead_letter(id, Some(next))), ChangeOutcome::Moved(moved.clone()));
        assert_eq!(store.store.get(id).unwrap().unwrap().record, moved, "the one that goes on comes first");
        let dead = store.all(Part::Dead, 5);
        assert_eq!(dead.len(), 1, "the latest takes the place of earlier ones");
        assert_eq!(dead[0].record.progress.repetition, repetition - 1);
        assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 1, parked: 0, dead: 1 });
        assert_eq!(store.does(Change::Requeue { id, due: at(1) }), ChangeOutcome::Missing, "it is pending");
    }
    store.does(Change::Park { id, at: None });
    assert_eq!(store.does(Change::Requeue { id, due: at(1) }), ChangeOutcome::Missing, "it is parked");
    assert_eq!(store.does(remove(id)), ChangeOutcome::Removed);
    // Its key belongs to another one by now.
    store.does(put(keyed(5, 2, "k")));
    let ChangeOutcome::Moved(requeued) = store.does(Change::Requeue { id, due: at(1) }) else { panic!("not requeued") };
    assert_eq!((requeued.key.clone(), requeued.payload.clone()), (None, original.payload));
    assert_eq!(store.store.find_key(0, "k").unwrap(), Some(self::id(5, 2)));
}

pub(crate) fn a_timer_that_is_set_aside_comes_back_as_it_was<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let original = Record { payload: vec![1; 3000].into(), ..keyed(5, 1, "k") };
    let moved = Record { progress: RecordState { due: at(9), ..RecordState::first(at(6)) }, ..record(6, 2) };
    store.commit(&[put(original.clone()), put(moved.clone()), Change::Advance { to: at(5) }]);
    let ids = [original.id, moved.id];
    let [first, second] = [Some(at(5)), None].map(|at| move |id| Change::Park { id, at });
    assert_eq!(store.commit(&[first(ids[0]), second(ids[1])]), [ChangeOutcome::Removed, ChangeOutcome::Removed]);
    assert_eq!(store.store.counts(0).unwrap(), Counts { pending: 0, parked: 2, dead: 0 });
    let to = RecordState::first(at(1));
    for change in [
        Change::Park { id: ids[0], at: None },
        Change::Move { id: ids[0], at: None, to },
        Change::Remove { id: ids[0], at: first_due(ids[0]) },
        dead_letter(ids[0], None),
    ] {
        assert_eq!(store.does(change.clone()), ChangeOutcome::Missing, "{change:?}");
    }
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.ids(Part::Parked), ids);
    assert_eq!(store.store.get(ids[0]).unwrap().unwrap().part, Part::Parked);
    store.does(Change::Advance { to: at(50) });
    assert_eq!(store.does(Change::Unpark { id: ids[0] }), ChangeOutcome::Moved(Arc::new(original)));
    assert_eq!(store.does(Change::Unpark { id: ids[0] }), ChangeOutcome::Missing);
    assert_eq!(store.ids(Part::Pending), [ids[0]], "below the cursor, and found all the same");
    assert_eq!(store.does(Change::Unpark { id: ids[1] }), ChangeOutcome::Moved(Arc::new(moved)));
    assert_eq!(store.commit(&[remove(ids[0]), Change::Park { id: ids[1], at: Some(at(9)) }]).len(), 2);
    assert_eq!(store.does(remove(ids[1])), ChangeOutcome::Removed, "cancelled while it is parked");
    assert_eq!(store.store.counts(0).unwrap(), Counts::default());
    assert_eq!(store.store.find_key(0, "k").unwrap(), None);
}

fn first_due(id: DurableId) -> Option<DueTime> {
    Some(id.first_due())
}

pub(crate) fn claims_are_there_until_they_end<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    assert!(store.claims.is_empty());
    let claim = |number, members: u64| Claim {
        number,
        members: (0..members).map(|member| (id(5, member), at(5 + member), member as u32)).collect(),
    };
    let claims = [claim(0, 1), claim(7, 0), claim(256, 1000), claim(u64::MAX, 3)];
    for claim in claims.iter().rev() {
        assert_eq!(store.does(Change::Claim(claim.clone())), ChangeOutcome::Done);
    }
    drop(store);
    let mut store = Owned::new(subject.open());
    assert_eq!(store.claims, claims);
    let end = |claim: &Claim| Change::EndClaim { number: claim.number };
    store.commit(&[end(&claims[2]), end(&claims[0]), Change::Claim(claims[0].clone())]);
    drop(store);
    let store = Owned::new(subject.open());
    assert_eq!(store.claims, [claims[0].clone(), claims[1].clone(), claims[3].clone()]);
}

pub(crate) fn a_record_that_is_too_large_is_rejected_with_its_whole_group<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let with_payload = |size: usize| Record { payload: vec![0; size].into(), ..record(5, 1) };
    let names = record(5, 1).route.len() + record(5, 1).message_type.len();
    let too_large = with_payload(MAX_RECORD_LEN - names + 1);
    let too_long = keyed(5, 1, &"k".repeat(MAX_KEY_LEN + 1));
    for record in [too_large, too_long] {
        let admitted = store.store.admits(&record);
        let rejected = store.store.commit(store.fence, &[put(self::record(6, 2)), put(record)]);
        for error in [admitted.unwrap_err(), rejected.unwrap_err()] {
            assert!(matches!(error, StoreError::TooLarge { .. } | StoreError::KeyTooLong { .. }), "{error}");
        }
        assert_eq!(store.store.counts(0).unwrap(), Counts::default());
    }
    let largest = Record { key: None, ..with_payload(MAX_RECORD_LEN - names) };
    assert_eq!(store.does(put(largest.clone())), ChangeOutcome::Created);
    assert_eq!(*store.store.get(largest.id).unwrap().unwrap().record, largest);
    let longest = keyed(7, 3, &"k".repeat(MAX_KEY_LEN));
    assert_eq!(store.does(put(longest.clone())), ChangeOutcome::Created);
    assert_eq!(store.store.find_key(0, &"k".repeat(MAX_KEY_LEN)).unwrap(), Some(longest.id));
    for length in [MAX_KEY_LEN + 1, 1 << 16, MAX_RECORD_LEN] {
        assert_eq!(store.store.find_key(0, &"k".repeat(length)).unwrap(), None, "a key of {length} bytes");
    }
}

pub(crate) fn only_the_present_owner_of_a_shard_may_write<S: Subject>() {
    let subject = S::new();
    let mut store = Owned::new(subject.open());
    let lease = store.store.acquire(0).unwrap();
    assert!(lease.fence.epoch > store.fence.epoch);
    let old = store.store.commit(store.fence, &[put(record(5, 1))]);
    assert!(matches!(old, Err(StoreError::Fenced { shard: 0 })), "{old:?}");
    assert_eq!(store.store.commit(lease.fence, &[put(record(5, 1))]).unwrap(), [ChangeOutcome::Created]);
    // A record of another shard.
    let elsewhere = Record { id: DurableId::from_parts(3, at(5), 1), ..record(5, 1) };
    let other = store.store.commit(lease.fence, &[put(elsewhere)]);
    assert!(matches!(other, Err(StoreError::Fenced { shard: 3 })), "{other:?}");
    assert_eq!(store.store.counts(3).unwrap(), Counts::default());
    store.store.release(lease.fence).unwrap();
}

pub(crate) fn shards_do_not_see_each_other<S: Subject>() {
    let subject = S::new();
    let mut store = subject.open();
    let [zero, last] = [0, S::LAST_SHARD].map(|shard| store.acquire(shard).unwrap().fence);
    let here = keyed(5, 1, "k");
    let there = Record { id: DurableId::from_parts(last.shard, at(5), 1), ..keyed(5, 1, "l") };
    assert_eq!(store.commit(zero, &[put(here.clone())]).unwrap(), [ChangeOutcome::Created]);
    assert_eq!(store.commit(last, &[put(there.clone())]).unwrap(), [ChangeOutcome::Created]);
    assert_eq!(store.commit(zero, &[remove(there.id)]).unwrap(), [ChangeOutcome::Missing]);
    for (fence, record) in [(zero, here), (last, there)] {
        assert_eq!(store.find_key(fence.shard, record.key.as_ref().unwrap()).unwrap(), Some(record.id));
        let page = store.load(Part::Pending, fence.shard, None, DueTime::MAX, 9).unwrap();
        assert_eq!(page.found.len(), 1);
        assert_eq!(*page.found[0].record, record);
        assert_eq!(store.counts(fence.shard).unwrap().pending, 1);
    }
}

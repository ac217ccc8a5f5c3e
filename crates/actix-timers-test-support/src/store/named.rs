//! A check for each promise of a store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers_durable::store::{
    Again, Claim, Delivery, Effect, Filter, Finished, Found, Look, Next, Note, Op, Outcome, Part, Placed, Position,
    Progress, Query, Reads, Record, State, Store, Suspects,
};
use actix_timers_durable::store::{MAX_KEY_LEN, MAX_RECORD_LEN, NO_END, OnKey};
use actix_timers_durable::{
    DueTime, DurableId, Headers, Missed, Pause, PauseTarget, RepeatMode, RetryPolicy, StoreError, StoredRepeat,
};

use super::{NEWEST, START, Subject, World, at, claim, claim_as, new, nothing_claimed, put, record, serving};

const DONE: Outcome = Outcome::Ended { due: None };

fn again(offset: i64, repetition: u64) -> Again {
    Again { due: at(offset), nominal: at(offset - 1), repetition }
}

fn dead(reason: &str) -> Next {
    Next::Dead { reason: reason.into(), then: None }
}

fn all(part: Part) -> Query {
    Query { limit: 1000, ..Query::of(part) }
}

fn list<R: Reads + ?Sized>(store: &mut R, query: &Query) -> Vec<DurableId> {
    store.list(query).unwrap().found.into_iter().map(|found| found.record.id).collect()
}

pub fn a_timer_is_claimed_when_it_is_due_and_ends<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 10);
    assert_eq!(world.put(&timer), Placed::Created { due: at(10) });
    assert_eq!(world.look(None, 9, 10), []);
    assert_eq!(world.look(None, 10, 10), [timer.id]);
    let Outcome::Claimed { records, not_due, .. } = world.apply(claim(&[timer.id])) else { panic!("no claim") };
    assert_eq!((records, not_due), (vec![], vec![(timer.id, at(10))]), "never early");
    world.set(10);
    let claimed = world.claim(timer.id);
    let mut expected = timer.clone();
    (expected.progress.attempt, expected.progress.used) = (1, 1);
    assert_eq!(*claimed, expected);
    assert_eq!(world.apply(claim(&[timer.id])), nothing_claimed(), "it is claimed once");
    assert_eq!(world.look(None, 10, 10), []);
    let found = world.store.get(timer.id).unwrap().unwrap();
    assert_eq!((found.state, found.record), (State::InFlight, claimed.clone()));
    assert_eq!(world.apply(Op::End(claimed.delivery(), Next::Delete)), DONE);
    assert_eq!(world.apply(Op::End(claimed.delivery(), Next::Delete)), Outcome::NotFound);
    assert_eq!(world.store.get(timer.id).unwrap(), None);
    // Due together and before: in the order of the claim.
    let timers = [record(5, 1), record(4, 2), record(3, 1)];
    timers.iter().for_each(|timer| _ = world.put(timer));
    let ids = timers.each_ref().map(|timer| timer.id);
    let Outcome::Claimed { records, .. } = world.apply(claim(&ids)) else { panic!("no claim") };
    assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), ids);
}

pub fn every_column_comes_back<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let grid = RepeatMode::FixedRate { period: Duration::from_millis(1), missed: Missed::Burst };
    let cron = RepeatMode::Cron { expression: "0 12 * * *".into(), zone: "Europe/Berlin".into() };
    let retry = RetryPolicy::never().initial_delay(Duration::from_millis(3)).jitter_percent(7);
    let full = Record {
        route: "a".into(),
        message_version: NEWEST,
        key: Some("Schlüssel\u{1F512}'\"\\".into()),
        keep_key: Some(Duration::from_millis(86_400_001)),
        repeat: Some(StoredRepeat {
            mode: grid,
            times: Some(u64::from(u32::MAX)),
            until: Some(DueTime::MAX),
            jitter: Some(Duration::from_millis(DueTime::MAX.as_millis())),
        }),
        max_attempts: Some(1),
        retry: Some(retry),
        headers: Headers::of([("traceparent", "00-4bf9"), ("ten'ant", "\"8\"\t\\")]).unwrap(),
        payload_codec: Some("codec".into()),
        payload: (0..=u8::MAX).cycle().take(100_000).collect(),
        ..record(1, 1)
    };
    let repeats = |mode| Some(StoredRepeat { mode, times: None, until: None, jitter: None });
    let delay = |spread| RepeatMode::FixedDelay { delay: Duration::from_secs(60), spread };
    let timers = [
        full,
        Record {
            repeat: repeats(cron),
            max_attempts: Some(i32::MAX.unsigned_abs()),
            payload: [].into(),
            ..record(2, 2)
        },
        Record { repeat: repeats(delay(true)), ..record(3, 3) },
        Record { repeat: repeats(delay(false)), key: Some("".into()), payload_codec: Some("".into()), ..record(4, 4) },
        Record { payload: vec![0; 1 << 19].into(), ..record(5, 5) },
    ];
    world.apply(Op::Put(timers.iter().map(|timer| new(timer, OnKey::KeepExisting)).collect()));
    let listed = world.store.list(&all(Part::Pending)).unwrap();
    assert_eq!((listed.next, listed.damaged), (None, 0));
    for (timer, found) in timers.iter().zip(&listed.found) {
        assert_eq!(found.record.key, timer.key);
        assert_eq!(*found.record, *timer);
        assert_eq!(world.store.get(timer.id).unwrap().as_ref(), Some(found));
    }
    assert_eq!(listed.found.len(), timers.len());
    world.set(5);
    for mut timer in timers {
        let claimed = world.claim(timer.id);
        (timer.progress.attempt, timer.progress.used) = (1, 1);
        assert_eq!(*claimed, timer);
        world.apply(Op::End(claimed.delivery(), dead("why\n'not'")));
        let letter = world.store.get(timer.id).unwrap().unwrap();
        assert_eq!(letter.state, State::Dead { reason: "why\n'not'".into(), since: at(5) });
        assert_eq!(*letter.record, timer);
        world.apply(Op::Requeue(timer.id));
        (timer.progress.due, timer.progress.used, timer.repeat) = (at(5), 0, None);
        assert_eq!(*world.store.get(timer.id).unwrap().unwrap().record, timer, "all but its later repetitions");
    }
}

pub fn rows_of_another_store_are_restored_as_they_were_found<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let found = |number: u64, offset: i64, state: State| {
        let mut record = record(number, offset);
        let headers = Headers::of([("tenant", "7")]).unwrap();
        (record.key, record.headers) = (Some(number.to_string().into()), headers);
        record.keep_key = Some(Duration::from_millis(number));
        (record.max_attempts, record.retry) = (Some(5), Some(RetryPolicy::default().max_attempts(5).jitter_percent(7)));
        record.progress.due = at(offset + 5);
        (record.progress.repetition, record.progress.attempt, record.progress.used) = (4, 3, 2);
        Found { record: Arc::new(record), state }
    };
    let parked = |reason: &str| State::Parked { reason: reason.into() };
    let dead = |since| State::Dead { reason: "why".into(), since: at(since) };
    let rows = [
        found(1, 50, State::Pending),
        found(2, 50, State::InFlight),
        found(3, 60, parked("no decoder")),
        found(4, 7, dead(9)),
    ];
    for row in &rows {
        let created = Placed::Created { due: row.record.progress.due };
        assert_eq!(world.apply(Op::Restore(Arc::new(row.clone()))), Outcome::Put(vec![created]));
        let state = if row.state == State::InFlight { State::Pending } else { row.state.clone() };
        let there = world.store.get(row.record.id).unwrap().unwrap();
        assert_eq!((there.state, &there.record), (state, &row.record));
        let again = world.apply(Op::Restore(Arc::new(row.clone())));
        assert_eq!(again, Outcome::Put(vec![Placed::Exists(row.record.id)]));
    }
    // A series that goes on beside its letter.
    let series = Found { state: State::Pending, ..rows[3].clone() };
    world.set(100);
    let overdue = Outcome::Put(vec![Placed::Created { due: at(100) }]);
    assert_eq!(world.apply(Op::Restore(Arc::new(series))), overdue);
    let ids = [1, 2, 4].map(|number| rows[number - 1].record.id);
    assert_eq!(world.look(None, 100, 10).len(), 3);
    for id in ids {
        let claimed = world.claim(id).progress;
        assert_eq!((claimed.repetition, claimed.attempt, claimed.used), (4, 4, 3));
    }
}

pub fn overdue_timers_are_due_now<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    world.set(100);
    let (past, future) = (record(1, 40), record(2, 150));
    assert_eq!(world.put(&past), Placed::Created { due: at(100) });
    assert_eq!(world.put(&future), Placed::Created { due: at(150) });
    // A look that begins at the present time finds it.
    let before = Position { due: at(99), id: record(u64::MAX, 99).id };
    assert_eq!(world.look(Some(before), 1000, 10), [past.id, future.id]);
    let claimed = world.claim(past.id);
    assert_eq!((claimed.progress.due, claimed.progress.nominal), (at(100), at(40)), "the wish is kept");
    world.set(200);
    let Outcome::Ended { due } = world.apply(Op::End(claimed.delivery(), Next::Again(again(120, 1)))) else { panic!() };
    assert_eq!(due, Some(at(200)));
    let Outcome::Moved(hint) = world.apply(Op::Move(future.id, at(160))) else { panic!("not moved") };
    assert_eq!((hint.id, hint.due, hint.nominal), (future.id, at(200), at(160)));
    let before = Position { due: at(199), id: record(u64::MAX, 199).id };
    let mut ids = world.look(Some(before), 1000, 10);
    ids.sort_unstable();
    assert_eq!(ids, [past.id, future.id]);
}

pub fn a_repeated_put_is_found<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = Record { key: Some("k".into()), ..record(1, 1) };
    world.put(&timer);
    for on_key in [OnKey::KeepExisting, OnKey::Replace] {
        assert_eq!(world.put_as(&timer, on_key), Placed::Exists(timer.id));
    }
    let without_key = record(2, 2);
    world.put(&without_key);
    assert_eq!(world.put(&without_key), Placed::Exists(without_key.id));
    assert_eq!(world.store.counts(None).unwrap().pending, 2);
}

pub fn a_group_of_new_timers_is_stored_wholly_or_not_at_all<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let large = Record { payload: vec![0; MAX_RECORD_LEN + 1].into(), ..record(2, 2) };
    let long_key = Record { key: Some("k".repeat(MAX_KEY_LEN + 1).into()), ..record(2, 2) };
    assert!(matches!(world.try_apply(&[put(&large)])[0], Err(StoreError::TooLarge { .. })));
    assert!(matches!(world.try_apply(&[put(&long_key)])[0], Err(StoreError::KeyTooLong { .. })));
    for refused in [large, long_key] {
        let timers = [record(1, 1), refused, record(3, 3)];
        let timers = timers.iter().map(|timer| new(timer, OnKey::KeepExisting)).collect();
        let outcome = world.try_apply(&[Op::Put(timers)]).pop().unwrap();
        assert!(matches!(outcome, Err(StoreError::TooLarge { .. } | StoreError::KeyTooLong { .. })), "{outcome:?}");
        assert_eq!(world.store.counts(None).unwrap().pending, 0);
    }
    // Each sees the previous ones.
    let keyed = |number| Record { key: Some("k".into()), ..record(number, 1) };
    let timers = [1, 2, 3].map(|number| new(&keyed(number), OnKey::Replace)).to_vec();
    let (first, second) = (keyed(1).id, keyed(2).id);
    let replaced = |old| Placed::Replaced { old, in_progress: false, due: at(1) };
    let placed = vec![Placed::Created { due: at(1) }, replaced(first), replaced(second)];
    assert_eq!(world.apply(Op::Put(timers)), Outcome::Put(placed));
    assert_eq!(world.apply(Op::Put(vec![])), Outcome::Put(vec![]));
    assert_eq!(world.try_apply(&[]).len(), 0);
}

pub fn one_refused_change_harms_no_other<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    world.put(&record(1, 0));
    let delivery = world.delivery(record(1, 0).id);
    let large = Record { payload: vec![0; MAX_RECORD_LEN + 1].into(), ..record(2, 2) };
    let ops = [put(&record(3, 3)), put(&large), Op::End(delivery, Next::Delete), put(&record(4, 4))];
    let outcomes = world.try_apply(&ops);
    assert!(matches!(outcomes[1], Err(StoreError::TooLarge { .. })));
    for number in [0, 2, 3] {
        assert!(outcomes[number].is_ok(), "{outcomes:?}");
    }
    assert_eq!(list(&mut world.store, &all(Part::Pending)), [record(3, 3).id, record(4, 4).id]);
}

pub fn keys_are_those_of_a_route<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let keyed = |number, route: &str| Record { key: Some("k".into()), route: route.into(), ..record(number, 0) };
    let (first, other_route) = (keyed(1, "a"), keyed(2, "b"));
    world.put(&first);
    assert_eq!(world.put(&other_route), Placed::Created { due: at(0) });
    assert_eq!(world.put(&keyed(3, "a")), Placed::Exists(first.id));
    assert_eq!(world.put(&keyed(3, "b")), Placed::Exists(other_route.id));
    assert_eq!(world.store.find_key("a", "k").unwrap(), Some(first.id));
    assert_eq!(world.store.find_key("b", "k").unwrap(), Some(other_route.id));
    assert_eq!(world.store.find_key("c", "k").unwrap(), None);
    assert_eq!(world.store.find_key("a", &"k".repeat(1 << 20)).unwrap(), None);
    // Claimed and parked timers have their keys, dead letters do not.
    let delivery = world.delivery(first.id);
    assert_eq!(world.put(&keyed(3, "a")), Placed::Exists(first.id));
    world.apply(Op::End(delivery, Next::Park { reason: "no decoder".into() }));
    assert_eq!(world.put(&keyed(3, "a")), Placed::Exists(first.id));
    let delivery = world.delivery(other_route.id);
    world.apply(Op::End(delivery, dead("why")));
    assert_eq!(world.store.find_key("b", "k").unwrap(), None);
    assert_eq!(world.put(&keyed(4, "b")), Placed::Created { due: at(0) });
    let replaced = Placed::Replaced { old: keyed(4, "b").id, in_progress: false, due: at(0) };
    assert_eq!(world.put_as(&keyed(5, "b"), OnKey::Replace), replaced);
    assert_eq!(world.store.find_key("a", "k").unwrap(), Some(first.id), "that of the other route stays");
}

pub fn a_replaced_timer_is_gone_and_its_end_finds_nothing<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let keyed = |number| Record { key: Some("k".into()), ..record(number, 0) };
    world.put(&keyed(1));
    let delivery = world.delivery(keyed(1).id);
    let replaced = Placed::Replaced { old: keyed(1).id, in_progress: true, due: at(0) };
    assert_eq!(world.put_as(&keyed(2), OnKey::Replace), replaced);
    for next in [Next::Delete, Next::Again(again(5, 1)), dead("why"), Next::GiveBack, Next::Release] {
        assert_eq!(world.apply(Op::End(delivery, next)), Outcome::NotFound);
    }
    assert_eq!(list(&mut world.store, &all(Part::Pending)), [keyed(2).id]);
    assert_eq!(list(&mut world.store, &all(Part::Dead)), []);
}

pub fn a_claim_takes_only_served_types<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers = [
        record(1, 0),
        Record { route: "c".into(), ..record(2, 0) },
        Record { message_type: "Other".into(), ..record(3, 0) },
        Record { message_version: NEWEST + 1, ..record(4, 0) },
        Record { message_version: NEWEST, ..record(5, 0) },
    ];
    timers.iter().for_each(|timer| _ = world.put(timer));
    let ids = timers.each_ref().map(|timer| timer.id);
    let found = [ids[0], ids[4]];
    let look = |filter| Look { after: None, until: at(0), filter, limit: 10 };
    let hints = world.store.look(&look(serving(&["x", "a"])), at(0)).unwrap();
    assert_eq!(hints.iter().map(|hint| (hint.id, hint.route)).collect::<Vec<_>>(), found.map(|id| (id, 11)));
    assert_eq!(world.store.look(&look(Arc::new(Filter::default())), at(0)).unwrap(), []);
    let none = Claim { ids: ids.to_vec(), filter: Arc::new(Filter::default()), suspects: Suspects::Left };
    assert_eq!(world.apply(Op::Claim(none)), nothing_claimed());
    let Outcome::Claimed { records, .. } = world.apply(claim(&ids)) else { panic!("no claim") };
    assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), found);
    assert_eq!(world.store.counts(None).unwrap().pending, 5, "the others stay, and use up no attempt");
    assert_eq!(world.store.get(ids[1]).unwrap().unwrap().record.progress, timers[1].progress);
}

pub fn an_end_needs_the_delivery_that_was_claimed<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    let pending = Delivery { id: timer.id, repetition: 1, attempt: 0 };
    assert_eq!(world.apply(Op::End(pending, Next::Delete)), Outcome::NotFound);
    let first = world.delivery(timer.id);
    assert_eq!((first.repetition, first.attempt), (1, 1));
    for wrong in [Delivery { attempt: 2, ..first }, Delivery { repetition: 2, ..first }, pending] {
        assert_eq!(world.apply(Op::End(wrong, Next::Delete)), Outcome::NotFound);
    }
    assert_eq!(world.apply(Op::End(first, Next::Release)), Outcome::Ended { due: Some(at(0)) });
    let keep = Next::KeepKey(Duration::from_secs(1));
    let nexts = [
        Next::Delete,
        keep,
        Next::Again(again(5, 1)),
        Next::Again(again(5, 2)),
        dead("why"),
        Next::GiveBack,
        Next::Release,
        Next::Snooze(at(5)),
        Next::Park { reason: "why".into() },
    ];
    for next in &nexts {
        let end = noted(next.clone(), 1, Some("why"), None);
        assert_eq!(world.apply(Op::End(first, end)), Outcome::NotFound, "it is pending: {next:?}");
    }
    let second = world.delivery(timer.id);
    assert_eq!(second.attempt, 2);
    for next in nexts {
        for wrong in [first, Delivery { repetition: 2, ..second }] {
            let end = Op::End(wrong, noted(next.clone(), 1, Some("why"), None));
            assert_eq!(world.apply(end), Outcome::NotFound, "it is claimed anew: {next:?}");
        }
    }
    assert_eq!([Part::Past, Part::Dead].map(|part| list(&mut world.store, &all(part))), [[]; 2]);
    assert_eq!(world.apply(Op::End(second, noted(Next::Delete, 1, None, None))), DONE);
    let past = world.store.list(&all(Part::Past)).unwrap().found;
    assert_eq!(finished(&past[0]).errors, [], "those of the others are not its own");
}

/// A store may refuse all effects.
pub fn an_effect_is_made_with_its_end_or_neither_is<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers = [1, 2, 3, 4, 5].map(|number| record(number, 0));
    timers.iter().for_each(|timer| _ = world.put(timer));
    let [kept, undone, series, cancelled, other] = timers.each_ref().map(|timer| world.delivery(timer.id));
    world.apply(Op::Cancel(cancelled.id));
    let seen = Arc::<Mutex<Vec<i64>>>::default();
    // Each sees the effects before it.
    let effect = |number: i64, is_kept: bool| {
        let seen = Arc::clone(&seen);
        Effect::new(move |connection| {
            connection.execute_batch("CREATE TABLE IF NOT EXISTS effects (number INTEGER)").unwrap();
            connection.execute("INSERT INTO effects VALUES (?1)", [number]).unwrap();
            let sum = connection.query_row("SELECT sum(number) FROM effects", (), |row| row.get(0)).unwrap();
            seen.lock().unwrap().push(sum);
            is_kept
        })
    };
    let ops = [
        Op::EndWith(kept, Next::Delete, effect(1, true)),
        Op::EndWith(undone, Next::Delete, effect(10, false)),
        Op::End(other, Next::Delete),
        Op::EndWith(cancelled, Next::Delete, effect(100, true)),
        Op::EndWith(kept, Next::Delete, effect(1000, true)),
        Op::EndWith(series, Next::Again(again(60, 2)), effect(10_000, true)),
        put(&record(6, 6)),
    ];
    let outcomes = world.try_apply(&ops);
    assert!(outcomes[2].is_ok() && outcomes[6].is_ok(), "{outcomes:?}");
    if matches!(outcomes[0], Err(StoreError::Unsupported(_))) {
        assert!([1, 3, 4, 5].iter().all(|at| matches!(outcomes[*at], Err(StoreError::Unsupported(_)))), "{outcomes:?}");
        return assert_eq!(world.apply(Op::End(kept, Next::Delete)), DONE, "it is still claimed");
    }
    assert_eq!(*seen.lock().unwrap(), [1, 11, 10_001]);
    assert!(matches!(outcomes[1], Err(StoreError::Rejected(_))), "{outcomes:?}");
    let ended = |at: usize| outcomes[at].as_ref().unwrap().clone();
    assert_eq!([0, 3, 4].map(ended), [DONE, Outcome::NotFound, Outcome::NotFound]);
    assert_eq!(ended(5), Outcome::Ended { due: Some(at(60)) });
    assert_eq!(world.apply(Op::End(undone, Next::Delete)), DONE, "it is still claimed");
    // An effect is made once, also if its transaction is repeated.
    let once = effect(100_000, true);
    world.put(&record(7, 0));
    let delivery = world.delivery(record(7, 0).id);
    assert_eq!(world.apply(Op::EndWith(delivery, Next::Release, once.clone())), Outcome::Ended { due: Some(at(0)) });
    let delivery = world.delivery(record(7, 0).id);
    assert!(world.try_apply(&[Op::EndWith(delivery, Next::Delete, once)])[0].is_err());
    assert_eq!(world.apply(Op::End(delivery, Next::Delete)), DONE, "it is still claimed");
}

pub fn retries_and_repetitions_keep_count<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    let first = world.delivery(timer.id);
    assert_eq!(world.apply(Op::End(first, Next::Again(again(20, 1)))), Outcome::Ended { due: Some(at(20)) });
    assert_eq!(world.look(None, 19, 10), []);
    assert_eq!(world.look(None, 20, 10), [timer.id]);
    world.set(20);
    let progress = world.claim(timer.id).progress;
    assert_eq!((progress.due, progress.nominal), (at(20), at(19)));
    assert_eq!((progress.repetition, progress.attempt, progress.used), (1, 2, 2));
    let second = Delivery { id: timer.id, repetition: 1, attempt: 2 };
    assert_eq!(world.apply(Op::End(second, Next::Again(again(60, 2)))), Outcome::Ended { due: Some(at(60)) });
    let progress = world.store.get(timer.id).unwrap().unwrap().record.progress;
    assert_eq!((progress.repetition, progress.attempt, progress.used), (2, 0, 0));
    // Back to the time of its id.
    assert_eq!(world.look(None, 100, 10), [timer.id]);
    let Outcome::Moved(_) = world.apply(Op::Move(timer.id, at(70))) else { panic!("not moved") };
    world.set(70);
    assert_eq!(world.claim(timer.id).delivery(), Delivery { id: timer.id, repetition: 2, attempt: 1 });
}

pub fn given_back_and_released_timers_are_pending<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    world.set(5);
    let mut attempts = 0;
    for (next, used) in [(Next::GiveBack, 0), (Next::GiveBack, 0), (Next::Release, 1), (Next::GiveBack, 1)] {
        let delivery = world.delivery(timer.id);
        attempts += 1;
        assert_eq!(delivery.attempt, attempts, "attempts only rise");
        assert_eq!(world.apply(Op::End(delivery, next)), Outcome::Ended { due: Some(at(5)) });
        let bound = Position { due: at(4), id: timer.id };
        assert_eq!(world.look(Some(bound), 5, 10), [timer.id], "a look from a bound finds it");
        let found = world.store.get(timer.id).unwrap().unwrap();
        assert_eq!((found.state, found.record.progress.used), (State::Pending, used));
        assert_eq!(found.record.progress.nominal, timer.progress.nominal, "its place in the order stays");
    }
}

pub fn a_snoozed_timer_is_due_at_its_wish_and_keeps_its_budget<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    for (now, wish, due) in [(5, 70, 70), (80, 3, 80)] {
        world.set(now);
        let delivery = world.delivery(timer.id);
        assert_eq!(world.apply(Op::End(delivery, Next::Snooze(at(wish)))), Outcome::Ended { due: Some(at(due)) });
        let found = world.store.get(timer.id).unwrap().unwrap();
        let progress = found.record.progress;
        assert_eq!((found.state, progress.used, progress.due), (State::Pending, 0, at(due)));
        assert_eq!((progress.attempt, progress.nominal), (delivery.attempt, timer.progress.nominal));
        let bound = Position { due: at(due - 1), id: timer.id };
        assert_eq!(world.look(Some(bound), due, 10), [timer.id], "a look from a bound finds it");
        world.set(due);
    }
    assert_eq!(world.delivery(timer.id).attempt, 3, "attempts only rise");
}

/// Only ends of processes count, not its failures.
pub fn a_timer_without_an_end_is_a_suspect_after_ten_crashes<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = Record { max_attempts: Some(NO_END), ..record(1, 0) };
    world.put(&timer);
    let failed = Next::Again(Again { due: at(0), nominal: at(0), repetition: 1 });
    for (ends, end) in [(3, Next::Release), (20, failed), (10, Next::Release)] {
        for _ in 0..ends {
            let delivery = world.delivery(timer.id);
            world.apply(Op::End(delivery, end.clone()));
        }
    }
    let Outcome::Claimed { left, .. } = world.apply(claim(&[timer.id])) else { panic!() };
    assert_eq!(left, [timer.id]);
    let look = Look { after: None, until: at(0), filter: serving(&["a"]), limit: 10 };
    assert!(world.store.look(&look, at(0)).unwrap()[0].is_suspect);
    let Outcome::Moved(hint) = world.apply(Op::Move(timer.id, at(0))) else { panic!("not moved") };
    assert!(hint.is_suspect);
}

pub fn suspects_are_claimed_as_such_only<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let budget = super::BUDGET;
    let (timer, own_budget) = (record(1, 0), Record { max_attempts: Some(1), ..record(2, 0) });
    world.put(&timer);
    world.put(&own_budget);
    for (timer, attempts) in [(&timer, budget), (&own_budget, 1)] {
        for _ in 0..attempts {
            let Outcome::Claimed { left, .. } = world.apply(claim_as(&[timer.id], Suspects::Marked)) else { panic!() };
            assert_eq!(left, [timer.id], "no suspect yet");
            let delivery = world.delivery(timer.id);
            world.apply(Op::End(delivery, Next::Release));
        }
        let Outcome::Claimed { records, left, .. } = world.apply(claim(&[timer.id])) else { panic!() };
        assert_eq!((records, left), (vec![], vec![timer.id]));
    }
    let look = Look { after: None, until: at(0), filter: serving(&["a"]), limit: 10 };
    assert!(world.store.look(&look, at(0)).unwrap().iter().all(|hint| hint.is_suspect));
    for (id, is_suspect) in [(own_budget.id, true), (timer.id, false)] {
        let Outcome::Moved(hint) = world.apply(Op::Move(id, at(0))) else { panic!("not moved") };
        assert_eq!(hint.is_suspect, is_suspect, "a move knows no budget of a route");
    }
    let delivery = world.claim_as(timer.id, Suspects::Unmarked).delivery();
    assert_eq!(delivery.attempt, budget + 1);
    // Each end removes the mark.
    world.apply(Op::End(delivery, Next::GiveBack));
    let delivery = world.claim_as(timer.id, Suspects::Marked).delivery();
    world.apply(Op::End(delivery, Next::GiveBack));
    world.claim_as(timer.id, Suspects::Unmarked);
    world.claim_as(own_budget.id, Suspects::Marked);
    let Some((mut world, beat)) = world.restart() else { return };
    assert_eq!(beat.blamed.iter().map(|record| record.id).collect::<Vec<_>>(), [own_budget.id], "only the marked one");
    // It is claimed by this process, which ends it.
    assert_eq!(world.store.get(own_budget.id).unwrap().unwrap().state, State::InFlight);
    assert_eq!(world.apply(Op::End(beat.blamed[0].delivery(), dead("it ended its process"))), DONE);
    assert_eq!(world.look(None, 0, 10), [timer.id]);
    let Some((_, beat)) = world.restart() else { return };
    assert_eq!(beat.blamed, []);
}

pub fn cancel_and_move_say_what_they_found<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let [pending, claimed, parked] = [1, 2, 3].map(|number| record(number, 0));
    [&pending, &claimed, &parked].into_iter().for_each(|timer| _ = world.put(timer));
    let delivery = world.delivery(claimed.id);
    let parking = world.delivery(parked.id);
    world.apply(Op::End(parking, Next::Park { reason: "no decoder".into() }));
    let Outcome::Moved(hint) = world.apply(Op::Move(pending.id, at(9))) else { panic!("not moved") };
    assert_eq!((hint.id, hint.due, hint.nominal, hint.route), (pending.id, at(9), at(9), 0));
    assert_eq!(world.apply(Op::Move(claimed.id, at(9))), Outcome::InProgress);
    assert_eq!(world.store.get(claimed.id).unwrap().unwrap().record.progress.due, at(0));
    let Outcome::Moved(_) = world.apply(Op::Move(parked.id, at(9))) else { panic!("not moved") };
    assert!(matches!(world.store.get(parked.id).unwrap().unwrap().state, State::Parked { .. }));
    assert_eq!(world.apply(Op::Cancel(pending.id)), Outcome::Deleted);
    assert_eq!(world.apply(Op::Cancel(claimed.id)), Outcome::InProgress);
    assert_eq!(world.apply(Op::Cancel(parked.id)), Outcome::Deleted);
    assert_eq!(world.apply(Op::End(delivery, Next::Again(again(5, 1)))), Outcome::NotFound, "it stays cancelled");
    for id in [pending.id, claimed.id, parked.id] {
        assert_eq!(world.apply(Op::Cancel(id)), Outcome::NotFound);
        assert_eq!(world.apply(Op::Move(id, at(9))), Outcome::NotFound);
    }
    // A dead letter is none of their business.
    world.put(&pending);
    let delivery = world.delivery(pending.id);
    world.apply(Op::End(delivery, dead("why")));
    assert_eq!(world.apply(Op::Cancel(pending.id)), Outcome::NotFound);
    assert_eq!(world.apply(Op::Move(pending.id, at(9))), Outcome::NotFound);
    assert_eq!(list(&mut world.store, &all(Part::Dead)), [pending.id]);
}

pub fn dead_letters_are_kept_and_return<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let of = |route: &str, number| Record { route: route.into(), key: Some("k".into()), ..record(number, 0) };
    let keyed = |number| of("b", number);
    world.put(&of("a", 9));
    world.put(&Record { key: None, ..keyed(0) });
    world.put(&keyed(1));
    let delivery = world.delivery(keyed(1).id);
    world.set(7);
    assert_eq!(world.apply(Op::End(delivery, dead("it failed"))), DONE);
    let id = keyed(1).id;
    let found = world.store.get(id).unwrap().unwrap();
    assert_eq!(found.state, State::Dead { reason: "it failed".into(), since: at(7) });
    assert_eq!((found.record.progress.attempt, found.record.progress.used), (1, 1));
    assert_eq!(world.store.counts(None).unwrap().dead, 1);
    world.put(&keyed(2));
    assert_eq!(world.apply(Op::Requeue(id)), Outcome::KeyInUse(keyed(2).id));
    world.apply(Op::Cancel(keyed(2).id));
    world.set(9);
    let Outcome::Moved(hint) = world.apply(Op::Requeue(id)) else { panic!("not requeued") };
    assert_eq!((hint.id, hint.due, hint.nominal, hint.is_suspect), (id, at(9), at(0), false));
    assert_eq!(world.apply(Op::Requeue(id)), Outcome::NotFound);
    assert_eq!(world.store.counts(None).unwrap().dead, 0);
    let progress = world.claim(id).progress;
    assert_eq!((progress.due, progress.attempt, progress.used), (at(9), 2, 1), "its whole budget, numbered on");
    world.apply(Op::End(Delivery { id, repetition: 1, attempt: 2 }, dead("again")));
    assert_eq!(world.apply(Op::Discard(id)), Outcome::Deleted);
    assert_eq!(world.apply(Op::Discard(id)), Outcome::NotFound);
    assert_eq!(world.store.get(id).unwrap(), None);
}

fn noted(next: Next, took_ms: u64, error: Option<&str>, result: Option<&str>) -> Next {
    let outcome = match next {
        Next::Dead { .. } => Some("dead"),
        Next::Again(again) if again.repetition == 1 => None,
        _ => Some("complete"),
    };
    let note = Note { took_ms, outcome, error: error.map(Into::into), result: result.map(Into::into) };
    Next::Noted(Box::new(next), Box::new(note))
}

fn finished(found: &Found) -> &Finished {
    let State::Finished(end) = &found.state else { panic!("{:?}", found.state) };
    end
}

pub fn a_noted_end_leaves_a_row_of_the_past<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let headers = Headers::of([("tenant", "8\"é")]).unwrap();
    let timer = Record { key: Some("k".into()), headers, max_attempts: Some(99), ..record(1, 0) };
    world.put(&timer);
    for attempt in 1..=25 {
        let delivery = world.delivery(timer.id);
        world.set(i64::from(attempt));
        let retry = Next::Again(Again { due: at(i64::from(attempt)), nominal: at(0), repetition: 1 });
        let error = format!("'no' {attempt}\n\"é");
        world.apply(Op::End(delivery, noted(retry, 7, Some(&error), Some("nothing yet"))));
        assert_eq!(list(&mut world.store, &all(Part::Past)), [], "it has not finished");
    }
    let delivery = world.delivery(timer.id);
    world.set(100);
    let next = noted(Next::Delete, 17, None, Some("done 'é"));
    assert_eq!(world.apply(Op::End(delivery, next.clone())), DONE);
    assert_eq!(world.apply(Op::End(delivery, next)), Outcome::NotFound);
    let past = world.store.list(&all(Part::Past)).unwrap().found;
    let (end, row) = (finished(&past[0]), &past[0].record);
    assert_eq!((past.len(), end.at, end.took, end.is_dead), (1, at(100), Duration::from_millis(17), false));
    assert_eq!(end.result.as_deref(), Some("done 'é"));
    let errors: Vec<_> = end.errors.iter().map(|error| (error.at, error.attempt, error.reason.to_string())).collect();
    assert_eq!(errors, (6..=25).map(|n| (at(n), n as u32, format!("'no' {n}\n\"é"))).collect::<Vec<_>>());
    assert_eq!((&row.key, &row.headers, &row.message_type), (&timer.key, &timer.headers, &timer.message_type));
    assert_eq!((row.progress.nominal, row.progress.attempt, row.payload.len()), (at(0), 26, 0));
    assert_eq!(world.apply(Op::Restore(Arc::new(past[0].clone()))), Outcome::NotFound, "it is over");
    assert_eq!(world.store.get(timer.id).unwrap(), None);
    assert_eq!(world.store.counts(None).unwrap().pending, 0);
}

pub fn the_past_is_that_of_the_row_that_ends<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers = [record(1, 0), record(2, 0), record(3, 0)];
    timers.iter().for_each(|timer| _ = world.put(timer));
    let [cancelled, given_back, plain] = timers.each_ref().map(|timer| world.delivery(timer.id));
    world.apply(Op::Cancel(cancelled.id));
    world.apply(Op::End(given_back, Next::GiveBack));
    assert_eq!(world.apply(Op::End(cancelled, noted(Next::Delete, 1, None, None))), Outcome::NotFound);
    assert_eq!(world.apply(Op::End(given_back, noted(Next::Delete, 1, None, None))), Outcome::NotFound);
    world.apply(Op::End(plain, Next::Delete));
    assert_eq!(list(&mut world.store, &all(Part::Past)), []);
}

pub fn each_repetition_and_each_dead_letter_is_in_the_past<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    for (repetition, error) in [(1, None), (2, Some("why")), (3, None)] {
        let delivery = world.delivery(timer.id);
        let then = again(repetition * 10, repetition as u64 + 1);
        let next = match error {
            Some(reason) => Next::Dead { reason: reason.into(), then: Some(then) },
            None => Next::Again(then),
        };
        world.apply(Op::End(delivery, noted(next, 1, error, None)));
        world.set(repetition * 10);
    }
    let delivery = world.delivery(timer.id);
    world.apply(Op::End(delivery, noted(dead("no"), 1, Some("no"), None)));
    let ends = |world: &mut World<'_, S>| {
        let past = world.store.list(&Query { id: Some(timer.id), ..all(Part::Past) }).unwrap().found;
        past.iter().map(|found| (found.record.progress.repetition, finished(found).is_dead)).collect::<Vec<_>>()
    };
    assert_eq!(ends(&mut world), [(1, false), (2, true), (3, false), (4, true)]);
    let errors = |world: &mut World<'_, S>| {
        let past = world.store.list(&all(Part::Past)).unwrap().found;
        past.iter().map(|found| finished(found).errors.len()).collect::<Vec<_>>()
    };
    assert_eq!(errors(&mut world), [0, 1, 0, 1], "errors are those of a repetition");
    world.apply(Op::Requeue(timer.id));
    world.set(99);
    let delivery = world.delivery(timer.id);
    world.apply(Op::End(delivery, noted(Next::Delete, 8, None, Some("done"))));
    assert_eq!(ends(&mut world), [(1, false), (2, true), (3, false), (4, false)], "the last end counts");
    let past = world.store.list(&all(Part::Past)).unwrap().found;
    let last = finished(&past[3]);
    assert_eq!((last.at, last.took, last.result.as_deref()), (at(99), Duration::from_millis(8), Some("done")));
    assert_eq!(errors(&mut world), [0, 1, 0, 1], "a dead letter keeps its errors");
    world.apply(Op::DiscardOlder { past_of: Some("a".into()), than: at(20), limit: 9 });
    assert_eq!(ends(&mut world), [(3, false), (4, false)], "later repetitions stay");
}

pub fn a_requeued_timer_has_the_past_of_all_its_attempts<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    let delivery = world.delivery(timer.id);
    world.apply(Op::End(delivery, noted(dead("one"), 1, Some("one"), None)));
    world.apply(Op::Requeue(timer.id));
    world.apply(Op::Move(timer.id, at(30)));
    world.set(30);
    let delivery = world.delivery(timer.id);
    let retry = Next::Again(Again { due: at(30), nominal: at(30), repetition: 1 });
    world.apply(Op::End(delivery, noted(retry, 1, Some("two"), None)));
    let delivery = world.delivery(timer.id);
    world.apply(Op::End(delivery, noted(Next::Delete, 1, None, None)));
    let past = world.store.list(&all(Part::Past)).unwrap().found;
    let progress = past[0].record.progress;
    assert_eq!((past.len(), progress.attempt, progress.nominal), (1, 3, at(30)), "of the last one");
    let errors = finished(&past[0]).errors.iter().map(|error| (error.attempt, &*error.reason));
    assert_eq!(errors.collect::<Vec<_>>(), [(1, "one"), (2, "two")], "numbered on");
}

pub fn the_past_is_listed_in_pages_and_discarded_in_bounds<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = |number| {
        let route = if number % 2 == 0 { "a" } else { "b" };
        Record { route: route.into(), key: Some(format!("k{number}").into()), ..record(number, 0) }
    };
    let mut ids = vec![];
    for number in 0..20 {
        world.put(&timer(number));
        ids.push(timer(number).id);
        world.set(number as i64 / 3);
        let delivery = world.delivery(timer(number).id);
        world.apply(Op::End(delivery, noted(Next::Delete, 1, None, None)));
    }
    let pages = |world: &mut World<'_, S>, query: Query| {
        let (mut query, mut found) = (Query { limit: 2, ..query }, vec![]);
        loop {
            let page = world.store.list(&query).unwrap();
            found.extend(page.found.into_iter().map(|found| found.record.id));
            query.after = page.next;
            if page.next.is_none() {
                return found;
            }
        }
    };
    let of = |wanted: &dyn Fn(usize) -> bool| {
        let mut wanted: Vec<_> =
            (0..20).filter(|number| wanted(*number)).map(|number| (number / 3, ids[number])).collect();
        wanted.sort_unstable();
        wanted.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    assert_eq!(pages(&mut world, all(Part::Past)), of(&|_| true));
    let of_b = Query { route: Some("b".into()), ..all(Part::Past) };
    assert_eq!(pages(&mut world, of_b.clone()), of(&|number| number % 2 == 1));
    let in_time = Query { from: at(2), until: at(4), ..of_b };
    assert_eq!(pages(&mut world, in_time), of(&|number| number % 2 == 1 && (2..=4).contains(&(number / 3))));
    assert_eq!(pages(&mut world, Query { key: Some("k7".into()), ..all(Part::Past) }), [ids[7]]);
    let discard = |limit| Op::DiscardOlder { past_of: Some("a".into()), than: at(3), limit };
    assert_eq!(world.apply(discard(2)), Outcome::Discarded(2));
    let of_a = Query { route: Some("a".into()), ..all(Part::Past) };
    assert_eq!(pages(&mut world, of_a), of(&|number| number % 2 == 0 && number >= 4), "the oldest");
    assert_eq!(world.apply(discard(9)), Outcome::Discarded(3));
    assert_eq!(pages(&mut world, all(Part::Past)), of(&|number| number % 2 == 1 || number >= 9));
    // Repetitions that finish together share a page.
    let series = record(20, 0);
    world.put(&series);
    for repetition in 2..5 {
        let delivery = world.delivery(series.id);
        world.apply(Op::End(delivery, noted(Next::Again(again(0, repetition)), 1, None, None)));
    }
    for query in [Query { id: Some(series.id), ..all(Part::Past) }, all(Part::Past)] {
        let found = pages(&mut world, query);
        assert_eq!(found.iter().filter(|id| **id == series.id).count(), 3);
    }
}

pub fn a_key_is_kept_until_its_time_is_over<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer =
        |number| Record { key: Some("k".into()), keep_key: Some(Duration::from_millis(50)), ..record(number, 0) };
    world.put(&timer(1));
    let claimed = world.claim(timer(1).id);
    assert_eq!(claimed.keep_key, timer(1).keep_key);
    let end = Op::End(claimed.delivery(), Next::KeepKey(Duration::from_millis(50)));
    assert_eq!(world.apply(end.clone()), DONE);
    assert_eq!(world.apply(end), Outcome::NotFound);
    let id = timer(1).id;
    assert_eq!(world.put(&timer(2)), Placed::Exists(id));
    // Nothing else knows it.
    assert_eq!(world.store.get(id).unwrap(), None);
    assert_eq!(world.store.find_key("a", "k").unwrap(), None);
    assert_eq!(world.store.counts(None).unwrap().pending, 0);
    assert_eq!((world.look(None, 100, 10), list(&mut world.store, &all(Part::Pending))), (vec![], vec![]));
    assert_eq!(world.apply(claim(&[id])), nothing_claimed());
    assert_eq!(world.apply(Op::Cancel(id)), Outcome::NotFound);
    assert_eq!(world.apply(Op::Move(id, at(3))), Outcome::NotFound);
    assert_eq!(world.apply(Op::Pause(Pause::timer(id))), Outcome::NotFound);
    world.set(49);
    assert_eq!(world.put(&timer(2)), Placed::Exists(id));
    world.set(50);
    assert_eq!(world.put(&timer(2)), Placed::Created { due: at(50) });
    assert_eq!(world.store.find_key("a", "k").unwrap(), Some(timer(2).id));
    let suspect = Record { key: Some("other".into()), max_attempts: Some(0), ..record(3, 0) };
    world.put(&suspect);
    let delivery = world.claim_as(suspect.id, Suspects::Marked).delivery();
    world.apply(Op::End(delivery, Next::KeepKey(Duration::from_secs(1))));
    let Some((_, beat)) = world.restart() else { return };
    assert_eq!(beat.blamed, [], "a complete one is not to blame");
}

pub fn a_kept_key_is_replaced_as_if_it_were_free<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = |number| Record { key: Some("k".into()), ..record(number, 0) };
    world.put(&timer(1));
    let delivery = world.delivery(timer(1).id);
    world.apply(Op::End(delivery, Next::KeepKey(Duration::from_secs(1))));
    assert_eq!(world.put_as(&timer(2), OnKey::Replace), Placed::Created { due: at(0) });
    assert_eq!(list(&mut world.store, &all(Part::Pending)), [timer(2).id]);
    // A dead letter frees its key.
    let delivery = world.delivery(timer(2).id);
    world.apply(Op::End(delivery, dead("why")));
    assert_eq!(world.put(&timer(3)), Placed::Created { due: at(0) });
    let delivery = world.delivery(timer(3).id);
    world.apply(Op::End(delivery, Next::KeepKey(Duration::from_secs(1))));
    assert_eq!(world.apply(Op::Requeue(timer(2).id)), Outcome::KeyInUse(timer(3).id));
    let repeated = world.put_as(&timer(3), OnKey::Replace);
    assert_eq!(repeated, Placed::Exists(timer(3).id), "a repeated request does not begin anew");
    world.set(1000);
    assert!(matches!(world.apply(Op::Requeue(timer(2).id)), Outcome::Moved(_)), "its time is over");
}

pub fn a_kept_key_of_a_series_is_that_of_its_letter<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = |number| Record { key: Some("k".into()), ..record(number, 0) };
    world.put(&timer(1));
    let id = timer(1).id;
    let delivery = world.delivery(id);
    world.apply(Op::End(delivery, Next::Dead { reason: "why".into(), then: Some(again(10, 2)) }));
    assert_eq!(world.apply(Op::Requeue(id)), Outcome::StillPending);
    world.set(10);
    assert_eq!(world.delivery(id), Delivery { id, repetition: 2, attempt: 1 });
    let delivery = Delivery { id, repetition: 2, attempt: 1 };
    world.apply(Op::End(delivery, Next::KeepKey(Duration::from_secs(1))));
    let Outcome::Moved(hint) = world.apply(Op::Requeue(id)) else { panic!("its own key is in its way") };
    assert_eq!((hint.due, hint.nominal), (at(10), at(0)));
    assert_eq!(world.put(&timer(2)), Placed::Exists(id));
}

pub fn old_dead_letters_are_discarded_in_bounds<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    for number in 0..5 {
        world.put(&record(number, 0));
        world.set(number as i64);
        let delivery = world.delivery(record(number, 0).id);
        world.apply(Op::End(delivery, dead("why")));
    }
    let discard = |limit| Op::DiscardOlder { past_of: None, than: at(3), limit };
    assert_eq!(world.apply(discard(2)), Outcome::Discarded(2), "the oldest");
    let letters = [2, 3, 4].map(|number| record(number, 0).id);
    assert_eq!(list(&mut world.store, &all(Part::Dead)), letters);
    assert_eq!(world.apply(discard(2)), Outcome::Discarded(1));
    assert_eq!(world.apply(discard(2)), Outcome::Discarded(0));
}

pub fn a_series_leaves_its_latest_letter<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let mode = RepeatMode::FixedRate { period: Duration::from_millis(10), missed: Missed::Skip };
    let timer = Record { repeat: Some(StoredRepeat { mode, times: None, until: None, jitter: None }), ..record(1, 0) };
    world.put(&timer);
    for (repetition, nominal) in [(1, 0), (2, 9), (3, 19)] {
        let claimed = world.claim(timer.id);
        let Progress { attempt, used, .. } = claimed.progress;
        assert_eq!((attempt, used, claimed.progress.nominal), (1, 1, at(nominal)), "each repetition begins anew");
        let next = again(10 * repetition as i64, repetition + 1);
        let outcome = world.apply(Op::End(claimed.delivery(), Next::Dead { reason: "why".into(), then: Some(next) }));
        assert_eq!(outcome, Outcome::Ended { due: Some(next.due) });
        assert_eq!(world.store.get(timer.id).unwrap().unwrap().state, State::Pending);
        let letters = world.store.list(&all(Part::Dead)).unwrap().found;
        assert_eq!(letters.iter().map(|found| found.record.progress.repetition).collect::<Vec<_>>(), [repetition]);
        assert_eq!(world.apply(Op::Requeue(timer.id)), Outcome::StillPending);
        world.set(10 * repetition as i64);
    }
    assert_eq!(world.apply(Op::Cancel(timer.id)), Outcome::Deleted);
    let Outcome::Moved(hint) = world.apply(Op::Requeue(timer.id)) else { panic!("not requeued") };
    assert_eq!((hint.due, hint.nominal), (at(30), at(19)), "due now, in its place");
    assert_eq!(world.delivery(timer.id), Delivery { id: timer.id, repetition: 3, attempt: 2 });
}

pub fn parked_timers_wait_for_a_node_that_serves_them<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let (served, unserved) = (record(1, 0), record(2, 0));
    for timer in [&served, &unserved] {
        world.put(timer);
        let delivery = world.delivery(timer.id);
        assert_eq!(world.apply(Op::End(delivery, Next::Park { reason: "no decoder".into() })), DONE);
        let found = world.store.get(timer.id).unwrap().unwrap();
        assert_eq!(found.state, State::Parked { reason: "no decoder".into() });
        assert_eq!(found.record.progress.used, 0, "its budget is as before");
    }
    assert_eq!(world.look(None, 0, 10), []);
    assert_eq!(world.apply(claim(&[served.id])), nothing_claimed());
    assert_eq!(list(&mut world.store, &all(Part::Parked)), [served.id, unserved.id]);
    let newer = Record { message_version: NEWEST + 1, ..record(3, 0) };
    let state = State::Parked { reason: "no decoder".into() };
    world.apply(Op::Restore(Arc::new(Found { record: Arc::new(newer.clone()), state: state.clone() })));
    let counts = world.store.counts(None).unwrap();
    assert_eq!((counts.pending, counts.parked), (0, 3));
    world.set(5);
    let Some((mut world, _)) = world.restart() else { return };
    assert_eq!(world.store.counts(None).unwrap().parked, 1);
    assert_eq!(world.store.get(newer.id).unwrap().unwrap().state, state, "no node serves its version");
    assert_eq!(world.claim(served.id).progress.due, at(5), "a look that begins now finds it");
}

pub fn a_paused_route_waits_until_it_is_resumed<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let (waiting, running) = (record(1, 0), record(2, 0));
    let other = Record { route: "b".into(), ..record(3, 0) };
    [&waiting, &running, &other].into_iter().for_each(|timer| _ = world.put(timer));
    let delivery = world.delivery(running.id);
    let pause = Pause::route("a").by("ops").because("no mail");
    assert_eq!(world.apply(Op::Pause(pause.clone())), Outcome::Paused);
    assert_eq!(world.store.pauses().unwrap(), [pause]);
    assert_eq!(world.look(None, 0, 10), [other.id]);
    assert_eq!(world.apply(claim(&[waiting.id])), nothing_claimed());
    assert_eq!(world.claim(other.id).id, other.id);
    // The running delivery ends as any, and its retry waits.
    assert_eq!(world.apply(Op::End(delivery, Next::Again(again(0, 1)))), Outcome::Ended { due: Some(at(0)) });
    assert_eq!(world.apply(claim(&[running.id])), nothing_claimed());
    assert_eq!(world.apply(Op::Resume(PauseTarget::Route("b".into()))), Outcome::NotFound);
    let route = PauseTarget::Route("a".into());
    assert_eq!(world.apply(Op::Resume(route.clone())), Outcome::Deleted);
    assert_eq!(world.apply(Op::Resume(route)), Outcome::NotFound);
    assert_eq!(world.store.pauses().unwrap(), []);
    assert_eq!(world.look(None, 0, 10), [waiting.id, running.id], "from the beginning it finds the overdue ones");
    assert_eq!([waiting.id, running.id].map(|id| world.delivery(id).attempt), [1, 2]);
}

pub fn a_pause_ends_by_itself_and_outlives_its_process<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = record(1, 0);
    world.put(&timer);
    assert_eq!(world.apply(Op::Pause(Pause::route("none"))), Outcome::NotFound, "nobody has served it");
    assert_eq!(world.apply(Op::Pause(Pause::node("none"))), Outcome::NotFound);
    assert_eq!(world.store.pauses().unwrap(), []);
    assert_eq!(world.apply(Op::Pause(Pause::route("a").by("one"))), Outcome::Paused);
    let second = Pause::route("a").until(at(50)).because("another");
    assert_eq!(world.apply(Op::Pause(second.clone())), Outcome::Paused, "it replaces the first one");
    assert_eq!(world.store.pauses().unwrap(), [second]);
    world.set(49);
    assert_eq!(world.apply(claim(&[timer.id])), nothing_claimed());
    let Some((mut world, beat)) = world.restart() else { return };
    assert_eq!(beat.paused.len(), 1);
    assert_eq!(world.look(None, 49, 10), []);
    assert_eq!(world.apply(claim(&[timer.id])), nothing_claimed());
    world.set(50);
    assert_eq!(world.look(None, 50, 10), [timer.id]);
    assert_eq!(world.apply(Op::Resume(PauseTarget::Route("a".into()))), Outcome::NotFound, "it has ended");
    assert_eq!(world.claim(timer.id).id, timer.id);
}

pub fn a_paused_timer_stays_parked_until_it_is_resumed<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let [paused, undecodable, unmoved] = [1, 2, 4].map(|number| record(number, 0));
    for timer in [&paused, &undecodable, &unmoved] {
        world.put(timer);
    }
    let pause = Op::Pause(Pause::timer(paused.id).by("ops").because("a dispute"));
    let resume = |id| Op::Resume(PauseTarget::Timer(id));
    assert_eq!(world.apply(resume(paused.id)), Outcome::NotFound, "it is not paused");
    assert_eq!(world.apply(pause.clone()), Outcome::Paused);
    assert_eq!(world.apply(Op::Pause(Pause::timer(unmoved.id))), Outcome::Paused);
    let state = State::Parked { reason: "paused by ops: a dispute".into() };
    assert_eq!(world.store.get(paused.id).unwrap().unwrap().state, state);
    assert_eq!(world.store.pauses().unwrap(), [], "its row says it");
    assert_eq!(world.look(None, 0, 10), [undecodable.id]);
    assert_eq!(world.apply(claim(&[paused.id])), nothing_claimed());
    let delivery = world.delivery(undecodable.id);
    world.apply(Op::End(delivery, Next::Park { reason: "no decoder".into() }));
    assert_eq!(world.apply(resume(undecodable.id)), Outcome::NotFound, "it is parked for another reason");
    assert!(matches!(world.apply(Op::Move(paused.id, at(3))), Outcome::Moved(_)));
    assert_eq!(world.store.get(paused.id).unwrap().unwrap().state, state, "and stays paused");
    world.set(5);
    let gone = record(3, 0).id;
    assert_eq!(world.apply(Op::Pause(Pause::timer(gone))), Outcome::NotFound);
    assert_eq!(world.apply(resume(gone)), Outcome::NotFound);
    let Some((mut world, _)) = world.restart() else { return };
    assert_eq!(world.store.get(paused.id).unwrap().unwrap().state, state, "a join leaves it alone");
    assert_eq!(world.store.get(undecodable.id).unwrap().unwrap().state, State::Pending);
    for id in [paused.id, unmoved.id] {
        assert_eq!(world.apply(resume(id)), Outcome::Deleted);
    }
    let bound = Position { due: at(4), id: paused.id };
    let mut found = world.look(Some(bound), 5, 10);
    found.sort_unstable();
    assert_eq!(found, [paused.id, undecodable.id, unmoved.id], "a look that begins now finds them");
    assert_eq!(world.claim(paused.id).progress.nominal, at(3));
}

pub fn a_timer_that_is_paused_in_its_delivery_ends_it<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let reason = || Some(State::Parked { reason: "paused".into() });
    let nexts = [
        (Next::Delete, None),
        (Next::Again(again(7, 2)), reason()),
        (Next::GiveBack, reason()),
        (Next::Park { reason: "no decoder".into() }, reason()),
        (Next::Dead { reason: "why".into(), then: Some(again(7, 2)) }, reason()),
    ];
    for (number, (next, state)) in (1..).zip(nexts) {
        let timer = record(number, 0);
        world.put(&timer);
        let delivery = world.delivery(timer.id);
        assert_eq!(world.apply(Op::Pause(Pause::timer(timer.id))), Outcome::Paused);
        assert!(matches!(world.apply(Op::End(delivery, next.clone())), Outcome::Ended { .. }), "{next:?}");
        assert_eq!(world.store.get(timer.id).unwrap().map(|found| found.state), state, "{next:?}");
        world.set(9);
        assert_eq!(world.apply(claim(&[timer.id])), nothing_claimed(), "{next:?}");
        if state.is_some() {
            assert_eq!(world.apply(Op::Resume(PauseTarget::Timer(timer.id))), Outcome::Deleted, "{next:?}");
            let delivery = world.delivery(timer.id);
            // A resume in a delivery changes nothing else.
            world.apply(Op::Pause(Pause::timer(timer.id)));
            assert_eq!(world.apply(Op::Resume(PauseTarget::Timer(timer.id))), Outcome::Deleted);
            assert_eq!(world.store.get(timer.id).unwrap().unwrap().state, State::InFlight);
            assert_eq!(world.apply(Op::End(delivery, Next::Delete)), DONE);
        }
        world.set(0);
    }
}

pub fn looks_are_in_order_and_pages_miss_nothing<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let mut timers = vec![];
    for number in 0..300 {
        let timer = record(number, (number * 7919 % 100) as i64);
        world.put(&timer);
        let mut due = timer.progress.due;
        // Of three in the order of their ids one goes to a later time, one to an earlier one.
        if number % 3 > 0 {
            due = at((number * 31 % 100) as i64);
            world.apply(Op::Move(timer.id, due));
        }
        timers.push(Position { due, id: timer.id });
    }
    timers.sort_unstable();
    for limit in [1, 7, 300, 1000] {
        let (mut after, mut found) = (None, vec![]);
        loop {
            let look = Look { after, until: at(99), filter: serving(&["a"]), limit };
            let hints = world.store.look(&look, world.now).unwrap();
            found.extend(hints.iter().map(|hint| Position { due: hint.due, id: hint.id }));
            if hints.len() < limit {
                break;
            }
            after = found.last().copied();
        }
        assert_eq!(found, timers, "pages of {limit}");
    }
}

pub fn lists_filter_and_continue<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers: Vec<_> = (0..40)
        .map(|number| Record {
            route: if number % 4 == 0 { "a" } else { "b" }.into(),
            key: Some(format!("k{}", number / 4).into()).filter(|_| number % 4 < 2),
            ..record(number, number as i64)
        })
        .collect();
    timers.iter().for_each(|timer| _ = world.put(timer));
    let ids = |filter: &dyn Fn(&Record) -> bool| {
        timers.iter().filter(|timer| filter(timer)).map(|timer| timer.id).collect::<Vec<_>>()
    };
    let store = &mut world.store;
    let query = all(Part::Pending);
    assert_eq!(list(store, &query), ids(&|_| true));
    let of_route = Query { route: Some("a".into()), ..query.clone() };
    assert_eq!(list(store, &of_route), ids(&|timer| &*timer.route == "a"));
    let of_key = Query { key: Some("k3".into()), ..query.clone() };
    assert_eq!(list(store, &of_key), ids(&|timer| timer.key.as_deref() == Some("k3")));
    assert_eq!(list(store, &Query { route: Some("a".into()), ..of_key }).len(), 1);
    let in_time = Query { from: at(10), until: at(20), ..query.clone() };
    assert_eq!(list(store, &in_time), ids(&|timer| (10..=20).contains(&(timer.progress.due.as_millis() - START))));
    let (mut page, mut found) = (Query { limit: 3, ..of_route }, vec![]);
    loop {
        let next = store.list(&page).unwrap();
        found.extend(next.found.into_iter().map(|found| found.record.id));
        page.after = next.next;
        if next.next.is_none() {
            break;
        }
    }
    assert_eq!(found, ids(&|timer| &*timer.route == "a"));
    assert_eq!(list(store, &all(Part::Dead)), []);
}

pub fn lists_filter_by_bytes_of_keys_and_by_headers<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let odd = r#"a."b'$\"#;
    let keys = ["a%b", "a_b", "a\\b", "aXb", "ä", "a\u{308}", "Ä", "A%b", "", "Xa"];
    let mut timers: Vec<_> = keys
        .iter()
        .zip(1..)
        .map(|(key, number)| Record { key: Some((*key).into()), ..record(number, number as i64) })
        .collect();
    timers.push(record(20, 20));
    timers[0].headers = Headers::of([(odd, "7"), ("tenant", "7")]).unwrap();
    timers[1].headers = Headers::of([("tenant", "' OR true --"), ("b", "7")]).unwrap();
    timers[2].headers = Headers::of([("tenant", "70"), ("0", "7")]).unwrap();
    timers[3].message_type = "Invoice".into();
    timers.iter().for_each(|timer| _ = world.put(timer));
    let places = |found: Vec<DurableId>| -> Vec<usize> {
        found.iter().map(|id| timers.iter().position(|timer| timer.id == *id).unwrap()).collect()
    };
    for (prefix, expected) in [
        ("a", &[0, 1, 2, 3, 5][..]),
        ("a%", &[0]),
        ("a_", &[1]),
        ("a\\", &[2]),
        ("ä", &[4]),
        ("a\u{308}", &[5]),
        ("A", &[7]),
        ("", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("a\0", &[]),
        ("a%b%", &[]),
    ] {
        let query = Query { key_prefix: Some(prefix.into()), ..all(Part::Pending) };
        assert_eq!(places(list(&mut world.store, &query)), expected, "{prefix:?}");
    }
    for ((name, value), expected) in [
        (("tenant", "7"), &[0][..]),
        ((odd, "7"), &[0]),
        (("tenant", "' OR true --"), &[1]),
        (("b", "7"), &[1]),
        (("0", "7"), &[2]),
        (("tenant", ""), &[]),
        (("ten\0ant", "7"), &[]),
        (("a", "7"), &[]),
    ] {
        let query = Query { header: Some((name.into(), value.into())), ..all(Part::Pending) };
        assert_eq!(places(list(&mut world.store, &query)), expected, "{name:?}: {value:?}");
    }
    let query = Query { message_type: Some("Invoice".into()), ..all(Part::Pending) };
    assert_eq!(places(list(&mut world.store, &query)), [3]);
    let store = &mut world.store;
    let both = Query { key_prefix: Some("a".into()), message_type: Some("Order".into()), ..query };
    assert_eq!(store.list(&Query { is_count: true, ..both.clone() }).unwrap().counted, 4);
    assert_eq!(places(list(store, &both)), [0, 1, 2, 5]);
}

pub fn lists_leave_out_rows_written_later<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let (old, letter) = (record(1, 100), record(2, 0));
    world.put(&old);
    world.put(&letter);
    let delivery = world.delivery(letter.id);
    world.set(10);
    world.apply(Op::End(delivery, dead("why")));
    let (young, keyed) = (record(3, 50), Record { key: Some("k".into()), ..record(4, 60) });
    world.put(&young);
    world.put(&keyed);
    let until = |part, offset| Query { written_until: Some(at(offset)), ..all(part) };
    let store = &mut world.store;
    assert_eq!(list(store, &until(Part::Pending, 9)), [old.id]);
    assert_eq!(list(store, &until(Part::Pending, 10)), [young.id, keyed.id, old.id]);
    assert_eq!(list(store, &until(Part::Dead, 9)), []);
    assert_eq!(list(store, &until(Part::Dead, 10)), [letter.id]);
    world.set(20);
    world.apply(Op::Requeue(letter.id));
    assert!(!list(&mut world.store, &until(Part::Pending, 19)).contains(&letter.id), "it was requeued later");
    // A move or a retry makes no new timer.
    world.apply(Op::Move(old.id, at(200)));
    assert_eq!(list(&mut world.store, &until(Part::Pending, 9)), [old.id]);
}

pub fn counts_stop_at_their_limit<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    (0..6).for_each(|number| _ = world.put(&record(number, 0)));
    let delivery = world.delivery(record(0, 0).id);
    world.apply(Op::End(delivery, dead("why")));
    world.delivery(record(1, 0).id);
    let (parked, kept) = (record(6, 0), Record { key: Some("k".into()), ..record(7, 0) });
    for (timer, next) in [(parked, Next::Park { reason: "why".into() }), (kept, Next::KeepKey(Duration::from_secs(1)))]
    {
        world.put(&timer);
        let delivery = world.delivery(timer.id);
        world.apply(Op::End(delivery, next));
    }
    let mut counts = |limit| {
        let counts = world.store.counts(limit).unwrap();
        (counts.pending, counts.parked, counts.dead, counts.is_limited)
    };
    assert_eq!(counts(None), (5, 1, 1, false), "claimed ones are among the pending, and kept keys are none");
    assert_eq!(counts(Some(6)), (5, 1, 1, false));
    assert_eq!(counts(Some(5)), (5, 1, 1, true));
    assert_eq!(counts(Some(2)), (2, 1, 1, true));
    assert_eq!(counts(Some(1)), (1, 1, 1, true));
}

pub fn claims_of_an_ended_process_are_released<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers = [record(1, 0), record(2, 0), record(3, 50)];
    timers.iter().for_each(|timer| _ = world.put(timer));
    let delivery = world.delivery(timers[0].id);
    let Some((mut world, beat)) = world.restart() else { return };
    assert_eq!(beat.blamed, []);
    let found = world.store.get(timers[0].id).unwrap().unwrap();
    assert_eq!((found.state, found.record.progress.used), (State::Pending, 1), "the budget is used");
    assert_eq!(world.apply(Op::End(delivery, Next::Delete)), Outcome::NotFound, "the delivery is over");
    assert_eq!(world.look(None, 100, 10), timers.each_ref().map(|timer| timer.id));
    assert_eq!(world.delivery(timers[0].id).attempt, 2);
    let Some((mut world, _)) = world.restart() else { return };
    assert!(matches!(world.apply(Op::Move(timers[0].id, at(3))), Outcome::Moved(_)), "it is not claimed");
    assert_eq!(world.apply(Op::Cancel(timers[0].id)), Outcome::Deleted);
}

//! Checks of promises that the random comparison does not reach: edges of columns, bounds, effects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers_durable::store::{
    Again, Effect, Found, Look, Looked, MAX_RECORD_LEN, NO_END, Next, Note, OnKey, Op, Outcome, Part, Query, Reads,
    Record, State, Store,
};
use actix_timers_durable::{DueTime, Headers, Missed, RepeatMode, RetryPolicy, StoreError, StoredRepeat};

use super::{NEWEST, Subject, World, at, new, put, record, serving};

const DONE: Outcome = Outcome::Ended { due: None };

fn all(part: Part) -> Query {
    Query { limit: 1000, ..Query::of(part) }
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
        Record { repeat: repeats(cron), max_attempts: Some(NO_END), payload: [].into(), ..record(2, 2) },
        Record { repeat: repeats(delay(true)), ..record(3, 3) },
        Record { repeat: repeats(delay(false)), key: Some("".into()), payload_codec: Some("".into()), ..record(4, 4) },
        Record { payload: vec![0; 1 << 19].into(), ..record(5, 5) },
    ];
    world.apply(Op::Put(timers.iter().map(|timer| new(timer, OnKey::KeepExisting)).collect()));
    let listed = world.store.list(&all(Part::Pending)).unwrap();
    assert_eq!((listed.next, listed.damaged), (None, 0));
    for (timer, found) in timers.iter().zip(&listed.found) {
        assert_eq!(*found.record, *timer);
        assert_eq!(world.store.get(timer.id).unwrap().as_ref(), Some(found));
    }
    assert_eq!(listed.found.len(), timers.len());
    world.set(5);
    for mut timer in timers {
        let claimed = world.claim(timer.id);
        (timer.progress.attempt, timer.progress.used) = (1, 1);
        assert_eq!(*claimed, timer);
        let dead = Next::Dead { reason: "why\n'not'".into(), then: None };
        world.apply(Op::End(claimed.delivery(), dead));
        let letter = world.store.get(timer.id).unwrap().unwrap();
        assert_eq!(letter.state, State::Dead { reason: "why\n'not'".into(), since: at(5) });
        assert_eq!(*letter.record, timer);
        world.apply(Op::Requeue(timer.id));
        (timer.progress.due, timer.progress.used, timer.repeat) = (at(5), 0, None);
        assert_eq!(*world.store.get(timer.id).unwrap().unwrap().record, timer, "all but its later repetitions");
    }
}

/// Of the changes of one call, none harms another.
pub fn a_group_of_new_timers_is_stored_wholly_or_not_at_all<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let large = Record { payload: vec![0; MAX_RECORD_LEN + 1].into(), ..record(2, 2) };
    let claimed = record(10, 0);
    world.put(&claimed);
    let delivery = world.delivery(claimed.id);
    let group = [&record(1, 1), &large, &record(3, 3)].map(|timer| new(timer, OnKey::KeepExisting)).to_vec();
    let other = record(20, 4);
    let ops = [put(&large), Op::Put(group), Op::End(delivery, Next::Delete), put(&other)];
    let outcomes = world.try_apply(&ops);
    for outcome in &outcomes[..2] {
        assert!(matches!(outcome, Err(StoreError::TooLarge { .. })), "{outcome:?}");
    }
    assert!(outcomes[2..].iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(world.store.counts(None).unwrap().pending, 1);
    assert_eq!(world.apply(Op::Put(vec![])), Outcome::Put(vec![]));
    assert_eq!(world.try_apply(&[]).len(), 0);
    assert_eq!(world.store.find_key("a", &"k".repeat(1 << 20)).unwrap(), None);
}

/// Their bytes are bounded, however many are wanted.
pub fn a_page_of_large_timers_is_short<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let payload: Arc<[u8]> = vec![7; 1_000_000].into();
    (0..20).for_each(|number| world.put(&Record { payload: payload.clone(), ..record(number, 10) }));
    let (mut query, mut sizes, mut numbers) = (all(Part::Pending), vec![], vec![]);
    loop {
        let page = world.store.list(&query).unwrap();
        sizes.push(page.found.len());
        numbers.extend(page.found.iter().map(|found| found.record.id));
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert!(sizes.iter().all(|size| *size <= 10), "{sizes:?}");
    assert!(numbers.is_sorted() && numbers.len() == 20, "{sizes:?}");
}

/// A store may refuse all effects.
pub fn an_effect_is_made_with_its_end_or_neither_is<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers = [1, 2, 3, 4, 5].map(|number| record(number, 0));
    timers.iter().for_each(|timer| world.put(timer));
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
        Op::EndWith(
            series,
            Next::Again(Again { due: at(60), nominal: at(59), repetition: 2, returned: 0 }),
            effect(10_000, true),
        ),
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

pub fn a_look_counts_the_moved_timers_that_it_passes_over<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timers: Vec<_> = (0..10).map(|number| record(number, 10 + number as i64)).collect();
    timers.iter().for_each(|timer| world.put(timer));
    timers[..9].iter().for_each(|timer| _ = world.apply(Op::Move(timer.id, at(900 + timer.id.random() as i64 % 9))));
    let mut look = Look { after: None, until: at(99), filter: serving(&["a"]), limit: 3, share: None };
    let mut found = Vec::new();
    loop {
        let Looked { hints, rest, .. } = world.store.look(&look, at(0))().unwrap();
        found.push(hints.len());
        look.after = rest;
        if rest.is_none() {
            break;
        }
    }
    assert!(found.len() >= 4 && found[..3] == [0, 0, 0] && found.iter().sum::<usize>() == 1, "{found:?}");
}

/// A hand may write the route of a series whose earlier repetition is a dead letter.
pub fn a_requeued_timer_ends_though_its_series_kept_a_key_of_another_route<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let keep = Duration::from_secs(3600);
    let timer = Record { key: Some("k".into()), keep_key: Some(keep), ..record(1, 0) };
    world.put(&timer);
    let series = world.delivery(timer.id);
    assert_eq!(world.apply(Op::End(series, Next::KeepKey(keep))), DONE);
    let letter = Record { route: "b".into(), ..timer };
    let state = State::Dead { reason: "why".into(), since: at(0) };
    world.apply(Op::Restore(Arc::new(Found { record: Arc::new(letter.clone()), state })));
    assert_eq!(world.apply(Op::Requeue(letter.id)), Outcome::Moved(at(0)));
    let again = world.delivery(letter.id);
    assert_eq!(world.apply(Op::End(again, Next::KeepKey(keep))), DONE);
}

/// The last twenty errors are kept.
pub fn a_noted_end_leaves_a_row_of_the_past<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    let timer = Record { max_attempts: Some(99), ..record(1, 0) };
    world.put(&timer);
    let noted = |next, note: Note| Next::Noted(Box::new(next), Box::new(note));
    let error = |attempt: u32| format!("'no' {attempt}\n\"é");
    for attempt in 1..=25 {
        let delivery = world.delivery(timer.id);
        world.set(i64::from(attempt));
        let retry = Next::Again(Again { due: at(i64::from(attempt)), nominal: at(0), repetition: 1, returned: 0 });
        let note = Note { took_ms: 7, outcome: None, error: Some(error(attempt).into()), result: Some("none".into()) };
        world.apply(Op::End(delivery, noted(retry, note)));
    }
    let delivery = world.delivery(timer.id);
    world.set(100);
    let note = Note { took_ms: 17, outcome: Some("complete"), error: None, result: Some("done 'é".into()) };
    assert_eq!(world.apply(Op::End(delivery, noted(Next::Delete, note))), DONE);
    let past = world.store.list(&all(Part::Past)).unwrap().found;
    let State::Finished(end) = &past[0].state else { panic!("{past:?}") };
    assert_eq!((end.at, end.took, end.result.as_deref()), (at(100), Duration::from_millis(17), Some("done 'é")));
    let errors: Vec<_> = end.errors.iter().map(|error| (error.at, error.attempt, error.reason.to_string())).collect();
    assert_eq!(errors, (6..=25).map(|n| (at(i64::from(n)), n, error(n))).collect::<Vec<_>>());
    assert_eq!(world.apply(Op::Restore(Arc::new(past[0].clone()))), Outcome::NotFound, "it is over");
}

pub fn the_past_is_discarded_in_bounds<S: Subject>(subject: &mut S) {
    let mut world = World::new(subject);
    for number in 0..10 {
        let timer = Record { route: ["a", "b"][number % 2].into(), ..record(number as u64, 0) };
        world.put(&timer);
        world.set(number as i64);
        let note = Note { took_ms: 1, outcome: Some("complete"), error: None, result: None };
        let delivery = world.delivery(timer.id);
        world.apply(Op::End(delivery, Next::Noted(Box::new(Next::Delete), Box::new(note))));
    }
    let discard = |limit| Op::DiscardOlder { past_of: Some("a".into()), than: at(7), limit };
    for (limit, discarded, left) in [(3, 3, &[6, 8][..]), (9, 1, &[8])] {
        assert_eq!(world.apply(discard(limit)), Outcome::Discarded(discarded));
        let past = world.store.list(&all(Part::Past)).unwrap().found;
        let ends = past.iter().map(|found| found.record.progress.due);
        let expected = [1, 3, 5, 7, 9].iter().chain(left).map(|end| at(*end));
        assert!(ends.eq(std::collections::BTreeSet::from_iter(expected)), "{past:?}");
    }
}

//! Changes by hand, with `sqlite3`, and rows and pages that are not as they were stored.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use actix_timers_durable::store::{
    Delivery, Effect, EmbeddedStore, Look, Looked, Next, Op, Outcome, Part, Placed, Position, Query, Reads, Record,
    State, Store,
};
use actix_timers_durable::{DueTime, DurableId, DurableTimers, StoreError};
use rusqlite::Connection;
use support::durable::{Note, handled_by};
use support::store::{at, claim, put, record, serving};
use tokio::sync::mpsc::unbounded_channel;

use crate::workshop::{apply, open, puts};

fn by_hand(path: &Path) -> Connection {
    Connection::open(path.join("timers.db")).unwrap()
}

fn now() -> DueTime {
    DueTime::reached_at(std::time::SystemTime::now())
}

fn try_look(store: &mut EmbeddedStore, now: DueTime) -> Result<Looked, StoreError> {
    let after = Some(Position { due: now, id: record(0, 0).id });
    store.look(&Look { after, until: DueTime::MAX, filter: serving(&["a"]), limit: 1000, share: None }, now)()
}

fn look(store: &mut EmbeddedStore, now: DueTime) -> Vec<DurableId> {
    try_look(store, now).unwrap().hints.into_iter().map(|hint| hint.id).collect()
}

#[test]
fn no_change_by_hand_hides_a_timer_from_the_looks() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let hand = by_hand(directory.path());
    let tomorrow = now().saturating_add(Duration::from_secs(86_400));
    let timer = |number| {
        let mut timer = record(number, 0);
        timer.id = DurableId::from_parts(tomorrow, number, number);
        timer.progress = actix_timers_durable::store::Progress::first(tomorrow);
        timer
    };
    let timers = [timer(1), timer(2), timer(3), timer(4)];
    timers.iter().for_each(|timer| _ = store.apply(&[put(timer)], now()).unwrap());
    let before = now();
    assert!(!store.beat(&[], before).unwrap().looks_begin_anew);
    let set = |sql: &str, id: DurableId| {
        assert_eq!(
            hand.execute(&format!("UPDATE timers SET {sql} WHERE id = ?1"), [id.as_uuid().as_bytes()]).unwrap(),
            1
        );
    };
    set("due = 1", timers[0].id);
    set("due = due + 5, moved = 0", timers[1].id);
    set("parked = 'by hand'", timers[2].id);
    let found = look(&mut store, before);
    assert_eq!(found, [timers[0].id, timers[3].id, timers[1].id]);
    assert!(store.beat(&[], before).unwrap().looks_begin_anew, "the change may have begun long ago");
    assert!(!store.beat(&[], before).unwrap().looks_begin_anew);
    set("parked = NULL, due = 7", timers[2].id);
    assert_eq!(look(&mut store, before).len(), 4);
    // A row that was written by hand has no checksum, and is delivered.
    let id = timer(9).id;
    let insert =
        "INSERT INTO timers (id, due, nominal, route, message_type, payload) VALUES (?1, 5, 5, 'a', 'Order', x'7b7d')";
    hand.execute(insert, [id.as_uuid().as_bytes()]).unwrap();
    assert!(look(&mut store, before).contains(&id));
    let later = now().saturating_add(Duration::from_secs(1));
    set("payload = x'00'", timers[0].id);
    let ids = [id, timers[0].id];
    let Outcome::Claimed { records, .. } = store.apply(&[claim(&ids)], later).unwrap().pop().unwrap().unwrap() else {
        panic!("not a claim")
    };
    assert_eq!(records.len(), 2, "what is changed by hand is meant");
}

#[test]
fn an_impossible_budget_by_hand_hides_no_other_timer() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let timers = [record(1, 10), record(2, 20), record(3, 30)];
    timers.iter().for_each(|timer| _ = store.apply(&[put(timer)], at(0)).unwrap());
    let hand = by_hand(directory.path());
    for (budget, timer) in [(-1_i64, &timers[0]), (5_000_000_000, &timers[1])] {
        let id = timer.id.as_uuid();
        hand.execute("UPDATE timers SET max_attempts = ?1 WHERE id = ?2", (budget, id.as_bytes())).unwrap();
    }
    assert!(look(&mut store, at(0)).contains(&timers[2].id));
    for timer in &timers {
        assert_eq!(store.apply(&[Op::Cancel(timer.id)], at(0)).unwrap().pop().unwrap().unwrap(), Outcome::Deleted);
    }
}

#[test]
fn a_reader_of_the_log_is_seen_and_holds_up_no_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let put_some = |store: &mut EmbeddedStore, first: u64| {
        _ = apply(store, &puts(first..first + 10, 100_000)).unwrap();
    };
    let hand = by_hand(directory.path());
    put_some(&mut store, 0);
    hand.execute_batch("BEGIN; SELECT count(*) FROM timers").unwrap();
    // Beyond the size at which a checkpoint holds the writer up.
    (1..40).for_each(|round| put_some(&mut store, round * 10));
    let until = |is_held: bool| {
        let begun = std::time::Instant::now();
        while store.gauges().log_held.is_zero() == is_held {
            assert!(begun.elapsed() < support::PATIENCE, "{:?}", store.gauges());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(true);
    assert!(store.gauges().log_bytes > 39_000_000, "{:?}", store.gauges());
    hand.execute_batch("COMMIT").unwrap();
    until(false);
}

#[test]
fn a_running_service_delivers_what_is_made_due_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    support::in_real_time(async {
        let (sender, mut handled) = unbounded_channel();
        let store = EmbeddedStore::open(directory.path()).unwrap();
        let shop = handled_by::<Note>(async move |_| {
            sender.send(()).unwrap();
            Ok(())
        });
        let timers = DurableTimers::builder(store).route("shop", shop).start().unwrap();
        let tomorrow = Duration::from_secs(86_400);
        timers.schedule_after("shop", tomorrow, Note(1)).await.unwrap();
        let hand = by_hand(directory.path());
        // Also right after the start.
        for _ in 0..2 {
            assert_eq!(hand.execute("UPDATE timers SET due = 1", ()).unwrap(), 1);
            tokio::time::timeout(support::PATIENCE, handled.recv()).await.expect("it is noticed").unwrap();
            timers.schedule_after("shop", tomorrow, Note(1)).await.unwrap();
            while timers.counts().await.unwrap().pending > 1 {}
        }
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_damaged_row_is_parked_and_harms_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let timers: Vec<_> = (0..5).map(|number| record(number, 0)).collect();
    timers.iter().for_each(|timer| _ = store.apply(&[put(timer)], at(0)).unwrap());
    drop(store);
    let hand = by_hand(directory.path());
    // As a bit that has changed on the disk: no trigger notices.
    hand.execute_batch("DROP TRIGGER by_hand_content").unwrap();
    let damage = |sql: &str, number: usize| {
        hand.execute(&format!("UPDATE timers SET {sql} WHERE id = ?1"), [timers[number].id.as_uuid().as_bytes()])
            .unwrap();
    };
    damage("payload = x'00'", 1);
    damage("headers = '{'", 2);
    damage("headers = '{', crc = NULL", 3);
    damage("message_type = CAST(x'ff' AS TEXT)", 4);
    drop(hand);
    assert_eq!(EmbeddedStore::integrity_check(directory.path()).unwrap().len(), 4);
    let mut store = open(directory.path()).unwrap();
    let page = store.list(&Query::of(Part::Pending)).unwrap();
    assert_eq!((page.found.len(), page.damaged), (1, 4));
    let error = store.get(timers[1].id).unwrap_err();
    assert!(matches!(&error, StoreError::Unreadable { reason, .. } if reason.contains("differs")), "{error}");
    let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
    let later = now().saturating_add(Duration::from_secs(1));
    let outcome = store.apply(&[claim(&ids)], later).unwrap().pop().unwrap().unwrap();
    let Outcome::Claimed { records, damaged, .. } = outcome else { panic!("not a claim") };
    assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), ids[..1]);
    assert_eq!(damaged, ids[1..]);
    assert_eq!(store.counts(None).unwrap().parked, 4);
    assert_eq!(store.apply(&[Op::Cancel(ids[4])], later).unwrap().pop().unwrap().unwrap(), Outcome::Deleted);
    assert_eq!(store.get(ids[0]).unwrap().unwrap().state, State::InFlight);
}

#[test]
fn a_constraint_of_an_operator_refuses_only_its_violations() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    by_hand(directory.path()).execute_batch("CREATE UNIQUE INDEX mine ON timers (payload)").unwrap();
    let same = Record { payload: record(1, 0).payload, ..record(2, 0) };
    let outcomes = store.apply(&[put(&record(1, 0)), put(&same), put(&record(3, 0))], at(0)).unwrap();
    assert!(outcomes[0].is_ok() && matches!(outcomes[1], Err(StoreError::Rejected(_))) && outcomes[2].is_ok());
    assert_eq!(store.counts(None).unwrap().pending, 2);
}

#[test]
fn a_refused_change_leaves_the_effects_of_its_group() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    store.transaction(|connection| connection.execute_batch("CREATE TABLE effects (number INTEGER)")).unwrap();
    by_hand(directory.path()).execute_batch("CREATE UNIQUE INDEX mine ON timers (payload)").unwrap();
    let (timer, other) = (record(1, 0), record(2, 0));
    let delivery = Delivery { attempt: 1, ..timer.delivery() };
    store.apply(&[put(&timer), put(&other), claim(&[timer.id])], at(0)).unwrap();
    let effect = Effect::new(|connection| connection.execute("INSERT INTO effects VALUES (1)", ()).is_ok());
    let same = Record { payload: other.payload, ..record(3, 0) };
    let outcomes = store.apply(&[Op::EndWith(delivery, Next::Delete, effect), put(&same)], at(0)).unwrap();
    assert!(matches!(outcomes[..], [Ok(Outcome::Ended { .. }), Err(StoreError::Rejected(_))]), "{outcomes:?}");
    let count =
        |connection: &Connection| connection.query_row("SELECT count(*) FROM effects", (), |row| row.get::<_, i64>(0));
    assert_eq!(store.transaction(count).unwrap(), 1);
}

/// Makes the index of keys lack all entries, as a damaged page of it does.
fn empty_index(path: &Path) {
    let rewrite = |from: &str, to: &str| {
        let sql = format!("UPDATE sqlite_schema SET sql = replace(sql, '{from}', '{to}') WHERE name = 'keys'");
        by_hand(path).execute_batch(&format!("PRAGMA writable_schema = ON; {sql}")).unwrap();
    };
    rewrite("WHERE key IS NOT NULL", "WHERE key IS NULL AND node = 77");
    by_hand(path).execute_batch("REINDEX keys").unwrap();
    rewrite("WHERE key IS NULL AND node = 77", "WHERE key IS NOT NULL");
}

#[test]
fn a_timer_that_an_index_lacks_fails_the_store_and_holds_up_no_other_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let keyed = Record { key: Some("k".into()), ..record(1, 0) };
    store.apply(&[put(&keyed), put(&record(2, 0))], at(0)).unwrap();
    drop(store);
    empty_index(directory.path());
    let mut store = open(directory.path()).unwrap();
    let cancels = [Op::Cancel(record(2, 0).id), Op::Cancel(keyed.id)];
    assert!(matches!(store.apply(&cancels, at(0)), Err(StoreError::Unavailable(_))));
    assert!(matches!(store.apply(&cancels, at(0)), Err(StoreError::Failed(_))));
}

#[test]
fn a_timer_is_found_at_each_moment_of_its_requeue() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let timer = record(1, 0);
    store.apply(&[put(&timer)], at(0)).unwrap();
    let mut reader = store.reader().unwrap().unwrap();
    thread::scope(|scope| {
        let requeues = scope.spawn(|| {
            for _ in 0..200 {
                let delivery = Delivery { attempt: 1, ..timer.delivery() };
                let dead = Next::Dead { reason: "no".into(), then: None };
                let ops = [claim(&[timer.id]), Op::End(delivery, dead), Op::Requeue(timer.id)];
                ops.into_iter().for_each(|op| assert!(store.apply(&[op], at(0)).unwrap()[0].is_ok()));
            }
        });
        while !requeues.is_finished() {
            assert!(reader.get(timer.id).unwrap().is_some());
        }
    });
}

#[test]
fn a_damaged_database_is_reported_and_never_answers_wrongly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = open(&path).unwrap();
    let ops: Vec<_> = (0..500).map(|number| put(&record(number, 0))).collect();
    store.apply(&ops, at(0)).unwrap();
    drop(store);
    let database = path.join("timers.db");
    let original = fs::read(&database).unwrap();
    let pages = original.len() / 2048;
    let mut random = schemes::random::Random::new(u64::from(std::process::id()));
    let mut found_by_looks = 0;
    for trial in 0..40 {
        let mut bytes = original.clone();
        let page = 3 + random.index(pages - 3);
        // A whole page, or a bit in it, which may be one that nothing uses.
        if trial % 3 == 0 {
            bytes[page * 2048..(page + 1) * 2048].iter_mut().for_each(|byte| *byte ^= 0x5a);
        } else {
            bytes[page * 2048 + random.index(2048)] ^= 1 << random.index(8);
        }
        fs::write(&database, bytes).unwrap();
        let issues = EmbeddedStore::integrity_check(&path);
        assert!(trial % 3 > 0 || issues.as_ref().map_or(true, |issues| !issues.is_empty()), "page {page}");
        let Ok(mut store) = open(&path) else { continue };
        let write = |store: &mut EmbeddedStore| store.apply(&ops, at(0)).map(drop);
        // The first error opens the files anew and checks them; then the store has failed for good.
        if try_look(&mut store, DueTime::MIN).is_err() {
            assert!(matches!(try_look(&mut store, DueTime::MIN), Err(StoreError::Failed(_))));
            assert!(matches!(write(&mut store), Err(StoreError::Failed(_))));
            found_by_looks += 1;
        } else if write(&mut store).is_err() {
            assert!(matches!(write(&mut store), Err(StoreError::Failed(_))));
            assert!(matches!(write(&mut store), Err(StoreError::Failed(_))));
        }
        drop(store);
        let Ok(mut store) = open(&path) else { continue };
        for number in 0..500 {
            if let Ok(Some(found)) = store.get(record(number, 0).id) {
                // The sum of a row has no columns that change.
                let progress = found.record.progress;
                assert_eq!(*found.record, Record { progress, ..record(number, 0) });
            }
        }
    }
    assert!(found_by_looks > 0);
}

#[test]
fn a_route_changed_by_hand_leads_to_its_recipient() {
    let directory = tempfile::tempdir().unwrap();
    support::in_real_time(async {
        let (sender, mut handled) = unbounded_channel();
        let worker = |route| {
            let sender = sender.clone();
            handled_by::<Note>(async move |note| {
                sender.send((route, note.attempt)).unwrap();
                Ok(())
            })
        };
        let store = EmbeddedStore::open(directory.path()).unwrap();
        let builder = DurableTimers::builder(store).route("a", worker("a")).route("b", worker("b"));
        let timers = builder.start().unwrap();
        timers.schedule_after("a", Duration::from_millis(200), Note(1)).await.unwrap();
        assert_eq!(by_hand(directory.path()).execute("UPDATE timers SET route = 'b'", ()).unwrap(), 1);
        let first = tokio::time::timeout(support::PATIENCE, handled.recv()).await.expect("it is delivered");
        assert_eq!(first.unwrap().0, "b");
        timers.stop().await.unwrap();
    });
}

#[test]
fn a_check_of_no_store_creates_none() {
    let directory = tempfile::tempdir().unwrap();
    let typo = directory.path().join("typo");
    for path in [&typo, directory.path()] {
        assert!(matches!(EmbeddedStore::integrity_check(path), Err(StoreError::Foreign { .. })));
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_kept_key_is_out_of_the_way_of_looks() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    let keep = Duration::from_secs(60);
    let timer = Record { keep_key: Some(keep), key: Some("k".into()), ..record(1, 0) };
    let ids = [timer.id];
    let outcomes = store.apply(&[put(&timer), claim(&ids)], at(0)).unwrap();
    let Some(Ok(Outcome::Claimed { records, .. })) = outcomes.into_iter().nth(1) else { panic!("it is a claim") };
    _ = apply(&mut store, &[Op::End(records[0].delivery(), Next::KeepKey(keep))]).unwrap();
    let early = "SELECT count(*) FROM timers WHERE moved OR id < x'FFFFFFFFFFFF'";
    assert_eq!(by_hand(directory.path()).query_row(early, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
    let again = Record { key: Some("k".into()), ..record(2, 0) };
    let outcome = store.apply(&[put(&again)], at(1)).unwrap().remove(0).unwrap();
    assert_eq!(outcome, Outcome::Put(vec![Placed::Exists(timer.id)]));
}

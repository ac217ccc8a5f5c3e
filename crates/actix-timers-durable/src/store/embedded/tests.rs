//! Statements use the indexes that they are meant to use, whether the tables are empty, large or analyzed.

use rusqlite::Connection;

use super::{EmbeddedStore, changes, claims, columns, pauses, place, queries};
use crate::store::{Claim, Delivery, Filter, Next, NodeInfo, Op, Outcome, Part, Query, Reads, Served, Store, Suspects};
use crate::{DueTime, DurableId};

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    for number in 1..=count {
        statement.raw_bind_parameter(number, 1).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut lines = vec![];
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get(3).unwrap());
    }
    lines
}

fn check(connection: &Connection, state: &str) {
    let by_id = "USING PRIMARY KEY (id=?)";
    let mut expected: Vec<(&str, &str)> = vec![];
    expected.extend(changes::per_timer().map(|sql| (sql, by_id)));
    expected.extend(claims::per_timer().map(|sql| (sql, by_id)));
    expected.extend([&queries::GET, &queries::GET_DEAD, pauses::PARK].map(|sql| (sql, by_id)));
    expected.extend([changes::HOLDER, queries::FIND_KEY].map(|sql| (sql, "USING INDEX keys (route=? AND key=?)")));
    expected.extend([&*queries::LOOK[0], &queries::PENDING[0]].map(|sql| (sql, "USING PRIMARY KEY (id>? AND id<?)")));
    expected.extend(
        [&*queries::LOOK[1], &queries::PENDING[1]].map(|sql| (sql, "USING INDEX moved ((due,id)>(?,?) AND due<?)")),
    );
    expected.push((queries::PARKED, "USING INDEX parked ((due,id)>(?,?) AND due<?)"));
    expected.push((queries::DEAD, "INDEX letters_by_due ((due,id)>(?,?) AND due<?)"));
    expected.push((changes::DISCARD_OLDER, "INDEX letters_by_age (dead_at<?)"));
    expected.extend([changes::EXPIRED, changes::EXPIRE].map(|sql| (sql, "USING INDEX ended (keep_until<?)")));
    expected.push((changes::DISCARD_PAST, "USING COVERING INDEX past_by_end (route=? AND finished<?)"));
    expected.push((queries::PAST, "USING INDEX past_by_end (route=? AND (finished,id)>(?,?) AND finished<?)"));
    expected.push((queries::PAST_OF, by_id));
    expected.push((queries::GET_PAST, "USING PRIMARY KEY (id=? AND repetition=?)"));
    expected.push((queries::PAST_ROUTES, "USING COVERING INDEX past_by_end"));
    expected.push((&claims::BLAMED, "USING INDEX alone"));
    expected.push((claims::PARKED, "USING INDEX parked"));
    for (sql, index) in expected {
        let lines = plan(connection, sql);
        let is_bad =
            |line: &String| line.contains("TEMP B-TREE") || line.starts_with("SCAN") && !line.contains("SCAN node");
        let may_scan = [&**claims::BLAMED, claims::PARKED, queries::PAST_OF, queries::PAST_ROUTES].contains(&sql);
        assert!(may_scan || !lines.iter().any(is_bad), "{state}: {sql}: {lines:?}");
        assert!(lines.iter().any(|line| line.contains(index)), "{state}: {sql}: {lines:?}");
    }
}

#[test]
fn every_statement_uses_its_index() {
    let mut connection = place::create_database(":memory:".as_ref()).unwrap();
    place::prepare(&mut connection).unwrap();
    check(&connection, "empty");
    // Most are pending; of the others more than of any service.
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
        INSERT INTO timers (id, due, moved, nominal, node, alone, parked, route, message_type, key, payload)
        SELECT unhex(printf('%012X8000%016X', n, n)), iif(n % 3, n, n + 7), n % 3 = 0, n, iif(n % 5, NULL, 1), n % 50 = 0,
               iif(n % 7, NULL, 'why'), 'route' || n % 3, 'type', iif(n % 2, 'k' || n, NULL), zeroblob(100) FROM numbers;
        INSERT INTO dead_letters (id, due, nominal, attempt, used, repetition, route, message_type, message_version, reason,
                                  dead_at, payload)
        SELECT id, due, nominal, 1, 1, 1, route, message_type, 1, 'why', due, payload FROM timers WHERE nominal % 2;
        INSERT INTO past (id, repetition, route, message_type, message_version, attempt, nominal, finished, took_ms, outcome)
        SELECT id, 1, route, message_type, 1, 1, nominal, due, 1, 'complete' FROM timers;
        UPDATE timers SET ended = due, keep_until = due WHERE nominal % 11 = 0;";
    connection.execute_batch(fill).unwrap();
    check(&connection, "filled");
    connection.execute_batch("ANALYZE").unwrap();
    check(&connection, "analyzed");
    connection.execute_batch("DELETE FROM timers; DELETE FROM dead_letters; DELETE FROM past; ANALYZE").unwrap();
    check(&connection, "emptied");
}

#[test]
fn a_damaged_timer_that_ended_its_process_is_parked() {
    let mut store = EmbeddedStore::in_memory().unwrap();
    store.join(&NodeInfo::default(), DueTime::MIN).unwrap();
    let damaged = "INSERT INTO timers (id, due, nominal, node, alone, attempt, used, crc, route, message_type, payload)
        SELECT unhex(printf('%012X8000%016X', 1, 1)), 1, 1, number, 1, 1, 1, 7, 'route', 'type', x'00' FROM node";
    store.connection().unwrap().execute(damaged, ()).unwrap();
    let beat = store.join(&NodeInfo::default(), DueTime::MIN).unwrap();
    assert_eq!(beat.blamed, []);
    let counts = store.counts(None).unwrap();
    assert_eq!((counts.pending, counts.parked), (0, 1));
    let mark = "SELECT count(*) FROM timers WHERE alone OR node IS NOT NULL";
    assert_eq!(store.connection().unwrap().query_row(mark, (), |row| row.get::<_, i64>(0)), Ok(0));
}

#[test]
fn returned_pages_are_no_change_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::open(directory.path().join("store")).unwrap();
    store.join(&NodeInfo::default(), DueTime::MIN).unwrap();
    let connection = store.connection().unwrap();
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
        INSERT INTO timers (id, due, nominal, route, message_type, payload)
        SELECT unhex(printf('%012X8000%016X', n, n)), n, n, 'route', 'type', zeroblob(1000) FROM numbers;
        DELETE FROM timers;";
    connection.execute_batch(fill).unwrap();
    let free = |store: &mut EmbeddedStore| {
        let connection = store.connection().unwrap();
        connection.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = free(&mut store);
    let mut beats = 0;
    // All above the spare ones.
    while free(&mut store) > 4096 {
        assert!(!store.beat(&[], DueTime::MIN).unwrap().looks_begin_anew);
        // A checkpoint, too, is none.
        store.checkpoints.iter().for_each(super::Checkpoints::begin);
        beats += 1;
        assert!(beats < 100, "{before} pages were free");
    }
    assert!(beats > 1, "{before} pages were free");
    // Another connection's commit is one.
    let by_hand = rusqlite::Connection::open(directory.path().join("store/timers.db")).unwrap();
    by_hand.execute("UPDATE node SET name = 'by hand'", ()).unwrap();
    assert!(store.beat(&[], DueTime::MIN).unwrap().looks_begin_anew);
}

#[test]
fn pages_of_mostly_unwanted_rows_miss_nothing() {
    let mut store = EmbeddedStore::in_memory().unwrap();
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 30000)
        INSERT INTO timers (id, due, moved, nominal, route, message_type, key, payload)
        SELECT unhex(printf('%012X80008%015X', n, n)), n + 7 * (n % 3 = 0), n % 3 = 0, n, 'a', 'type', (n % 1000) || '-' || n, x''
        FROM numbers;
        INSERT INTO past (id, repetition, route, message_type, message_version, key, attempt, nominal, finished,
            took_ms, outcome, errors)
        SELECT id, 1, iif(moved, 'a', 'b'), message_type, 1, key, 1, nominal, due, 1, 'dead', 'by hand' FROM timers;";
    store.connection().unwrap().execute_batch(fill).unwrap();
    for part in [Part::Pending, Part::Past] {
        let (mut query, mut found) = (Query { key_prefix: Some("0-".into()), ..Query::of(part) }, vec![]);
        loop {
            let page = store.list(&query).unwrap();
            found.extend(page.found.iter().map(|found| found.record.progress.nominal.as_millis()));
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(found, (1..=30).map(|number| number * 1000).collect::<Vec<_>>(), "{part:?}");
    }
}

#[test]
fn a_list_passes_over_a_bounded_number_of_moved_and_parked_rows() {
    let mut store = EmbeddedStore::in_memory().unwrap();
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 60001)
        INSERT INTO timers (id, due, moved, nominal, route, message_type, payload, parked)
        SELECT unhex(printf('%012X80008%015X', n, n)), n + 100000 * (n < 60000), n < 60000, n, 'a', 'type', x'',
            iif(n % 2 = 1 AND n < 60000, 'x', NULL) FROM numbers";
    store.connection().unwrap().execute_batch(fill).unwrap();
    let (mut query, mut pages, mut found) = (Query { limit: 100, ..Query::of(Part::Pending) }, 0, vec![]);
    loop {
        let page = store.list(&query).unwrap();
        pages += 1;
        found.extend(page.found.iter().map(|found| found.record.progress.due));
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 30_001);
    assert!(found.is_sorted());
    assert!((306..320).contains(&pages), "{pages} pages: one passes over 10000 rows");
}

#[test]
fn a_sweep_whose_reply_was_lost_keeps_what_runs() {
    let mut store = EmbeddedStore::in_memory().unwrap();
    let served = Served { index: 0, route: "a".into(), message_type: "t".into(), version: 1, max_attempts: 10 };
    store.join(&NodeInfo { name: "n".into(), serves: Filter { served: vec![served] } }, DueTime::MIN).unwrap();
    let now = DueTime::from_millis(10).unwrap();
    let ids = [1, 2].map(|number| DurableId::from_parts(DueTime::MIN, number, 0));
    for id in ids {
        let fill =
            "INSERT INTO timers (id, due, nominal, route, message_type, payload) VALUES (?1, 0, 0, 'a', 't', x'00')";
        store.connection().unwrap().execute(fill, [columns::blob(&id)]).unwrap();
    }
    let claim = Op::Claim(Claim { ids: ids.to_vec(), suspects: Suspects::Left });
    store.apply(std::slice::from_ref(&claim), now).unwrap();
    let running = ids.map(|id| Delivery { id, repetition: 1, attempt: 1 });
    // It is committed, and nobody learns its number.
    assert!(store.write(now, |changes| changes.sweep(&running)).is_ok());
    store.close("a lost reply".to_owned());
    let dead = Next::Dead { reason: "it fails".into(), then: None };
    let outcomes = store.apply(&[Op::End(running[0], dead), Op::Cancel(ids[1])], now).unwrap();
    let [Ok(Outcome::Ended { .. }), Ok(Outcome::InProgress)] = &outcomes[..] else { panic!("{outcomes:?}") };
    let counts = store.counts(None).unwrap();
    assert_eq!((counts.pending, counts.dead), (0, 1));
    assert_eq!(store.beat(&running[2..], now).unwrap().lost, []);
    store.apply(&[Op::Requeue(ids[0]), claim], now).unwrap();
    assert_eq!(store.counts(None).unwrap().pending, 1);
}

#[test]
fn a_change_by_hand_is_noticed_after_a_beat_that_failed() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = EmbeddedStore::open(directory.path()).unwrap();
    store.join(&NodeInfo::default(), DueTime::MIN).unwrap();
    let hand = Connection::open(directory.path().join("timers.db")).unwrap();
    hand.execute_batch("UPDATE node SET name = 'other'").unwrap();
    let sql = |store: &EmbeddedStore, sql| store.connection.as_ref().unwrap().execute_batch(sql).unwrap();
    sql(&store, "CREATE TEMP VIEW pauses AS SELECT 1");
    store.beat(&[], DueTime::MIN).unwrap_err();
    sql(&store, "DROP VIEW temp.pauses");
    let mut looks_begin_anew = || store.beat(&[], DueTime::MIN).unwrap().looks_begin_anew;
    assert_eq!([looks_begin_anew(), looks_begin_anew()], [true, false]);
}

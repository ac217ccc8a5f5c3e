//! Statements use the indexes that they are meant to use, whether the tables are empty, large or analyzed.

use rusqlite::Connection;

use super::{changes, claims, place, queries};

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
    expected.extend(changes::PER_TIMER.map(|sql| (sql, by_id)));
    expected.extend(claims::PER_TIMER.map(|sql| (sql, by_id)));
    expected.extend([queries::GET, queries::GET_DEAD].map(|sql| (sql, by_id)));
    expected.extend([changes::HOLDER, queries::FIND_KEY].map(|sql| (sql, "USING INDEX keys (route=? AND key=?)")));
    expected.extend([queries::LOOK[0], queries::PENDING[0]].map(|sql| (sql, "USING PRIMARY KEY (id>? AND id<?)")));
    expected.extend(
        [queries::LOOK[1], queries::PENDING[1]].map(|sql| (sql, "USING INDEX moved ((due,id)>(?,?) AND due<?)")),
    );
    expected.push((queries::PARKED, "USING INDEX parked ((due,id)>(?,?) AND due<?)"));
    expected.push((queries::DEAD, "INDEX letters_by_due ((due,id)>(?,?) AND due<?)"));
    expected.push((changes::DISCARD_OLDER, "INDEX letters_by_age (dead_at<?)"));
    expected.push((claims::BLAMED, "USING INDEX alone"));
    expected.push((claims::PARKED, "USING INDEX parked"));
    for (sql, index) in expected {
        let lines = plan(connection, sql);
        let is_bad =
            |line: &String| line.contains("TEMP B-TREE") || line.starts_with("SCAN") && !line.contains("SCAN node");
        let may_scan = [claims::BLAMED, claims::PARKED].contains(&sql);
        assert!(may_scan || !lines.iter().any(is_bad), "{state}: {sql}: {lines:?}");
        assert!(lines.iter().any(|line| line.contains(index)), "{state}: {sql}: {lines:?}");
    }
}

#[test]
fn every_statement_uses_its_index() {
    let connection = place::create_database(":memory:".as_ref()).unwrap();
    place::prepare(&connection).unwrap();
    check(&connection, "empty");
    // Most are pending; of the others more than of any service.
    let fill = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
        INSERT INTO timers (id, due, moved, nominal, node, alone, parked, route, message_type, key, payload)
        SELECT unhex(printf('%012X8000%016X', n, n)), iif(n % 3, n, n + 7), n % 3 = 0, n, iif(n % 5, NULL, 1), n % 50 = 0,
               iif(n % 7, NULL, 'why'), 'route' || n % 3, 'type', iif(n % 2, 'k' || n, NULL), zeroblob(100) FROM numbers;
        INSERT INTO dead_letters (id, due, nominal, attempt, used, repetition, route, message_type, message_version, reason,
                                  dead_at, payload)
        SELECT id, due, nominal, 1, 1, 1, route, message_type, 1, 'why', due, payload FROM timers WHERE nominal % 2;";
    connection.execute_batch(fill).unwrap();
    check(&connection, "filled");
    connection.execute_batch("ANALYZE").unwrap();
    check(&connection, "analyzed");
    connection.execute_batch("DELETE FROM timers; DELETE FROM dead_letters; ANALYZE").unwrap();
    check(&connection, "emptied");
}

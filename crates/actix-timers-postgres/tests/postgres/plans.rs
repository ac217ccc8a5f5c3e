//! Each statement reads the rows that it concerns, whatever the table was when it was planned: empty, bloated, or pinned by an old
//! snapshot. Read pages are counted, which shows any other plan.

use std::time::Duration;

use actix_timers_durable::DurableId;
use actix_timers_durable::store::{Next, Op, Record};

use crate::rules::{Node, due_in, timer};
use crate::server::{Session, new_schema, options, statements};
use crate::with_server;

const GROUP: u64 = 64;
const TYPES: &str = "ARRAY['a' || chr(31) || 'Order'], '{2}', '{3}'";
/// The rows of others.
const MANY: u64 = 20_000;

/// A session that has planned the statements while the table was empty, as one of a node.
struct Planner {
    session: Session,
    schema: String,
}

impl Planner {
    fn new(schema: &str) -> Self {
        let session = Session::open();
        session.run(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
            SET plan_cache_mode = force_generic_plan; SET jit = off",
        );
        let planner = Self { session, schema: schema.to_owned() };
        let s = schema;
        planner.session.run(&format!(
            "{statements};
            PREPARE note (bigint, uuid[]) AS SELECT {s}.note($1, $2, array_fill(1::bigint, ARRAY[{GROUP}]), array_fill(1, ARRAY[{GROUP}]),
                array_fill('{{\"took_ms\": 1, \"outcome\": \"dead\", \"error\": \"x\"}}'::jsonb, ARRAY[{GROUP}]));
            PREPARE remove (bigint, uuid[]) AS DELETE FROM {s}.timers t USING (SELECT d.*, $1 AS node FROM unnest($2) AS d(id) OFFSET 0) d
                WHERE t.id = d.id AND t.node IS NOT DISTINCT FROM d.node;
            PREPARE claimed (bigint) AS SELECT * FROM {s}.claimed_by($1, '00000000-0000-8000-8000-000000000000', 0, '00000000-0000-8000-8000-000000000000', 10000);
            PREPARE tidy AS SELECT * FROM {s}.tidy();
            PREPARE cancel (uuid) AS SELECT {s}.cancel($1);
            PREPARE find (text) AS SELECT t.id FROM {s}.timers t WHERE t.route = 'a' AND t.key = $1",
            statements = statements(s)
        ));
        planner
    }

    /// Runs a statement, and returns the pages that it has read.
    fn pages(&self, call: &str) -> i64 {
        let sql = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE {call}");
        let lines: Vec<String> = self.session.query(&sql).iter().map(|row| row.get(0)).collect();
        let buffers =
            lines.iter().find(|line| line.trim_start().starts_with("Buffers:")).unwrap_or_else(|| panic!("{lines:?}"));
        let number = |name: &str| -> i64 {
            let found = buffers.split_whitespace().find_map(|part| part.strip_prefix(name));
            found.map_or(0, |number| number.parse().unwrap())
        };
        number("hit=") + number("read=")
    }

    /// Runs all statements for timers, and returns the pages of each.
    fn all(&self, node: &mut Node, timers: &[Record]) -> Vec<(&'static str, i64)> {
        let ids: Vec<_> = node.put_all(timers.to_vec()).iter().map(DurableId::to_string).collect();
        let (ids, id) = (format!("'{{{}}}'", ids.join(",")), node.store.node());
        let first = timers.iter().map(|timer| timer.progress.due).min().unwrap();
        let before = DurableId::from_parts(first, 0, 0);
        let look =
            format!("look({id}, {TYPES}, '{before}', {first}, '{before}', {}, 64, 3, 1, {first})", due_in(120_000));
        // The first call of a session reads the catalogue of all tables.
        self.pages(&look);
        self.pages("tidy");
        let mut pages = vec![("look", self.pages(&look)), ("tidy", self.pages("tidy"))];
        let clock =
            format!("CREATE OR REPLACE FUNCTION {}.server_now() RETURNS bigint LANGUAGE sql VOLATILE AS", self.schema);
        self.session.run(&format!("{clock} 'SELECT {}'", due_in(200_000)));
        pages.push(("lock", self.pages(&format!("lock_node({id})"))));
        pages.push(("claim", self.pages(&format!("claim({id}, {ids}, {TYPES}, false, false)"))));
        pages.push(("claimed", self.pages(&format!("claimed({id})"))));
        pages.push(("note", self.pages(&format!("note({id}, {ids})"))));
        pages.push(("remove", self.pages(&format!("remove({id}, {ids})"))));
        self.session.run(&format!("{clock} 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'"));
        pages.push(("cancel", self.pages(&format!("cancel('{}')", timers[0].id))));
        pages.push(("find", self.pages("find('no key')")));
        let left = format!("SELECT count(*) FROM {}.timers WHERE due < {}", self.schema, due_in(150_000));
        assert_eq!(self.session.value::<i64>(&left), 0, "all of them are removed");
        pages
    }
}

fn group(first: u64) -> Vec<Record> {
    (0..GROUP).map(|number| timer(first + number, 100_000)).collect()
}

/// Checks that pages are read for the rows concerned only.
fn check(state: &str, pages: &[(&'static str, i64)], beside: i64) {
    println!("{state}: {pages:?}");
    for (statement, read) in pages {
        let most = match *statement {
            // Index and row, a version of it, the visibility of the old one, the toast of none.
            "claim" => 40 * GROUP.cast_signed(),
            // A version of the row, and a row of the past with its indices.
            "note" => 60 * GROUP.cast_signed(),
            "remove" | "look" => 20 * GROUP.cast_signed(),
            "claimed" => 20 * GROUP.cast_signed() + beside,
            _ => 60,
        };
        assert!(*read <= most, "{state}: {statement} read {read} pages, not up to {most}");
    }
}

with_server! {
    fn statements_read_only_the_rows_concerned_in_any_table() {
        let (schema, session) = (new_schema(), Session::open());
        // It does not beat.
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        session.run(&format!("ALTER TABLE {schema}.timers SET (autovacuum_enabled = off)"));
        session.run(&format!("VACUUM (ANALYZE) {schema}.timers"));
        let planner = Planner::new(&schema);
        check("empty", &planner.all(&mut node, &group(1)), 0);
        // Timers of others, due tomorrow; half of them moved there, some parked, some with keys.
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload, key, parked)
            SELECT overlay({schema}.first_id({due} + i)::text PLACING lpad(to_hex(i), 12, '0') FROM 25)::uuid, {due} + i, i % 2 = 0, 0,
                'a', 'Order', '', CASE WHEN i % 5 = 0 THEN i::text END, CASE WHEN i % 7 = 0 THEN 'x' END
            FROM generate_series(1, {MANY}) AS i", due = due_in(86_400_000)
        ));
        check("grown", &planner.all(&mut node, &group(1000)), 0);
        // Dead versions of timers that were due, which a snapshot pins.
        let pinned = Session::open();
        pinned.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
        for round in 0..20 {
            let ids = node.put_all((0..1000).map(|number| timer(10_000 + round * 1000 + number, -1000)));
            let claimed = node.claim(&ids);
            node.try_apply(&claimed.iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect::<Vec<_>>());
        }
        // The search for claims begins at the beginning, and so reads the pinned rows.
        check("pinned", &planner.all(&mut node, &group(2000)), 300_000);
        pinned.run("COMMIT");
        check("bloated", &planner.all(&mut node, &group(3000)), 300_000);
        session.run(&format!("ANALYZE {schema}.timers"));
        check("analyzed", &planner.all(&mut node, &group(4000)), 300_000);
    }
}

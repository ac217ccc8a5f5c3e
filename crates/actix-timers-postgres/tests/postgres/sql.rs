//! The functions for users, wrong servers, and defaults that are not ours.

use std::time::Duration;

use actix_timers_durable::store::{
    Look, Looked, Next, NodeInfo, OnKey, Op, Outcome, Placed, Reads, Record, State, Store,
};
use actix_timers_durable::{DueTime, DurableId, Missed, RepeatMode};
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};
use support::store::{new, put, serving};

use crate::rules::{Node, keyed, timer};
use crate::server::{Session, address, connect, connect_to, new_schema, node, options, until};
use crate::with_server;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the address for another role.
fn as_role(role: &str) -> String {
    address().replace("timers@", &format!("{role}@"))
}

with_server! {
    fn schedule_takes_every_option() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let row = &session.query(&format!(
            r#"SELECT id::text, outcome FROM {schema}.schedule('a', 'Order', '{{"order": 8}}'::jsonb, now() + interval '1 hour',
                key => 'k', message_version => 2, headers => '{{"tenant": "8"}}', max_attempts => 4,
                retry => '{{"initial_ms": 5, "jitter_percent": 0}}',
                repeat => '{{"every_ms": 60000, "missed": "burst", "times": 3}}', codec => 'json')"#
        ))[0];
        assert_eq!(row.get::<_, &str>(1), "created");
        let id: DurableId = row.get::<_, &str>(0).parse().unwrap();
        let found = node.store.get(id).unwrap().unwrap().record;
        assert_eq!((&*found.payload, &*found.route, found.message_version), (&br#"{"order": 8}"#[..], "a", 2));
        assert_eq!((found.key.as_deref(), found.max_attempts, found.payload_codec.as_deref()), (Some("k"), Some(4), Some("json")));
        assert_eq!(found.headers.iter().collect::<Vec<_>>(), [("tenant", "8")]);
        let repeat = found.repeat.clone().unwrap();
        let period = Duration::from_secs(60);
        assert_eq!((repeat.mode, repeat.times), (RepeatMode::FixedRate { period, missed: Missed::Burst }, Some(3)));
        assert!(found.retry.is_some() && found.progress.due == id.first_due());
        let outcome = |replace| {
            let sql = format!("SELECT outcome, coalesce(other, id)::text FROM {schema}.schedule('a', 'Order', ''::bytea, now(), key => 'k', replace => {replace})");
            let row = &session.query(&sql)[0];
            (row.get::<_, String>(0), row.get::<_, String>(1))
        };
        assert_eq!(outcome(false), ("exists".to_owned(), id.to_string()));
        assert_eq!(outcome(true), ("replaced".to_owned(), id.to_string()));
        let held = node.store.find_key("a", "k").unwrap().unwrap();
        node.claim(&[held]);
        assert_eq!(outcome(true), ("replaced_in_progress".to_owned(), held.to_string()));
        let held = node.store.find_key("a", "k").unwrap().unwrap();
        for expected in ["cancelled", "not_found"] {
            assert_eq!(session.value::<String>(&format!("SELECT {schema}.cancel('{held}')")), expected);
        }
    }

    fn schedule_takes_fixed_delay_spread_and_jitter() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        for (json, mode, jitter) in [
            (r#"{"delay_ms": 60000, "spread": true}"#, RepeatMode::FixedDelay { delay: MINUTE, spread: true }, None),
            (r#"{"delay_ms": 60000, "spread": false, "jitter_ms": 59999}"#, RepeatMode::FixedDelay { delay: MINUTE, spread: false }, Some(59_999)),
            (r#"{"every_ms": 60000, "jitter_ms": 50000}"#, RepeatMode::FixedRate { period: MINUTE, missed: Missed::Skip }, Some(50_000)),
            (r#"{"cron": "0 9 * * *", "zone": "UTC", "jitter_ms": 3600000}"#, RepeatMode::Cron { expression: "0 9 * * *".into(), zone: "UTC".into() }, Some(3_600_000)),
        ] {
            let mut jitters = Vec::new();
            for _ in 0..20 {
                let id = session.value::<String>(&format!(
                    "SELECT id::text FROM {schema}.schedule('a', 't', ''::bytea, '2100-01-01 00:00Z', repeat => '{json}')"
                ));
                let found = node.store.get(id.parse().unwrap()).unwrap().unwrap().record;
                let repeat = found.repeat.clone().unwrap();
                assert_eq!((repeat.mode, repeat.jitter), (mode.clone(), jitter.map(Duration::from_millis)));
                assert_eq!(found.progress.nominal.as_millis(), 4_102_444_800_000, "it keeps its grid");
                assert_eq!(found.progress.due, found.id.first_due());
                jitters.push(found.progress.due.as_millis() - found.progress.nominal.as_millis());
            }
            let most = jitter.unwrap_or(0);
            assert!(jitters.iter().all(|jitter| *jitter <= most), "{jitters:?}");
            assert!(jitters.iter().max().unwrap() - jitters.iter().min().unwrap() >= most / 4, "{jitters:?}");
        }
        // At the end of all times.
        session.run(&format!(
            "SELECT {schema}.schedule('a', 't', ''::bytea, to_timestamp(70368744177.663), repeat => '{{\"every_ms\": 100000, \"jitter_ms\": 99999}}')"
        ));
    }

    fn what_no_node_could_deliver_is_refused_at_the_door() {
        let (schema, session) = (new_schema(), Session::open());
        let _node = Node::join(&schema);
        let at = "now() + interval '1 hour'";
        let refuse = |arguments: &str, part: &str| {
            let error = session.error(&format!("SELECT {schema}.schedule({})", arguments.replace('@', at)));
            assert!(error.contains(part), "{arguments:.60}: {error}");
        };
        for (arguments, part) in [
            ("'a', repeat('t', 2705), ''::bytea, @", "message type"),
            ("'', 't', ''::bytea, @", "route"),
            (r"'a', E't\n', ''::bytea, @", "control characters"),
            (r"'a', E't\0', ''::bytea, @", "0x00"),
            ("'a', 't', ''::bytea, 'infinity'", "4199"),
            ("'a', 't', ''::bytea, '9000-01-01'", "4199"),
            ("'a', 't', ''::bytea, '-infinity'", "4199"),
            ("'a', 't', NULL::bytea, @", "null"),
            (r#"'a', 't', '{"a": '::jsonb, @"#, "json"),
            (r#"'a', 't', '"\u0000"'::jsonb, @"#, "Unicode"),
            ("'a', 't', ''::bytea, @, message_version => -1", "version"),
            ("'a', 't', ''::bytea, @, max_attempts => 0", "budget"),
            ("'a', 't', ''::bytea, @, key => repeat('k', 513)", "key"),
            ("'a', 't', decode(repeat('00', 1048577), 'hex'), @", "bytes"),
        ] {
            refuse(arguments, part);
        }
        for (option, values) in [
            ("headers", &["[1]", r#"{"a": 1}"#][..]),
            ("retry", &[r#"{"x": 1}"#, r#"{"initial_ms": -1}"#]),
            ("repeat", &[
                "{}", r#"{"every_ms": 1.5}"#, r#"{"every_ms": 1, "cron": "* * * * *", "zone": "UTC"}"#,
                r#"{"cron": "* * * * *"}"#, r#"{"every_ms": 1.0}"#, r#"{"every_ms": 9, "delay_ms": 9}"#, r#"{"delay_ms": 0}"#,
                r#"{"delay_ms": 9, "missed": "skip"}"#, r#"{"delay_ms": 9, "spread": 1}"#, r#"{"every_ms": 9, "spread": true}"#,
                r#"{"delay_ms": 9, "jitter_ms": 0}"#, r#"{"delay_ms": 9, "jitter_ms": 9}"#, r#"{"every_ms": 9, "jitter_ms": 10}"#,
                r#"{"jitter_ms": 9}"#, r#"{"delay_ms": "9"}"#, r#"{"delay_ms": 9, "until_ms": 9}"#,
            ]),
        ] {
            for value in values {
                let part = if value.contains("until_ms") { "until_ms" } else { option };
                refuse(&format!("'a', 't', ''::bytea, @, {option} => '{value}'"), part);
            }
        }
        // The largest one that a request to a node may have.
        let large = |bytes: usize| format!("'a', 't', decode(repeat('00', {bytes}), 'hex'), @, headers => jsonb_build_object('h', repeat('\"', 16383))");
        let largest = (1 << 20) - (16 << 10) - 2;
        session.run(&format!("SELECT {schema}.schedule({})", large(largest).replace('@', at)));
        refuse(&large(largest + 1), "bytes");
        refuse("'a', 't', ''::bytea, @, headers => jsonb_build_object('h', repeat('x', 16384))", "headers");
        // The past is now.
        session.run(&format!("SELECT {schema}.schedule('a', 't', ''::bytea, '1900-01-01')"));
    }

    fn a_timer_made_claimable_by_hand_is_found_by_later_looks() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        for (number, away, back) in [
            (1, "parked = 'paused by ops'", "parked = NULL"),
            (2, "route = 'elsewhere'", "route = 'a'"),
            (3, "message_type = 'Other'", "message_type = 'Order'"),
            (4, "message_version = 1000", "message_version = 1"),
        ] {
            let timer = timer(number, -60_000);
            node.put(&timer);
            let update = |set| session.run(&format!("UPDATE {schema}.timers SET {set} WHERE id = '{}'", timer.id));
            update(away);
            assert_eq!(node.look(None), [], "{away}");
            let passed = node.look_after_now();
            update(back);
            assert_eq!(node.look(Some(passed)), [timer.id], "{back}");
            // One that is with its handler stays where the release of its node finds it.
            let delivery = node.claim(&[timer.id])[0];
            let due = node.state(timer.id).unwrap().1.due;
            update(away);
            update(back);
            assert_eq!(node.state(timer.id).unwrap().1.due, due);
            assert_eq!(node.apply(Op::End(delivery, Next::Delete)), Outcome::Ended { due: None });
        }
    }

    fn a_row_with_an_id_of_a_hand_is_refused() {
        let (schema, session) = (new_schema(), Session::open());
        drop(Node::join(&schema));
        for (moved, id) in [
            (true, "gen_random_uuid()".to_owned()),
            (false, "gen_random_uuid()".to_owned()),
            (false, format!("overlay({schema}.first_id(1)::text PLACING '0' FROM 20)::uuid")),
        ] {
            let error = session.error(&format!(
                "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload)
                VALUES ({id}, 1, {moved}, 1, 'a', 'Order', '')"
            ));
            assert!(error.contains("timers_id_check"), "{error}");
        }
    }

    fn a_look_goes_on_behind_rows_whose_due_time_a_hand_has_written() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, nominal, route, message_type, payload)
            SELECT {schema}.first_id({schema}.server_now() + g), 5, 5, 'other', 'Order', '' FROM generate_series(1, 9) g"
        ));
        let ids = node.put_all([timer(1, 60_000)]);
        let mut look = Look { after: None, until: DueTime::MAX, filter: serving(&["a"]), limit: 3, share: None };
        let mut found = Vec::new();
        for _ in 0..4 {
            let Looked { hints, rest, .. } = node.store.look(&look, DueTime::MIN)().unwrap();
            found.extend(hints.iter().map(|hint| hint.id));
            look.after = rest;
        }
        assert_eq!((found, look.after), (ids, None));
    }

    fn a_look_ends_after_a_number_of_rows_and_goes_on_behind_them() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let timers: Vec<_> = (0..30).map(|number| timer(number, 60_000 + i64::from(number as u32))).collect();
        timers.iter().for_each(|timer| node.put(timer));
        let update = |set, numbers: std::ops::Range<usize>| {
            let [first, last] = [numbers.start, numbers.end - 1].map(|number| timers[number].id);
            session.run(&format!("UPDATE {schema}.timers SET {set} WHERE id BETWEEN '{first}' AND '{last}'"));
        };
        update("parked = 'x'", 0..5);
        update("route = 'other'", 5..10);
        update("node = 1", 10..14);
        let pending: Vec<_> = timers[14..].iter().map(|timer| timer.id).collect();
        for _ in 0..2 {
            let mut look = Look { after: None, until: DueTime::MAX, filter: serving(&["a"]), limit: 3, share: None };
            let (mut found, mut looks) = (Vec::new(), 0);
            loop {
                let Looked { hints, rest, .. } = node.store.look(&look, DueTime::MIN)().unwrap();
                found.extend(hints.iter().map(|hint| hint.id));
                looks += 1;
                let Some(rest) = rest else { break };
                assert!(look.after < Some(rest));
                look.after = Some(rest);
            }
            assert_eq!((found, looks), (pending.clone(), timers.len() / 3 + 1));
            // Some are found by the other index, and passed over by their ids.
            update("moved = true", 14..22);
        }
    }

    /// Those of a later version, beside nodes of this one.
    fn tables_may_have_more_columns() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all([timer(1, -10), timer(2, -10)]);
        let claimed = node.claim(&ids);
        session.run(&format!("ALTER TABLE {schema}.timers ADD COLUMN more int; ALTER TABLE {schema}.dead_letters ADD COLUMN more int"));
        assert!(matches!(node.apply(put(&keyed(3, "k"))), Outcome::Put(_)));
        let dead = Next::Dead { reason: "no".into(), then: None };
        assert_eq!(node.apply(Op::End(claimed[0], dead)), Outcome::Ended { due: None });
        assert!(matches!(node.state(ids[0]).unwrap().0, State::Dead { .. }));
        assert!(matches!(node.apply(Op::Requeue(ids[0])), Outcome::Moved(_)));
        assert_eq!(node.claim(&ids[..1]).len(), 1);
        assert!(matches!(Node::join(&schema).apply(put(&keyed(4, "l"))), Outcome::Put(_)), "a later session");
        session.run(&format!("SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now() + interval '1 hour', key => 'm')"));
    }

    fn a_role_that_may_only_schedule_does_nothing_else() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let role = format!("scheduler_{schema}");
        session.run(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
            GRANT EXECUTE ON FUNCTION {schema}.cancel TO {role};
            GRANT EXECUTE ON FUNCTION {schema}.schedule(text, text, bytea, timestamptz, text, boolean, int, jsonb, int, jsonb, jsonb, text, interval) TO {role};
            GRANT EXECUTE ON FUNCTION {schema}.schedule(text, text, jsonb, timestamptz, text, boolean, int, jsonb, int, jsonb, jsonb, text, interval) TO {role}"
        ));
        let scheduler = Session::open_at(&as_role(&role));
        // Objects of the caller do not come between.
        scheduler.run("CREATE TEMPORARY TABLE timers (id uuid); CREATE TEMPORARY TABLE pg_class (id uuid); SET synchronous_commit = off");
        scheduler.run(&format!("BEGIN; SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now() + interval '1 hour', key => 'k')"));
        assert_eq!(scheduler.value::<String>("SHOW synchronous_commit"), "on", "it lasts to the commit");
        scheduler.run("COMMIT");
        let id = node.store.find_key("a", "k").unwrap().unwrap();
        assert_eq!(scheduler.value::<String>(&format!("SELECT {schema}.cancel('{id}')")), "cancelled");
        for sql in [
            format!("SELECT * FROM {schema}.timers"),
            format!("DELETE FROM {schema}.timers"),
            format!("UPDATE {schema}.nodes SET dead = true"),
            format!("SELECT {schema}.release(1, 2, '{{}}', true)"),
            format!("SELECT {schema}.requeue('{id}')"),
            format!("SELECT {schema}.pause_settled()"),
        ] {
            assert!(scheduler.error(&sql).contains("permission denied"), "{sql}");
        }
        // It passes for no session of a node, which others would have to end.
        let id = node.store.node();
        scheduler.run(&format!("SELECT pg_advisory_lock_shared(-{id})"));
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.sessions WHERE lock = -{id}")), 1);
        drop(scheduler);
        session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    }

    fn functions_of_their_owner_find_no_objects_of_their_callers() {
        let (schema, session) = (new_schema(), Session::open());
        connect(options(&schema)).unwrap();
        let functions = session.query(&format!(
            "SELECT p.proname::text, array_to_string(p.proconfig, ' ') FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = '{schema}' AND p.prosecdef ORDER BY 1"
        ));
        let names: Vec<&str> = functions.iter().map(|row| row.get(0)).collect();
        assert_eq!(names, ["cancel", "schedule"]);
        for row in &functions {
            assert!(row.get::<_, &str>(1).contains("search_path=pg_catalog, pg_temp"), "{row:?}");
        }
        // Nobody may call anything unless it is granted.
        let public = session.value::<i64>(&format!(
            "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = '{schema}' AND has_function_privilege('public', p.oid, 'EXECUTE')"
        ));
        assert_eq!(public, 0);
    }

    fn rule_11_defaults_of_the_server_do_not_matter() {
        let (schema, session) = (new_schema(), Session::open());
        let role = format!("hostile_{schema}");
        session.run(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER;
            ALTER ROLE {role} SET standard_conforming_strings = off; ALTER ROLE {role} SET default_transaction_isolation = 'serializable';
            ALTER ROLE {role} SET search_path = 'nowhere'; ALTER ROLE {role} SET synchronous_commit = off;
            ALTER ROLE {role} SET default_transaction_deferrable = on; ALTER ROLE {role} SET DateStyle = 'SQL, DMY';
            ALTER ROLE {role} SET TimeZone = 'Asia/Kathmandu'; ALTER ROLE {role} SET bytea_output = 'escape';
            ALTER ROLE {role} SET lock_timeout = 1; ALTER ROLE {role} SET statement_timeout = 50"
        ));
        let mut node = Node::join_as(connect_to(&as_role(&role), options(&schema)).unwrap(), &node());
        let timer = timer(1, -10);
        // Statements take longer than the role's limit.
        session.run(&format!(
            "CREATE FUNCTION pg_temp.wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END';
            CREATE TRIGGER wait AFTER INSERT ON {schema}.timers EXECUTE FUNCTION pg_temp.wait()"
        ));
        node.put(&timer);
        let claimed = node.claim(&[timer.id]);
        node.beat(&claimed);
        assert_eq!(node.apply(Op::End(claimed[0], Next::Delete)), Outcome::Ended { due: None });
        let keyed = Record { key: Some("it's \\ \"k\"".into()), ..timer };
        for expected in ["created", "exists"] {
            let Outcome::Put(placed) = node.apply(Op::Put(vec![new(&keyed, OnKey::KeepExisting)])) else { panic!() };
            assert_eq!(matches!(placed[..], [Placed::Created { .. }]), expected == "created");
        }
        assert!(session.value::<i64>(&format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'")) >= 2);
        // Users' sessions of that role.
        let user = Session::open_at(&format!("{}?options=-c%20statement_timeout%3D0", as_role(&role)));
        user.run(&format!("SELECT {schema}.schedule('a', 'Order', ''::bytea, now(), key => 'it''s')"));
        drop(node);
        session.run(&format!("DROP OWNED BY {role} CASCADE"));
    }

    fn starting_means_joined_or_an_error() {
        let (schema, session) = (new_schema(), Session::open());
        // No room for the sessions of a node.
        let role = format!("narrow_{schema}");
        session.run(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 2; GRANT CREATE ON DATABASE postgres TO {role}"));
        // For one session of three, and for two.
        for others in [1, 0] {
            let mut store = connect_to(&as_role(&role), options(&schema)).unwrap();
            let _others: Vec<_> = (0..others).map(|_| Session::open_at(&as_role(&role))).collect();
            let error = store.join(&NodeInfo::default(), DueTime::MIN).unwrap_err();
            assert!(error.to_string().contains("too many connections"), "{error}");
            assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes")), 0);
            drop(store);
            until("its sessions end", Duration::from_secs(5), || {
                let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'");
                (session.value::<i64>(&sql) <= others).then_some(())
            });
        }
        session.run(&format!("ALTER ROLE {role} CONNECTION LIMIT 10"));
        // Sessions that act as another role.
        session.run(&format!("CREATE ROLE {role}_other; GRANT {role}_other TO {role}; ALTER ROLE {role} SET role = '{role}_other'"));
        let error = connect_to(&as_role(&role), options(&schema)).unwrap_err();
        assert!(matches!(error, ConnectError::MissingRight(_)), "{error}");
        session.run(&format!("ALTER ROLE {role} RESET role"));
        // One that logs in as another role, without its rights.
        let login = format!("{role}_login");
        session.run(&format!("CREATE ROLE {login} LOGIN NOINHERIT; GRANT {role} TO {login}; ALTER ROLE {login} SET role = '{role}'"));
        let error = connect_to(&as_role(&login), options(&schema)).unwrap().join(&NodeInfo::default(), DueTime::MIN).unwrap_err();
        assert!(error.to_string().contains("log in with one role that has the rights"), "{error}");
        // A node of another role, whose sessions this one could not end.
        session.run(&format!("GRANT ALL ON SCHEMA {schema} TO timers"));
        let _node = Node::join(&schema);
        let mut store = connect_to(&as_role(&role), options(&schema)).unwrap();
        let error = store.join(&NodeInfo::default(), DueTime::MIN).unwrap_err();
        assert!(error.to_string().contains("pg_signal_backend"), "{error}");
        drop(store);
        // An encoding without all characters.
        for encoding in ["LATIN1", "SQL_ASCII"] {
            let database = format!("narrow_{schema}_{encoding}").to_lowercase();
            session.run(&format!("CREATE DATABASE {database} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"));
            let address = address().replace("/postgres", &format!("/{database}"));
            let error = connect_to(&address, options(&schema)).unwrap_err();
            let named = format!("encoding {encoding},");
            assert!(matches!(&error, ConnectError::Unsuitable(reason) if reason.contains(&named)), "{error}");
            session.run(&format!("DROP DATABASE {database} WITH (FORCE)"));
        }
    }

    fn an_administrator_can_migrate() {
        let (schema, session) = (new_schema(), Session::open());
        let options = PostgresOptions::new().schema(&schema).migrate(false);
        let error = connect(options.clone()).unwrap_err().to_string();
        assert!(error.contains("version 0 of 1"), "{error}");
        session.run(&PostgresStore::migration(&options).unwrap());
        let role = format!("runner_{schema}");
        session.run(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
            GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}"
        ));
        let mut node = Node::join_as(connect_to(&as_role(&role), options).unwrap(), &NodeInfo::default());
        node.put(&timer(1, 0));
    }

    fn a_time_for_a_key_without_a_key_keeps_no_row() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let id: String = session.value(&format!(
            "SELECT id::text FROM {schema}.schedule('a', 'Order', '1'::jsonb, now(), keep_key => '1000 years')"
        ));
        let delivery = node.claim(&[id.parse().unwrap()])[0];
        session.run(&format!("SELECT {schema}.end_delivery('{id}', 1, {})", delivery.attempt));
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers")), 0);
    }

    fn serializable_transactions_with_different_keys_or_none_do_not_conflict() {
        let (schema, session) = (new_schema(), Session::open());
        connect(options(&schema)).unwrap();
        session.run(&format!("SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now() + interval '1 hour', key => 'k')"));
        let users = [Session::open(), Session::open()];
        for key in ["NULL", "gen_random_uuid()::text"] {
            users.iter().for_each(|user| user.run("BEGIN ISOLATION LEVEL SERIALIZABLE"));
            for user in users.iter().cycle().take(4) {
                user.run(&format!("SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now() + interval '1 hour', key => {key})"));
            }
            users.iter().for_each(|user| user.run("COMMIT"));
        }
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers")), 9);
    }

    fn a_timer_that_an_index_of_the_user_refuses_is_an_error_that_says_so() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run(&format!("CREATE UNIQUE INDEX ON {schema}.timers (message_type)"));
        let refused = |error: &str| assert!(error.contains("a unique index of yours"), "{error}");
        node.put(&timer(1, 60_000));
        for second in [timer(2, 60_000), keyed(3, "k")] {
            refused(&node.try_apply(&[put(&second)]).remove(0).unwrap_err().to_string());
        }
        refused(&session.error(&format!("SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now())")));
    }

    /// As `REINDEX CONCURRENTLY` does: in between both indexes are unique, and one is not valid. A slow index makes the time longer
    /// between the look for the key and its entry.
    fn requests_with_one_key_agree_while_its_index_is_built_anew() {
        let (schema, session) = (new_schema(), Session::open());
        connect(options(&schema)).unwrap();
        session.run(&format!(
            "CREATE FUNCTION {schema}.slow(uuid) RETURNS uuid IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN $1; END';
            CREATE INDEX ON {schema}.timers ({schema}.slow(id)); DROP INDEX {schema}.timers_key;
            CREATE UNIQUE INDEX timers_key ON {schema}.timers (route, key) WHERE key IS NOT NULL;
            CREATE UNIQUE INDEX timers_key_new ON {schema}.timers (route, key) WHERE key IS NOT NULL;
            UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{schema}.timers_key_new'::regclass"
        ));
        let outcomes = std::thread::scope(|scope| {
            let schedule = || {
                let sql = format!("SELECT outcome FROM {schema}.schedule('a', 'Order', '8'::jsonb, now() + interval '1 hour', key => 'k')");
                Session::open().value::<String>(&sql)
            };
            let requests = [scope.spawn(schedule), scope.spawn(schedule)];
            let mut outcomes = requests.map(|request| request.join().unwrap());
            outcomes.sort_unstable();
            outcomes
        });
        assert_eq!(outcomes, ["created", "exists"]);
    }

    fn ends_in_a_session_of_an_application_read_no_whole_table() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all((0..20).map(|number| timer(number, -1000)));
        let claimed = node.claim(&ids);
        // For a plan that knows how small the table is at present.
        session.run(&format!("ANALYZE {schema}.timers; BEGIN"));
        for (number, delivery) in claimed.iter().enumerate() {
            let more = ["", r#", note => '{"took_ms": 1, "outcome": "complete"}'"#, ", due => 4102444800000"][number % 3];
            session.run(&format!("SELECT {schema}.end_delivery('{}', 1, {}{more})", delivery.id, delivery.attempt));
        }
        let scans: i64 =
            session.value(&format!("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = '{schema}.timers'::regclass"));
        session.run("COMMIT");
        assert_eq!(scans, 0);
    }
}

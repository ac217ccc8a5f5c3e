//! The SQL functions for other languages: in the caller's transaction.

use std::time::{Duration, SystemTime};

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Group, Part, Right};
use actix_timers_durable::{DueTime, DurableId, RecordState, TimerStore};
use actix_timers_postgres::PostgresOptions;
use uuid::Uuid;

use crate::records::{put, record};
use crate::server::{Member, Session, connect, new_schema, serving};
use crate::with_server;

with_server! {
    fn a_timer_of_the_sql_function_is_a_record() {
        let schema = new_schema();
        let mut store = connect(PostgresOptions::new().schema(&schema).shards(3)).unwrap();
        let session = Session::open();
        let schedule = |arguments: &str| {
            let row = session.query(&format!("SELECT {schema}.schedule({arguments})"));
            DurableId::from_uuid(row[0].get::<_, Uuid>(0)).unwrap()
        };
        let long_name = "r".repeat(200);
        let due = "'2026-01-02 03:04:05.6789+00'::timestamptz";
        let id = schedule(&format!("'{long_name}', 'Message', '{{\"a\": 1}}'::json, {due}, key => 'ключ', message_version => 300"));
        let found = store.get(id).unwrap().unwrap();
        assert_eq!(found.part, Part::Pending);
        let record = &found.record;
        // Rounded up, never early.
        let expected = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_323_045_679);
        assert_eq!(record.progress, RecordState::first(DueTime::at_or_after(expected).unwrap()));
        assert_eq!((&*record.route, &*record.message_type, record.message_version), (&*long_name, "Message", 300));
        let key = format!("{long_name}\u{1f}ключ");
        assert_eq!(record.key.as_deref(), Some(&*key), "as of a timer that a node has scheduled");
        assert_eq!(&*record.payload, br#"{"a": 1}"#);
        assert!(record.repeat.is_none() && record.retry.is_none() && id.shard() < 3 && record.sequence > 1 << 50);
        assert_eq!(store.find_key(0, &key).unwrap(), Some(id));
        let again = schedule(&format!("'{long_name}', 'M', ''::bytea, {due}, key => 'ключ'"));
        assert_eq!(again, id, "the key has a timer");
        assert_eq!(store.total().unwrap().pending, 1);
        let of_other_route = schedule(&format!("'r', 'M', ''::bytea, {due}, key => 'ключ'"));
        assert_ne!(of_other_route, id, "keys belong to routes");
        let bytes = schedule("'r', 'M', '\\x00ff'::bytea, '1900-01-01'");
        let found = store.get(bytes).unwrap().unwrap();
        assert_eq!((&*found.record.payload, found.record.progress.due), (&[0, 255][..], DueTime::MIN));
        // Distinct ids over all shards.
        let ids: std::collections::BTreeSet<_> = (0..200).map(|_| schedule("'r', 'M', ''::bytea, now()")).collect();
        assert_eq!(ids.len(), 200);
        assert_eq!(ids.iter().map(|id| id.shard()).collect::<std::collections::BTreeSet<_>>(), (0..3).collect());
    }

    fn above_read_committed_a_timer_whose_claim_may_be_hidden_is_in_progress() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let mut owner = Member::join(store, &serving());
        let right = Right::Owner(owner.lease(0).fence);
        let session = Session::open();
        for (number, level) in [(1, "REPEATABLE READ"), (2, "SERIALIZABLE")] {
            let (due, later) = (record(10, number), record(1 << 45, number));
            let changes = [put(due.clone()), put(later.clone())];
            owner.store.commit_groups(&[Group { right, changes: &changes }]).unwrap();
            session.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM {schema}.meta"));
            let claim = Change::Claim(Claim { number, members: vec![(due.id, due.progress.due, 1)] });
            owner.store.commit_groups(&[Group { right, changes: &[claim] }]).unwrap();
            let cancel = |id: DurableId| {
                session.query(&format!("SELECT {schema}.cancel('{}')", Uuid::from(id)))[0].get::<_, String>(0)
            };
            assert_eq!(cancel(due.id), "in_progress", "its claim is later than the snapshot");
            assert_eq!(cancel(later.id), "cancelled", "it is not due");
            session.run("COMMIT");
        }
    }

    fn a_timer_belongs_to_the_transaction() {
        let schema = new_schema();
        let mut store = connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let session = Session::open();
        let schedule = format!("SELECT {schema}.schedule('r', 'M', ''::bytea, now(), 'k')");
        session.run(&format!("BEGIN; {schedule}; ROLLBACK"));
        assert_eq!(store.total().unwrap().pending, 0);
        assert_eq!(store.find_key(0, "r\u{1f}k").unwrap(), None);
        session.run(&format!("BEGIN; {schedule}; COMMIT"));
        let id = store.find_key(0, "r\u{1f}k").unwrap().unwrap();
        let cancel = |id: DurableId| session.query(&format!("SELECT {schema}.cancel('{id}')"))[0].get::<_, String>(0);
        let lease = store.acquire(0).unwrap();
        let moved = store.commit(lease.fence, &[Change::Move { id, at: None, to: RecordState::first(DueTime::MAX) }]).unwrap();
        assert!(matches!(moved[..], [ChangeOutcome::Moved(_)]));
        assert_eq!(cancel(id), "cancelled", "where it is now");
        assert_eq!(cancel(id), "not_found");
        assert_eq!(store.find_key(0, "r\u{1f}k").unwrap(), None);
    }

    fn impossible_timers_are_rejected() {
        let schema = new_schema();
        connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let session = Session::open();
        for (arguments, reason) in [
            ("'r', 'M', NULL::bytea, now()", "must not be null"),
            ("'r', 'M', ''::bytea, '5000-01-01'", "4199"),
            ("'', 'M', ''::bytea, now()", "route"),
            ("'r' || chr(31), 'M', ''::bytea, now()", "route"),
            ("repeat('r', 256), 'M', ''::bytea, now()", "route"),
            ("'r', 'M', ''::bytea, now(), repeat('k', 513)", "digest"),
            ("'r', 'M', decode(repeat('00', 1048575), 'hex'), now()", "larger"),
            ("'r', 'M', ''::bytea, now(), pool => 'x'", "pool"),
        ] {
            let error = session.error(&format!("SELECT {schema}.schedule({arguments})"));
            assert!(error.contains(reason), "{arguments}: {error}");
        }
    }

    fn a_role_that_only_calls_the_functions_needs_few_rights() {
        let schema = new_schema();
        connect(PostgresOptions::new().schema(&schema).shards(1)).unwrap();
        let admin = Session::open();
        let role = format!("web_{schema}");
        admin.run(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {schema}.shards TO {role};
            GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.timers, {schema}.parked, {schema}.keys, {schema}.claims TO {role}"
        ));
        let web = Session::open();
        web.run(&format!("SET ROLE {role}"));
        let id = |sql: &str| web.query(sql)[0].get::<_, Uuid>(0);
        let id = id(&format!("SELECT {schema}.schedule('r', 'M', '{{}}'::json, now() + interval '1 hour', key => 'k')"));
        let cancelled: String = web.query(&format!("SELECT {schema}.cancel('{id}')"))[0].get(0);
        assert_eq!(cancelled, "cancelled");
        web.error(&format!("SELECT * FROM {schema}.dead_letters"));
    }
}

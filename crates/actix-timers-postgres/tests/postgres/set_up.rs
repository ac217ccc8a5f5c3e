//! Wrong set-ups: clear errors.

use std::time::Duration;

use actix_timers_durable::{Headers, Record, StoreError, TimerStore};
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};

use crate::records::record;
use crate::server::{Member, Session, address, connect, connect_to, new_schema, serving};
use crate::with_server;

fn options() -> PostgresOptions {
    PostgresOptions::new().schema(&new_schema()).timeout(Duration::from_secs(2))
}

fn error(result: Result<PostgresStore, ConnectError>) -> (ConnectError, String) {
    let error = result.expect_err("an error");
    let text = error.to_string();
    println!("{text}");
    (error, text)
}

fn error_of_connect(schema: &str) -> (ConnectError, String) {
    error(connect(PostgresOptions::new().schema(schema)))
}

#[test]
fn an_address_without_a_server_is_an_error_with_advice() {
    let (wrong, _) = error(connect_to("shop.example:5432", options()));
    assert!(matches!(wrong, ConnectError::Address(_)));
    let (unreachable, text) = error(connect_to("postgres://timers@127.0.0.1:9/x", options()));
    assert!(matches!(unreachable, ConnectError::Unreachable(_)) && text.contains("check address"));
    let (short, _) = error(connect_to("postgres://timers@127.0.0.1:9/x", options().lease(Duration::from_secs(1))));
    assert!(matches!(short, ConnectError::Lease(_)));
}

with_server! {
    fn settings_that_would_lose_timers_are_rejected() {
        let with = |settings: &str| format!("{}?options={settings}", address());
        let (error_of, text) = error(connect_to(&with("-csynchronous_commit%3Doff"), options()));
        assert!(matches!(error_of, ConnectError::NotDurable("synchronous_commit")) && text.contains("turn it on"));
        let (error_of, text) = error(connect_to(&with("-cdefault_transaction_read_only%3Don"), options()));
        assert!(matches!(error_of, ConnectError::ReadOnly) && text.contains("default_transaction_read_only"));
    }

    fn the_number_of_shards_is_chosen_once() {
        let schema = new_schema();
        let options = || PostgresOptions::new().schema(&schema);
        connect(options().shards(8)).unwrap();
        connect(options().shards(8)).unwrap();
        let (other, text) = error(connect(options()));
        assert!(matches!(other, ConnectError::OtherShards { found: 8, wanted: 64 }) && text.contains("shards(8)"));
    }

    fn records_of_a_newer_version_need_nodes_that_read_them() {
        let (admin, schema) = (Session::open(), new_schema());
        let store = connect(PostgresOptions::new().schema(&schema)).unwrap();
        let node = Member::join(store.clone(), &serving());
        let headers = Headers::of([("tenant", "7")]).unwrap();
        let (plain, newer) = (record(10, 1), Record { headers, ..record(10, 2) });
        let set = |reads| admin.run(&format!("UPDATE {schema}.nodes SET name = 'old', reads = {reads}"));
        let version = || admin.query(&format!("SELECT record_version FROM {schema}.meta"))[0].get::<_, i16>(0);
        set(1);
        node.store.admits(&plain).unwrap();
        let older = node.store.admits(&newer).unwrap_err();
        assert!(matches!(&older, StoreError::OlderNode { node, reads: 1, needs: 2 } if node == "old"), "{older}");
        // In transactions of users, too.
        let put = |version| format!(
            "SELECT * FROM {schema}.put_timer(0::smallint, gen_random_uuid(), 5, '\\x0{version}00'::bytea, NULL, false)"
        );
        admin.run(&put(1));
        let error = admin.error(&put(2));
        assert!(error.contains("the node \"old\" reads records up to version 1"), "{error}");
        assert_eq!(version(), 1);
        set(2);
        node.store.admits(&newer).unwrap();
        assert_eq!(version(), 2);
        node.store.admits(&newer).unwrap();
        admin.run(&put(2));
        // From now on older nodes stay out.
        admin.run(&format!("UPDATE {schema}.meta SET record_version = 3"));
        let mut late = store.clone();
        let error = late.join(&serving()).unwrap_err().to_string();
        assert!(error.contains("newer"), "{error}");
        let (newer, text) = error_of_connect(&schema);
        assert!(matches!(newer, ConnectError::NewerRecords { found: 3, known: 2 }), "{text}");
    }

    fn a_newer_format_and_other_tables_are_rejected() {
        let admin = Session::open();
        let schema = new_schema();
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        admin.run(&format!("UPDATE {schema}.meta SET format = 9"));
        let (newer, _) = error(connect(PostgresOptions::new().schema(&schema)));
        assert!(matches!(newer, ConnectError::NewerFormat { found: 9, known: 1 }));
        for tables in ["CREATE TABLE @.keys (a int)", "CREATE TABLE @.meta (a int)"] {
            let schema = new_schema();
            admin.run(&format!("CREATE SCHEMA {schema}; {}", tables.replace('@', &schema)));
            let (foreign, _) = error(connect(PostgresOptions::new().schema(&schema)));
            assert!(matches!(foreign, ConnectError::ForeignSchema { .. }));
        }
    }

    fn functions_of_another_revision_are_replaced_by_a_newer_version_only() {
        let (admin, schema) = (Session::open(), new_schema());
        let options = || PostgresOptions::new().schema(&schema).shards(1);
        connect(options()).unwrap();
        let revision = || admin.query(&format!("SELECT m.revision FROM {schema}.meta m"))[0].get::<_, i32>(0);
        let present = revision();
        let broken = format!("CREATE OR REPLACE FUNCTION {schema}.shard_of(id uuid) RETURNS smallint LANGUAGE sql AS 'SELECT 7::int2'");
        let shard = || admin.query(&format!("SELECT {schema}.shard_of(gen_random_uuid())"))[0].get::<_, i16>(0);
        for (set, found, is_kept) in [(present, present, true), (present + 1, present + 1, true), (present - 1, present, false)] {
            admin.run(&format!("{broken}; UPDATE {schema}.meta SET revision = {set}"));
            connect(options()).unwrap();
            assert_eq!((revision(), (0..9).all(|_| shard() == 7)), (found, is_kept), "{set}");
        }
    }

    fn a_user_without_rights_hears_which_one_is_missing() {
        let admin = Session::open();
        let user = format!("guest_{}", new_schema());
        admin.run(&format!("CREATE ROLE {user} LOGIN"));
        let as_user = address().replace("timers@", &format!("{user}@"));
        let (missing, _) = error(connect_to(&as_user, options()));
        assert!(matches!(missing, ConnectError::MissingRight(_)));
        let schema = new_schema();
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        let options = || PostgresOptions::new().schema(&schema);
        assert!(matches!(error(connect_to(&as_user, options())).0, ConnectError::MissingRight(_)));
        admin.run(&format!("GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {user}"));
        let (missing, text) = error(connect_to(&as_user, options()));
        assert!(matches!(missing, ConnectError::MissingRight(_)) && text.contains("INSERT on table"), "{text}");
        admin.run(&format!("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {user}"));
        connect_to(&as_user, options()).unwrap();
    }

    fn a_name_with_any_characters_is_one_schema() {
        let name = format!("Ä \"x'; {}", new_schema());
        let mut store = connect(PostgresOptions::new().schema(&name).shards(2)).unwrap();
        assert_eq!(store.join(&serving()).unwrap().gained.len(), 2);
    }

    fn a_restored_copy_on_another_server_is_read_from_the_beginning() {
        let admin = Session::open();
        let schema = new_schema();
        let options = || PostgresOptions::new().schema(&schema).shards(1);
        connect(options()).unwrap();
        let schedule = || admin.run(&format!("SELECT {schema}.schedule('route', 'Message', '{{}}'::json, now())"));
        // More than one statement forgets.
        let many = "SELECT 2000000000000 + i, pg_current_xact_id(), gen_random_uuid(), 0, false, '' FROM generate_series(1, 25000) i";
        admin.run(&format!("INSERT INTO {schema}.timers (due, arrived, id, shard, moved, record) {many}"));
        schedule();
        let advanced = format!("UPDATE {schema}.progress SET cursor = 1 << 40, seen = '1000000000:1000000000:'");
        admin.run(&advanced);
        connect(options()).unwrap();
        let seen = |column: &str| admin.query(&format!("SELECT {column} FROM {schema}.progress"))[0].get::<_, String>(0);
        assert_eq!(seen("seen::text"), "1000000000:1000000000:", "the same server");
        admin.run(&format!("UPDATE {schema}.meta SET system = 7"));
        let mut store = connect(options()).unwrap();
        assert_eq!((seen("seen::text"), seen("cursor::text")), ("1:1:".to_owned(), "0".to_owned()));
        let sql = format!("SELECT count(*) FROM {schema}.timers WHERE arrived IS NULL");
        assert_eq!(admin.query(&sql)[0].get::<_, i64>(0), 25_001);
        schedule();
        let standing = store.join(&serving()).unwrap();
        assert!(standing.gained[0].cursor.as_millis() < 1 << 40, "{standing:?}");
    }

    fn two_that_create_the_tables_at_once_agree() {
        let schema = new_schema();
        let connecting: Vec<_> = (0..6)
            .map(|_| {
                let schema = schema.clone();
                std::thread::spawn(move || connect(PostgresOptions::new().schema(&schema).shards(4)))
            })
            .collect();
        for connecting in connecting {
            connecting.join().unwrap().unwrap();
        }
    }

    fn a_schema_that_is_locked_makes_calls_fail_in_time() {
        let schema = new_schema();
        let options = PostgresOptions::new().schema(&schema).shards(1).timeout(Duration::from_millis(500));
        let mut store = connect(options).unwrap();
        let lease = store.acquire(0).unwrap();
        let admin = Session::open();
        admin.run(&format!("BEGIN; LOCK TABLE {schema}.timers"));
        let put = crate::records::put(crate::records::record(5, 1));
        let began = std::time::Instant::now();
        let result = store.commit(lease.fence, std::slice::from_ref(&put));
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
        assert!(store.get(crate::records::record(5, 1).id).is_err());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        admin.run("ROLLBACK");
        store.commit(lease.fence, &[put]).unwrap();
    }
}

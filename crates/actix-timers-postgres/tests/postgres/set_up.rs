//! Wrong set-ups: clear errors.

use std::time::{Duration, Instant};

use actix_timers_durable::store::{Op, Outcome, Placed, Reads, State, Store};
use actix_timers_durable::{DueTime, StoreError};
use actix_timers_postgres::{ConnectError, PostgresOptions, PostgresStore};
use support::store::put;

use crate::rules::{Node, timer};
use crate::server::{Session, address, connect, connect_to, new_schema, node, until};
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
        let (error_of, text) = error(connect_to(&with("-cdefault_transaction_read_only%3Don"), options()));
        assert!(matches!(error_of, ConnectError::Unsuitable(_)) && text.contains("default_transaction_read_only"));
        // The sessions set this one themselves.
        let schema = new_schema();
        let settings = with("-csynchronous_commit%3Doff%20-cidle_session_timeout%3D50");
        let node = Node::join_as(connect_to(&settings, PostgresOptions::new().schema(&schema)).unwrap(), &node());
        let session = Session::open();
        let pid = node.pid(&session, &schema);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(node.pid(&session, &schema), pid, "it is not idle for long");
    }

    fn a_newer_format_and_other_tables_are_rejected() {
        let admin = Session::open();
        let schema = new_schema();
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        admin.run(&format!("UPDATE {schema}.schema_version SET version = 9"));
        let (newer, _) = error(connect(PostgresOptions::new().schema(&schema)));
        assert!(matches!(newer, ConnectError::NewerFormat { found: 9, known: 1 }));
        for table in ["timers", "nodes", "schema_version"] {
            let schema = new_schema();
            admin.run(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table} (a int)"));
            let (foreign, _) = error(connect(PostgresOptions::new().schema(&schema)));
            assert!(matches!(foreign, ConnectError::ForeignSchema { .. }));
        }
    }

    fn a_user_without_rights_hears_which_one_is_missing() {
        let (admin, schema) = (Session::open(), new_schema());
        let user = format!("guest_{schema}");
        admin.run(&format!("CREATE ROLE {user} LOGIN"));
        let as_user = address().replace("timers@", &format!("{user}@"));
        let missing = |schema: &str, right: &str| {
            let (missing, text) = error(connect_to(&as_user, PostgresOptions::new().schema(schema)));
            assert!(matches!(missing, ConnectError::MissingRight(_)) && text.contains(right), "{text}");
        };
        missing(&schema, "");
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        missing(&schema, "");
        for (right, next) in [
            ("USAGE ON SCHEMA", ""),
            ("SELECT ON ALL TABLES IN SCHEMA", "INSERT on table"),
            ("ALL ON ALL TABLES IN SCHEMA", "EXECUTE on function"),
        ] {
            admin.run(&format!("GRANT {right} {schema} TO {user}"));
            missing(&schema, next);
        }
        admin.run(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {user}"));
        admin.run(&format!("REVOKE ALL ON {schema}.sessions FROM {user}"));
        missing(&schema, "SELECT on table sessions");
        admin.run(&format!("GRANT SELECT ON {schema}.sessions TO {user}"));
        connect_to(&as_user, PostgresOptions::new().schema(&schema)).unwrap();
    }

    fn a_name_with_any_characters_is_one_schema() {
        let name = format!("Ä \"x'; {}", new_schema());
        let mut node = Node::join(&name);
        let timer = timer(1, 0);
        node.put(&timer);
        assert_eq!(node.claim(&[timer.id]).len(), 1);
    }

    fn no_index_depends_on_the_collation_of_the_database() {
        let (schema, session) = (new_schema(), Session::open());
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        let indexes = session.query(&format!(
            "SELECT DISTINCT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid, unnest(i.indcollation::oid[]) AS k(oid)
            WHERE c.relnamespace = '{schema}'::regnamespace AND k.oid NOT IN (0, '\"C\"'::regcollation)"
        ));
        assert_eq!(indexes.iter().map(|row| row.get(0)).collect::<Vec<String>>(), [""; 0]);
    }

    fn the_functions_of_others_in_the_schema_keep_their_rights() {
        let (schema, admin) = (new_schema(), Session::open());
        // One has a name that is ours, too.
        admin.run(&format!("CREATE SCHEMA {schema}; CREATE FUNCTION {schema}.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
            CREATE FUNCTION {schema}.release(text) RETURNS int LANGUAGE sql AS 'SELECT 1'"));
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        let sql = format!("SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace
            AND has_function_privilege('public', oid, 'EXECUTE')");
        assert_eq!(admin.value::<Option<String>>(&sql).as_deref(), Some("mine release"));
    }

    fn a_copy_that_is_restored_on_another_server_is_served() {
        let (schema, admin) = (new_schema(), Session::open());
        let mut gone = Node::join(&schema);
        let timers = [timer(1, 0), timer(2, 60_000)];
        timers.iter().for_each(|timer| gone.put(timer));
        gone.claim(&[timers[0].id]);
        // As after a restore: its node has no session on this server.
        let pid: i32 = admin.value(&format!("SELECT pid FROM {schema}.sessions WHERE lock = -{}", gone.store.node()));
        admin.run(&format!("UPDATE {schema}.nodes SET dead = true, id = id # 1; UPDATE {schema}.timers SET node = node # 1"));
        let mut heir = Node::join(&schema);
        until("released", Duration::from_secs(5), || {
            heir.beat(&[]);
            (heir.state(timers[0].id).unwrap().0 == State::Pending).then_some(())
        });
        assert_eq!(admin.value::<i64>(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")), 1);
        assert_eq!(heir.claim(&[timers[0].id]).len(), 1);
        assert_eq!(heir.store.counts(None).unwrap().pending, 2);
    }

    fn nodes_that_create_the_tables_at_once_agree() {
        let schema = new_schema();
        let connecting: Vec<_> = (0..6)
            .map(|_| {
                let schema = schema.clone();
                std::thread::spawn(move || connect(PostgresOptions::new().schema(&schema)))
            })
            .collect();
        for connecting in connecting {
            connecting.join().unwrap().unwrap();
        }
    }

    fn a_schema_that_is_locked_makes_calls_fail_in_time() {
        let schema = new_schema();
        let options = PostgresOptions::new().schema(&schema).timeout(Duration::from_millis(500));
        let mut node = Node::join_as(connect(options).unwrap(), &node());
        let admin = Session::open();
        admin.run(&format!("BEGIN; LOCK TABLE {schema}.timers"));
        let timer = timer(1, 60_000);
        let began = Instant::now();
        let outcomes = node.store.apply(&[put(&timer)], DueTime::MIN).unwrap();
        assert!(matches!(outcomes[..], [Err(StoreError::Locked)]), "{outcomes:?}");
        assert!(node.store.get(timer.id).is_err());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        admin.run("ROLLBACK");
        let Outcome::Put(placed) = node.apply(put(&timer)) else { panic!() };
        assert!(matches!(placed[..], [Placed::Created { .. }]));
        assert_eq!(node.apply(Op::Cancel(timer.id)), Outcome::Deleted);
    }

    fn a_host_without_power_leaves_time_for_the_next_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Its queue of connections is full: it drops all others.
        let _inside = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = socket.listen(0).unwrap();
        let port = silent.local_addr().unwrap().port();
        let connect = || std::net::TcpStream::connect_timeout(&silent.local_addr().unwrap(), Duration::from_millis(50)).ok();
        let _full: Vec<_> = std::iter::from_fn(connect).collect();
        let config: tokio_postgres::Config = address().parse().unwrap();
        let (user, other) = (config.get_user().unwrap(), config.get_ports()[0]);
        let hosts = format!("host=127.0.0.1,127.0.0.1 port={port},{other} user={user} dbname=postgres");
        connect_to(&hosts, options()).unwrap();
    }

    fn tables_that_are_up_to_date_need_no_lock() {
        let (schema, session) = (new_schema(), Session::open());
        let options = PostgresOptions::new().schema(&schema);
        connect(options.clone()).unwrap();
        session.run(&format!("SELECT pg_advisory_lock(hashtextextended('actix-timers {schema}', 0))"));
        connect(options).unwrap();
    }

    fn a_function_of_others_in_the_schema_needs_no_right() {
        let (schema, session) = (new_schema(), Session::open());
        connect(PostgresOptions::new().schema(&schema)).unwrap();
        let (role, other) = (format!("runner_{schema}"), format!("other_{schema}"));
        session.run(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
            GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}; CREATE ROLE {other};
            CREATE FUNCTION {schema}.report() RETURNS int LANGUAGE sql AS 'SELECT 1';
            ALTER FUNCTION {schema}.report() OWNER TO {other}; REVOKE ALL ON FUNCTION {schema}.report() FROM PUBLIC"
        ));
        let address = address().replace("timers@", &format!("{role}@"));
        connect_to(&address, PostgresOptions::new().schema(&schema)).unwrap();
    }
}

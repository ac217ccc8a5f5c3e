//! The metrics of nodes.

use std::thread;
use std::time::Duration;

use actix_timers_durable::store::{NodeInfo, Reads, Store};
use actix_timers_durable::{DueTime, StoreError};
use actix_timers_postgres::PostgresStore;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use support::store::put;

use crate::rules::{LEASE, Node, timer};
use crate::server::{Session, address, connect, connect_to, new_schema, node, options, until};
use crate::with_server;

const PATIENCE: Duration = Duration::from_secs(20);

/// A node with a page of metrics of its own.
struct Observed {
    node: Node,
    recorder: PrometheusRecorder,
}

impl Observed {
    fn join(store: PostgresStore, info: &NodeInfo) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let node = ::metrics::with_local_recorder(&recorder, || Node::join_as(store, info));
        Self { node, recorder }
    }

    fn value(&self, name: &str, label: &str) -> f64 {
        support::metric(&self.recorder.handle().render(), &format!("postgres_{name}"), label)
    }

    /// Waits until a series has a value.
    fn until(&mut self, name: &str, label: &str, is: impl Fn(f64) -> bool) {
        until(name, PATIENCE, || {
            _ = self.node.store.beat(&[], DueTime::MIN);
            thread::sleep(Duration::from_millis(80));
            is(self.value(name, label)).then_some(())
        });
    }
}

/// Returns whether a value is a number.
fn equals(number: u32) -> impl Fn(f64) -> bool {
    move |value| (value - f64::from(number)).abs() < f64::EPSILON
}

with_server! {
    fn leases_and_nodes_are_measured_and_take_overs_are_counted() {
        let (schema, session) = (new_schema(), Session::open());
        let mut first = Observed::join(connect(options(&schema)).unwrap(), &node());
        assert!(equals(2)(first.value("lease_seconds", "")));
        let remaining = first.value("lease_remaining_seconds", "");
        assert!(remaining > 0.0 && remaining <= 2.0, "{remaining}");
        let mut heir = Observed::join(connect(options(&schema)).unwrap(), &node());
        first.until("nodes", "", equals(2));
        let timers = [timer(1, -10), timer(2, -10)];
        first.node.try_apply(&timers.each_ref().map(put));
        first.node.claim(&timers.each_ref().map(|timer| timer.id));
        // It hangs, and the session of another one keeps a row of it.
        let (gone, blocker) = (first.node.store.node(), Session::open());
        blocker.run(&format!("BEGIN; SELECT FROM {schema}.nodes WHERE id = {gone} FOR KEY SHARE"));
        heir.until("nodes_overdue", "", equals(1));
        heir.until("nodes", "", equals(1));
        assert!(equals(0)(heir.value("takeovers_total", "")));
        blocker.run("COMMIT");
        heir.until("takeovers_total", "", equals(1));
        heir.until("nodes_overdue", "", equals(0));
        assert!(equals(2)(heir.value("released_total", "")));
        // It joins anew, leaves in order, and has no lease any more.
        first.until("leases_lost_total", "", equals(1));
        first.until("lease_remaining_seconds", "", |remaining| remaining > 0.0);
        let recorder = first.recorder;
        drop(first.node);
        let page = recorder.handle().render();
        assert!(page.contains("actix_timers_postgres_lease_seconds{timer=\"test\"} 0\n"), "{page}");
        assert!(page.contains("actix_timers_postgres_nodes{timer=\"test\"} 0\n"), "{page}");
        heir.until("nodes", "", equals(1));
        assert!(equals(1)(heir.value("takeovers_total", "")), "one that leaves is not taken over");
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes")), 1);
        assert!(heir.value("lease_remaining_seconds", "") <= LEASE.as_secs_f64());
    }

    fn routes_with_overdue_timers_that_no_node_serves_are_counted() {
        let (schema, session) = (new_schema(), Session::open());
        connect(options(&schema)).unwrap();
        for (route, message_type) in [("a", "Order"), ("a", "Order"), ("lost", "Order"), ("lost", "Bill"), ("b", "Bill"), ("soon", "Order")] {
            let due = if route == "soon" { "now()" } else { "now() - interval '2 minutes'" };
            session.run(&format!(
                "INSERT INTO {schema}.timers (id, due, nominal, route, message_type, payload)
                SELECT {schema}.first_id(d.at), d.at, d.at, '{route}', '{message_type}', ''
                FROM (SELECT (extract(epoch FROM {due}) * 1000)::bigint + (SELECT count(*) FROM {schema}.timers) AS at) d"
            ));
        }
        let mut node = Observed::join(connect(options(&schema)).unwrap(), &node());
        // The first beat counts.
        node.until("routes_unserved", "", equals(2));
    }

    fn the_age_of_the_oldest_snapshot_is_measured_by_any_user() {
        let (schema, admin) = (new_schema(), Session::open());
        let role = format!("plain_{schema}");
        admin.run(&format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}"));
        let as_role = address().replace("timers@", &format!("{role}@"));
        let hidden = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL";
        let mut nodes = [
            Observed::join(connect_to(&as_role, options(&schema)).unwrap(), &node()),
            Observed::join(connect(options(&new_schema())).unwrap(), &node()),
        ];
        let holder = Session::open();
        holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        admin.run(&format!("SET ROLE {role}"));
        assert_eq!(admin.value::<i64>(hidden), 0, "the times are hidden");
        admin.run("RESET ROLE");
        thread::scope(|scope| for node in &mut nodes {
            scope.spawn(|| {
                node.until("oldest_snapshot_seconds", "", |age| age >= 4.0);
                assert!(node.value("oldest_snapshot_seconds", "") < 60.0);
            });
        });
        holder.run("ROLLBACK");
        for node in &mut nodes {
            node.until("oldest_snapshot_seconds", "", |age| age < 3.0);
        }
        drop(nodes);
        admin.run(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    }

    fn connections_that_break_and_replies_that_are_lost_are_counted() {
        let schema = new_schema();
        let mut node = Observed::join(connect(options(&schema).node(&schema)).unwrap(), &node());
        let mut reader = node.node.store.reader().unwrap().unwrap();
        for session in ["writer", "reader", "query"] {
            assert!(equals(0)(node.value("reconnections_total", session)), "{session}");
        }
        let (admin, blocker) = (Session::open(), Session::open());
        let timer = timer(1, 60_000);
        node.node.put(&timer);
        let pids = format!("FROM pg_stat_activity WHERE application_name = 'actix-timers {schema}'");
        blocker.run(&format!("BEGIN; LOCK TABLE {schema}.timers"));
        let ending = thread::spawn(move || {
            let waiting = format!("SELECT pid {pids} AND wait_event_type = 'Lock'");
            until("a put waits", PATIENCE, || (!admin.query(&waiting).is_empty()).then_some(()));
            admin.run(&format!("SELECT pg_terminate_backend(pid) {pids}"));
        });
        let outcomes = node.node.try_apply(&[put(&crate::rules::timer(2, 60_000))]);
        assert!(matches!(outcomes[..], [Err(StoreError::Unknown(_))]), "{outcomes:?}");
        ending.join().unwrap();
        blocker.run("ROLLBACK");
        until("a query", PATIENCE, || reader.get(timer.id).ok());
        until("a look", PATIENCE, || node.node.store.get(timer.id).ok());
        for session in ["writer", "reader", "query"] {
            node.until("reconnections_total", session, |number| number >= 1.0);
        }
        node.until("replies_lost_total", "", equals(1));
    }
}

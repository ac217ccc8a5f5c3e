//! The metrics of nodes.

use std::time::Duration;

use actix_timers_durable::store::{Change, Group, Node, Right};
use actix_timers_durable::{StoreError, TimerStore};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::records::{keyed, put, record};
use crate::server::{Member, Session, address, connect, connect_to, new_schema, scheduling, serving, until};
use crate::with_server;

const LEASE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

fn options(schema: &str, shards: u16) -> PostgresOptions {
    PostgresOptions::new().schema(schema).shards(shards).lease(LEASE)
}

/// A node with a page of metrics of its own.
struct Observed {
    member: Member,
    recorder: PrometheusRecorder,
}

impl Observed {
    fn join(store: PostgresStore, node: &Node) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let member = ::metrics::with_local_recorder(&recorder, || Member::join(store, node));
        Self { member, recorder }
    }

    /// Returns the value of a series, whose labels begin with that of the timer.
    fn value(&self, name: &str, label: &str) -> f64 {
        let page = self.recorder.handle().render();
        let start = format!("actix_timers_postgres_{name}{{timer=\"");
        let value = page.lines().filter(|line| line.starts_with(&start) && line.contains(label)).find_map(|line| {
            let (_, value) = line.rsplit_once(' ')?;
            value.parse().ok()
        });
        value.unwrap_or_else(|| panic!("no {name} {label} in {page}"))
    }

    /// Waits until a series has a value.
    fn until(&mut self, name: &str, label: &str, is: impl Fn(f64) -> bool) {
        until(name, PATIENCE, || {
            self.member.look();
            is(self.value(name, label)).then_some(())
        });
    }
}

/// Returns whether a value is a number.
fn equals(number: u32) -> impl Fn(f64) -> bool {
    move |value| (value - f64::from(number)).abs() < f64::EPSILON
}

with_server! {
    fn leases_nodes_and_shards_are_measured_and_take_overs_are_counted() {
        let schema = new_schema();
        let store = connect(options(&schema, 4)).unwrap();
        let first = Observed::join(store.clone(), &serving());
        assert!(equals(2)(first.value("lease_seconds", "timer=\"test\"")));
        let remaining = first.value("lease_remaining_seconds", "");
        assert!(remaining > 0.0 && remaining <= 2.0, "{remaining}");
        let mut web = Observed::join(store.clone(), &scheduling());
        web.until("nodes", "timer=\"web\"", equals(2));
        web.until("shards", "", equals(4));
        web.until("shards_unowned", "", equals(0));
        assert!(equals(0)(web.value("takeovers_total", "")));
        drop(first.member);
        web.until("takeovers_total", "", equals(1));
        web.until("shards_unowned", "", equals(4));
        web.until("nodes", "", equals(1));
        assert!(equals(0)(first.recorder.handle().render().lines().find_map(|line| {
            line.strip_prefix("actix_timers_postgres_lease_seconds{timer=\"test\"} ")?.parse().ok()
        }).unwrap()), "it has none any more");
        let mut heir = Observed::join(store, &serving());
        web.until("shards_unowned", "", equals(0));
        heir.until("nodes", "", equals(2));
        assert!(equals(0)(heir.value("takeovers_total", "")), "the other node has done it");
    }

    fn a_lease_that_has_ended_is_counted_and_another_one_begins() {
        let schema = new_schema();
        let mut node = Observed::join(connect(options(&schema, 2)).unwrap(), &serving());
        let id = node.member.store.node();
        Session::open().run(&format!("UPDATE {schema}.nodes SET lease_until = now() - interval '1 second'"));
        node.until("leases_lost_total", "", equals(1));
        node.until("lease_remaining_seconds", "", |remaining| remaining > 0.0);
        assert!(node.member.store.node() != id);
    }

    fn the_age_of_the_oldest_snapshot_is_measured_also_by_a_user_who_does_not_see_its_time() {
        let schema = new_schema();
        let admin = Session::open();
        let role = format!("plain_{schema}");
        admin.run(&format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}"));
        let (_, server) = address().split_once('@').map(|(user, server)| (user.to_owned(), server.to_owned())).unwrap();
        let plain = connect_to(&format!("postgres://{role}@{server}"), options(&schema, 2)).unwrap();
        let hidden = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL";
        let other = new_schema();
        let mut nodes = [
            Observed::join(plain, &serving()),
            Observed::join(connect(options(&other, 2)).unwrap(), &serving()),
        ];
        let holder = Session::open();
        holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        admin.run(&format!("SET ROLE {role}"));
        assert_eq!(admin.query(hidden)[0].get::<_, i64>(0), 0, "the times are hidden");
        admin.run("RESET ROLE");
        for node in &mut nodes {
            node.until("oldest_snapshot_seconds", "", |age| age >= 4.0);
            assert!(node.value("oldest_snapshot_seconds", "") < 60.0);
        }
        holder.run("ROLLBACK");
        for node in &mut nodes {
            node.until("oldest_snapshot_seconds", "", |age| age < 3.0);
        }
        drop(nodes);
        admin.run(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
    }

    fn connections_that_break_and_replies_that_are_lost_are_counted() {
        let schema = new_schema();
        let mut node = Observed::join(connect(options(&schema, 1)).unwrap(), &serving());
        for session in ["writer", "reader", "keeper"] {
            assert!(equals(0)(node.value("reconnections_total", session)), "{session}");
        }
        let admin = Session::open();
        admin.run("BEGIN");
        admin.run(&format!("INSERT INTO {schema}.keys VALUES ('l', gen_random_uuid())"));
        let fence = node.member.lease(0).fence;
        let mut store = node.member.store;
        let waiting = std::thread::spawn(move || {
            let result = store.commit(fence, &[put(keyed(11, 2, "l"))]);
            (store, result)
        });
        std::thread::sleep(Duration::from_millis(300));
        let end = format!("SELECT pg_terminate_backend(unnest(pids)) FROM {schema}.nodes");
        assert_eq!(Session::open().query(&end).len(), 3);
        let (store, result) = waiting.join().unwrap();
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
        admin.run("ROLLBACK");
        node.member.store = store;
        until("a read", PATIENCE, || node.member.store.get(record(5, 1).id).ok());
        for session in ["writer", "reader", "keeper"] {
            node.until("reconnections_total", session, |number| number >= 1.0);
        }
        node.until("replies_lost_total", "", equals(1));
    }

    fn a_commit_with_a_timer_that_is_there_already_is_counted() {
        let schema = new_schema();
        let mut node = Observed::join(connect(options(&schema, 2)).unwrap(), &serving());
        let fence = node.member.lease(0).fence;
        for sent_again in 0..2 {
            node.member.store.commit(fence, &[put(record(5, 1))]).unwrap();
            node.until("commits_resent_total", "collision", equals(sent_again));
        }
        for other in ["fenced", "folded"] {
            assert!(equals(0)(node.value("commits_resent_total", other)), "{other}");
        }
    }

    fn a_commit_without_the_groups_of_lost_shards_is_counted() {
        let schema = new_schema();
        let mut node = Observed::join(connect(options(&schema, 2)).unwrap(), &serving());
        Session::open().run(&format!("UPDATE {schema}.shards SET owner = 1, epoch = epoch + 1 WHERE shard = 0"));
        let changes: [Change; 1] = [put(record(5, 1))];
        let right = Right::Owner(node.member.lease(0).fence);
        node.member.store.commit_groups(&[Group { right, changes: &changes }]).unwrap();
        node.until("commits_resent_total", "fenced", equals(1));
        for other in ["collision", "folded"] {
            assert!(equals(0)(node.value("commits_resent_total", other)), "{other}");
        }
    }
}

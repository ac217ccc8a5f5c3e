//! Metrics of a node: its lease, take-overs, the nodes of the store, and the oldest snapshot of its database.
//!
//! Like those of durable timers they are registered with the application's recorder, when the durable timers start, and
//! updated by `actix_timers::scrape`. None is a histogram.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_timers::integration::{PublishPass, Publisher, counter, describe, gauge};
use actix_timers::metrics::Metric;
use actix_timers_durable::store::boot_clock;
use metrics::{Counter, Gauge, Unit, counter, gauge};

macro_rules! catalogue {
    ($($name:ident = $metric:expr;)+) => {
        $(const $name: Metric = $metric;)+

        /// All metrics of a node. The catalogue of `actix-timers-durable` has those of its durable timers.
        pub const CATALOGUE: &[Metric] = &[$($name),+];
    };
}

catalogue! {
    LEASE = gauge("actix_timers_postgres_lease_seconds", Unit::Seconds, &[], "Lease of this node: the time without a renewal after which others release its timers; 0 after its end");
    LEASE_REMAINING = gauge("actix_timers_postgres_lease_remaining_seconds", Unit::Seconds, &[], "Time until the lease of this node ends unless it is renewed; 0 if it has ended");
    NODES = gauge("actix_timers_postgres_nodes", Unit::Count, &[], "Nodes of the store with a lease");
    NODES_OVERDUE = gauge("actix_timers_postgres_nodes_overdue", Unit::Count, &[], "Nodes whose leases have been over for two leases, and whose timers nobody has released");
    ROUTES_UNSERVED = gauge("actix_timers_postgres_routes_unserved", Unit::Count, &[], "Routes with timers overdue by more than a minute that no node with a lease delivers, among the 10000 oldest and newest of these timers");
    OLDEST_SNAPSHOT = gauge("actix_timers_postgres_oldest_snapshot_seconds", Unit::Seconds, &[], "Age of the oldest snapshot of the database, of a transaction, a prepared transaction or a replication slot: vacuum keeps all rows deleted since");
    LEASES_LOST = counter("actix_timers_postgres_leases_lost_total", &[], "Leases of this node that have ended; each is followed by another one");
    RELEASED = counter("actix_timers_postgres_released_total", &[], "Deliveries of other nodes that had died or left, which this node has released");
    TAKEOVERS = counter("actix_timers_postgres_takeovers_total", &[], "Nodes whose leases had ended, and whose timers this node has released");
    RECONNECTIONS = counter("actix_timers_postgres_reconnections_total", &["session"], "Connections opened because the previous one was broken, by session: writer, reader or query");
    REPLIES_LOST = counter("actix_timers_postgres_replies_lost_total", &[], "Commits without a reply, whose callers received an error: they may have been made");
}

/// The session that writes, the one that looks, and the one for queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
    Query,
}

/// The names of the sessions, in the order of [`Role`].
const SESSIONS: [&str; 3] = ["writer", "reader", "query"];

/// The metric handles of one node.
#[derive(Debug)]
pub(crate) struct Meters {
    lease: Gauge,
    remaining: Gauge,
    pub(crate) nodes: Gauge,
    pub(crate) overdue: Gauge,
    pub(crate) unserved: Gauge,
    pub(crate) oldest_snapshot: Gauge,
    pub(crate) leases_lost: Counter,
    pub(crate) released: Counter,
    pub(crate) takeovers: Counter,
    pub(crate) replies_lost: Counter,
    reconnections: [Counter; SESSIONS.len()],
    /// The lease, and its end.
    term: Mutex<(Duration, Duration)>,
}

impl Meters {
    /// Registers all metrics for the durable timers with this name, so that they exist from the first scrape.
    pub(crate) fn register(timer: &str) -> Self {
        describe(CATALOGUE);
        let timer = || ("timer", timer.to_owned());
        let gauge = |metric: Metric| gauge!(metric.name, &[timer()]);
        let counter = |metric: Metric| counter!(metric.name, &[timer()]);
        Self {
            lease: gauge(LEASE),
            remaining: gauge(LEASE_REMAINING),
            nodes: gauge(NODES),
            overdue: gauge(NODES_OVERDUE),
            unserved: gauge(ROUTES_UNSERVED),
            oldest_snapshot: gauge(OLDEST_SNAPSHOT),
            leases_lost: counter(LEASES_LOST),
            released: counter(RELEASED),
            takeovers: counter(TAKEOVERS),
            replies_lost: counter(REPLIES_LOST),
            reconnections: SESSIONS
                .map(|session| counter!(RECONNECTIONS.name, &[timer(), ("session", session.to_owned())])),
            term: Mutex::default(),
        }
    }

    /// Notes a lease and its end by the clock of leases.
    pub(crate) fn leased(&self, lease: Duration, end: Duration) {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = (lease, end);
        self.show();
    }

    /// Notes that the node has left: it sees nothing of the store any more, and an alert about it must end.
    pub(crate) fn left(&self) {
        for gauge in [&self.nodes, &self.overdue, &self.unserved, &self.oldest_snapshot] {
            gauge.set(0.0);
        }
    }

    /// Counts another connection of a session.
    pub(crate) fn reconnected(&self, role: Role) {
        self.reconnections[role as usize].increment(1);
    }

    /// Shows the rest of the lease, which time changes.
    pub(crate) fn show(&self) {
        let (lease, end) = *self.term.lock().unwrap_or_else(PoisonError::into_inner);
        self.lease.set(lease.as_secs_f64());
        self.remaining.set(end.saturating_sub(boot_clock::now()).as_secs_f64());
    }
}

impl Publisher for Meters {
    fn publish(&self, _: &PublishPass) {
        self.show();
    }
}

#[cfg(test)]
mod tests {
    use actix_timers::metrics::Kind;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn the_help_of_reconnections_names_the_sessions() {
        let has =
            |help: &str, word: &str| help.split(|letter: char| !letter.is_alphanumeric()).any(|other| other == word);
        assert!(SESSIONS.iter().all(|session| has(RECONNECTIONS.help, session)));
    }

    #[test]
    fn all_is_there_from_the_first_scrape_and_the_lease_runs_down() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || Meters::register("T"));
        let page = recorder.handle().render();
        for metric in CATALOGUE {
            assert!(page.contains(&format!("# TYPE {} ", metric.name)), "{}", metric.name);
        }
        let series: Vec<_> = page.lines().filter(|line| line.starts_with("actix_timers_")).collect();
        assert_eq!(series.len(), CATALOGUE.len() - 1 + SESSIONS.len(), "{page}");
        let remaining = || -> f64 {
            meters.show();
            let page = recorder.handle().render();
            let start = format!("{}{{timer=\"T\"}} ", LEASE_REMAINING.name);
            page.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().parse().unwrap_or(-1.0)
        };
        meters.leased(Duration::from_secs(10), boot_clock::now() + Duration::from_secs(10));
        let first = remaining();
        assert!(first > 8.0 && first <= 10.0, "{first}");
        meters.leased(Duration::from_secs(10), Duration::ZERO);
        assert!(remaining().abs() < f64::EPSILON);
    }

    #[test]
    fn a_node_that_has_left_shows_nothing_of_the_store() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meters = metrics::with_local_recorder(&recorder, || Meters::register("T"));
        for gauge in [&meters.nodes, &meters.overdue, &meters.unserved, &meters.oldest_snapshot] {
            gauge.set(7.0);
        }
        assert_eq!(recorder.handle().render().matches("{timer=\"T\"} 7\n").count(), 4);
        meters.left();
        let page = recorder.handle().render();
        for metric in CATALOGUE.iter().filter(|metric| metric.kind == Kind::Gauge) {
            assert!(page.contains(&format!("\n{}{{timer=\"T\"}} 0\n", metric.name)), "{}: {page}", metric.name);
        }
    }
}

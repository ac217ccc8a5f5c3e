//! The metric handles of a node, and how they are fed: from counters, published together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_timers::integration::{PublishPass, Publisher, Tally, describe, try_publish};
use metrics::{Gauge, counter, gauge};

use super::catalogue::{self as names, CATALOGUE};
use crate::session::Role;
use crate::shared::{Shared, lock};

/// Reasons to send a commit again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resent {
    /// Another transaction was in the way, or a new timer is there already.
    Collision,
    /// Some groups are of lost shards.
    Fenced,
    /// Changes of one key must not be folded.
    Folded,
}

impl Resent {
    const ALL: [Self; 3] = [Self::Collision, Self::Fenced, Self::Folded];

    const fn name(self) -> &'static str {
        match self {
            Self::Collision => "collision",
            Self::Fenced => "fenced",
            Self::Folded => "folded",
        }
    }
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
            Self::Keeper => "keeper",
            Self::Query => "query",
        }
    }
}

/// Counters since the start, and the last measured values.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    takeovers: AtomicU64,
    leases_lost: AtomicU64,
    replies_lost: AtomicU64,
    reconnections: [AtomicU64; Role::ALL.len()],
    resent: [AtomicU64; Resent::ALL.len()],
    measured: Mutex<Measured>,
}

/// Values that the keeper measures on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) nodes: u64,
    pub(crate) shards: u64,
    pub(crate) unowned: u64,
    pub(crate) oldest_snapshot: Duration,
}

impl Activity {
    /// Counts nodes from which this one has taken over.
    pub(crate) fn took_over(&self, nodes: u64) {
        self.takeovers.fetch_add(nodes, Ordering::Relaxed);
    }

    /// Counts a lease that has ended.
    pub(crate) fn lost_lease(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a commit without a reply.
    pub(crate) fn lost_reply(&self) {
        self.replies_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts another connection of a session.
    pub(crate) fn reconnected(&self, role: Role) {
        self.reconnections[role as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a commit that is sent again.
    pub(crate) fn resent(&self, why: Resent) {
        self.resent[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the measured values.
    pub(crate) fn measured(&self, measured: Measured) {
        *lock(&self.measured) = measured;
    }
}

/// The metric handles of one node.
pub(crate) struct NodeMeters {
    shared: Arc<Shared>,
    lease: Duration,
    board: Mutex<Board>,
}

struct Board {
    lease: Gauge,
    remaining: Gauge,
    leases_lost: Tally,
    takeovers: Tally,
    nodes: Gauge,
    shards: Gauge,
    unowned: Gauge,
    oldest_snapshot: Gauge,
    reconnections: [Tally; Role::ALL.len()],
    resent: [Tally; Resent::ALL.len()],
    replies_lost: Tally,
}

impl NodeMeters {
    /// Registers all metrics for the durable timers with this name, so that they exist from the first scrape.
    pub(crate) fn register(timer: &str, shared: Arc<Shared>, lease: Duration) -> Self {
        describe(CATALOGUE);
        let plain_gauge = |name: &'static str| gauge!(name, "timer" => timer.to_owned());
        let plain = |name: &'static str| Tally::new(counter!(name, "timer" => timer.to_owned()));
        let labelled = |name: &'static str, label: &'static str, value: &'static str| {
            Tally::new(counter!(name, &[("timer", timer.to_owned()), (label, value.to_owned())]))
        };
        let board = Board {
            lease: plain_gauge(names::LEASE.name),
            remaining: plain_gauge(names::LEASE_REMAINING.name),
            leases_lost: plain(names::LEASES_LOST.name),
            takeovers: plain(names::TAKEOVERS.name),
            nodes: plain_gauge(names::NODES.name),
            shards: plain_gauge(names::SHARDS.name),
            unowned: plain_gauge(names::SHARDS_UNOWNED.name),
            oldest_snapshot: plain_gauge(names::OLDEST_SNAPSHOT.name),
            reconnections: Role::ALL.map(|role| labelled(names::RECONNECTIONS.name, "session", role.name())),
            resent: Resent::ALL.map(|why| labelled(names::COMMITS_RESENT.name, "reason", why.name())),
            replies_lost: plain(names::REPLIES_LOST.name),
        };
        let meters = Self { shared, lease, board: Mutex::new(board) };
        meters.show();
        meters
    }

    /// Publishes all values, unless a scrape is running, which does it.
    pub(crate) fn publish_now(&self) {
        if let Some(_pass) = try_publish() {
            self.show();
        }
    }

    fn show(&self) {
        let activity = &self.shared.activity;
        let measured = *lock(&activity.measured);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut board = lock(&self.board);
        board.lease.set(self.lease.as_secs_f64());
        board.remaining.set(self.shared.remaining().as_secs_f64());
        board.leases_lost.show(count(&activity.leases_lost));
        board.takeovers.show(count(&activity.takeovers));
        board.nodes.set(measured.nodes as f64);
        board.shards.set(measured.shards as f64);
        board.unowned.set(measured.unowned as f64);
        board.oldest_snapshot.set(measured.oldest_snapshot.as_secs_f64());
        board.reconnections.iter_mut().zip(&activity.reconnections).for_each(|(tally, of)| _ = tally.show(count(of)));
        board.resent.iter_mut().zip(&activity.resent).for_each(|(tally, of)| _ = tally.show(count(of)));
        board.replies_lost.show(count(&activity.replies_lost));
    }
}

impl Publisher for NodeMeters {
    fn publish(&self, _: &PublishPass) {
        self.show();
    }
}

impl Drop for NodeMeters {
    /// A process that has stopped its durable timers has no lease.
    fn drop(&mut self) {
        let board = lock(&self.board);
        board.lease.set(0.0);
        board.remaining.set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

    use super::*;
    use crate::boot_clock;

    fn registered(recorder: &PrometheusRecorder) -> (Arc<Shared>, NodeMeters) {
        let shared = Arc::new(Shared::default());
        let lease = Duration::from_secs(10);
        let meters = metrics::with_local_recorder(recorder, || NodeMeters::register("T", Arc::clone(&shared), lease));
        (shared, meters)
    }

    /// Returns the value of the series with this name and these labels beside that of the timer.
    fn value(page: &str, name: &str, label: &str) -> f64 {
        let start = format!("{name}{{timer=\"T\"{label}}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
        value.unwrap_or_else(|| panic!("no {start} in {page}"))
    }

    #[test]
    fn all_is_there_from_the_first_scrape() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (_shared, _meters) = registered(&recorder);
        let page = recorder.handle().render();
        for metric in CATALOGUE {
            assert!(page.contains(&format!("# TYPE {} ", metric.name)), "{}", metric.name);
        }
        let series: Vec<_> = page.lines().filter(|line| line.starts_with("actix_timers_")).collect();
        assert_eq!(series.len(), CATALOGUE.len() - 2 + Role::ALL.len() + Resent::ALL.len(), "{page}");
        let others = series.iter().filter(|line| !line.starts_with("actix_timers_postgres_lease_seconds"));
        assert!(others.into_iter().all(|line| line.ends_with(" 0")), "{page}");
    }

    #[test]
    fn everything_counted_and_measured_is_published_under_its_name_and_labels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (shared, meters) = registered(&recorder);
        let activity = &shared.activity;
        activity.took_over(2);
        activity.lost_lease();
        (0..3).for_each(|_| activity.lost_reply());
        for (times, role) in (4..).zip(Role::ALL) {
            (0..times).for_each(|_| activity.reconnected(role));
        }
        for (times, why) in (8..).zip(Resent::ALL) {
            (0..times).for_each(|_| activity.resent(why));
        }
        let oldest_snapshot = Duration::from_secs(14);
        activity.measured(Measured { nodes: 11, shards: 12, unowned: 13, oldest_snapshot });
        // Published twice, counted once.
        meters.publish_now();
        meters.publish_now();
        let page = recorder.handle().render();
        let session = |role: Role| (names::RECONNECTIONS, format!(",session=\"{}\"", role.name()));
        let reason = |why: Resent| (names::COMMITS_RESENT, format!(",reason=\"{}\"", why.name()));
        let plain = |metric| (metric, String::new());
        let expected = [
            plain(names::LEASES_LOST),
            plain(names::TAKEOVERS),
            plain(names::REPLIES_LOST),
            session(Role::Writer),
            session(Role::Reader),
            session(Role::Keeper),
            session(Role::Query),
            reason(Resent::Collision),
            reason(Resent::Fenced),
            reason(Resent::Folded),
            plain(names::NODES),
            plain(names::SHARDS),
            plain(names::SHARDS_UNOWNED),
            plain(names::OLDEST_SNAPSHOT),
        ];
        for (number, (metric, label)) in (1u32..).zip(expected) {
            let found = value(&page, metric.name, &label);
            assert!((found - f64::from(number)).abs() < f64::EPSILON, "{}{label}: {found}", metric.name);
        }
    }

    #[test]
    fn the_remaining_lease_runs_down_to_zero_and_a_stopped_node_has_none() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (shared, meters) = registered(&recorder);
        let shown = |name: &str| {
            meters.publish_now();
            value(&recorder.handle().render(), name, "")
        };
        let remaining = names::LEASE_REMAINING.name;
        shared.set_node(1, boot_clock::now() + Duration::from_secs(10));
        let first = shown(remaining);
        assert!(first > 8.0 && first <= 10.0, "{first}");
        shared.extend(boot_clock::now() + Duration::from_secs(5));
        assert!(shown(remaining) <= 5.0);
        shared.extend(Duration::ZERO);
        assert!(shown(remaining) <= 0.0);
        assert!(shown(names::LEASE.name) > 9.0);
        shared.set_node(2, boot_clock::now() + Duration::from_secs(10));
        shared.rejoin();
        assert!(shown(remaining) <= 0.0, "given up");
        drop(meters);
        assert!(value(&recorder.handle().render(), names::LEASE.name, "") <= 0.0);
    }

    #[test]
    fn the_catalogue_names_all_values_of_labels() {
        let has =
            |help: &str, word: &str| help.split(|c: char| !c.is_alphanumeric() && c != '_').any(|had| had == word);
        assert!(Role::ALL.iter().all(|role| has(names::RECONNECTIONS.help, role.name())));
        assert!(Resent::ALL.iter().all(|why| has(names::COMMITS_RESENT.help, why.name())));
    }
}

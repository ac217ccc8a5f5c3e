//! A node that drives the store through its trait, as durable timers do, without actors.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{
    Again, Claim, Delivery, Filter, Look, Looking, NewTimer, Next, NodeInfo, OnKey, Op, Outcome, Position, Served,
    Share, Store, Suspects,
};
use actix_timers_durable::{DueTime, DurableId};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use bench::durable::MESSAGE_TYPE;
use bench::times::each;

use crate::sql::{self, Session};
use crate::timer::{ROUTE, Timer, due_in};

/// Hints of a look, as in durable timers; and timers of a group that is not measured.
const PAGE: usize = 4096;

/// A schema with a store, dropped at the end.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) session: Session,
    pub(crate) lease: Duration,
}

impl Place {
    pub(crate) fn new(url: &str, schema: &str, lease: Duration) -> Self {
        Self { url: url.to_owned(), schema: schema.to_owned(), session: Session::open(url), lease }
    }

    /// As [`new`](Self::new), with timers that stay pending.
    pub(crate) fn filled(url: &str, schema: &str, lease: Duration, pending: &[Timer]) -> Self {
        let place = Self::new(url, schema, lease);
        place.fill(pending);
        place
    }

    /// Schedules timers by a node that has left afterwards.
    pub(crate) fn fill(&self, timers: &[Timer]) {
        let mut node = Node::join(self, Deliver::Nothing);
        timers.chunks(PAGE).for_each(|timers| node.schedule(timers));
        drop(node);
        self.settle();
    }

    pub(crate) async fn connect(&self) -> PostgresStore {
        let options = PostgresOptions::new().schema(&self.schema).lease(self.lease);
        PostgresStore::connect(&self.url, options).await.unwrap()
    }

    /// Lets the server's clock be ahead, so that timers fall due. The nodes may claim up to it, as after their next beats if
    /// their leases followed that clock, too.
    pub(crate) fn set_clock(&self, ahead: Duration) {
        let (schema, ahead) = (&self.schema, ahead.as_millis());
        self.session.execute(&format!(
            "CREATE OR REPLACE FUNCTION {schema}.server_now() RETURNS bigint LANGUAGE sql VOLATILE AS
             'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + {ahead}';
             UPDATE {schema}.nodes SET claimed_until = greatest(claimed_until, {schema}.server_now() + 3600000)"
        ));
    }

    pub(crate) fn settle(&self) {
        self.session.settle(&format!("{}.timers", self.schema));
    }

    /// Returns the query for the number of timers that are due by this time and not done.
    pub(crate) fn undone(&self, until: i64) -> String {
        format!("SELECT count(*) FROM {0}.timers WHERE id < {0}.first_id({until})", self.schema)
    }

    /// Counts the rows.
    pub(crate) fn rows(&self) -> u64 {
        self.session.number(&format!("SELECT count(*) FROM {}.timers", self.schema))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.session.drop_schema(&self.schema);
        }
    }
}

/// The timers that a node delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deliver {
    All,
    Nothing,
}

pub(crate) struct Node {
    store: PostgresStore,
    filter: Arc<Filter>,
}

impl Node {
    pub(crate) fn join(place: &Place, deliver: Deliver) -> Self {
        let mut store = sql::runtime().block_on(place.connect());
        let served =
            Served { index: 0, route: ROUTE.into(), message_type: MESSAGE_TYPE.into(), version: 1, max_attempts: 20 };
        let filter = Filter { served: if deliver == Deliver::All { vec![served] } else { Vec::new() } };
        store.join(&NodeInfo { name: "bench".into(), serves: filter.clone() }, DueTime::MIN).unwrap();
        Self { store, filter: Arc::new(filter) }
    }

    /// Renews the lease. Returns the part of the timers that this node delivers.
    pub(crate) fn beat(&mut self, running: &[Delivery]) -> Share {
        self.store.beat(running, DueTime::MIN).unwrap().share
    }

    /// Stores a group.
    pub(crate) fn schedule(&mut self, timers: &[Timer]) {
        let new = |timer: &Timer| NewTimer { record: Arc::new(timer.record()), on_key: OnKey::KeepExisting };
        let ops: Vec<_> = timers.iter().map(|timer| Op::Put(vec![new(timer)])).collect();
        assert!(self.apply(&ops).iter().all(|outcome| matches!(outcome, Outcome::Put(_))));
    }

    fn apply(&mut self, ops: &[Op]) -> Vec<Outcome> {
        let outcomes = self.store.apply(ops, DueTime::MIN).unwrap();
        assert_eq!(outcomes.len(), ops.len());
        outcomes.into_iter().map(Result::unwrap).collect()
    }

    /// Looks for the timers after a position that are due by `until`.
    pub(crate) fn look(&mut self, after: Option<Position>, until: DueTime) -> Looking {
        let look = Look { after, until, filter: Arc::clone(&self.filter), limit: PAGE, share: None };
        self.store.look(&look, DueTime::MIN)
    }

    /// Ends deliveries and claims timers. Returns the new deliveries.
    pub(crate) fn turn(
        &mut self,
        ended: &[Delivery],
        ids: &[DurableId],
        next: impl Fn(&Delivery) -> Next,
    ) -> Vec<Delivery> {
        let mut ops: Vec<_> = ended.iter().map(|delivery| Op::End(*delivery, next(delivery))).collect();
        if !ids.is_empty() {
            ops.push(Op::Claim(Claim { ids: ids.to_vec(), suspects: Suspects::Left }));
        }
        let mut claimed = Vec::new();
        for outcome in self.apply(&ops) {
            match outcome {
                Outcome::Claimed { records, .. } => claimed = records.iter().map(|record| record.delivery()).collect(),
                outcome => assert!(matches!(outcome, Outcome::Ended { .. }), "{outcome:?}"),
            }
        }
        claimed
    }

    /// Delivers all timers of this node's share that are due by `until`: each call ends a group, and claims the next one.
    /// Looks for more beside it. Returns their number.
    pub(crate) fn deliver(&mut self, until: DueTime, group: usize, next: impl Fn(&Delivery) -> Next) -> usize {
        let share = self.beat(&[]);
        let (mut after, mut hints, mut claimed, mut is_last) = (None, Vec::new(), Vec::new(), false);
        let mut delivered = 0;
        while !(is_last && hints.is_empty() && claimed.is_empty()) {
            let looking = (hints.len() < 2 * group && !is_last).then(|| self.look(after, until));
            let ids: Vec<_> = hints.drain(..group.min(hints.len())).collect();
            if !(ids.is_empty() && claimed.is_empty()) {
                claimed = self.turn(&claimed, &ids, &next);
            }
            assert_eq!(claimed.len(), ids.len());
            delivered += ids.len();
            if let Some(looking) = looking {
                let found = looking().unwrap();
                (after, is_last) = (found.rest, found.rest.is_none());
                hints.extend(found.hints.iter().filter(|hint| share.contains(hint.id, hint.route)).map(|hint| hint.id));
            }
        }
        delivered
    }
}

pub(crate) fn complete(_: &Delivery) -> Next {
    Next::Delete
}

/// Returns the next occurrence of a timer that repeats, due now.
pub(crate) fn again(delivery: &Delivery) -> Next {
    let now = due_in(Duration::ZERO);
    Next::Again(Again { due: now, nominal: now, repetition: delivery.repetition + 1, returned: 0 })
}

/// Divides work among threads, a part of the timers for each. Returns the nanoseconds per timer.
pub(crate) fn measure<N: Send>(nodes: &mut [N], timers: &[Timer], work: impl Fn(&mut N, &[Timer]) + Sync) -> f64 {
    let began = Instant::now();
    let part = timers.len().div_ceil(nodes.len());
    thread::scope(|scope| {
        for (node, timers) in nodes.iter_mut().zip(timers.chunks(part)) {
            let work = &work;
            scope.spawn(move || work(node, timers));
        }
    });
    each(began.elapsed(), timers.len())
}

//! The rules of the protocol, with several nodes in one process.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::store::{
    Again, Beat, Delivery, Filter, Look, NewTimer, Next, NodeInfo, OnKey, Op, Outcome, Placed, Position, Progress,
    Reads, Record, State, Store, Suspects,
};
use actix_timers_durable::{DueTime, DurableId, Pause, StoreError};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use support::store::{claim, claim_as, new, put, serving};
use uuid::Uuid;

use crate::server::{Session, connect, connect_to, far_away, new_schema, node, options, statements, until};
use crate::with_server;

pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// Returns the time of the server, which is this machine's, and a delay.
pub(crate) fn due_in(millis: i64) -> DueTime {
    let now = DueTime::reached_at(SystemTime::now()).as_millis();
    DueTime::from_millis(now.saturating_add_signed(millis)).unwrap()
}

pub(crate) fn timer(number: u64, delay: i64) -> Record {
    let due = due_in(delay);
    let id = DurableId::from_parts(due, number, number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ due.as_millis() << 20);
    Record { id, progress: Progress::first(due), ..support::store::record(number, 0) }
}

pub(crate) fn keyed(number: u64, key: &str) -> Record {
    Record { key: Some(key.into()), ..timer(number, 60_000) }
}

pub(crate) struct Node {
    pub(crate) store: PostgresStore,
    pub(crate) joined: Beat,
}

impl Node {
    pub(crate) fn join(schema: &str) -> Self {
        Self::join_with(options(schema))
    }

    pub(crate) fn join_with(options: PostgresOptions) -> Self {
        Self::join_as(connect(options).unwrap(), &node())
    }

    pub(crate) fn join_as(mut store: PostgresStore, node: &NodeInfo) -> Self {
        let joined = store.join(node, DueTime::MIN).unwrap();
        Self { store, joined }
    }

    pub(crate) fn try_apply(&mut self, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
        self.store.apply(ops, DueTime::MIN).unwrap()
    }

    /// Repeats locked changes, as the committer does.
    pub(crate) fn apply_all(&mut self, ops: &[Op]) -> Vec<Result<Outcome, StoreError>> {
        let mut outcomes = self.try_apply(ops);
        let end = Instant::now() + Duration::from_secs(5);
        while let Some(locked) = outcomes.iter().position(|outcome| matches!(outcome, Err(StoreError::Locked)))
            && Instant::now() < end
        {
            outcomes[locked] = self.try_apply(&ops[locked..=locked]).remove(0);
        }
        outcomes
    }

    pub(crate) fn apply(&mut self, op: Op) -> Outcome {
        self.try_apply(&[op]).remove(0).unwrap()
    }

    pub(crate) fn put(&mut self, record: &Record) {
        let Outcome::Put(placed) = self.apply(put(record)) else { panic!() };
        assert!(matches!(placed[..], [Placed::Created { .. }]), "{placed:?}");
    }

    pub(crate) fn put_all(&mut self, timers: impl IntoIterator<Item = Record>) -> Vec<DurableId> {
        let timers: Vec<Record> = timers.into_iter().collect();
        let outcomes = self.try_apply(&timers.iter().map(put).collect::<Vec<_>>());
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Put(_)))), "{outcomes:?}");
        timers.iter().map(|timer| timer.id).collect()
    }

    /// Stores a timer that has used up its budget.
    fn put_suspect(&mut self, number: u64) -> DurableId {
        let id = self.put_all([Record { max_attempts: Some(1), ..timer(number, 0) }])[0];
        let delivery = self.claim(&[id])[0];
        self.apply(Op::End(delivery, Next::Release));
        id
    }

    /// Claims the timers that can be claimed now.
    pub(crate) fn claim_now(&mut self, ids: &[DurableId]) -> Vec<DurableId> {
        let Outcome::Claimed { records, .. } = self.apply(claim(ids)) else { panic!() };
        records.iter().map(|record| record.id).collect()
    }

    /// Claims timers, all of which are due now or soon.
    pub(crate) fn claim(&mut self, ids: &[DurableId]) -> Vec<Delivery> {
        let mut claimed = Vec::new();
        let mut rest = ids.to_vec();
        until("all are claimed", Duration::from_secs(3), || {
            let Outcome::Claimed { records, .. } = self.apply(claim(&rest)) else { panic!() };
            rest.retain(|id| !records.iter().any(|record| record.id == *id));
            claimed.extend(records.iter().map(|record| record.delivery()));
            rest.is_empty().then_some(())
        });
        claimed.sort_unstable();
        claimed
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.store.sharing().is_some_and(|sharing| (sharing.has_lease)())
    }

    pub(crate) fn beat(&mut self, running: &[Delivery]) -> Beat {
        self.store.beat(running, DueTime::MIN).unwrap()
    }

    pub(crate) fn state(&mut self, id: DurableId) -> Option<(State, Progress)> {
        self.store.get(id).unwrap().map(|found| (found.state, found.record.progress))
    }

    pub(crate) fn look(&mut self, after: Option<Position>) -> Vec<DurableId> {
        let look = Look { after, until: due_in(600_000), filter: serving(&["a", "b"]), limit: 1000, share: None };
        self.store.look(&look, DueTime::MIN)().unwrap().hints.iter().map(|hint| hint.id).collect()
    }

    /// Returns the position at which looks begin that have passed all that was due before.
    pub(crate) fn look_after_now(&mut self) -> Position {
        std::thread::sleep(Duration::from_millis(5));
        Position { due: due_in(-1), id: DurableId::from_parts(due_in(-1), u64::MAX, u64::MAX) }
    }

    pub(crate) fn pid(&self, session: &Session, schema: &str) -> i32 {
        session.value(&format!("SELECT pid FROM {schema}.sessions WHERE lock = -{}", self.store.node()))
    }

    /// Ends the session that writes, as a network does, and returns the next beat.
    fn reconnect(&mut self, session: &Session, schema: &str) -> Beat {
        let pid = self.pid(session, schema);
        session.run(&format!("SELECT pg_terminate_backend({pid}, 1000)"));
        self.beat_again(&[])
    }

    fn beat_again(&mut self, running: &[Delivery]) -> Beat {
        until("it connects", Duration::from_secs(3), || self.store.beat(running, DueTime::MIN).ok())
    }

    /// Lets others take this node for dead.
    pub(crate) fn declare_dead(&self, session: &Session, schema: &str) {
        session.run(&format!("UPDATE {schema}.nodes SET dead = true WHERE id = {}", self.store.node()));
    }
}

/// Lets the server refuse changes of some rows, as by a trigger of an operator.
fn refuse(session: &Session, schema: &str, change: &str, rows: &str) {
    session.run(&format!(
        "CREATE OR REPLACE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
        CREATE TRIGGER refuse BEFORE {change} ON {schema}.timers FOR EACH ROW WHEN ({rows}) EXECUTE FUNCTION {schema}.refuse()"
    ));
}

/// Returns whether an outcome is an error of which nothing was kept.
fn is_unavailable(outcome: &Result<Outcome, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable(_) | StoreError::Locked))
}

with_server! {
    fn rule_1_a_late_claim_names_no_dead_node() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut zombie, mut node) = (Node::join(&schema), Node::join(&schema));
        let ids = node.put_all([timer(1, 0), timer(2, 0)]);
        let (zombie_id, nodes) = (zombie.store.node(), format!("SELECT count(*) FROM {schema}.nodes"));
        // A claim that has begun: the release waits for it, and finds it.
        let claiming = Session::open();
        let types = "ARRAY['a' || chr(31) || 'Order'], '{2}', '{3}'";
        claiming.run(&format!(
            "{}; BEGIN; EXECUTE lock_node ({zombie_id}); EXECUTE claim ({zombie_id}, '{{{}}}', {types}, false, false)",
            statements(&schema), ids[0]
        ));
        session.run("SET lock_timeout = '50ms'");
        assert!(session.error(&format!("UPDATE {schema}.nodes SET dead = true WHERE id = {zombie_id};
            SELECT FROM {schema}.nodes WHERE id = {zombie_id} FOR UPDATE")).contains("lock"));
        session.run(&format!("UPDATE {schema}.nodes SET dead = true WHERE id = {zombie_id}"));
        node.beat(&[]);
        assert_eq!(session.value::<i64>(&nodes), 2, "a claim is running");
        claiming.run("COMMIT");
        assert_eq!(node.state(ids[0]).unwrap().0, State::InFlight);
        assert!(node.beat(&[]).looks_begin_anew);
        assert_eq!(session.value::<i64>(&nodes), 1);
        assert_eq!(node.state(ids[0]).unwrap().0, State::Pending);
        // A late one, although it may schedule.
        until("it connects", Duration::from_secs(3), || zombie.try_apply(&[put(&timer(3, 60_000))]).remove(0).ok());
        assert_eq!(zombie.claim_now(&ids[1..]), []);
        assert_eq!(node.claim(&ids).len(), 2);
    }

    fn rule_2_the_release_of_a_dead_node_finishes() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let mut ids = node.put_all((0..100).map(|number| timer(number, -1000)));
        dead.beat(&[]);
        let claimed = dead.claim(&ids);
        // It hangs, with a statement half sent, which holds a lock. Its lease ends by the server's clock only.
        let hanging = Session::open();
        let dead_id = dead.store.node();
        hanging.run(&format!(
            "SELECT pg_advisory_lock_shared(-{dead_id}); BEGIN; SELECT FROM {schema}.timers WHERE id = '{}' FOR UPDATE",
            ids[7]
        ));
        let pid: i32 = hanging.value("SELECT pg_backend_pid()");
        session.run(&format!(
            "UPDATE {schema}.nodes SET lease_until = clock_timestamp() - interval '1 hour' WHERE id = {dead_id}"
        ));
        let began = Instant::now();
        node.beat(&[]);
        until("it is released", LEASE * 2, || {
            let beat = node.beat(&[]);
            assert!(beat.blamed.is_empty());
            beat.looks_begin_anew.then_some(())
        });
        assert!(began.elapsed() >= LEASE, "it was watched for a whole lease: {:?}", began.elapsed());
        until("its row goes", LEASE, || {
            node.beat(&[]);
            (session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes WHERE id = {dead_id}")) == 0).then_some(())
        });
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")), 0);
        assert_eq!(node.state(ids[7]).unwrap().1.used, 1, "the budget is used");
        let mut found = node.look(None);
        found.sort_unstable();
        ids.sort_unstable();
        assert_eq!(found, ids);
        // The zombie changes nothing, and learns it.
        for outcome in dead.try_apply(&claimed.iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect::<Vec<_>>()) {
            assert!(matches!(outcome, Ok(Outcome::NotFound) | Err(StoreError::Unavailable(_))), "{outcome:?}");
        }
        let beat = dead.beat_again(&claimed);
        assert_eq!(beat.lost.len(), 100);
        assert!(beat.looks_begin_anew && dead.has_lease() && dead.store.node() != dead_id);
    }

    /// One row is locked for long, and the releaser serves nothing: others find the timers all the same.
    fn rule_2_released_timers_are_found_while_the_row_of_the_dead_node_stays() {
        let (schema, session, stranger) = (new_schema(), Session::open(), Session::open());
        let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let ids = node.put_all([timer(1, -1000), timer(2, -1000)]);
        dead.claim(&ids);
        let web = NodeInfo { name: "web".to_owned(), serves: Filter::default() };
        let mut web = Node::join_as(connect(options(&schema)).unwrap(), &web);
        node.beat(&[]);
        let after = node.look_after_now();
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.timers WHERE id = '{}' FOR UPDATE", ids[0]));
        dead.declare_dead(&session, &schema);
        until("one is released", LEASE, || (web.beat(&[]).released == 1).then_some(()));
        assert!(!node.beat(&[]).looks_begin_anew);
        assert_eq!(node.look(Some(after)), [ids[1]]);
        stranger.run("COMMIT");
    }

    /// No page of a pass has them all.
    fn rule_2_claims_are_found_among_many_other_rows() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut gone, mut node) = (Node::join(&schema), Node::join(&schema));
        let ids = gone.put_all([timer(1, 0)]);
        let known = node.put_all([timer(2, 0)]);
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload)
            SELECT overlay({schema}.first_id(d)::text PLACING lpad(g::text, 12, '0') FROM 25)::uuid, d, g % 2 = 0, d, 'other', 'Order', ''
            FROM (SELECT g, {schema}.server_now() - 60000 + g AS d FROM generate_series(1, 25000) g) x; ANALYZE {schema}.timers"
        ));
        let last = gone.put_all([timer(3, -5)]);
        gone.claim(&[ids[0], last[0]]);
        let running = node.claim(&known);
        let lost = node.put_all([timer(4, -5)]);
        node.claim(&lost);
        gone.declare_dead(&session, &schema);
        session.run(&format!("SELECT pg_terminate_backend({}, 1000)", node.pid(&session, &schema)));
        let mut released = 0;
        until("all are released", Duration::from_secs(5), || {
            released += node.beat_again(&running).released;
            let left: i64 = session.value(&format!("SELECT count(*) FROM {schema}.timers WHERE node IS NOT NULL"));
            let nodes: i64 = session.value(&format!("SELECT count(*) FROM {schema}.nodes"));
            (left == 1 && nodes == 1).then_some(())
        });
        assert_eq!((released, node.state(lost[0]).unwrap().0), (2, State::Pending));
        assert_eq!(node.apply(Op::End(running[0], Next::Delete)), Outcome::Ended { due: None });
    }

    /// A node whose search for unknown claims takes several beats is taken for dead meanwhile, and releases its earlier self.
    fn rule_2_a_release_does_not_go_on_where_another_search_was() {
        const FAR: Duration = Duration::from_millis(100);
        let (schema, session) = (new_schema(), Session::open());
        drop(Node::join(&schema));
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, nominal, route, message_type, payload)
            SELECT overlay({schema}.first_id(d)::text PLACING lpad(g::text, 12, '0') FROM 25)::uuid, d, d,
                CASE g WHEN 1 THEN 'a' ELSE 'other' END, 'Order', ''
            FROM (SELECT g, {schema}.server_now() - 60000 + g AS d FROM generate_series(1, 60000) g) x; ANALYZE {schema}.timers"
        ));
        let first = session.value::<Uuid>(&format!("SELECT id FROM {schema}.timers WHERE route = 'a'"));
        let first = DurableId::from_uuid(first).unwrap();
        let (_runtime, _proxy, address) = far_away(FAR, FAR);
        let mut node = Node::join_as(connect_to(&address, options(&schema).lease(Duration::from_secs(60))).unwrap(), &node());
        let running = node.claim(&[first]);
        node.declare_dead(&session, &schema);
        until("the earlier self is released", Duration::from_secs(20), || {
            node.beat_again(&running);
            (session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes")) == 1).then_some(())
        });
        assert_eq!(node.state(first).unwrap().0, State::Pending);
    }

    fn rule_2_nothing_is_claimed_beyond_the_bound_of_a_release() {
        let (schema, session) = (new_schema(), Session::open());
        let (dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let timer = timer(1, -10);
        node.put(&timer);
        // The clock was set forward by more than the lease, and the node has not beaten since.
        let (id, gone) = (node.store.node(), dead.store.node());
        session.run(&format!("UPDATE {schema}.nodes SET claimed_until = {} WHERE id = {id}", due_in(-1000)));
        let Outcome::Claimed { records, not_due, .. } = node.apply(claim(&[timer.id])) else { panic!() };
        assert_eq!((records.len(), not_due.len()), (0, 1));
        session.run(&format!("UPDATE {schema}.nodes SET claimed_until = {} WHERE id = {id}", due_in(1000)));
        assert_eq!(node.claim(&[timer.id]).len(), 1);
        // A releaser finds timers that it has taken over, although they are due later than its own claims.
        session.run(&format!("UPDATE {schema}.nodes SET claimed_until = {}, dead = true WHERE id = {gone}", due_in(500_000)));
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload, attempt, used, node, alone)
            SELECT overlay(id::text PLACING 'ff' FROM 35)::uuid, {}, true, 0, 'a', 'Order', '\\x0100000000000000', 1, 1, {gone}, true FROM {schema}.timers",
            due_in(400_000)
        ));
        assert_eq!(node.beat(&[]).blamed.len(), 1);
        assert_eq!(node.reconnect(&session, &schema).blamed.len(), 1);
        drop(dead);
    }

    fn rule_3_a_lease_is_over_when_it_was_not_renewed() {
        let schema = new_schema();
        let mut node = Node::join(&schema);
        let joined = Instant::now();
        assert!(node.has_lease());
        thread::sleep(LEASE.saturating_sub(joined.elapsed()));
        assert!(!node.has_lease());
        node.beat(&[]);
        assert!(node.has_lease());
    }

    fn rule_5_only_a_timer_that_was_alone_is_to_blame() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let beside = dead.put_all([timer(3, 0)])[0];
        let [marked, unmarked, damaged] = [1, 2, 4].map(|number| dead.put_suspect(number));
        for (id, suspects) in [(marked, Suspects::Marked), (unmarked, Suspects::Unmarked), (damaged, Suspects::Marked)] {
            dead.apply(claim_as(&[id], suspects));
        }
        dead.claim(&[beside]);
        session.run(&format!("UPDATE {schema}.timers SET headers = '[1]' WHERE id = '{damaged}'"));
        dead.declare_dead(&session, &schema);
        let is_blamed = |beat: &Beat| beat.blamed.iter().map(|record| record.id).eq([marked]);
        assert!(is_blamed(&node.beat(&[])));
        assert_eq!(node.state(marked).unwrap().0, State::InFlight);
        assert_eq!([unmarked, beside].map(|id| node.state(id).unwrap().0), [State::Pending, State::Pending]);
        let sql = format!("SELECT node IS NULL AND parked LIKE 'damaged%' FROM {schema}.timers WHERE id = '{damaged}'");
        assert_eq!(session.value::<Option<bool>>(&sql), Some(true), "it cannot be read");
        // The reply is lost: it is told again, until it has ended.
        let beat = node.reconnect(&session, &schema);
        assert!(is_blamed(&beat));
        let end = Op::End(beat.blamed[0].delivery(), Next::Dead { reason: "its node died".into(), then: None });
        assert_eq!(node.apply(end), Outcome::Ended { due: None });
        assert_eq!(node.reconnect(&session, &schema).blamed, []);
        drop(dead);
    }

    /// Its budget and its past are known to nodes that serve the route. If none lives, any one ends it.
    fn rule_5_a_node_that_serves_the_route_blames() {
        for lives in [true, false] {
            let (schema, session) = (new_schema(), Session::open());
            let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
            let web = NodeInfo { name: "web".to_owned(), serves: Filter::default() };
            let mut web = Node::join_as(connect(options(&schema)).unwrap(), &web);
            let id = dead.put_suspect(1);
            dead.apply(claim_as(&[id], Suspects::Marked));
            let (late, others) = if lives { (&mut node, &mut web) } else { (&mut web, &mut node) };
            if lives {
                dead.declare_dead(&session, &schema);
                assert_eq!(others.beat(&[]).blamed, []);
            } else {
                others.declare_dead(&session, &schema);
                dead.declare_dead(&session, &schema);
            }
            let blamed = late.beat(&[]).blamed;
            assert_eq!(blamed.iter().map(|record| record.id).collect::<Vec<_>>(), [id]);
        }
    }

    fn rule_5_a_node_does_not_blame_what_it_has_claimed_itself() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let id = node.put_suspect(1);
        // The session has the reply, and nobody waits for it any more.
        node.apply(claim_as(&[id], Suspects::Marked));
        assert_eq!(node.reconnect(&session, &schema).blamed, []);
        assert_eq!(node.state(id).unwrap().0, State::Pending);
    }

    fn rule_6_batches_in_both_directions_do_not_deadlock() {
        let (schema, session) = (new_schema(), Session::open());
        let deadlocks = || session.value::<i64>("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
        let before = deadlocks();
        let mut nodes = [Node::join(&schema), Node::join(&schema)];
        for round in 0..180 {
            let timers: Vec<_> = (0..64).map(|number| timer(round * 64 + number, -1000)).collect();
            let puts: Vec<_> = timers.iter().map(put).collect();
            nodes[0].try_apply(&puts);
            nodes.iter_mut().for_each(|node| _ = node.beat(&[]));
            let mut all: Vec<Vec<Op>> = Vec::new();
            for (place, node) in nodes.iter_mut().enumerate() {
                let own: Vec<_> = timers.iter().skip(place).step_by(2).map(|timer| timer.id).collect();
                let mut ops: Vec<_> = node.claim(&own).into_iter().map(|delivery| Op::End(delivery, Next::Delete)).collect();
                // Those of the other one.
                ops.extend(timers.iter().skip(1 - place).step_by(2).map(|timer| Op::Cancel(timer.id)));
                if place == 1 {
                    ops.reverse();
                }
                all.push(ops);
            }
            let outcomes: Vec<Vec<_>> = thread::scope(|scope| {
                let running: Vec<_> = nodes.iter_mut().zip(&all).map(|(node, ops)| scope.spawn(|| node.apply_all(ops))).collect();
                running.into_iter().map(|running| running.join().unwrap()).collect()
            });
            let failed: Vec<_> = outcomes.iter().flatten().filter(|outcome| outcome.is_err()).collect();
            assert!(failed.is_empty(), "round {round}: {failed:?}");
            let ended = outcomes.iter().flatten().filter(|outcome| !matches!(outcome, Ok(Outcome::NotFound))).count();
            assert_eq!(ended, 64, "each is ended or cancelled, and by one");
        }
        assert_eq!(deadlocks(), before);
    }

    fn rule_6_a_locked_row_is_left_out() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all((0..8).map(|number| timer(number, -1000)));
        let claimed = node.claim(&ids[..3]);
        stranger.run(&format!(
            "BEGIN; SELECT {schema}.cancel('{}'), {schema}.cancel('{}'), {schema}.cancel('{}')",
            claimed[1].id, ids[3], ids[4]
        ));
        let began = Instant::now();
        assert_eq!(node.claim_now(&ids[3..]), ids[5..]);
        let ends = node.try_apply(&claimed.iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect::<Vec<_>>());
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert!(ends[0].is_ok() && is_unavailable(&ends[1]) && ends[2].is_ok(), "{ends:?}");
        let ops = [Op::Cancel(ids[3]), Op::Move(ids[4], due_in(0)), Op::Cancel(ids[5]), put(&timer(9, 60_000))];
        let outcomes = node.try_apply(&ops);
        assert!(is_unavailable(&outcomes[0]) && is_unavailable(&outcomes[1]), "{outcomes:?}");
        assert!(outcomes[2].is_ok() && outcomes[3].is_ok());
        assert!(began.elapsed() < Duration::from_millis(2000), "{:?}", began.elapsed());
        stranger.run("ROLLBACK");
        assert_eq!(node.apply(Op::End(claimed[1], Next::Delete)), Outcome::Ended { due: None });
        assert_eq!(node.apply(Op::Cancel(ids[3])), Outcome::Deleted);
        // A key that a stranger is about to use.
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.schedule('a', 'Order', ''::bytea, now() + interval '1 hour', 'k2')"));
        let outcomes = node.try_apply(&[put(&keyed(11, "k1")), put(&keyed(12, "k2")), put(&keyed(13, "k3"))]);
        assert!(outcomes[0].is_ok() && is_unavailable(&outcomes[1]) && outcomes[2].is_ok(), "{outcomes:?}");
        stranger.run("COMMIT");
        let Outcome::Put(placed) = node.apply(put(&keyed(12, "k2"))) else { panic!() };
        assert!(matches!(placed[..], [Placed::Exists(_)]));
    }

    fn rule_6_many_locked_keys_do_not_hold_up_the_others() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        stranger.run(&format!(
            "BEGIN; SELECT {schema}.schedule('a', 'Order', ''::bytea, now() + interval '1 hour', 'k' || i) FROM generate_series(0, 999) i"
        ));
        let mut puts: Vec<_> = (0..1000).map(|number| put(&keyed(number, &format!("k{number}")))).collect();
        puts.push(put(&keyed(1000, "free")));
        let call = |node: &mut Node, number: u64| {
            let other = put(&timer(2000 + number, 60_000));
            let (began, outcomes) = (Instant::now(), node.try_apply(&[&puts[..], &[other]].concat()));
            assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
            assert!(outcomes[..1000].iter().all(|outcome| matches!(outcome, Err(StoreError::Locked))));
            assert!(outcomes[1001].is_ok(), "{:?}", outcomes[1001]);
            outcomes[1000].is_ok()
        };
        assert!((0..16).any(|number| call(&mut node, number)), "each key has its turn");
        stranger.run("ROLLBACK");
        let are_stored = |node: &mut Node| node.try_apply(&puts).iter().all(Result::is_ok).then_some(());
        until("all are stored", Duration::from_secs(5), || are_stored(&mut node));
    }

    fn rule_6_locked_dead_letters_hold_up_nothing() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all((0..40).map(|number| timer(number, -1000)));
        let dead = |delivery: &Delivery| {
            let then = Again { due: due_in(0), nominal: due_in(0), repetition: 2, returned: 0 };
            Op::End(*delivery, Next::Dead { reason: "why".into(), then: (delivery.id == ids[0]).then_some(then) })
        };
        let ends: Vec<_> = node.claim(&ids).iter().map(dead).collect();
        assert!(node.try_apply(&ends).iter().all(Result::is_ok));
        let delivery = node.claim(&ids[..1])[0];
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.dead_letters FOR UPDATE"));
        // A letter of the series replaces its earlier one.
        let letters = ids[1..].iter().enumerate();
        let mut ops: Vec<_> = letters.map(|(place, id)| if place % 2 == 0 { Op::Discard(*id) } else { Op::Requeue(*id) }).collect();
        ops.push(dead(&delivery));
        let (began, outcomes) = (Instant::now(), node.try_apply(&[&ops[..], &[put(&timer(100, 60_000))]].concat()));
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert!(outcomes[..40].iter().all(|outcome| matches!(outcome, Err(StoreError::Locked))), "{outcomes:?}");
        assert!(outcomes[40].is_ok());
        stranger.run("ROLLBACK");
        assert!(node.try_apply(&ops).iter().all(Result::is_ok));
        assert_eq!(stranger.value::<i64>(&format!("SELECT count(*) FROM {schema}.dead_letters")), 1);
    }

    fn rule_6_a_burial_waits_for_no_row_and_frees_its_letter() {
        let (schema, stranger, burying) = (new_schema(), Session::open(), Session::open());
        let mut node = Node::join(&schema);
        let timer = timer(1, 0);
        node.put(&timer);
        let attempt = node.claim(&[timer.id])[0].attempt;
        stranger.run(&format!("UPDATE {schema}.timers SET alone = true"));
        let (id, none) = (timer.id, "'{NULL}'");
        let claimed = format!("{}, '{{{id}}}', '{{1}}', '{{{attempt}}}'", node.store.node());
        let bury = format!("SELECT FROM {schema}.bury({claimed}, '{{why}}', {none}, {none}, {none})");
        // Without a limit for locks it would wait until then.
        burying.run("SET lock_timeout = 0; SET statement_timeout = '2s'");
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.timers FOR UPDATE"));
        assert!(burying.error(&bury).contains("could not obtain lock"));
        stranger.run("COMMIT");
        burying.run(&bury);
        let is_free = format!("SELECT l.node IS NULL AND NOT l.alone FROM {schema}.dead_letters l");
        assert!(stranger.value::<bool>(&is_free));
    }

    fn rule_6_the_guilty_change_of_a_group_is_alone() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run(&format!("ALTER TABLE {schema}.timers ADD CHECK (route <> 'bad' AND parked <> 'bad')"));
        let timers: Vec<_> = (0..100).map(|number| timer(number, -1000)).collect();
        let bad = Record { route: "bad".into(), ..timer(200, 0) };
        let mut puts: Vec<_> = timers.iter().map(put).collect();
        puts.insert(61, put(&bad));
        let outcomes = node.try_apply(&puts);
        let failed: Vec<_> = (0..outcomes.len()).filter(|place| outcomes[*place].is_err()).collect();
        assert_eq!(failed, [61], "{:?}", outcomes[61]);
        let claimed = node.claim(&timers.iter().map(|timer| timer.id).collect::<Vec<_>>());
        let end = |(place, delivery): (usize, &Delivery)| {
            Op::End(*delivery, if place == 30 { Next::Park { reason: "bad".into() } } else { Next::Delete })
        };
        let outcomes = node.try_apply(&claimed.iter().enumerate().map(end).collect::<Vec<_>>());
        let failed: Vec<_> = (0..outcomes.len()).filter(|place| outcomes[*place].is_err()).collect();
        assert_eq!(failed, [30]);
        // Texts that no server stores are refused before.
        let nul = Record { message_type: "a\0b".into(), ..timer(300, 0) };
        assert!(node.try_apply(&[put(&nul)])[0].is_err());
        let long = Record { message_type: "t".repeat(2705).into(), ..timer(300, 0) };
        assert!(node.try_apply(&[put(&long)])[0].is_err());
        // The reason of another's error is stored, whatever it holds.
        let last = timer(301, -10);
        node.put(&last);
        let delivery = node.claim(&[last.id])[0];
        let end = Op::End(delivery, Next::Dead { reason: format!("a\0{}", "x".repeat(1 << 20)).into(), then: None });
        assert_eq!(node.apply(end), Outcome::Ended { due: None });
    }

    fn rule_6_an_end_that_a_trigger_refuses_is_no_failure_of_the_server() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all((0..2).map(|number| timer(number, -1000)));
        refuse(&session, &schema, "DELETE", &format!("OLD.id = '{}'", ids[0]));
        let ends: Vec<_> = node.claim(&ids).iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect();
        // Of the language, of the user, and of other classes of the standard.
        for (code, other) in [("P0001", Outcome::Ended { due: None }), ("UE001", Outcome::NotFound), ("20000", Outcome::NotFound)] {
            session.run(&format!(
                "CREATE OR REPLACE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql
                    AS 'BEGIN RAISE ''no'' USING ERRCODE = ''{code}''; END'"
            ));
            let outcomes = node.try_apply(&ends);
            assert!(matches!(outcomes[0], Err(StoreError::Rejected(_))), "{outcomes:?}");
            assert_eq!(*outcomes[1].as_ref().unwrap(), other);
        }
    }

    /// Each call has time for a part of the halves only.
    fn rule_6_ends_beside_a_refused_one_are_written_in_the_end() {
        let (_runtime, _proxy, address) = far_away(Duration::from_millis(15), Duration::from_millis(15));
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_as(connect_to(&address, options(&schema)).unwrap(), &node());
        let ids = node.put_all((0..256).map(|number| timer(number, -1000)));
        refuse(&session, &schema, "DELETE", &format!("OLD.id = '{}'", ids[0]));
        let mut ends: Vec<_> = node.claim(&ids).iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect();
        until("all but one are written", Duration::from_secs(20), || {
            let outcomes = node.try_apply(&ends);
            let is_refused = matches!(outcomes[0], Err(StoreError::Rejected(_)));
            let mut are_left = outcomes.iter().map(Result::is_err);
            ends.retain(|_| are_left.next() == Some(true));
            (ends.len() == 1 && is_refused).then_some(())
        });
    }

    fn rule_6_requests_with_one_key_keep_their_order_beside_a_refused_one() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        refuse(&session, &schema, "INSERT", "NEW.key = 'bad'");
        // Calls begin with another half in turn.
        for round in 0..4 {
            let [first, last, bad] = [(1, "k"), (2, "k"), (3, "bad")].map(|(number, key)| keyed(10 * round + number, key));
            let replace = |record| Op::Put(vec![new(record, OnKey::Replace)]);
            let outcomes = node.try_apply(&[replace(&first), replace(&last), put(&bad)]);
            assert!(matches!(outcomes[..], [Ok(_), Ok(_), Err(StoreError::Rejected(_))]), "{outcomes:?}");
            assert_eq!(node.store.find_key("a", "k").unwrap(), Some(last.id));
        }
    }

    fn rule_6_a_timer_whose_claim_the_server_refuses_is_set_aside() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all((0..40).map(|number| timer(number, -1000)));
        let bad = ids[23];
        let is_bad = format!("OLD.id = '{bad}'");
        refuse(&session, &schema, "UPDATE OF node", &is_bad);
        let outcomes = node.try_apply(&[claim(&ids), put(&timer(99, 60_000))]);
        let Ok(Outcome::Claimed { records, damaged, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
        assert_eq!((records.len(), &damaged[..], outcomes[1].is_ok()), (39, &[bad][..], true));
        assert!(matches!(node.state(bad).unwrap().0, State::Parked { reason } if reason.contains("no")));
        assert_eq!(node.look(None).len(), 1, "it is not found again");
        // Not even its parking: others join and claim all the same.
        session.run(&format!(
            "UPDATE {schema}.timers SET parked = NULL WHERE id = '{bad}'; DROP TRIGGER refuse ON {schema}.timers"
        ));
        refuse(&session, &schema, "UPDATE", &is_bad);
        node.apply(Op::End(records[0].delivery(), Next::GiveBack));
        let mut other = Node::join(&schema);
        assert_eq!(other.claim_now(&[bad, records[0].id]), [records[0].id]);
        session.run(&format!("DROP TRIGGER refuse ON {schema}.timers"));
        assert_eq!(other.claim(&[bad]).len(), 1);
    }

    fn rule_6_timers_whose_claims_were_refused_for_a_while_are_tried_again() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).late_look_interval(Duration::from_millis(300)));
        let ids = node.put_all((0..110).map(|number| timer(number, -1000)));
        refuse(&session, &schema, "UPDATE OF node", "true");
        let turn = |node: &mut Node| {
            thread::sleep(Duration::from_millis(30));
            node.beat(&[]);
            let found = node.look(None);
            if found.is_empty() { 0 } else { node.claim_now(&found).len() }
        };
        assert_eq!(node.claim_now(&ids), []);
        assert_eq!(node.look(None).len(), 0, "all are parked");
        let many = (0..20).map(|_| turn(&mut node)).sum::<usize>();
        assert_eq!((many, node.look(None).len()), (0, 0), "they are parked again");
        session.run(&format!("DROP TRIGGER refuse ON {schema}.timers"));
        let mut claimed = 0;
        until("all are claimed", Duration::from_secs(20), || {
            claimed += turn(&mut node);
            (claimed == ids.len()).then_some(())
        });
    }

    /// Their time grows with the number, and not with its square.
    fn rule_6_thousands_of_changes_are_one_commit() {
        const FEW: usize = 1024;
        const MANY: u64 = 8192;
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(60)));
        let ids = node.put_all((0..MANY).map(|number| timer(number, 600_000)));
        let few = node.put_all((0..FEW as u64).map(|number| timer(number, 600_000)));
        let mut commit = |ids: &[DurableId], op: fn(DurableId) -> Op| {
            let (ops, begun): (Vec<_>, _) = (ids.iter().map(|id| op(*id)).collect(), Instant::now());
            let outcomes = node.try_apply(&ops);
            let are_made = |outcome: &_| matches!(outcome, Ok(Outcome::Moved(_) | Outcome::Deleted));
            assert!(outcomes.iter().all(are_made), "{:?}", outcomes[0]);
            begun.elapsed()
        };
        let ops: [fn(DurableId) -> Op; 2] = [|id| Op::Move(id, due_in(700_000)), Op::Cancel];
        for op in ops {
            let [few, many] = [&few, &ids].map(|ids| commit(ids, op));
            // Eight times as many; the square would be 64 times as much.
            assert!(many < few * 32, "{few:?}, {many:?}");
        }
        let claim = |node: &mut Node| {
            let ids = node.put_all((0..MANY).map(|number| timer(number, 0)));
            let mut claimed: Vec<_> = ids.chunks(1024).flat_map(|ids| node.claim(ids)).collect();
            claimed.sort_unstable();
            claimed
        };
        let dead = claim(&mut node).into_iter().map(|it| Op::End(it, Next::Dead { reason: "no".into(), then: None }));
        let dead = node.try_apply(&dead.collect::<Vec<_>>());
        assert!(dead.iter().all(|outcome| matches!(outcome, Ok(Outcome::Ended { .. }))), "{:?}", dead[0]);
        // Claims whose replies were lost.
        claim(&mut node);
        node.reconnect(&session, &schema);
        let claimed = format!("SELECT count(*) FROM {schema}.timers WHERE node IS NOT NULL");
        until("they are given back", LEASE, || {
            node.beat(&[]);
            (session.value::<i64>(&claimed) == 0).then_some(())
        });
    }

    /// While another key is locked, too, and more wait than are tried together.
    fn rule_6_puts_of_one_key_keep_their_order() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let replace =
            |number, key: &str| Op::Put(vec![NewTimer { record: Arc::new(keyed(number, key)), on_key: OnKey::Replace }]);
        stranger.run(&format!(
            "BEGIN; SELECT {schema}.schedule('a', 'Order', '1'::jsonb, now() + interval '1 hour', key => 'locked')"
        ));
        for round in 0..3 {
            assert!(matches!(node.try_apply(&[replace(0, "locked")])[0], Err(StoreError::Locked)));
            let [first, last] = [1000 * round + 1000, 1000 * round + 1400].map(|number| replace(number, "k"));
            let mut ops: Vec<_> = (1..300).map(|number| replace(1000 * round + 1000 + number, &number.to_string())).collect();
            ops.insert(0, first);
            ops.push(last);
            let outcomes = node.try_apply(&ops);
            let Op::Put(last) = &ops[300] else { unreachable!() };
            assert_eq!(node.store.find_key(&last[0].record.route, "k").unwrap(), Some(last[0].record.id), "{:?}", outcomes[300]);
        }
        stranger.run("COMMIT");
    }

    fn rule_7_looks_find_what_was_moved_retried_and_repeated() {
        let schema = new_schema();
        let (mut node, mut other) = (Node::join(&schema), Node::join(&schema));
        let timers: Vec<_> = (0..4).map(|number| timer(number, -5000)).collect();
        timers.iter().for_each(|timer| node.put(timer));
        let claimed = node.claim(&timers.iter().map(|timer| timer.id).collect::<Vec<_>>());
        // The other one's looks have come to the present time.
        let bound = Position { due: due_in(0), id: DurableId::from_parts(due_in(0), 0, 0) };
        assert_eq!(other.look(Some(bound)), []);
        thread::sleep(Duration::from_millis(5));
        let again = |repetition| Again { due: timers[0].progress.due, nominal: timers[0].progress.due, repetition, returned: 0 };
        node.apply(Op::End(claimed[0], Next::Again(again(1))));
        node.apply(Op::End(claimed[1], Next::Again(again(2))));
        node.apply(Op::End(claimed[2], Next::Dead { reason: "x".into(), then: Some(again(2)) }));
        node.apply(Op::End(claimed[3], Next::Dead { reason: "x".into(), then: None }));
        assert!(matches!(node.apply(Op::Requeue(timers[3].id)), Outcome::Moved(_)));
        let (moved, late) = (timer(10, 60_000), timer(11, -5000));
        node.put(&moved);
        assert!(matches!(node.apply(Op::Move(moved.id, due_in(-9000))), Outcome::Moved(_)));
        let late_keyed = Record { key: Some("late".into()), ..timer(12, -5000) };
        [&late, &late_keyed].into_iter().for_each(|late| node.put(late));
        let mut found = other.look(Some(bound));
        found.sort_unstable();
        let mut all: Vec<_> = timers.iter().map(|timer| timer.id).chain([moved.id, late.id, late_keyed.id]).collect();
        all.sort_unstable();
        assert_eq!(found, all);
    }

    fn rule_7_a_beat_takes_no_open_transaction_for_a_later_one() {
        let (schema, stranger, session) = (new_schema(), Session::open(), Session::open());
        let node = Node::join_with(options(&schema).lease(Duration::from_secs(600))).store.node();
        for _ in 0..20 {
            // Others may have ended none since.
            stranger.run("BEGIN");
            let open: i64 = stranger.value("SELECT pg_current_xact_id()::text::bigint");
            let next: i64 = session.value(&format!(
                "SELECT next FROM {schema}.beat({node}, '{{}}', '{{}}', '{{}}', 600000, false, '{{}}')"
            ));
            assert!(open < next, "{open} {next}");
            stranger.run("COMMIT");
        }
    }

    fn rule_7_rows_that_are_committed_late_are_looked_for_again() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).late_look_interval(Duration::from_millis(1000)));
        let mut other = Node::join_with(options(&schema).late_look_interval(Duration::MAX));
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.schedule('a', 'Order', ''::bytea, now())"));
        let began = due_in(0);
        let (end, mut times) = (Instant::now() + Duration::from_secs(4), 0);
        while Instant::now() < end {
            other.beat(&[]);
            times += usize::from(node.beat(&[]).look_again_from.is_some_and(|from| from <= began && from > due_in(-60_000)));
            thread::sleep(Duration::from_millis(100));
        }
        assert!(times >= 3, "{times} times, its transaction is open");
        stranger.run("COMMIT");
        // Long before the next time of looks for late timers: at once, but for transactions of other tests that are as old.
        let from = until("looks begin again", Duration::from_secs(180), || {
            thread::sleep(Duration::from_millis(50));
            other.beat(&[]).look_again_from.filter(|from| *from <= began)
        });
        let after = Position { due: from, id: DurableId::from_parts(from, 0, 0) };
        assert_eq!(node.look(Some(after)).len(), 1);
        until("the bound goes on", Duration::from_secs(5), || {
            thread::sleep(Duration::from_millis(1000));
            node.beat(&[]).look_again_from.filter(|from| *from > began)
        });
    }

    fn keys_that_are_put_concurrently_are_reported_once() {
        let schema = new_schema();
        let nodes = [Node::join(&schema), Node::join(&schema), Node::join(&schema)];
        let reported: Vec<(Vec<DurableId>, Vec<DurableId>)> = thread::scope(|scope| {
            let work = |place: u64, mut node: Node| {
                let (mut created, mut replaced) = (Vec::new(), Vec::new());
                for round in 0..60 {
                    let ops: Vec<_> = (0..20_u64)
                        .map(|number| {
                            let key = (number * 7 + place * 3) % 20;
                            let on_key = if (number + round) % 3 == 0 { OnKey::KeepExisting } else { OnKey::Replace };
                            Op::Put(vec![new(&keyed(place << 32 | round << 8 | number, &format!("k{key}")), on_key)])
                        })
                        .collect();
                    for (op, outcome) in ops.iter().zip(node.apply_all(&ops)) {
                        let (Op::Put(timers), Outcome::Put(placed)) = (op, outcome.unwrap()) else { panic!() };
                        match placed[0] {
                            Placed::Created { .. } => created.push(timers[0].record.id),
                            Placed::Replaced { old, .. } => {
                                created.push(timers[0].record.id);
                                replaced.push(old);
                            }
                            Placed::Exists(_) => {}
                        }
                    }
                }
                (created, replaced)
            };
            let running: Vec<_> =
                nodes.into_iter().zip(0..).map(|(node, place)| scope.spawn(move || work(place, node))).collect();
            running.into_iter().map(|running| running.join().unwrap()).collect()
        });
        let created: HashSet<_> = reported.iter().flat_map(|(created, _)| created).copied().collect();
        let all: Vec<_> = reported.iter().flat_map(|(_, replaced)| replaced).copied().collect();
        let replaced: HashSet<_> = all.iter().copied().collect();
        assert_eq!(all.len(), replaced.len(), "none is reported twice");
        assert!(replaced.is_subset(&created));
        let mut node = Node::join(&schema);
        let mut left = node.look(None);
        left.sort_unstable();
        let mut expected: Vec<_> = created.difference(&replaced).copied().collect();
        expected.sort_unstable();
        assert_eq!((left.len(), left), (20, expected));
    }

    fn rule_2_a_node_that_is_gone_releases_nothing() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let ids = node.put_all([timer(1, -10)]);
        dead.claim(&ids);
        let gone = dead.store.node();
        dead.declare_dead(&session, &schema);
        session.run(&format!("SELECT {schema}.release(999, {gone}, ARRAY['{}'::uuid], true)", ids[0]));
        assert_eq!(session.value::<i64>(&format!("SELECT node FROM {schema}.timers")), gone);
        node.beat(&[]);
        assert_eq!(node.state(ids[0]).unwrap().0, State::Pending);
    }

    fn rule_12_what_a_hand_writes_into_due_is_found() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut node, mut dead) = (Node::join(&schema), Node::join(&schema));
        let ids = node.put_all([timer(1, 60_000), timer(2, 60_000), timer(3, -10)]);
        dead.claim(&[ids[2]]);
        let bound = Position { due: due_in(0), id: DurableId::from_parts(due_in(0), 0, 0) };
        session.run(&format!("UPDATE {schema}.timers SET due = 5 WHERE id = '{}'", ids[0]));
        session.run(&format!("UPDATE {schema}.timers SET due = {} WHERE id = '{}'", due_in(70_000), ids[1]));
        assert_eq!(node.look(Some(bound)), [ids[0], ids[1]]);
        // Beyond all times of looks and lists.
        session.run(&format!("UPDATE {schema}.timers SET due = 9e18 WHERE id = '{}'", ids[1]));
        assert_eq!(node.state(ids[1]).unwrap().1.due, DueTime::MAX);
        assert_eq!(node.claim(&[ids[0]]).len(), 1);
        // Of a claimed row, whose node dies.
        session.run(&format!("UPDATE {schema}.timers SET due = {} WHERE id = '{}'", due_in(500_000), ids[2]));
        dead.declare_dead(&session, &schema);
        node.beat(&[]);
        assert_eq!(node.state(ids[2]).unwrap().0, State::Pending);
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes")), 1);
    }

    fn nodes_divide_the_timers() {
        let schema = new_schema();
        let mut nodes = [Node::join(&schema), Node::join(&schema), Node::join(&schema)];
        let shares: Vec<_> = nodes.iter_mut().map(|node| node.beat(&[]).share).collect();
        let routes: Vec<u16> = serving(&["a", "b"]).served.iter().map(|served| served.index).collect();
        for number in 0..300 {
            let id = timer(number, 0).id;
            for route in &routes {
                assert_eq!(shares.iter().filter(|share| share.contains(id, *route)).count(), 1);
            }
        }
        let [first, ..] = &mut nodes;
        assert_eq!(first.beat(&[]).share, shares[0]);
    }

    fn damaged_rows_are_parked() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all([timer(1, -10), timer(2, -10)]);
        session.run(&format!("UPDATE {schema}.timers SET headers = '[1]' WHERE id = '{}'", ids[0]));
        let Outcome::Claimed { records, damaged, .. } = node.apply(claim(&ids)) else { panic!() };
        assert_eq!((records.len(), &damaged[..]), (1, &ids[..1]));
        let parked: Option<String> = session.value(&format!("SELECT parked FROM {schema}.timers WHERE id = '{}'", ids[0]));
        assert!(parked.unwrap().contains("damaged"));
        assert!(node.store.get(ids[0]).is_err());
        assert_eq!(node.store.reader().unwrap().unwrap().counts(None).unwrap().parked, 1);
    }

    fn a_node_that_retires_gives_up_its_share_and_keeps_its_claims() {
        let schema = new_schema();
        let (mut leaving, mut other) = (Node::join(&schema), Node::join(&schema));
        let ids = leaving.put_all([timer(1, 0)]);
        let claimed = leaving.claim(&ids);
        let nodes = |beat: Beat| beat.share.places.iter().map(|(_, nodes)| *nodes).max();
        assert_eq!(nodes(other.beat(&[])), Some(2));
        leaving.store.retire();
        assert_eq!(nodes(other.beat(&[])), Some(1));
        assert!(leaving.beat(&claimed).lost.is_empty());
        assert_eq!(leaving.apply(Op::End(claimed[0], Next::Delete)), Outcome::Ended { due: None });
    }

    fn a_claim_a_moment_early_is_not_forgotten() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        let record = timer(1, 60_000);
        node.put(&record);
        let due = record.progress.due;
        // The time comes while the claim is made.
        session.run(&format!(
            "CREATE SEQUENCE {schema}.calls; CREATE OR REPLACE FUNCTION {schema}.server_now() RETURNS bigint LANGUAGE sql VOLATILE
            AS 'SELECT {due} - 3 + least(nextval(''{schema}.calls''), 3)'"
        ));
        let Outcome::Claimed { records, not_due, left, .. } = node.try_apply(&[claim(&[record.id])]).remove(0).unwrap() else {
            panic!("it is a claim");
        };
        assert!(records.is_empty() && left.is_empty());
        assert_eq!(not_due, [(record.id, due)]);
    }

    fn a_claim_that_fails_halfway_is_given_back() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        let ids = node.put_all((1..=4).map(|number| timer(number, -10)));
        session.run(&format!(
            "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.node IS NOT NULL AND NEW.id = '{}' THEN RAISE EXCEPTION 'refused'; END IF;
                IF NEW.node IS NOT NULL AND NEW.id = '{}' THEN RAISE EXCEPTION 'locked' USING ERRCODE = '55P03'; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.timers FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()",
            ids[2], ids[3]
        ));
        assert!(node.try_apply(&[claim(&ids)]).remove(0).is_err());
        assert!(node.beat(&[]).looks_begin_anew);
        let claimed = format!("SELECT count(*) FROM {schema}.timers WHERE node IS NOT NULL");
        assert_eq!(session.value::<i64>(&claimed), 0);
    }

    fn a_kept_key_is_out_of_the_way_of_looks_and_releases() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        let record = Record { keep_key: Some(Duration::from_secs(60)), key: Some("k".into()), ..timer(1, -10) };
        node.put(&record);
        let claimed = node.claim(&[record.id]);
        let ended = node.try_apply(&[Op::End(claimed[0], Next::KeepKey(Duration::from_secs(60)))]).remove(0).unwrap();
        assert_eq!(ended, Outcome::Ended { due: None });
        let early = format!("SELECT count(*) FROM {schema}.timers WHERE moved OR id < {schema}.first_id(281474976710654)");
        assert_eq!(session.value::<i64>(&early), 0);
        let again = Record { key: Some("k".into()), ..timer(2, 60_000) };
        let Outcome::Put(placed) = node.try_apply(&[put(&again)]).remove(0).unwrap() else { panic!("it is a put") };
        assert_eq!(placed, [Placed::Exists(record.id)]);
    }

    fn rule_2_a_row_that_the_server_refuses_keeps_no_other_claimed() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut dead, mut node) = (Node::join(&schema), Node::join(&schema));
        let ids = dead.put_all((0..6).map(|number| timer(number, -1000)));
        dead.claim(&ids[..3]);
        node.claim(&ids[3..]);
        refuse(&session, &schema, "UPDATE", &format!("OLD.id IN ('{}', '{}')", ids[1], ids[4]));
        // The claims of the dead node are released, those of the other one searched for.
        dead.declare_dead(&session, &schema);
        session.run(&format!("SELECT pg_terminate_backend({}, 1000)", node.pid(&session, &schema)));
        let claimed = format!("SELECT count(*) FROM {schema}.timers WHERE node IS NOT NULL");
        until("all but the refused ones are free", 3 * LEASE, || {
            _ = node.store.beat(&[], DueTime::MIN);
            (session.value::<i64>(&claimed) == 2).then_some(())
        });
    }

    fn rule_3_many_changes_of_one_timer_cost_no_lease() {
        let (schema, way) = (new_schema(), Duration::from_millis(2));
        let (_runtime, _proxy, address) = far_away(way, way);
        let mut node = Node::join_as(connect_to(&address, options(&schema)).unwrap(), &node());
        let record = timer(1, 600_000);
        node.put(&record);
        node.beat(&[]);
        let moves: Vec<_> = (0..1024).map(|number| Op::Move(record.id, due_in(700_000 + number))).collect();
        let outcomes = node.try_apply(&moves);
        assert!(outcomes[0].is_ok());
        let made = |outcome: &Result<_, _>| matches!(outcome, Ok(Outcome::Moved(_)) | Err(StoreError::Locked));
        assert!(outcomes.iter().all(made) && node.has_lease());
    }

    fn rule_3_a_lock_of_the_pauses_costs_no_lease() {
        let (schema, blocker) = (new_schema(), Session::open());
        let (mut node, mut other) = (Node::join(&schema), Node::join(&schema));
        let ids = node.put_all([timer(1, -10)]);
        let claimed = node.claim(&ids);
        let pause = Pause::route("b");
        node.apply(Op::Pause(pause.clone()));
        node.beat(&claimed);
        blocker.run(&format!("BEGIN; LOCK TABLE {schema}.pauses"));
        let locked = Instant::now();
        while locked.elapsed() < 2 * LEASE {
            let beat = node.beat(&claimed);
            assert!(beat.paused == [pause.clone()] && !beat.looks_begin_anew);
            assert_eq!(other.beat(&[]).released, 0);
        }
        blocker.run("ROLLBACK");
        assert!(node.has_lease() && node.beat(&claimed).lost.is_empty());
    }
}

//! Several nodes: leases, take-over, fences, replies that were lost.

use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{Again, Next, Op, Outcome, Placed, Record, State};
use actix_timers_postgres::PostgresOptions;
use support::store::{claim, put};

use crate::proxy::Wire;
use crate::rules::{LEASE, Node, due_in, keyed, timer};
use crate::server::{Session, connect_to, new_schema, node, options, proxy, until};
use crate::with_server;

/// Returns a timer with a key that is due.
fn keyed_due(number: u64) -> Record {
    Record { key: Some(format!("due {number}").into()), ..timer(number, -10) }
}

with_server! {
    fn a_lease_is_renewed_after_a_quarter_and_not_at_each_beat() {
        let schema = new_schema();
        let session = Session::open();
        let row = || -> (String, f64) {
            let sql = "SELECT ctid::text, extract(epoch FROM lease_until - clock_timestamp())::float8 FROM";
            let rows = session.query(&format!("{sql} {schema}.nodes"));
            (rows[0].get(0), rows[0].get(1))
        };
        let mut node = Node::join_with(PostgresOptions::new().schema(&schema).lease(Duration::from_secs(3600)));
        let joined = row();
        node.beat(&[]);
        assert_eq!(row().0, joined.0);
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until - interval '890 seconds'"));
        let early = row();
        node.beat(&[]);
        assert_eq!(row().0, early.0);
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until - interval '20 seconds'"));
        node.beat(&[]);
        assert!(row().1 > 3590.0);
        // The clock was set back.
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until + interval '1000 seconds'"));
        node.beat(&[]);
        assert!(row().1 < 3601.0);
    }

    fn a_reconnection_ends_the_session_and_no_handlers_transaction() {
        let (schema, admin, handler) = (new_schema(), Session::open(), Session::open());
        let (other, stranger) = (Session::open(), Session::open());
        let node = Node::join(&schema);
        let id = node.store.node();
        handler.run(&format!("BEGIN; SELECT pg_advisory_xact_lock_shared({id})"));
        other.run(&format!("SELECT pg_advisory_lock_shared(-{id})"));
        // A pooler hands a session on.
        stranger.run(&format!("SELECT pg_advisory_lock_shared(-{id})"));
        stranger.run("DISCARD ALL");
        assert!(admin.value::<bool>(&format!("SELECT {schema}.end_sessions({id}, 1000, true)")));
        other.error("SELECT 1");
        handler.run("COMMIT; BEGIN");
        handler.run(&format!("SELECT pg_advisory_xact_lock_shared({id})"));
        assert!(admin.value::<bool>(&format!("SELECT {schema}.end_sessions({id}, 1000, false)")));
        handler.error("SELECT 1");
        stranger.run("SELECT 1");
    }

    /// Its last claim may be on its way there.
    fn a_node_that_leaves_without_a_connection_ends_its_earlier_session() {
        let (schema, admin) = (new_schema(), Session::open());
        // It may leave before it notices that the connection is gone.
        until("one has noticed", Duration::from_secs(10), || {
            let (node, earlier) = (Node::join(&schema), Session::open());
            let pids = (node.pid(&admin, &schema), earlier.value::<i32>("SELECT pg_backend_pid()"));
            earlier.run(&format!("SELECT pg_advisory_lock_shared(-{})", node.store.node()));
            admin.run(&format!("SELECT pg_terminate_backend({}, 1000)", pids.0));
            drop(node);
            let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {}", pids.1);
            (admin.value::<i64>(&left) == 0).then_some(())
        });
    }

    fn rule_2_a_lease_is_renewed_although_a_table_is_locked() {
        for table in ["timers", "dead_letters", "routes"] {
            let schema = new_schema();
            let (mut node, mut other, blocker) = (Node::join(&schema), Node::join(&schema), Session::open());
            let timer = timer(1, -10);
            node.put(&timer);
            let claimed = node.claim(&[timer.id]);
            let id = node.store.node();
            blocker.run(&format!("BEGIN; LOCK TABLE {schema}.{table}"));
            let began = Instant::now();
            while began.elapsed() < LEASE * 2 {
                let beat = node.beat(&claimed);
                assert!(beat.lost.is_empty() && node.has_lease(), "{table}: {beat:?}");
                assert!(other.beat(&[]).blamed.is_empty());
                thread::sleep(LEASE / 20);
            }
            blocker.run("ROLLBACK");
            assert_eq!(node.store.node(), id);
            assert_eq!(node.apply(Op::End(claimed[0], Next::Delete)), Outcome::Ended { due: None });
        }
    }

    fn nodes_that_release_a_dead_one_release_each_claim_once() {
        for _ in 0..3 {
            let (schema, session) = (new_schema(), Session::open());
            let mut heirs = [Node::join(&schema), Node::join(&schema)];
            let mut dead = Node::join(&schema);
            let ids = dead.put_all((0..200).map(|number| timer(number, -10)));
            dead.claim(&ids);
            dead.declare_dead(&session, &schema);
            thread::scope(|scope| heirs.iter_mut().for_each(|heir| _ = scope.spawn(|| _ = heir.beat(&[]))));
            until("released", Duration::from_secs(3), || {
                heirs.iter_mut().for_each(|heir| _ = heir.beat(&[]));
                (session.value::<i64>(&format!("SELECT count(*) FROM {schema}.nodes")) == 2).then_some(())
            });
            let claims: Vec<_> = thread::scope(|scope| {
                let claims: Vec<_> = heirs.iter_mut().map(|heir| {
                    let op = claim(&ids);
                    scope.spawn(move || match heir.apply(op) {
                        Outcome::Claimed { records, .. } => records,
                        other => panic!("{other:?}"),
                    })
                }).collect();
                claims.into_iter().flat_map(|claim| claim.join().unwrap()).collect()
            });
            assert_eq!(claims.len(), 200);
            assert!(claims.iter().all(|record| (record.progress.attempt, record.progress.used) == (2, 2)));
        }
    }

    fn rule_4_a_lost_reply_is_found_out() {
        let (schema, (_runtime, proxy, address)) = (new_schema(), proxy());
        let options = options(&schema).timeout(Duration::from_secs(2));
        let mut node = Node::join_as(connect_to(&address, options).unwrap(), &node());
        let ids = node.put_all((0..7).map(|number| timer(number, -10)));
        let again = Again { due: due_in(60_000), nominal: due_in(60_000), repetition: 2, returned: 0 };
        // All statements are prepared, so that only their last reply is missing.
        for (number, next) in (20..).zip([Next::Delete, Next::Again(again)]) {
            let timer = keyed_due(number);
            node.apply(put(&timer));
            let delivery = node.claim(&[timer.id])[0];
            node.apply(Op::End(delivery, next));
            node.apply(Op::Cancel(timer.id));
        }
        let claimed = node.claim(&[ids[0], ids[1], ids[6]]);
        let (new, with_key) = (timer(10, 60_000), keyed(11, "k"));
        let ops = [
            Op::End(claimed[0], Next::Delete),
            Op::End(claimed[1], Next::Again(again)),
            Op::Cancel(ids[2]),
            put(&new),
            claim(&[ids[3], ids[4]]),
            put(&with_key),
        ];
        let admin = Session::open();
        let is_there = format!("SELECT FROM {schema}.timers WHERE id = '{}'", new.id);
        proxy.set(Wire::Stalled { up: false, down: true });
        let repeated = ops.clone();
        let applying = thread::spawn(move || {
            let outcomes = node.try_apply(&ops);
            (node, outcomes)
        });
        until("committed", Duration::from_secs(3), || (!admin.query(&is_there).is_empty()).then_some(()));
        assert!(!applying.is_finished(), "the reply is on its way");
        proxy.set(Wire::Cut);
        proxy.set(Wire::Whole);
        let (mut node, outcomes) = applying.join().unwrap();
        assert!(outcomes[..5].iter().all(|outcome| matches!(outcome, Err(StoreError::Unknown(_)))), "{outcomes:?}");
        // All may be repeated, and say the outcome.
        let outcomes = until("it connects", Duration::from_secs(5), || {
            let outcomes = node.try_apply(&repeated);
            outcomes.iter().all(Result::is_ok).then_some(outcomes)
        });
        let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        assert_eq!(outcomes[..3], [Outcome::NotFound, Outcome::NotFound, Outcome::NotFound]);
        assert_eq!(outcomes[3], Outcome::Put(vec![Placed::Exists(new.id)]));
        let Outcome::Claimed { records, .. } = &outcomes[4] else { panic!() };
        assert!(records.is_empty(), "they are claimed by this node");
        let Outcome::Put(placed) = &outcomes[5] else { panic!() };
        assert!(matches!(placed[..], [Placed::Created { .. } | Placed::Exists(_)]), "{placed:?}");
        assert_eq!(node.state(ids[1]).unwrap().1.repetition, 2);
        // A claim whose reply was lost is given back, and no other one.
        let beat = node.beat(&claimed[2..]);
        assert!(beat.looks_begin_anew && beat.lost.is_empty());
        assert_eq!(node.apply(Op::End(claimed[2], Next::Delete)), Outcome::Ended { due: None });
        for id in &ids[3..5] {
            let (state, progress) = node.state(*id).unwrap();
            assert_eq!((state, progress.used, progress.attempt), (State::Pending, 0, 1));
        }
        assert_eq!(node.claim(&[ids[3], ids[4], ids[5]]).len(), 3);
        assert_eq!(admin.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers WHERE key = 'k'")), 1);
    }
}

//! Several nodes: leases, take-over, fences, replies that were lost.

use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::StoreError;
use actix_timers_durable::store::{Again, Next, Op, Outcome, Placed, Reads, Record, State};
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
        let (schema, admin, handler, other) = (new_schema(), Session::open(), Session::open(), Session::open());
        let node = Node::join(&schema);
        let id = node.store.node();
        handler.run(&format!("BEGIN; SELECT pg_advisory_xact_lock_shared({id})"));
        other.run(&format!(
            "UPDATE {schema}.nodes SET sessions = (SELECT jsonb_build_array(jsonb_build_object('pid', a.pid, 'started', a.backend_start,
                'server', pg_postmaster_start_time())) FROM pg_stat_activity a WHERE a.pid = pg_backend_pid())"
        ));
        assert!(admin.value::<bool>(&format!("SELECT {schema}.end_sessions({id}, 1000, true)")));
        other.error("SELECT 1");
        handler.run("COMMIT; BEGIN");
        handler.run(&format!("SELECT pg_advisory_xact_lock_shared({id})"));
        assert!(admin.value::<bool>(&format!("SELECT {schema}.end_sessions({id}, 1000, false)")));
        handler.error("SELECT 1");
    }

    fn the_timers_of_a_dead_node_are_taken_over_with_its_claims() {
        let (schema, (_runtime, proxy, address)) = (new_schema(), proxy());
        let mut dead = Node::join_as(connect_to(&address, options(&schema)).unwrap(), &node());
        let mut heir = Node::join(&schema);
        let timers: Vec<_> = (0..6).map(|number| timer(number, -10)).collect();
        timers.iter().for_each(|timer| dead.put(timer));
        let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
        let claimed = dead.claim(&ids[..3]);
        // Its sessions stay open on the server.
        proxy.set(Wire::Stalled { up: true, down: true });
        let died = Instant::now();
        assert_eq!(heir.look(None).len(), 3, "pending timers are anybody's");
        assert_eq!(heir.claim(&ids[3..]).len(), 3);
        until("released", LEASE + Duration::from_secs(2), || {
            heir.beat(&[]);
            ids[..3].iter().all(|id| heir.state(*id).unwrap().0 == State::Pending).then_some(())
        });
        println!("released after {:?}", died.elapsed());
        assert!(died.elapsed() > LEASE / 2);
        let again = heir.claim(&ids[..3]);
        assert!(again.iter().all(|delivery| delivery.attempt == 2), "{again:?}");
        // It comes back, and has nothing to say.
        proxy.set(Wire::Whole);
        let late = until("it connects", Duration::from_secs(10), || {
            let ends: Vec<_> = claimed.iter().map(|delivery| Op::End(*delivery, Next::Delete)).collect();
            let outcomes = dead.try_apply(&ends);
            outcomes.iter().all(Result::is_ok).then_some(outcomes)
        });
        assert!(late.iter().all(|outcome| matches!(outcome, Ok(Outcome::NotFound))), "{late:?}");
        for delivery in again {
            assert_eq!(heir.apply(Op::End(delivery, Next::Delete)), Outcome::Ended { due: None });
        }
    }

    fn commits_of_a_node_whose_lease_was_taken_change_nothing() {
        let (schema, session) = (new_schema(), Session::open());
        let (mut old, mut new) = (Node::join(&schema), Node::join(&schema));
        let timers: Vec<_> = (0..4).map(|number| timer(number, -10)).collect();
        timers.iter().for_each(|timer| old.put(timer));
        let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
        let claimed = old.claim(&ids[..3]);
        let old_id = old.store.node();
        // Its sessions live on.
        session.run(&format!("UPDATE {schema}.nodes SET dead = true, sessions = '[]' WHERE id = {old_id}"));
        assert!(new.beat(&[]).looks_begin_anew);
        let again = Again { due: due_in(60_000), nominal: due_in(60_000), repetition: 2 };
        let ops = [
            Op::End(claimed[0], Next::Delete),
            Op::End(claimed[1], Next::Again(again)),
            Op::End(claimed[2], Next::Dead { reason: "x".into(), then: None }),
            claim(&ids[3..]),
        ];
        let outcomes = old.try_apply(&ops);
        let Ok(Outcome::Claimed { records, .. }) = &outcomes[3] else { panic!("{outcomes:?}") };
        assert!(records.is_empty());
        assert!(outcomes[..3].iter().all(|outcome| matches!(outcome, Ok(Outcome::NotFound))), "{outcomes:?}");
        for (timer, attempt) in timers.iter().zip([1, 1, 1, 0]) {
            let (state, progress) = new.state(timer.id).unwrap();
            assert_eq!((state, progress.attempt, progress.due), (State::Pending, attempt, progress.nominal.max(progress.due)));
        }
        assert_eq!(new.store.counts(None).unwrap().dead, 0);
        // All nodes may write.
        old.put(&timer(9, 60_000));
        // It joins again as another node.
        assert_eq!(old.beat(&claimed).lost.len(), 3);
        assert!(old.store.node() != old_id);
        assert_eq!(old.claim(&ids).len(), 4);
    }

    fn a_locked_table_does_not_cost_a_node_its_lease() {
        for table in ["timers", "dead_letters", "routes"] {
            let schema = new_schema();
            let (mut node, blocker) = (Node::join(&schema), Session::open());
            let timer = timer(1, -10);
            node.put(&timer);
            let claimed = node.claim(&[timer.id]);
            let id = node.store.node();
            blocker.run(&format!("BEGIN; LOCK TABLE {schema}.{table}"));
            let began = Instant::now();
            while began.elapsed() < LEASE * 2 {
                let beat = node.beat(&claimed);
                assert!(beat.lost.is_empty() && node.has_lease(), "{table}: {beat:?}");
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
            let mut dead = Node::join(&schema);
            let mut heirs = [Node::join(&schema), Node::join(&schema)];
            let timers: Vec<_> = (0..200).map(|number| timer(number, -10)).collect();
            dead.try_apply(&timers.iter().map(put).collect::<Vec<_>>());
            let ids: Vec<_> = timers.iter().map(|timer| timer.id).collect();
            dead.claim(&ids);
            session.run(&format!("UPDATE {schema}.nodes SET dead = true WHERE id = {}", dead.store.node()));
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
        let timers: Vec<_> = (0..6).map(|number| timer(number, -10)).collect();
        timers.iter().for_each(|timer| node.put(timer));
        let again = Again { due: due_in(60_000), nominal: due_in(60_000), repetition: 2 };
        // All statements are prepared, so that only their last reply is missing.
        for (number, next) in (20..).zip([Next::Delete, Next::Again(again)]) {
            let timer = keyed_due(number);
            node.apply(put(&timer));
            let delivery = node.claim(&[timer.id])[0];
            node.apply(Op::End(delivery, next));
            node.apply(Op::Cancel(timer.id));
        }
        let claimed = node.claim(&timers[..2].iter().map(|timer| timer.id).collect::<Vec<_>>());
        let (new, with_key) = (timer(10, 60_000), keyed(11, "k"));
        let ops = [
            Op::End(claimed[0], Next::Delete),
            Op::End(claimed[1], Next::Again(again)),
            Op::Cancel(timers[2].id),
            put(&new),
            claim(&[timers[3].id, timers[4].id]),
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
        assert_eq!(node.state(timers[1].id).unwrap().1.repetition, 2);
        // A claim whose reply was lost is given back.
        assert!(node.beat(&[]).looks_begin_anew);
        for timer in &timers[3..5] {
            let (state, progress) = node.state(timer.id).unwrap();
            assert_eq!((state, progress.used, progress.attempt), (State::Pending, 0, 1));
        }
        assert_eq!(node.claim(&[timers[3].id, timers[4].id, timers[5].id]).len(), 3);
        assert_eq!(admin.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers WHERE key = 'k'")), 1);
    }
}

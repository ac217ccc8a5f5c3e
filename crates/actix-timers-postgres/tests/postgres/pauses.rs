//! Pauses of routes, nodes and timers, with several nodes, and by SQL.

use actix_timers_durable::store::{Next, Op, Outcome, Reads, State};
use actix_timers_durable::{DueTime, Pause, PauseTarget, StoreError};
use support::store::claim;

use crate::rules::{Node, due_in, timer};
use crate::server::{Session, new_schema, options};
use crate::with_server;

fn route() -> PauseTarget {
    PauseTarget::Route("a".into())
}

with_server! {
    fn a_wait_for_a_pause_that_is_cut_short_is_an_error() {
        let (schema, session, claiming) = (new_schema(), Session::open(), Session::open());
        let _node = Node::join(&schema);
        claiming.run(&format!("BEGIN; SELECT FROM {schema}.nodes FOR KEY SHARE"));
        session.run("SET statement_timeout = 100");
        assert!(session.error(&format!("SELECT {schema}.pause_settled()")).contains("statement timeout"));
        // Nor does it hold up the leases of nodes for as long as one hangs.
        session.run("SET statement_timeout = 0; SET lock_timeout = 0");
        assert!(session.error(&format!("SELECT {schema}.pause_settled()")).contains("lock timeout"));
    }

    fn an_open_transaction_that_waits_for_a_pause_stops_no_node() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let ids = node.put_all([timer(1, -10)]);
        stranger.run(&format!("BEGIN; SELECT {schema}.pause_settled()"));
        assert_eq!(node.claim(&ids).len(), 1);
        let locked = format!("UPDATE {schema}.nodes SET name = name WHERE id = {}", node.store.node());
        Session::open().run(&format!("SET lock_timeout = 10; {locked}"));
    }

    fn a_claim_after_a_pause_in_one_commit_leaves_the_route_out() {
        let schema = new_schema();
        let mut node = Node::join(&schema);
        let ids = node.put_all([timer(1, -10)]);
        let outcomes = node.try_apply(&[Op::Pause(Pause::route("a")), claim(&ids)]);
        let [Ok(Outcome::Paused), Ok(Outcome::Claimed { records, .. })] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(records.is_empty());
    }

    fn a_pause_that_is_acknowledged_holds_on_all_nodes() {
        let schema = new_schema();
        let (mut one, mut other) = (Node::join(&schema), Node::join(&schema));
        let timers = [timer(1, -10), timer(2, -10)];
        timers.iter().for_each(|timer| one.put(timer));
        let running = other.claim(&[timers[0].id]);
        let pause = Pause::route("a").by("ops").because("no mail");
        assert_eq!(one.apply(Op::Pause(pause.clone())), Outcome::Paused);
        assert_eq!(other.claim_now(&[timers[1].id]).len(), 0);
        assert_eq!(other.look(None), []);
        assert_eq!(other.store.pauses().unwrap(), [pause]);
        assert_eq!(other.beat(&running).paused, [Pause::route("a")]);
        assert_eq!(other.apply(Op::End(running[0], Next::Delete)), Outcome::Ended { due: None }, "it runs on");
        // A node that joins later knows it, too.
        let mut late = Node::join(&schema);
        assert_eq!(late.joined.paused, [Pause::route("a")]);
        assert_eq!(late.claim_now(&[timers[1].id]).len(), 0);
        assert_eq!(one.look(None), []);
        assert_eq!(late.apply(Op::Resume(route())), Outcome::Deleted);
        // A look told the one, a claim the other.
        assert!(one.beat(&[]).looks_begin_anew && late.beat(&[]).looks_begin_anew);
        let beat = other.beat(&[]);
        assert!(beat.looks_begin_anew && beat.paused.is_empty(), "its looks have passed them");
        assert_eq!(other.look(None), [timers[1].id]);
        assert_eq!(other.claim_now(&[timers[1].id]).len(), 1);
    }

    fn rule_8_an_acknowledgement_waits_for_claims_that_have_begun() {
        let (schema, claiming) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        // As a claim does first.
        claiming.run(&format!("BEGIN; SELECT FROM {schema}.nodes FOR KEY SHARE"));
        let outcomes = node.try_apply(&[Op::Pause(Pause::route("a"))]);
        assert!(matches!(outcomes[..], [Err(StoreError::Locked)]), "{outcomes:?}");
        claiming.run("COMMIT");
        assert_eq!(node.apply(Op::Pause(Pause::route("a"))), Outcome::Paused, "as the committer repeats it");
    }

    fn a_node_is_paused_by_its_name_whatever_its_id() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let timer = timer(1, -10);
        node.put(&timer);
        let name: String = session.value(&format!("SELECT name FROM {schema}.nodes"));
        assert_eq!(node.apply(Op::Pause(Pause::node(&*name))), Outcome::Paused);
        assert_eq!(node.claim_now(&[timer.id]), []);
        drop(node);
        let mut node = Node::join(&schema);
        assert_eq!((node.claim_now(&[timer.id]), node.look(None)), (vec![], vec![]));
        let mut other = Node::join_with(options(&schema).node("other"));
        assert_eq!((other.joined.paused.len(), other.look(None)), (0, vec![timer.id]), "one of another name delivers");
        assert_eq!(node.apply(Op::Resume(PauseTarget::Route(name.as_str().into()))), Outcome::NotFound);
        assert_eq!(node.apply(Op::Resume(PauseTarget::Node(name.into()))), Outcome::Deleted);
        assert!(node.beat(&[]).looks_begin_anew);
        assert_eq!(node.claim_now(&[timer.id]).len(), 1);
    }

    fn a_pause_by_sql_is_committed_with_its_transaction() {
        let (schema, session, pausing) = (new_schema(), Session::open(), Session::open());
        let mut node = Node::join(&schema);
        let timers = [timer(1, -10), timer(2, -10)];
        timers.iter().for_each(|timer| node.put(timer));
        for (arguments, part) in [("'route', 'none'", "there is no route \"none\""), ("'node', 'none'", "there is no node"),
            ("'timer', 'a'", "there is no timer"), ("NULL, NULL", "there is no")]
        {
            let error = session.error(&format!("SELECT {schema}.pause({arguments})"));
            assert!(error.contains(part), "{arguments}: {error}");
        }
        pausing.run("SET synchronous_commit = off");
        pausing.run(&format!("BEGIN; SELECT {schema}.pause('route', 'a')"));
        assert_eq!(pausing.value::<String>("SHOW synchronous_commit"), "on");
        pausing.run("ROLLBACK");
        assert_eq!(node.store.pauses().unwrap(), []);
        assert_eq!(node.claim_now(&[timers[0].id]).len(), 1);
        pausing.run(&format!("BEGIN; SELECT {schema}.pause('route', 'a', now() + interval '1 hour', why => 'no mail'); COMMIT"));
        pausing.run(&format!("SELECT {schema}.pause_settled()"));
        assert_eq!(node.claim_now(&[timers[1].id]).len(), 0);
        let pauses = node.store.pauses().unwrap();
        assert_eq!((pauses[0].who.as_deref(), pauses[0].why.as_deref()), (Some("timers"), Some("no mail")));
        let until = pauses[0].until.unwrap();
        assert!(until > due_in(3_590_000) && until <= due_in(3_600_000), "{until}");
        // A column of the caller's may have any collation.
        assert!(session.value::<bool>(&format!("SELECT {schema}.resume('route' COLLATE \"POSIX\", 'a' COLLATE \"POSIX\")")));
        assert!(!session.value::<bool>(&format!("SELECT {schema}.resume('route', 'a')")));
        assert_eq!(node.claim_now(&[timers[1].id]).len(), 1);
        session.run(&format!("SELECT {schema}.pause('route', 'a' COLLATE \"POSIX\", to_timestamp(4000000000.0001))"));
        assert_eq!(node.store.pauses().unwrap()[0].until, DueTime::from_millis(4_000_000_000_001).ok(), "not early");
        // Times beyond all.
        session.run(&format!("SELECT {schema}.pause('route', 'a', 'infinity')"));
        assert_eq!(node.store.pauses().unwrap()[0].until, None);
        session.run(&format!("SELECT {schema}.pause('route', 'a', '-infinity')"));
        assert_eq!(node.store.pauses().unwrap()[0].until, Some(DueTime::MIN));
        // By a hand: it counts from its settlement, and looks begin anew after its end.
        session.run(&format!("UPDATE {schema}.pauses SET until = NULL; SELECT {schema}.pause_settled()"));
        node.put(&timer(3, -10));
        node.beat(&[]);
        assert_eq!((node.look(None), node.beat(&[]).looks_begin_anew), (vec![], false));
        session.run(&format!("UPDATE {schema}.pauses SET until = 1"));
        assert!(node.beat(&[]).looks_begin_anew, "its bound has passed them");
        assert_eq!(node.look(None).len(), 1);
    }

    fn a_locked_timer_is_paused_when_it_is_free() {
        let (schema, stranger) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let (locked, free) = (timer(1, 60_000), timer(2, 60_000));
        [&locked, &free].into_iter().for_each(|timer| node.put(timer));
        stranger.run(&format!("BEGIN; SELECT FROM {schema}.timers WHERE id = '{}' FOR UPDATE", locked.id));
        let pauses = [&locked, &free].map(|timer| Op::Pause(Pause::timer(timer.id)));
        let outcomes = node.try_apply(&pauses);
        assert!(matches!(outcomes[..], [Err(StoreError::Locked), Ok(Outcome::Paused)]), "{outcomes:?}");
        stranger.run("COMMIT");
        assert_eq!(node.apply(pauses[0].clone()), Outcome::Paused);
        let parked = State::Parked { reason: "paused".into() };
        assert_eq!(node.state(locked.id).unwrap().0, parked);
        // By a hand, too, and no join resumes it.
        stranger.run(&format!("UPDATE {schema}.timers SET parked = 'paused by hand'"));
        let _other = Node::join(&schema);
        assert_eq!(node.state(free.id).unwrap().0, State::Parked { reason: "paused by hand".into() });
        assert_eq!(node.apply(Op::Resume(PauseTarget::Timer(free.id))), Outcome::Deleted);
        assert_eq!(node.state(free.id).unwrap().0, State::Pending);
    }

    fn an_ended_pause_is_removed() {
        let (schema, session) = (new_schema(), Session::open());
        let _node = Node::join(&schema);
        session.run(&format!("SELECT {schema}.pause('route', 'a', now() - interval '25 h')"));
        session.run(&format!("SELECT {schema}.tidy()"));
        assert_eq!(session.value::<i64>(&format!("SELECT count(*) FROM {schema}.pauses")), 0);
    }
}

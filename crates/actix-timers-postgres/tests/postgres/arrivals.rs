//! Timers of other nodes reach the owner of their shard.

use std::collections::BTreeSet;
use std::time::Duration;

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Committed, Group, Part, Right};
use actix_timers_durable::{DurableId, RecordState, TimerStore};
use actix_timers_postgres::PostgresOptions;

use crate::records::{at, put, record};
use crate::server::{Member, Session, connect, new_schema, scheduling, serving, until};
use crate::with_server;

fn two(schema: &str, shards: u16) -> (Member, Member) {
    let store = connect(PostgresOptions::new().schema(schema).shards(shards)).unwrap();
    (Member::join(store.clone(), &serving()), Member::join(store, &scheduling()))
}

fn anyone(member: &mut Member, changes: &[Change]) -> Vec<ChangeOutcome> {
    match member.store.commit_groups(&[Group { right: Right::Anyone, changes }]).unwrap().remove(0) {
        Committed::Outcomes(outcomes) => outcomes,
        Committed::Fenced => panic!("anyone is never fenced"),
    }
}

fn owner(member: &mut Member, shard: u16, changes: &[Change]) -> Vec<ChangeOutcome> {
    let right = Right::Owner(member.lease(shard).fence);
    match member.store.commit_groups(&[Group { right, changes }]).unwrap().remove(0) {
        Committed::Outcomes(outcomes) => outcomes,
        Committed::Fenced => panic!("fenced"),
    }
}

fn arrived(member: &mut Member) -> BTreeSet<DurableId> {
    member.store.arrivals().unwrap().records.iter().map(|record| record.id).collect()
}

with_server! {
    fn a_timer_of_another_node_arrives_beside_a_long_transaction_and_that_ones_when_it_ends() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 4);
        assert_eq!(arrived(&mut node), BTreeSet::new());
        let long = Session::open();
        long.run("BEGIN");
        let sql = format!("SELECT {schema}.schedule('route', 'Message', '{{}}'::json, now())");
        let late: DurableId = DurableId::from_uuid(long.query(&sql)[0].get(0)).unwrap();
        for number in 0..5 {
            let record = record(1000 + number, number);
            assert_eq!(anyone(&mut web, &[put(record.clone())]), [ChangeOutcome::Created]);
            assert_eq!(arrived(&mut node), BTreeSet::from([record.id]), "once, and at the next look");
            assert_eq!(arrived(&mut node), BTreeSet::new());
        }
        long.run("COMMIT");
        assert_eq!(arrived(&mut node), BTreeSet::from([late]));
        assert_eq!(arrived(&mut node), BTreeSet::new());
        assert_eq!(owner(&mut node, 0, &[put(record(5, 99))]), [ChangeOutcome::Created]);
        assert_eq!(arrived(&mut node), BTreeSet::new(), "its own writes do not arrive");
    }

    fn many_timers_arrive_page_by_page_each_once() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 2);
        let of = |shard, number| {
            let id = DurableId::from_parts(shard, at(7), number);
            put(actix_timers_durable::Record { id, ..record(7, number) })
        };
        let changes: Vec<_> = (0..10_000).map(|number| of((number % 2) as u16, number)).collect();
        anyone(&mut web, &changes);
        let mut all = Vec::new();
        let mut calls = 0;
        while all.len() < changes.len() {
            let records = node.store.arrivals().unwrap().records;
            assert!(!records.is_empty() && records.len() <= 4096);
            all.extend(records.iter().map(|record| record.id));
            calls += 1;
            if calls == 1 {
                // Before the position of the look.
                anyone(&mut web, &[of(0, 77_777)]);
            }
        }
        all.extend(node.store.arrivals().unwrap().records.iter().map(|record| record.id));
        let distinct: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(distinct.len(), 10_001);
        assert!(all.len() <= 10_002, "{}", all.len());
    }

    fn a_new_owner_starts_before_timers_that_the_old_one_has_not_seen() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 1);
        owner(&mut node, 0, &[put(record(500, 1)), Change::Advance { to: at(400) }]);
        anyone(&mut web, &[put(record(300, 2))]);
        node.store.give_up(&[0]).unwrap();
        let standing = until("regained", Duration::from_secs(5), || {
            let standing = node.store.standing();
            (!standing.gained.is_empty()).then_some(standing)
        });
        assert_eq!(standing.gained[0].cursor, at(300), "before the cursor of the old one");
        let fence = standing.gained[0].fence;
        let commit = |node: &mut Member, changes: &[Change]| node.store.commit(fence, changes).unwrap();
        commit(&mut node, &[Change::Advance { to: at(450) }]);
        anyone(&mut web, &[put(record(350, 3))]);
        assert_eq!(arrived(&mut node).len(), 1);
        // The owner knows of it: its bound holds for it, too.
        commit(&mut node, &[Change::Advance { to: at(340) }]);
        node.store.give_up(&[0]).unwrap();
        let standing = until("regained", Duration::from_secs(5), || {
            let standing = node.store.standing();
            (!standing.gained.is_empty()).then_some(standing)
        });
        assert!(standing.gained[0].cursor <= at(350), "{:?}", standing.gained[0].cursor);
    }

    fn a_cancel_by_another_node_before_the_claim_makes_the_member_missing() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 1);
        let [first, second] = [record(10, 1), record(10, 2)];
        owner(&mut node, 0, &[put(first.clone()), put(second.clone())]);
        assert_eq!(anyone(&mut web, &[Change::Remove { id: first.id, at: None }]), [ChangeOutcome::Removed]);
        let members = [&first, &second].map(|record| (record.id, at(10), 1)).to_vec();
        let claim = Change::Claim(Claim { number: 1, members });
        assert_eq!(owner(&mut node, 0, &[claim]), [ChangeOutcome::Claimed { missing: vec![first.id] }]);
        let found = node.store.get(second.id).unwrap().unwrap();
        assert!(found.is_claimed && found.part == Part::Pending);
    }

    fn a_cancel_by_another_node_after_the_claim_says_that_it_is_in_flight() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 1);
        let [first, second] = [record(10, 1), record(10, 2)];
        owner(&mut node, 0, &[put(first.clone()), put(second.clone())]);
        let members = [&first, &second].map(|record| (record.id, at(10), 1)).to_vec();
        assert_eq!(owner(&mut node, 0, &[Change::Claim(Claim { number: 1, members })]), [ChangeOutcome::Done]);
        let to = RecordState::first(at(99));
        assert_eq!(anyone(&mut web, &[Change::Move { id: first.id, at: None, to }]), [ChangeOutcome::InFlight]);
        assert_eq!(anyone(&mut web, &[Change::Remove { id: first.id, at: None }]), [ChangeOutcome::RemovedInFlight]);
        let remove = |record: &actix_timers_durable::Record| Change::Remove { id: record.id, at: Some(at(10)) };
        let ended = owner(&mut node, 0, &[remove(&first), remove(&second), Change::EndClaim { number: 1 }]);
        assert_eq!(ended, [ChangeOutcome::Missing, ChangeOutcome::Removed, ChangeOutcome::Done]);
    }

    fn a_claim_waits_for_a_cancel_that_is_not_committed() {
        let schema = new_schema();
        let (mut node, _web) = two(&schema, 1);
        let timer = record(10, 1);
        owner(&mut node, 0, &[put(timer.clone())]);
        let user = Session::open();
        for commits in [false, true] {
            user.run("BEGIN");
            let answer: String = user.query(&format!("SELECT {schema}.cancel('{}')", timer.id))[0].get(0);
            assert_eq!(answer, "cancelled");
            let fence = node.lease(0).fence;
            let claim = Change::Claim(Claim { number: 1, members: vec![(timer.id, at(10), 1)] });
            let mut store = node.store;
            let claiming = std::thread::spawn(move || {
                let outcomes = store.commit(fence, &[claim]).unwrap();
                (store, outcomes)
            });
            std::thread::sleep(Duration::from_millis(300));
            assert!(!claiming.is_finished(), "it waits");
            user.run(if commits { "COMMIT" } else { "ROLLBACK" });
            let (store, outcomes) = claiming.join().unwrap();
            node.store = store;
            let expected = if commits { ChangeOutcome::Claimed { missing: vec![timer.id] } } else { ChangeOutcome::Done };
            assert_eq!(outcomes, [expected]);
            owner(&mut node, 0, &[Change::EndClaim { number: 1 }]);
        }
    }

    fn a_timer_that_is_taken_back_while_a_request_of_another_node_waits_is_found() {
        let schema = new_schema();
        let (mut node, mut web) = two(&schema, 1);
        let user = Session::open();
        let waits = format!("SELECT FROM pg_locks WHERE NOT granted AND pid IN (SELECT unnest(pids) FROM {schema}.nodes)");
        for number in [0, 8] {
            let (locked, aside) = (record(10, number), record(10, number + 1));
            owner(&mut node, 0, &[put(locked.clone()), put(aside.clone()), Change::Park { id: aside.id, at: None }]);
            user.run(&format!("BEGIN; SELECT FROM {schema}.timers WHERE id = '{}' FOR UPDATE", locked.id));
            let changes = [&locked, &aside].map(|record| match number {
                0 => Change::Remove { id: record.id, at: None },
                _ => Change::Move { id: record.id, at: None, to: RecordState { due: at(20), ..record.progress } },
            });
            let requests = std::thread::spawn(move || {
                let outcomes = anyone(&mut web, &changes);
                (web, outcomes)
            });
            let look = Session::open();
            until("it waits", Duration::from_secs(10), || (!look.query(&waits).is_empty()).then_some(()));
            let back = owner(&mut node, 0, &[Change::Unpark { id: aside.id }]);
            assert!(matches!(back[..], [ChangeOutcome::Moved(_)]), "{back:?}");
            user.run("COMMIT");
            let outcomes;
            (web, outcomes) = requests.join().unwrap();
            let is_found = |outcome: &_| matches!(outcome, ChangeOutcome::Removed | ChangeOutcome::Moved(_));
            assert!(outcomes.iter().all(is_found), "{outcomes:?}");
        }
    }
}

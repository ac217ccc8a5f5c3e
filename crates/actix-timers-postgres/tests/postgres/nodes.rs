//! Several nodes: balance, take-over, fences, deliveries that outlive ownership.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{Change, ChangeOutcome, Claim, Committed, Group, Node, Right};
use actix_timers_durable::{RecordState, StoreError, TimerStore};
use actix_timers_postgres::{PostgresOptions, PostgresStore};

use crate::records::{at, keyed, put, record};
use crate::server::{Member, Session, connect, new_schema, scheduling, serving, until};
use crate::with_server;

const LEASE: Duration = Duration::from_secs(2);

fn store(schema: &str, shards: u16) -> PostgresStore {
    connect(PostgresOptions::new().schema(schema).shards(shards).lease(LEASE)).unwrap()
}

fn owned(member: &Member) -> BTreeSet<u16> {
    member.leases.iter().map(|lease| lease.fence.shard).collect()
}

/// Waits until the nodes own these numbers of shards.
fn balance(members: &mut [&mut Member], numbers: &[usize]) {
    until("balanced", Duration::from_secs(10), || {
        members.iter_mut().for_each(|member| member.look());
        let mut owned: Vec<_> = members.iter().map(|member| member.leases.len()).collect();
        owned.sort_unstable();
        (owned == numbers).then_some(())
    });
    let all: BTreeSet<_> = members.iter().flat_map(|member| owned(member)).collect();
    assert_eq!(all.len(), numbers.iter().sum::<usize>(), "each shard has one owner");
}

fn commit(member: &mut Member, right: Right, changes: &[Change]) -> Committed {
    member.store.commit_groups(&[Group { right, changes }]).unwrap().remove(0)
}

fn outcomes(member: &mut Member, shard: u16, changes: &[Change]) -> Vec<ChangeOutcome> {
    let right = Right::Owner(member.lease(shard).fence);
    match commit(member, right, changes) {
        Committed::Outcomes(outcomes) => outcomes,
        Committed::Fenced => panic!("fenced"),
    }
}

with_server! {
    fn nodes_divide_the_shards_of_their_pools_evenly() {
        let schema = new_schema();
        let store = store(&schema, 8);
        let mut first = Member::join(store.clone(), &serving());
        assert_eq!(owned(&first).len(), 8);
        let mut second = Member::join(store.clone(), &serving());
        balance(&mut [&mut first, &mut second], &[4, 4]);
        let mut third = Member::join(store.clone(), &serving());
        balance(&mut [&mut first, &mut second, &mut third], &[2, 3, 3]);
        let web = Member::join(store.clone(), &scheduling());
        assert!(web.leases.is_empty());
        // One that leaves is followed at once.
        third.store.retire();
        let shards: Vec<_> = owned(&third).into_iter().collect();
        third.store.give_up(&shards).unwrap();
        balance(&mut [&mut first, &mut second], &[4, 4]);
        // Another pool has shards of its own.
        let of_pool = Node { pools: vec!["slow".into()], ..serving() };
        let slow = Member::join(store, &of_pool);
        assert_eq!(owned(&slow), (8..16).collect());
        assert!(slow.store.placement().shard("slow") >= 8);
        assert!(slow.store.placement().shard("default") < 8);
    }

    fn a_lease_is_renewed_after_a_quarter_of_it_and_not_at_each_look() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(2).lease(Duration::from_secs(3600))).unwrap();
        let session = Session::open();
        let row = || -> (String, f64) {
            let sql = "SELECT ctid::text, extract(epoch FROM lease_until - clock_timestamp())::float8 FROM";
            let rows = session.query(&format!("{sql} {schema}.nodes ORDER BY joined LIMIT 1"));
            (rows[0].get(0), rows[0].get(1))
        };
        let mut first = Member::join(store.clone(), &serving());
        let joined = row();
        // Its keeper looks, so that the second one gets a shard.
        let mut second = Member::join(store, &serving());
        balance(&mut [&mut first, &mut second], &[1, 1]);
        assert_eq!(row().0, joined.0);
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until - interval '890 seconds'"));
        let early = row();
        second.store.retire();
        let shards: Vec<_> = owned(&second).into_iter().collect();
        second.store.give_up(&shards).unwrap();
        until("the shards are taken over", Duration::from_secs(10), || {
            first.look();
            (first.leases.len() == 2).then_some(())
        });
        assert_eq!(row().0, early.0);
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until - interval '20 seconds'"));
        until("renewed", Duration::from_secs(10), || (row().1 > 3590.0).then_some(()));
        // The clock was set back.
        session.run(&format!("UPDATE {schema}.nodes SET lease_until = lease_until + interval '1000 seconds'"));
        until("renewed from the new time", Duration::from_secs(10), || (row().1 < 3601.0).then_some(()));
    }

    fn new_timers_that_are_there_already_stay_as_they_are_beside_others() {
        let schema = new_schema();
        let mut node = Member::join(store(&schema, 4), &serving());
        let (first, key_holder) = (record(10, 1), keyed(11, 2, "k"));
        outcomes(&mut node, 0, &[put(first.clone()), put(key_holder.clone())]);
        let again = |record: &actix_timers_durable::Record| {
            put(actix_timers_durable::Record { payload: [9; 9].into(), ..record.clone() })
        };
        let new = record(13, 4);
        let changes = [again(&first), put(new.clone()), again(&key_holder)];
        assert_eq!(outcomes(&mut node, 0, &changes), [const { ChangeOutcome::Created }; 3]);
        for record in [&first, &key_holder, &new] {
            assert_eq!(*node.store.get(record.id).unwrap().unwrap().record, *record);
        }
    }

    fn the_shards_of_a_dead_node_are_taken_over_with_its_claims() {
        let schema = new_schema();
        let store = store(&schema, 4);
        let mut first = Member::join(store.clone(), &serving());
        let members: Vec<_> = (0..3).map(|number| record(10 + number, number)).collect();
        outcomes(&mut first, 0, &members.iter().cloned().map(put).collect::<Vec<_>>());
        let claimed = members.iter().map(|record| (record.id, record.progress.due, 1)).collect();
        let claim = Claim { number: 7, members: claimed };
        assert_eq!(outcomes(&mut first, 0, &[Change::Claim(claim.clone())]), [ChangeOutcome::Done]);
        let mut second = Member::join(store.clone(), &scheduling());
        let mut heir = Member::join(store, &serving());
        let died = Instant::now();
        drop(first);
        until("taken over", LEASE + Duration::from_secs(2), || {
            heir.look();
            (heir.leases.len() == 4).then_some(())
        });
        println!("taken over after {:?}", died.elapsed());
        assert_eq!(heir.lease(0).claims, [claim]);
        assert!(heir.lease(0).held.is_empty() && !heir.lease(0).has_other_claims);
        assert!(heir.lease(1).claims.is_empty() && heir.lease(1).has_other_claims);
        assert!(heir.lease(0).fence.epoch >= 2);
        let to = RecordState { attempt: 2, ..RecordState::first(at(10)) };
        let renumber = Change::Move { id: members[0].id, at: Some(at(10)), to };
        let changes = [renumber, Change::EndClaim { number: 7 }];
        assert!(matches!(outcomes(&mut heir, 0, &changes)[..], [ChangeOutcome::Moved(_), ChangeOutcome::Done]));
        let cancelled = commit(&mut second, Right::Anyone, &[Change::Remove { id: members[1].id, at: None }]);
        assert_eq!(cancelled, Committed::Outcomes(vec![ChangeOutcome::Removed]));
    }

    fn commits_of_a_node_whose_lease_was_taken_change_nothing() {
        let timer = keyed(10, 1, "k");
        // On a busy machine the old node may begin another lease before the last commit.
        let taken = until("taken at once", Duration::from_secs(60), || {
            let schema = new_schema();
            let store = store(&schema, 2);
            let mut old = Member::join(store.clone(), &serving());
            outcomes(&mut old, 0, &[put(timer.clone())]);
            let old_id = old.store.node().unwrap();
            // Its clock stands still for the others, not for itself.
            let admin = Session::open();
            admin.run(&format!("UPDATE {schema}.nodes SET lease_until = now() - interval '1 second'"));
            let new = Member::join(store, &serving());
            if owned(&new).len() < 2 {
                return None;
            }
            let right = Right::Owner(old.lease(0).fence);
            let fenced = commit(&mut old, right, &[put(record(11, 2)), Change::Remove { id: timer.id, at: None }]);
            assert_eq!(fenced, Committed::Fenced);
            let ended = commit(&mut old, Right::Claimant { shard: 0 }, &[Change::EndClaim { number: 0 }]);
            (old.store.node() == Some(old_id)).then_some((old, old_id, new, ended))
        });
        let (mut old, old_id, mut new, ended) = taken;
        assert_eq!(ended, Committed::Fenced);
        assert!(new.store.get(timer.id).unwrap().is_some());
        assert!(new.store.get(record(11, 2).id).unwrap().is_none());
        // It joins again as another node.
        until("rejoined", Duration::from_secs(5), || {
            old.look();
            new.look();
            let is_balanced = (old.leases.len(), new.leases.len()) == (1, 1);
            (is_balanced && old.store.node() != Some(old_id)).then_some(())
        });
        assert!(old.lost.len() >= 2, "{:?}", old.lost);
        // All nodes may write without ownership.
        let created = commit(&mut old, Right::Anyone, &[put(record(12, 3))]);
        assert_eq!(created, Committed::Outcomes(vec![ChangeOutcome::Created]));
    }

    fn one_fenced_group_does_not_keep_the_others_from_being_committed() {
        let schema = new_schema();
        let store = store(&schema, 2);
        let mut node = Member::join(store, &serving());
        Session::open().run(&format!("UPDATE {schema}.shards SET owner = 1, epoch = epoch + 1 WHERE shard = 1"));
        let fences = [node.lease(0).fence, node.lease(1).fence];
        let elsewhere = actix_timers_durable::DurableId::from_parts(1, at(5), 9);
        let other = actix_timers_durable::Record { id: elsewhere, ..record(5, 9) };
        let changes = [[put(record(5, 1))], [put(other)]];
        let groups = [
            Group { right: Right::Owner(fences[1]), changes: &changes[1] },
            Group { right: Right::Owner(fences[0]), changes: &changes[0] },
        ];
        let committed = node.store.commit_groups(&groups).unwrap();
        assert_eq!(committed, [Committed::Fenced, Committed::Outcomes(vec![ChangeOutcome::Created])]);
        assert!(node.store.get(elsewhere).unwrap().is_none());
    }

    fn a_dead_node_is_taken_over_though_its_session_has_locked_its_row() {
        let schema = new_schema();
        let store = store(&schema, 2);
        let dead = Session::open();
        dead.run(&format!(
            "INSERT INTO {schema}.nodes (id, name, version, reads, routes, pools, serves, pids, started, lease_until)
                SELECT 5, 'dead', '0', 1, '{{}}', '{{default}}', true, ARRAY[a.pid], ARRAY[a.backend_start], now()
                FROM pg_stat_activity a WHERE a.pid = pg_backend_pid();
            UPDATE {schema}.shards SET owner = 5"
        ));
        dead.run(&format!("BEGIN; SELECT FROM {schema}.nodes WHERE id = 5 FOR UPDATE"));
        let mut heir = Member::join(store, &serving());
        until("taken over", Duration::from_secs(3), || {
            heir.look();
            (heir.leases.len() == 2).then_some(())
        });
    }

    fn a_locked_table_does_not_cost_a_node_its_lease() {
        let schema = new_schema();
        let options = PostgresOptions::new().schema(&schema).shards(4).lease(LEASE).timeout(Duration::from_secs(30));
        let mut node = Member::join(connect(options).unwrap(), &serving());
        let before = node.lease(0).fence.epoch;
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; LOCK TABLE {schema}.dead_letters"));
        let waiting = format!(
            "SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.relation = '{schema}.dead_letters'::regclass"
        );
        until("the keeper, which counts the timers, waits for the table", Duration::from_secs(12), || {
            (blocker.query(&waiting)[0].get::<_, i64>(0) > 0).then_some(())
        });
        let began = Instant::now();
        while began.elapsed() < LEASE * 2 {
            node.look();
            assert_eq!((owned(&node).len(), &node.lost[..]), (4, &[][..]));
            std::thread::sleep(LEASE / 20);
        }
        // Another one that has not counted yet joins.
        let _other = Member::join(node.store.clone(), &serving());
        assert_eq!(node.lease(0).fence.epoch, before);
    }

    fn two_adopters_divide_the_shards_of_a_dead_node() {
        for _ in 0..3 {
            let schema = new_schema();
            let store = store(&schema, 16);
            let first = Member::join(store.clone(), &serving());
            let mut heirs = [Member::join(store.clone(), &serving()), Member::join(store, &serving())];
            drop(first);
            let [one, two] = &mut heirs;
            balance(&mut [one, two], &[8, 8]);
            let fences = [one.lease(*owned(one).first().unwrap()).fence, two.lease(*owned(two).first().unwrap()).fence];
            for (member, fence) in heirs.iter_mut().zip(fences) {
                let advanced = commit(member, Right::Owner(fence), &[Change::Advance { to: at(5) }]);
                assert_eq!(advanced, Committed::Outcomes(vec![ChangeOutcome::Done]));
            }
        }
    }

    fn a_delivery_outlives_the_ownership_and_is_released_when_it_ends() {
        let schema = new_schema();
        let store = store(&schema, 1);
        let mut old = Member::join(store.clone(), &serving());
        let timers: Vec<_> = (0..4).map(|number| record(10 + number, number)).collect();
        outcomes(&mut old, 0, &timers.iter().cloned().map(put).collect::<Vec<_>>());
        let members = timers.iter().map(|record| (record.id, record.progress.due, 1)).collect();
        let claim = Claim { number: 3, members };
        outcomes(&mut old, 0, &[Change::Claim(claim.clone())]);
        old.store.retire();
        old.store.give_up(&[0]).unwrap();
        old.leases.clear();
        let mut new = Member::join(store.clone(), &serving());
        until("taken", Duration::from_secs(5), || {
            new.look();
            (new.leases.len() == 1).then_some(())
        });
        assert_eq!(new.lease(0).held, std::slice::from_ref(&claim));
        assert!(new.lease(0).claims.is_empty());
        // The new owner knows that they are in flight.
        let moved = outcomes(&mut new, 0, &[Change::Move { id: timers[3].id, at: None, to: RecordState::first(at(99)) }]);
        assert_eq!(moved, [ChangeOutcome::InFlight]);
        assert_eq!(outcomes(&mut new, 0, &[Change::Remove { id: timers[3].id, at: None }]), [ChangeOutcome::RemovedInFlight]);
        // The old one ends two deliveries: one is complete, one is repeated.
        let claimant = Right::Claimant { shard: 0 };
        let to = RecordState { attempt: 2, ..RecordState::first(at(50)) };
        let ends = [
            Change::Remove { id: timers[0].id, at: Some(at(10)) },
            Change::Move { id: timers[1].id, at: Some(at(11)), to },
        ];
        let Committed::Outcomes(ended) = commit(&mut old, claimant, &ends) else { panic!("fenced") };
        assert!(matches!(ended[..], [ChangeOutcome::Removed, ChangeOutcome::Moved(_)]));
        let foreign = Change::Remove { id: record(77, 7).id, at: None };
        assert_eq!(commit(&mut old, claimant, &[foreign]), Committed::Fenced, "not in its claim");
        let arrivals = new.store.arrivals().unwrap();
        assert_eq!(arrivals.released.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&timers[0].id, &timers[1].id]));
        assert!(arrivals.records.iter().any(|record| record.id == timers[1].id && record.progress == to));
        assert!(arrivals.interrupted.is_empty());
        // It dies during the others.
        drop(old);
        let interrupted = until("interrupted", LEASE + Duration::from_secs(3), || {
            new.look();
            new.store.arrivals().unwrap().interrupted.pop()
        });
        let rest = claim.members.iter().filter(|(id, ..)| [timers[2].id, timers[3].id].contains(id)).copied().collect();
        assert_eq!(interrupted, Claim { number: 3, members: rest });
        outcomes(&mut new, 0, &[Change::EndClaim { number: 3 }]);
    }

    fn ended_and_interrupted_deliveries_are_reported_though_timers_cannot_be_read_meanwhile() {
        let schema = new_schema();
        let store = store(&schema, 1);
        let mut old = Member::join(store.clone(), &serving());
        let timers: Vec<_> = (0..2).map(|number| record(10 + number, number)).collect();
        outcomes(&mut old, 0, &timers.iter().cloned().map(put).collect::<Vec<_>>());
        let claim = |number: u64| {
            let record = &timers[number as usize];
            Claim { number, members: vec![(record.id, record.progress.due, 1)] }
        };
        outcomes(&mut old, 0, &[Change::Claim(claim(0)), Change::Claim(claim(1))]);
        old.store.retire();
        old.store.give_up(&[0]).unwrap();
        old.leases.clear();
        let mut new = Member::join(store, &serving());
        until("taken", Duration::from_secs(5), || {
            new.look();
            (new.leases.len() == 1).then_some(())
        });
        let to = RecordState { attempt: 2, ..RecordState::first(at(50)) };
        let ends = [Change::Move { id: timers[0].id, at: Some(at(10)), to }, Change::EndClaim { number: 0 }];
        assert!(matches!(commit(&mut old, Right::Claimant { shard: 0 }, &ends), Committed::Outcomes(_)));
        let admin = Session::open();
        admin.run(&format!("ALTER TABLE {schema}.timers RENAME TO elsewhere"));
        assert_eq!(new.store.arrivals().unwrap().released, [timers[0].id]);
        assert!(new.store.arrivals().is_err(), "nothing else to report");
        drop(old);
        let interrupted = until("interrupted", LEASE + Duration::from_secs(3), || {
            new.look();
            new.store.arrivals().ok()?.interrupted.pop()
        });
        assert_eq!(interrupted, claim(1));
        admin.run(&format!("ALTER TABLE {schema}.elsewhere RENAME TO timers"));
        let records = new.store.arrivals().unwrap().records;
        assert!(records.iter().any(|record| record.id == timers[0].id && record.progress == to));
    }

    fn an_heir_renumbers_a_delivery_though_another_one_goes_on_on_a_former_owner() {
        let schema = new_schema();
        let store = store(&schema, 1);
        let mut former = Member::join(store.clone(), &serving());
        let timers: Vec<_> = (0..2).map(|number| record(10 + number, number)).collect();
        outcomes(&mut former, 0, &timers.iter().cloned().map(put).collect::<Vec<_>>());
        let claim = |number: u64| {
            let record = &timers[number as usize];
            Claim { number, members: vec![(record.id, record.progress.due, 1)] }
        };
        outcomes(&mut former, 0, &[Change::Claim(claim(0))]);
        former.store.retire();
        former.store.give_up(&[0]).unwrap();
        former.leases.clear();
        let gain = |member: &mut Member| {
            until("taken", LEASE + Duration::from_secs(5), || {
                member.look();
                (member.leases.len() == 1).then_some(())
            });
        };
        let mut dead = Member::join(store.clone(), &serving());
        gain(&mut dead);
        outcomes(&mut dead, 0, &[Change::Claim(claim(1))]);
        let mut heir = Member::join(store, &serving());
        drop(dead);
        gain(&mut heir);
        assert_eq!((&heir.lease(0).held, &heir.lease(0).claims), (&vec![claim(0)], &vec![claim(1)]));
        // The end of the claim may be of a later commit.
        let renumber = |number: usize, at| {
            let progress = timers[number].progress;
            Change::Move { id: timers[number].id, at, to: RecordState { attempt: 2, ..progress } }
        };
        let moved = outcomes(&mut heir, 0, &[renumber(1, Some(at(11))), renumber(0, None)]);
        assert!(matches!(moved[..], [ChangeOutcome::Moved(_), ChangeOutcome::InFlight]), "{moved:?}");
    }

    fn a_lost_reply_is_found_out() {
        let schema = new_schema();
        let store = store(&schema, 1);
        let mut node = Member::join(store, &serving());
        outcomes(&mut node, 0, &[put(keyed(10, 1, "k"))]);
        let admin = Session::open();
        // A commit that waits is ended with its session: nothing is kept.
        admin.run("BEGIN");
        admin.run(&format!("INSERT INTO {schema}.keys VALUES ('l', gen_random_uuid())"));
        let fence = node.lease(0).fence;
        let mut store = node.store;
        let waiting = std::thread::spawn(move || {
            let result = store.commit(fence, &[put(keyed(11, 2, "l"))]);
            (store, result)
        });
        std::thread::sleep(Duration::from_millis(300));
        let query = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}%commit%'"
        );
        assert_eq!(Session::open().query(&query).len(), 1);
        let (mut store, result) = waiting.join().unwrap();
        assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
        admin.run("ROLLBACK");
        assert_eq!(store.commit(fence, &[put(keyed(11, 2, "l"))]).unwrap(), [ChangeOutcome::Created]);
    }
}

//! Routes that only some nodes know: the shards with their timers go to these nodes.

use std::time::{Duration, Instant};

use actix::{Actor, System};
use actix_timers_durable::store::{Change, ChangeOutcome, Committed, Group, Node, Right};
use actix_timers_durable::{DurableTimers, Record, Schedule, TimerStore};
use actix_timers_postgres::PostgresOptions;
use tokio::time::sleep;

use crate::records::{at, keyed, put, record};
use crate::server::{Member, Session, connect, new_schema, serving, until};
use crate::transactions::{Office, Remind, client, store};
use crate::with_server;

/// A node that delivers these routes.
fn delivering(routes: &[&str]) -> Node {
    Node { routes: routes.iter().map(|route| ((*route).into(), "Message".into())).collect(), ..serving() }
}

/// Waits until the nodes own these numbers of shards.
fn until_owned(members: &mut [Member], numbers: &[usize], limit: Duration) {
    let mut owned = Vec::new();
    until(&format!("{numbers:?}"), limit, || {
        members.iter_mut().for_each(Member::look);
        owned = members.iter().map(|member| member.leases.len()).collect();
        (owned == numbers).then_some(())
    });
}

/// Stores timers of a route in a shard, and parks them.
fn park(owner: &mut Member, shard: u16, records: &[Record]) {
    let fence = owner.lease(shard).fence;
    let changes = records.iter().flat_map(|record| [put(record.clone()), Change::Park { id: record.id, at: None }]);
    let changes: Vec<_> = changes.collect();
    let group = Group { right: Right::Owner(fence), changes: &changes };
    let committed = owner.store.commit_groups(&[group]).unwrap().remove(0);
    let Committed::Outcomes(outcomes) = committed else { panic!("fenced") };
    assert_eq!(outcomes.last(), Some(&ChangeOutcome::Removed));
}

fn of_route(route: &str, number: u64) -> Record {
    Record { route: route.into(), message_type: "Message".into(), ..record(10, number) }
}

const SOON: Duration = Duration::from_secs(5);

with_server! {
    fn a_shard_with_parked_timers_goes_to_a_node_that_knows_their_route() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(2).lease(Duration::from_secs(2))).unwrap();
        let mut members = vec![Member::join(store.clone(), &delivering(&["a"]))];
        let with_key = Record { key: Some("k".repeat(300).into()), ..of_route("b", 2) };
        park(&mut members[0], 0, &[of_route("b", 1), with_key]);
        let wanted = || {
            let rows = Session::open().query(&format!("SELECT shard, route FROM {schema}.wanted_routes ORDER BY 1, 2"));
            rows.iter().map(|row| (row.get::<_, i16>(0), row.get::<_, String>(1))).collect::<Vec<_>>()
        };
        assert_eq!(wanted(), [(0, "b\u{1f}Message".to_owned())]);
        // Nobody knows the route: nothing happens.
        std::thread::sleep(Duration::from_millis(700));
        until_owned(&mut members, &[2], SOON);
        members.push(Member::join(store.clone(), &delivering(&["a", "b"])));
        until_owned(&mut members, &[1, 1], SOON);
        assert_eq!(members[1].lease(0).fence.shard, 0);
        // Another one that does not know it gets nothing; both shards of one that knows it, if both have such timers.
        let fence = members[0].lease(1).fence;
        let in_shard_1 = Record { id: actix_timers_durable::DurableId::from_parts(1, at(10), 5), ..of_route("b", 5) };
        park(&mut members[0], fence.shard, &[in_shard_1]);
        until_owned(&mut members, &[0, 2], SOON);
        members.push(Member::join(store.clone(), &delivering(&["b", "a"])));
        // A second one that knows it shares them.
        until_owned(&mut members, &[0, 1, 1], SOON);
        // The last ones that know it die: the shards come back.
        members.truncate(1);
        until_owned(&mut members, &[2], Duration::from_secs(10));
        assert_eq!(wanted().len(), 2);
        // All that live know it: they share the shards, and the notes are gone some time later.
        members.clear();
        members.push(Member::join(store.clone(), &delivering(&["a", "b"])));
        members.push(Member::join(store, &delivering(&["a", "b"])));
        until_owned(&mut members, &[1, 1], Duration::from_secs(10));
        until("forgotten", Duration::from_secs(15), || wanted().is_empty().then_some(()));
    }

    fn nodes_of_which_none_knows_all_routes_own_a_shard_in_turn() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(1).lease(Duration::from_secs(2))).unwrap();
        let mut members: Vec<_> =
            [&["a", "b"], &["a", "c"]].map(|routes| Member::join(store.clone(), &delivering(routes))).into();
        let first = until("owned", SOON, || {
            members.iter_mut().for_each(Member::look);
            members.iter().position(|member| member.leases.len() == 1)
        });
        park(&mut members[first], 0, &[of_route("b", 1), of_route("c", 2), keyed(10, 3, "k")]);
        let mut owners = Vec::new();
        until("both", Duration::from_secs(25), || {
            members.iter_mut().for_each(Member::look);
            let owner = members.iter().position(|member| member.leases.len() == 1);
            if owner.is_some() && owners.last() != Some(&owner) {
                owners.push(owner);
            }
            (owners.len() >= 3).then_some(())
        });
        assert_eq!(owners[0], owners[2]);
    }

    fn timers_of_a_new_route_are_delivered_while_old_nodes_run() {
        System::new().block_on(async {
            let store = store(&new_schema()).await;
            let (office, bills) = (Office::default(), Office::default());
            let node = |office: &Office| DurableTimers::builder(store.clone()).route::<Remind>("office", office.clone().start());
            let old = node(&office).start().unwrap();
            let client = client().await;
            for number in 0..20 {
                let _ = store.schedule_in(&client, Schedule::after("bills", Duration::ZERO, Remind(number))).await.unwrap();
            }
            let end = Instant::now() + Duration::from_secs(5);
            while client.query("SELECT 1", &[]).await.is_ok() && old.counts().await.unwrap().parked < 20 {
                assert!(Instant::now() < end);
                sleep(Duration::from_millis(20)).await;
            }
            let began = Instant::now();
            let new = node(&office).route::<Remind>("bills", bills.clone().start()).start().unwrap();
            bills.until(20).await;
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            // Later ones find their way at once.
            for number in 20..40 {
                let _ = old.schedule_after("office", Duration::ZERO, Remind(number)).await.unwrap();
                let _ = store.schedule_in(&client, Schedule::after("bills", Duration::ZERO, Remind(number))).await.unwrap();
            }
            let began = Instant::now();
            office.until(20).await;
            bills.until(40).await;
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
            let mut delivered = bills.numbers();
            delivered.sort_unstable();
            assert_eq!(delivered, (0..40).collect::<Vec<_>>());
            old.stop().await.unwrap();
            new.stop().await.unwrap();
        });
    }

    fn a_declared_pool_has_shards_before_any_node_serves_it() {
        let schema = new_schema();
        let store = connect(PostgresOptions::new().schema(&schema).shards(3)).unwrap();
        let web = Node { declared: vec!["slow".into()], ..Node::default() };
        let web = Member::join(store, &web);
        let shard = web.store.placement().shard("slow");
        assert!((3..6).contains(&shard), "{shard}");
        assert!(web.leases.is_empty());
    }
}

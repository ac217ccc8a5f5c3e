//! A server that is far away.

use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::DurableId;
use actix_timers_durable::store::{Again, Delivery, Next, Op, Store, boot_clock};
use support::store::put;

use crate::rules::{Node, due_in, timer};
use crate::server::{connect_to, far_away, new_schema, node, options};
use crate::with_server;

/// Half of the round trip.
const DELAY: Duration = Duration::from_millis(50);

with_server! {
    fn a_group_takes_one_round_trip() {
        let (schema, (_runtime, _proxy, address)) = (new_schema(), far_away(DELAY, DELAY));
        let mut node = Node::join_as(connect_to(&address, options(&schema)).unwrap(), &node());
        let timers: Vec<_> = (0..500).map(|number| timer(number, -1000)).collect();
        node.try_apply(&timers.iter().map(put).collect::<Vec<_>>());
        let ids: Vec<DurableId> = timers.iter().map(|timer| timer.id).collect();
        let claimed = node.claim(&ids[..400]);
        let ops = |claimed: &[Delivery], cancelled: &[DurableId], first: u64| {
            let next = |place: usize| match place % 5 {
                0 => Next::Delete,
                1 => Next::Again(Again { due: due_in(-5), nominal: due_in(0), repetition: 2, returned: 0 }),
                2 => Next::GiveBack,
                3 => Next::Park { reason: "x".into() },
                _ => Next::Dead { reason: "x".into(), then: None },
            };
            let ends = claimed.iter().enumerate().map(|(place, delivery)| Op::End(*delivery, next(place)));
            let cancels = cancelled.iter().enumerate().map(|(place, id)| match place % 2 {
                0 => Op::Cancel(*id),
                _ => Op::Move(*id, due_in(1000)),
            });
            ends.chain(cancels).chain((0..100).map(|number| put(&timer(first + number, 1000)))).collect::<Vec<_>>()
        };
        // The first one prepares the statements.
        node.try_apply(&ops(&claimed[..200], &ids[400..450], 1000));
        let began = Instant::now();
        let outcomes = node.try_apply(&ops(&claimed[200..], &ids[450..], 2000));
        let took = began.elapsed();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        // One round trip is twice the delay, two are four times.
        assert!(took < DELAY * 4, "{took:?} for 350 changes of all kinds");
        // A beat, and the release of another node with many claims.
        let mut dead = Node::join(&schema);
        let many: Vec<_> = (3000..5000).map(|number| timer(number, -1000)).collect();
        dead.try_apply(&many.iter().map(put).collect::<Vec<_>>());
        dead.claim(&many.iter().map(|timer| timer.id).collect::<Vec<_>>());
        drop(dead);
        // With preparing.
        let began = Instant::now();
        assert!(node.beat(&[]).looks_begin_anew);
        assert!(began.elapsed() < DELAY * 20, "{:?}", began.elapsed());
        let began = Instant::now();
        node.beat(&[]);
        assert!(began.elapsed() < DELAY * 3, "{:?}", began.elapsed());
        // The clock of the store, by which `after` counts, is never early, and at best late by less than the way back; a busy
        // machine delays some replies.
        let late = (0..5).map(|_| {
            node.beat(&[]);
            let clock = node.store.sharing().unwrap().clock;
            let before = SystemTime::now();
            let store = clock.wall(boot_clock::now());
            let early = before.duration_since(store).unwrap_or_default();
            assert!(early < Duration::from_millis(2), "{early:?} early");
            store.duration_since(SystemTime::now()).unwrap_or_default()
        });
        let late = late.min().unwrap();
        assert!(late < Duration::from_millis(60), "{late:?} late");
    }
}

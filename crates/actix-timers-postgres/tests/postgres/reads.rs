//! Queries: beside the changes, on another thread, of any node.

use std::thread;
use std::time::{Duration, Instant};

use actix_timers_durable::store::{Part, Query, Reads, Store};
use support::store::put;

use crate::rules::{Node, keyed, timer};
use crate::server::{Session, new_schema, until};
use crate::with_server;

with_server! {
    fn a_reader_does_not_wait_for_a_change() {
        let schema = new_schema();
        let mut node = Node::join(&schema);
        let mut reader = node.store.reader().unwrap().unwrap();
        let (first, second) = (timer(1, 60_000), keyed(2, "k"));
        node.put(&first);
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; SELECT {schema}.schedule('a', 'Order', ''::bytea, now(), key => 'k')"));
        let writer = thread::spawn(move || {
            // Each try gives up after a while.
            while node.try_apply(&[put(&second)])[0].is_err() {}
            node
        });
        assert!(reader.get(first.id).unwrap().is_some());
        assert_eq!(reader.counts(None).unwrap().pending, 1);
        assert!(!writer.is_finished(), "it waits");
        blocker.run("COMMIT");
        let _node = writer.join().unwrap();
        assert_eq!(reader.counts(None).unwrap().pending, 2);
    }

    fn changes_and_looks_do_not_wait_for_a_query() {
        let schema = new_schema();
        let mut node = Node::join(&schema);
        let mut reader = node.store.reader().unwrap().unwrap();
        let blocker = Session::open();
        blocker.run(&format!("BEGIN; LOCK TABLE {schema}.dead_letters"));
        let asking = thread::spawn(move || {
            (0..10).for_each(|_| _ = reader.list(&Query::of(Part::Dead)));
            reader
        });
        thread::sleep(Duration::from_millis(20));
        let began = Instant::now();
        node.put(&timer(1, 1000));
        assert_eq!(node.look(None).len(), 1);
        node.beat(&[]);
        assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        assert!(!asking.is_finished());
        blocker.run("COMMIT");
        assert_eq!(asking.join().unwrap().list(&Query::of(Part::Dead)).unwrap().found, []);
    }

    fn a_reader_does_not_keep_a_node_alive() {
        let schema = new_schema();
        let Node { mut store, .. } = Node::join(&schema);
        let mut reader = store.reader().unwrap().unwrap();
        assert_eq!(reader.counts(None).unwrap().pending, 0);
        drop(store);
        let nodes = format!("SELECT count(*) FROM {schema}.nodes");
        until("the node leaves", Duration::from_secs(5), || (Session::open().value::<i64>(&nodes) == 0).then_some(()));
    }

    fn a_list_with_a_filter_reads_a_bounded_number_of_rows() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload, key, headers)
            SELECT {schema}.first_id(2000000000000 + i), 2000000000000 + i, i % 3 = 0, 0, CASE WHEN i % 30000 = 0 THEN 'rare' ELSE 'a' END,
                'Order', '', i % 30000 || '-' || i, jsonb_build_object('tenant', (i % 30000)::text) FROM generate_series(1, 60000) AS i"
        ));
        session.run(&format!("ANALYZE {schema}.timers"));
        let all = Query::of(Part::Pending);
        for mut query in [
            Query { route: Some("rare".into()), ..all.clone() },
            Query { key_prefix: Some("0-".into()), ..all.clone() },
            Query { header: Some(("tenant".into(), "0".into())), ..all.clone() },
            Query { header: Some(("tenant".into(), "0".into())), is_count: true, limit: 10_000, ..all },
        ] {
            let (mut pages, mut found, mut counted) = (0, 0, 0);
            loop {
                let page = node.store.list(&query).unwrap();
                (pages, found, counted) = (pages + 1, found + page.found.len(), counted + page.counted);
                let Some(next) = page.next else { break };
                query.after = Some(next);
            }
            assert_eq!((found, counted), (if query.is_count { 0 } else { 2 }, 2), "{query:?}");
            assert!((6..10).contains(&pages), "{pages} pages of {query:?}: a page examines 10000 rows");
        }
    }
    fn a_list_passes_over_a_bounded_number_of_moved_and_parked_rows() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, moved, nominal, route, message_type, payload, parked)
            SELECT {schema}.first_id(2000000000000 + i), 2000000000000 + i + CASE WHEN i < 60000 THEN 100000 ELSE 0 END, i < 60000, 0, 'a',
                'Order', '', CASE WHEN i % 2 = 1 AND i < 60000 THEN 'x' END FROM generate_series(1, 60001) AS i"
        ));
        let mut query = Query { limit: 100, ..Query::of(Part::Pending) };
        let (mut pages, mut found) = (0, Vec::new());
        loop {
            let page = node.store.list(&query).unwrap();
            pages += 1;
            found.extend(page.found.into_iter().map(|found| found.record.progress.due));
            let Some(next) = page.next else { break };
            query.after = Some(next);
        }
        assert_eq!(found.len(), 30_001);
        assert!(found.is_sorted());
        assert!((306..320).contains(&pages), "{pages} pages: one passes over 10000 rows");
    }
}

//! The past of routes that keep one, and keys that outlive their timers, in a database that nodes and users share.

use std::thread;
use std::time::Duration;

use actix_timers_durable::store::{Next, Note, Op, Outcome, Placed, Reads, Record};
use support::store::put;

use crate::rules::{Node, timer};
use crate::server::{Session, new_schema, options, until};
use crate::with_server;

fn due(number: u64, key: &str) -> Record {
    Record { key: Some(key.into()), ..timer(number, 0) }
}

fn is_new(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Put(placed) if matches!(placed[..], [Placed::Created { .. }]))
}

with_server! {
    fn concurrent_puts_on_a_kept_key_make_no_duplicate() {
        let (schema, session) = (new_schema(), Session::open());
        // They do not beat.
        let mut nodes = [0; 4].map(|_| Node::join_with(options(&schema).lease(Duration::from_secs(600))));
        for round in 0..20_u64 {
            let first = due(round << 32, "k");
            nodes[0].put(&first);
            let claimed = nodes[0].claim(&[first.id]);
            nodes[0].apply(Op::End(claimed[0], Next::KeepKey(Duration::from_millis(round % 4))));
            let created: usize = thread::scope(|scope| {
                let put = |(place, node): (u64, &mut Node)| {
                    let ops: Vec<_> = (1..20).map(|number| put(&due(round << 32 | place << 8 | number, "k"))).collect();
                    let outcomes = ops.chunks(1).flat_map(|op| node.apply_all(op));
                    outcomes.filter(|outcome| matches!(outcome, Ok(outcome) if is_new(outcome))).count()
                };
                let putting = (0..).zip(&mut nodes).map(|place| scope.spawn(move || put(place))).collect::<Vec<_>>();
                putting.into_iter().map(|putting| putting.join().unwrap()).sum()
            });
            assert!(created <= 1, "{created} were created");
            let rows: i64 = session.value(&format!("SELECT count(*) FROM {schema}.timers"));
            assert_eq!(rows, 1);
            session.run(&format!("DELETE FROM {schema}.timers"));
        }
    }

    fn rule_10_keys_whose_time_is_over_are_deleted() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let timers = [due(1, "young"), due(2, "old")];
        timers.iter().for_each(|timer| node.put(timer));
        // More than one statement deletes.
        session.run(&format!(
            "INSERT INTO {schema}.timers (id, due, nominal, route, message_type, payload, key, ended, keep_until)
            SELECT {schema}.first_id(i), i, 0, 'a', 'Order', '', 'old ' || i, 1, 2 FROM generate_series(1, 25000) AS i"
        ));
        for (timer, keep) in timers.iter().zip([3600, 0]) {
            let claimed = node.claim(&[timer.id]);
            node.apply(Op::End(claimed[0], Next::KeepKey(Duration::from_secs(keep))));
        }
        // The first beat tidies.
        node.beat(&[]);
        until("the old one is gone", Duration::from_secs(5), || {
            (session.value::<i64>(&format!("SELECT count(*) FROM {schema}.timers")) == 1).then_some(())
        });
        let cancelled = session.value::<String>(&format!("SELECT {schema}.cancel('{}')", timers[0].id));
        assert_eq!(cancelled, "not_found", "a complete timer keeps its key");
        assert_eq!(session.value::<String>(&format!("SELECT key FROM {schema}.timers")), "young");
    }

    fn errors_that_a_hand_has_overwritten_begin_anew() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let timer = timer(1, 0);
        node.put(&timer);
        let claimed = node.claim(&[timer.id]);
        session.run(&format!("UPDATE {schema}.timers SET errors = '\"none\"'"));
        let note = Note { took_ms: 1, outcome: Some("complete"), error: Some("why".into()), result: None };
        let end = Next::Noted(Box::new(Next::Delete), Box::new(note));
        assert_eq!(node.apply(Op::End(claimed[0], end)), Outcome::Ended { due: None });
        assert_eq!(session.value::<String>(&format!("SELECT errors -> 0 ->> 'reason' FROM {schema}.past")), "why");
    }

    fn sql_schedules_with_a_kept_key() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let schedule = |keep: &str| {
            let sql = format!("SELECT id::text, outcome FROM {schema}.schedule('a', 'Order', '8'::jsonb, now(), key => 'k', keep_key => {keep})");
            let row = &session.query(&sql)[0];
            (row.get::<_, String>(0), row.get::<_, String>(1))
        };
        let (id, outcome) = schedule("interval '1 hour'");
        assert_eq!(outcome, "created");
        let record = node.store.get(id.parse().unwrap()).unwrap().unwrap().record;
        assert_eq!(record.keep_key, Some(Duration::from_secs(3600)));
        let claimed = node.claim(&[record.id]);
        let end = format!("SELECT {schema}.end_delivery('{id}', 1, {})", claimed[0].attempt);
        session.run(&end);
        assert_eq!(schedule("NULL"), (id, "exists".to_owned()));
        // A hand may have written any number.
        let number = timer(1, 0);
        node.put(&number);
        session.run(&format!("UPDATE {schema}.timers SET keep_key = 9223372036854775807 WHERE id = '{}'", number.id));
        let claimed = node.claim(&[number.id]);
        session.run(&format!("SELECT {schema}.end_delivery('{}', 1, {})", number.id, claimed[0].attempt));
        assert_eq!(node.state(number.id), None);
        for wrong in ["interval '-1 s'", "interval '9999 years'"] {
            let sql = format!("SELECT {schema}.schedule('a', 'Order', '8'::jsonb, now(), keep_key => {wrong})");
            assert!(session.error(&sql).contains("a key is kept for"), "{wrong}");
        }
    }
}

//! Timers cancelled by filters, beside transactions of others.

use std::time::{Duration, Instant};

use actix_timers_durable::store::{NodeInfo, Part, Query, Reads, Record};
use actix_timers_durable::{DurableError, DurableFilter, DurableOptions, DurableTimers, StoreError};

use crate::rules::{Node, keyed};
use crate::server::{Session, address, connect_to, new_schema, options};
use crate::transactions::{Remind, after, client, store};
use crate::with_server;

with_server! {
    fn a_locked_timer_is_busy_and_the_others_are_cancelled() {
        support::in_real_time(async {
            let schema = new_schema();
            let timers = DurableTimers::builder(store(&schema).await).schedule_only().declare::<Remind>("office").start().unwrap();
            let blocker = client().await;
            let mut ids = Vec::new();
            for number in 0..6 {
                let options = DurableOptions::new().if_absent(format!("order-{number}"));
                ids.push(timers.schedule(after(60_000 + u64::from(number), number).options(options)).await.unwrap().id());
            }
            let lock = format!("BEGIN; SELECT FROM {schema}.timers WHERE id = '{}' FOR UPDATE", ids[1]);
            blocker.batch_execute(&lock).await.unwrap();
            let (began, filter) = (Instant::now(), DurableFilter::new().key_prefix("order-").limit(2));
            let outcome = timers.cancel_all(filter.clone()).await.unwrap();
            assert_eq!((outcome.cancelled, outcome.in_progress, outcome.busy), (5, 0, 1));
            assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
            blocker.batch_execute("COMMIT").await.unwrap();
            let outcome = timers.cancel_all(filter).await.unwrap();
            assert_eq!((outcome.cancelled, outcome.in_progress, outcome.busy), (1, 0, 0));
            timers.stop().await.unwrap();
        });
    }

    fn locked_dead_letters_are_told_and_the_others_discarded() {
        support::in_real_time(async {
            let schema = new_schema();
            let timers = DurableTimers::builder(store(&schema).await).schedule_only().declare::<Remind>("office").start().unwrap();
            let blocker = client().await;
            let letters = format!(
                "INSERT INTO {schema}.dead_letters (id, due, nominal, route, message_type, payload, reason, dead_at, headers)
                SELECT {schema}.first_id(1000 + i), 1000 + i, 0, 'a', 'Order', '', 'why', 2000, jsonb_build_object('tenant', (i % 2)::text)
                FROM generate_series(1, 6) AS i"
            );
            blocker.batch_execute(&letters).await.unwrap();
            let lock = format!("BEGIN; SELECT FROM {schema}.dead_letters WHERE due = 1001 FOR UPDATE");
            blocker.batch_execute(&lock).await.unwrap();
            let filter = DurableFilter::dead().header("tenant", "1").limit(1);
            let error = timers.discard_all(filter.clone()).await.unwrap_err();
            assert!(matches!(&error, DurableError::Store(reason) if matches!(**reason, StoreError::Locked)), "{error}");
            assert_eq!(timers.counts().await.unwrap().dead, 4, "two are gone");
            blocker.batch_execute("COMMIT").await.unwrap();
            assert_eq!(timers.discard_all(filter).await.unwrap(), 1);
            timers.stop().await.unwrap();
        });
    }

    /// Its order takes no notice of case and accents.
    fn prefixes_are_bytes_in_a_database_with_another_collation() {
        let (schema, session) = (new_schema(), Session::open());
        if session.value::<String>("SHOW server_version_num").as_str() < "150000" {
            return;
        }
        let database = format!("german_{schema}");
        session.run(&format!(
            "CREATE DATABASE {database} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-u-ks-level1' LC_COLLATE 'C' LC_CTYPE 'C'"
        ));
        let address = address().replace("/postgres", &format!("/{database}"));
        let mut node = Node::join_as(connect_to(&address, options(&schema)).unwrap(), &NodeInfo::default());
        let keys = ["a%b", "a_b", "a\\b", "aXb", "ä", "a\u{308}", "Ab", "äb", "b"];
        let timers: Vec<Record> = keys.iter().zip(1..).map(|(key, number)| keyed(number, key)).collect();
        timers.iter().for_each(|timer| node.put(timer));
        for (prefix, expected) in
            [("a", &[0, 1, 2, 3, 5][..]), ("a%", &[0]), ("a_", &[1]), ("a\\", &[2]), ("ä", &[4, 7]), ("A", &[6]), ("Ä", &[])]
        {
            let query = Query { key_prefix: Some(prefix.into()), ..Query::of(Part::Pending) };
            let mut found: Vec<_> = node.store.list(&query).unwrap().found.into_iter().map(|found| found.record.key.clone()).collect();
            found.sort();
            let mut expected: Vec<_> = expected.iter().map(|place| Some(keys[*place].into())).collect();
            expected.sort();
            assert_eq!(found, expected, "{prefix}");
        }
        drop(node);
        session.run(&format!("DROP DATABASE {database} WITH (FORCE)"));
    }
}

//! The past of routes that keep one, and keys that outlive their timers, in a database that nodes and users share.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_timers_durable::store::{Next, Note, Op, Outcome, Placed, Reads, Record};
use actix_timers_durable::{
    Durable, DurableFilter, DurableId, DurableMessage, DurableOptions, DurableState, DurableTimers, Finished,
    HandlerError, RetryPolicy, RouteOptions, Schedule, Scheduled,
};
use actix_timers_postgres::PostgresStore;
use serde::{Deserialize, Serialize};
use support::store::put;

use crate::effects::until;
use crate::rules::{Node, timer};
use crate::server::{Session, new_schema, options, until as until_true};
use crate::transactions::{client, store};
use crate::with_server;

/// An order that is shipped in a transaction. Its first attempt fails in one that is committed, its second one rolls back.
#[derive(Serialize, Deserialize)]
struct Ship(u32);

impl DurableMessage for Ship {
    const NAME: &'static str = "ship";
}

#[derive(Clone)]
struct Depot {
    store: PostgresStore,
    /// The numbers of rows of the past after each attempt.
    rows: Arc<Mutex<Vec<i64>>>,
    count: String,
}

impl Depot {
    async fn ship(&self, ship: &Durable<Ship>) -> Result<(), HandlerError> {
        let mut client = client().await;
        let transaction = client.transaction().await?;
        ship.note_result(format!("attempt {}", ship.attempt));
        if ship.attempt == 1 {
            self.store.fail_in(&transaction, ship, HandlerError::new("'not' yet")).await?;
        } else {
            self.store.complete_in(&transaction, ship).await?;
        }
        let inside: i64 = transaction.query_one(&self.count, &[]).await?.get(0);
        if ship.attempt == 2 {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        let outside = client.query_one(&self.count, &[]).await?.get(0);
        self.rows.lock().unwrap().extend([inside, outside]);
        Ok(())
    }
}

impl Actor for Depot {
    type Context = Context<Self>;
}

impl Handler<Durable<Ship>> for Depot {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, ship: Durable<Ship>, _: &mut Context<Self>) -> Self::Result {
        let depot = self.clone();
        Box::pin(async move { depot.ship(&ship).await })
    }
}

async fn ended(timers: &DurableTimers, id: DurableId) -> Option<Arc<Finished>> {
    let page = timers.list(DurableFilter::past_of(id)).await.unwrap();
    page.timers.first().map(|info| match &info.state {
        DurableState::Finished(end) => Arc::clone(end),
        state => panic!("{state:?}"),
    })
}

fn due(number: u64, key: &str) -> Record {
    Record { key: Some(key.into()), ..timer(number, 0) }
}

fn is_new(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Put(placed) if matches!(placed[..], [Placed::Created { .. }]))
}

with_server! {
    fn an_end_in_a_transaction_leaves_its_past_and_keeps_its_key() {
        support::in_real_time(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let count = format!("SELECT count(*) FROM \"{schema}\".past");
            let depot = Depot { store: store.clone(), rows: Arc::default(), count };
            let retry = RetryPolicy::default().initial_delay(Duration::from_millis(20)).jitter_percent(0);
            let options = RouteOptions::new().retry(retry).keep_past(Duration::from_secs(60));
            let timers = DurableTimers::builder(store).route_with::<Ship>("depot", depot.clone().start(), options);
            let timers = timers.start().unwrap();
            let once = || {
                let once = DurableOptions::new().if_absent("k").keep_key_for(Duration::from_secs(3600));
                timers.schedule(Schedule::after("depot", Duration::ZERO, Ship(1)).options(once))
            };
            let id = once().await.unwrap().id();
            until("it ends", async || ended(&timers, id).await.is_some()).await;
            let end = ended(&timers, id).await.unwrap();
            assert_eq!((end.is_dead, end.result.as_deref()), (false, Some("attempt 3")));
            let errors: Vec<_> = end.errors.iter().map(|error| (error.attempt, &*error.reason)).collect();
            let rolled_back = "the transaction that ends the delivery was not committed";
            assert_eq!(errors, [(1, "'not' yet"), (2, rolled_back)]);
            until("the handler ends", async || depot.rows.lock().unwrap().len() == 6).await;
            assert_eq!(*depot.rows.lock().unwrap(), [0, 0, 1, 0, 1, 1], "it is committed with the transaction");
            assert_eq!(once().await.unwrap(), Scheduled::Exists(id));
            assert_eq!(timers.counts().await.unwrap().pending, 0);
            timers.stop().await.unwrap();
        });
    }

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
        until_true("the old one is gone", Duration::from_secs(5), || {
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

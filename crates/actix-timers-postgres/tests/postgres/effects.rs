//! Ends of deliveries in the transactions of their handlers: effect and end are committed together, or neither is.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, ResponseFuture, System};
use actix_timers::{CancelOutcome, Repeat};
use actix_timers_durable::{
    Durable, DurableFilter, DurableMessage, DurableTimers, HandlerError, RetryPolicy, RouteOptions, Schedule,
};
use actix_timers_postgres::PostgresStore;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::server::{address, new_schema};
use crate::transactions::{client, store};
use crate::with_server;

/// Charges once, in the way that the test wants.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Charge {
    order: i64,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Way {
    /// Commits, and answers `Ok`.
    Commit,
    /// Commits, and answers with an error, as after a lost reply.
    CommitAndFail,
    /// The first attempt rolls back and answers `Ok`; later ones commit.
    RollBack,
    /// The first attempt fails in a transaction that is committed; later ones complete.
    FailIn,
    /// The first five attempts are put off in transactions that are committed.
    Snooze,
    /// Becomes a dead letter in its transaction.
    DieIn,
    /// Completes twice in a transaction.
    Twice,
    /// Waits until the delivery has ended otherwise, and completes it then.
    Late,
}

impl DurableMessage for Charge {
    const NAME: &'static str = "charge";
}

/// A recipient with a table of effects.
#[derive(Clone)]
struct Ledger {
    store: PostgresStore,
    table: String,
    /// Attempts by order.
    attempts: Arc<Mutex<HashMap<i64, u32>>>,
    errors: Arc<Mutex<Vec<String>>>,
    /// The name of the handlers' sessions.
    application: String,
    /// Late handlers go on.
    goes_on: Arc<tokio::sync::Semaphore>,
}

impl Ledger {
    async fn new(store: PostgresStore, schema: &str) -> Self {
        let table = format!("\"{schema}\".charges");
        let sql = format!("CREATE TABLE {table} (order_id bigint NOT NULL, attempt int NOT NULL)");
        client().await.batch_execute(&sql).await.unwrap();
        let goes_on = Arc::new(tokio::sync::Semaphore::new(0));
        let application = "ledger".to_owned();
        Self { store, table, attempts: Arc::default(), errors: Arc::default(), application, goes_on }
    }

    async fn effects(&self) -> Vec<(i64, i32)> {
        let sql = format!("SELECT order_id, attempt FROM {} ORDER BY 1, 2", self.table);
        client().await.query(&sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn charge(&self, charge: Durable<Charge>) -> Result<(), HandlerError> {
        *self.attempts.lock().unwrap().entry(charge.order).or_default() += 1;
        let mut config: tokio_postgres::Config = address().parse()?;
        let (mut client, connection) = config.application_name(&self.application).connect(NoTls).await?;
        actix::spawn(async move { _ = connection.await });
        let charged = self.charge_with(&mut client, &charge).await;
        if let Err(error) = &charged {
            self.errors.lock().unwrap().push(error.to_string());
        }
        charged
    }

    async fn charge_with(&self, client: &mut Client, charge: &Durable<Charge>) -> Result<(), HandlerError> {
        let transaction = client.transaction().await?;
        let insert = format!("INSERT INTO {} VALUES ($1, $2)", self.table);
        transaction.execute(&insert, &[&charge.order, &charge.attempt.cast_signed()]).await?;
        if charge.way == Way::Late {
            self.goes_on.acquire().await?.forget();
        }
        match charge.way {
            Way::FailIn if charge.attempt == 1 => {
                self.store.fail_in(&transaction, charge, HandlerError::new("not yet")).await?;
            }
            Way::Snooze if charge.attempt <= 5 => {
                self.store.fail_in(&transaction, charge, HandlerError::snooze_for(Duration::from_millis(20))).await?;
            }
            Way::DieIn => self.store.fail_in(&transaction, charge, HandlerError::permanent("never")).await?,
            _ => self.store.complete_in(&transaction, charge).await?,
        }
        if charge.way == Way::Twice {
            self.store.complete_in(&transaction, charge).await?;
        }
        if charge.way == Way::RollBack && charge.attempt == 1 {
            return Ok(transaction.rollback().await?);
        }
        transaction.commit().await?;
        if charge.way == Way::CommitAndFail { Err(HandlerError::new("the reply is lost")) } else { Ok(()) }
    }
}

impl Actor for Ledger {
    type Context = Context<Self>;
}

impl Handler<Durable<Charge>> for Ledger {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, charge: Durable<Charge>, _: &mut Context<Self>) -> Self::Result {
        let ledger = self.clone();
        Box::pin(async move { ledger.charge(charge).await })
    }
}

fn start(store: PostgresStore, ledger: &Ledger) -> DurableTimers {
    let retry = RetryPolicy::default().max_attempts(3).initial_delay(Duration::from_millis(20)).jitter_percent(0);
    let retry = retry.timeout(Duration::from_secs(20));
    let route = RouteOptions::new().retry(retry);
    DurableTimers::builder(store).route_with::<Charge>("ledger", ledger.clone().start(), route).start().unwrap()
}

/// Starts a node whose timers are tried until they succeed.
fn start_forever(store: PostgresStore, ledger: &Ledger) -> DurableTimers {
    let retry = RetryPolicy::default()
        .max_attempts(u32::MAX)
        .initial_delay(Duration::from_millis(20))
        .max_delay(Duration::from_millis(100));
    let route = RouteOptions::new().retry(retry).window(32);
    DurableTimers::builder(store).route_with::<Charge>("ledger", ledger.clone().start(), route).start().unwrap()
}

fn charge(order: i64, way: Way) -> Schedule<Charge> {
    Schedule::after("ledger", Duration::ZERO, Charge { order, way })
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn is_empty(timers: &DurableTimers) -> bool {
    timers.list(DurableFilter::new()).await.unwrap().timers.is_empty()
}

async fn dead(timers: &DurableTimers) -> usize {
    timers.list(DurableFilter::dead()).await.unwrap().timers.len()
}

with_server! {
    fn effect_and_end_are_committed_together_or_neither_is_whatever_the_handler_answers() {
        System::new().block_on(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let timers = start(store, &ledger);
            let ways =
                [Way::Commit, Way::CommitAndFail, Way::RollBack, Way::FailIn, Way::DieIn, Way::Twice, Way::Snooze];
            for (order, way) in (0..).zip(ways) {
                let _ = timers.schedule(charge(order, way)).await.unwrap();
            }
            until("all end", async || is_empty(&timers).await).await;
            // The effect of a failure in its transaction is committed with it.
            let snoozed = (1..=6).map(|attempt| (6, attempt));
            let expected = [(0, 1), (1, 1), (2, 2), (3, 1), (3, 2), (4, 1)].into_iter().chain(snoozed);
            assert_eq!(ledger.effects().await, expected.collect::<Vec<_>>());
            let attempts = |order| ledger.attempts.lock().unwrap()[&order];
            assert_eq!([0, 1, 2, 3, 4, 5].map(attempts), [1, 1, 2, 2, 1, 3]);
            assert_eq!(dead(&timers).await, 2, "of `DieIn`, and of `Twice`, which never commits");
            let errors = ledger.errors.lock().unwrap().clone();
            assert_eq!(errors.iter().filter(|error| error.contains("has ended otherwise")).count(), 3, "{errors:?}");
            timers.stop().await.unwrap();
        });
    }

    fn a_repetition_continues_in_the_transaction_and_none_overlaps_or_is_lost() {
        System::new().block_on(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let timers = start(store, &ledger);
            let every = Repeat::every(Duration::from_millis(50)).times(4);
            let every = Schedule::at_fixed_rate("ledger", every, Charge { order: 7, way: Way::RollBack });
            let _ = timers.schedule(every).await.unwrap();
            until("all end", async || is_empty(&timers).await).await;
            assert_eq!(ledger.effects().await, [(7, 2); 4]);
            assert_eq!(ledger.attempts.lock().unwrap()[&7], 8);
            timers.stop().await.unwrap();
        });
    }

    fn after_a_cancel_the_effect_of_the_handler_is_refused() {
        System::new().block_on(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let timers = start(store, &ledger);
            let id = timers.schedule(charge(1, Way::Late)).await.unwrap().id();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
            ledger.goes_on.add_permits(1);
            until("it ends", async || !ledger.errors.lock().unwrap().is_empty()).await;
            assert_eq!(ledger.effects().await, []);
            timers.stop().await.unwrap();
            assert!(ledger.errors.lock().unwrap()[0].contains("has ended otherwise"));
        });
    }

    /// A node that has lost its lease, and does not know it yet.
    fn a_zombie_commits_nothing_and_its_open_transaction_is_ended() {
        System::new().block_on(async {
            let schema = new_schema();
            let [first, second] = [store(&schema).await, store(&schema).await];
            let ledger = Ledger::new(first.clone(), &schema).await;
            let timers = start(first, &ledger);
            let _ = timers.schedule(charge(1, Way::Late)).await.unwrap();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            // As if it had died; its row is taken over by the second.
            let client = client().await;
            client.batch_execute(&format!("UPDATE \"{schema}\".nodes SET dead = true")).await.unwrap();
            let other = Ledger { attempts: Arc::default(), ..ledger.clone() };
            let others = start(second, &other);
            until("it is taken over", async || other.attempts.lock().unwrap().contains_key(&1)).await;
            // The zombie is the first to go on.
            ledger.goes_on.add_permits(2);
            until("all end", async || is_empty(&others).await).await;
            until("the zombie ends", async || !ledger.errors.lock().unwrap().is_empty()).await;
            assert_eq!(ledger.effects().await, [(1, 2)]);
            timers.stop().await.unwrap();
            others.stop().await.unwrap();
        });
    }

    fn the_transaction_of_a_dead_node_is_ended_although_it_has_locked_the_row() {
        System::new().block_on(async {
            let schema = new_schema();
            let [first, second] = [store(&schema).await, store(&schema).await];
            let ledger = Ledger::new(first.clone(), &schema).await;
            // Its handler never ends.
            let timers = start(first.clone(), &ledger);
            let _ = timers.schedule(charge(1, Way::Late)).await.unwrap();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            let mut held = client().await;
            let held = held.transaction().await.unwrap();
            let row = held.query_one(&format!("SELECT id, repetition, attempt FROM \"{schema}\".timers"), &[]).await.unwrap();
            let (id, repetition, attempt): (uuid::Uuid, i64, i32) = (row.get(0), row.get(1), row.get(2));
            let end = format!("SELECT \"{schema}\".end_delivery($1, $2, $3)");
            let _ = held.query_one(&end, &[&id, &repetition, &attempt]).await.unwrap();
            client().await.batch_execute(&format!("UPDATE \"{schema}\".nodes SET dead = true")).await.unwrap();
            let other = Ledger { attempts: Arc::default(), ..ledger.clone() };
            let others = start(second, &other);
            until("it is taken over", async || other.attempts.lock().unwrap().contains_key(&1)).await;
            assert!(held.commit().await.is_err());
            ledger.goes_on.add_permits(2);
            until("all end", async || is_empty(&others).await).await;
            assert_eq!(ledger.effects().await, [(1, 2)]);
            timers.stop().await.unwrap();
            others.stop().await.unwrap();
        });
    }

    /// Sessions of handlers and nodes are killed at random points, and nodes are declared dead that go on as zombies. Scaled by
    /// `ACTIX_TIMERS_KILLS`.
    fn effects_happen_exactly_once_whatever_is_killed() {
        let kills: usize = std::env::var("ACTIX_TIMERS_KILLS").map_or(150, |kills| kills.parse().unwrap());
        System::new().block_on(async {
            let schema = new_schema();
            let stores = [store(&schema).await, store(&schema).await];
            let ledger = Ledger { application: schema.clone(), ..Ledger::new(stores[0].clone(), &schema).await };
            let nodes = stores.map(|store| start_forever(store, &ledger));
            let client = client().await;
            let kill = format!(
                "SELECT pg_terminate_backend(k.pid) FROM (
                    SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = '{schema}'
                    UNION ALL SELECT s.pid FROM \"{schema}\".nodes n, jsonb_to_recordset(n.sessions) AS s(pid int)
                        WHERE random() < 0.02
                ) k ORDER BY random() LIMIT 1"
            );
            let declare_dead = format!(
                "UPDATE \"{schema}\".nodes SET dead = true
                WHERE id = (SELECT n.id FROM \"{schema}\".nodes n WHERE NOT n.dead ORDER BY random() LIMIT 1)"
            );
            let (mut killed, mut orders, mut unknown) = (0, 0, HashSet::new());
            let began = Instant::now();
            while killed < kills {
                if orders - ledger.effects().await.len() < 100 {
                    let way = [Way::Commit, Way::CommitAndFail, Way::RollBack][orders % 3];
                    if nodes[orders % 2].schedule(charge(orders as i64, way)).await.is_err() {
                        unknown.insert(orders as i64);
                    }
                    orders += 1;
                }
                killed += client.query(&kill, &[]).await.unwrap().len();
                if killed % 200 == 199 {
                    client.batch_execute(&declare_dead).await.unwrap();
                }
                sleep(Duration::from_millis(2)).await;
            }
            let effects = async || {
                let effects = ledger.effects().await;
                effects.into_iter().map(|(order, _)| order).filter(|order| !unknown.contains(order)).collect::<Vec<_>>()
            };
            until("all happen", async || effects().await.len() >= orders - unknown.len()).await;
            until("all end", async || is_empty(&nodes[0]).await).await;
            let mut by_order = effects().await;
            assert_eq!(by_order.len(), orders - unknown.len());
            by_order.dedup();
            assert_eq!(by_order.len(), orders - unknown.len(), "each happens once");
            println!("{killed} kills, {orders} effects, {} unknown, {:?}", unknown.len(), began.elapsed());
            for timers in nodes {
                timers.stop().await.unwrap();
            }
        });
    }

    fn an_end_of_a_delivery_that_is_none_aborts_the_transaction() {
        System::new().block_on(async {
            let schema = new_schema();
            let _store = store(&schema).await;
            let client = client().await;
            let end = format!("SELECT \"{schema}\".end_delivery('00000000-0000-8000-8000-000000000000', 1, 1)");
            let error = client.batch_execute(&end).await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::NO_DATA_FOUND));
        });
    }
}

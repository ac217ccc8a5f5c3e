//! Ends of deliveries in the transactions of their handlers: effect and end are committed together, or neither is.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_timers::{CancelOutcome, Repeat};
use actix_timers_durable::store::{Again, Delivery, NO_END, Next, OnKey, Op, Outcome, Record};
use actix_timers_durable::{
    Durable, DurableFilter, DurableId, DurableInfo, DurableMessage, DurableOptions, DurableState, DurableTimers,
    HandlerError, Headers, RetryPolicy, RouteOptions, Schedule, Scheduled,
};
use actix_timers_postgres::PostgresStore;
use schemes::random::Random;
use serde::{Deserialize, Serialize};
use support::store::new;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use crate::rules::{Node, due_in, timer};
use crate::server::{Session, address, new_schema, options, until as until_true};
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
    /// Continues at once, until its third repetition; the first attempt of each rolls back.
    Continue,
    /// Waits until the delivery has ended otherwise, and completes it then.
    Late,
    /// Fails in a transaction that is committed when it is cancelled.
    GivesUp,
    /// Completes twice in a transaction, and waits for a cancel.
    Refused,
    /// The first attempt ends by a closure for the embedded store; later ones commit.
    Embedded,
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
        let ledger = Self::existing(store, schema);
        let sql = format!("CREATE TABLE {} (order_id bigint NOT NULL, attempt int NOT NULL)", ledger.table);
        client().await.batch_execute(&sql).await.unwrap();
        ledger
    }

    fn existing(store: PostgresStore, schema: &str) -> Self {
        let table = format!("\"{schema}\".charges");
        let goes_on = Arc::new(tokio::sync::Semaphore::new(0));
        let application = schema.to_owned();
        Self { store, table, attempts: Arc::default(), errors: Arc::default(), application, goes_on }
    }

    async fn effects(&self) -> Vec<(i64, i32)> {
        let sql = format!("SELECT order_id, attempt FROM {} ORDER BY 1, 2", self.table);
        client().await.query(&sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn charge(&self, charge: Durable<Charge>) -> Result<(), HandlerError> {
        *self.attempts.lock().unwrap().entry(charge.order).or_default() += 1;
        charge.note_result(format!("attempt {}", charge.attempt));
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
        if charge.way == Way::Embedded && charge.attempt == 1 {
            return charge.complete_with(|_| Ok(())).await;
        }
        let transaction = client.transaction().await?;
        let insert = format!("INSERT INTO {} VALUES ($1, $2)", self.table);
        transaction.execute(&insert, &[&charge.order, &charge.attempt.cast_signed()]).await?;
        if charge.way == Way::Late {
            self.goes_on.acquire().await?.forget();
        }
        if charge.way == Way::Continue && charge.repetition < 3 {
            charge.continue_at(std::time::SystemTime::UNIX_EPOCH);
        }
        match charge.way {
            Way::FailIn if charge.attempt == 1 => {
                self.store.fail_in(&transaction, charge, HandlerError::new("not yet")).await?;
            }
            Way::Snooze if charge.attempt <= 5 => {
                self.store.fail_in(&transaction, charge, HandlerError::snooze_for(Duration::from_millis(20))).await?;
            }
            Way::GivesUp => {
                charge.cancelled().await;
                self.store.fail_in(&transaction, charge, HandlerError::new("given up")).await?;
            }
            Way::DieIn => self.store.fail_in(&transaction, charge, HandlerError::permanent("never")).await?,
            _ => self.store.complete_in(&transaction, charge).await?,
        }
        if charge.way == Way::Twice {
            self.store.complete_in(&transaction, charge).await?;
        }
        if charge.way == Way::Refused {
            let refused = self.store.complete_in(&transaction, charge).await.unwrap_err();
            self.errors.lock().unwrap().push(refused.to_string());
            transaction.rollback().await?;
            charge.cancelled().await;
            return Err(HandlerError::new("cancelled"));
        }
        if matches!(charge.way, Way::RollBack | Way::Continue) && charge.attempt == 1 {
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
    start_with(store, ledger, RetryPolicy::default().max_attempts(3).jitter_percent(0).timeout(Duration::from_secs(20)))
}

fn start_with(store: PostgresStore, ledger: &Ledger, retry: RetryPolicy) -> DurableTimers {
    let retry = retry.initial_delay(Duration::from_millis(20));
    let route = RouteOptions::new().retry(retry).window(32).keep_past(Duration::from_secs(60));
    DurableTimers::builder(store).route_with::<Charge>("ledger", ledger.clone().start(), route).start().unwrap()
}

/// Starts a node with a ledger for a test, and stops it.
fn with_ledger(test: impl AsyncFnOnce(&DurableTimers, &Ledger)) {
    support::in_real_time(async {
        let schema = new_schema();
        let store = store(&schema).await;
        let ledger = Ledger::new(store.clone(), &schema).await;
        let timers = start(store, &ledger);
        test(&timers, &ledger).await;
        timers.stop().await.unwrap();
    });
}

/// Starts a node whose timers are tried until they succeed.
fn start_forever(store: PostgresStore, ledger: &Ledger) -> DurableTimers {
    start_with(store, ledger, RetryPolicy::default().max_attempts(u32::MAX).max_delay(Duration::from_millis(100)))
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

const SCHEMA: &str = "ACTIX_TIMERS_EFFECTS_SCHEMA";
const FIRST: &str = "ACTIX_TIMERS_EFFECTS_FIRST";
/// The number of requests of a service in progress at a time.
const CUSTOMERS: usize = 4;

/// A service in a process of its own, which schedules and charges until it is killed. Does nothing in an ordinary run.
#[test]
fn in_the_process_of_a_service() {
    let (Ok(schema), Ok(first)) = (std::env::var(SCHEMA), std::env::var(FIRST)) else { return };
    support::in_real_time(async {
        let store = store(&schema).await;
        let timers = start_forever(store.clone(), &Ledger::existing(store, &schema));
        let first: i64 = first.parse().unwrap();
        let customer = |customer| {
            let timers = timers.clone();
            actix::spawn(async move {
                for order in (first + customer..).step_by(CUSTOMERS) {
                    let way = [Way::Commit, Way::CommitAndFail, Way::RollBack][(order % 3) as usize];
                    if timers.schedule(charge(order, way)).await.is_ok() {
                        say(format_args!("{order}"));
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            })
        };
        let customers: Vec<_> = (0..CUSTOMERS as i64).map(customer).collect();
        for customer in customers {
            customer.await.unwrap();
        }
    });
}

/// Writes a line in one piece, past the harness.
fn say(line: std::fmt::Arguments<'_>) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A [service](in_the_process_of_a_service), which is killed when this is dropped. It writes into a file.
struct ServiceProcess(Child);

impl ServiceProcess {
    fn start(schema: &str, directory: &Path, number: i64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "effects::in_the_process_of_a_service", "--nocapture"]);
        command.env(SCHEMA, schema).env(FIRST, (number * 1_000_000).to_string()).stdout(Stdio::null());
        Self(command.stderr(File::create(directory.join(number.to_string())).unwrap()).spawn().unwrap())
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Returns the orders that the services have acknowledged.
fn acknowledged(directory: &Path) -> Vec<i64> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let lines = |file: PathBuf| std::fs::read_to_string(file).unwrap();
    files.flat_map(|file| lines(file).lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>()).collect()
}

async fn is_empty(timers: &DurableTimers) -> bool {
    timers.list(DurableFilter::new()).await.unwrap().timers.is_empty()
}

async fn dead(timers: &DurableTimers) -> usize {
    timers.list(DurableFilter::dead()).await.unwrap().timers.len()
}

with_server! {
    fn effect_and_end_are_atomic_whatever_the_handler_answers() {
        with_ledger(async |timers, ledger| {
            let ways = [
                Way::Commit,
                Way::CommitAndFail,
                Way::RollBack,
                Way::FailIn,
                Way::DieIn,
                Way::Twice,
                Way::Snooze,
                Way::Embedded,
            ];
            let once = |order, way| {
                let once = DurableOptions::new().if_absent(format!("order {order}"));
                timers.schedule(charge(order, way).options(once.keep_key_for(Duration::from_secs(3600))))
            };
            let mut ids = Vec::new();
            for (order, way) in (0..).zip(ways) {
                ids.push(once(order, way).await.unwrap().id());
            }
            until("all end", async || is_empty(timers).await).await;
            // The effect of a failure in its transaction is committed with it.
            let snoozed = (1..=6).map(|attempt| (6, attempt));
            let expected = [(0, 1), (1, 1), (2, 2), (3, 1), (3, 2), (4, 1)].into_iter().chain(snoozed).chain([(7, 2)]);
            assert_eq!(ledger.effects().await, expected.collect::<Vec<_>>());
            let attempts = |order| ledger.attempts.lock().unwrap()[&order];
            assert_eq!([0, 1, 2, 3, 4, 5].map(attempts), [1, 1, 2, 2, 1, 3]);
            assert_eq!(dead(timers).await, 2, "of `DieIn`, and of `Twice`, which never commits");
            let errors = ledger.errors.lock().unwrap().clone();
            let told = |text| errors.iter().filter(|error| error.contains(text)).count();
            assert_eq!((told("has ended otherwise"), told("complete_in")), (3, 1), "{errors:?}");
            // Past and kept keys are those of the transactions, too.
            let rolled_back = "the transaction that ends the delivery was not committed";
            for (order, result, expected) in [(0, 1, &[][..]), (2, 2, &[(1, rolled_back)]), (3, 2, &[(1, "not yet")])] {
                let past = timers.list(DurableFilter::past_of(ids[order])).await.unwrap().timers;
                let [DurableInfo { state: DurableState::Finished(end), .. }] = &past[..] else { panic!("{past:?}") };
                assert_eq!((end.is_dead, end.result.as_deref()), (false, Some(&*format!("attempt {result}"))));
                let errors: Vec<_> = end.errors.iter().map(|error| (error.attempt, &*error.reason)).collect();
                assert_eq!(errors, expected);
                assert_eq!(once(order as i64, Way::Commit).await.unwrap(), Scheduled::Exists(ids[order]));
            }
        });
    }

    /// A time of the handler counts if its transaction is committed.
    fn repetitions_continue_in_transactions_without_overlap_or_loss() {
        with_ledger(async |timers, ledger| {
            let every = Repeat::every(Duration::from_millis(50)).times(4);
            let every = Schedule::at_fixed_rate("ledger", every, Charge { order: 6, way: Way::RollBack });
            let delay = Repeat::every(Duration::from_secs(3600)).first_after(Duration::ZERO).times(3);
            let delay = Schedule::with_fixed_delay("ledger", delay, Charge { order: 8, way: Way::Continue });
            for schedule in [every, charge(7, Way::Continue), delay] {
                let _ = timers.schedule(schedule).await.unwrap();
            }
            until("all end", async || is_empty(timers).await).await;
            let expected = [[(6, 2); 4].as_slice(), &[(7, 2); 3], &[(8, 2); 3]].concat();
            assert_eq!(ledger.effects().await, expected);
            assert_eq!(ledger.attempts.lock().unwrap()[&6], 8);
        });
    }

    fn after_a_cancel_the_effect_of_the_handler_is_refused() {
        with_ledger(async |timers, ledger| {
            let id = timers.schedule(charge(1, Way::Late)).await.unwrap().id();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
            ledger.goes_on.add_permits(1);
            until("it ends", async || !ledger.errors.lock().unwrap().is_empty()).await;
            assert_eq!(ledger.effects().await, []);
            assert!(ledger.errors.lock().unwrap()[0].contains("has ended otherwise"));
        });
    }

    /// As an error that the handler returns.
    fn a_failure_in_a_transaction_during_a_stop_uses_up_no_attempt() {
        support::in_real_time(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let timers = start_with(store.clone(), &ledger, RetryPolicy::never());
            let _ = timers.schedule(charge(1, Way::GivesUp)).await.unwrap();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            timers.stop().await.unwrap();
            assert_eq!(ledger.effects().await, [(1, 1)]);
            let row = format!("SELECT attempt, used, node IS NULL FROM \"{schema}\".timers");
            let row = client().await.query_one(&row, &[]).await.unwrap();
            assert_eq!((row.get(0), row.get(1), row.get(2)), (1, 0, true));
        });
    }

    /// Its lease is lost: the node may still write, and the answer of a handler would use up the attempt, too.
    fn a_failure_in_a_transaction_after_a_lost_lease_uses_up_an_attempt() {
        support::in_real_time(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let timers = start_with(store.clone(), &ledger, RetryPolicy::never().timeout(Duration::from_secs(60)));
            let _ = timers.schedule(charge(1, Way::GivesUp)).await.unwrap();
            until("it begins", async || ledger.attempts.lock().unwrap().contains_key(&1)).await;
            let mut other = client().await;
            let locks = other.transaction().await.unwrap();
            let _ = locks.execute(&format!("SELECT FROM \"{schema}\".nodes FOR UPDATE"), &[]).await.unwrap();
            until("it has committed", async || !ledger.effects().await.is_empty()).await;
            locks.rollback().await.unwrap();
            assert_eq!((is_empty(&timers).await, dead(&timers).await), (true, 1));
            timers.stop().await.unwrap();
        });
    }

    /// A refused end is known not to be committed: the handler hears of a later cancel.
    fn a_handler_whose_end_was_refused_learns_of_a_cancel() {
        with_ledger(async |timers, ledger| {
            let id = timers.schedule(charge(1, Way::Refused)).await.unwrap().id();
            until("its end is refused", async || !ledger.errors.lock().unwrap().is_empty()).await;
            let cancelled = Instant::now();
            assert_eq!(timers.cancel(id).await.unwrap(), CancelOutcome::InProgress);
            until("it is told", async || ledger.errors.lock().unwrap().len() == 2).await;
            assert!(cancelled.elapsed() < Duration::from_secs(10), "not by its time-out");
        });
    }

    /// A node that has lost its lease, and does not know it yet.
    fn a_zombie_commits_nothing_and_its_open_transaction_is_ended() {
        support::in_real_time(async {
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
            // The zombie is the first to go on.
            ledger.goes_on.add_permits(2);
            until("all end", async || is_empty(&others).await).await;
            until("the zombie ends", async || !ledger.errors.lock().unwrap().is_empty()).await;
            assert_eq!(ledger.effects().await, [(1, 2)]);
            timers.stop().await.unwrap();
            others.stop().await.unwrap();
        });
    }

    /// Nodes in processes of their own are killed at random moments, or declared dead and go on as zombies; meanwhile
    /// sessions of handlers and nodes are. Scaled by `ACTIX_TIMERS_KILLS`.
    fn effects_happen_exactly_once_whatever_is_killed() {
        let kills: u64 = std::env::var("ACTIX_TIMERS_KILLS").map_or(10, |kills| kills.parse().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random::new(u64::from(std::process::id()));
        support::in_real_time(async {
            let schema = new_schema();
            let store = store(&schema).await;
            let ledger = Ledger::new(store.clone(), &schema).await;
            let client = client().await;
            let declare_dead = format!("UPDATE \"{schema}\".nodes SET dead = true");
            let kill_session = format!(
                "SELECT pg_terminate_backend(k.pid) FROM (
                    SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = '{schema}'
                    UNION ALL SELECT s.pid FROM \"{schema}\".nodes n JOIN \"{schema}\".sessions s ON s.lock = -n.id
                        WHERE random() < 0.02
                ) k ORDER BY random() LIMIT 1"
            );
            let (mut sessions, mut started) = (0, 0..);
            let mut start = || ServiceProcess::start(&schema, directory.path(), started.next().unwrap());
            let mut services = [start(), start()];
            for kill in 0..kills {
                let end = Instant::now() + Duration::from_millis(random.below(2000));
                while Instant::now() < end {
                    sessions += client.query(&kill_session, &[]).await.unwrap().len();
                    sleep(Duration::from_millis(10)).await;
                }
                if random.one_in(4) {
                    client.batch_execute(&declare_dead).await.unwrap();
                }
                // The next one may be killed while it joins.
                services[(kill % 2) as usize] = start();
            }
            drop(services);
            let timers = start_forever(store, &ledger);
            until("all end", async || is_empty(&timers).await).await;
            let effects: Vec<_> = ledger.effects().await.into_iter().map(|(order, _)| order).collect();
            let once: HashSet<_> = effects.iter().copied().collect();
            assert_eq!(effects.len(), once.len(), "each happens once");
            let acknowledged = acknowledged(directory.path());
            assert!(acknowledged.len() > 2 * kills as usize, "only {}", acknowledged.len());
            let missing: Vec<_> = acknowledged.iter().filter(|order| !once.contains(order)).collect();
            assert_eq!(missing, [] as [&i64; 0]);
            println!("{kills} kills, {sessions} of sessions, {} effects of {} acknowledged orders", once.len(), acknowledged.len());
            timers.stop().await.unwrap();
        });
    }

    fn an_end_in_a_transaction_equals_an_end_of_the_store() {
        let (schema, session) = (new_schema(), Session::open());
        // It does not beat.
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        let rows = |table: &str, id: DurableId| {
            let sql = format!("SELECT (to_jsonb(t) - '{{id,created,ended,dead_at}}'::text[]
                || jsonb_build_object('keep_until', least(t.keep_until - t.ended, 70368744177663 - t.keep_until)))::text
                FROM {schema}.{table} t WHERE id = '{id}'");
            session.query(&sql).iter().map(|row| row.get(0)).collect::<Vec<String>>()
        };
        let (hour, long) = (due_in(3_600_000), Duration::from_millis(u64::MAX >> 1));
        let again = |repetition| Again { due: hour, nominal: due_in(1_800_000), repetition, returned: 0 };
        let (retry, next) = (again(1), again(2));
        let dead = |then| Next::Dead { reason: "why".into(), then };
        let continued = |again: Again| format!("{}, {}, {}", again.due, again.nominal, again.repetition);
        let [retried, continues] = [retry, next].map(continued);
        let keep = Duration::from_millis(3_600_000);
        let ends = [
            (None, Next::Delete, String::new()),
            (Some(keep), Next::KeepKey(keep), String::new()),
            (Some(long), Next::KeepKey(long), String::new()),
            (Some(keep), Next::Again(retry), format!(", {retried}")),
            (Some(keep), Next::Again(next), format!(", {continues}")),
            (None, Next::Snooze(hour), format!(", {hour}, (SELECT nominal FROM held), 1, returned => 1")),
            (None, dead(None), ", reason => 'why'".to_owned()),
            (None, dead(Some(next)), format!(", {continues}, 'why'")),
        ];
        for (number, (keep_key, next, arguments)) in (0..).zip(ends) {
            for (place, max_attempts) in (0..).zip([None, Some(NO_END)]) {
                let timers = [0, 1].map(|nth| {
                    let timer = timer(number << 8 | place << 4 | nth, -10);
                    let headers = Headers::of([("tenant", "8")]).unwrap();
                    Record { max_attempts, headers, payload: (*b"8").into(), ..timer }
                });
                // Both are due at the time of this request, which is that of neither id.
                node.apply(Op::Put(timers.iter().map(|timer| new(timer, OnKey::KeepExisting)).collect()));
                let claimed = timers.each_ref().map(|timer| node.claim(&[timer.id])[0]);
                let keep = keep_key.map_or("NULL".to_owned(), |keep| keep.as_millis().to_string());
                session.run(&format!(
                    r#"UPDATE {schema}.timers SET used = 3, alone = true, parked = 'x', nominal = 8, keep_key = {keep},
                        errors = '[{{"reason": 8}}]' WHERE ended IS NULL AND node IS NOT NULL"#
                ));
                let outcome = node.apply(Op::End(claimed[0], next.clone()));
                assert!(matches!(outcome, Outcome::Ended { .. }), "{next:?}: {outcome:?}");
                let Delivery { id, repetition, attempt } = claimed[1];
                session.run(&format!("WITH held AS (SELECT nominal FROM {schema}.timers WHERE id = '{id}')
                    SELECT {schema}.end_delivery('{id}', {repetition}, {attempt}{arguments})"));
                for table in ["timers", "dead_letters"] {
                    assert_eq!(rows(table, timers[0].id), rows(table, id), "{next:?} in {table}");
                }
            }
        }
    }

    fn an_end_that_waits_for_a_locked_row_sees_its_new_state() {
        let (schema, stranger, watching) = (new_schema(), Session::open(), Session::open());
        // It does not beat.
        let mut node = Node::join_with(options(&schema).lease(Duration::from_secs(600)));
        let ends = [("NULL", ""), ("NULL", ", 70000000000000, 0, 1"), ("9000", "")];
        for (number, (keep_key, arguments)) in (0..).zip(ends) {
            for change in ["attempt = attempt + 1", "repetition = repetition + 1", "node = 8", "node = NULL"] {
                let timer = timer(number, 0);
                node.put(&timer);
                let attempt = node.claim(&[timer.id])[0].attempt;
                stranger.run(&format!("UPDATE {schema}.timers SET keep_key = {keep_key}"));
                stranger.run(&format!("BEGIN; UPDATE {schema}.timers SET {change}"));
                let end = format!("SELECT {schema}.end_delivery('{}', 1, {attempt}{arguments})", timer.id);
                let ending = std::thread::spawn(move || Session::open().error(&end));
                until_true("it waits", Duration::from_secs(9), || {
                    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE";
                    (watching.value::<i64>(&format!("{waiting} '%end_delivery(''{}''%'", timer.id)) == 1).then_some(())
                });
                stranger.run("COMMIT");
                let error = ending.join().unwrap();
                assert!(error.starts_with("P0002: ") && error.contains("has ended otherwise"), "{change}, {keep_key}{arguments}: {error}");
                assert!(stranger.value::<bool>(&format!("SELECT ended IS NULL FROM {schema}.timers")));
                stranger.run(&format!("DELETE FROM {schema}.timers"));
            }
        }
    }

    fn a_commit_is_written_to_disk_whatever_the_session_wants() {
        let (schema, session) = (new_schema(), Session::open());
        let mut node = Node::join(&schema);
        let (timer, other) = (timer(1, 0), timer(2, 0));
        node.put(&timer);
        let attempt = node.claim(&[timer.id])[0].attempt;
        for (wanted, found) in [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")] {
            for call in [
                format!("end_delivery('{}', 1, {attempt})", timer.id),
                format!("cancel('{}')", other.id),
                "schedule('a', 'Order', ''::bytea, now())".to_owned(),
                "pause('route', 'a')".to_owned(),
            ] {
                session.run(&format!("SET synchronous_commit = {wanted}; BEGIN; SELECT {schema}.{call}"));
                assert_eq!(session.value::<String>("SHOW synchronous_commit"), found, "{call}");
                session.run("ROLLBACK");
            }
        }
    }

}

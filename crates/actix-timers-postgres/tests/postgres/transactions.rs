//! Timers in transactions of users, beside nodes that deliver them.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_timers::CancelOutcome;
use actix_timers_durable::{
    DecodeError, Durable, DurableError, DurableInfo, DurableMessage, DurableOptions, DurableTimers, EncodeError,
    HandlerError, PayloadCodec, RetryPolicy, Schedule, ScheduleError, Scheduled, StoreError,
};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

use crate::server::{address, new_schema};
use crate::with_server;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Remind(pub(crate) u32);

impl DurableMessage for Remind {
    const NAME: &'static str = "remind";
}

/// A message that is not `Sync`.
#[derive(Serialize, Deserialize)]
struct Unshared(Cell<u32>);

impl DurableMessage for Unshared {
    const NAME: &'static str = "unshared";
}

/// The call can be spawned, whatever the message.
const _: fn(&PostgresStore, &Client, Schedule<Unshared>) = |store, client, request| {
    fn is_sent<T: Send>(_: T) {}
    is_sent(store.schedule_in(client, request));
};

/// Time, number and header of a delivery.
type Delivery = (Instant, u32, Option<String>);

/// The handlers that have learned of a cancel, by the numbers of their messages.
type Cancels = Arc<Mutex<Vec<(u32, Instant)>>>;

/// A recipient that keeps a list of deliveries.
#[derive(Clone, Default)]
pub(crate) struct Office {
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    takes: Duration,
    /// If there is one, handlers wait until they are cancelled, and note when.
    pub(crate) cancelled: Option<Cancels>,
}

impl Office {
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.deliveries.lock().unwrap().iter().map(|(_, number, _)| *number).collect()
    }

    /// Returns a recipient whose handlers take a while.
    pub(crate) fn slow(takes: Duration) -> Self {
        Self { takes, ..Self::default() }
    }

    pub(crate) fn times(&self) -> Vec<(u32, Instant)> {
        self.deliveries.lock().unwrap().iter().map(|(at, number, _)| (*number, *at)).collect()
    }

    pub(crate) async fn until(&self, deliveries: usize) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.numbers().len() < deliveries {
            assert!(Instant::now() < end, "{:?} are not {deliveries} deliveries", self.numbers());
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Remind>> for Office {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        let tenant = remind.header("tenant").map(str::to_owned);
        self.deliveries.lock().unwrap().push((Instant::now(), remind.0, tenant));
        let Self { takes, cancelled, .. } = self.clone();
        Box::pin(async move {
            if !takes.is_zero() {
                sleep(takes).await;
            }
            if let Some(noted) = cancelled {
                remind.cancelled().await;
                noted.lock().unwrap().push((remind.0, Instant::now()));
            }
            Ok(())
        })
    }
}

pub(crate) async fn client() -> Client {
    let (client, connection) = tokio_postgres::connect(&address(), NoTls).await.unwrap();
    actix::spawn(connection);
    client
}

pub(crate) async fn store(schema: &str) -> PostgresStore {
    let options = PostgresOptions::new().schema(schema).lease(Duration::from_secs(2));
    PostgresStore::connect(&address(), options).await.unwrap()
}

async fn info(timers: &DurableTimers, scheduled: Scheduled) -> Option<DurableInfo> {
    timers.get(scheduled.id()).await.unwrap()
}

pub(crate) fn after(millis: u64, number: u32) -> Schedule<Remind> {
    Schedule::after("office", Duration::from_millis(millis), Remind(number))
}

fn keyed(millis: u64, number: u32) -> Schedule<Remind> {
    after(millis, number).options(DurableOptions::new().if_absent("k"))
}

const HOUR: u64 = 3_600_000;

/// Runs a test with a node that delivers to an office, and the session of a user.
fn with_office(test: impl AsyncFnOnce(&PostgresStore, &DurableTimers, &Office, Client)) {
    support::in_real_time(async {
        let (store, office) = (store(&new_schema()).await, Office::default());
        let timers = DurableTimers::builder(store.clone()).route::<Remind>("office", office.clone().start());
        let timers = timers.start().unwrap();
        test(&store, &timers, &office, client().await).await;
        timers.stop().await.unwrap();
    });
}

with_server! {
    fn jitter_in_a_transaction_leaves_the_grid() {
        with_office(async |store, timers, _, client| {
            let (mut jitters, mut phases) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let hourly = Schedule::at_fixed_rate("office", Duration::from_millis(HOUR), Remind(1));
                let options = DurableOptions::new().replace("k").spread().jitter(Duration::from_secs(60));
                let scheduled = store.schedule_in(&client, hourly.options(options)).await.unwrap();
                let info = info(timers, scheduled).await.unwrap();
                let (due, nominal) = (info.progress.due.as_millis(), info.progress.nominal.as_millis());
                jitters.push(due - nominal);
                phases.push(nominal % HOUR);
            }
            phases.dedup();
            assert_eq!(phases.len(), 1, "that of the key");
            assert!(jitters.iter().all(|jitter| *jitter <= 60_000), "{jitters:?}");
            assert!(jitters.iter().max().unwrap() - jitters.iter().min().unwrap() > 10_000, "{jitters:?}");
        });
    }

    /// As a client binds them that knows nothing of this crate.
    fn the_statement_takes_its_values_in_the_order_of_its_fields() {
        with_office(async |store, _, office, mut client| {
            let retry = RetryPolicy::default().max_attempts(7);
            let options = DurableOptions::new().replace("k").header("tenant", "it's").retry(retry);
            let timer = store.schedule_statement(after(500, 1).options(options)).unwrap();
            for (place, outcome) in ["created", "replaced"].into_iter().enumerate() {
                let transaction = client.transaction().await.unwrap();
                let values: [&(dyn ToSql + Sync); 13] = [
                    &timer.route, &timer.message_type, &timer.payload, &timer.due, &timer.key, &timer.replace,
                    &timer.message_version, &timer.headers, &timer.max_attempts, &timer.retry, &timer.repeat, &timer.codec,
                    &timer.keep_key_ms,
                ];
                let row = transaction.query_one(&timer.sql, &values).await.unwrap();
                assert_eq!(row.get::<_, &str>("outcome"), outcome);
                assert_eq!(row.get::<_, Option<uuid::Uuid>>("other").is_some(), place == 1);
                transaction.commit().await.unwrap();
            }
            office.until(1).await;
            assert_eq!(office.deliveries.lock().unwrap()[0].2.as_deref(), Some("it's"));
            assert_eq!(office.numbers(), [1]);
        });
    }

    fn a_committed_timer_is_delivered_and_one_rolled_back_is_gone() {
        with_office(async |store, timers, office, mut client| {
            let transaction = client.transaction().await.unwrap();
            let gone = store.schedule_in(&transaction, after(0, 1)).await.unwrap();
            assert!(gone.is_new());
            transaction.rollback().await.unwrap();
            // Also without a transaction of several statements.
            let _ = store.schedule_in(&client, after(0, 2)).await.unwrap();
            office.until(1).await;
            let mut delays = Vec::new();
            for number in 3..23 {
                let transaction = client.transaction().await.unwrap();
                let options = DurableOptions::new().header("tenant", "7");
                let _ = store.schedule_in(&transaction, after(0, number).options(options)).await.unwrap();
                // Not before the commit.
                sleep(Duration::from_millis(if number == 3 { 400 } else { 0 })).await;
                assert_eq!(office.numbers().len(), (number - 2) as usize);
                transaction.commit().await.unwrap();
                let committed = Instant::now();
                office.until((number - 1) as usize).await;
                let (delivered, delivery, tenant) = office.deliveries.lock().unwrap().last().unwrap().clone();
                assert_eq!((delivery, tenant.as_deref()), (number, Some("7")));
                delays.push(delivered.saturating_duration_since(committed));
            }
            // The median, since other tests run at the same time.
            delays.sort_unstable();
            assert!(delays[delays.len() / 2] < Duration::from_millis(250), "{delays:?}");
            // Also of a transaction that a look has passed over.
            assert!(delays[delays.len() - 1] < Duration::from_secs(3), "{delays:?}");
            assert!(info(timers, gone).await.is_none());
            assert!(!office.numbers().contains(&1));
        });
    }

    fn a_key_names_one_timer_in_transactions_as_elsewhere() {
        with_office(async |store, timers, _, mut client| {
            let first = timers.schedule(keyed(HOUR, 1)).await.unwrap();
            let transaction = client.transaction().await.unwrap();
            assert_eq!(store.schedule_in(&transaction, keyed(HOUR, 2)).await.unwrap(), Scheduled::Exists(first.id()));
            let replace = |number| after(HOUR, number).options(DurableOptions::new().replace("k"));
            let second = store.schedule_in(&transaction, replace(3)).await.unwrap();
            assert_eq!(second, Scheduled::Replaced { id: second.id(), old: first.id(), in_progress: false });
            transaction.rollback().await.unwrap();
            assert_eq!(timers.timer_by_key("office", "k").await.unwrap(), Some(first.id()), "as before");
            let transaction = client.transaction().await.unwrap();
            let third = store.schedule_in(&transaction, replace(4)).await.unwrap();
            transaction.commit().await.unwrap();
            assert_eq!(timers.timer_by_key("office", "k").await.unwrap(), Some(third.id()));
            assert!(info(timers, first).await.is_none());
            assert_eq!(timers.schedule(keyed(HOUR, 5)).await.unwrap(), Scheduled::Exists(third.id()));
            let other = Schedule::after("other", Duration::from_secs(60), Remind(6)).options(DurableOptions::new().if_absent("k"));
            assert!(store.schedule_in(&client, other).await.unwrap().is_new(), "keys belong to routes");
        });
    }

    fn two_transactions_with_one_key_schedule_one_timer() {
        with_office(async |store, _, _, mut one| {
            let mut other = client().await;
            for commits in [true, false] {
                let transaction = one.transaction().await.unwrap();
                let first = store.schedule_in(&transaction, keyed(HOUR, 1)).await.unwrap();
                let second = {
                    let second_transaction = other.transaction().await.unwrap();
                    let (scheduled, ()) = tokio::join!(store.schedule_in(&second_transaction, keyed(HOUR, 2)), async {
                        // The second one waits for the end of the first.
                        sleep(Duration::from_millis(200)).await;
                        if commits { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
                    });
                    second_transaction.commit().await.unwrap();
                    scheduled.unwrap()
                };
                assert_eq!(second == Scheduled::Exists(first.id()), commits);
                assert_eq!(store.cancel_in(&one, second.id()).await.unwrap(), CancelOutcome::Cancelled);
            }
        });
    }

    fn a_deadlock_of_two_transactions_is_reported_with_its_code() {
        with_office(async |store, _, _, mut one| {
            let mut other = client().await;
            let (one, other) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
            let with = |key: &str| after(HOUR, 1).options(DurableOptions::new().if_absent(key));
            assert!(store.schedule_in(&one, with("a")).await.unwrap().is_new());
            assert!(store.schedule_in(&other, with("b")).await.unwrap().is_new());
            let waiting = async {
                let waiting = store.schedule_in(&one, with("b")).await;
                one.rollback().await.unwrap();
                waiting
            };
            let meeting = async {
                let meeting = store.schedule_in(&other, with("a")).await;
                other.rollback().await.unwrap();
                meeting
            };
            let (waiting, meeting) = tokio::join!(waiting, meeting);
            let failed = [waiting, meeting].into_iter().find_map(Result::err).unwrap();
            let DurableError::Store(error) = failed.reason else { panic!("{}", failed.reason) };
            let StoreError::Aborted(error) = &*error else { panic!("{error}") };
            let error = error.downcast_ref::<DbError>().unwrap();
            assert_eq!(*error.code(), SqlState::T_R_DEADLOCK_DETECTED);
        });
    }

    fn a_cancel_in_a_transaction_rolled_back_keeps_the_timer() {
        with_office(async |store, timers, office, mut client| {
            let kept = timers.schedule(after(500, 1)).await.unwrap().id();
            let cancelled = timers.schedule(after(500, 2)).await.unwrap().id();
            let transaction = client.transaction().await.unwrap();
            assert_eq!(store.cancel_in(&transaction, kept).await.unwrap(), CancelOutcome::Cancelled);
            assert_eq!(store.cancel_in(&transaction, kept).await.unwrap(), CancelOutcome::NotFound);
            transaction.rollback().await.unwrap();
            let transaction = client.transaction().await.unwrap();
            assert_eq!(store.cancel_in(&transaction, cancelled).await.unwrap(), CancelOutcome::Cancelled);
            transaction.commit().await.unwrap();
            office.until(1).await;
            sleep(Duration::from_millis(300)).await;
            assert_eq!(office.numbers(), [1]);
        });
    }

    fn a_message_that_is_not_scheduled_comes_back() {
        with_office(async |store, _, _, mut client| {
            let refused = |result: Result<Scheduled, ScheduleError<Remind>>| {
                let ScheduleError { message, reason, .. } = result.unwrap_err();
                assert_eq!(message.0, 7);
                reason
            };
            let transaction = client.transaction().await.unwrap();
            let named = Schedule::after("a\nb", Duration::ZERO, Remind(7));
            assert!(matches!(refused(store.schedule_in(&transaction, named).await), DurableError::RouteName(_)));
            let late = Schedule::after("office", Duration::MAX, Remind(7));
            assert!(matches!(refused(store.schedule_in(&transaction, late).await), DurableError::OutOfRange(_)));
            let nul = after(0, 7).options(DurableOptions::new().if_absent("a\0"));
            assert!(matches!(refused(store.schedule_in(&transaction, nul).await), DurableError::Store(_)));
            // These did not concern the server; a failed statement ends the transaction.
            transaction.execute("SELECT 1", &[]).await.unwrap();
            transaction.execute("SELECT 1/0", &[]).await.unwrap_err();
            let reason = refused(store.schedule_in(&transaction, after(0, 7)).await);
            assert!(matches!(&reason, DurableError::Store(error) if matches!(**error, StoreError::Aborted(_))), "{reason}");
            assert!(reason.to_string().contains("current transaction is aborted"), "{reason}");
        });
    }

    fn a_transaction_uses_repetition_and_codec_of_the_request() {
        struct Reversed;
        impl PayloadCodec for Reversed {
            fn id(&self) -> &str {
                "reversed"
            }
            fn encode(&self, mut payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
                payload.reverse();
                Ok(payload)
            }
            fn decode(&self, id: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
                assert_eq!(id, "reversed");
                Ok(payload.iter().rev().copied().collect())
            }
        }
        support::in_real_time(async {
            let store = store(&new_schema()).await.payload_codec(Reversed);
            let office = Office::default();
            let timers = DurableTimers::builder(store.clone())
                .route::<Remind>("office", office.clone().start())
                .payload_codec(Reversed)
                .start()
                .unwrap();
            let client = client().await;
            let repeat = actix_timers::Repeat::every(Duration::from_millis(50)).times(3);
            assert!(store.schedule_in(&client, Schedule::at_fixed_rate("office", repeat, Remind(1234))).await.unwrap().is_new());
            office.until(3).await;
            assert_eq!(office.numbers(), [1234; 3]);
            timers.stop().await.unwrap();
        });
    }
}

//! Handlers that learn from the store that nothing depends on them any more.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, Context, Handler, ResponseFuture};
use actix_timers::CancelOutcome;
use actix_timers_durable::{Durable, DurableTimers, HandlerError};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use tokio::time::sleep;

use crate::proxy::Wire;
use crate::server::{new_schema, proxy};
use crate::transactions::{Remind, after, client, store};
use crate::with_server;

/// Handlers that wait until they are cancelled.
#[derive(Clone, Default)]
struct Waiting {
    begun: Arc<Mutex<Vec<u32>>>,
    cancelled: Arc<Mutex<Vec<(u32, Instant)>>>,
}

impl Actor for Waiting {
    type Context = Context<Self>;
}

impl Handler<Durable<Remind>> for Waiting {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, remind: Durable<Remind>, _: &mut Context<Self>) -> Self::Result {
        self.begun.lock().unwrap().push(remind.0);
        let cancelled = Arc::clone(&self.cancelled);
        Box::pin(async move {
            remind.cancelled().await;
            cancelled.lock().unwrap().push((remind.0, Instant::now()));
            Ok(())
        })
    }
}

impl Waiting {
    fn timers(&self, store: PostgresStore) -> DurableTimers {
        DurableTimers::builder(store).route::<Remind>("office", self.clone().start()).start().unwrap()
    }

    async fn until_begun(&self, number: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.begun.lock().unwrap().len() < number {
            assert!(Instant::now() < end, "{number} have not begun");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the time at which a handler has learned it.
    async fn told(&self, number: u32) -> Instant {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let told = self.cancelled.lock().unwrap().iter().find(|(told, _)| *told == number).map(|(_, at)| *at);
            match told {
                Some(told) => return told,
                None => assert!(Instant::now() < end, "{number} was not told"),
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

with_server! {
    fn a_handler_learns_of_a_cancel_by_another_node_and_by_sql() {
        support::in_real_time(async {
            let schema = new_schema();
            let waiting = Waiting::default();
            let timers = waiting.timers(store(&schema).await);
            let other = DurableTimers::builder(store(&schema).await).schedule_only().start().unwrap();
            let mut ids = Vec::new();
            for number in 1..=3 {
                ids.push(timers.schedule(after(0, number)).await.unwrap().id());
            }
            waiting.until_begun(3).await;
            let cancelled = Instant::now();
            assert_eq!(other.cancel(ids[0]).await.unwrap(), CancelOutcome::InProgress);
            let sql = format!("SELECT \"{schema}\".cancel('{}')", ids[1]);
            client().await.batch_execute(&sql).await.unwrap();
            for number in [1, 2] {
                let took = waiting.told(number).await.saturating_duration_since(cancelled);
                // A beat, which is 500 ms with this lease, on a machine that does much else.
                assert!(took < Duration::from_secs(3), "{number}: {took:?}");
            }
            assert_eq!(waiting.cancelled.lock().unwrap().len(), 2, "the third runs");
            timers.stop().await.unwrap();
            other.stop().await.unwrap();
        });
    }

    fn a_handler_learns_of_a_lost_lease_while_the_server_is_away() {
        let (_runtime, proxy, address) = proxy();
        support::in_real_time(async {
            let schema = new_schema();
            let waiting = Waiting::default();
            let options = PostgresOptions::new().schema(&schema).lease(Duration::from_secs(2));
            let timers = waiting.timers(PostgresStore::connect(&address, options).await.unwrap());
            let _ = timers.schedule(after(0, 1)).await.unwrap();
            waiting.until_begun(1).await;
            let stalled = Instant::now();
            proxy.set(Wire::Stalled { up: true, down: true });
            let took = waiting.told(1).await.saturating_duration_since(stalled);
            assert!((Duration::from_millis(1000)..Duration::from_secs(8)).contains(&took), "{took:?}");
            proxy.set(Wire::Whole);
            timers.stop().await.unwrap();
        });
    }
}

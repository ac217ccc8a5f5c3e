//! Handlers that learn from the store that nothing depends on them any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::Actor;
use actix_timers::CancelOutcome;
use actix_timers_durable::DurableTimers;
use actix_timers_postgres::{PostgresOptions, PostgresStore};

use crate::effects::until;
use crate::proxy::Wire;
use crate::server::{new_schema, proxy};
use crate::transactions::{Office, Remind, after, client, store};
use crate::with_server;

/// Returns an office whose handlers wait until they are cancelled, and a node that delivers to it.
fn start(store: PostgresStore) -> (Office, DurableTimers) {
    let mut office = Office::default();
    office.cancelled = Some(Arc::default());
    let timers = DurableTimers::builder(store).route::<Remind>("office", office.clone().start());
    (office, timers.start().unwrap())
}

fn cancelled(office: &Office) -> Vec<(u32, Instant)> {
    office.cancelled.as_ref().unwrap().lock().unwrap().clone()
}

/// Returns the time at which a handler has learned it.
async fn told(office: &Office, number: u32) -> Instant {
    let told = || cancelled(office).into_iter().find(|(told, _)| *told == number);
    until("it is told", async || told().is_some()).await;
    told().unwrap().1
}

with_server! {
    fn a_handler_learns_of_a_cancel_by_another_node_and_by_sql() {
        support::in_real_time(async {
            let schema = new_schema();
            let (office, timers) = start(store(&schema).await);
            let other = DurableTimers::builder(store(&schema).await).schedule_only().start().unwrap();
            let mut ids = Vec::new();
            for number in 1..=3 {
                ids.push(timers.schedule(after(0, number)).await.unwrap().id());
            }
            office.until(3).await;
            let began = Instant::now();
            assert_eq!(other.cancel(ids[0]).await.unwrap(), CancelOutcome::InProgress);
            let sql = format!("SELECT \"{schema}\".cancel('{}')", ids[1]);
            client().await.batch_execute(&sql).await.unwrap();
            for number in [1, 2] {
                let took = told(&office, number).await.saturating_duration_since(began);
                // A beat, which is 500 ms with this lease, on a machine that does much else.
                assert!(took < Duration::from_secs(3), "{number}: {took:?}");
            }
            assert_eq!(cancelled(&office).len(), 2, "the third runs");
            timers.stop().await.unwrap();
            other.stop().await.unwrap();
        });
    }

    fn a_handler_learns_of_a_lost_lease_while_the_server_is_away() {
        let (_runtime, proxy, address) = proxy();
        support::in_real_time(async {
            let schema = new_schema();
            let options = PostgresOptions::new().schema(&schema).lease(Duration::from_secs(2));
            let (office, timers) = start(PostgresStore::connect(&address, options).await.unwrap());
            let _ = timers.schedule(after(0, 1)).await.unwrap();
            office.until(1).await;
            let stalled = Instant::now();
            proxy.set(Wire::Stalled { up: true, down: true });
            let took = told(&office, 1).await.saturating_duration_since(stalled);
            assert!((Duration::from_millis(1000)..Duration::from_secs(8)).contains(&took), "{took:?}");
            proxy.set(Wire::Whole);
            timers.stop().await.unwrap();
        });
    }
}

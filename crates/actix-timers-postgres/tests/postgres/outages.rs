//! The server cannot be reached for a while.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_timers_durable::{DurableError, DurableId, DurableTimers, Scheduled, StoreError};
use actix_timers_postgres::{PostgresOptions, PostgresStore};

use crate::proxy::Wire;
use crate::server::{Session, memory, new_schema, proxy};
use crate::transactions::Remind;
use crate::with_server;

/// Requests during an outage.
const REQUESTS: u64 = 1_000_000;
/// Callers that make them, more than requests may be in progress.
const CALLERS: u64 = 40_000;
/// The longest time to an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The largest growth of the process: the callers, the requests in progress, and their answers.
const GROWTH: u64 = 512 << 20;

/// The answers to requests.
#[derive(Default)]
struct Answers {
    stored: Vec<DurableId>,
    refused: u64,
    unsure: u64,
    longest: Duration,
}

async fn schedule(timers: &DurableTimers, answers: &RefCell<Answers>, number: u64) {
    let began = Instant::now();
    let result = timers.schedule_after("office", Duration::from_secs(7200), Remind(number as u32)).await;
    let mut answers = answers.borrow_mut();
    answers.longest = answers.longest.max(began.elapsed());
    match result {
        Ok(Scheduled::Created(id)) => answers.stored.push(id),
        Ok(other) => panic!("{other:?}"),
        Err(error) => match error.reason {
            DurableError::Store(error) if matches!(*error, StoreError::Unavailable(_)) => answers.refused += 1,
            DurableError::Store(error) if matches!(*error, StoreError::Unknown(_)) => answers.unsure += 1,
            other => panic!("{other}"),
        },
    }
}

with_server! {
    /// Before, at the beginning and after the outage requests succeed, too.
    fn a_million_requests_without_a_server_take_bounded_memory() {
        let (_runtime, proxy, address) = proxy();
        let (proxy, schema) = (Arc::new(proxy), new_schema());
        let options = PostgresOptions::new().schema(&schema).timeout(Duration::from_secs(2));
        let answers = support::in_real_time(async {
            let store = PostgresStore::connect(&address, options).await.unwrap();
            let timers = DurableTimers::builder(store).schedule_only().declare::<Remind>("office").start().unwrap();
            let answers = Rc::<RefCell<Answers>>::default();
            for number in 0..100 {
                schedule(&timers, &answers, number).await;
            }
            assert_eq!(answers.borrow().stored.len(), 100);
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let (before, _) = memory();
            let cutting = {
                let proxy = Arc::clone(&proxy);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    proxy.set(Wire::Cut);
                })
            };
            let next = Rc::new(Cell::new(100));
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    let (timers, answers, next) = (timers.clone(), Rc::clone(&answers), Rc::clone(&next));
                    actix::spawn(async move {
                        while next.get() < REQUESTS {
                            schedule(&timers, &answers, next.replace(next.get() + 1)).await;
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.unwrap();
            }
            cutting.join().unwrap();
            let (_, most) = memory();
            let stored = {
                let Answers { stored, refused, unsure, longest } = &*answers.borrow();
                let stored = stored.len();
                println!("{stored} stored, {refused} refused, {unsure} unsure, the longest wait {longest:?}, memory {before} to {most}");
                assert_eq!(stored as u64 + refused + unsure, REQUESTS);
                assert!(*refused > REQUESTS / 2);
                assert!(*longest < ANSWER, "{longest:?}");
                stored
            };
            assert!(most < before + GROWTH, "{before} to {most}");
            // It comes back.
            proxy.set(Wire::Whole);
            let began = Instant::now();
            while answers.borrow().stored.len() < stored + 100 {
                schedule(&timers, &answers, REQUESTS).await;
                assert!(began.elapsed() < ANSWER, "requests are accepted again");
            }
            timers.stop().await.unwrap();
            Rc::into_inner(answers).unwrap().into_inner()
        });
        let rows = Session::open().query(&format!("SELECT id FROM {schema}.timers"));
        let pending: HashSet<DurableId> = rows.iter().map(|row| DurableId::from_uuid(row.get(0)).unwrap()).collect();
        assert!(answers.stored.iter().all(|id| pending.contains(id)), "nothing is lost");
        let more = (pending.len() - answers.stored.len()) as u64;
        assert!(more <= answers.unsure, "{more} timers were refused and are there");
    }
}

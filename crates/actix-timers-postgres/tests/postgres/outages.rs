//! The server cannot be reached for a while.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix_timers_durable::{DurableError, DurableId, DurableMessage, DurableTimers, Scheduled, StoreError};
use actix_timers_postgres::{PostgresOptions, PostgresStore};
use serde::{Deserialize, Serialize};

use crate::proxy::Wire;
use crate::server::{Session, memory, new_schema, proxy};
use crate::with_server;

/// Requests during an outage.
const REQUESTS: u64 = 1_000_000;
/// Callers that make them, more than requests may be in progress.
const CALLERS: u64 = 40_000;
/// The longest time to an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The largest growth of the process: the callers, the requests in progress, and their answers.
const GROWTH: u64 = 512 << 20;

#[derive(Serialize, Deserialize)]
struct Remind(u64);

impl DurableMessage for Remind {
    const NAME: &'static str = "remind";
}

/// The answers to requests.
#[derive(Default)]
struct Answers {
    stored: Mutex<Vec<DurableId>>,
    refused: AtomicU64,
    unsure: AtomicU64,
    longest: Mutex<Duration>,
}

impl Answers {
    async fn schedule(&self, timers: &DurableTimers, number: u64) {
        let began = Instant::now();
        let result = timers.schedule_after("office", Duration::from_secs(7200), Remind(number)).await;
        match result {
            Ok(Scheduled::Created(id)) => self.stored.lock().unwrap().push(id),
            Ok(other) => panic!("{other:?}"),
            Err(error) => match error.reason {
                DurableError::Store(error) if matches!(*error, StoreError::Unavailable(_)) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                DurableError::Store(error) if matches!(*error, StoreError::Unknown(_)) => {
                    self.unsure.fetch_add(1, Ordering::Relaxed);
                }
                other => panic!("{other}"),
            },
        }
        let mut longest = self.longest.lock().unwrap();
        *longest = longest.max(began.elapsed());
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
            let answers = Rc::new(Answers::default());
            for number in 0..100 {
                answers.schedule(&timers, number).await;
            }
            assert_eq!(answers.stored.lock().unwrap().len(), 100);
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
            let (before, _) = memory();
            let is_cut = Arc::new(AtomicBool::new(false));
            let cutting = {
                let (proxy, is_cut) = (Arc::clone(&proxy), Arc::clone(&is_cut));
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    proxy.set(Wire::Cut);
                    is_cut.store(true, Ordering::Release);
                })
            };
            let next = Rc::new(AtomicU64::new(100));
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    let (timers, answers, next) = (timers.clone(), Rc::clone(&answers), Rc::clone(&next));
                    actix::spawn(async move {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number >= REQUESTS {
                                break;
                            }
                            answers.schedule(&timers, number).await;
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.unwrap();
            }
            cutting.join().unwrap();
            let (_, most) = memory();
            let longest = *answers.longest.lock().unwrap();
            let stored = answers.stored.lock().unwrap().len();
            let (refused, unsure) = (answers.refused.load(Ordering::Relaxed), answers.unsure.load(Ordering::Relaxed));
            println!("{stored} stored, {refused} refused, {unsure} unsure, the longest wait {longest:?}, memory {before} to {most}");
            assert_eq!(stored as u64 + refused + unsure, REQUESTS);
            assert!(is_cut.load(Ordering::Acquire) && refused > REQUESTS / 2);
            assert!(longest < ANSWER, "{longest:?}");
            assert!(most < before + GROWTH, "{before} to {most}");
            // It comes back.
            proxy.set(Wire::Whole);
            let began = Instant::now();
            while answers.stored.lock().unwrap().len() < stored + 100 {
                answers.schedule(&timers, REQUESTS).await;
                assert!(began.elapsed() < ANSWER, "requests are accepted again");
            }
            timers.stop().await.unwrap();
            Rc::into_inner(answers).unwrap()
        });
        let rows = Session::open().query(&format!("SELECT id FROM {schema}.timers"));
        let pending: std::collections::HashSet<DurableId> =
            rows.iter().map(|row| DurableId::from_uuid(row.get(0)).unwrap()).collect();
        let stored = answers.stored.into_inner().unwrap();
        assert!(stored.iter().all(|id| pending.contains(id)), "nothing is lost");
        let more = (pending.len() - stored.len()) as u64;
        assert!(more <= answers.unsure.into_inner(), "{more} timers were refused and are there");
    }
}

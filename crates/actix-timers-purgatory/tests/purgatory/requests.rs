//! Requests, their ends and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_timers_purgatory::{Outcome, Purgatory};

#[actix::test]
async fn a_check_completes_a_request_whose_condition_is_met() {
    tokio::time::pause();
    let purgatory: Purgatory<&str> = Purgatory::start().unwrap();
    let is_met = Arc::new(AtomicBool::new(false));
    let condition = {
        let is_met = Arc::clone(&is_met);
        move || is_met.load(Ordering::SeqCst).then_some(7)
    };
    let wait = purgatory.wait(["a", "b"], Duration::from_secs(1), condition);
    assert_eq!((purgatory.delayed(), purgatory.watched()), (1, 2));
    assert_eq!(purgatory.check("a"), 0);
    is_met.store(true, Ordering::SeqCst);
    assert_eq!(purgatory.check("c"), 0);
    assert_eq!(purgatory.check("b"), 1);
    assert_eq!((purgatory.delayed(), purgatory.watched()), (0, 0));
    assert_eq!(wait.await.unwrap(), Outcome::Completed(7));
}

#[actix::test]
async fn a_request_expires() {
    tokio::time::pause();
    let purgatory: Purgatory<&str> = Purgatory::start().unwrap();
    let wait = purgatory.wait(["a", "b"], Duration::from_secs(1), || None::<()>);
    let start = tokio::time::Instant::now();
    assert_eq!(wait.await.unwrap(), Outcome::Expired);
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!((purgatory.delayed(), purgatory.watched()), (0, 0));
}

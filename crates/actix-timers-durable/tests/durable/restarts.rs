//! Durable timers that are started again in the same process.

use std::path::Path;
use std::time::Duration;

use actix::prelude::*;
use actix_timers_durable::{Durable, DurableMessage, DurableTimers, HandlerError};
use actix_timers_durable::{EmbeddedStore, StoreError};

#[derive(serde::Serialize, serde::Deserialize)]
struct Remind(u32);

impl DurableMessage for Remind {
    const NAME: &'static str = "remind";
}

struct Office;

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Remind>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, _: Durable<Remind>, _: &mut Self::Context) -> Self::Result {
        Ok(())
    }
}

/// A system that ends without a stop, with timers in its wheel.
fn life(path: &Path, number: u32) {
    support::in_real_time(async {
        let store = EmbeddedStore::open(path).unwrap();
        let timers = DurableTimers::builder(store).route::<Remind>("office", Office.start()).start().unwrap();
        let id = timers.schedule_after("office", Duration::from_secs(30), Remind(number)).await.unwrap().id();
        assert!(timers.get(id).await.unwrap().is_some());
        assert_eq!(timers.counts().await.unwrap().pending, u64::from(number) + 1);
    });
}

#[test]
fn a_system_ended_without_a_stop_starts_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5 {
        life(directory.path(), number);
    }
}

/// The earlier one is not about to end.
#[test]
fn a_store_still_open_in_this_process_is_rejected_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let _store = EmbeddedStore::open(directory.path()).unwrap();
    let error = EmbeddedStore::open(directory.path()).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
    assert!(error.to_string().contains("if this process had it open, it is not closed yet"), "{error}");
}

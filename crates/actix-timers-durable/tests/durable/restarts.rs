//! Durable timers that are started again in the same process.

use actix_timers_durable::{DurableTimers, EmbeddedStore};
use support::durable::{Note, ROUTE, handled_by, ms};

/// Each system ends without a stop, with timers in its wheel.
#[test]
fn a_system_ended_without_a_stop_starts_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5 {
        support::in_real_time(async {
            let builder = DurableTimers::builder(EmbeddedStore::open(directory.path()).unwrap());
            let timers = builder.route::<Note>(ROUTE, handled_by(async |_| Ok(()))).start().unwrap();
            let id = timers.schedule_after(ROUTE, ms(30_000), Note(number)).await.unwrap().id();
            assert!(timers.get(id).await.unwrap().is_some());
            assert_eq!(timers.counts().await.unwrap().pending, u64::from(number) + 1);
        });
    }
}

//! Dead letters in bulk: requeued, discarded, and discarded by age.

use std::time::Duration;

use actix_timers::{ManualClock, scrape};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DurableError, DurableFilter, DurableId, DurableTimers, StoreError};
use metrics_exporter_prometheus::PrometheusBuilder;

use support::durable::{Act, Diary, Files, Medium, ROUTE, life, notes, on_every_store, one_life, run_to};

on_every_store! {
    messages_that_fail_again_at_once_are_requeued_once
    old_dead_letters_are_discarded_and_younger_ones_stay
}

const HOUR: u64 = 3_600_000;

/// Schedules messages that fail for good at their due times, one per millisecond from `from` on.
async fn fail(diary: &Diary, timers: &DurableTimers, from: u64, count: u32) -> Vec<DurableId> {
    (0..count).for_each(|note| diary.script(note, [Act::FailForGood]));
    notes(timers, ROUTE, (0..count).map(|note| (note, from + u64::from(note)))).await
}

fn messages_that_fail_again_at_once_are_requeued_once(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        fail(&diary, &timers, 0, 50).await;
        run_to(&clock, 100).await;
        for note in 0..50 {
            diary.script(note, std::iter::repeat_with(|| Act::FailForGood).take(10));
        }
        assert_eq!(timers.requeue_all(DurableFilter::dead().limit(10)).await.unwrap(), 50);
        run_to(&clock, 200).await;
        assert_eq!((diary.len(), timers.counts().await.unwrap().dead), (100, 50));
    });
}

fn old_dead_letters_are_discarded_and_younger_ones_stay(medium: impl Medium) {
    let diary = Diary::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let start = |medium: &_, clock: &ManualClock| {
        let builder = diary.builder(medium, clock).keep_dead_letters(Duration::from_secs(8 * 3600));
        metrics::with_local_recorder(&recorder, || builder.start()).unwrap()
    };
    life(0, async |clock| {
        let timers = start(&medium, &clock);
        fail(&diary, &timers, 0, 70).await;
        run_to(&clock, 4 * HOUR).await;
        let young = fail(&diary, &timers, 4 * HOUR, 3).await;
        run_to(&clock, 8 * HOUR - 1000).await;
        assert_eq!(timers.counts().await.unwrap().dead, 73);
        // A sweep every half hour.
        run_to(&clock, 8 * HOUR + HOUR).await;
        assert_eq!(timers.counts().await.unwrap().dead, 3);
        assert!(timers.get(young[0]).await.unwrap().is_some());
        timers.stop().await.unwrap();
    });
    // And one at the start.
    life(12 * HOUR, async |clock| {
        let timers = start(&medium, &clock);
        clock.settle().await;
        assert_eq!(timers.counts().await.unwrap().dead, 2, "one was exactly that old");
        run_to(&clock, 13 * HOUR).await;
        assert_eq!(timers.counts().await.unwrap().dead, 0);
        timers.stop().await.unwrap();
    });
    let page = scrape(|| page.render());
    assert!(page.contains("\nactix_timers_durable_dead_letters_expired_total{timer=\"durable\"} 73\n"), "{page}");
}

#[test]
fn if_the_store_fails_the_steps_before_are_done() {
    let disk = MemoryDisk::new();
    one_life(&disk, async |diary, timers, clock| {
        fail(&diary, &timers, 0, 10).await;
        run_to(&clock, 100).await;
        disk.reject_commits(1);
        let error = timers.discard_all(DurableFilter::dead()).await.unwrap_err();
        assert!(matches!(&error, DurableError::Store(reason) if matches!(**reason, StoreError::Rejected(_))));
        let left = timers.counts().await.unwrap().dead;
        assert_eq!(timers.discard_all(DurableFilter::dead()).await.unwrap(), left);
    });
}

//! Dead letters in bulk: requeued, discarded, and discarded by age.

use std::time::Duration;

use actix_timers::scrape;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DurableBuildError, DurableError, DurableFilter, DurableId, DurableTimers, RouteOptions, Schedule, StoreError,
};
use metrics_exporter_prometheus::PrometheusBuilder;

use support::durable::{Act, Diary, Files, Medium, Note, ROUTE, at, life, ms, on_every_store, one_life, quick, run_to};

on_every_store! {
    all_dead_letters_of_a_filter_are_requeued
    all_dead_letters_of_a_filter_are_discarded
    messages_that_fail_again_at_once_are_requeued_once
    a_dead_letter_whose_timer_is_pending_is_not_requeued
    old_dead_letters_are_discarded_and_younger_ones_stay
    a_start_discards_dead_letters_that_grew_old_before
}

const HOUR: u64 = 3_600_000;

/// Lets messages fail for good at their due times, one per millisecond from `from` on.
async fn fail(diary: &Diary, timers: &DurableTimers, route: &str, from: u64, count: u32) -> Vec<DurableId> {
    let mut ids = Vec::new();
    for note in 0..count {
        diary.script(note, [Act::FailForGood]);
        let due = at(from + u64::from(note));
        ids.push(timers.schedule(Schedule::at(route, due, Note(note))).await.unwrap().id());
    }
    ids
}

fn all_dead_letters_of_a_filter_are_requeued(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let options = RouteOptions::new().retry(quick());
        let other = diary.writer(&clock);
        let builder = diary.builder(&medium, &clock).route_with::<Note>("other", other, options);
        let timers = builder.start().unwrap();
        fail(&diary, &timers, ROUTE, 0, 250).await;
        run_to(&clock, 1000).await;
        let of_other = fail(&diary, &timers, "other", 1000, 3).await;
        run_to(&clock, 2000).await;
        assert_eq!(timers.counts().await.unwrap().dead, 253);

        // The state of the filter does not matter.
        let part = DurableFilter::new().route(ROUTE).due(at(0)..at(100)).limit(30);
        assert_eq!(timers.requeue_all(part).await.unwrap(), 100);
        run_to(&clock, 3000).await;
        assert_eq!(diary.deliveries()[253..].len(), 100);
        assert_eq!(timers.requeue_all(DurableFilter::dead().route(ROUTE)).await.unwrap(), 150);
        assert_eq!(timers.requeue_all(DurableFilter::dead().route(ROUTE)).await.unwrap(), 0);
        run_to(&clock, 4000).await;
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead, diary.len()), (0, 3, 253 + 250));
        assert!(timers.get(of_other[0]).await.unwrap().is_some());
    });
}

fn all_dead_letters_of_a_filter_are_discarded(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        let ids = fail(&diary, &timers, ROUTE, 0, 120).await;
        let _ = timers.schedule_at(ROUTE, at(9000), Note(1000)).await.unwrap();
        run_to(&clock, 1000).await;
        assert_eq!(timers.discard_all(DurableFilter::dead().due(at(110)..)).await.unwrap(), 10);
        assert_eq!(timers.get(ids[110]).await.unwrap(), None);
        assert_eq!(timers.discard_all(DurableFilter::dead().route("nowhere")).await.unwrap(), 0);
        assert_eq!(timers.discard_all(DurableFilter::dead().limit(7)).await.unwrap(), 110);
        let counts = timers.counts().await.unwrap();
        assert_eq!((counts.pending, counts.dead), (1, 0));
    });
}

fn messages_that_fail_again_at_once_are_requeued_once(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        fail(&diary, &timers, ROUTE, 0, 50).await;
        run_to(&clock, 100).await;
        for note in 0..50 {
            diary.script(note, std::iter::repeat_with(|| Act::FailForGood).take(10));
        }
        assert_eq!(timers.requeue_all(DurableFilter::dead().limit(10)).await.unwrap(), 50);
        run_to(&clock, 200).await;
        assert_eq!((diary.len(), timers.counts().await.unwrap().dead), (100, 50));
    });
}

fn a_dead_letter_whose_timer_is_pending_is_not_requeued(medium: impl Medium) {
    one_life(&medium, async |diary, timers, clock| {
        diary.script(1, [Act::FailForGood]);
        let _ = timers.schedule_at_fixed_rate(ROUTE, ms(1000), Note(1)).await.unwrap();
        run_to(&clock, 1500).await;
        assert_eq!(timers.requeue_all(DurableFilter::dead()).await.unwrap(), 0);
        assert_eq!(timers.discard_all(DurableFilter::dead()).await.unwrap(), 1);
        run_to(&clock, 2500).await;
        assert_eq!(diary.deliveries(), [(1000, 1), (2000, 1)]);
    });
}

fn old_dead_letters_are_discarded_and_younger_ones_stay(medium: impl Medium) {
    let diary = Diary::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    life(0, async |clock| {
        let builder = diary.builder(&medium, &clock).keep_dead_letters(Duration::from_secs(8 * 3600));
        let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
        fail(&diary, &timers, ROUTE, 0, 70).await;
        run_to(&clock, 4 * HOUR).await;
        let young = fail(&diary, &timers, ROUTE, 4 * HOUR, 3).await;
        run_to(&clock, 8 * HOUR - 1000).await;
        assert_eq!(timers.counts().await.unwrap().dead, 73);
        // A sweep every half hour.
        run_to(&clock, 8 * HOUR + HOUR).await;
        assert_eq!(timers.counts().await.unwrap().dead, 3);
        assert!(timers.get(young[0]).await.unwrap().is_some());
        run_to(&clock, 13 * HOUR).await;
        assert_eq!(timers.counts().await.unwrap().dead, 0);
        let page = scrape(|| page.render());
        assert!(page.contains("\nactix_timers_durable_dead_letters_expired_total{timer=\"durable\"} 73\n"), "{page}");
    });
}

fn a_start_discards_dead_letters_that_grew_old_before(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = diary.timers(&medium, &clock);
        fail(&diary, &timers, ROUTE, 0, 5).await;
        run_to(&clock, 1000).await;
        timers.stop().await.unwrap();
    });
    life(5 * HOUR, async |clock| {
        let builder = diary.builder(&medium, &clock).keep_dead_letters(Duration::from_secs(5 * 3600));
        let timers = builder.start().unwrap();
        clock.settle().await;
        assert_eq!(timers.counts().await.unwrap().dead, 4, "one is exactly that old");
        timers.stop().await.unwrap();
    });
}

#[test]
fn if_the_store_fails_the_steps_before_are_done() {
    let diary = Diary::default();
    let disk = MemoryDisk::new();
    life(0, async |clock| {
        let timers = diary.timers(&disk, &clock);
        fail(&diary, &timers, ROUTE, 0, 10).await;
        run_to(&clock, 100).await;
        disk.reject_commits(1);
        let error = timers.discard_all(DurableFilter::dead()).await.unwrap_err();
        assert!(matches!(&error, DurableError::Store(reason) if matches!(**reason, StoreError::Rejected(_))));
        let left = timers.counts().await.unwrap().dead;
        assert_eq!(timers.discard_all(DurableFilter::dead()).await.unwrap(), left);
        let rejected = diary.builder(&disk, &clock).keep_dead_letters(Duration::ZERO).start();
        assert!(matches!(rejected, Err(DurableBuildError::Zero("keep_dead_letters"))));
    });
}

//! Metrics.

use actix_timers::metrics::Metric;
use actix_timers_purgatory::metrics::CATALOGUE;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{Level, SECOND, World, never};

const OUTCOMES: [&str; 7] = ["completed", "expired", "cancelled", "closed", "panicked", "dropped", "full"];

#[actix::test]
async fn watchers_requests_and_their_ends_are_published() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let world = metrics::with_local_recorder(&recorder, || {
        World::with(|timers| timers.name("main"), |purgatory| purgatory.name("events").capacity(4))
    });
    let values = || {
        let page = page.render();
        let value = |metric: &Metric| {
            let name = metric.name.strip_prefix("actix_timers_").unwrap();
            support::metric(&page, name, "timer=\"main\",purgatory=\"events\"") as u64
        };
        CATALOGUE.iter().map(value).collect::<Vec<_>>()
    };
    let ended = || OUTCOMES.map(|outcome| support::metric(&page.render(), "purgatory_ended_total", outcome) as u64);
    assert_eq!(values(), [0, 0, 0]);
    let level = Level::default();
    let wait = world.purgatory.wait([1, 2, 3], SECOND, level.reached(1));
    let expiring = world.purgatory.wait([1], SECOND, never);
    let cancelled = world.purgatory.wait([4], SECOND, never);
    let dropped = world.purgatory.wait([5, 6], SECOND, never);
    assert_eq!(values(), [7, 4, 0]);
    drop(world.purgatory.wait([1], SECOND, never));
    assert_eq!((values(), ended()), (vec![7, 4, 1], [0, 0, 0, 0, 0, 0, 1]));
    drop(dropped);
    assert_eq!((values(), ended()), (vec![5, 3, 2], [0, 0, 0, 0, 0, 1, 1]));
    assert_eq!(world.purgatory.cancel(&4), 1);
    assert_eq!((values(), ended()), (vec![4, 2, 3], [0, 0, 1, 0, 0, 1, 1]));
    level.set(1);
    assert_eq!(world.purgatory.check(&3), 1);
    assert_eq!((values(), ended()), (vec![1, 1, 4], [1, 0, 1, 0, 0, 1, 1]));
    let immediate = world.purgatory.wait([1], SECOND, level.reached(1));
    assert_eq!((values(), ended()), (vec![1, 1, 5], [2, 0, 1, 0, 0, 1, 1]));
    world.clock.advance(SECOND).await;
    assert_eq!((values(), ended()), (vec![0, 0, 6], [2, 1, 1, 0, 0, 1, 1]));
    drop((wait, expiring, cancelled, immediate));
    assert_eq!((values(), ended()), (vec![0, 0, 6], [2, 1, 1, 0, 0, 1, 1]));
    let panicking: fn() -> Option<u32> = || panic!("by request");
    drop(world.purgatory.wait([1], SECOND, panicking));
    let closed = world.purgatory.wait([1], SECOND, never);
    world.purgatory.close();
    let refused = world.purgatory.wait([1], SECOND, never);
    assert_eq!((values(), ended()), (vec![0, 0, 9], [2, 1, 1, 2, 1, 1, 1]));
    drop((closed, refused));
    assert_eq!((values(), ended()), (vec![0, 0, 9], [2, 1, 1, 2, 1, 1, 1]));
}

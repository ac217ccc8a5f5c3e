//! Metrics.

use actix_timers::metrics::{Kind, Metric};
use actix_timers_purgatory::metrics::CATALOGUE;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{Level, SECOND, World, never};

#[actix::test]
async fn watchers_requests_and_their_ends_are_published() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let world = metrics::with_local_recorder(&recorder, || {
        World::with(|timers| timers.name("main"), |purgatory| purgatory.name("events"))
    });
    let values = || {
        let page = page.render();
        let value = |metric: &Metric| {
            let name = metric.name.strip_prefix("actix_timers_").unwrap();
            support::metric(&page, name, "timer=\"main\",purgatory=\"events\"") as u64
        };
        CATALOGUE.iter().map(value).collect::<Vec<_>>()
    };
    assert_eq!(values(), [0, 0, 0, 0]);
    let level = Level::default();
    let wait = world.purgatory.wait([1, 2, 3], SECOND, level.reached(1));
    let expiring = world.purgatory.wait([1], SECOND, never);
    let cancelled = world.purgatory.wait([4], SECOND, never);
    let dropped = world.purgatory.wait([5, 6], SECOND, never);
    assert_eq!(values(), [7, 4, 0, 0]);
    drop(dropped);
    assert_eq!(values(), [5, 3, 0, 0]);
    assert_eq!(world.purgatory.cancel(&4), 1);
    assert_eq!(values(), [4, 2, 0, 0]);
    level.set(1);
    assert_eq!(world.purgatory.check(&3), 1);
    assert_eq!(values(), [1, 1, 1, 0]);
    let immediate = world.purgatory.wait([1], SECOND, level.reached(1));
    assert_eq!(values(), [1, 1, 2, 0]);
    world.clock.advance(SECOND).await;
    assert_eq!(values(), [0, 0, 2, 1]);
    drop((wait, expiring, cancelled, immediate));
    assert_eq!(values(), [0, 0, 2, 1]);
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in CATALOGUE {
        assert!(metric.name.starts_with("actix_timers_purgatory_"));
        assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
        assert!(actix_timers::metrics::CATALOGUE.iter().all(|other| other.name != metric.name));
    }
}

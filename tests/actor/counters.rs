//! The counters, and their exported metrics.

use std::time::Duration;

use actix_timers::metrics::{CATALOGUE, Kind, Metric};
use actix_timers::{
    CancelOutcome, Counters, GetSnapshot, Target, TimerActor, TimerActorBuilder, TimerContext, TimerOptions,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use support::{Note, Recluse, Way, World, metric, ms, paused, run};

const HOUR: u64 = 3_600_000;

/// Runs `test` with a recorder of its own.
fn recorded<R>(test: impl FnOnce(Metrics) -> R) -> R {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in actix_timers::metrics::histogram_buckets() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets).unwrap();
    }
    let recorder = builder.build_recorder();
    let scrape = Metrics(recorder.handle());
    metrics::with_local_recorder(&recorder, || test(scrape))
}

/// The recorder's handle, which renders a scrape.
#[derive(Clone)]
struct Metrics(PrometheusHandle);

struct Scrape(String);

impl Metrics {
    fn scrape(&self) -> Scrape {
        Scrape(self.0.render())
    }
}

impl Scrape {
    fn sum(&self, name: &str, label: &str) -> f64 {
        metric(&self.0, name, label)
    }

    fn total(&self, name: &str) -> u64 {
        let value = self.sum(name, "");
        assert_eq!(value.fract(), 0.0);
        value as u64
    }

    fn assert_all_in_the_catalogue(&self) {
        for line in self.0.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (name, labels) = line.split_once('{').unwrap();
            assert!(labels.starts_with("timer=\"T\""), "{line}");
            let is_known = |metric: &Metric| match metric.kind {
                Kind::Histogram(_) => name.strip_prefix(metric.name).is_some_and(|part| part.starts_with('_')),
                Kind::Counter | Kind::Gauge => name == metric.name,
            };
            assert!(CATALOGUE.iter().any(is_known), "{name}");
        }
    }

    /// Asserts that the exported metrics equal the counters.
    fn assert_shows(&self, counters: &Counters) {
        let mut shown = Counters::default();
        shown.accepted = self.total("scheduled_total");
        shown.delivered = self.total("delivered_total");
        shown.cancelled = self.total("cancelled_total");
        shown.recipient_stopped = self.sum("dead_letters_total", "recipient_stopped") as u64;
        shown.window_full = self.sum("dead_letters_total", "window_full") as u64;
        shown.source_panicked = self.sum("dead_letters_total", "source_panicked") as u64;
        shown.service_stopped = self.sum("dead_letters_total", "service_stopped") as u64;
        shown.rejected = self.sum("dead_letters_total", "rejected") as u64;
        shown.returned = self.total("returned_total");
        shown.pending = self.total("pending");
        shown.rescheduled = self.total("rescheduled_total");
        shown.abandoned = self.total("abandoned_total");
        shown.rejected_capacity = self.sum("rejected_total", "capacity") as u64;
        shown.rejected_closed = self.sum("rejected_total", "stopped") as u64;
        assert_eq!(shown, *counters);
    }
}

/// Runs `test` in virtual time with a timer actor named T and its metrics.
fn with_metrics(builder: impl Fn() -> TimerActorBuilder, test: impl AsyncFn(World, Metrics)) {
    recorded(|metrics| paused(async { test(World::paused(builder().name("T")), metrics).await }));
    recorded(|metrics| paused(async { test(World::manual(builder().name("T")), metrics).await }));
}

/// Every metric of the catalogue is exported as zero before anything happens, and no other metric is.
#[test]
fn all_metrics_are_there_from_the_first_scrape() {
    with_metrics(TimerActor::builder, async |_world, metrics| {
        let scrape = metrics.scrape();
        for metric in CATALOGUE {
            let name = metric.name.strip_prefix("actix_timers_").unwrap();
            match metric.kind {
                Kind::Counter => assert_eq!(scrape.total(name), 0, "{name}"),
                Kind::Gauge => _ = scrape.sum(name, ""),
                Kind::Histogram(_) => assert_eq!(scrape.total(&format!("{name}_count")), 0),
            }
        }
        scrape.assert_all_in_the_catalogue();
    });
}

/// Publications are at most a quarter of a second apart.
const SOON: u64 = 251;

/// The last event before an idle period is exported soon, also if nothing else ever happens.
#[test]
fn nothing_that_happened_stays_unpublished() {
    let builder = || TimerActor::builder().capacity(2);
    with_metrics(builder, async |world, metrics| {
        // The events of the start itself are published before.
        world.run_to(SOON).await;
        let quiet = async |what: &str| {
            world.run_to(world.now() + SOON).await;
            let counters = world.timers.snapshot().counters;
            println!("{what}: {counters:?}");
            metrics.scrape().assert_shows(&counters);
        };
        quiet("nothing").await;
        let (addr, _log) = world.probe();
        let (dead, _log) = world.probe();
        let gone: Target<Note<u64>> = Target::from(dead);

        let far = world.after(&addr, 100 * HOUR, 1);
        quiet("scheduled").await;
        let first = world.after(&addr, 99 * HOUR, 1);
        quiet("scheduled before all others").await;
        assert!(world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(1)).is_err());
        quiet("rejected, full").await;
        assert!(world.timers.reschedule_after(far, ms(50 * HOUR)).is_rescheduled());
        quiet("moved before all others").await;
        for id in [far, first] {
            assert!(world.timers.cancel(id).is_cancelled());
            quiet("cancelled").await;
        }
        let pass = async || world.run_to(world.now() + 500).await;
        for _ in 0..2 {
            world.schedule(Way::Context, &addr, ms(500), 1).await.unwrap();
            pass().await;
            quiet("delivered to itself").await;
            world.after(&addr, 500, 1);
            pass().await;
            quiet("delivered").await;
            world.after(&gone, 500, 1);
            pass().await;
            quiet("dead").await;
        }
        let (ending, _log) = world.probe();
        world.schedule(Way::Context, &ending, ms(HOUR), 1).await.unwrap();
        quiet("scheduled to itself").await;
        drop(ending);
        quiet("the actor has ended").await;
        let (lonely, _log) = world.probe();
        world.schedule(Way::Context, &lonely, ms(500), 1).await.unwrap();
        let _recluse = Recluse::make(lonely).await;
        pass().await;
        quiet("delivered without an address").await;
        world.after(&addr, HOUR, 1);
        quiet("scheduled again").await;
        assert_eq!(world.timers.drain().len(), 1);
        quiet("drained").await;
        assert!(world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(1), Note(1)).is_err());
        quiet("rejected, closed").await;
    });
}

#[test]
fn the_counters_show_timers_lost_at_shutdown() {
    recorded(|metrics| {
        let timers = paused(async {
            let world = World::paused(TimerActor::builder().name("T"));
            let (addr, _log) = world.probe();
            (0..7).for_each(|_| _ = world.after(&addr, HOUR, 1));
            run(&addr, |_, ctx| (0..3).for_each(|_| _ = ctx.schedule_after(ms(HOUR), Note(1)))).await;
            // One that starts after the timer actor, and ends after it.
            let (later, _log) = world.probe();
            run(&later, |_, ctx| _ = ctx.schedule_after(ms(HOUR), Note(1))).await;
            world.timers.clone()
        });
        let counters = timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.pending), (11, 0));
        assert_eq!((counters.service_stopped, counters.cancelled), (7, 4), "own timers end with their actor");
        metrics.scrape().assert_shows(&counters);
    });
}

/// The exact lateness of every delivery is recorded: by all ways, jumps included.
#[test]
fn the_lateness_of_every_delivery_is_recorded() {
    recorded(|metrics| {
        paused(async {
            let world = World::manual(TimerActor::builder().name("T").tick(ms(10)));
            let (addr, log) = world.probe();
            let (lonely, heard) = world.probe();
            run(&lonely, |_, ctx| _ = ctx.schedule_after(ms(100), Note(0))).await;
            let _recluse = Recluse::make(lonely).await;
            for (way, delay) in [(Way::Direct, 10), (Way::Message, 15), (Way::Context, 90), (Way::Context, 1000)] {
                world.schedule(way, &addr, ms(delay), delay).await.unwrap();
            }
            world.jump_to(130).await;
            assert_eq!((log.len(), heard.len()), (3, 1));
            let scrape = metrics.scrape();
            // Counted from the tick to which the deadline was rounded up: 10, 20, 90 and 100.
            let lag = (130 - 10) + (130 - 20) + (130 - 90) + (130 - 100);
            assert_eq!(scrape.total("delivery_lag_seconds_count"), 4);
            let seconds = scrape.sum("delivery_lag_seconds_sum", "");
            assert!((seconds - Duration::from_millis(lag).as_secs_f64()).abs() < 1e-9, "{seconds}");
            // The requested delays: these, and that of the recluse.
            assert_eq!(scrape.total("schedule_delay_seconds_count"), 5);
            assert!((scrape.sum("schedule_delay_seconds_sum", "") - 1.215).abs() < 1e-9);
            world.timers.schedule_after(&addr, Duration::MAX, Note(1));
            let sum = metrics.scrape().sum("schedule_delay_seconds_sum", "");
            assert!(sum < 1e8, "a timer for ever counts as one of a year: {sum}");
        });
    });
}

#[test]
fn the_gauges_show_the_wheel() {
    with_metrics(TimerActor::builder, async |world, metrics| {
        let (addr, _log) = world.probe();
        for delay in [1500, 1600, 1600, 70_000, 70_001, 20_000_000] {
            world.after(&addr, delay, delay);
        }
        for now in [100, 5000, 66_000, 80_000] {
            world.run_to(now).await;
            // An event causes a publication.
            let id = world.after(&addr, HOUR * 24, 0);
            assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
            // A quarter of a second after the last cascade everything is published.
            world.run_to(now + 600).await;
            let scrape = metrics.scrape();
            let inspection = world.timers.addr().send(GetSnapshot).await.unwrap();
            assert_eq!(scrape.total("wheel_depth") as usize, inspection.wheel_depth());
            assert_eq!(scrape.total("pending"), inspection.pending());
            assert_eq!(scrape.total("delay_queue_length") as usize, inspection.wheel.queued_buckets);
            for level in &inspection.wheel.levels {
                let label = format!("level=\"{}\"", level.stats.level);
                assert_eq!(scrape.sum("level_entries", &label) as usize, level.stats.entries);
                assert_eq!(scrape.sum("level_buckets_occupied", &label) as usize, level.stats.occupied);
                assert_eq!(scrape.sum("level_buckets", &label) as usize, level.stats.buckets);
                assert_eq!(scrape.sum("level_bucket_entries_max", &label) as usize, level.stats.fullest);
                let label = format!("from_level=\"{}\"", level.stats.level);
                assert_eq!(scrape.sum("cascades_total", &label) as u64, level.stats.cascades);
                assert_eq!(scrape.sum("cascaded_entries_total", &label) as u64, level.stats.cascaded);
            }
        }
    });
}

#[test]
fn wake_ups_are_counted() {
    recorded(|metrics| {
        paused(async {
            let world = World::manual(TimerActor::builder().name("T"));
            let (addr, _log) = world.probe();
            world.after(&addr, HOUR, 1);
            world.run_to(1000).await;
            let wakeups = |reason: &str| metrics.scrape().sum("wakeups_total", reason) as u64;
            let (alarms, calls) = (wakeups("alarm"), wakeups("call"));
            assert_eq!(alarms, world.clock().rung());
            assert!((1..=3).contains(&calls), "{calls}");
            world.run_to(HOUR).await;
            assert_eq!(wakeups("alarm"), world.clock().rung());
            assert!(wakeups("alarm") > alarms);
            assert_eq!(wakeups("call"), calls);
        });
    });
}

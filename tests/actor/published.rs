//! Events are published soon, also when nothing happens after them.

use std::time::Duration;

use actix::prelude::*;
use actix_timers::{TimerActor, TimerActorBuilder, TimerContext, TimerOptions, Timers};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

const HOUR: Duration = Duration::from_secs(3600);
/// Publications are at most a quarter of a second apart.
const SOON: Duration = Duration::from_millis(251);

#[derive(Message)]
#[rtype(result = "()")]
struct Ring;

#[derive(Message)]
#[rtype(result = "bool")]
struct Set(Duration);

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

struct Bell;

impl Actor for Bell {
    type Context = Context<Self>;

    /// Lives on without an address until it is stopped.
    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.spawn(actix::fut::wrap_future(std::future::pending()));
    }
}

impl Handler<Ring> for Bell {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Context<Self>) {}
}

impl Handler<Set> for Bell {
    type Result = bool;

    fn handle(&mut self, Set(delay): Set, ctx: &mut Context<Self>) -> bool {
        ctx.timer(TimerOptions::new()).try_schedule(delay, Ring).is_ok()
    }
}

impl Handler<Stop> for Bell {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Wait(Duration);

impl Handler<Wait> for Bell {
    type Result = ();

    fn handle(&mut self, Wait(time): Wait, ctx: &mut Context<Self>) {
        ctx.wait(actix::fut::wrap_future(tokio::time::sleep(time)));
    }
}

/// The recorder's handle, which renders scrapes.
struct Scrapes(PrometheusHandle);

impl Scrapes {
    fn sum(&self, name: &str) -> u64 {
        let (text, start) = (self.0.render(), format!("actix_timers_{name}{{"));
        let value = |line: &str| line.strip_prefix(&start)?.rsplit(' ').next()?.parse::<u64>().ok();
        text.lines().filter_map(value).sum()
    }

    /// Returns the metrics for scheduled, delivered, cancelled and pending timers.
    fn counters(&self) -> [u64; 4] {
        ["scheduled_total", "delivered_total", "cancelled_total", "pending"].map(|name| self.sum(name))
    }
}

fn with_metrics<F: Future<Output = ()>>(settings: TimerActorBuilder, test: impl FnOnce(Timers, Scrapes) -> F) {
    System::with_tokio_rt(support::paused_runtime).block_on(async {
        let recorder = PrometheusBuilder::new().build_recorder();
        let timers = metrics::with_local_recorder(&recorder, || settings.install()).unwrap();
        // The events of the start itself are published after this.
        tokio::time::sleep(SOON).await;
        test(timers, Scrapes(recorder.handle())).await;
    });
}

async fn soon() {
    tokio::time::sleep(SOON).await;
}

#[test]
fn a_timer_of_the_own_context() {
    with_metrics(TimerActor::builder(), |_, scrapes| async move {
        let bell = Bell.start();
        assert_eq!(bell.send(Set(HOUR)).await, Ok(true));
        soon().await;
        assert_eq!(scrapes.counters(), [1, 0, 0, 1], "scheduled");
        tokio::time::sleep(HOUR).await;
        soon().await;
        assert_eq!(scrapes.counters(), [1, 1, 0, 0], "delivered");
    });
}

#[test]
fn an_earlier_timer_than_all_others() {
    with_metrics(TimerActor::builder(), |timers, scrapes| async move {
        let bell = Bell.start();
        let later = timers.schedule_after(&bell, HOUR * 2, Ring);
        soon().await;
        timers.schedule_after(&bell, HOUR, Ring);
        soon().await;
        assert_eq!(scrapes.counters(), [2, 0, 0, 2], "scheduled");
        assert!(timers.reschedule_after(later, HOUR / 2).is_rescheduled());
        soon().await;
        assert_eq!(scrapes.sum("rescheduled_total"), 1);
    });
}

#[test]
fn a_timer_for_a_recipient_and_one_for_a_stopped_recipient() {
    with_metrics(TimerActor::builder(), |timers, scrapes| async move {
        let bell = Bell.start();
        timers.schedule_after(&bell, HOUR, Ring);
        timers.schedule_after(&bell, HOUR * 2, Ring);
        tokio::time::sleep(HOUR).await;
        soon().await;
        assert_eq!(scrapes.counters(), [2, 1, 0, 1], "delivered");
        bell.send(Stop).await.unwrap();
        tokio::time::sleep(HOUR).await;
        soon().await;
        assert_eq!(scrapes.counters(), [2, 1, 0, 0]);
        assert_eq!(scrapes.sum("dead_letters_total"), 1);
    });
}

#[test]
fn a_message_that_goes_through_the_mailbox() {
    with_metrics(TimerActor::builder(), |_, scrapes| async move {
        let bell = Bell.start();
        assert_eq!(bell.send(Set(HOUR)).await, Ok(true));
        drop(bell);
        tokio::time::sleep(HOUR).await;
        soon().await;
        assert_eq!(scrapes.counters(), [1, 1, 0, 0], "delivered");
    });
}

#[test]
fn the_timers_of_an_actor_that_stops() {
    with_metrics(TimerActor::builder(), |_, scrapes| async move {
        let bell = Bell.start();
        assert_eq!(bell.send(Set(HOUR)).await, Ok(true));
        soon().await;
        bell.send(Stop).await.unwrap();
        soon().await;
        assert_eq!(scrapes.counters(), [1, 0, 1, 0], "cancelled");
    });
}

#[test]
fn a_rejection() {
    with_metrics(TimerActor::builder().capacity(1), |_, scrapes| async move {
        let bell = Bell.start();
        assert_eq!(bell.send(Set(HOUR)).await, Ok(true));
        soon().await;
        assert_eq!(bell.send(Set(HOUR)).await, Ok(false));
        soon().await;
        assert_eq!(scrapes.sum("rejected_total"), 1);
        assert_eq!(scrapes.counters(), [1, 0, 0, 1]);
    });
}

#[test]
fn a_drain() {
    with_metrics(TimerActor::builder(), |timers, scrapes| async move {
        let bell = Bell.start();
        timers.schedule_after(&bell, HOUR, Ring);
        soon().await;
        assert_eq!(timers.drain().len(), 1);
        soon().await;
        assert_eq!(scrapes.counters(), [1, 0, 0, 0]);
        assert_eq!(scrapes.sum("returned_total"), 1);
    });
}

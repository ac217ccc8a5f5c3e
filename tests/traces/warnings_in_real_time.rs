//! The warnings for a subscriber of `tracing` while an arbiter is blocked: by the watchdog, which is a thread of its
//! own.
//!
//! Waits for events on the real clock. It has its own process: the watchdog sees only the subscriber of the whole
//! process.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{MessageSource, Repeat, TimerActor, TimerActorBuilder, TimerContext, Timers};
use support::{Note, PATIENCE, Probe, Run, ms};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context as Layering, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::Text;

/// All warnings of this process.
struct Witness(Mutex<Sender<String>>);

impl<S: Subscriber> Layer<S> for Witness {
    fn on_event(&self, event: &Event<'_>, _: Layering<'_, S>) {
        let _ = self.0.lock().unwrap().send(Text::of(event));
    }
}

/// Waits for a warning of the timer actor `timer` with this text, however slow the machine is.
fn wait_for_warning(seen: &Receiver<String>, timer: &str, text: &str) -> String {
    loop {
        let warning = seen.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{timer}: {text}"));
        if warning.contains(text) && warning.contains(&format!("timer=\"{timer}\"")) {
            return warning;
        }
    }
}

/// Starts a timer actor and a probe on one arbiter.
fn on_one_arbiter(arbiter: &Arbiter, settings: TimerActorBuilder) -> (Timers, Addr<Probe<u32>>) {
    let (sender, receiver) = channel();
    arbiter.spawn_fn(move || {
        let timers = settings.install().unwrap();
        let _ = sender.send((timers, support::probe().0));
    });
    receiver.recv().unwrap()
}

/// Blocks the thread of a probe until the sender is dropped; returns once it is blocked.
fn block(probe: &Addr<Probe<u32>>) -> Sender<()> {
    let (sender, blocked) = channel();
    let (is_blocked, known) = channel();
    probe.do_send(Run(Box::new(move |_, _| {
        let _ = is_blocked.send(());
        let _ = blocked.recv();
    })));
    known.recv().unwrap();
    sender
}

/// One after the other: the process has one subscriber.
#[test]
fn of_a_blocked_arbiter() {
    support::in_own_process!(of_a_blocked_arbiter, blocked_arbiter);
}

fn blocked_arbiter() {
    let (sender, seen) = channel();
    let layer = Witness(Mutex::new(sender)).with_filter(LevelFilter::WARN);
    tracing::subscriber::set_global_default(Registry::default().with(layer)).unwrap();
    support::in_real_time(async {
        of_a_driver_that_is_missing(&seen);
        of_an_actor_that_is_stuck(&seen);
    });
}

fn of_a_driver_that_is_missing(seen: &Receiver<String>) {
    let [blocked, other] = [(); 2].map(|()| Arbiter::new());
    let (timers, probe) = on_one_arbiter(&blocked, TimerActor::builder().name("missing"));
    let (_, recipient) = on_one_arbiter(&other, TimerActor::builder());
    let often = Repeat::every(ms(50));
    let id = timers.schedule_at_fixed_rate(&recipient, often, MessageSource::from_fn(|| Note(1)));
    let release = block(&probe);
    let warning = wait_for_warning(seen, "missing", "the driver is blocked, the watchdog runs instead");
    assert!(warning.contains("late_seconds="), "{warning}");
    drop(release);
    assert!(timers.cancel(id).is_cancelled());
    blocked.stop();
    other.stop();
}

fn of_an_actor_that_is_stuck(seen: &Receiver<String>) {
    let blocked = Arbiter::new();
    let settings = TimerActor::builder().name("stuck").stuck_after(Duration::from_millis(200));
    let (_timers, probe) = on_one_arbiter(&blocked, settings);
    let (sender, scheduled) = channel();
    probe.do_send(Run(Box::new(move |_, ctx| {
        let _ = sender.send(ctx.schedule_after(ms(50), Note(1)));
    })));
    let id = scheduled.recv().unwrap();
    let release = block(&probe);
    let warning = wait_for_warning(seen, "stuck", "a recipient does not take its messages");
    assert!(warning.contains(&format!("id={id} ")), "{warning}");
    drop(release);
    blocked.stop();
}

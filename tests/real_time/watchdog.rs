//! Timers are delivered when their arbiter is kept busy, with all guarantees intact.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::flood::{Due, Flood, Flooded, Metrics, ms, settled};
use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext, TimerState, Timers, get};

/// Ends each test, however slow the machine is.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_flooded_actor_gets_its_own_timers_in_order_and_not_early() {
    static AT_ONCE: AtomicBool = AtomicBool::new(false);
    // On a busy machine so much time may pass between two calls that the deadlines come in another order than the
    // delays.
    let tries = 0..100;
    let in_order = tries.into_iter().find_map(|_| {
        support::in_real_time(async {
            let actor = Flooded::new(|actor, ctx| {
                let began = Instant::now();
                for delay in [30, 10, 20] {
                    actor.after(ctx, delay);
                }
                AT_ONCE.store(began.elapsed() < ms(5), Ordering::SeqCst);
            });
            let delivered = actor.delivered();
            let flood = Flood::until(move || delivered.lock().unwrap().len() == 3);
            let log = actor.run(&flood).await;
            assert!(flood.ended_in_time(), "delivered while the flood was on");
            assert!(log.iter().all(|due| due.passed >= ms(due.delay)), "never early: {log:?}");
            assert!(settled(&Timers::current().unwrap()).await.balance());
            let delays = log.iter().map(|due| due.delay).collect::<Vec<_>>();
            AT_ONCE.load(Ordering::SeqCst).then_some(delays)
        })
    });
    assert_eq!(in_order.expect("the calls come one after the other at least once"), [10, 20, 30]);
}

#[test]
fn a_flood_that_ends_hands_over_to_the_inbox_in_order() {
    support::in_real_time(async {
        let actor = Flooded::new(|actor, ctx| (0..500).for_each(|index| actor.after(ctx, 10 + index / 50)));
        let delivered = actor.delivered();
        // Ends while hundreds are still due.
        let flood = Flood::until(move || delivered.lock().unwrap().len() >= 20);
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time());
        assert_eq!(log.len(), 500);
        assert!(log.is_sorted_by_key(|due| due.index), "order of scheduling, for these are by deadline: {log:?}");
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.delivered, counters.pending), (500, 0));
    });
}

/// Messages and closures of a flooded actor, which cannot be polled.
#[test]
fn a_flooded_actor_with_due_timers_runs_its_closures_in_order() {
    support::in_real_time(async {
        let actor = Flooded::new(|actor, ctx| {
            ctx.enable_due_timers();
            for _ in 0..100 {
                actor.run_after(ctx, 10);
                actor.after(ctx, 10);
                actor.run_after(ctx, 10);
            }
        });
        let delivered = actor.delivered();
        let flood = Flood::until(move || delivered.lock().unwrap().len() == 300);
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time(), "run while the flood was on");
        assert!(log.iter().all(|due| due.passed >= ms(due.delay)), "never early: {log:?}");
        assert!(log.is_sorted_by_key(|due| due.index), "{log:?}");
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.delivered, counters.pending), (300, 0));
    });
}

/// Without `enable_due_timers` a closure waits for the end of the flood; messages behind it do not.
#[test]
fn a_flooded_actor_runs_its_closures_after_the_flood() {
    support::in_real_time(async {
        let actor = Flooded::new(|actor, ctx| {
            for delay in [10, 20, 30] {
                actor.after(ctx, delay);
                actor.run_after(ctx, delay);
            }
        });
        let delivered = actor.delivered();
        let flood = Flood::until(move || delivered.lock().unwrap().len() == 3);
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time(), "the messages came in the flood");
        assert_eq!(log.iter().map(|due| due.index % 2).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1]);
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.delivered, counters.pending), (6, 0));
    });
}

/// The heartbeat of a session beside a message, both periodic.
#[test]
fn a_heartbeat_does_not_keep_the_messages_of_a_flooded_actor() {
    support::in_real_time(async {
        let actor = Flooded::new(|_, ctx| {
            ctx.run_every(ms(10), |actor: &mut Flooded, ctx| actor.handle(Due { delay: 0, index: 1 }, ctx));
            ctx.schedule_at_fixed_rate(ms(10), Due { delay: 10, index: 0 });
        });
        let delivered = actor.delivered();
        let flood = Flood::until(move || delivered.lock().unwrap().len() >= 5);
        let addr = actor.start();
        flood.on(&addr);
        flood.over().await;
        assert!(flood.ended_in_time(), "the repetitions came in the flood");
    });
}

struct Recipient(mpsc::Sender<Instant>);

impl Actor for Recipient {
    type Context = Context<Self>;
}

impl Handler<Due> for Recipient {
    type Result = ();

    fn handle(&mut self, _: Due, _: &mut Context<Self>) {
        let _ = self.0.send(Instant::now());
    }
}

/// Starts a recipient in an arbiter of its own.
fn recipient_elsewhere() -> (Arbiter, Addr<Recipient>, mpsc::Receiver<Instant>) {
    let (elsewhere, (sender, receiver)) = (Arbiter::new(), mpsc::channel());
    let recipient = Recipient::start_in_arbiter(&elsewhere.handle(), |_| Recipient(sender));
    (elsewhere, recipient, receiver)
}

#[test]
fn a_blocked_arbiter_does_not_delay_recipients_elsewhere() {
    support::in_real_time(async {
        let (elsewhere, recipient, receiver) = recipient_elsewhere();
        let timers = TimerActor::builder().start().unwrap();
        settled(&timers).await;
        for (delay, index) in [(20, 1), (10, 0), (30, 2)] {
            timers.schedule_after(&recipient, ms(delay), Due { delay, index });
        }
        let began = Instant::now();
        for delay in [10, 20, 30] {
            // This thread is blocked all the time: the driver cannot run.
            let arrived = receiver.recv_timeout(LIMIT).expect("delivered by another thread");
            assert!(arrived >= began + ms(delay) - ms(1), "scheduled up to a millisecond before");
        }
        let counters = settled(&timers).await;
        assert_eq!((counters.delivered, counters.pending), (3, 0));
        elsewhere.stop();
    });
}

#[test]
fn due_messages_that_are_not_under_way_can_be_cancelled_exactly() {
    support::in_real_time(async {
        let outcomes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcomes);
        let mut actor = Flooded::new(|actor, ctx| (0..10).for_each(|_| actor.after(ctx, 10)));
        // All ten are due in the same tick, and the first is handled while the flood is on.
        actor.on_due = Some(Box::new(move |actor, ctx| {
            for id in actor.ids.drain(..).skip(1) {
                assert_eq!(get(id).map(|info| info.state), Some(TimerState::Due));
                seen.lock().unwrap().push(ctx.cancel_timer(id));
            }
        }));
        let (delivered, began) = (actor.delivered(), Instant::now());
        let flood = Flood::until(move || delivered.lock().unwrap().len() == 1 && began.elapsed() > ms(150));
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time());
        assert_eq!(log.len(), 1, "a cancelled timer is never delivered");
        assert_eq!(*outcomes.lock().unwrap(), [CancelOutcome::Cancelled; 9]);
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.delivered, counters.cancelled, counters.pending), (1, 9, 0));
    });
}

/// A repeating timer of an actor whose mailbox never gets empty continues, and its handler can end it.
#[test]
fn a_flooded_actor_gets_its_repetitions_and_can_end_them() {
    support::in_real_time(async {
        let mut actor = Flooded::new(|actor, ctx| {
            let due = Due { delay: 10, index: 0 };
            actor.ids.push(ctx.schedule_at_fixed_rate(ms(10), due));
        });
        let delivered = actor.delivered();
        let seen = Arc::clone(&delivered);
        actor.on_due = Some(Box::new(move |actor, ctx| {
            if seen.lock().unwrap().len() == 5 {
                assert_eq!(ctx.cancel_timer(actor.ids[0]), CancelOutcome::Cancelled, "those that would follow");
            }
        }));
        let flood = Flood::until(move || delivered.lock().unwrap().len() == 5);
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time(), "the flood does not stop it");
        assert_eq!(log.len(), 5, "after the cancel none comes");
        for (number, delivered) in (1..).zip(&log) {
            assert!(delivered.passed >= ms(10) * number, "never early: {delivered:?}");
        }
        let counters = settled(&Timers::current().unwrap()).await;
        assert!(counters.balance());
        assert_eq!((counters.delivered, counters.pending), (5, 0));
    });
}

#[test]
fn under_a_paused_clock_nothing_happens() {
    for paused_from_the_start in [true, false] {
        let metrics = Metrics::default();
        let build = move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(paused_from_the_start).build().unwrap()
        };
        metrics.record(|| {
            System::with_tokio_rt(build).block_on(async {
                let (elsewhere, recipient, receiver) = recipient_elsewhere();
                let timers = TimerActor::builder().install().unwrap();
                if !paused_from_the_start {
                    settled(&Timers::current().unwrap()).await;
                    tokio::time::pause();
                }
                let actor = Flooded::new(|actor, ctx| actor.after(ctx, 10));
                let log = actor.delivered();
                let addr = actor.start();
                tokio::time::sleep(ms(1)).await;
                timers.schedule_after(&recipient, ms(10), Due { delay: 10, index: 0 });
                // Virtual time stands still, then is past the deadlines, but no thread may act before this one does.
                assert!(receiver.recv_timeout(ms(100)).is_err());
                let mut advance = std::pin::pin!(tokio::time::advance(ms(500)));
                let before = tokio::time::Instant::now();
                std::future::poll_fn(|cx| {
                    assert!(advance.as_mut().poll(cx).is_pending(), "it has yet to yield");
                    std::task::Poll::Ready(())
                })
                .await;
                assert_eq!(before.elapsed(), ms(500));
                assert!(receiver.recv_timeout(ms(100)).is_err());
                advance.await;
                tokio::time::sleep(ms(1)).await;
                assert!(receiver.recv_timeout(LIMIT).is_ok());
                assert_eq!(log.lock().unwrap().len(), 1);
                drop(addr);
                elsewhere.stop();
            });
        });
        assert_eq!(metrics.wakeups_of_the_watchdog(), 0.0, "paused from the start: {paused_from_the_start}");
    }
}

#[test]
fn it_is_counted_when_the_watchdog_helps_and_only_then() {
    let metrics = Metrics::default();
    let count = metrics.clone();
    metrics.record(|| {
        support::in_real_time(async move {
            let (elsewhere, recipient, receiver) = recipient_elsewhere();
            let timers = TimerActor::builder().start().unwrap();
            settled(&timers).await;
            assert_eq!(count.wakeups_of_the_watchdog(), 0.0);
            timers.schedule_after(&recipient, ms(10), Due { delay: 10, index: 0 });
            assert!(receiver.recv_timeout(LIMIT).is_ok());
            tokio::time::sleep(ms(5)).await;
            assert!(count.wakeups_of_the_watchdog() >= 1.0);
            elsewhere.stop();
        });
    });
}

#[test]
fn systems_may_come_and_go() {
    support::in_own_process!(systems_may_come_and_go, come_and_go);
}

/// In a process of its own: the hook counts panics, and the threads are counted.
fn come_and_go() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some("actix-timers-watch") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        report(info);
    }));
    for round in 0..60u64 {
        // Stops it at any stage: before anything is due, while the watchdog is at work, with messages in flight.
        let counters = support::in_real_time(async move {
            let (elsewhere, recipient, _receiver) = recipient_elsewhere();
            let timers = Timers::current().unwrap();
            for delay in 0..50 {
                timers.schedule_after(&recipient, ms(delay), Due { delay, index: 0 });
            }
            let actor = Flooded::new(|actor, ctx| (0..50).for_each(|delay| actor.after(ctx, delay)));
            let began = Instant::now();
            let flood = Flood::until(move || began.elapsed() > ms(round));
            let addr = actor.start();
            flood.on(&addr);
            tokio::task::yield_now().await;
            elsewhere.stop();
            timers
        })
        .snapshot()
        .counters;
        assert!(counters.balance() && counters.pending == 0, "{counters:?}");
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("actix-timers-wa")).count(), 1, "one thread for all");
    }
}

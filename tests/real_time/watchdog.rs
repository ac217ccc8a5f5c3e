//! Timers are delivered when their arbiter is kept busy, with all guarantees intact.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::flood::{Due, Flood, Flooded, Metrics, ms, settled};
use actix::prelude::*;
use actix_timers::{CancelOutcome, TimerActor, TimerContext, TimerState, Timers, cancel, get};

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
        while !flood.ended() {
            tokio::time::sleep(ms(1)).await;
        }
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

#[test]
fn a_blocked_arbiter_does_not_delay_recipients_elsewhere() {
    support::in_real_time(async {
        let elsewhere = Arbiter::new();
        let (sender, receiver) = mpsc::channel();
        let recipient = Recipient::start_in_arbiter(&elsewhere.handle(), |_| Recipient(sender));
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

#[test]
fn a_message_under_way_is_reported_so_and_delivered_once() {
    support::in_real_time(async {
        let outcome = Arc::new(std::sync::Mutex::new(None));
        let answer = Arc::clone(&outcome);
        let mut actor = Flooded::new(|actor, ctx| actor.after(ctx, 10));
        actor.on_flood = Some(Box::new(move |actor, ctx| {
            let mut answer = answer.lock().unwrap();
            if answer.is_none() && get(actor.ids[0]).is_some_and(|info| info.state == TimerState::InFlight) {
                *answer = Some(ctx.cancel_timer(actor.ids[0]));
            }
        }));
        // The flood is slow enough to see the message in flight only by chance; the count is exact in any case.
        let delivered = actor.delivered();
        let flood = Flood::until(move || delivered.lock().unwrap().len() == 1);
        let log = actor.run(&flood).await;
        assert!(flood.ended_in_time());
        assert_eq!(log.len(), 1);
        assert!(matches!(*outcome.lock().unwrap(), None | Some(CancelOutcome::InProgress)));
        assert_eq!(settled(&Timers::current().unwrap()).await.delivered, 1);
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
fn a_restarted_actor_never_gets_messages_that_were_under_way() {
    support::in_real_time(async {
        for _ in 0..20 {
            let mut actor = Flooded::new(|actor, ctx| actor.after(ctx, 5));
            let stopped = Arc::new(AtomicBool::new(false));
            let stop = Arc::clone(&stopped);
            let began = Instant::now();
            actor.on_flood = Some(Box::new(move |actor, ctx| {
                // Blocked until the message is in this mailbox, behind the one that is handled now.
                while !stop.load(Ordering::Relaxed) && began.elapsed() < LIMIT {
                    if get(actor.ids[0]).is_none() {
                        stop.store(true, Ordering::Relaxed);
                        ctx.stop();
                    }
                }
            }));
            let log = actor.delivered();
            let flood = Flood::until(move || stopped.load(Ordering::Relaxed));
            let addr = Supervisor::start(move |_| actor);
            flood.on(&addr);
            while !flood.ended() {
                tokio::time::sleep(ms(1)).await;
            }
            tokio::time::sleep(ms(2)).await;
            assert!(addr.connected(), "restarted");
            assert!(log.lock().unwrap().is_empty(), "the old incarnation's timer has ended with it");
        }
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.accepted, counters.delivered, counters.pending), (20, 20, 0));
    });
}

#[derive(Message)]
#[rtype(result = "()")]
struct Slow;

struct Responding(Arc<AtomicUsize>);

impl Actor for Responding {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        for _ in 0..3 {
            ctx.schedule_after(ms(5), Slow);
        }
        ctx.run_later(ms(1), |_, _| std::thread::sleep(ms(100)));
    }
}

impl Handler<Slow> for Responding {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Slow, _: &mut Self::Context) -> Self::Result {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[test]
fn an_answer_that_takes_long_does_not_hold_up_the_next_message() {
    support::in_real_time(async {
        let called = Arc::new(AtomicUsize::new(0));
        let addr = Responding(Arc::clone(&called)).start();
        let began = Instant::now();
        while called.load(Ordering::Relaxed) < 3 && began.elapsed() < LIMIT {
            tokio::time::sleep(ms(1)).await;
        }
        assert_eq!(called.load(Ordering::Relaxed), 3);
        let counters = settled(&Timers::current().unwrap()).await;
        assert_eq!((counters.delivered, counters.pending), (3, 0));
        drop(addr);
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
                let elsewhere = Arbiter::new();
                let (sender, receiver) = mpsc::channel();
                let recipient = Recipient::start_in_arbiter(&elsewhere.handle(), |_| Recipient(sender));
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
            let elsewhere = Arbiter::new();
            let (sender, receiver) = mpsc::channel();
            let recipient = Recipient::start_in_arbiter(&elsewhere.handle(), |_| Recipient(sender));
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
        support::in_real_time(async move {
            let elsewhere = Arbiter::new();
            let (sender, _receiver) = mpsc::channel();
            let recipient = Recipient::start_in_arbiter(&elsewhere.handle(), |_| Recipient(sender));
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
        });
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("actix-timers-wa")).count(), 1, "one thread for all");
    }
}

#[test]
fn the_counters_always_balance() {
    let timers = support::in_real_time(async {
        let timers = Timers::current().unwrap();
        let all = timers.clone();
        let mut actor = Flooded::new(|actor, ctx| (0..300).for_each(|index| actor.after(ctx, 5 + index % 90)));
        actor.on_due = Some(Box::new(move |actor, _| {
            let counters = all.snapshot().counters;
            assert!(counters.balance(), "{counters:?}");
            // The last ones mostly wait, the first ones are mostly delivered.
            for id in [actor.ids.pop(), actor.ids.first().copied()].into_iter().flatten() {
                cancel(id);
            }
        }));
        let delivered = actor.delivered();
        let flood = Flood::until(move || delivered.lock().unwrap().len() >= 30);
        let addr = actor.start();
        flood.on(&addr);
        while !flood.ended() {
            tokio::time::sleep(ms(1)).await;
        }
        assert!(flood.ended_in_time());
        // Another one, still flooded when everything stops.
        let actor = Flooded::new(|actor, ctx| (0..300).for_each(|index| actor.after(ctx, 5 + index % 60)));
        let began = Instant::now();
        let flood = Flood::until(move || began.elapsed() > ms(60));
        let addr = actor.start();
        flood.on(&addr);
        tokio::task::yield_now().await;
        timers
    });
    let counters = timers.snapshot().counters;
    assert!(counters.balance(), "{counters:?}");
    assert_eq!(counters.pending, 0, "{counters:?}");
}

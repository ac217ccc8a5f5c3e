//! Unexpected behaviour of actix, threads and users: stale handles, actors without addresses, user code that calls
//! back, threads without a system or with two of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Alarm, Clock, ManualClock, Target, TimerActor, TimerContext, TimerId, Timers, cancel};
use support::{PATIENCE, ms, paused};

#[derive(Message)]
#[rtype(result = "()")]
struct Note(u32);

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

type Code = Box<dyn FnOnce(&mut Probe, &mut Context<Probe>) + Send>;

#[derive(Message)]
#[rtype(result = "()")]
struct Run(Code);

/// The received messages: name of the actor, its incarnation, the number.
type Log = Arc<Mutex<Vec<(&'static str, u32, u32)>>>;

struct Probe {
    name: &'static str,
    incarnation: u32,
    log: Log,
    handle: Option<SpawnHandle>,
    at_start: fn(&mut Probe, &mut Context<Probe>),
    at_restart: fn(&mut Context<Probe>),
}

impl Probe {
    fn new(name: &'static str, log: &Log) -> Self {
        let log = Arc::clone(log);
        Self { name, incarnation: 1, log, handle: None, at_start: |_, _| (), at_restart: |_| () }
    }
}

impl Actor for Probe {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        (self.at_start)(self, ctx);
    }
}

impl Supervised for Probe {
    fn restarting(&mut self, ctx: &mut Self::Context) {
        self.incarnation += 1;
        (self.at_restart)(ctx);
    }
}

impl Handler<Note> for Probe {
    type Result = ();

    fn handle(&mut self, Note(number): Note, _: &mut Self::Context) {
        self.log.lock().unwrap().push((self.name, self.incarnation, number));
    }
}

impl Handler<Stop> for Probe {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

impl Handler<Run> for Probe {
    type Result = ();

    fn handle(&mut self, Run(code): Run, ctx: &mut Self::Context) {
        code(self, ctx);
    }
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn note_in(ctx: &mut Context<Probe>, delay: Duration, number: u32) {
    ctx.schedule_after(delay, Note(number));
}

/// After a restart actix counts spawn handles from one again: an old handle may name the future that is now the inbox.
#[test]
fn a_stale_spawn_handle_takes_no_timers_with_it() {
    paused(async {
        let log = Log::default();
        let mut probe = Probe::new("it", &log);
        probe.at_start = |probe, ctx| {
            let first = ctx.run_later(ms(60_000), |_, _| ());
            probe.handle.get_or_insert(first);
        };
        probe.at_restart = |ctx| note_in(ctx, ms(10), 7);
        let addr = Supervisor::start(|_| probe);
        addr.send(Stop).await.unwrap();
        tokio::time::sleep(ms(2)).await;
        let stale: Code = Box::new(|probe, ctx| {
            // The new incarnation's inbox has the number of the old one's future, and its spare the next one.
            let handle = probe.handle.take().unwrap();
            ctx.cancel_future(handle);
        });
        addr.send(Run(stale)).await.unwrap();
        tokio::time::sleep(ms(50)).await;
        assert_eq!(*log.lock().unwrap(), [("it", 2, 7)]);
        addr.send(Run(Box::new(|_, ctx| note_in(ctx, ms(10), 8)))).await.unwrap();
        tokio::time::sleep(ms(50)).await;
        assert_eq!(log.lock().unwrap().last(), Some(&("it", 2, 8)));
    });
}

/// An actor without addresses, kept alive by its own future, stops when the future ends, as a websocket session does.
#[test]
fn the_timers_of_an_actor_without_addresses_end_soon_after_it() {
    paused(async {
        let log = Log::default();
        let timers = Timers::current().unwrap();
        let mut probe = Probe::new("it", &log);
        probe.at_start = |_, ctx| {
            note_in(ctx, ms(3_600_000), 1);
            ctx.spawn(actix::fut::wrap_future(tokio::time::sleep(ms(1000))));
        };
        let weak = probe.start().downgrade();
        tokio::time::sleep(ms(500)).await;
        assert_eq!((weak.upgrade().is_some(), timers.snapshot().pending()), (true, 1));
        tokio::time::sleep(ms(1000)).await;
        assert!(weak.upgrade().is_none());
        tokio::time::sleep(ms(10_000)).await;
        let inspection = timers.snapshot();
        assert_eq!((inspection.pending(), inspection.owners, inspection.counters.cancelled), (0, 0, 1));
    });
}

/// Ended timers are freed under load, however many timers are due.
#[test]
fn timers_of_a_stopped_actor_are_freed_under_load() {
    paused(async {
        let log = Log::default();
        let timers = TimerActor::builder().expiry_budget(10).install().unwrap();
        let (busy, ends) = (Probe::new("busy", &log).start(), Probe::new("ends", &log).start());
        let hundred: Code = Box::new(|_, ctx| (0..100).for_each(|number| note_in(ctx, ms(60_000), number)));
        ends.send(Run(hundred)).await.unwrap();
        for _ in 0..50_000 {
            timers.schedule_after(&busy, ms(0), Note(0));
        }
        tokio::time::advance(ms(5)).await;
        ends.do_send(Stop);
        settle().await;
        let counters = timers.snapshot().counters;
        assert!(counters.cancelled > 0 && counters.pending > 1000, "{counters:?}");
    });
}

/// Returns the number of the next timer actor of this process.
fn next_number() -> u32 {
    let name = || support::in_real_time(async { TimerActor::builder().start().unwrap().name().to_owned() });
    let name = std::thread::spawn(name).join().unwrap();
    name.trim_start_matches("timers-").parse().unwrap()
}

#[test]
fn asking_for_timers_without_a_system_builds_nothing() {
    let before = next_number();
    std::thread::spawn(|| (0..1000).for_each(|_| assert!(Timers::current().is_none()))).join().unwrap();
    assert!(next_number() - before < 500);
}

#[test]
fn after_its_system_has_ended_a_thread_has_no_timers() {
    let names = std::thread::spawn(|| {
        support::in_real_time(async {});
        (0..100).filter_map(|_| Timers::current()).map(|timers| timers.name().to_owned()).collect::<HashSet<_>>()
    });
    assert_eq!(names.join().unwrap(), HashSet::new());
}

/// A clock whose readings call the timers, as a user's clock behind a lock may do.
struct Nosy {
    clock: ManualClock,
    calls: Arc<AtomicBool>,
    cancelled: Arc<AtomicU64>,
}

impl Nosy {
    fn call(&self) {
        if self.calls.load(Ordering::SeqCst) {
            self.cancelled.fetch_add(u64::from(!cancel(TimerId::new()).is_cancelled()), Ordering::SeqCst);
        }
    }
}

impl Clock for Nosy {
    fn now(&self) -> Duration {
        self.call();
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.call();
        self.clock.wall()
    }

    fn since(&self, instant: tokio::time::Instant) -> Duration {
        self.clock.since(instant)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        self.clock.alarm(time)
    }
}

/// Runs `test` on its own thread and fails if it deadlocks.
fn must_not_lock_up(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    is_done.recv_timeout(PATIENCE).expect("it deadlocked or failed");
}

#[test]
fn a_clock_may_call_the_timers() {
    must_not_lock_up(|| {
        support::in_real_time(async {
            let (clock, calls, cancelled) = (ManualClock::new(), Arc::default(), Arc::default());
            let nosy = Nosy { clock: clock.clone(), calls: Arc::clone(&calls), cancelled: Arc::clone(&cancelled) };
            let timers = TimerActor::builder().clock(nosy).start().unwrap();
            let log = Log::default();
            let addr = Probe::new("it", &log).start();
            timers.schedule_at(&addr, SystemTime::UNIX_EPOCH + ms(10), Note(1));
            settle().await;
            calls.store(true, Ordering::SeqCst);
            clock.jump(ms(20));
            settle().await;
            timers.snapshot();
            timers.drain();
            calls.store(false, Ordering::SeqCst);
            assert_eq!(*log.lock().unwrap(), [("it", 1, 1)]);
            assert!(cancelled.load(Ordering::SeqCst) > 3, "the clock was read, and called");
        });
    });
}

/// A waker that calls the timers.
struct Caller;

impl std::task::Wake for Caller {
    fn wake(self: Arc<Self>) {
        cancel(TimerId::new());
    }
}

#[test]
fn the_waker_of_an_actor_may_call_the_timers() {
    must_not_lock_up(|| {
        support::in_real_time(async {
            let timers = TimerActor::builder().start().unwrap();
            let context = Context::new();
            let addr = context.address();
            let mut actor = Box::pin(context.into_future(Probe::new("it", &Log::default())));
            let waker = std::task::Waker::from(Arc::new(Caller));
            assert!(actor.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
            // The drain drops its last address, and that wakes it.
            timers.schedule_after(Target::from(&addr).strong(), ms(1000), Note(1));
            drop(addr);
            assert_eq!(timers.drain().len(), 1);
        });
    });
}

#[test]
fn a_manual_clock_at_the_end_of_time_delivers_the_rest() {
    support::in_real_time(async {
        let clock = ManualClock::new();
        let timers = TimerActor::builder().clock(clock.clone()).start().unwrap();
        let log = Log::default();
        let addr = Probe::new("it", &log).start();
        timers.schedule_at(&addr, SystemTime::UNIX_EPOCH + ms(10), Note(1));
        settle().await;
        clock.jump(Duration::MAX);
        settle().await;
        assert_eq!(*log.lock().unwrap(), [("it", 1, 1)]);
        assert!(clock.wall() > SystemTime::now(), "the wall clock went along");
        assert_eq!(timers.snapshot().pending(), 0);
    });
}

/// Two sets of local tasks on one thread: the timer actor of the first ends, and an older actor lives on in the second,
/// where another timer actor starts. Owners of the two have the same numbers.
#[test]
fn owners_of_two_timer_actors_on_one_thread_are_told_apart() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = Log::default();
    let (first, second) = (tokio::task::LocalSet::new(), tokio::task::LocalSet::new());
    let _kept = first.block_on(&runtime, async {
        let addr = Probe::new("first", &log).start();
        addr.send(Run(Box::new(|_, ctx| note_in(ctx, ms(5), 0)))).await.unwrap();
        addr
    });
    let early = {
        let (_runtime, _set) = (runtime.enter(), second.enter());
        for name in ["one", "two"] {
            let mut probe = Probe::new(name, &log);
            probe.at_start = |_, ctx| note_in(ctx, ms(10), 1);
            let addr = probe.start();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(ms(200)).await;
                drop(addr);
            });
        }
        let log = Arc::clone(&log);
        Probe::create(move |ctx| {
            note_in(ctx, ms(10), 2);
            Probe::new("early", &log)
        })
    };
    drop(first);
    second.block_on(&runtime, async {
        tokio::time::sleep(ms(5)).await;
        early.send(Run(Box::new(|_, ctx| note_in(ctx, ms(20), 42)))).await.unwrap();
        let came = || log.lock().unwrap().iter().any(|(_, _, number)| *number == 42);
        let began = std::time::Instant::now();
        while !came() && began.elapsed() < PATIENCE {
            tokio::time::sleep(ms(5)).await;
        }
    });
    let got: Vec<_> = log.lock().unwrap().iter().copied().filter(|(_, _, number)| *number == 42).collect();
    assert_eq!(got, [("early", 1, 42)]);
}

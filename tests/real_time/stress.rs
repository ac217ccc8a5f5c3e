//! Several threads at once: schedule, cancel, move, query and drain, while timers fire on other threads, to recipients
//! and through an actor's own context. However the threads interleave, each timer ends exactly once, and the counters
//! show it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, RescheduleOutcome, Returned, ScheduleAfter, ScheduleError, Target, TimerActor, TimerContext,
    TimerId, TimerOptions, Timers,
};
use support::{PATIENCE, Random, ms};

/// The test's view of one timer.
#[derive(Default)]
struct Fate {
    id: OnceLock<TimerId>,
    accepted: AtomicBool,
    cancelled: AtomicU8,
    handled: AtomicU8,
    returned: AtomicU8,
    /// A message to itself: its cancel is exact until the handler runs.
    own: AtomicBool,
    said_delivered: AtomicBool,
}

/// All timers of a run.
struct Fates {
    all: Box<[Fate]>,
    next: AtomicUsize,
}

impl Fates {
    fn of(n: usize) -> Arc<Self> {
        Arc::new(Self { all: (0..n).map(|_| Fate::default()).collect(), next: AtomicUsize::new(0) })
    }

    /// Returns the next number, until there is none.
    fn claim(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        (number < self.all.len()).then_some(number)
    }

    /// Returns a timer that may have been scheduled, preferably a recent one.
    fn pick(&self, random: &mut Random) -> Option<&Fate> {
        let made = self.next.load(Ordering::SeqCst).min(self.all.len());
        let back = usize::try_from(random.spread(12)).unwrap();
        self.all.get(made.checked_sub(back + 1)?)
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Numbered(usize);

/// Makes a worker schedule this many messages to itself.
#[derive(Message)]
#[rtype(result = "()")]
struct Burst(u64);

struct Worker {
    fates: Arc<Fates>,
    random: Random,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Numbered> for Worker {
    type Result = ();

    fn handle(&mut self, Numbered(number): Numbered, ctx: &mut Self::Context) {
        let fate = &self.fates.all[number];
        assert_eq!(fate.cancelled.load(Ordering::SeqCst), 0, "{number} was cancelled, and is handled");
        fate.handled.fetch_add(1, Ordering::SeqCst);
        if let Some(fate) = self.fates.pick(&mut self.random)
            && let Some(id) = fate.id.get()
        {
            note_cancel(fate, ctx.cancel_timer(*id));
        }
    }
}

impl Handler<Burst> for Worker {
    type Result = ();

    fn handle(&mut self, Burst(size): Burst, ctx: &mut Self::Context) {
        for _ in 0..size {
            let Some(number) = self.fates.claim() else { return };
            let fate = &self.fates.all[number];
            fate.own.store(true, Ordering::SeqCst);
            if let Ok(id) = ctx.timer(TimerOptions::new()).try_schedule(delay(&mut self.random), Numbered(number)) {
                fate.accepted.store(true, Ordering::SeqCst);
                fate.id.set(id).unwrap();
            }
        }
    }
}

/// Mostly a few milliseconds, sometimes none, sometimes an hour.
fn delay(random: &mut Random) -> Duration {
    match random.below(10) {
        0 => Duration::ZERO,
        1 => ms(3_600_000),
        _ => Duration::from_micros(random.below(5000)),
    }
}

fn note_cancel(fate: &Fate, outcome: CancelOutcome) {
    match outcome {
        CancelOutcome::Cancelled => {
            assert_eq!(fate.cancelled.fetch_add(1, Ordering::SeqCst), 0, "cancelled twice");
            assert_eq!(fate.handled.load(Ordering::SeqCst), 0, "cancelled, and was handled");
        }
        CancelOutcome::AlreadyDelivered => {
            fate.said_delivered.store(true, Ordering::SeqCst);
            assert_eq!(fate.cancelled.load(Ordering::SeqCst), 0, "delivered, and was cancelled");
        }
        CancelOutcome::InProgress => assert_eq!(fate.cancelled.load(Ordering::SeqCst), 0),
        CancelOutcome::NotFound => (),
    }
}

/// Runs random operations until all timers are scheduled.
fn rampage(fates: &Fates, timers: &Timers, recipients: &[Addr<Worker>], owners: &[Addr<Worker>], seed: u64) {
    let mut random = Random::new(seed);
    let targets: Vec<Target<Numbered>> = recipients.iter().map(Target::from).collect();
    loop {
        match random.below(8) {
            0..3 => {
                let Some(number) = fates.claim() else { return };
                let fate = &fates.all[number];
                let target = &targets[random.index_of(&targets)];
                match timers.timer(target, TimerOptions::new()).try_schedule(delay(&mut random), Numbered(number)) {
                    Ok(id) => {
                        fate.accepted.store(true, Ordering::SeqCst);
                        fate.id.set(id).unwrap();
                    }
                    Err(ScheduleError::Stopped { message }) => assert_eq!(message.0, number),
                    Err(other) => panic!("{other}"),
                }
            }
            3 => {
                let Some(number) = fates.claim() else { return };
                let target = &targets[random.index_of(&targets)];
                let request = ScheduleAfter::new(target, delay(&mut random), Numbered(number));
                // The id is known before the request is handled, and others cancel it.
                fates.all[number].id.set(request.id()).unwrap();
                timers.addr().do_send(request);
            }
            4 => owners[random.index_of(owners)].do_send(Burst(random.below(8))),
            5 => {
                if let Some(fate) = fates.pick(&mut random)
                    && let Some(id) = fate.id.get()
                {
                    note_cancel(
                        fate,
                        if random.below(2) == 0 { timers.cancel(*id) } else { actix_timers::cancel(*id) },
                    );
                }
            }
            6 => {
                if let Some(fate) = fates.pick(&mut random)
                    && let Some(id) = fate.id.get()
                    && timers.reschedule_after(*id, delay(&mut random)) == RescheduleOutcome::AlreadyDelivered
                {
                    fate.said_delivered.store(true, Ordering::SeqCst);
                }
            }
            _ => {
                let counters = timers.snapshot().counters;
                assert!(counters.balance(), "{counters:?}");
                if let Some(id) = fates.pick(&mut random).and_then(|fate| fate.id.get()) {
                    timers.get(*id);
                }
            }
        }
    }
}

/// Runs four threads against a service. It is drained at the end, in the middle or after the last schedule.
fn run_with(n: usize, drain_at: usize) {
    support::in_real_time(async {
        let fates = Fates::of(n);
        let arbiters = [Arbiter::new(), Arbiter::new()];
        let worker = |arbiter: &Arbiter, seed: u64| {
            let fates = Arc::clone(&fates);
            Worker::start_in_arbiter(&arbiter.handle(), move |_| Worker { fates, random: Random::new(seed) })
        };
        let recipients = [worker(&arbiters[0], 1), worker(&arbiters[1], 2), worker(&arbiters[1], 3)];
        let owners = [worker(&arbiters[0], 4), worker(&arbiters[0], 5)];
        // The timer actor of the first arbiter: for the own timers of its actors, and for all others.
        let (tell, told) = tokio::sync::oneshot::channel();
        arbiters[0].spawn_fn(move || assert!(tell.send(TimerActor::builder().install().unwrap()).is_ok()));
        let timers = told.await.unwrap();

        let returned: Vec<Returned> = std::thread::scope(|scope| {
            for seed in 10..14 {
                let (fates, timers, recipients, owners) = (&fates, timers.clone(), recipients.clone(), owners.clone());
                scope.spawn(move || rampage(fates, &timers, &recipients, &owners, seed));
            }
            let begin = Instant::now();
            while fates.next.load(Ordering::SeqCst) < drain_at || timers.snapshot().counters.delivered == 0 {
                assert!(begin.elapsed() < PATIENCE);
                // Leaves the CPU to the awaited threads.
                std::thread::sleep(Duration::from_micros(100));
            }
            timers.drain()
        });
        let counters = || {
            let counters = timers.snapshot().counters;
            assert!(counters.balance(), "{counters:?}");
            counters
        };
        assert!(timers.drain().is_empty());
        // All requests and messages still on their way arrive before the arbiters stop.
        let begin = Instant::now();
        while counters().pending > 0 {
            assert!(begin.elapsed() < PATIENCE);
            // Leaves the CPU to the arbiters.
            std::thread::sleep(ms(1));
        }
        for addr in recipients.iter().chain(&owners) {
            addr.send(Burst(0)).await.unwrap();
        }
        timers.addr().send(actix_timers::GetSnapshot).await.unwrap();
        for addr in recipients.iter().chain(&owners) {
            addr.send(Burst(0)).await.unwrap();
        }
        let counters = counters();
        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().unwrap();
        }

        let returned: Vec<Numbered> = returned.into_iter().map(|timer| timer.into_message().unwrap()).collect();
        for Numbered(number) in &returned {
            fates.all[*number].returned.fetch_add(1, Ordering::SeqCst);
        }
        let (mut handled, mut cancelled) = (0, 0);
        for (number, fate) in fates.all.iter().enumerate() {
            let count = |count: &AtomicU8| u64::from(count.load(Ordering::SeqCst));
            let ends = [count(&fate.handled), count(&fate.cancelled), count(&fate.returned)];
            let sum: u64 = ends.iter().sum();
            assert!(sum <= 1, "{number} has ended {ends:?} times");
            if fate.accepted.load(Ordering::SeqCst) {
                assert_eq!(sum, 1, "{number} was accepted and is lost; own: {:?}", fate.own);
            }
            if fate.said_delivered.load(Ordering::SeqCst) {
                assert_eq!(ends, [1, 0, 0], "{number} was reported as delivered");
            }
            handled += ends[0];
            cancelled += ends[1];
        }
        assert_eq!((counters.delivered, counters.cancelled), (handled, cancelled));
        // Requests that were handled after the drain, and whose answers nobody awaits, are lost as rejected.
        assert_eq!((counters.returned, counters.dead_lettered()), (returned.len() as u64, counters.rejected));
        assert!(handled > 0);
    });
}

#[test]
fn racing_threads_leave_each_timer_one_end() {
    run_with(20_000, 20_000);
}

#[test]
fn a_drain_in_the_middle_of_it_all_leaves_each_timer_one_end() {
    for round in 1..=8 {
        run_with(4000, 400 * round);
    }
}

//! Concurrent producers: the throughput of two compared with one, into one timer actor and into one each.
//!
//! Threads schedule through [`Timers`] for an actor, arbiters through the contexts of their own actors. Each timer
//! actor is given N timers: two threads that share one schedule half of them each.
//!
//! Each timer actor has held as many before: concurrent requests for memory slow each other down in the kernel, which
//! is not measured here.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use actix::{Actor, Arbiter, System};
use actix_timers::{CancelOutcome, Target, TimerActor, TimerContext, TimerId, Timers, cancel};

use crate::arguments::Arguments;
use crate::child::{Figures, Load, Subject, Workload};
use crate::senders::messages::{Due, Planner, Receiver};
use bench::process;
use bench::random::Random;
use bench::rows::{Row, Rows};
use bench::times::each;

const ONE_THREAD: &str = "actix-timers, 1 thread";
const TWO_THREADS_SHARING: &str = "actix-timers, 2 threads into 1";
const TWO_THREADS: &str = "actix-timers, 2 threads into 2";
const ONE_ARBITER: &str = "actix-timers, 1 arbiter";
const TWO_ARBITERS: &str = "actix-timers, 2 arbiters into 2";

pub(crate) static WORKLOAD: Workload = Workload {
    name: "producers",
    units: &UNITS,
    subjects: &[
        Subject::new(ONE_THREAD, usize::MAX, |load| measured(|| threads(&[timer_actor()], 1, load.size))),
        Subject::new(TWO_THREADS_SHARING, usize::MAX, |load| measured(|| threads(&[timer_actor()], 2, load.size))),
        Subject::new(TWO_THREADS, usize::MAX, |load| {
            measured(|| threads(&[timer_actor(), timer_actor()], 1, load.size))
        }),
        Subject::new(ONE_ARBITER, usize::MAX, |load| measured(|| arbiters(1, load.size))),
        Subject::new(TWO_ARBITERS, usize::MAX, |load| measured(|| arbiters(2, load.size))),
    ],
};
/// Two producers, and the single one that they are compared with.
const PAIRS: [(&str, &str); 3] =
    [(TWO_THREADS_SHARING, ONE_THREAD), (TWO_THREADS, ONE_THREAD), (TWO_ARBITERS, ONE_ARBITER)];

const UNITS: [&str; 3] = ["ns per schedule", "CPU ns per schedule", "million schedules/s"];
const THROUGHPUT: &str = UNITS[2];
const TWO_OVER_ONE: &str = "times as many as one";

pub(crate) fn run(arguments: &Arguments, rows: &mut Rows) {
    for &size in &arguments.sizes {
        let measured = WORKLOAD.measure(arguments, Load { size, seconds: 0 });
        let compared: Vec<Row> = PAIRS.iter().filter_map(|(two, one)| compare(&measured, two, one)).collect();
        rows.extend(measured);
        rows.extend(compared);
    }
}

/// Returns the throughput of two over that of one, round by round.
fn compare(measured: &[Row], two: &str, one: &str) -> Option<Row> {
    let throughput = |subject| measured.iter().find(|row| row.subject == subject && row.unit == THROUGHPUT);
    let (two, one) = (throughput(two)?, throughput(one)?);
    let samples = two.samples.iter().zip(&one.samples).map(|(two, one)| two / one).collect();
    Some(Row { unit: TWO_OVER_ONE.to_owned(), samples, ..two.clone() })
}

fn measured(produce: impl FnOnce() -> Vec<Span>) -> Figures {
    let _system = System::new();
    let spans = produce();
    let began = spans.iter().map(|span| span.began).min().expect("a producer");
    let ended = spans.iter().map(|span| span.ended).max().expect("a producer");
    let scheduled: usize = spans.iter().map(|span| span.scheduled).sum();
    let nanoseconds = each(ended - began, scheduled);
    let cpu: Duration = spans.iter().map(|span| span.cpu).sum();
    vec![(UNITS[0], nanoseconds), (UNITS[1], each(cpu, scheduled)), (THROUGHPUT, 1e3 / nanoseconds)]
}

/// The work of one producer.
struct Span {
    began: Instant,
    ended: Instant,
    /// CPU time of its thread.
    cpu: Duration,
    scheduled: usize,
}

/// Schedules `timers` and cancels them; waits until the others have done so; then schedules as many again.
fn produce(all_ready: &Barrier, seed: u64, timers: usize, mut schedule: impl FnMut(Duration, Due) -> TimerId) -> Span {
    let mut random = Random::new(seed);
    let unused = Instant::now();
    let mut next = |number: usize| schedule(random.delay(), Due::new(unused, number as u32));
    let ids: Vec<TimerId> = (0..timers).map(&mut next).collect();
    ids.into_iter().for_each(|id| assert_eq!(cancel(id), CancelOutcome::Cancelled));
    all_ready.wait();
    let (began, cpu) = (Instant::now(), process::thread_cpu());
    for number in 0..timers {
        next(number);
    }
    Span { began, ended: Instant::now(), cpu: process::thread_cpu() - cpu, scheduled: timers }
}

/// Starts a timer actor on its own arbiter.
fn timer_actor() -> Timers {
    let arbiter = Arbiter::new();
    TimerActor::builder().start_on(&arbiter.handle()).expect("a timer actor")
}

/// Runs `for_each` threads for each of these timer actors.
fn threads(timer_actors: &[Timers], for_each: usize, size: usize) -> Vec<Span> {
    let all_ready = Barrier::new(timer_actors.len() * for_each);
    let receiver = Receiver::start_in_arbiter(&Arbiter::new().handle(), |_| Receiver::new(None));
    let spans = thread::scope(|scope| {
        let producer = |(number, timers): (usize, &Timers)| {
            let (timers, target, all_ready) = (timers.clone(), Target::from(&receiver), &all_ready);
            let schedule = move |delay, due| timers.schedule_after(target.clone(), delay, due);
            scope.spawn(move || produce(all_ready, number as u64 + 1, size / for_each, schedule))
        };
        let repeated = timer_actors.iter().flat_map(|timers| std::iter::repeat_n(timers, for_each));
        let producers: Vec<_> = repeated.enumerate().map(producer).collect();
        producers.into_iter().map(|producer| producer.join().expect("a producer")).collect()
    });
    for timers in timer_actors {
        assert_eq!(timers.snapshot().pending(), (size / for_each * for_each) as u64);
    }
    spans
}

/// Runs `count` arbiters, each with an actor that schedules through its context.
fn arbiters(count: usize, size: usize) -> Vec<Span> {
    let all_ready = Arc::new(Barrier::new(count));
    let (done, all_done) = mpsc::channel();
    for number in 0..count {
        let (all_ready, done) = (Arc::clone(&all_ready), done.clone());
        let producer = async move || {
            let planner = Planner::start(None);
            let timers = TimerActor::builder().install().expect("a timer actor");
            let scheduling = planner.run(move |ctx| {
                let schedule = |delay, due| ctx.schedule_after(delay, due);
                produce(&all_ready, number as u64 + 1, size, schedule)
            });
            let span = scheduling.await;
            assert_eq!(timers.snapshot().pending(), size as u64);
            done.send(span).expect("the main thread waits");
        };
        Arbiter::new().spawn_fn(move || drop(actix::spawn(producer())));
    }
    all_done.iter().take(count).collect()
}

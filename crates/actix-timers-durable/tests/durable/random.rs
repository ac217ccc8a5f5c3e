//! Random requests, restarts, crashes, parked routes and routes without recipients through the public API, against a
//! model of the guide.
//!
//! In virtual time, with handlers that answer at once, nothing is left to chance: the model predicts each delivery with
//! its time, attempt and repetition, and the answer to each request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use actix::prelude::*;
use actix_timers::{CancelOutcome, ManualClock, Repeat, RescheduleOutcome};
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{
    DueTime, Durable, DurableError, DurableFilter, DurableId, DurableMessage, DurableOptions, DurableState,
    DurableTimers, HandlerError, Missed, Pause, PauseTarget, RouteOptions, Schedule, Scheduled,
};
use schemes::random::Random;
use serde::{Deserialize, Serialize};

use support::durable::{End, Files, Medium, at, life, millis, ms, quick};

/// A message; with the repetition and the attempt it determines the handler's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Task {
    number: u64,
    padding: String,
}

impl DurableMessage for Task {
    const NAME: &'static str = "task";
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    Done,
    Fails,
    FailsForGood,
    /// Cancels its timer, and then fails or succeeds.
    Cancels {
        and_fails: bool,
    },
}

fn answer(number: u64, repetition: u64, attempt: u32) -> Answer {
    match Random::new(number << 32 ^ repetition << 8 ^ u64::from(attempt)).below(10) {
        0..6 => Answer::Done,
        6..9 => Answer::Fails,
        _ if number.is_multiple_of(3) => Answer::Cancels { and_fails: number.is_multiple_of(2) },
        _ => Answer::FailsForGood,
    }
}

/// One delivery: time, timer, repetition, attempt, nominal time.
type Entry = (u64, DurableId, u64, u32, u64);

#[derive(Clone)]
struct Worker {
    log: Arc<Mutex<Vec<Entry>>>,
    clock: ManualClock,
    timers: Arc<OnceLock<DurableTimers>>,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<End> for Worker {
    type Result = ();

    fn handle(&mut self, _: End, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Handler<Durable<Task>> for Worker {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, task: Durable<Task>, _: &mut Context<Self>) -> Self::Result {
        let now = millis(self.clock.wall());
        let nominal = millis(task.due.to_system_time());
        self.log.lock().unwrap().push((now, task.id, task.repetition, task.attempt, nominal));
        let timers = Arc::clone(&self.timers);
        Box::pin(async move {
            match answer(task.number, task.repetition, task.attempt) {
                Answer::Done => Ok(()),
                Answer::Fails => Err(HandlerError::new("not now")),
                Answer::FailsForGood => Err(HandlerError::permanent("never")),
                Answer::Cancels { and_fails } => {
                    let cancelled = timers.get().unwrap().cancel(task.id).await.unwrap();
                    assert_eq!(cancelled, CancelOutcome::InProgress);
                    if and_fails { Err(HandlerError::permanent("never")) } else { Ok(()) }
                }
            }
        })
    }
}

const ROUTES: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone)]
struct Repeats {
    period: u64,
    /// None: the period counts from the end of the handler.
    missed: Option<Missed>,
    times: Option<u64>,
    until: Option<u64>,
}

#[derive(Debug, Clone)]
struct Timer {
    number: u64,
    route: usize,
    due: u64,
    nominal: u64,
    /// The number of the next attempt.
    attempt: u32,
    /// The attempts of the budget that are used up.
    used: u32,
    repetition: u64,
    repeats: Option<Repeats>,
    key: Option<String>,
}

/// The expected state by the guide.
#[derive(Default)]
struct Model {
    pending: BTreeMap<DurableId, Timer>,
    /// Dead letters, with their reasons and times.
    dead: BTreeMap<DurableId, (Timer, &'static str, u64)>,
    keys: HashMap<(usize, String), DurableId>,
    /// The routes with a recipient.
    served: [bool; 3],
    paused: [bool; 3],
    expected: Vec<Entry>,
}

impl Model {
    fn remove(&mut self, id: DurableId) -> Option<Timer> {
        let timer = self.pending.remove(&id)?;
        if let Some(key) = &timer.key {
            self.keys.remove(&(timer.route, key.clone()));
        }
        Some(timer)
    }

    fn insert(&mut self, id: DurableId, timer: Timer) {
        if let Some(key) = &timer.key {
            self.keys.insert((timer.route, key.clone()), id);
        }
        self.pending.insert(id, timer);
    }

    /// Delivers every timer due by `to`: at its time, or now if that is past.
    fn run(&mut self, from: u64, to: u64) {
        let mut now = from;
        loop {
            let goes_on = |route: usize| self.served[route] && !self.paused[route];
            let due = |(_, timer): &(&DurableId, &Timer)| timer.due <= to && goes_on(timer.route);
            let Some((&id, timer)) = self.pending.iter().filter(due).min_by_key(|(_, timer)| timer.due) else { return };
            now = timer.due.max(now);
            self.deliver(now, id);
        }
    }

    fn deliver(&mut self, now: u64, id: DurableId) {
        let timer = self.remove(id).unwrap();
        self.expected.push((now, id, timer.repetition, timer.attempt, timer.nominal));
        let answer = answer(timer.number, timer.repetition, timer.attempt);
        if matches!(answer, Answer::Cancels { .. }) {
            return;
        }
        if answer == Answer::Fails && timer.used < 2 {
            let due = now + (100 << timer.used);
            return self.insert(id, Timer { due, attempt: timer.attempt + 1, used: timer.used + 1, ..timer });
        }
        let next = timer.repeats.as_ref().and_then(|repeats| next(repeats, &timer, now));
        if answer != Answer::Done {
            let reason = if answer == Answer::Fails { "not now" } else { "never" };
            self.dead.insert(id, (timer.clone(), reason, now));
        }
        if let Some(due) = next {
            let repetition = timer.repetition + 1;
            self.insert(id, Timer { due: due.max(now), nominal: due, attempt: 1, used: 0, repetition, ..timer });
        }
    }
}

fn next(repeats: &Repeats, timer: &Timer, now: u64) -> Option<u64> {
    if repeats.times.is_some_and(|times| timer.repetition >= times) {
        return None;
    }
    let plain = timer.nominal + repeats.period;
    let due = match repeats.missed {
        None => now + repeats.period,
        Some(_) if plain > now => plain,
        Some(Missed::Burst) => plain,
        Some(Missed::Delay) => now + repeats.period,
        Some(_) => timer.nominal + ((now - timer.nominal) / repeats.period + 1) * repeats.period,
    };
    repeats.until.is_none_or(|until| due <= until).then_some(due)
}

struct Test<M> {
    medium: M,
    random: Random,
    model: Model,
    ids: Vec<DurableId>,
    log: Arc<Mutex<Vec<Entry>>>,
    seen: usize,
    now: u64,
}

impl<M: Medium> Test<M> {
    fn new(medium: M, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { medium, random, model: Model::default(), ids: vec![], log: Arc::default(), seen: 0, now: 1000 }
    }

    fn below_one_of<const N: usize>(&mut self, ends: [u64; N]) -> u64 {
        let end = ends[self.random.index(N)];
        self.random.below(end)
    }

    fn some_id(&mut self) -> Option<DurableId> {
        let last = self.ids.len().min(if self.random.one_in(4) { usize::MAX } else { 15 });
        (last > 0).then(|| self.ids[self.ids.len() - 1 - self.random.index(last)])
    }

    fn life(&mut self, steps: u64, is_last: bool) {
        let start = self.now;
        life(start, async |clock| {
            let handle = Arc::new(OnceLock::new());
            let worker = Worker { log: Arc::clone(&self.log), clock: clock.clone(), timers: Arc::clone(&handle) };
            let mut workers: [Option<Addr<Worker>>; 3] = [const { None }; 3];
            let horizon = [1000, 5000, 30_000, 100_000, u64::MAX][self.random.index(5)];
            let mut builder = DurableTimers::builder(self.medium.open())
                .clock(clock.clone())
                .horizon(Duration::from_millis(horizon))
                .loaded(1 + self.random.index(30))
                .group(1 + self.random.index(5));
            let mut is_known = [false; 3];
            self.model.served = [false; 3];
            for route in 0..3 {
                is_known[route] = is_last || !self.random.one_in(6);
                if !is_known[route] {
                    continue;
                }
                let options = RouteOptions::new().retry(quick()).window(1 + self.random.index(4));
                if is_last || !self.random.one_in(3) {
                    let address = worker.clone().start();
                    workers[route] = Some(address.clone());
                    self.model.served[route] = true;
                    builder = builder.route_with::<Task>(ROUTES[route], address, options);
                } else {
                    builder = builder.open_route_with::<Task>(ROUTES[route], options);
                }
            }
            let timers = builder.start().unwrap();
            assert!(handle.set(timers.clone()).is_ok());
            for route in 0..if is_last { 3 } else { 0 } {
                self.resume(&timers, route).await;
            }
            clock.settle().await;
            self.model.run(self.now, self.now);
            self.check(&timers).await;
            for _ in 0..steps {
                self.step(&timers, &is_known).await;
                clock.settle().await;
                self.model.run(self.now, self.now);
                if self.random.one_in(3) {
                    let time = self.below_one_of([50, 400, 3000, 60_000]);
                    clock.advance(ms(time)).await;
                    self.model.run(self.now, self.now + time);
                    self.now += time;
                }
                if self.random.one_in(12) {
                    let route = self.random.index(3);
                    if is_known[route] {
                        match workers[route].take() {
                            Some(address) => {
                                address.send(End).await.unwrap();
                                clock.settle().await;
                                self.model.served[route] = false;
                            }
                            None => {
                                let address = worker.clone().start();
                                timers.connect::<Task>(ROUTES[route], address.clone()).unwrap();
                                workers[route] = Some(address);
                                self.model.served[route] = true;
                                clock.settle().await;
                                self.model.run(self.now, self.now);
                            }
                        }
                    }
                }
                self.check_log();
                if self.random.one_in(10) {
                    self.check(&timers).await;
                }
            }
            if is_last {
                for _ in 0..40 {
                    clock.advance(ms(20_000)).await;
                    self.model.run(self.now, self.now + 20_000);
                    self.now += 20_000;
                    self.check_log();
                }
            }
            self.check(&timers).await;
            if is_last || self.random.one_in(2) {
                timers.stop().await.unwrap();
            } else {
                self.medium.crash();
            }
        });
        self.now += if self.random.one_in(2) { 0 } else { self.random.below(20_000) };
    }

    async fn resume(&mut self, timers: &DurableTimers, route: usize) {
        let was_paused = timers.resume(&PauseTarget::Route(ROUTES[route].into())).await.unwrap();
        assert_eq!(was_paused, std::mem::take(&mut self.model.paused[route]));
    }

    async fn step(&mut self, timers: &DurableTimers, is_known: &[bool; 3]) {
        match self.random.below(11) {
            0..5 => self.schedule(timers, is_known).await,
            5 => {
                let Some(id) = self.some_id() else { return };
                let expected =
                    if self.model.remove(id).is_some() { CancelOutcome::Cancelled } else { CancelOutcome::NotFound };
                assert_eq!(timers.cancel(id).await.unwrap(), expected);
            }
            6..8 => {
                let Some(id) = self.some_id() else { return };
                let due = (self.now + self.random.below(10_000)).saturating_sub(self.random.below(1500));
                let expected = match self.model.pending.get_mut(&id) {
                    Some(timer) => {
                        (timer.due, timer.nominal) = (due.max(self.now), due);
                        RescheduleOutcome::Rescheduled
                    }
                    None => RescheduleOutcome::NotFound,
                };
                assert_eq!(timers.reschedule_at(id, at(due)).await.unwrap(), expected);
            }
            8 => {
                let dead: Vec<_> = self.model.dead.keys().copied().collect();
                if dead.is_empty() {
                    return;
                }
                let id = dead[self.random.index(dead.len())];
                if self.random.one_in(4) {
                    self.model.dead.remove(&id);
                    assert!(timers.discard(id).await.unwrap());
                    assert!(!timers.discard(id).await.unwrap());
                    return;
                }
                let is_requeued = timers.requeue(id).await.unwrap();
                let (timer, ..) = &self.model.dead[&id];
                let key = timer.key.clone().map(|key| (timer.route, key));
                let is_taken = key.is_some_and(|key| self.model.keys.contains_key(&key));
                assert_eq!(is_requeued, !is_taken && !self.model.pending.contains_key(&id));
                if is_requeued {
                    let (timer, ..) = self.model.dead.remove(&id).unwrap();
                    let attempt = timer.attempt + 1;
                    self.model.insert(id, Timer { due: self.now, attempt, used: 0, repeats: None, ..timer });
                }
            }
            9 => {
                let (route, key) = (self.random.index(3), self.random.below(3).to_string());
                let expected = self.model.keys.get(&(route, key.clone())).copied();
                assert_eq!(timers.timer_by_key(ROUTES[route], &key).await.unwrap(), expected);
                if self.random.one_in(2) {
                    let is_there = expected.and_then(|id| self.model.remove(id)).is_some();
                    let expected = if is_there { CancelOutcome::Cancelled } else { CancelOutcome::NotFound };
                    assert_eq!(timers.cancel_key(ROUTES[route], &key).await.unwrap(), expected);
                }
            }
            _ => {
                let route = self.random.index(3);
                if is_known[route] && self.random.one_in(4) {
                    assert!(timers.pause(Pause::route(ROUTES[route])).await.unwrap());
                    self.model.paused[route] = true;
                } else {
                    self.resume(timers, route).await;
                }
            }
        }
    }

    async fn schedule(&mut self, timers: &DurableTimers, is_known: &[bool; 3]) {
        let (number, route) = (self.random.below(1 << 30), self.random.index(3));
        let padding = "x".repeat(self.random.index(300));
        let due = (self.now + self.below_one_of([5, 3000, 100_000])).saturating_sub(self.random.below(700));
        let message = Task { number, padding };
        let (request, due, repeats) = if self.random.one_in(5) {
            let period = 100 + self.random.below(4000);
            let first = self.random.below(3000);
            let missed = [Some(Missed::Skip), Some(Missed::Burst), Some(Missed::Delay), None];
            let missed = missed[self.random.index(4)];
            let times = 1 + self.random.below(5);
            let due = self.now + first;
            let until = self.random.one_in(3).then(|| due + self.random.below(9000));
            let mut every = Repeat::every(ms(period)).first_after(ms(first)).times(times);
            every = every.missed_ticks(missed.unwrap_or_default());
            if let Some(until) = until {
                every = every.until(at(until));
            }
            let repeats = Repeats { period, missed, times: Some(times), until };
            let schedule = if missed.is_some() { Schedule::at_fixed_rate } else { Schedule::with_fixed_delay };
            (schedule(ROUTES[route], every, message), due, Some(repeats))
        } else {
            (Schedule::at(ROUTES[route], at(due), message), due, None)
        };
        let key = self.random.one_in(3).then(|| self.random.below(3).to_string());
        let is_replacing = self.random.one_in(2);
        let options = match &key {
            Some(key) if is_replacing => DurableOptions::new().replace(key),
            Some(key) => DurableOptions::new().if_absent(key),
            None => DurableOptions::new(),
        };
        let scheduled = timers.schedule(request.options(options)).await;
        if !is_known[route] {
            assert!(matches!(scheduled.unwrap_err().reason, DurableError::UnknownRoute { .. }));
            return;
        }
        let scheduled = scheduled.unwrap();
        let holder = key.as_ref().and_then(|key| self.model.keys.get(&(route, key.clone())).copied());
        let id = scheduled.id();
        match holder {
            Some(holder) if !is_replacing => return assert_eq!(scheduled, Scheduled::Exists(holder)),
            Some(old) => {
                assert_eq!(scheduled, Scheduled::Replaced { id, old, in_progress: false });
                self.model.remove(old);
            }
            None => assert_eq!(scheduled, Scheduled::Created(id)),
        }
        self.ids.push(id);
        self.model.insert(
            id,
            Timer {
                number,
                route,
                due: due.max(self.now),
                nominal: due,
                attempt: 1,
                used: 0,
                repetition: 1,
                repeats,
                key,
            },
        );
    }

    /// Checks the deliveries since the last call.
    fn check_log(&mut self) {
        let mut log = self.log.lock().unwrap()[self.seen..].to_vec();
        self.seen += log.len();
        assert!(log.is_sorted_by_key(|(time, ..)| *time));
        log.sort_unstable();
        let mut expected = std::mem::take(&mut self.model.expected);
        expected.sort_unstable();
        assert_eq!(log, expected, "at {}", self.now);
    }

    async fn check(&mut self, timers: &DurableTimers) {
        self.check_log();
        let counts = timers.counts().await.unwrap();
        assert_eq!(counts.pending + counts.parked, self.model.pending.len() as u64);
        assert_eq!(counts.dead, self.model.dead.len() as u64);
        let mut living = BTreeMap::new();
        for (filter, count) in [(DurableFilter::new(), counts.pending), (DurableFilter::parked(), counts.parked)] {
            let mut filter = filter.limit(1 + self.random.index(20));
            let mut last = 0;
            let mut seen = 0;
            loop {
                let page = timers.list(filter.clone()).await.unwrap();
                for info in page.timers {
                    let due = millis(info.due().to_system_time());
                    assert!(due >= last);
                    (last, seen) = (due, seen + 1);
                    assert_eq!(timers.get(info.id).await.unwrap().as_ref(), Some(&info));
                    let progress = info.progress;
                    living.insert(
                        info.id,
                        (
                            due,
                            millis(progress.nominal.to_system_time()),
                            progress.attempt,
                            progress.repetition,
                            info.key,
                        ),
                    );
                }
                let Some(next) = page.next else { break };
                filter = filter.after(next);
            }
            assert_eq!(seen, count);
        }
        let timer = |timer: &Timer| (timer.due, timer.nominal, timer.attempt, timer.repetition, timer.key.clone());
        let expected: BTreeMap<_, _> = self.model.pending.iter().map(|(id, t)| (*id, timer(t))).collect();
        assert_eq!(living, expected, "at {}", self.now);
        for (id, (timer, reason, since)) in &self.model.dead {
            if self.model.pending.contains_key(id) {
                continue;
            }
            let info = timers.get(*id).await.unwrap().unwrap();
            let since = DueTime::at_or_after(at(*since)).unwrap();
            assert_eq!(info.state, DurableState::Dead { reason: (*reason).into(), since });
            assert_eq!((info.progress.attempt, info.progress.repetition), (timer.attempt, timer.repetition));
        }
    }
}

fn run<M: Medium>(medium: M, seed: u64) {
    let mut test = Test::new(medium, seed);
    for _ in 0..4 {
        let steps = test.random.below(120);
        test.life(steps, false);
    }
    test.life(50, true);
}

/// Returns the seeds; `SEED=100 SEEDS=500` for more of them.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("SEED").unwrap_or(0);
    first..first + number("SEEDS").unwrap_or(few)
}

#[test]
fn in_memory_everything_is_as_the_guide_says() {
    for seed in seeds(3) {
        println!("seed {seed}");
        run(MemoryDisk::new(), seed);
    }
}

#[test]
fn in_files_everything_is_as_the_guide_says() {
    for seed in seeds(1) {
        println!("seed {seed}");
        run(Files::new(), seed);
    }
}

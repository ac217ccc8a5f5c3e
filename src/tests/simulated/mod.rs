//! Whole services under the deterministic scheduler of the [simulation](crate::simulation): drivers, inboxes and the
//! watchdog, with actors, clients and arbiters that act at random, checked against the guarantees.
//!
//! `subject` contains the actors, `records` the events and their checks, `series` the same for repeating timers, and
//! this file the scenario.

mod records;
mod series;
mod subject;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use tokio::runtime::Runtime;

use crate::api::timer_actor::TimerActor;
use crate::engine::EngineConfig;
use crate::model::secret::Secret;
use crate::service::deliver::watchdog::Watchdog;
use crate::service::query::directory;
use crate::service::state::{Service, Settings};
use crate::simulation::arbiter::{Arbiter, Task, VirtualClock};
use crate::simulation::{self, Simulation, Stillness, random, seeds};
use crate::tests::fixture::Ring;
use crate::tests::simulated::records::{Kind, MILLISECOND, Records};
use crate::tests::simulated::series::Plan;
use crate::tests::simulated::subject::{
    Act, Busy, Flood, Other, Own, Plain, Subject, Supervised_, any_delay, cancel_any, move_any,
};
use crate::timing::{TickLength, WheelSize};
use crate::{Alarm, Clock, MailboxPolicy, MessageSource, RequestTime, Target, TimerOptions, Timers};

/// No timer is due later than this.
const END: u64 = 3_600_000 * MILLISECOND;

/// A runtime on the real clock, as the watchdog requires.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| match tokio::runtime::Builder::new_current_thread().build() {
    Ok(runtime) => runtime,
    Err(error) => panic!("{error}"),
});

/// The kinds that clients schedule. Tracked messages queue behind windowed ones, and then plain ones may overtake them.
const AT_ONCE: &[Kind] = &[Kind::Plain];
const TRACKED: &[Kind] = &[Kind::Plain, Kind::Tracked];
const IN_LINES: &[Kind] = &[Kind::Plain, Kind::TrackedInLine, Kind::Windowed, Kind::WindowedTracked];

/// A scenario derived from the seed.
struct Scenario {
    records: Records,
    /// The service of each arbiter.
    timers: Vec<Timers>,
    addrs: Vec<Addr<Subject>>,
    drains: bool,
    floods: Cell<bool>,
    kinds: &'static [Kind],
}

fn settings(has_watchdog: bool) -> Settings {
    let wheel_size = WheelSize::new([2, 8, 64][random(3) as usize]).unwrap_or_default();
    let tick = TickLength::new(Duration::from_millis(1)).unwrap_or_default();
    Settings {
        engine: EngineConfig { tick, wheel_size, ..EngineConfig::default() },
        name: Some(String::new()),
        expiry_budget: [1, 2, 5, 256][random(4) as usize],
        request_budget: 256,
        wall_clock_check_interval: Duration::MAX,
        mailbox_policy: MailboxPolicy::Unbounded,
        stuck_after: Duration::MAX,
        on_system_clock: has_watchdog,
        jitter_seed: Some(1),
        secret: Secret::new(),
        internal: false,
        automatic: false,
    }
}

/// Runs the scenario of a seed. Returns the digest of the run.
fn run(seed: u64) -> Result<(u64, u64), String> {
    // One entry for all threads: runtimes entered on the stack of a coroutine must be left before another one enters.
    let entered = RUNTIME.enter();
    let simulation = Simulation::new(seed);
    let records = Records::default();
    records.log().accepts = random(2) == 0;
    let has_watchdog = random(6) > 0;
    let arbiters = 1 + random(2) as usize;
    let watchdog = Arc::new(Watchdog::default());
    let mut scenario = Scenario {
        records: records.clone(),
        timers: Vec::new(),
        addrs: Vec::new(),
        drains: random(5) == 0,
        floods: Cell::new(random(4) == 0),
        kinds: [AT_ONCE, TRACKED, IN_LINES][random(3) as usize],
    };
    // All contexts are created first, so that each actor can know the others.
    let mut contexts = Vec::new();
    for _ in 0..arbiters {
        let settings = settings(has_watchdog);
        let service = directory::enter(|number| Service::new(number, settings, Arc::new(VirtualClock)));
        let ctx = Context::<TimerActor>::new();
        scenario.timers.push(Timers::new(Arc::clone(&service), ctx.address()));
        contexts.push((service, ctx));
    }
    let mut actors: Vec<Vec<(Context<Subject>, Subject)>> = Vec::new();
    for arbiter in 0..arbiters {
        records.add_arbiter();
        let mut here = Vec::new();
        for _ in 0..=random(2) {
            let ctx = Context::<Subject>::new();
            scenario.addrs.push(ctx.address());
            let subject = Subject {
                records: records.clone(),
                number: records.add_recipient(arbiter),
                arbiter,
                is_supervised: random(2) == 0,
                left: 6,
                timers: scenario.timers.clone(),
            };
            here.push((ctx, subject));
        }
        actors.push(here);
    }
    let threads: Vec<Arbiter> = contexts
        .into_iter()
        .zip(actors)
        .enumerate()
        .map(|(arbiter, (timer, actors))| {
            let (watchdog, records) = (Arc::clone(&watchdog), records.clone());
            Arbiter::start("arbiter", move || start(timer, &watchdog, actors, move || records.driven(arbiter)))
        })
        .collect();
    let scenario = Rc::new(scenario);
    for _ in 0..=random(2) {
        let scenario = Rc::clone(&scenario);
        simulation::spawn("client", move || scenario.client());
    }
    let outcome = simulate(&simulation, &records, &scenario, &threads);
    if outcome.is_err() {
        simulation.abandon();
        std::mem::forget(entered);
    }
    outcome.map(|()| simulation.digest())
}

fn simulate(
    simulation: &Simulation,
    records: &Records,
    scenario: &Rc<Scenario>,
    threads: &[Arbiter],
) -> Result<(), String> {
    let services: Vec<Arc<Service>> = scenario.timers.iter().map(|timers| Arc::clone(timers.service())).collect();
    simulation.run(END, |stillness, next| {
        match stillness {
            Stillness::Rest => records.check_rest(next),
            Stillness::Busy if services.iter().all(|service| service.has_watchdog()) => {
                records.check_busy();
            }
            Stillness::Disturbed => records.disturbed(next.unwrap_or_default()),
            Stillness::Busy => {}
        }
        records.check()
    })?;
    records.check_end();
    records.check()?;
    for service in &services {
        let counters = service.snapshot().counters;
        if !counters.balance() {
            return Err(format!("the counters do not add up: {counters:?}"));
        }
    }
    // The threads stop, in any order.
    threads.iter().for_each(Arbiter::stop);
    simulation.run(END, |_, _| Ok(()))?;
    records.check_order();
    for (number, service) in services.iter().enumerate() {
        records.check_counters(number, &service.snapshot().counters);
    }
    records.check()
}

/// Starts the contexts of an arbiter. `driven` is called at each poll of the driver.
fn start(
    (service, ctx): (Arc<Service>, Context<TimerActor>),
    watchdog: &Arc<Watchdog>,
    actors: Vec<(Context<Subject>, Subject)>,
    driven: impl Fn() + 'static,
) -> Vec<Task> {
    service.join_watchdog_of(watchdog);
    crate::service::owner::thread_registry::set_current(&service);
    let mut driver = Box::pin(ctx.into_future(TimerActor::new(service)));
    let driver = std::future::poll_fn(move |cx| {
        driven();
        driver.as_mut().poll(cx)
    });
    let mut tasks: Vec<Task> = vec![Box::pin(driver)];
    for (ctx, subject) in actors {
        if subject.is_supervised {
            tasks.push(Box::pin(Supervised_(ctx.into_future(subject))));
        } else {
            tasks.push(Box::pin(ctx.into_future(subject)));
        }
    }
    tasks
}

impl Scenario {
    /// Runs a thread that is no arbiter.
    fn client(&self) {
        if self.floods.take() {
            let place = random(self.addrs.len() as u64) as usize;
            simulation::rest(random(20) * MILLISECOND);
            self.addrs[place].do_send(Flood(simulation::now() + 200 * MILLISECOND));
        }
        for _ in 0..4 + random(12) {
            match random(20) {
                0..11 => self.schedule(),
                11..13 => cancel_any(&self.records, |service, id| self.timers[service].cancel(id)),
                13..15 => {
                    move_any(&self.records, |service, id, delay| self.timers[service].reschedule_after(id, delay));
                }
                15..19 => {
                    let place = random(self.addrs.len() as u64) as usize;
                    self.addrs[place].do_send(Act(1 + random(3)));
                }
                _ => {}
            }
            if random(3) == 0 {
                simulation::rest(any_delay());
            }
        }
        if random(8) == 0 {
            self.crowd();
        }
        if self.drains && random(2) == 0 {
            self.drain();
        }
    }

    /// Sends messages of one type to all, each followed by an own message of the recipient. They are late together, and
    /// the arbiter is free again about when the watchdog steps in.
    fn crowd(&self) {
        let service = random(self.timers.len() as u64) as usize;
        for (place, addr) in self.addrs.iter().enumerate() {
            let note = self.records.schedule(Kind::Plain, service, place, MILLISECOND);
            let (number, after) = (note.number, Duration::from_nanos(MILLISECOND));
            let id = self.timers[service].timer(addr, TimerOptions::new()).try_schedule(after, Plain(note)).ok();
            self.records.scheduled(number, id, MILLISECOND);
        }
        for addr in &self.addrs {
            addr.do_send(Busy(0));
        }
        for addr in &self.addrs {
            addr.do_send(Busy((20 + random(6)) * MILLISECOND));
        }
    }

    fn schedule(&self) {
        let service = random(self.timers.len() as u64) as usize;
        let place = random(self.addrs.len() as u64) as usize;
        let (timers, addr) = (&self.timers[service], &self.addrs[place]);
        let kind = self.kinds[random(self.kinds.len() as u64) as usize];
        let is_other = random(4) == 0;
        if random(5) == 0 {
            return self.repeat(kind, service, place, is_other);
        }
        let delay = any_delay();
        let note = self.records.schedule(kind, service, place, delay);
        let (number, after) = (note.number, Duration::from_nanos(delay));
        let id = if is_other {
            timers.timer(target::<Other>(kind, addr), TimerOptions::new()).try_schedule(after, Other(note)).ok()
        } else {
            timers.timer(target::<Plain>(kind, addr), TimerOptions::new()).try_schedule(after, Plain(note)).ok()
        };
        self.records.scheduled(number, id, delay);
    }

    fn repeat(&self, kind: Kind, service: usize, place: usize, is_other: bool) {
        let (timers, addr) = (&self.timers[service], &self.addrs[place]);
        let plan = Plan::any();
        let source = self.records.schedule_series(kind, service, place, plan);
        let number = source.first;
        let id = if is_other {
            plan.schedule(timers, target::<Other>(kind, addr), MessageSource::from_fn(move || Other(source.make())))
        } else {
            plan.schedule(timers, target::<Plain>(kind, addr), MessageSource::from_fn(move || Plain(source.make())))
        };
        self.records.scheduled(number, id, plan.first_after);
    }

    fn drain(&self) {
        let service = random(self.timers.len() as u64) as usize;
        self.records.drains(true);
        for returned in self.timers[service].service().drain() {
            let message = &returned.message;
            let plain = message.downcast_ref::<Plain>().map(|plain| plain.0.number);
            let other = message.downcast_ref::<Other>().map(|other| other.0.number);
            let own = message.downcast_ref::<Own>().map(|own| own.0.number);
            match plain.or(other).or(own) {
                Some(number) => self.records.drained(number),
                // A closure, which cannot be asked for its number.
                None => self.records.drained_by_drop(|| drop(returned)),
            }
        }
        self.records.drains(false);
    }
}

fn target<M>(kind: Kind, addr: &Addr<Subject>) -> Target<M>
where
    M: Message<Result = ()> + Send + 'static,
    Subject: Handler<M>,
{
    match kind {
        Kind::Own | Kind::Plain => Target::from(addr),
        Kind::Tracked | Kind::TrackedInLine => Target::tracked(addr),
        Kind::Windowed => Target::from(addr).window(1),
        Kind::WindowedTracked => Target::tracked(addr).window(1),
    }
}

/// A wall clock that can be stepped.
#[derive(Debug, Clone, Default)]
struct SteppedClock(Arc<AtomicU64>);

impl Clock for SteppedClock {
    fn now(&self) -> Duration {
        VirtualClock.now()
    }

    fn wall(&self) -> SystemTime {
        VirtualClock.wall() + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn since(&self, request: RequestTime) -> Duration {
        VirtualClock.since(request)
    }

    fn alarm(&self, time: Duration) -> Alarm {
        VirtualClock.alarm(time)
    }
}

/// The wall clock is stepped to half a second before a timer, and then the timer actor's arbiter is blocked for a
/// second.
fn run_with_a_step(seed: u64) -> Result<(), String> {
    const HOUR: u64 = 3_600_000 * MILLISECOND;
    let _entered = RUNTIME.enter();
    let simulation = Simulation::new(seed);
    let (clock, handled) = (SteppedClock::default(), Rc::new(Cell::new(None)));
    let settings = Settings { wall_clock_check_interval: Duration::from_millis(10), ..settings(true) };
    let own_clock = Arc::new(clock.clone());
    let service = directory::enter(|number| Service::new(number, settings, own_clock));
    let driver = Context::<TimerActor>::new();
    let timers = Timers::new(Arc::clone(&service), driver.address());
    let watchdog = Arc::new(Watchdog::default());
    let blocked: Task = Box::pin(async {
        VirtualClock.alarm(Duration::from_millis(200)).await;
        simulation::stall(1_000 * MILLISECOND);
    });
    let blocked = Arbiter::start("blocked", move || {
        let mut tasks = start((service, driver), &watchdog, Vec::new(), || {});
        tasks.push(blocked);
        tasks
    });
    let (listener, seen) = (Context::<Listener>::new(), Rc::clone(&handled));
    let addr = listener.address();
    let target = Target::from(&addr);
    let free = Arbiter::start("free", move || vec![Box::pin(listener.into_future(Listener(seen)))]);
    let client = timers.clone();
    simulation::spawn("client", move || {
        let wall = VirtualClock.wall() + Duration::from_nanos(HOUR);
        client.schedule_at(target, wall, Ring);
        simulation::rest(100 * MILLISECOND);
        clock.0.store(HOUR - 600 * MILLISECOND, Ordering::Relaxed);
    });
    simulation.run(10_000 * MILLISECOND, |_, _| Ok(()))?;
    [&blocked, &free].into_iter().for_each(Arbiter::stop);
    drop((timers, addr));
    simulation.run(2 * HOUR, |_, _| Ok(()))?;
    // It is due at 600 ms, and the arbiter is free again after 1200 ms.
    let is_right = handled.get().is_some_and(|time| (600..1_200).contains(&(time / MILLISECOND)));
    if is_right { Ok(()) } else { Err(format!("handled at {:?}", handled.get())) }
}

/// Notes the time of a message.
struct Listener(Rc<Cell<Option<u64>>>);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<Ring> for Listener {
    type Result = ();

    fn handle(&mut self, _: Ring, _: &mut Context<Self>) {
        self.0.set(Some(simulation::now()));
    }
}

#[test]
fn the_watchdog_learns_that_a_step_brought_a_timer_nearer() {
    seeds::run("the_watchdog_learns_that_a_step_brought_a_timer_nearer", 100, run_with_a_step);
}

/// Seeds of an ordinary run. `.ci/run` runs more; `docs/internals/architecture.md` has the command for a million.
const SEEDS: u64 = 500;

#[test]
fn a_service_keeps_its_promises_in_all_interleavings() {
    seeds::run("a_service_keeps_its_promises_in_all_interleavings", SEEDS, |seed| run(seed).map(drop));
}

#[test]
fn a_seed_replays_the_same_run() {
    for seed in 0..100 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

/// As by another test that publishes the counters of all services.
#[test]
fn a_lock_held_outside_is_waited_for() {
    let lock = Arc::new(crate::sync::Mutex::new(()));
    let (ask, asked) = mpsc::channel();
    let (hold, held) = mpsc::channel();
    let outside = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || {
            let _guard = lock.lock();
            hold.send(()).unwrap();
            asked.recv().unwrap();
            // Else it might be free before it is asked for.
            thread::sleep(Duration::from_millis(20));
        })
    };
    held.recv().unwrap();
    let simulation = Simulation::new(0);
    simulation::spawn("inside", move || {
        ask.send(()).unwrap();
        drop(lock.lock());
    });
    simulation.run(0, |_, _| Ok(())).unwrap();
    outside.join().unwrap();
}

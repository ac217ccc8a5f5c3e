//! Durable timers under the deterministic scheduler of the [simulation](actix_timers::simulation): the committer on its
//! thread, a store in memory, the deliveries, the wheel and clients on threads of their own, checked against a model.
//! Handlers fail and are retried, timers repeat, the store rejects commits for a while, a sync fails, and the power is cut.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::simulation::arbiter::{Arbiter, Task, block_on};
use actix_timers::simulation::internal::internal_timers;
use actix_timers::simulation::{self, Simulation, random, seeds};
use actix_timers::{CancelOutcome, MissedTickBehavior, Repeat, RescheduleOutcome};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::committer::{Committer, CommitterClock, Listener, Reading, Setup};
use super::deliveries::{DeliveryConfig, DurableTimerActor, Event};
use super::routes::{Role, RouteOptions, Routes};
use super::store::{FsyncOutcome, MemoryDisk, Store};
use super::timers::Parts;
use super::{DueTime, Durable, DurableId, DurableMessage, DurableTimers, HandlerError, RetryPolicy};

const MILLISECOND: u64 = 1_000_000;
/// All timers are due within this time.
const LONG: u64 = 10_000 * MILLISECOND;

/// Tokio's own timers are created but never fire: nothing drives this runtime.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap());

#[derive(Serialize, Deserialize)]
struct Note(u64);

impl DurableMessage for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Default)]
struct Entry {
    id: Option<DurableId>,
    /// Earliest time of the next delivery.
    least: u64,
    /// Earliest due time of its current repetition.
    nominal: u64,
    /// Its call has returned that it is on disk.
    kept: bool,
    /// Period and number of its repetitions.
    period: u64,
    times: u64,
    moves: bool,
    /// Cancels in progress.
    cancels: u32,
    cancelled: bool,
    /// Deliveries that may still begin after a cancel reported one in progress.
    ends_after: Option<u32>,
    /// A handler has failed while a stop was under way, which gives such deliveries back: due at once, and the attempt does not
    /// count.
    returned: bool,
    /// A call has failed with unknown effect.
    unsure: bool,
    /// Deliveries in all.
    deliveries: u32,
    /// Repetitions that are complete or dead letters.
    ended: u64,
    /// The last delivery: repetition and attempt, and whether it failed.
    last: (u64, u32),
    failed: bool,
}

impl Entry {
    /// Returns whether deliveries are outstanding.
    fn is_open(&self) -> bool {
        self.kept && !self.cancelled && !self.unsure && self.ends_after.is_none() && self.ended < self.times
    }

    /// Begins a delivery. `lenient`: the previous delivery's end may be missing on disk. `has_stopped`: numbers may be left
    /// out, of claims that a stop has given back; `last` counts without them.
    fn begin(&mut self, (repetition, attempt): (u64, u32), lenient: bool, has_stopped: bool) -> Option<&'static str> {
        let (last, failed) = (std::mem::replace(&mut self.last, (repetition, attempt)), self.failed);
        self.deliveries += 1;
        let next = if self.deliveries == 1 || failed && last.1 < ATTEMPTS {
            (last.0.max(1), last.1 + 1)
        } else {
            (last.0 + 1, 1)
        };
        let is_next = repetition == next.0 && (attempt == next.1 || has_stopped && attempt > next.1);
        if is_next {
            self.last = next;
        }
        let ends_after = self.ends_after.map(|more| more.checked_sub(1));
        self.ends_after = ends_after.map(Option::unwrap_or_default);
        if self.cancelled {
            Some("handled, but it was cancelled")
        } else if ends_after == Some(None) {
            Some("handled, but a cancel had said that nothing follows")
        } else if lenient || self.returned {
            (repetition > self.times).then_some("handled too often")
        } else if self.ended >= self.times {
            Some("handled, but it was complete")
        } else if !is_next {
            Some("the repetition or the attempt is another one")
        } else if simulation::now() < self.least / MILLISECOND * MILLISECOND {
            // Due times are whole milliseconds.
            Some("handled too early")
        } else {
            None
        }
    }

    /// Ends a delivery.
    fn end(&mut self, fails: bool, is_stopping: bool) {
        let (repetition, attempt) = self.last;
        self.failed = fails;
        self.returned |= fails && is_stopping;
        if fails && attempt < ATTEMPTS {
            let delay = FIRST_DELAY << (attempt - 1);
            self.least = if self.moves { 0 } else { simulation::now() + delay };
        } else {
            self.ended = self.ended.max(repetition);
            self.nominal = if self.moves { 0 } else { self.nominal + self.period };
            self.least = self.nominal;
        }
    }
}

/// The timers by number, and the first error.
type Log = (BTreeMap<u64, Entry>, Option<String>);

/// Deliveries of a message, and the delay after the first.
const ATTEMPTS: u32 = 3;
const FIRST_DELAY: u64 = 40 * MILLISECOND;

/// Without jitter, which depends on the ids: a seed replays the same run.
fn retries() -> RetryPolicy {
    RetryPolicy::default().max_attempts(ATTEMPTS).initial_delay(Duration::from_nanos(FIRST_DELAY)).jitter_percent(0)
}

#[derive(Clone, Default)]
struct Records(Arc<Mutex<Log>>);

impl Records {
    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<u64, Entry>) -> R) -> R {
        change(&mut self.0.lock().unwrap().0)
    }

    fn note(&self, number: u64, what: &str, change: impl FnOnce(&mut Entry) -> Option<&'static str>) {
        let mut log = self.0.lock().unwrap();
        let entry = log.0.entry(number).or_default();
        let failure = change(entry).map(|failure| format!("{failure}: {number} {entry:?}"));
        if seeds::is_replay() {
            println!("{:>12} {what} {number} {}", simulation::now(), failure.as_deref().unwrap_or(""));
        }
        log.1 = log.1.take().or(failure);
    }

    fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap().1.clone().map_or(Ok(()), Err)
    }

    /// Returns the timers with outstanding deliveries.
    fn open(&self) -> Vec<u64> {
        self.with(|entries| entries.iter().filter(|(_, entry)| entry.is_open()).map(|(number, _)| *number).collect())
    }
}

struct Office {
    records: Records,
    disk: Faults,
}

/// The faults of the disk.
#[derive(Clone)]
struct Faults {
    disk: MemoryDisk,
    /// It has had a fault: outcomes of handlers may be missing there, and claims may be there that nobody knows of.
    any: Rc<Cell<bool>>,
    /// A sync has failed, so that a change may or may not have been made.
    is_unsure: Rc<Cell<bool>>,
    /// The power is cut until the next life.
    is_off: Rc<Cell<bool>>,
    /// Durable timers have been stopped.
    has_stopped: Rc<Cell<bool>>,
    /// The same in this life.
    is_stopping: Rc<Cell<bool>>,
}

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        let fails = random(6) == 0;
        let (delivery, lenient) = ((note.repetition, note.attempt), self.disk.any.get());
        let has_stopped = self.disk.has_stopped.get();
        self.records.note(note.message.0, "handled", |entry| entry.begin(delivery, lenient, has_stopped));
        if random(8) == 0 {
            simulation::stall(random(30) * MILLISECOND);
        }
        let is_stopping = self.disk.is_stopping.get();
        self.records.note(note.message.0, if fails { "failed" } else { "done" }, |entry| {
            entry.end(fails, is_stopping);
            None
        });
        if fails { Err(HandlerError::new("not yet")) } else { Ok(()) }
    }
}

type Shared = Rc<RefCell<Option<DurableTimers>>>;

/// Returns the tasks of the arbiter.
fn start(faults: &Faults, records: Records, shared: &Shared) -> Vec<Task> {
    let (timers, timer) = internal_timers();
    let office = Context::<Office>::new();
    let mut routes = Routes::default();
    let options = RouteOptions::new().window(1 + random(3) as usize).retry(retries());
    let role = Role::Delivers(Some(office.address().recipient()));
    routes.register::<Note>(&"office".into(), options, role).unwrap();
    let routes = Arc::new(routes);
    let deliveries = Context::<DurableTimerActor>::new();
    let addr = deliveries.address();
    let config = DeliveryConfig {
        horizon: Duration::from_millis([20, 200, 60_000][random(3) as usize]),
        loaded: [1, 2, 65_536][random(3) as usize],
        keep_dead_letters: None,
    };
    let clock: CommitterClock = Arc::new(|| {
        let time = Duration::from_nanos(simulation::now());
        Reading { wall: DueTime::reached_at(SystemTime::UNIX_EPOCH + time), time }
    });
    let mut store = Box::new(faults.disk.open());
    let beat = store.join(&routes.node("simulated"), clock().wall).unwrap();
    let (work, to) = (timers.clone(), addr.clone());
    let listener: Listener = Arc::new(move |report| to.do_send(Event::Reported(report, work.begin_work())));
    let (group, name) = ([1, 3, 4096][random(3) as usize], "simulated".to_owned());
    let claimed = beat.blamed.iter().map(|record| record.delivery()).collect();
    let setup = Setup { store, routes: Arc::clone(&routes), claimed, group, clock, listener, name };
    let committer = Committer::start(setup, false).unwrap();
    let parts = Arc::new(Parts { committer, routes, timers, actor: addr.clone() });
    let actor = DurableTimerActor::new(config, None, Arc::clone(&parts));
    addr.do_send(Event::Begin(beat));
    shared.replace(Some(DurableTimers { parts }));
    // Deliveries are spawned.
    let local = LocalSet::new();
    local.spawn_local(deliveries.into_future(actor));
    vec![timer, Box::pin(local), Box::pin(office.into_future(Office { records, disk: faults.clone() }))]
}

/// Runs a client. Each timer has a due time of its own: the order of simultaneous ones depends on their ids.
fn client(name: u64, durable: &DurableTimers, records: &Records, faults: &Faults, stops: bool) {
    for step in 0..3 + random(8) {
        let number = name * 100 + step;
        let delay = (random(60) * 40 + number % 40) * MILLISECOND;
        match random(10) {
            0..5 => schedule(number, delay, durable, records),
            5..8 => cancel(durable, records, faults),
            _ => reschedule(delay, durable, records),
        }
        if random(3) == 0 {
            simulation::rest(random(40) * MILLISECOND);
        }
    }
    if stops {
        faults.has_stopped.set(true);
        faults.is_stopping.set(true);
        records.note(u64::MAX, "stop", |_| None);
        let _ = block_on(durable.stop());
        records.note(u64::MAX, "stopped", |_| None);
    }
}

fn schedule(number: u64, delay: u64, durable: &DurableTimers, records: &Records) {
    let least = simulation::now() + delay;
    // Zero periods meet deliveries in progress.
    let period = [0, 0, 2, 5, 40][random(5) as usize] * MILLISECOND;
    let times = if period == 0 { 1 } else { 1 + random(4) };
    records.note(number, "schedule", |entry| {
        (entry.least, entry.nominal, entry.period, entry.times) = (least, least, period, times);
        None
    });
    let (after, note) = (Duration::from_nanos(delay), Note(number));
    let scheduled = if period == 0 {
        block_on(durable.schedule_after("office", after, note))
    } else {
        let missed = [MissedTickBehavior::Skip, MissedTickBehavior::Burst, MissedTickBehavior::Delay];
        let repeat = Repeat::every(Duration::from_nanos(period)).first_after(after).times(times);
        match missed.get(random(4) as usize) {
            Some(missed) => block_on(durable.schedule_at_fixed_rate("office", repeat.missed_ticks(*missed), note)),
            None => block_on(durable.schedule_with_fixed_delay("office", repeat, note)),
        }
    };
    records.note(number, if scheduled.is_ok() { "scheduled" } else { "not scheduled" }, |entry| {
        entry.id = scheduled.as_ref().ok().map(|scheduled| scheduled.id());
        entry.kept = scheduled.is_ok();
        None
    });
}

fn cancel(durable: &DurableTimers, records: &Records, faults: &Faults) {
    let Some((number, id)) = any(records) else { return };
    records.note(number, "cancel", |entry| {
        entry.cancels += 1;
        None
    });
    let outcome = block_on(durable.cancel(id));
    records.note(number, &format!("cancel {outcome:?}"), |entry| {
        entry.cancels -= 1;
        match outcome {
            Ok(CancelOutcome::Cancelled) => {
                let is_wrong = entry.cancelled || (entry.ended >= entry.times && !faults.any.get());
                entry.cancelled = true;
                is_wrong.then_some("cancelled, but it had ended before")
            }
            // The message in progress may still be in the mailbox.
            Ok(CancelOutcome::InProgress) => {
                entry.ends_after.get_or_insert(1);
                (entry.deliveries == 0 && entry.least > simulation::now()).then_some("in progress before it was due")
            }
            Ok(CancelOutcome::NotFound | CancelOutcome::AlreadyDelivered) => {
                (entry.is_open() && entry.cancels == 0).then_some("not found, but it goes on")
            }
            Err(_) => {
                entry.unsure |= faults.is_unsure.get();
                None
            }
        }
    });
}

fn reschedule(delay: u64, durable: &DurableTimers, records: &Records) {
    let Some((number, id)) = any(records) else { return };
    if records.with(|entries| entries.get(&number).is_none_or(|entry| entry.moves)) {
        return;
    }
    let least = simulation::now() + delay;
    let mut before = (0, 0, 0);
    records.note(number, "move", |entry| {
        before = (entry.least, entry.nominal, entry.deliveries);
        entry.moves = true;
        entry.least = entry.least.min(least);
        None
    });
    let moved = block_on(durable.reschedule_after(id, Duration::from_nanos(delay)));
    records.note(number, &format!("moved {moved:?}"), |entry| {
        entry.moves = false;
        let is_same = before.2 == entry.deliveries;
        (entry.least, entry.nominal) = match moved {
            Ok(RescheduleOutcome::Rescheduled) if is_same => (least, least),
            Ok(RescheduleOutcome::NotFound | RescheduleOutcome::InProgress) if is_same => (before.0, before.1),
            _ => (0, 0),
        };
        None
    });
}

/// Makes the disk reject some commits or a sync fail, or cuts its power.
fn disturb(faults: &Faults) {
    simulation::rest(random(400) * MILLISECOND);
    match random(4) {
        0 | 1 => faults.disk.reject_commits(1 + random(4)),
        2 => {
            faults.is_unsure.set(true);
            faults.disk.fail_next_fsync([FsyncOutcome::All, FsyncOutcome::Nothing][random(2) as usize]);
        }
        _ => {
            faults.is_off.set(true);
            faults.disk.power_off();
        }
    }
    faults.any.set(true);
    if seeds::is_replay() {
        println!("{:>12} fault: unsure {}, off {}", simulation::now(), faults.is_unsure.get(), faults.is_off.get());
    }
}

/// Returns a timer that can be cancelled or moved.
fn any(records: &Records) -> Option<(u64, DurableId)> {
    records.with(|entries| {
        let known: Vec<_> = entries.iter().filter_map(|(number, entry)| Some((*number, entry.id?))).collect();
        known.get(random(known.len() as u64) as usize).copied()
    })
}

/// Runs one life of the durable timers on a disk.
fn live(simulation: &Simulation, faults: &Faults, records: &Records, clients: u64, stops: bool) -> Result<(), String> {
    let shared = Shared::default();
    let (shared_there, known, there) = (Rc::clone(&shared), records.clone(), faults.clone());
    let arbiter = Arbiter::start("arbiter", move || start(&there, known, &shared_there));
    let finished = Rc::new(Cell::new(0));
    for name in 0..clients {
        let (shared, records, finished) = (Rc::clone(&shared), records.clone(), Rc::clone(&finished));
        let faults = faults.clone();
        simulation::spawn("client", move || {
            loop {
                let durable = shared.borrow().clone();
                match durable {
                    Some(durable) => {
                        client(name, &durable, &records, &faults, stops && name == 0);
                        return finished.set(finished.get() + 1);
                    }
                    None => simulation::rest(MILLISECOND),
                }
            }
        });
    }
    simulation.run(simulation::now() + LONG, |_, _| records.check())?;
    if finished.get() < clients {
        return Err(format!("calls never returned, of {} clients", clients - finished.get()));
    }
    let Some(durable) = shared.take() else { return Err("it did not start".to_owned()) };
    let open = records.open();
    let stopper = records.clone();
    let is_whole = !stops && !faults.is_off.get();
    if is_whole && !open.is_empty() {
        return Err(format!("never handled: {open:?} {:?}", records.with(|entries| format!("{entries:?}"))));
    }
    simulation::spawn("stopper", move || {
        if is_whole {
            let counts = block_on(durable.counts());
            let is_right = counts.as_ref().is_ok_and(|counts| counts.pending == 0);
            stopper.note(u64::MAX, "counted", |_| (!is_right).then_some("the store keeps handled timers"));
        }
        let _ = block_on(durable.stop());
    });
    simulation.run(simulation::now() + LONG, |_, _| records.check())?;
    arbiter.stop();
    simulation.run(simulation::now() + LONG, |_, _| Ok(()))?;
    records.check()
}

fn run(seed: u64) -> Result<(u64, u64), String> {
    let entered = RUNTIME.enter();
    let simulation = Simulation::new(seed);
    let records = Records::default();
    let faults = Faults {
        disk: MemoryDisk::new(),
        any: Rc::default(),
        is_unsure: Rc::default(),
        is_off: Rc::default(),
        has_stopped: Rc::default(),
        is_stopping: Rc::default(),
    };
    let stops = random(2) == 0;
    if random(3) == 0 {
        let faults = faults.clone();
        simulation::spawn("disk", move || disturb(&faults));
    }
    let lives = || {
        live(&simulation, &faults, &records, 1 + random(3), stops)?;
        // Timers on disk at the stop are delivered in the next life, on a healthy disk.
        if !stops && !faults.is_off.replace(false) {
            return Ok(());
        }
        faults.is_stopping.set(false);
        live(&simulation, &faults, &records, 0, false)
    };
    let outcome = lives();
    if outcome.is_err() {
        simulation.abandon();
        std::mem::forget(entered);
    }
    outcome.map(|()| simulation.digest())
}

const SEEDS: u64 = if cfg!(debug_assertions) { 200 } else { 10_000 };

#[test]
fn durable_timers_keep_their_promises_in_all_interleavings() {
    seeds::run("durable_timers_keep_their_promises_in_all_interleavings", SEEDS, |seed| run(seed).map(drop));
}

#[test]
fn a_seed_replays_the_same_run() {
    for seed in 0..40 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

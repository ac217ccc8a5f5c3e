//! Durable timers under the deterministic scheduler of the [simulation](crate::simulation): the journal on its thread, a store
//! in memory, the dispatcher, the wheel and clients on threads of their own, against what was promised.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::dispatcher::{Begin, DurableTimerActor};
use super::horizon::WheelHorizon;
use super::journal::{Journal, JournalClock};
use super::ledger::{Ledger, LedgerConfig, Reading};
use super::routes::{RouteOptions, Routes};
use super::store::MemoryDisk;
use super::{DueTime, Durable, DurableId, DurableMessage, DurableTimers, HandlerError, RetryPolicy};
use crate::actor::service::simulated_service;
use crate::simulation::arbiter::{Arbiter, Task, block_on};
use crate::simulation::{self, Simulation, random, seeds};
use crate::{CancelOutcome, RescheduleOutcome, Timers};

const MILLISECOND: u64 = 1_000_000;
/// All timers are due within this time. (The ledger has always something to do later: it renews its lease.)
const LONG: u64 = 10_000 * MILLISECOND;

/// Tokio's own timers are made, and never ring: nobody drives this runtime.
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
    least: u64,
    most: u64,
    /// Its call has returned, and said that it is on disk.
    kept: bool,
    /// Its call has said that the timers are closed.
    refused: bool,
    moves: bool,
    cancelled: bool,
    handled: u32,
}

/// The timers by number, and what went wrong first.
type Log = (BTreeMap<u64, Entry>, Option<String>);

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

    /// What is to be handled still.
    fn open(&self) -> Vec<u64> {
        let is_open = |entry: &Entry| entry.kept && !entry.cancelled && entry.handled == 0;
        self.with(|entries| entries.iter().filter(|(_, entry)| is_open(entry)).map(|(number, _)| *number).collect())
    }
}

struct Office(Records);

impl Actor for Office {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Office {
    type Result = Result<(), HandlerError>;

    fn handle(&mut self, note: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        self.0.note(note.0, "handled", |entry| {
            entry.handled += 1;
            match entry {
                Entry { handled: 2.., .. } => Some("handled twice"),
                Entry { cancelled: true, .. } => Some("handled, but it was cancelled"),
                // Due times are whole milliseconds.
                entry if simulation::now() < entry.least / MILLISECOND * MILLISECOND => Some("handled too early"),
                _ => None,
            }
        });
        if random(8) == 0 {
            simulation::stall(random(30) * MILLISECOND);
        }
        Ok(())
    }
}

type Shared = Rc<RefCell<Option<DurableTimers>>>;

/// What the arbiter runs.
fn start(disk: &MemoryDisk, records: Records, shared: &Shared) -> Vec<Task> {
    let (service, timer) = simulated_service();
    let timers = Timers::new(service, timer.address());
    let office = Context::<Office>::new();
    let mut routes = Routes::default();
    let options = RouteOptions::new().window(1 + random(3) as usize);
    routes.register::<Note>("office", options, Some(office.address().recipient())).unwrap();
    let (routes, place) = (Arc::new(routes), Arc::new(OnceLock::new()));
    let dispatcher = Context::<DurableTimerActor>::new();
    let addr = dispatcher.address();
    let actor = DurableTimerActor::new(Arc::clone(&routes), timers.clone(), Arc::clone(&place));
    let horizon = WheelHorizon::new(timers.clone(), &addr);
    let config = LedgerConfig {
        horizon: Duration::from_millis([20, 200, 60_000][random(3) as usize]),
        loaded: [1, 2, 262_144][random(3) as usize],
        group: [1, 3, 4096][random(3) as usize],
        ..LedgerConfig::default()
    };
    let ledger =
        Ledger::open(Box::new(disk.open()), config, Box::new(|_, _| Some(RetryPolicy::default())), horizon).unwrap();
    let clock: JournalClock = Arc::new(|| {
        let time = Duration::from_nanos(simulation::now());
        Reading { wall: DueTime::reached_at(SystemTime::UNIX_EPOCH + time), time }
    });
    let journal = Journal::start_thread(ledger, clock, "simulated").unwrap();
    let _ = place.set(journal.clone());
    let durable = DurableTimers::new(journal, routes, timers.clone(), addr.clone());
    addr.do_send(Begin(durable.clone()));
    shared.replace(Some(durable));
    let timer = timer.into_future(crate::TimerActor::new(Arc::clone(timers.service())));
    // Deliveries are spawned.
    let local = LocalSet::new();
    local.spawn_local(dispatcher.into_future(actor));
    vec![Box::pin(timer), Box::pin(local), Box::pin(office.into_future(Office(records)))]
}

/// What a client does. Each timer has a due time of its own: the order of those that are due at once depends on their ids.
fn client(name: u64, durable: &DurableTimers, records: &Records, stops: bool) {
    for step in 0..3 + random(8) {
        let number = name * 100 + step;
        let delay = (random(60) * 40 + number % 40) * MILLISECOND;
        match random(8) {
            0..5 => {
                let least = simulation::now() + delay;
                records.note(number, "schedule", |entry| {
                    (entry.least, entry.most) = (least, u64::MAX);
                    None
                });
                let scheduled = block_on(durable.schedule_after("office", Duration::from_nanos(delay), Note(number)));
                let most = simulation::now() + delay;
                records.note(number, "scheduled", |entry| {
                    entry.id = scheduled.as_ref().ok().map(|scheduled| scheduled.id());
                    (entry.kept, entry.refused) = (scheduled.is_ok(), scheduled.is_err());
                    entry.most = most;
                    None
                });
            }
            5..7 => {
                let Some((number, id)) = any(records) else { continue };
                if let Ok(CancelOutcome::Cancelled) = block_on(durable.cancel(id)) {
                    records.note(number, "cancelled", |entry| {
                        let is_wrong = entry.cancelled || entry.handled > 0;
                        entry.cancelled = true;
                        is_wrong.then_some("cancelled, but it had ended before")
                    });
                }
            }
            _ => {
                let Some((number, id)) = any(records) else { continue };
                if records.with(|entries| entries.get(&number).is_none_or(|entry| entry.moves)) {
                    continue;
                }
                let least = simulation::now() + delay;
                let before = records.with(|entries| {
                    let entry = entries.entry(number).or_default();
                    let before = (entry.least, entry.most);
                    entry.moves = true;
                    (entry.least, entry.most) = (entry.least.min(least), u64::MAX);
                    before
                });
                let moved = block_on(durable.reschedule_after(id, Duration::from_nanos(delay)));
                let most = simulation::now() + delay;
                records.note(number, "moved", |entry| {
                    entry.moves = false;
                    let is_moved = matches!(moved, Ok(RescheduleOutcome::Rescheduled));
                    (entry.least, entry.most) = if is_moved { (least, most) } else { before };
                    None
                });
            }
        }
        if random(3) == 0 {
            simulation::rest(random(40) * MILLISECOND);
        }
    }
    if stops {
        records.note(u64::MAX, "stop", |_| None);
        let _ = block_on(durable.stop());
        records.note(u64::MAX, "stopped", |_| None);
    }
}

/// A timer that can be cancelled or moved.
fn any(records: &Records) -> Option<(u64, DurableId)> {
    records.with(|entries| {
        let known: Vec<_> = entries.iter().filter_map(|(number, entry)| Some((*number, entry.id?))).collect();
        known.get(random(known.len() as u64) as usize).copied()
    })
}

/// One life of the durable timers on a disk.
fn live(
    simulation: &Simulation,
    disk: &MemoryDisk,
    records: &Records,
    clients: u64,
    stops: bool,
) -> Result<(), String> {
    let shared = Shared::default();
    let (place, known, there) = (Rc::clone(&shared), records.clone(), disk.clone());
    let arbiter = Arbiter::start("arbiter", move || start(&there, known, &place));
    let finished = Rc::new(Cell::new(0));
    for name in 0..clients {
        let (shared, records, finished) = (Rc::clone(&shared), records.clone(), Rc::clone(&finished));
        simulation::spawn("client", move || {
            loop {
                let durable = shared.borrow().clone();
                match durable {
                    Some(durable) => {
                        client(name, &durable, &records, stops && name == 0);
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
    if !stops && !open.is_empty() {
        return Err(format!("never handled: {open:?} {:?}", records.with(|entries| format!("{entries:?}"))));
    }
    simulation::spawn("stopper", move || {
        if !stops {
            let counts = block_on(durable.counts());
            let is_right = counts.as_ref().is_ok_and(|counts| counts.pending == 0);
            stopper.note(u64::MAX, "counted", |_| (!is_right).then_some("the store keeps what was handled"));
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
    let (disk, records) = (MemoryDisk::new(), Records::default());
    let stops = random(2) == 0;
    let lives = || {
        live(&simulation, &disk, &records, 1 + random(3), stops)?;
        // What was on disk when it was stopped is delivered in the next life.
        if stops { live(&simulation, &disk, &records, 0, false) } else { Ok(()) }
    };
    let outcome = lives();
    if outcome.is_err() {
        simulation.abandon();
        std::mem::forget(entered);
    }
    outcome.map(|()| simulation.digest())
}

const SEEDS: u64 = if cfg!(debug_assertions) { 400 } else { 10_000 };

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

//! Support for tests of durable timers: lives of a process on a manual clock, a medium that outlives them, and an actor
//! that records its deliveries.
//!
//! A *life* is one actix system with everything in it. It ends cleanly (`timers.stop()`), or by a crash
//! ([`Medium::crash`]): changes not acknowledged by the medium by then never reach it. Times are milliseconds since the
//! start of the test.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{ManualClock, scrape};
use actix_timers_durable::store::{
    Beat, Counts, Delivery, Found, Hint, Look, Looking, MemoryDisk, NodeInfo, Op, Outcome, Page, Query, Reads,
};
use actix_timers_durable::{
    DueTime, Durable, DurableId, DurableMessage, DurableTimers, DurableTimersBuilder, EmbeddedStore, HandlerError,
    MemoryStore, Pause, RetryPolicy, RouteOptions, Store, StoreError,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::copies::copy_directory;
use crate::{Boxed, Gate, metric, paused_runtime, with_one_type};

/// The route of most tests.
pub const ROUTE: &str = "diary";

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the wall clock at a time of the test.
pub fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + ms(millis)
}

/// Returns the time of the test at a wall-clock time; 0 if that is before it.
pub fn millis(wall: SystemTime) -> u64 {
    u64::try_from(wall.duration_since(at(0)).unwrap_or_default().as_millis()).unwrap()
}

/// Runs a new system whose wall clock begins at a time of the test.
pub fn life<T>(start: u64, test: impl AsyncFnOnce(ManualClock) -> T) -> T {
    with_one_type(test(ManualClock::starting_at(at(start))), run_life)
}

fn run_life(test: Boxed<'_>) {
    System::with_tokio_rt(paused_runtime).block_on(test);
}

/// Runs a test in one life, in which durable timers on a medium write into a diary.
pub fn one_life<M: Medium>(medium: &M, test: impl AsyncFnOnce(Diary, DurableTimers, ManualClock)) {
    life(0, async |clock| {
        let diary = Diary::default();
        let timers = diary.timers(medium, &clock);
        test(diary, timers, clock).await;
    });
}

/// Schedules notes on a route, each with its due time, and returns their ids.
pub async fn notes(timers: &DurableTimers, route: &str, notes: impl IntoIterator<Item = (u32, u64)>) -> Vec<DurableId> {
    let mut ids = Vec::new();
    for (note, due) in notes {
        ids.push(timers.schedule_at(route, at(due), Note(note)).await.unwrap().id());
    }
    ids
}

/// Lets time pass from event to event.
pub async fn run_to(clock: &ManualClock, time: u64) {
    clock.advance(at(time).duration_since(clock.wall()).expect("time does not go back")).await;
}

/// Storage that outlives a process.
pub trait Medium {
    type Store: Store;
    /// Opens a store on the medium.
    fn open(&self) -> Self::Store;
    /// Simulates the death of the process: its unwritten changes never reach the medium.
    fn crash(&mut self);
}

impl Medium for MemoryDisk {
    type Store = MemoryStore;

    fn open(&self) -> Self::Store {
        Self::open(self)
    }

    fn crash(&mut self) {
        self.power_off();
    }
}

/// Defines each of these tests on each store.
#[macro_export]
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[test] fn $test() { super::$test(super::MemoryDisk::new()); })*
        }
        mod in_files {
            $(#[test] fn $test() { super::$test(super::Files::new()); })*
        }
    };
}
pub use crate::on_every_store;

/// A directory with an embedded store.
#[derive(Debug)]
pub struct Files {
    root: TempDir,
    /// The number of the present directory; a crash begins another one.
    lives: u32,
}

impl Files {
    /// Returns an empty directory.
    pub fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), lives: 0 }
    }

    pub fn directory(&self) -> PathBuf {
        self.root.path().join(self.lives.to_string())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // The directory of a failed test is kept for examination.
        self.root.disable_cleanup(std::thread::panicking());
    }
}

impl Medium for Files {
    type Store = EmbeddedStore;

    fn open(&self) -> EmbeddedStore {
        EmbeddedStore::open(self.directory()).unwrap()
    }

    /// The next life finds the files as they are now. Later changes by the process do not matter any more.
    fn crash(&mut self) {
        let dying = self.directory();
        self.lives += 1;
        copy_directory(&dying, &self.directory());
    }
}

/// A store with an observer of its commits: a function is called before each.
pub struct Watched<S, F>(pub S, pub F);

/// Opens a store on a disk whose commits are held while a gate is shut, as if the disk were slow. It must be on another thread.
pub fn behind(gate: &Gate, disk: &MemoryDisk) -> Watched<MemoryStore, impl Watch> {
    let gate = gate.clone();
    Watched(disk.open(), move |_: &[Op]| gate.pass())
}

/// An observer of commits.
pub trait Watch: Send + 'static {
    fn before(&mut self, ops: &[Op]);

    fn after(&mut self) {}

    /// Is called after each look, and may change its result.
    fn found(&mut self, _: &mut Vec<Hint>) {}
}

impl<F: FnMut(&[Op]) + Send + 'static> Watch for F {
    fn before(&mut self, ops: &[Op]) {
        self(ops);
    }
}

impl<S: Store, F: Send + 'static> Reads for Watched<S, F> {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        self.0.get(id)
    }

    fn find_key(&mut self, route: &str, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.0.find_key(route, key)
    }

    fn list(&mut self, query: &Query) -> Result<Page, StoreError> {
        self.0.list(query)
    }

    fn counts(&mut self, limit: Option<u64>) -> Result<Counts, StoreError> {
        self.0.counts(limit)
    }

    fn pauses(&mut self) -> Result<Vec<Pause>, StoreError> {
        self.0.pauses()
    }
}

impl<S: Store, F: Watch> Store for Watched<S, F> {
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError> {
        self.0.join(node, now)
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        self.0.reader()
    }

    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        self.0.beat(running, now)
    }

    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        self.1.before(ops);
        let outcomes = self.0.apply(ops, now);
        self.1.after();
        outcomes
    }

    fn look(&mut self, look: &Look, now: DueTime) -> Looking {
        let mut found = self.0.look(look, now)();
        found.iter_mut().for_each(|found| self.1.found(&mut found.hints));
        Box::new(|| found)
    }
}

/// A message with a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note(pub u32);

impl DurableMessage for Note {
    const NAME: &'static str = "note";
}

/// The body of a handler.
pub type Handling = Box<dyn FnOnce(&Durable<Note>) -> Result<(), HandlerError> + Send>;

/// The reaction of a handler to one delivery.
pub enum Act {
    Succeed,
    Fail,
    FailForGood,
    Snooze(Duration),
    Panic,
    /// It never replies.
    Hang,
    /// It replies on this signal.
    Wait(oneshot::Receiver<()>),
    /// It does this with its message.
    Do(Handling),
}

/// A record of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Time of the delivery.
    pub time: u64,
    pub note: u32,
    pub attempt: u32,
    pub repetition: u64,
    pub id: DurableId,
    /// The due time, apart from retries.
    pub due: u64,
}

/// The deliveries of all lives of a test, and the script of the handlers. Clones share them.
#[derive(Clone, Default)]
pub struct Diary {
    entries: Arc<Mutex<Vec<Entry>>>,
    script: Arc<Mutex<HashMap<u32, VecDeque<Act>>>>,
}

impl Diary {
    /// Adds the next reactions of the handler of this note. Without a script it succeeds.
    pub fn script(&self, note: u32, acts: impl IntoIterator<Item = Act>) {
        self.script.lock().unwrap().entry(note).or_default().extend(acts);
    }

    /// Makes the next handler of this note wait for a signal.
    pub fn hold(&self, note: u32) -> oneshot::Sender<()> {
        let (tell, told) = oneshot::channel();
        self.script(note, [Act::Wait(told)]);
        tell
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }

    /// Returns times and notes.
    pub fn deliveries(&self) -> Vec<(u64, u32)> {
        self.entries().iter().map(|entry| (entry.time, entry.note)).collect()
    }

    /// Returns times, notes and attempts.
    pub fn attempts(&self) -> Vec<(u64, u32, u32)> {
        self.entries().iter().map(|entry| (entry.time, entry.note, entry.attempt)).collect()
    }

    pub fn len(&self) -> usize {
        self.entries.lock().unwrap().len()
    }

    /// Starts an actor that writes into this diary.
    pub fn writer(&self, clock: &ManualClock) -> Addr<Writer> {
        Writer { diary: self.clone(), clock: clock.clone() }.start()
    }

    /// Starts durable timers on a medium, with the route [`ROUTE`] to an actor that writes into this diary.
    pub fn timers<M: Medium>(&self, medium: &M, clock: &ManualClock) -> DurableTimers {
        self.builder(medium, clock).start().unwrap()
    }

    /// Starts durable timers with these options of the route.
    pub fn timers_with<M: Medium>(&self, medium: &M, clock: &ManualClock, options: RouteOptions) -> DurableTimers {
        let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
        builder.route_with::<Note>(ROUTE, self.writer(clock), options).start().unwrap()
    }

    pub fn builder<M: Medium>(&self, medium: &M, clock: &ManualClock) -> DurableTimersBuilder {
        DurableTimers::builder(medium.open()).clock(clock.clone()).route_with::<Note>(
            ROUTE,
            self.writer(clock),
            RouteOptions::new().retry(quick()),
        )
    }
}

/// Starts durable timers of the default name, and returns them with a function that counts their internal timers.
pub fn start_counted(builder: DurableTimersBuilder) -> (DurableTimers, impl Fn() -> u64) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let timers = metrics::with_local_recorder(&recorder, || builder.start()).unwrap();
    let internal = move || metric(&scrape(|| page.render()), "pending", "timer=\"durable\"") as u64;
    (timers, internal)
}

/// Returns a policy of three attempts, after 100 and 200 ms, without jitter; 1 s for a handler.
pub fn quick() -> RetryPolicy {
    RetryPolicy::default().max_attempts(3).initial_delay(ms(100)).jitter_percent(0).timeout(ms(1000))
}

pub struct Writer {
    diary: Diary,
    clock: ManualClock,
}

impl Actor for Writer {
    type Context = Context<Self>;
}

impl Handler<Durable<Note>> for Writer {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, durable: Durable<Note>, _: &mut Context<Self>) -> Self::Result {
        let note = durable.message.0;
        self.diary.entries.lock().unwrap().push(Entry {
            time: millis(self.clock.wall()),
            note,
            attempt: durable.attempt,
            repetition: durable.repetition,
            id: durable.id,
            due: millis(durable.due.to_system_time()),
        });
        let act = self.diary.script.lock().unwrap().get_mut(&note).and_then(VecDeque::pop_front);
        match act.unwrap_or(Act::Succeed) {
            Act::Succeed => Box::pin(async { Ok(()) }),
            Act::Fail => Box::pin(async { Err(HandlerError::new("not now")) }),
            Act::Snooze(delay) => Box::pin(async move { Err(HandlerError::snooze_for(delay)) }),
            Act::FailForGood => Box::pin(async { Err(HandlerError::permanent("never")) }),
            Act::Panic => panic!("as the script says"),
            Act::Hang => Box::pin(std::future::pending()),
            Act::Wait(told) => Box::pin(async move { Ok(told.await?) }),
            Act::Do(act) => Box::pin(async move { act(&durable) }),
        }
    }
}

/// Starts an actor whose handler is a function.
pub fn handled_by<M: DurableMessage>(
    handle: impl AsyncFn(Durable<M>) -> Result<(), HandlerError> + 'static,
) -> Recipient<Durable<M>> {
    By(Rc::new(handle)).start().recipient()
}

struct By<F>(Rc<F>);

impl<F: 'static> Actor for By<F> {
    type Context = Context<Self>;
}

impl<M: DurableMessage, F: AsyncFn(Durable<M>) -> Result<(), HandlerError> + 'static> Handler<Durable<M>> for By<F> {
    type Result = ResponseFuture<Result<(), HandlerError>>;

    fn handle(&mut self, message: Durable<M>, _: &mut Context<Self>) -> Self::Result {
        let handle = Rc::clone(&self.0);
        Box::pin(async move { handle(message).await })
    }
}

/// Starts durable timers with the route [`ROUTE`] to a function, and these options.
pub fn timers_to<M: Medium>(
    medium: &M,
    clock: &ManualClock,
    options: RouteOptions,
    handle: impl AsyncFn(Durable<Note>) -> Result<(), HandlerError> + 'static,
) -> DurableTimers {
    let builder = DurableTimers::builder(medium.open()).clock(clock.clone());
    builder.route_with::<Note>(ROUTE, handled_by(handle), options).start().unwrap()
}

/// Returns route options by which a message comes when the handler of the one before has ended.
pub fn one_by_one() -> RouteOptions {
    RouteOptions::new().window(1).retry(quick())
}

/// Ends its actor.
#[derive(Message)]
#[rtype(result = "()")]
pub struct End;

impl Handler<End> for Writer {
    type Result = ();

    fn handle(&mut self, _: End, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

//! A ledger on a disk in memory, or on a real one, with a clock and a horizon that the test controls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::ledger::closed::Closed;
use crate::ledger::health::{Health, Trouble};
use crate::ledger::internal_changes::InternalChange;
use crate::ledger::{
    Answer, Answered, Cancellation, Horizon, LedgerConfig, Ledgers, Note, Reading, Replies, Request, Rescheduling,
    Scheduled, Verdict,
};
use crate::metrics::DurableCounters;
use crate::store::{Change, Counts, EmbeddedStore, MemoryDisk, Node, OnKey, StoreError, TimerStore};
use crate::{DueTime, DurableId, Record, RecordState, RetryPolicy};

pub(crate) fn at(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

/// SplitMix64: the same numbers for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len() as u64) as usize]) }
    }
}

/// A horizon that reports in the order of due times; records already overdue when armed in the order of arming.
#[derive(Clone, Default)]
pub(crate) struct FakeHorizon(Arc<Mutex<Armed>>);

#[derive(Default)]
pub(crate) struct Armed {
    pub(crate) now: DueTime,
    pub(crate) count: u64,
    pub(crate) armed: BTreeMap<(DueTime, u64), Arc<Record>>,
    pub(crate) recheck_at: Option<DueTime>,
    pub(crate) recheck_after: Option<Duration>,
}

impl FakeHorizon {
    pub(crate) fn get(&self) -> MutexGuard<'_, Armed> {
        self.0.lock().unwrap()
    }
}

impl Horizon for FakeHorizon {
    type Handle = (DueTime, u64);

    fn arm(&mut self, record: &Arc<Record>) -> Self::Handle {
        let mut horizon = self.get();
        horizon.count += 1;
        let handle = (record.progress.due.max(horizon.now), horizon.count);
        horizon.armed.insert(handle, Arc::clone(record));
        handle
    }

    fn disarm(&mut self, handle: Self::Handle) {
        self.get().armed.remove(&handle);
    }

    fn recheck_at(&mut self, due: DueTime) {
        self.get().recheck_at = Some(due);
    }

    fn recheck_after(&mut self, delay: Duration) {
        self.get().recheck_after = Some(delay);
    }
}

/// A reply that may have arrived.
pub(crate) struct Coming<T>(tokio::sync::oneshot::Receiver<Answered<T>>);

impl<T> Coming<T> {
    pub(crate) fn get(mut self) -> Answered<T> {
        self.0.try_recv().expect("a reply in the turn")
    }
}

pub(crate) struct World {
    /// The disk in memory, unless the timers are in files.
    pub(crate) disk: MemoryDisk,
    pub(super) files: Option<tempfile::TempDir>,
    pub(crate) config: LedgerConfig,
    pub(crate) ledger: Ledgers<FakeHorizon>,
    pub(crate) horizon: FakeHorizon,
    pub(crate) wall: DueTime,
    pub(crate) time: Duration,
    /// Unknown routes.
    pub(crate) unknown: &'static [&'static str],
    /// The retry policy of all routes.
    pub(crate) retry: RetryPolicy,
    /// Requests at the front of the next group.
    ahead: Vec<Request>,
    names: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(LedgerConfig::default())
    }

    pub(crate) fn holding(loaded: usize) -> Self {
        Self::with(LedgerConfig { loaded, ..LedgerConfig::default() })
    }

    /// Creates a world with an embedded store.
    pub(crate) fn in_files(loaded: usize) -> Self {
        Self::on(Some(tempfile::tempdir().unwrap()), LedgerConfig { loaded, ..LedgerConfig::default() })
    }

    fn with(config: LedgerConfig) -> Self {
        Self::on(None, config)
    }

    fn on(files: Option<tempfile::TempDir>, config: LedgerConfig) -> Self {
        let disk = MemoryDisk::new();
        let horizon = FakeHorizon::default();
        let ledger = open(store(&disk, files.as_ref()), &config, &horizon, &[], RetryPolicy::default());
        let (wall, time) = (DueTime::MIN, Duration::ZERO);
        let mut world = Self {
            disk,
            files,
            config,
            ledger,
            horizon,
            wall,
            time,
            unknown: &[],
            retry: RetryPolicy::default(),
            ahead: vec![],
            names: 0,
        };
        world.recheck();
        world
    }

    /// Crashes the process, and starts another one on the same disk.
    pub(crate) fn crash(&mut self) {
        self.disk.power_off();
        self.reopen();
    }

    /// Closes the ledger, and starts another one on the same disk.
    pub(crate) fn restart(&mut self) {
        self.ask(|answer| Request::Close { answer }).unwrap();
        self.reopen();
    }

    /// Starts another ledger; the test calls `maintain`.
    pub(crate) fn reopen_quietly(&mut self) {
        self.horizon = FakeHorizon::default();
        self.horizon.get().now = self.wall;
        // The files cannot be opened twice.
        self.ledger.store = Box::new(Closed);
        self.ledger =
            open(store(&self.disk, self.files.as_ref()), &self.config, &self.horizon, self.unknown, self.retry);
    }

    pub(crate) fn reopen(&mut self) {
        self.reopen_quietly();
        self.recheck();
    }

    pub(crate) fn now(&self) -> Reading {
        Reading { wall: self.wall, time: self.time }
    }

    /// Advances both clocks.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.time += Duration::from_millis(millis);
        self.set_wall(self.wall.as_millis() + millis);
    }

    pub(crate) fn set_wall(&mut self, millis: u64) {
        self.wall = at(millis);
        self.horizon.get().now = self.wall;
    }

    pub(crate) fn recheck(&mut self) {
        self.turn(vec![Request::Recheck]);
    }

    /// Handles all requests in one group, or as few as possible, and all work that follows.
    pub(crate) fn turn(&mut self, requests: Vec<Request>) {
        let ahead = std::mem::take(&mut self.ahead);
        let mut requests: VecDeque<_> = ahead.into_iter().chain(requests).collect();
        let (now, mut replies) = (self.now(), Replies::default());
        loop {
            self.ledger.commit(&|| now, &mut requests, &mut replies);
            replies.send(|copy| copy());
            let has_more = self.ledger.maintain(now);
            let most = self.config.loaded.max(self.in_flight());
            assert!(self.ledger.only().table.len() <= most, "{} in memory", self.ledger.only().table.len());
            if !has_more && requests.is_empty() {
                return;
            }
        }
    }

    /// Adds requests at the front of the next group.
    pub(crate) fn before_the_next_group(&mut self, requests: Vec<Request>) {
        self.ahead = requests;
    }

    /// Lets the ledger load without writing.
    pub(crate) fn maintain(&mut self) {
        let now = self.now();
        self.ledger.maintain(now);
    }

    /// Simulates rejections until the next group is written before pending internal changes.
    pub(crate) fn settle_late(&mut self) {
        let rejected = Arc::new(StoreError::Rejected(std::io::ErrorKind::StorageFull.into()));
        self.ledger.only().health = Health::Rejecting(Trouble::after(None, rejected, self.time));
        for number in 0..1000 {
            self.ledger
                .only()
                .internal_changes
                .put_back(Change::EndClaim { number: u64::MAX - number }, InternalChange::Bookkeeping);
        }
    }

    /// Returns the number of claims in the store that have not ended.
    pub(crate) fn open_claims(&mut self) -> usize {
        let lease = self.ledger.store.acquire(0).unwrap();
        self.ledger.only().fence = lease.fence;
        lease.claims.len()
    }

    /// Returns the number of records that cannot be evicted.
    fn in_flight(&mut self) -> usize {
        self.ledger.only().table.busy()
    }

    pub(crate) fn ask<T: Send + 'static>(&mut self, request: impl FnOnce(Answer<T>) -> Request) -> Answered<T> {
        let (request, coming) = coming(request);
        self.turn(vec![request]);
        coming.get()
    }

    pub(crate) fn record(&mut self, due: u64) -> Record {
        self.names += 1;
        Record {
            id: DurableId::from_parts(0, at(due), self.names.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            progress: RecordState::first(at(due)),
            sequence: 0,
            route: "route".into(),
            message_type: "type".into(),
            message_version: 1,
            key: None,
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: self.names.to_be_bytes().into(),
        }
    }

    pub(crate) fn schedule_record(&mut self, record: Record, on_key: OnKey) -> Answered<Scheduled> {
        self.ask(|answer| Request::Schedule { record: Arc::new(record), on_key, answer })
    }

    pub(crate) fn schedule(&mut self, due: u64) -> DurableId {
        let record = self.record(due);
        let id = record.id;
        assert_eq!(self.schedule_record(record, OnKey::KeepExisting).unwrap(), Scheduled::Created);
        id
    }

    /// Schedules a timer that the store rejects.
    pub(crate) fn schedule_record_rejected(&mut self, due: u64) -> DurableId {
        let record = self.record(due);
        let id = record.id;
        assert!(self.schedule_record(record, OnKey::KeepExisting).is_err());
        id
    }

    /// Returns the log events since the last call.
    pub(crate) fn notes(&mut self) -> Vec<Note> {
        self.ledger.take_notes()
    }

    pub(crate) fn cancel(&mut self, id: DurableId) -> Answered<Cancellation> {
        self.ask(|answer| Request::Cancel { id, answer })
    }

    pub(crate) fn reschedule(&mut self, id: DurableId, due: u64) -> Answered<Rescheduling> {
        self.ask(|answer| Request::Reschedule { id, due: at(due), answer })
    }

    pub(crate) fn claim(&mut self, ids: &[DurableId]) -> Vec<Arc<Record>> {
        self.ask(|answer| Request::Claim { ids: ids.to_vec(), answer }).unwrap()
    }

    pub(crate) fn end(&mut self, record: &Record, verdict: Verdict) {
        self.turn(vec![Request::Ended { id: record.id, progress: record.progress, verdict }]);
    }

    /// Returns the records reported by now, in order.
    pub(crate) fn due(&mut self) -> Vec<Arc<Record>> {
        let is_time = self.horizon.get().recheck_at.is_some_and(|look| look <= self.wall);
        if is_time {
            self.horizon.get().recheck_at = None;
            self.recheck();
        }
        let mut horizon = self.horizon.get();
        let now = horizon.now;
        let later = horizon.armed.split_off(&(now.saturating_add(Duration::from_millis(1)), 0));
        std::mem::replace(&mut horizon.armed, later).into_values().collect()
    }

    /// Delivers reported records successfully until there are none, and returns them.
    pub(crate) fn deliver(&mut self) -> Vec<Arc<Record>> {
        let mut delivered = vec![];
        loop {
            let ids: Vec<_> = self.due().iter().map(|record| record.id).collect();
            if ids.is_empty() {
                return delivered;
            }
            let cleared = self.claim(&ids);
            for record in &cleared {
                assert!(record.progress.due <= self.wall, "never early");
            }
            self.turn(cleared.iter().map(|record| complete(record)).collect());
            delivered.extend(cleared);
        }
    }

    /// Advances from event to event up to this time, and returns the deliveries with their times.
    pub(crate) fn run_to(&mut self, millis: u64) -> Vec<(u64, DurableId, u32)> {
        let mut log = vec![];
        loop {
            let delivered = self.deliver();
            log.extend(delivered.iter().map(|record| (self.wall.as_millis(), record.id, record.progress.attempt)));
            let next = self.next_event().filter(|next| *next <= at(millis));
            match next {
                Some(next) if next > self.wall => self.pass(next.as_millis() - self.wall.as_millis()),
                _ if self.wall < at(millis) => self.pass(millis - self.wall.as_millis()),
                _ => return log,
            }
        }
    }

    fn next_event(&self) -> Option<DueTime> {
        let horizon = self.horizon.get();
        horizon.armed.keys().next().map(|(due, _)| *due).into_iter().chain(horizon.recheck_at).min()
    }

    pub(crate) fn counts(&mut self) -> Counts {
        self.ask(|answer| Request::Counts { exact: false, answer }).unwrap()
    }

    pub(crate) fn counters(&self) -> DurableCounters {
        self.ledger.counters()
    }

    pub(crate) fn loaded(&mut self) -> usize {
        self.ledger.only().table.len()
    }
}

pub(crate) fn complete(record: &Record) -> Request {
    Request::Ended { id: record.id, progress: record.progress, verdict: Verdict::Complete }
}

/// Creates a request with its pending reply.
pub(crate) fn coming<T>(request: impl FnOnce(Answer<T>) -> Request) -> (Request, Coming<T>) {
    let (answer, receiver) = Answer::awaited();
    (request(answer), Coming(receiver))
}

fn store(disk: &MemoryDisk, files: Option<&tempfile::TempDir>) -> Box<dyn TimerStore> {
    match files {
        Some(files) => Box::new(EmbeddedStore::open(files.path()).unwrap()),
        None => Box::new(disk.open()),
    }
}

fn open(
    store: Box<dyn TimerStore>,
    config: &LedgerConfig,
    horizon: &FakeHorizon,
    unknown: &'static [&'static str],
    retry: RetryPolicy,
) -> Ledgers<FakeHorizon> {
    let policy_of = Arc::new(move |route: &str, _: &str| (!unknown.contains(&route)).then_some(retry));
    let horizon = horizon.clone();
    Ledgers::open(store, Node::default(), config.clone(), policy_of, move || horizon.clone()).unwrap()
}

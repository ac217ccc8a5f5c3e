//! Tests of the committer with many callers and one store.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use schemes::random::Random;
use support::Gate;

use super::*;
use crate::store::{
    BackUp, Beat, Claim, Counts, Delivery, Filter, Found, Look, Looking, MemoryDisk, MemoryStore, NewTimer, Next,
    NodeInfo, OnKey, Page, Placed, Progress, Query, Record, Served, Suspects,
};
use crate::{DueTime, DurableId};

fn at(millis: u64) -> DueTime {
    DueTime::from_millis(millis).unwrap()
}

/// A clock that the test moves: milliseconds, the same for wall-clock and monotonic time.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

/// Returns the parts of a committer, and its reports.
fn setup(mut store: impl Store, hands: &Hands) -> (Setup, Receiver<Report>) {
    let (route, message_type) = ("route".into(), "type".into());
    let served = vec![Served { index: 0, route, message_type, version: 1, max_attempts: 3 }];
    store.join(&NodeInfo { name: String::new(), serves: Filter { served } }, DueTime::MIN).unwrap();
    let (reported, reports) = channel();
    let reported = Mutex::new(reported);
    let hands = hands.clone();
    let setup = Setup {
        store: Box::new(store),
        routes: Arc::default(),
        claimed: Vec::new(),
        group: 4096,
        clock: Arc::new(move || {
            let millis = hands.0.load(Ordering::SeqCst);
            Reading { wall: at(millis), time: Duration::from_millis(millis) }
        }),
        // The test may have ended.
        listener: Arc::new(move |report| _ = reported.lock().unwrap().send(report)),
        name: "T".to_owned(),
    };
    (setup, reports)
}

fn threaded(disk: &MemoryDisk) -> (Committer, Receiver<Report>) {
    let (setup, reports) = setup(disk.open(), &Hands::default());
    (Committer::start(setup, false).unwrap(), reports)
}

fn record(due: u64) -> Record {
    Record {
        id: DurableId::new(at(due)),
        progress: Progress::first(at(due)),
        route: "route".into(),
        message_type: "type".into(),
        message_version: 1,
        key: None,
        repeat: None,
        keep_key: None,
        max_attempts: None,
        retry: None,
        headers: Default::default(),
        payload_codec: None,
        payload: Arc::new([1, 2, 3]),
    }
}

fn put(record: Record) -> Op {
    Op::Put(vec![NewTimer { record: Arc::new(record), on_key: OnKey::KeepExisting }])
}

/// Puts a timer and waits for the reply.
fn put_one(committer: &Committer, due: u64) -> DurableId {
    let new = record(due);
    let id = new.id;
    assert!(is_created(&block_on(committer.change(put(new)))));
    id
}

fn claim(id: DurableId) -> Request {
    Op::Claim(Claim { ids: vec![id], suspects: Suspects::Left }).into()
}

fn is_created(outcome: &Answered<Outcome>) -> bool {
    matches!(outcome, Ok(Outcome::Put(placed)) if matches!(placed[..], [Placed::Created { .. }]))
}

/// Runs a future on this thread, without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

fn counts(committer: &Committer) -> Answered<Counts> {
    block_on(committer.read(|reads| reads.counts(None)))
}

fn pending(committer: &Committer) -> u64 {
    counts(committer).unwrap().pending
}

fn close(committer: &Committer) -> Answered<()> {
    let (answer, answered) = oneshot::channel();
    committer.submit(Request::Close(answer));
    block_on(reply(answered))
}

/// Makes a request without waiting for the reply.
fn begin<T, F: Future<Output = T>>(request: F) -> std::pin::Pin<Box<F>> {
    let mut request = Box::pin(request);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    request
}

/// Waits until a commit is held.
fn wait_for_commit(gate: &Gate) {
    while gate.waiting() == 0 {
        std::thread::yield_now();
    }
}

/// Returns the claimed records of the next report of a claim.
fn claimed(reports: &Receiver<Report>) -> Vec<Arc<Record>> {
    let claims = reports.iter().map(|report| report.claims).find(|claims| !claims.is_empty()).unwrap();
    let records = |claimed: Claimed| match claimed.result.unwrap() {
        Outcome::Claimed { records, .. } => records,
        other => panic!("{other:?}"),
    };
    claims.into_iter().flat_map(records).collect()
}

fn ended(reports: &Receiver<Report>) -> Vec<(Delivery, Outcome)> {
    let ended = reports.iter().map(|report| report.ended).find(|ended| !ended.is_empty()).unwrap();
    ended.into_iter().map(|end| (end.delivery, end.outcome)).collect()
}

#[test]
fn requests_that_come_during_a_commit_share_the_next_one() {
    let (gate, disk) = (Gate::default(), MemoryDisk::new());
    let (committer, _reports) = behind(&gate, &disk, Oddity::None);
    pending(&committer);
    let before = disk.commits();
    let held = gate.shut();
    let mut asked = vec![begin(committer.change(put(record(0))))];
    wait_for_commit(&gate);
    asked.extend((1..100).map(|due| begin(committer.change(put(record(due))))));
    drop(held);
    assert!(asked.into_iter().all(|request| is_created(&block_on(request))));
    assert_eq!(disk.commits() - before, 2);
    assert_eq!(pending(&committer), 100);
}

#[test]
fn a_full_queue_holds_up_callers_and_no_deliveries() {
    let (gate, disk) = (Gate::default(), MemoryDisk::new());
    let (committer, reports) = behind(&gate, &disk, Oddity::None);
    let Runner::Threads(queues) = &committer.shared.runner else { panic!("it has a thread") };
    let queue = &queues.requests;
    let held = gate.shut();
    let asked: Vec<_> = (0..MAX_REQUESTS + 10).map(|due| begin(committer.change(put(record(due as u64))))).collect();
    assert_eq!(queue.permits(), 0);
    committer.submit(Request::Beat);
    drop(held);
    assert!(asked.into_iter().all(|request| is_created(&block_on(request))));
    assert!(reports.iter().any(|report| report.beats.len() == 1));
    assert_eq!(pending(&committer), MAX_REQUESTS as u64 + 10);
    assert_eq!(queue.permits(), MAX_REQUESTS);
}

/// Else a node that schedules much would lose its lease.
#[test]
fn a_beat_waits_for_the_commit_under_way_and_for_no_other() {
    let (gate, calls) = (Gate::default(), Arc::<Mutex<Vec<isize>>>::default());
    let (committer, reports) = behind(&gate, &MemoryDisk::new(), Oddity::Notes(Arc::clone(&calls)));
    let held = gate.shut();
    let mut asked = vec![begin(committer.change(put(record(0))))];
    wait_for_commit(&gate);
    asked.extend((1..10_000).map(|due| begin(committer.change(put(record(due))))));
    for _ in 0..2 {
        committer.submit(Request::Beat);
    }
    drop(held);
    assert!(asked.into_iter().all(|request| is_created(&block_on(request))));
    assert_eq!(*calls.lock().unwrap(), [1, 0, 4096, 4096, 1807]);
    // And between the commits of requests that were taken together; and if there is no other request.
    calls.lock().unwrap().clear();
    let held = gate.shut();
    let asked: Vec<_> = (0..10_000).map(|due| begin(committer.change(put(record(due))))).collect();
    wait_for_commit(&gate);
    committer.submit(Request::Beat);
    drop(held);
    assert!(asked.into_iter().all(|request| is_created(&block_on(request))));
    let commits = std::mem::take(&mut *calls.lock().unwrap());
    assert_eq!(commits.iter().position(|of| *of == 0), Some(1), "{commits:?}");
    committer.submit(Request::Beat);
    assert_eq!(reports.iter().filter(|report| !report.beats.is_empty()).take(3).count(), 3);
    assert_eq!(*calls.lock().unwrap(), [0]);
}

/// Callers come and go on many threads while it is closed at a random moment.
#[test]
fn any_close_answers_requests_once_and_keeps_acknowledged_ones() {
    for seed in 0..30 {
        let disk = MemoryDisk::new();
        let (committer, _reports) = threaded(&disk);
        let kept = Mutex::new(HashSet::new());
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (committer, kept, done) = (committer.clone(), &kept, &done);
                scope.spawn(move || {
                    let mut random = Random::new(seed * 10 + thread);
                    let mut mine = vec![];
                    for _ in 0..500 {
                        let new = record(1_000_000 + random.below(100));
                        let id = new.id;
                        match block_on(committer.change(put(new))) {
                            Ok(_) => mine.push(id),
                            Err(error) => assert!(matches!(*error, StoreError::Closed)),
                        }
                        if random.one_in(3)
                            && let Some(id) = mine.pop()
                        {
                            match block_on(committer.change(Op::Cancel(id))) {
                                Ok(outcome) => assert_eq!(outcome, Outcome::Deleted),
                                Err(_) => mine.push(id),
                            }
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    kept.lock().unwrap().extend(mine);
                });
            }
            let (committer, done) = (committer.clone(), &done);
            scope.spawn(move || {
                while done.load(Ordering::SeqCst) < seed * 60 {
                    std::thread::yield_now();
                }
                close(&committer).unwrap();
            });
        });
        assert!(matches!(*close(&committer).unwrap_err(), StoreError::Closed));
        let mut store = disk.open();
        for id in kept.into_inner().unwrap() {
            assert!(Reads::get(&mut store, id).unwrap().is_some(), "{id} was acknowledged");
        }
    }
}

/// The result of a claim reaches the deliveries later than the store's thread.
#[test]
fn a_sweep_after_a_failed_sync_releases_only_the_unknown_claim() {
    let disk = MemoryDisk::new();
    let (committer, reports) = threaded(&disk);
    let [known, unknown] = [(); 2].map(|()| put_one(&committer, 0));
    committer.submit(claim(known));
    let [delivery] = claimed(&reports).iter().map(|record| record.delivery()).collect::<Vec<_>>()[..] else {
        panic!("one is claimed")
    };
    disk.fail_next_fsync(crate::store::FsyncOutcome::All);
    committer.submit(claim(unknown));
    let failed = reports.iter().flat_map(|report| report.claims).next().unwrap();
    assert!(matches!(*failed.result.err().unwrap(), StoreError::Unknown(_)));
    committer.submit(claim(unknown));
    assert!(claimed(&reports).is_empty(), "it is claimed already");
    committer.submit(Request::Beat);
    let beat = reports.iter().find_map(|report| report.beats.into_iter().next()).unwrap();
    assert!(beat.looks_begin_anew && beat.lost.is_empty(), "{beat:?}");
    committer.submit(claim(known));
    assert!(claimed(&reports).is_empty());
    committer.submit(claim(unknown));
    assert_eq!(claimed(&reports)[0].progress.attempt, 2);
    committer.submit(Op::End(delivery, Next::Delete));
    assert_eq!(ended(&reports), [(delivery, Outcome::Ended { due: None })]);
}

#[test]
fn an_unwritten_end_is_kept_until_written_or_closed() {
    let (disk, hands) = (MemoryDisk::new(), Hands::default());
    let (setup, reports) = setup(disk.open(), &hands);
    let committer = Committer::start(setup, false).unwrap();
    for (closes, millis) in [(false, 0), (true, 1000)] {
        let id = put_one(&committer, 0);
        committer.submit(claim(id));
        let delivery = claimed(&reports)[0].delivery();
        disk.reject_commits(2);
        committer.submit(Op::End(delivery, Next::Delete));
        assert!(reports.iter().next().unwrap().is_behind);
        // Without a request.
        hands.set(millis + 100);
        assert!(reports.iter().next().unwrap().is_behind, "the disk is still full");
        if closes {
            close(&committer).unwrap();
            assert_eq!(Reads::get(&mut disk.open(), id).unwrap(), None);
        } else {
            hands.set(millis + 200);
            assert_eq!(ended(&reports), [(delivery, Outcome::Ended { due: None })]);
        }
    }
}

/// After an outage they are many. Else a commit of all of them could exceed its time again and again.
#[test]
fn ends_that_wait_are_written_in_groups_beside_new_requests() {
    let (disk, hands, calls) = (MemoryDisk::new(), Hands::default(), Arc::<Mutex<Vec<_>>>::default());
    let store = Odd(disk.open(), Oddity::Notes(Arc::clone(&calls)), Gate::default());
    let (setup, reports) = setup(store, &hands);
    let committer = Committer::start(Setup { group: 4, ..setup }, true).unwrap();
    for closes in [false, true] {
        let deliveries: Vec<_> = (0..19)
            .map(|_| {
                committer.submit(claim(put_one(&committer, 0)));
                claimed(&reports)[0].delivery()
            })
            .collect();
        disk.reject_commits(19);
        deliveries.iter().for_each(|delivery| committer.submit(Op::End(*delivery, Next::Delete)));
        calls.lock().unwrap().clear();
        if closes {
            close(&committer).unwrap();
            assert_eq!(*calls.lock().unwrap(), [8, 8, 3]);
        } else {
            hands.set(100);
            (0..5).for_each(|_| _ = put_one(&committer, 0));
            assert_eq!(*calls.lock().unwrap(), [5, 4, 4, 4, 3, 1, 1, 1, 1], "the first request has the others follow");
            assert_eq!(reports.try_iter().map(|report| report.ended.len()).sum::<usize>(), 19);
        }
    }
    assert_eq!(Reads::counts(&mut disk.open(), None).unwrap().pending, 5);
}

/// Returns a committer on the caller's thread whose store refuses ends, alone or with their commit, while there is a number of them.
fn refusing(hands: &Hands, is_alone: bool) -> (Committer, Receiver<Report>, Arc<Mutex<Option<u32>>>) {
    let refused = Arc::default();
    let oddity = Oddity::Refuses(Arc::clone(&refused), is_alone);
    let (setup, reports) = setup(Odd(MemoryStore::new(), oddity, Gate::default()), hands);
    (Committer::start(setup, true).unwrap(), reports, refused)
}

/// They and their messages stay in memory.
#[test]
fn nothing_is_claimed_beside_many_refused_ends() {
    for is_alone in [true, false] {
        let hands = Hands::default();
        let (committer, reports, refused) = refusing(&hands, is_alone);
        let claim_one = || {
            committer.submit(claim(put_one(&committer, 0)));
            reports.try_iter().flat_map(|report| report.claims).last().unwrap().result
        };
        let delivery = || {
            let Ok(Outcome::Claimed { records, .. }) = claim_one() else { panic!() };
            records[0].delivery()
        };
        let deliveries: Vec<_> = (0..writer::MAX_REFUSED).map(|_| delivery()).collect();
        *refused.lock().unwrap() = Some(0);
        for (number, end) in deliveries.into_iter().enumerate() {
            assert!(claim_one().is_ok(), "beside {number}");
            committer.submit(Op::End(end, Next::Delete));
        }
        assert!(matches!(claim_one(), Err(error) if error.is_of_the_store()));
        *refused.lock().unwrap() = None;
        hands.set(100);
        put_one(&committer, 0);
        assert!(claim_one().is_ok());
    }
}

/// A disk may have room for all but large dead letters.
#[test]
fn ends_that_fail_their_commit_keep_no_other_from_the_store() {
    for number in [1, 2, 16] {
        let (disk, hands, guilty) = (MemoryDisk::new(), Hands::default(), Arc::<Mutex<HashSet<_>>>::default());
        let (setup, reports) = setup(Odd(disk.open(), Oddity::Rejects(Arc::clone(&guilty)), Gate::default()), &hands);
        let committer = Committer::start(setup, true).unwrap();
        let claim_one = || {
            committer.submit(claim(put_one(&committer, 0)));
            claimed(&reports)[0].delivery()
        };
        let deliveries: Vec<_> = (0..writer::MAX_REFUSED).map(|_| claim_one()).collect();
        guilty.lock().unwrap().extend(deliveries.iter().skip(7).take(number).map(|delivery| delivery.id));
        disk.reject_commits(deliveries.len() as u64);
        deliveries.iter().for_each(|delivery| committer.submit(Op::End(*delivery, Next::Delete)));
        for millis in (0..30_000).step_by(10) {
            hands.set(millis);
            committer.submit(Request::Retire);
        }
        let ended: usize = reports.try_iter().map(|report| report.ended.len()).sum();
        assert_eq!(ended, deliveries.len() - number);
        claim_one();
    }
}

/// Its reason concerns no other timer.
#[test]
fn an_end_that_the_store_refuses_is_tried_seldom_and_holds_up_nothing() {
    let hands = Hands::default();
    let (committer, reports, refused) = refusing(&hands, true);
    let delivery = || {
        let id = put_one(&committer, 0);
        committer.submit(claim(id));
        claimed(&reports)[0].delivery()
    };
    let [first, second] = [delivery(), delivery()];
    *refused.lock().unwrap() = Some(0);
    committer.submit(Op::End(first, Next::Delete));
    for (millis, tries) in [(99, 1), (100, 2), (60_000, 30)] {
        (hands.0.load(Ordering::SeqCst)..=millis).for_each(|millis| {
            hands.set(millis);
            committer.submit(Request::Retire);
        });
        assert_eq!(*refused.lock().unwrap(), Some(tries), "after {millis} ms");
    }
    put_one(&committer, 0);
    assert!(reports.try_iter().all(|report| report.ended.is_empty() && !report.is_behind));
    *refused.lock().unwrap() = None;
    hands.set(65_000);
    committer.submit(Request::Retire);
    assert_eq!(ended(&reports), [(first, Outcome::Ended { due: None })]);
    *refused.lock().unwrap() = Some(0);
    committer.submit(Op::End(second, Next::Delete));
    assert!(matches!(*close(&committer).unwrap_err(), StoreError::Rejected(_)));
}

/// A stop does not wait for a claim. Its handler never begins.
#[test]
fn a_claim_that_a_stop_overtakes_uses_up_no_attempt() {
    for (is_stop, used) in [(true, 0), (false, 1)] {
        let disk = MemoryDisk::new();
        let (committer, reports) = threaded(&disk);
        let id = put_one(&committer, 0);
        if is_stop {
            committer.submit(Request::Retire);
        }
        committer.submit(claim(id));
        assert_eq!(claimed(&reports).len(), 1);
        close(&committer).unwrap();
        let row = disk.open().get(id).unwrap().unwrap().record;
        assert_eq!((row.progress.attempt, row.progress.used), (1, used));
    }
}

/// The close gives back the later one, too.
#[test]
fn an_end_whose_row_is_another_delivery_by_now_is_of_no_later_claim() {
    let disk = MemoryDisk::new();
    let (setup, reports) = setup(disk.open(), &Hands::default());
    let committer = Committer::start(setup, true).unwrap();
    let id = put_one(&committer, 0);
    committer.submit(claim(id));
    let first = claimed(&reports).remove(0);
    assert_eq!(block_on(committer.change(Op::Cancel(id))).unwrap(), Outcome::InProgress);
    let found = Found { record: Arc::clone(&first), state: crate::DurableState::Pending };
    assert!(is_created(&block_on(committer.change(Op::Restore(Arc::new(found))))));
    committer.submit(claim(id));
    assert_ne!(claimed(&reports)[0].delivery(), first.delivery());
    committer.submit(Op::End(first.delivery(), Next::Delete));
    committer.submit(Request::Retire);
    close(&committer).unwrap();
    let found = Reads::get(&mut disk.open(), id).unwrap().unwrap();
    assert_eq!(found.record.progress.used, first.progress.used);
}

#[test]
fn without_callers_the_thread_ends_after_the_pending_requests() {
    let (gate, disk) = (Gate::default(), MemoryDisk::new());
    let (committer, _reports) = behind(&gate, &disk, Oddity::None);
    let held = gate.shut();
    let answers: Vec<_> = (0..10)
        .map(|due| {
            let (answer, answered) = oneshot::channel();
            committer.shared.push(Request::Change { op: put(record(due)), answer: Some(answer) });
            answered
        })
        .collect();
    drop(committer);
    drop(held);
    assert!(answers.into_iter().all(|answer| is_created(&block_on(answer).unwrap())));
    assert_eq!(disk.open().counts(None).unwrap().pending, 10);
}

#[test]
fn inline_everything_is_done_when_the_call_returns() {
    let (hands, disk) = (Hands::default(), MemoryDisk::new());
    let (setup, reports) = setup(disk.open(), &hands);
    let committer = Committer::start(setup, true).unwrap();
    let new = record(50);
    let id = new.id;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let scheduled = std::pin::pin!(committer.change(put(new))).poll(&mut context);
    assert!(matches!(scheduled, std::task::Poll::Ready(scheduled) if is_created(&scheduled)));
    hands.set(50);
    committer.submit(claim(id));
    assert_eq!(reports.try_iter().map(|report| report.claims.len()).sum::<usize>(), 1);
    close(&committer).unwrap();
    assert!(matches!(*close(&committer).unwrap_err(), StoreError::Closed));
}

/// A store with a reader, or without one that it should have, or that cannot be read, whose commits panic, whose rows others
/// lock, that refuses ends, or that notes its calls. Commits pass a gate.
struct Odd(MemoryStore, Oddity, Gate);

enum Oddity {
    None,
    HasReader,
    GivesNoReader,
    CannotBeRead,
    IsDamaged,
    Panics,
    Locks(Arc<Mutex<HashSet<DurableId>>>),
    /// Rejects each commit with an end of one of these timers.
    Rejects(Arc<Mutex<HashSet<DurableId>>>),
    /// The number of refused ends, and whether each is refused alone. `None`: all are accepted.
    Refuses(Arc<Mutex<Option<u32>>>, bool),
    /// The number of changes of each commit, 0 for a beat; -1 at the beginning of a look, -2 at its end.
    Notes(Arc<Mutex<Vec<isize>>>),
}

impl Reads for Odd {
    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        if matches!(self.1, Oddity::CannotBeRead) {
            return Err(StoreError::Unavailable("no row".to_owned()));
        }
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

    fn pauses(&mut self) -> Result<Vec<crate::Pause>, StoreError> {
        self.0.pauses()
    }
}

impl Store for Odd {
    fn join(&mut self, node: &NodeInfo, now: DueTime) -> Result<Beat, StoreError> {
        self.0.join(node, now)
    }

    fn beat(&mut self, running: &[Delivery], now: DueTime) -> Result<Beat, StoreError> {
        if let Oddity::Notes(calls) = &self.1 {
            calls.lock().unwrap().push(0);
        }
        self.0.beat(running, now)
    }

    fn apply(&mut self, ops: &[Op], now: DueTime) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
        self.2.pass();
        let locked = match &self.1 {
            Oddity::Panics => panic!("a store with a bug"),
            Oddity::Locks(locked) => locked.lock().unwrap().clone(),
            Oddity::Notes(calls) => {
                calls.lock().unwrap().push(ops.len().cast_signed());
                HashSet::new()
            }
            _ => HashSet::new(),
        };
        let is_locked = |op: &Op| match op {
            Op::End(Delivery { id, .. }, _) | Op::Cancel(id) => locked.contains(id),
            _ => false,
        };
        let free: Vec<Op> = ops.iter().filter(|op| !is_locked(op)).cloned().collect();
        if let Oddity::Rejects(guilty) = &self.1
            && let guilty = guilty.lock().unwrap()
            && ops.iter().any(|op| matches!(op, Op::End(Delivery { id, .. }, _) if guilty.contains(id)))
        {
            return Err(StoreError::Rejected(std::io::Error::other("it needs more room than the others")));
        }
        if let Oddity::Refuses(refused, is_alone) = &self.1
            && matches!(ops, [Op::End(..)])
            && let Some(number) = &mut *refused.lock().unwrap()
        {
            *number += 1;
            let error = StoreError::Rejected(std::io::Error::other("no"));
            return if *is_alone { Ok(vec![Err(error)]) } else { Err(error) };
        }
        let mut outcomes = self.0.apply(&free, now)?.into_iter();
        Ok(ops
            .iter()
            .map(|op| if is_locked(op) { Err(StoreError::Locked) } else { outcomes.next().unwrap() })
            .collect())
    }

    fn look(&mut self, look: &Look, now: DueTime) -> Looking {
        let looking = self.0.look(look, now);
        if matches!(self.1, Oddity::IsDamaged) {
            return Box::new(|| Err(StoreError::Failed(std::io::Error::other("damaged"))));
        }
        let Oddity::Notes(calls) = &self.1 else { return looking };
        calls.lock().unwrap().push(-1);
        let calls = Arc::clone(calls);
        Box::new(move || {
            calls.lock().unwrap().push(-2);
            looking()
        })
    }

    fn reader(&mut self) -> Result<Option<Box<dyn Reads>>, StoreError> {
        match self.1 {
            Oddity::HasReader => Ok(Some(Box::new(self.0.disk().open()))),
            Oddity::GivesNoReader => Err(StoreError::Unavailable("no reader".to_owned())),
            _ => Ok(None),
        }
    }

    fn back_up(&mut self, to: &Path) -> Result<BackUp, StoreError> {
        self.0.back_up(to)
    }
}

#[test]
fn changes_of_locked_rows_wait_and_hold_up_nothing() {
    let (disk, hands, locked) = (MemoryDisk::new(), Hands::default(), Arc::<Mutex<HashSet<_>>>::default());
    let (setup, reports) = setup(Odd(disk.open(), Oddity::Locks(Arc::clone(&locked)), Gate::default()), &hands);
    let committer = Committer::start(setup, false).unwrap();
    let [delivery, other] = [(); 2].map(|()| {
        let id = put_one(&committer, 0);
        committer.submit(claim(id));
        claimed(&reports)[0].delivery()
    });
    locked.lock().unwrap().extend([delivery.id, other.id]);
    for delivery in [delivery, other] {
        committer.submit(Op::End(delivery, Next::Delete));
    }
    let cancel = begin(committer.change(Op::Cancel(delivery.id)));
    for millis in [150, 300, 1099] {
        hands.set(millis);
        assert!(is_created(&block_on(committer.change(put(record(millis))))), "others go on");
    }
    hands.set(1300);
    assert!(matches!(*block_on(cancel).unwrap_err(), StoreError::Locked), "the caller hears of it");
    hands.set(60_000);
    assert!(is_created(&block_on(committer.change(put(record(1))))));
    assert!(reports.try_iter().all(|report| report.ended.is_empty() && !report.is_behind));
    locked.lock().unwrap().remove(&delivery.id);
    hands.set(60_200);
    // Without another request.
    assert_eq!(ended(&reports), [(delivery, Outcome::Ended { due: None })]);
    assert!(matches!(*close(&committer).unwrap_err(), StoreError::Locked), "one end is not written");
}

fn odd(disk: &MemoryDisk, oddity: Oddity) -> (Result<Committer, DurableBuildError>, Receiver<Report>) {
    let (setup, reports) = setup(Odd(disk.open(), oddity, Gate::default()), &Hands::default());
    (Committer::start(setup, false), reports)
}

/// Returns a committer whose commits pass a gate.
fn behind(gate: &Gate, disk: &MemoryDisk, oddity: Oddity) -> (Committer, Receiver<Report>) {
    let (setup, reports) = setup(Odd(disk.open(), oddity, gate.clone()), &Hands::default());
    (Committer::start(setup, false).unwrap(), reports)
}

#[test]
fn requests_fail_and_deliveries_learn_it_if_the_thread_dies() {
    let (committer, reports) = odd(&MemoryDisk::new(), Oddity::Panics);
    let committer = committer.unwrap();
    for due in 0..3 {
        let error = block_on(committer.change(put(record(due)))).unwrap_err();
        assert!(matches!(*error, StoreError::Closed));
    }
    assert!(reports.iter().any(|report| report.is_closed));
}

#[test]
fn queries_do_not_wait_for_commits_and_fail_after_the_close() {
    let gate = Gate::default();
    let (committer, _reports) = behind(&gate, &MemoryDisk::new(), Oddity::HasReader);
    block_on(committer.change(put(record(5)))).unwrap();
    let held = gate.shut();
    let second = record(6);
    let id = second.id;
    let asked = begin(committer.change(put(second)));
    wait_for_commit(&gate);
    assert_eq!(pending(&committer), 1);
    drop(held);
    block_on(asked).unwrap();
    assert!(block_on(committer.read(move |reads| reads.get(id))).unwrap().is_some(), "it sees all that was answered");
    // Also a query that is made when the close is answered.
    let (asks_again, (asked, answers)) = (committer.clone(), channel());
    struct AsksWhenWoken(Committer, Mutex<std::sync::mpsc::Sender<Answered<Counts>>>);
    impl std::task::Wake for AsksWhenWoken {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().send(counts(&self.0)).unwrap();
        }
    }
    let waker = Arc::new(AsksWhenWoken(asks_again, Mutex::new(asked))).into();
    let (answer, mut answered) = oneshot::channel();
    assert!(std::pin::pin!(&mut answered).poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    committer.submit(Request::Close(answer));
    assert!(matches!(*answers.recv().unwrap().unwrap_err(), StoreError::Closed));
}

#[test]
fn a_moved_timer_whose_row_cannot_be_read_is_looked_for() {
    let (committer, reports) = odd(&MemoryDisk::new(), Oddity::CannotBeRead);
    let committer = committer.unwrap();
    let id = put_one(&committer, 90_000);
    let look = |until| Look { after: None, until: at(until), filter: Arc::default(), limit: 1, share: None };
    committer.submit(Request::Look(look(10_000)));
    assert!(matches!(block_on(committer.change(Op::Move(id, at(10_001)))), Ok(Outcome::Moved(_))));
    assert!(matches!(block_on(committer.change(Op::Move(id, at(9_000)))), Ok(Outcome::Moved(_))));
    drop(committer);
    let from: Vec<_> = reports.iter().filter_map(|report| report.look_again_from).collect();
    assert_eq!(from, [at(9_000)], "the first move is beyond the look");
}

#[test]
fn a_resume_of_what_is_not_paused_has_no_look_begin_again() {
    let meters = Arc::new(DurableMeters::register("T"));
    let mut writer = Writer::new(Box::new(MemoryStore::new()), Arc::default(), Vec::new(), 4096, false, meters);
    let mut requests = VecDeque::from([Op::Resume(crate::PauseTarget::Route("route".into())).into()]);
    let mut replies = Replies::default();
    writer.turn(&|| Reading { wall: at(0), time: Duration::ZERO }, &mut requests, &mut replies);
    assert_eq!(replies.report.look_again_from, None);
}

/// A handler that has the reply to its end may end at once, and its end must not precede a look of that commit.
#[test]
fn a_report_precedes_the_replies_of_its_commit() {
    let (committer, reports) = threaded(&MemoryDisk::new());
    for _ in 0..100 {
        let pause = Op::Pause(crate::Pause::route("route"));
        assert!(matches!(block_on(committer.change(pause)), Ok(Outcome::Paused)));
        let report = reports.try_recv().expect("it was sent before the reply");
        assert_eq!(report.look_again_from, Some(DueTime::MIN));
    }
}

/// A turn with a new timer, its move to 9 s, and a look at the first 10 s.
fn turn_with_a_look(oddity: Oddity) -> Report {
    let (store, meters) =
        (Box::new(Odd(MemoryStore::new(), oddity, Gate::default())), Arc::new(DurableMeters::register("T")));
    let mut writer = Writer::new(store, Arc::default(), Vec::new(), 4096, false, meters);
    let new = record(90_000);
    let moved = Op::Move(new.id, at(9_000));
    let look = Look { after: None, until: at(10_000), filter: Arc::default(), limit: 1, share: None };
    let mut requests = VecDeque::from([put(new).into(), moved.into(), Request::Look(look)]);
    let mut replies = Replies::default();
    writer.turn(&|| Reading { wall: at(0), time: Duration::ZERO }, &mut requests, &mut replies);
    replies.report
}

#[test]
fn a_look_is_under_way_during_the_commit_of_its_turn() {
    let calls = Arc::<Mutex<Vec<_>>>::default();
    assert!(matches!(turn_with_a_look(Oddity::Notes(Arc::clone(&calls))).looked, Some(Ok(_))));
    assert_eq!(*calls.lock().unwrap(), [-1, 2, -2]);
}

#[test]
fn damage_that_a_look_meets_is_a_failure_of_the_store() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (setup, _reports) = setup(Odd(MemoryStore::new(), Oddity::IsDamaged, Gate::default()), &Hands::default());
    let committer = metrics::with_local_recorder(&recorder, || Committer::start(setup, true).unwrap());
    let failed = || actix_timers::scrape(|| value(&page, "store_failed{timer=\"T\"}"));
    assert_eq!(failed(), 0.0);
    committer.submit(Request::Look(Look {
        after: None,
        until: at(10_000),
        filter: Arc::default(),
        limit: 1,
        share: None,
    }));
    assert_eq!(failed(), 1.0);
}

#[test]
fn a_change_beside_a_look_is_reported_as_after_it() {
    assert_eq!(turn_with_a_look(Oddity::CannotBeRead).look_again_from, Some(at(9_000)));
}

/// The thread of the commits waits for the callers that it has just answered, not for their timers.
#[test]
fn a_batch_has_one_caller_and_deliveries_have_none() {
    let (store, meters) = (Box::new(MemoryStore::new()), Arc::new(DurableMeters::register("T")));
    let mut writer = Writer::new(store, Arc::default(), Vec::new(), 4096, true, meters);
    let batch = |timers| {
        let timers = (0..timers).map(|due| NewTimer { record: Arc::new(record(due)), on_key: OnKey::KeepExisting });
        Request::Change { op: Op::Put(timers.collect()), answer: Some(oneshot::channel().0) }
    };
    let mut replies = Replies::default();
    let mut requests = VecDeque::from([batch(100), claim(DurableId::new(at(5)))]);
    let places = writer.turn(&|| Reading { wall: at(0), time: Duration::ZERO }, &mut requests, &mut replies);
    assert_eq!((places, replies.callers()), (100, 1));
    let queue = queue::SharedQueue::default();
    let mut taken = VecDeque::from([batch(100), claim(DurableId::new(at(5))), claim(DurableId::new(at(6)))]);
    queue.push(claim(DurableId::new(at(7))));
    assert!(!queue.take_more(&mut taken, 2, Duration::ZERO), "one caller has come");
    queue.push(batch(1));
    assert!(queue.take_more(&mut taken, 2, Duration::from_secs(3600)), "two callers have come");
    assert_eq!(taken.len(), 5);
}

/// That one need not wait for a count of millions.
#[test]
fn the_thread_of_the_commits_counts_timers_if_no_other_does() {
    for (is_counting, counted) in [(true, 25), (false, 0)] {
        let (mut store, meters) = (MemoryStore::new(), Arc::new(DurableMeters::register("T")));
        let timers = (0..25).map(|due| NewTimer { record: Arc::new(record(due)), on_key: OnKey::KeepExisting });
        store.apply(&[Op::Put(timers.collect())], at(0)).unwrap();
        let mut writer =
            Writer::new(Box::new(store), Arc::default(), Vec::new(), 4096, is_counting, Arc::clone(&meters));
        writer.show(at(0));
        assert_eq!(meters.levels(|levels| levels.counts.pending), counted);
    }
}

#[test]
fn a_store_that_gives_no_reader_does_not_start() {
    let error = odd(&MemoryDisk::new(), Oddity::GivesNoReader).0.err().unwrap();
    let DurableBuildError::Store(error) = error else { panic!("{error}") };
    assert!(matches!(*error, StoreError::Unavailable(_)), "{error}");
}

/// Makes two queries that are taken together, of which the first calls a function, and waits for their thread to end.
fn two_queries_of(call: impl FnOnce(&queue::SharedQueue) + Send + 'static) -> [Answered<()>; 2] {
    let queries = Arc::new(queue::SharedQueue::default());
    let mut call = Some(call);
    let asked = [(); 2].map(|()| {
        let (answer, answered) = oneshot::channel();
        let (call, of_query) = (call.take(), Arc::clone(&queries));
        let query = move |_: &mut dyn Reads| -> request::Reply {
            call.into_iter().for_each(|call| call(&of_query));
            Box::new(move || drop(answer.send(Ok(()))))
        };
        queries.push(Request::Read(Box::new(query)));
        answered
    });
    let meters = Arc::new(DurableMeters::register("T"));
    let clock = Arc::new(|| Reading { wall: at(0), time: Duration::ZERO });
    let environment = Environment { clock, listener: Arc::new(|_| {}), meters };
    reading::start(Box::new(MemoryStore::new()), queries, &environment, false, "T").unwrap();
    asked.map(|answered| block_on(reply(answered)))
}

#[test]
fn the_end_of_the_store_rejects_queries_that_were_taken_before() {
    let answers = two_queries_of(queue::SharedQueue::close);
    assert!(matches!(&answers, [Ok(()), Err(why)] if matches!(**why, StoreError::Closed)), "{answers:?}");
}

#[test]
fn if_the_reader_dies_all_queries_fail() {
    let answers = two_queries_of(|_| panic!("a reader with a bug"));
    assert!(answers.iter().all(|answer| matches!(answer, Err(why) if matches!(**why, StoreError::Closed))));
}

fn value(page: &PrometheusHandle, name: &str) -> f64 {
    let (page, start) = (page.render(), format!("actix_timers_{name} "));
    page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

/// A page that asks each second, for example.
#[test]
fn timers_are_counted_beside_queries_without_a_pause() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (setup, _reports) = setup(Odd(MemoryStore::new(), Oddity::HasReader, Gate::default()), &Hands::default());
    let committer = metrics::with_local_recorder(&recorder, || Committer::start(setup, false)).unwrap();
    put_one(&committer, 0);
    let begun = std::time::Instant::now();
    loop {
        assert_eq!(pending(&committer), 1);
        committer.publish();
        if value(&page, "store_pending{timer=\"T\"}") == 1.0 {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "none is counted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_commit_that_does_not_end_is_seen_as_growing_lag() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (gate, hands) = (Gate::default(), Hands::default());
    let (setup, _reports) = setup(Odd(MemoryStore::new(), Oddity::None, gate.clone()), &hands);
    let committer = metrics::with_local_recorder(&recorder, || Committer::start(setup, false)).unwrap();
    pending(&committer);
    hands.set(1000);
    let held = gate.shut();
    let asked = begin(committer.change(put(record(5))));
    wait_for_commit(&gate);
    hands.set(8000);
    committer.publish();
    // It was made between the end of the previous request, at 0 or 1 s for the thread, and now.
    let lag = value(&page, "store_lag_seconds{timer=\"T\"}");
    assert!((7.0..=8.0).contains(&lag), "{lag}");
    drop(held);
    block_on(asked).unwrap();
    close(&committer).unwrap();
    committer.publish();
    assert_eq!(value(&page, "store_lag_seconds{timer=\"T\"}"), 0.0);
}

#[test]
fn events_are_counted_and_a_scrape_shows_them() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (disk, hands) = (MemoryDisk::new(), Hands::default());
    let (setup, _reports) = setup(disk.open(), &hands);
    let committer = metrics::with_local_recorder(&recorder, || Committer::start(setup, true).unwrap());
    let ask = |due| block_on(committer.change(put(record(due))));
    (0..3).for_each(|due| _ = ask(due).unwrap());
    disk.reject_commits(1);
    assert!(ask(9).is_err());
    let refused = || Err::<(), _>(StoreError::Unavailable("no".to_owned()));
    assert!(block_on(committer.read(move |_| refused())).is_err());
    hands.set(10_000);
    let copied = block_on(committer.back_up("nowhere".into()));
    assert!(matches!(*copied.unwrap_err(), StoreError::Unsupported(_)));
    let progress = crate::metrics::Progress {
        loaded: 3,
        in_flight: 1,
        first_due: Some(at(0)),
        known_until: at(12_000),
        paused: 1,
        is_paused: false,
    };
    committer.meters().levels(|levels| levels.progress = progress);
    actix_timers::scrape(|| {
        assert_eq!(value(&page, "store_pending{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_loaded{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_loaded_ahead_seconds{timer=\"T\"}"), 2.0);
        assert_eq!(value(&page, "store_overdue_seconds{timer=\"T\"}"), 10.0);
        assert_eq!(value(&page, "durable_scheduled_total{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_errors_total{timer=\"T\",op=\"commit\"}"), 1.0);
        assert_eq!(value(&page, "store_errors_total{timer=\"T\",op=\"read\"}"), 1.0);
        assert_eq!(value(&page, "store_errors_total{timer=\"T\",op=\"back_up\"}"), 1.0);
        assert_eq!(value(&page, "store_write_seconds_count{timer=\"T\"}"), 4.0);
    });
}

/// While nothing changes the thread sleeps without a timeout.
#[test]
fn a_push_wakes_a_thread_that_has_nothing_else_to_wake_it() {
    const ROUNDS: usize = 1000;
    let shared = queue::SharedQueue::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut taken = VecDeque::new();
            for _ in 0..ROUNDS {
                while taken.is_empty() {
                    shared.take(&mut taken, None);
                }
                taken.clear();
            }
        });
        for _ in 0..ROUNDS {
            let (answer, answered) = oneshot::channel();
            shared.push(Request::Change { op: put(record(0)), answer: Some(answer) });
            assert!(block_on(reply(answered)).is_err());
        }
    });
}

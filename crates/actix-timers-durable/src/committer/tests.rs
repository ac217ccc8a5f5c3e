//! Tests of the committer with many callers and one ledger.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;
use crate::ledger::tests::world::{FakeHorizon, Random, at};
use crate::ledger::{Cancellation, LedgerConfig, Ledgers, Query, Scheduled, Verdict};
use crate::store::{Counts, Found, MemoryDisk, Node, OnKey, Page, Part, Position, TimerReader, TimerStore};
use crate::{DueTime, DurableId, Record, RecordState};

/// A clock that the test moves: milliseconds, the same for wall-clock and monotonic time.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn clock(&self) -> CommitterClock {
        let hands = Arc::clone(&self.0);
        Arc::new(move || {
            let millis = hands.load(Ordering::SeqCst);
            Reading { wall: at(millis), time: Duration::from_millis(millis) }
        })
    }

    fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }
}

fn ledgers(store: impl TimerStore) -> Ledgers<FakeHorizon> {
    let policy_of = Arc::new(|_: &str, _: &str| Some(Default::default()));
    Ledgers::open(Box::new(store), Node::default(), LedgerConfig::default(), policy_of, FakeHorizon::default).unwrap()
}

fn threaded(disk: &MemoryDisk, hands: &Hands) -> Committer {
    Committer::start_thread(ledgers(disk.open()), hands.clock(), "T").unwrap()
}

/// Starts a node that has joined.
fn node(disk: &MemoryDisk) -> Committer {
    let committer = threaded(disk, &Hands::default());
    let id = record(0).id;
    while block_on(committer.ask(|answer| Request::Cancel { id, answer })).is_err() {}
    committer
}

fn record(due: u64) -> Arc<Record> {
    Arc::new(Record {
        id: DurableId::new(0, at(due)),
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
        payload: Arc::new([1, 2, 3]),
    })
}

fn schedule(record: Arc<Record>) -> impl FnOnce(Answer<Scheduled>) -> Request {
    move |answer| Request::Schedule { record, on_key: OnKey::KeepExisting, answer }
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

fn counts(committer: &Committer) -> Counts {
    block_on(committer.ask(|answer| Request::Counts { exact: false, answer })).unwrap()
}

fn close(committer: &Committer) -> Answered<()> {
    block_on(committer.ask(|answer| Request::Close { answer }))
}

/// Makes a request without waiting for the reply.
fn begin<T, F: Future<Output = T>>(request: F) -> std::pin::Pin<Box<F>> {
    let mut request = Box::pin(request);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    request
}

/// Waits until a commit is held.
fn wait_for_commit(disk: &MemoryDisk) {
    while disk.held() == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn requests_that_come_during_a_commit_share_the_next_one() {
    let disk = MemoryDisk::new();
    let committer = threaded(&disk, &Hands::default());
    counts(&committer);
    let before = disk.commits();
    let held = disk.hold_commits();
    let mut asked = vec![begin(committer.ask(schedule(record(0))))];
    wait_for_commit(&disk);
    asked.extend((1..100).map(|due| begin(committer.ask(schedule(record(due))))));
    drop(held);
    for request in asked {
        assert_eq!(block_on(request).unwrap(), Scheduled::Created);
    }
    assert_eq!(disk.commits() - before, 2);
    assert_eq!(counts(&committer).pending, 100);
}

#[test]
fn callers_wait_for_a_place_while_the_queue_is_full_and_deliveries_do_not() {
    let disk = MemoryDisk::new();
    let committer = threaded(&disk, &Hands::default());
    let Runner::Threads(queues) = &committer.shared.runner else { panic!("it has a thread") };
    let queue = &queues.requests;
    let held = disk.hold_commits();
    let asked: Vec<_> =
        (0..queue::MAX_REQUESTS + 10).map(|due| begin(committer.ask(schedule(record(due as u64))))).collect();
    assert_eq!(queue.permits(), 0);
    committer.submit(Request::Recheck);
    drop(held);
    for request in asked {
        assert_eq!(block_on(request).unwrap(), Scheduled::Created);
    }
    assert_eq!(counts(&committer).pending, queue::MAX_REQUESTS as u64 + 10);
    assert_eq!(queue.permits(), queue::MAX_REQUESTS);
}

/// Callers come and go on many threads while it is closed at a random moment.
#[test]
fn every_request_is_answered_once_and_acknowledged_ones_are_on_disk_after_any_close() {
    for seed in 0..30 {
        let disk = MemoryDisk::new();
        let committer = threaded(&disk, &Hands::default());
        let kept = Mutex::new(HashSet::new());
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (committer, kept, done) = (committer.clone(), &kept, &done);
                scope.spawn(move || {
                    let mut random = Random(seed * 10 + thread);
                    let mut mine = vec![];
                    for _ in 0..500 {
                        let new = record(1_000_000 + random.below(100));
                        let id = new.id;
                        match block_on(committer.ask(schedule(new))) {
                            Ok(_) => mine.push(id),
                            Err(error) => assert!(matches!(*error, StoreError::Closed)),
                        }
                        if random.once_in(3)
                            && let Some(id) = mine.pop()
                        {
                            match block_on(committer.ask(|answer| Request::Cancel { id, answer })) {
                                Ok(outcome) => assert_eq!(outcome, Cancellation::Cancelled),
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
        let error = close(&committer).unwrap_err();
        assert!(matches!(*error, StoreError::Closed));
        let again = threaded(&disk, &Hands::default());
        for id in kept.into_inner().unwrap() {
            let seen = block_on(again.ask(|answer| Request::Get { id, answer })).unwrap();
            assert!(seen.is_some(), "{id} was acknowledged");
        }
    }
}

#[test]
fn a_timer_with_an_acknowledged_cancel_is_never_delivered() {
    let rounds: u64 = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    let committer = threaded(&MemoryDisk::new(), &Hands::default());
    let (to_claim, claims) = std::sync::mpsc::channel::<DurableId>();
    let (cleared, deliveries) = std::sync::mpsc::channel::<Vec<Arc<Record>>>();
    let dispatcher = {
        let committer = committer.clone();
        std::thread::spawn(move || {
            for id in claims {
                let cleared = cleared.clone();
                let answer = Answer::to(move |answered: Answered<_>| drop(cleared.send(answered.unwrap())));
                committer.submit(Request::Claim { ids: vec![id], answer });
            }
        })
    };
    let mut won = [0, 0];
    for round in 0..rounds {
        let new = record(0);
        let id = new.id;
        assert_eq!(block_on(committer.ask(schedule(new))).unwrap(), Scheduled::Created);
        to_claim.send(id).unwrap();
        (0..round % 7).for_each(|_| std::thread::yield_now());
        let cancelled = block_on(committer.ask(|answer| Request::Cancel { id, answer })).unwrap();
        let cleared = deliveries.recv().unwrap();
        let expected = if cleared.is_empty() { Cancellation::Cancelled } else { Cancellation::InProgress };
        assert_eq!(cancelled, expected);
        won[usize::from(cleared.is_empty())] += 1;
        for record in cleared {
            committer.submit(Request::Ended { id, progress: record.progress, verdict: Verdict::Complete });
        }
    }
    drop(to_claim);
    dispatcher.join().unwrap();
    assert_eq!(counts(&committer).pending, 0);
    assert_eq!(won[0] + won[1], rounds);
}

#[test]
fn without_callers_the_thread_ends_after_the_pending_requests() {
    let disk = MemoryDisk::new();
    let hands = Hands::default();
    let committer = threaded(&disk, &hands);
    let held = disk.hold_commits();
    let answers: Vec<_> = (0..10)
        .map(|due| {
            let (answer, answered) = Answer::awaited();
            committer.shared.push(schedule(record(due))(answer));
            answered
        })
        .collect();
    drop(committer);
    drop(held);
    for answer in answers {
        assert_eq!(block_on(answer).unwrap().unwrap(), Scheduled::Created);
    }
    assert_eq!(counts(&threaded(&disk, &hands)).pending, 10);
}

#[test]
fn inline_everything_is_done_when_the_call_returns() {
    let hands = Hands::default();
    let disk = MemoryDisk::new();
    let committer = Committer::inline(ledgers(disk.open()), hands.clock(), "T");
    let new = record(50);
    let id = new.id;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let scheduled = std::pin::pin!(committer.ask(schedule(new))).poll(&mut context);
    assert!(matches!(scheduled, std::task::Poll::Ready(Ok(Scheduled::Created))));
    hands.set(50);
    let cleared = Arc::new(Mutex::new(vec![]));
    let there = Arc::clone(&cleared);
    let asks_again = committer.clone();
    let answer = Answer::to(move |answered: Answered<Vec<Arc<Record>>>| {
        // A reply's closure may make the next request.
        asks_again.submit(Request::Recheck);
        there.lock().unwrap().extend(answered.unwrap());
    });
    committer.submit(Request::Claim { ids: vec![id], answer });
    assert_eq!(cleared.lock().unwrap().len(), 1);
    close(&committer).unwrap();
    assert!(matches!(*close(&committer).unwrap_err(), StoreError::Closed));
}

/// A store whose every commit panics.
struct Broken(MemoryDisk);

impl TimerStore for Broken {
    fn acquire(&mut self, shard: u16) -> Result<crate::store::Lease, StoreError> {
        self.0.open().acquire(shard)
    }

    fn commit(
        &mut self,
        _: crate::store::Fence,
        _: &[crate::store::Change],
    ) -> Result<Vec<crate::store::ChangeOutcome>, StoreError> {
        panic!("a store with a bug")
    }

    fn load(
        &mut self,
        _: crate::store::Part,
        _: u16,
        _: Option<crate::store::Position>,
        _: DueTime,
        _: usize,
    ) -> Result<crate::store::Page, StoreError> {
        Ok(crate::store::Page::default())
    }

    fn get(&mut self, _: DurableId) -> Result<Option<crate::store::Found>, StoreError> {
        Ok(None)
    }

    fn find_key(&mut self, _: u16, _: &str) -> Result<Option<DurableId>, StoreError> {
        Ok(None)
    }

    fn counts(&mut self, _: u16) -> Result<Counts, StoreError> {
        Ok(Counts::default())
    }
}

#[test]
fn if_the_thread_dies_all_requests_fail() {
    let committer = Committer::start_thread(ledgers(Broken(MemoryDisk::new())), Hands::default().clock(), "T").unwrap();
    for due in 0..3 {
        let error = block_on(committer.ask(schedule(record(due)))).unwrap_err();
        assert!(matches!(*error, StoreError::Closed));
    }
}

#[test]
fn queries_of_a_shared_store_do_not_wait_for_commits() {
    let disk = MemoryDisk::shared(4);
    let committer = node(&disk);
    let (first, second) = (record(5), record(6));
    let id = first.id;
    block_on(committer.ask(schedule(first))).unwrap();
    let held = disk.hold_commits();
    let asked = begin(committer.ask(schedule(Arc::clone(&second))));
    wait_for_commit(&disk);
    assert_eq!(counts(&committer).pending, 1);
    let seen = block_on(committer.ask(|answer| Request::Get { id, answer })).unwrap().unwrap();
    assert!(seen.found.record.id == id && !seen.in_progress);
    drop(held);
    block_on(asked).unwrap();
    let seen = block_on(committer.ask(|answer| Request::Get { id: second.id, answer })).unwrap();
    assert!(seen.is_some(), "it sees all that was answered");
    close(&committer).unwrap();
    let error = block_on(committer.ask(|answer| Request::Counts { exact: false, answer })).unwrap_err();
    assert!(matches!(*error, StoreError::Closed));
}

#[test]
fn when_the_close_is_answered_queries_of_a_shared_store_fail() {
    let committer = node(&MemoryDisk::shared(1));
    let (asks_again, (asked, answers)) = (committer.clone(), std::sync::mpsc::channel());
    let answer = Answer::to(move |_: Answered<()>| {
        asked.send(block_on(asks_again.ask(|answer| Request::Counts { exact: false, answer }))).unwrap();
    });
    committer.submit(Request::Close { answer });
    assert!(matches!(*answers.recv().unwrap().unwrap_err(), StoreError::Closed));
}

#[test]
fn a_store_that_gives_no_reader_does_not_start() {
    let disk = MemoryDisk::shared(1);
    let ledgers = ledgers(disk.open());
    disk.reject_reads(1);
    let error = Committer::start_thread(ledgers, Hands::default().clock(), "T").err().unwrap();
    let DurableBuildError::Store(error) = error else { panic!("{error}") };
    assert!(matches!(*error, StoreError::Unavailable(_)), "{error}");
}

/// A reader whose counts call a function.
struct Calls<F: FnMut() + Send>(F, std::sync::mpsc::Sender<()>);

impl<F: FnMut() + Send> TimerReader for Calls<F> {
    fn get(&mut self, _: DurableId) -> Result<Option<Found>, StoreError> {
        Ok(None)
    }

    fn find_key(&mut self, _: &str) -> Result<Option<DurableId>, StoreError> {
        Ok(None)
    }

    fn list(&mut self, _: Part, _: Option<Position>, _: DueTime, _: usize) -> Result<Page, StoreError> {
        Ok(Page::default())
    }

    fn total(&mut self) -> Result<Counts, StoreError> {
        (self.0)();
        Ok(Counts::default())
    }
}

impl<F: FnMut() + Send> Drop for Calls<F> {
    fn drop(&mut self) {
        self.1.send(()).unwrap();
    }
}

/// Makes two queries that are taken together, and waits for the end of their thread.
fn two_queries_of(call: impl FnOnce(&queue::SharedQueue) + Clone + Send + 'static) -> [Answered<Counts>; 2] {
    let queries = Arc::new(queue::SharedQueue::default());
    let asked = [(); 2].map(|()| {
        let (answer, answered) = Answer::awaited();
        queries.push(Request::Counts { exact: false, answer });
        answered
    });
    let (has_ended, ended) = std::sync::mpsc::channel();
    let of_reader = Arc::clone(&queries);
    let reader = Calls(move || (call.clone())(&of_reader), has_ended);
    reading::start(Box::new(reader), queries, Arc::new(Gauges::register("T", true)), "T").unwrap();
    let answers = asked.map(|answered| block_on(answered).unwrap_or_else(|_| Err(Arc::new(StoreError::Closed))));
    ended.recv().unwrap();
    answers
}

#[test]
fn the_end_of_the_store_rejects_queries_that_were_taken_before() {
    let answers = two_queries_of(|queries| queries.close(&Arc::new(StoreError::Closed)));
    assert!(matches!(&answers, [Ok(_), Err(why)] if matches!(**why, StoreError::Closed)), "{answers:?}");
}

#[test]
fn if_the_reader_dies_all_queries_fail() {
    let answers = two_queries_of(|_| panic!("a reader with a bug"));
    assert!(answers.iter().all(|answer| matches!(answer, Err(why) if matches!(**why, StoreError::Closed))));
}

#[test]
fn failed_queries_of_a_shared_store_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let disk = MemoryDisk::shared(1);
    let committer = metrics::with_local_recorder(&recorder, || node(&disk));
    let id = record(5).id;
    let get = || block_on(committer.ask(|answer| Request::Get { id, answer })).map(drop);
    let find_key = || block_on(committer.ask(|answer| Request::FindKey { key: "key".into(), answer })).map(drop);
    let query = Query { part: Part::Pending, route: None, from: at(0), until: at(9), after: None, limit: 1 };
    let list = || block_on(committer.ask(|answer| Request::List { query: query.clone(), answer })).map(drop);
    let count = || block_on(committer.ask(|answer| Request::Counts { exact: false, answer })).map(drop);
    let queries: [&dyn Fn() -> Answered<()>; 4] = [&get, &find_key, &list, &count];
    let held = disk.hold_commits();
    let asked = begin(committer.ask(schedule(record(8))));
    wait_for_commit(&disk);
    for query in queries {
        disk.reject_reads(1);
        assert!(matches!(*query().unwrap_err(), StoreError::Unavailable(_)));
        query().unwrap();
    }
    drop(held);
    block_on(asked).unwrap();
    close(&committer).unwrap();
    committer.publish();
    let errors = "store_errors_total{timer=\"T\",op=\"read\"}";
    assert_eq!(value(&page, errors), 4.0, "{}", page.render());
}

fn value(page: &PrometheusHandle, name: &str) -> f64 {
    let (page, start) = (page.render(), format!("actix_timers_{name} "));
    page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_commit_that_does_not_end_is_seen_as_growing_lag() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let (disk, hands) = (MemoryDisk::new(), Hands::default());
    let committer = metrics::with_local_recorder(&recorder, || threaded(&disk, &hands));
    counts(&committer);
    hands.set(1000);
    let held = disk.hold_commits();
    let asked = begin(committer.ask(schedule(record(5))));
    wait_for_commit(&disk);
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
    let committer =
        metrics::with_local_recorder(&recorder, || Committer::inline(ledgers(disk.open()), hands.clock(), "T"));
    let ask = |due| block_on(committer.ask(schedule(record(due)))).unwrap();
    (0..3).for_each(|due| _ = ask(due));
    disk.reject_commits(1);
    assert!(block_on(committer.ask(schedule(record(9)))).is_err());
    hands.set(10_000);
    let copied = block_on(committer.ask(|answer| Request::BackUp { directory: "nowhere".into(), answer }));
    assert!(matches!(*copied.unwrap_err(), StoreError::Unsupported(_)));
    actix_timers::scrape(|| {
        assert_eq!(value(&page, "store_pending{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_loaded{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_overdue_seconds{timer=\"T\"}"), 10.0);
        assert_eq!(value(&page, "durable_scheduled_total{timer=\"T\"}"), 3.0);
        assert_eq!(value(&page, "store_errors_total{timer=\"T\",op=\"commit\"}"), 1.0);
        assert_eq!(value(&page, "store_errors_total{timer=\"T\",op=\"back_up\"}"), 1.0);
        assert_eq!(value(&page, "store_write_seconds_count{timer=\"T\"}"), 4.0);
    });
}

#[test]
fn a_million_pushes_are_not_lost_when_the_thread_goes_to_sleep() {
    let rounds = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let committer = threaded(&MemoryDisk::new(), &Hands::default());
    let seen = Arc::new(AtomicBool::new(false));
    for _ in 0..rounds {
        let (there, here) = (Arc::clone(&seen), std::thread::current());
        committer.submit(Request::Claim {
            ids: vec![],
            answer: Answer::to(move |_: Answered<Vec<Arc<Record>>>| {
                there.store(true, Ordering::SeqCst);
                here.unpark();
            }),
        });
        while !seen.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
    }
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
                    shared.take(&mut taken, false, None);
                }
                taken.drain(..).for_each(|request| request.reject(&Arc::new(StoreError::Closed)));
            }
        });
        for _ in 0..ROUNDS {
            let (answer, answered) = Answer::awaited();
            shared.push(Request::Counts { exact: false, answer });
            assert!(block_on(answered).unwrap().is_err());
        }
    });
}

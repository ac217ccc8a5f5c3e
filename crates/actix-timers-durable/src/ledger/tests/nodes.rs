//! Several nodes on one disk: any node schedules, cancels and moves; owners deliver; others adopt the shards of the dead.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::world::{Coming, FakeHorizon, Random, at, coming};
use crate::ledger::{
    Answer, Answered, Cancellation, LedgerConfig, Ledgers, Reading, Replies, Request, Rescheduling, Scheduled, Verdict,
};
use crate::metrics::{DurableCounters, ShardLoss};
use crate::store::{Change, Group, MemoryDisk, Node, OnKey, Right, TimerStore};
use crate::{DueTime, DurableId, Record, RecordState, RetryPolicy};

/// Attempts that reached a handler, in order.
type Deliveries = HashMap<DurableId, Vec<u32>>;

struct Process {
    /// Its number among the nodes of the disk.
    node: u64,
    ledgers: Ledgers<FakeHorizon>,
    horizon: FakeHorizon,
    in_flight: Vec<Arc<Record>>,
    is_leaving: bool,
}

struct Cluster {
    disk: MemoryDisk,
    processes: Vec<Process>,
    now: u64,
    names: u64,
    nodes: u64,
    deliveries: Deliveries,
    cancelled: HashSet<DurableId>,
}

impl Cluster {
    fn new(shards: u16, processes: usize) -> Self {
        let mut cluster = Self {
            disk: MemoryDisk::shared(shards),
            processes: Vec::new(),
            now: 1000,
            names: 0,
            nodes: 0,
            deliveries: HashMap::new(),
            cancelled: HashSet::new(),
        };
        (0..processes).for_each(|_| cluster.start(true));
        cluster.settle();
        cluster
    }

    /// Starts another process, which delivers or only schedules.
    fn start(&mut self, delivers: bool) {
        self.start_with(if delivers { &["route"] } else { &[] });
    }

    /// Starts another process, which delivers these routes.
    fn start_with(&mut self, routes: &'static [&'static str]) {
        let horizon = FakeHorizon::default();
        let (store, of_ledgers) = (Box::new(self.disk.open()), horizon.clone());
        let of_node = routes.iter().map(|route| ((*route).into(), "type".into())).collect();
        let node = Node { routes: of_node, ..Node::default() };
        let policy_of = Arc::new(|route: &str, _: &str| routes.contains(&route).then(RetryPolicy::default));
        let config = LedgerConfig { horizon: Duration::from_millis(200), ..LedgerConfig::default() };
        let ledgers = Ledgers::open(store, node, config, policy_of, move || of_ledgers.clone()).unwrap();
        self.nodes += 1;
        let node = self.nodes;
        let process = Process { node, ledgers, horizon, in_flight: Vec::new(), is_leaving: false };
        self.processes.push(process);
        let index = self.processes.len() - 1;
        self.turn(index, Vec::new());
    }

    /// Lets every process learn of the others' changes.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.pass(100);
            (0..self.processes.len()).for_each(|index| self.turn(index, vec![Request::Recheck]));
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.processes.iter().for_each(|process| process.horizon.get().now = at(self.now));
    }

    fn turn(&mut self, index: usize, requests: Vec<Request>) {
        let now = Reading { wall: at(self.now), time: Duration::from_millis(self.now) };
        let process = &mut self.processes[index];
        let (mut requests, mut replies) = (VecDeque::from(requests), Replies::default());
        loop {
            process.ledgers.commit(&|| now, &mut requests, &mut replies);
            replies.send(|copy| copy());
            if !process.ledgers.maintain(now) && requests.is_empty() {
                return;
            }
        }
    }

    fn ask<T: Send + 'static>(&mut self, index: usize, request: impl FnOnce(Answer<T>) -> Request) -> Answered<T> {
        let (request, coming): (_, Coming<T>) = coming(request);
        self.turn(index, vec![request]);
        coming.get()
    }

    fn schedule(&mut self, index: usize, shard: u16, due: u64, key: Option<&str>) -> (DurableId, Scheduled) {
        self.schedule_on("route", index, shard, due, key)
    }

    fn schedule_on(
        &mut self,
        route: &str,
        index: usize,
        shard: u16,
        due: u64,
        key: Option<&str>,
    ) -> (DurableId, Scheduled) {
        let record = self.new_record(route, shard, due, key);
        let id = record.id;
        let on_key = OnKey::Replace;
        let scheduled = self.ask(index, |answer| Request::Schedule { record, on_key, answer }).unwrap();
        (id, scheduled)
    }

    fn new_record(&mut self, route: &str, shard: u16, due: u64, key: Option<&str>) -> Arc<Record> {
        self.names += 1;
        Arc::new(Record {
            id: DurableId::from_parts(shard, at(due), self.names.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            progress: RecordState::first(at(due)),
            sequence: 0,
            route: route.into(),
            message_type: "type".into(),
            message_version: 1,
            key: key.map(Into::into),
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: [].into(),
        })
    }

    fn cancel(&mut self, index: usize, id: DurableId) -> Cancellation {
        let cancelled = self.ask(index, |answer| Request::Cancel { id, answer }).unwrap();
        if cancelled == Cancellation::Cancelled {
            self.cancelled.insert(id);
        }
        self.assert_absent(cancelled == Cancellation::NotFound, id);
        cancelled
    }

    /// Cancels a timer and moves another one, in one group.
    fn change_both(
        &mut self,
        index: usize,
        cancelled: DurableId,
        moved: DurableId,
        due: DueTime,
    ) -> (Cancellation, Rescheduling) {
        let (cancel, cancellation) = coming(|answer| Request::Cancel { id: cancelled, answer });
        let (reschedule, rescheduling) = coming(|answer| Request::Reschedule { id: moved, due, answer });
        self.turn(index, vec![cancel, reschedule]);
        let (cancellation, rescheduling): (Answered<_>, Answered<_>) = (cancellation.get(), rescheduling.get());
        let (cancellation, rescheduling) = (cancellation.unwrap(), rescheduling.unwrap());
        if cancellation == Cancellation::Cancelled {
            self.cancelled.insert(cancelled);
        }
        (cancellation, rescheduling)
    }

    fn reschedule(&mut self, index: usize, id: DurableId, due: u64) -> Rescheduling {
        let rescheduling = self.ask(index, |answer| Request::Reschedule { id, due: at(due), answer }).unwrap();
        self.assert_absent(rescheduling == Rescheduling::NotFound, id);
        rescheduling
    }

    /// A timer that was not found is not pending.
    fn assert_absent(&self, is_absent: bool, id: DurableId) {
        let found = self.disk.open().get(id).unwrap();
        assert!(!is_absent || found.is_none(), "{id} was not found, and is in the store: {found:?}");
    }

    /// Claims the due timers of a process, and gives them to its handlers.
    fn deliver(&mut self, index: usize) {
        self.turn(index, vec![Request::Recheck]);
        let mut by_shard: BTreeMap<u16, Vec<DurableId>> = BTreeMap::new();
        {
            let mut horizon = self.processes[index].horizon.get();
            let later = horizon.armed.split_off(&(at(self.now + 1), 0));
            for record in std::mem::replace(&mut horizon.armed, later).into_values() {
                by_shard.entry(record.id.shard()).or_default().push(record.id);
            }
        }
        for ids in by_shard.into_values() {
            let (request, coming): (_, Coming<Vec<Arc<Record>>>) = coming(|answer| Request::Claim { ids, answer });
            self.turn(index, vec![request]);
            for record in coming.get().unwrap_or_default() {
                let id = record.id;
                assert!(record.progress.due <= at(self.now), "never early");
                assert!(!self.cancelled.contains(&id), "{id} was cancelled");
                let attempts = self.deliveries.entry(id).or_default();
                assert!(attempts.last().is_none_or(|last| *last < record.progress.attempt), "{id}: {attempts:?}");
                attempts.push(record.progress.attempt);
                self.processes[index].in_flight.push(record);
            }
        }
    }

    /// Ends a delivery.
    fn end(&mut self, index: usize, at_index: usize, fails: bool) {
        let ended = self.ending(index, at_index, fails);
        self.turn(index, vec![ended]);
    }

    fn ending(&mut self, index: usize, at_index: usize, fails: bool) -> Request {
        let record = self.processes[index].in_flight.swap_remove(at_index);
        let verdict = if fails { Verdict::Retry { due: at(self.now + 50) } } else { Verdict::Complete };
        Request::Ended { id: record.id, progress: record.progress, verdict }
    }

    fn kill(&mut self, index: usize) {
        let process = self.processes.swap_remove(index);
        self.disk.end_lease(process.node);
    }

    /// Lets a process learn that its lease has ended.
    fn join_again(&mut self, index: usize) {
        self.pass(100);
        self.turn(index, vec![Request::Recheck]);
        self.nodes += 1;
        self.processes[index].node = self.nodes;
    }

    fn leave(&mut self, index: usize) {
        self.processes[index].is_leaving = true;
        self.turn(index, vec![Request::Leave]);
    }

    /// Leaves, and ends a delivery in the same group.
    fn leave_ending(&mut self, index: usize, at_index: usize, fails: bool) {
        let ended = self.ending(index, at_index, fails);
        self.processes[index].is_leaving = true;
        self.turn(index, vec![Request::Leave, ended]);
    }

    /// Delivers everything, with handlers that succeed.
    fn run_dry(&mut self) {
        for _ in 0..40 {
            self.settle();
            for index in 0..self.processes.len() {
                self.deliver(index);
                while !self.processes[index].in_flight.is_empty() {
                    self.end(index, 0, false);
                }
            }
        }
    }

    fn pending(&self) -> u64 {
        self.disk.open().total().unwrap().pending
    }

    /// Returns the counters of a process, which account for its shards.
    fn counters(&mut self, index: usize) -> DurableCounters {
        let process = &mut self.processes[index];
        let now = Reading { wall: at(self.now), time: Duration::from_millis(self.now) };
        let (owned, report) = (process.ledgers.owned().count() as u64, process.ledgers.report(now));
        assert_eq!(report.shards, owned);
        let ceased = [ShardLoss::GivenUp, ShardLoss::Lost].map(|how| report.counters.has_ceased(how));
        assert_eq!(report.counters.gained, owned + ceased.iter().sum::<u64>(), "gained = owned + given up + lost");
        report.counters
    }
}

#[test]
fn shards_are_divided_evenly_and_again_when_a_node_joins_or_dies() {
    let mut cluster = Cluster::new(8, 1);
    let owned =
        |cluster: &Cluster| cluster.processes.iter().map(|process| process.ledgers.owned().count()).collect::<Vec<_>>();
    assert_eq!(owned(&cluster), [8]);
    cluster.start(true);
    cluster.settle();
    assert_eq!(owned(&cluster), [4, 4]);
    cluster.start(true);
    cluster.start(false);
    cluster.settle();
    let mut of_three = owned(&cluster);
    assert_eq!(of_three.pop(), Some(0), "it serves no route");
    of_three.sort_unstable();
    assert_eq!(of_three, [2, 3, 3]);
    cluster.kill(0);
    cluster.settle();
    assert_eq!(owned(&cluster).iter().sum::<usize>(), 8);
}

#[test]
fn shards_gained_given_up_and_lost_and_fenced_writes_are_counted() {
    let mut cluster = Cluster::new(4, 1);
    let due = cluster.now + 10;
    cluster.schedule(0, 0, due, None);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.settle();
    let counters = cluster.counters(0);
    assert_eq!((counters.gained, counters.has_ceased(ShardLoss::GivenUp), counters.fenced), (4, 2, 0), "balanced");
    assert_eq!(cluster.counters(1).gained, 2);
    // Shards 0 and 1 stay with the first, so this arrives from the second.
    cluster.schedule(1, 1, due, None);
    cluster.settle();
    assert_eq!((cluster.counters(0).arrivals, cluster.counters(1).arrivals), (1, 0));
    let node = cluster.processes[0].node;
    cluster.disk.end_lease(node);
    cluster.end(0, 0, false);
    let counters = cluster.counters(0);
    assert_eq!((counters.has_ceased(ShardLoss::Lost), counters.fenced), (1, 1), "the shard of the rejected write");
    cluster.settle();
    assert_eq!((cluster.counters(0).has_ceased(ShardLoss::Lost), cluster.counters(1).gained), (2, 4));
}

#[test]
fn shards_of_a_node_that_closes_its_store_do_not_come_back_to_it() {
    let mut cluster = Cluster::new(4, 2);
    cluster.ask(0, |answer| Request::Close { answer }).unwrap();
    // Given up and acquired once after the first owner: when it joined or now. This acquires each once more.
    let epochs = [0, 1, 2, 3].map(|shard| cluster.disk.open().acquire(shard).unwrap().fence.epoch);
    assert_eq!(epochs, [4; 4]);
}

#[test]
fn a_timer_of_another_node_is_delivered_by_the_owner_of_its_shard() {
    let mut cluster = Cluster::new(2, 2);
    cluster.start(false);
    let due = cluster.now + 10;
    let ids = [0, 1].map(|shard| cluster.schedule(2, shard, due, None).0);
    cluster.settle();
    (0..3).for_each(|index| cluster.deliver(index));
    assert_eq!(cluster.deliveries.keys().copied().collect::<HashSet<_>>(), HashSet::from(ids));
    assert!(cluster.processes[2].in_flight.is_empty(), "it only schedules");
    cluster.run_dry();
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn a_cancel_from_another_node_is_exact_before_and_after_the_claim() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(false);
    let due = cluster.now + 10;
    let [first, second] = [(); 2].map(|()| cluster.schedule(1, 0, due, None).0);
    assert_eq!(cluster.cancel(1, first), Cancellation::Cancelled);
    cluster.settle();
    cluster.deliver(0);
    assert_eq!(cluster.deliveries.keys().collect::<Vec<_>>(), [&second]);
    assert_eq!(cluster.reschedule(1, second, due + 5), Rescheduling::InProgress);
    assert_eq!(cluster.cancel(1, second), Cancellation::InProgress);
    cluster.end(0, 0, true);
    cluster.run_dry();
    assert_eq!((cluster.pending(), cluster.deliveries[&second].len()), (0, 1), "nothing follows");
}

#[test]
fn a_timer_cancelled_elsewhere_after_it_was_loaded_is_not_delivered() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(false);
    let due = cluster.now + 150;
    let [cancelled, moved, kept] = [(); 3].map(|()| cluster.schedule(0, 0, due, None).0);
    assert_eq!(cluster.cancel(1, cancelled), Cancellation::Cancelled);
    assert_eq!(cluster.reschedule(1, moved, due + 5000), Rescheduling::Rescheduled);
    cluster.pass(200);
    cluster.deliver(0);
    assert_eq!(cluster.deliveries.keys().collect::<Vec<_>>(), [&kept]);
    cluster.pass(5000);
    cluster.run_dry();
    assert!(cluster.deliveries.contains_key(&moved) && cluster.pending() == 0);
}

#[test]
fn a_key_is_unique_over_all_shards() {
    let mut cluster = Cluster::new(4, 2);
    let due = cluster.now + 10_000;
    let (first, _) = cluster.schedule(0, 0, due, Some("key"));
    let (second, replaced) = cluster.schedule(1, 3, due, Some("key"));
    assert_eq!(replaced, Scheduled::Replaced { id: first, in_progress: false });
    let found = cluster.ask(0, |answer| Request::FindKey { key: "key".into(), answer });
    assert_eq!(found.unwrap(), Some(second));
    assert_eq!(cluster.pending(), 1);
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_delivers_nothing_and_its_writes_change_nothing() {
    let mut cluster = Cluster::new(2, 1);
    let due = cluster.now + 10;
    let ids = [0, 1].map(|shard| cluster.schedule(0, shard, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    assert_eq!(cluster.processes[0].in_flight.len(), 2);
    let node = cluster.processes[0].node;
    cluster.start(true);
    cluster.disk.end_lease(node);
    // The old one runs on, and does not know it yet.
    cluster.end(0, 0, false);
    cluster.nodes += 1;
    cluster.run_dry();
    for id in ids {
        assert_eq!(cluster.deliveries[&id], [1, 2], "repeated by the node that adopted it");
    }
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn requests_to_a_node_that_has_lost_their_shard_and_does_not_know_it_are_made_nevertheless() {
    for is_in_flight in [false, true] {
        let mut cluster = Cluster::new(1, 1);
        let (soon, later) = (cluster.now + 100, cluster.now + 700);
        let cancelled = cluster.schedule(0, 0, if is_in_flight { soon } else { later }, None).0;
        let moved = cluster.schedule(0, 0, later, None).0;
        cluster.settle();
        cluster.deliver(0);
        cluster.start(true);
        cluster.disk.end_lease(cluster.processes[0].node);
        cluster.pass(100);
        cluster.deliver(1);
        while !cluster.processes[1].in_flight.is_empty() {
            cluster.end(1, 0, true);
        }
        let before = cluster.deliveries.clone();
        assert_eq!(before.len(), 2, "each has failed");
        // The second one: before its first attempt, as far as the node knows.
        let due = at(cluster.now + 500);
        let cancellation = if is_in_flight { Cancellation::InProgress } else { Cancellation::Cancelled };
        let changed = cluster.change_both(0, cancelled, moved, due);
        assert_eq!(changed, (cancellation, Rescheduling::Rescheduled));
        assert_eq!(cluster.counters(0).fenced, 1);
        cluster.run_dry();
        assert_eq!(cluster.deliveries[&cancelled], before[&cancelled]);
        assert_eq!(cluster.deliveries[&moved], [1, 2]);
        assert_eq!(cluster.pending(), 0);
    }
}

#[test]
fn a_timer_is_moved_in_the_group_that_schedules_it_whoever_owns_its_shard() {
    // Its shard is another node's from the beginning, or since a moment that the node does not know of.
    for has_lost in [false, true] {
        let mut cluster = Cluster::new(1, 1);
        cluster.start(has_lost);
        let index = if has_lost { 0 } else { 1 };
        if has_lost {
            cluster.disk.end_lease(cluster.processes[0].node);
        }
        let record = cluster.new_record("route", 0, cluster.now + 100, None);
        let (id, due) = (record.id, at(cluster.now + 500));
        let (schedule, scheduled) = coming(|answer| Request::Schedule { record, on_key: OnKey::Replace, answer });
        let (reschedule, rescheduled) = coming(|answer| Request::Reschedule { id, due, answer });
        cluster.turn(index, vec![schedule, reschedule]);
        assert_eq!(scheduled.get().unwrap(), Scheduled::Created);
        let rescheduled: Answered<_> = rescheduled.get();
        assert_eq!(rescheduled.unwrap(), Rescheduling::Rescheduled);
        let found = cluster.disk.open().get(id).unwrap().unwrap();
        assert_eq!(found.record.progress.due, due);
        cluster.run_dry();
        assert_eq!(cluster.deliveries[&id], [1]);
    }
}

#[test]
fn a_request_for_a_shard_that_was_lost_is_made_though_the_node_leaves_in_that_moment() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(true);
    cluster.disk.end_lease(cluster.processes[0].node);
    let record = cluster.new_record("route", 0, cluster.now + 100, None);
    let id = record.id;
    let (schedule, scheduled) = coming(|answer| Request::Schedule { record, on_key: OnKey::Replace, answer });
    cluster.processes[0].is_leaving = true;
    cluster.turn(0, vec![schedule, Request::Leave]);
    assert_eq!(scheduled.get().unwrap(), Scheduled::Created);
    cluster.run_dry();
    assert_eq!(cluster.deliveries[&id], [1]);
}

#[test]
fn a_node_that_leaves_ends_its_deliveries_and_others_wait_for_them() {
    let mut cluster = Cluster::new(2, 1);
    let due = cluster.now + 10;
    let ids = [0, 1, 0].map(|shard| cluster.schedule(0, shard, due, None).0);
    let later = cluster.schedule(0, 0, due + 1000, None).0;
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.leave(0);
    cluster.settle();
    assert_eq!(cluster.processes.iter().map(|process| process.ledgers.owned().count()).collect::<Vec<_>>(), [0, 2]);
    cluster.pass(1000);
    cluster.deliver(1);
    assert_eq!(cluster.deliveries.keys().filter(|id| **id == later).count(), 1, "the new owner delivers at once");
    assert_eq!(cluster.processes[1].in_flight.len(), 1, "but not the messages with their handlers elsewhere");
    cluster.end(0, 0, false);
    cluster.end(0, 0, true);
    // It dies with the last one.
    cluster.kill(0);
    cluster.run_dry();
    let mut attempts: Vec<_> = ids.iter().map(|id| cluster.deliveries[id].clone()).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [vec![1], vec![1, 2], vec![1, 2]], "a retry, and an interrupted one");
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn a_timer_that_another_node_has_moved_a_moment_ago_is_cancelled_and_moved_by_its_owner() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(true);
    cluster.settle();
    let owner = if cluster.processes[0].ledgers.owned().count() == 1 { 0 } else { 1 };
    let due = cluster.now + 50;
    let [cancelled, moved] = [(); 2].map(|()| cluster.schedule(owner, 0, due, None).0);
    cluster.processes[1 - owner].ledgers.maintain(Reading { wall: at(cluster.now), time: Duration::ZERO });
    let later = cluster.now + 100;
    for id in [cancelled, moved] {
        assert_eq!(cluster.reschedule(1 - owner, id, later), Rescheduling::Rescheduled);
    }
    assert_eq!(cluster.cancel(owner, cancelled), Cancellation::Cancelled);
    assert_eq!(cluster.reschedule(owner, moved, later + 100), Rescheduling::Rescheduled);
    cluster.run_dry();
    assert_eq!(cluster.deliveries.keys().copied().collect::<Vec<_>>(), [moved]);
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn a_timer_moved_by_another_node_while_its_owner_cannot_set_it_aside_is_set_aside_later() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(false);
    let due = cluster.now + 50;
    let id = cluster.schedule_on("new", 1, 0, due, None).0;
    cluster.disk.reject_commits(1);
    cluster.pass(100);
    cluster.turn(0, vec![Request::Recheck]);
    assert_eq!(cluster.pending(), 1);
    assert_eq!(cluster.reschedule(1, id, due + 60), Rescheduling::Rescheduled);
    // It learns of the move before it can write again.
    cluster.disk.reject_commits(1);
    cluster.pass(2000);
    cluster.turn(0, vec![Request::Recheck]);
    (0..20).for_each(|_| cluster.settle());
    let counts = cluster.disk.open().total().unwrap();
    assert_eq!((counts.pending, counts.parked), (0, 1));
}

#[test]
fn a_timer_moved_back_by_another_node_while_its_claim_is_rejected_outlives_its_owner() {
    let mut cluster = Cluster::new(1, 1);
    cluster.start(false);
    cluster.pass(20_000);
    let due = cluster.now + 10;
    let id = cluster.schedule(0, 0, due, None).0;
    cluster.pass(20);
    cluster.disk.reject_commits(1);
    let (claim, _cleared): (_, Coming<Vec<Arc<Record>>>) = coming(|answer| Request::Claim { ids: vec![id], answer });
    cluster.turn(0, vec![claim]);
    assert_eq!(cluster.reschedule(1, id, due - 10_000), Rescheduling::Rescheduled);
    // The owner learns of the move, is told that its claim missed the timer, and dies.
    cluster.disk.reject_commits(1);
    cluster.pass(2000);
    cluster.turn(0, vec![Request::Recheck]);
    cluster.pass(5000);
    cluster.turn(0, vec![Request::Recheck]);
    assert_eq!(cluster.pending(), 1);
    cluster.kill(0);
    cluster.start(true);
    cluster.run_dry();
    assert_eq!(cluster.deliveries[&id], [1]);
}

#[test]
fn a_retry_decided_while_its_shard_is_given_up_does_not_wait_for_the_rest_of_its_claim() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let ids = [(); 2].map(|()| cluster.schedule(0, 0, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    let failed = Arc::clone(&cluster.processes[0].in_flight[0]);
    cluster.leave_ending(0, 0, true);
    cluster.settle();
    cluster.pass(100);
    cluster.deliver(1);
    assert_eq!(cluster.deliveries[&failed.id], [1, 2], "although the other one is with its handler");
    // The shard goes on, and the second attempt is not repeated when the first claim ends.
    cluster.start(true);
    cluster.leave(1);
    cluster.settle();
    cluster.end(0, 0, false);
    cluster.settle();
    cluster.deliver(2);
    assert_eq!(cluster.deliveries[&failed.id], [1, 2]);
    cluster.end(1, 0, false);
    cluster.run_dry();
    assert!(ids.iter().all(|id| cluster.deliveries.contains_key(id)));
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn deliveries_that_end_as_the_node_closes_are_written_though_another_goes_on() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let ids = [(); 2].map(|()| cluster.schedule(0, 0, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.leave(0);
    cluster.settle();
    let ended = cluster.processes[0].in_flight.swap_remove(0);
    let (close, closed) = coming(|answer| Request::Close { answer });
    let end = Request::Ended { id: ended.id, progress: ended.progress, verdict: Verdict::Complete };
    cluster.turn(0, vec![end, close]);
    let closed: Answered<()> = closed.get();
    closed.unwrap();
    assert_eq!(cluster.pending(), 1);
    cluster.kill(0);
    cluster.run_dry();
    assert_eq!(cluster.deliveries[&ended.id], [1]);
    assert!(ids.iter().all(|id| cluster.deliveries.contains_key(id)));
}

#[test]
fn a_late_report_of_a_delivery_in_a_shard_that_was_given_up_and_is_here_again_holds_up_no_other() {
    let mut cluster = Cluster::new(2, 1);
    let due = cluster.now + 10;
    let delivered = [0, 1].map(|shard| cluster.schedule(0, shard, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.settle();
    assert_eq!(cluster.processes[0].ledgers.owned().count(), 1);
    cluster.kill(1);
    cluster.settle();
    assert_eq!(cluster.processes[0].ledgers.owned().count(), 2);
    for late in delivered {
        let due = cluster.now;
        let other = cluster.schedule(0, late.shard(), due, None).0;
        let (request, cleared) = coming(|answer| Request::Claim { ids: vec![late, other], answer });
        cluster.turn(0, vec![request]);
        let cleared: Answered<Vec<Arc<Record>>> = cleared.get();
        assert_eq!(cleared.unwrap().iter().map(|record| record.id).collect::<Vec<_>>(), [other]);
    }
}

#[test]
fn a_timer_of_a_new_route_goes_to_a_node_that_knows_it_with_its_shard() {
    let mut cluster = Cluster::new(4, 2);
    cluster.start_with(&["route", "new"]);
    cluster.settle();
    let owned =
        |cluster: &Cluster| cluster.processes.iter().map(|process| process.ledgers.owned().count()).collect::<Vec<_>>();
    assert_eq!(owned(&cluster).iter().sum::<usize>(), 4);
    let due = cluster.now + 1000;
    let ids: Vec<_> = (0..4).flat_map(|shard| ["new", "route"].map(|route| (route, shard))).collect();
    let ids: Vec<_> = ids.into_iter().map(|(route, shard)| cluster.schedule_on(route, 0, shard, due, None).0).collect();
    cluster.settle();
    cluster.settle();
    assert_eq!(owned(&cluster), [0, 0, 4], "the shards with timers of the new route");
    cluster.run_dry();
    assert!(ids.iter().all(|id| cluster.deliveries[id] == [1]), "{:?}", cluster.deliveries);
    assert_eq!(cluster.disk.open().total().unwrap(), Default::default());
    // When all know the route, all own shards again.
    cluster.start_with(&["new", "route"]);
    cluster.leave(0);
    cluster.settle();
    cluster.leave(1);
    cluster.settle();
    let mut shards = owned(&cluster);
    shards.sort_unstable();
    assert_eq!(shards, [0, 0, 2, 2]);
}

#[test]
fn a_timer_of_a_route_that_no_node_knows_waits_for_one_that_does() {
    let mut cluster = Cluster::new(2, 1);
    let due = cluster.now + 10;
    let ids = [0, 1].map(|shard| cluster.schedule_on("new", 0, shard, due, None).0);
    cluster.run_dry();
    assert!(cluster.deliveries.is_empty());
    let commits = cluster.disk.commits();
    cluster.run_dry();
    assert_eq!(cluster.disk.commits(), commits, "nothing goes on meanwhile");
    assert_eq!(cluster.disk.open().total().unwrap().parked, 2);
    cluster.start_with(&["new"]);
    cluster.run_dry();
    assert!(ids.iter().all(|id| cluster.deliveries[id] == [1]));
    // The node that knows it dies: the other one goes on with its own.
    cluster.kill(1);
    let due = cluster.now + 10;
    let (own, other) = (cluster.schedule(0, 0, due, None).0, cluster.schedule_on("new", 0, 0, due, None).0);
    cluster.run_dry();
    assert!(cluster.deliveries.contains_key(&own) && !cluster.deliveries.contains_key(&other));
    assert_eq!(cluster.disk.open().total().unwrap().parked, 1);
}

#[test]
fn interrupted_deliveries_have_their_next_attempt_though_the_store_cannot_be_read_at_first() {
    for outlives_its_shard in [false, true] {
        let mut cluster = Cluster::new(1, 1);
        let due = cluster.now + 10;
        let id = cluster.schedule(0, 0, due, None).0;
        cluster.pass(20);
        cluster.deliver(0);
        cluster.start(true);
        if outlives_its_shard {
            cluster.leave(0);
            cluster.settle();
        }
        cluster.disk.reject_reads(3);
        cluster.kill(0);
        cluster.pass(100);
        cluster.turn(0, vec![Request::Recheck]);
        cluster.disk.reject_reads(0);
        assert_eq!(cluster.reschedule(0, id, due + 5000), Rescheduling::InProgress, "of its claim");
        cluster.run_dry();
        assert_eq!(cluster.deliveries[&id], [1, 2], "outlives its shard: {outlives_its_shard}");
        assert_eq!(cluster.pending(), 0);
    }
}

#[test]
fn deliveries_go_on_though_the_reply_to_giving_up_their_shard_is_lost() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let ids = [(); 2].map(|()| cluster.schedule(0, 0, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.disk.lose_give_ups(1);
    cluster.leave(0);
    // Before and after the node learns that the shard is not its own any more.
    cluster.end(0, 0, false);
    cluster.settle();
    cluster.end(0, 0, true);
    cluster.run_dry();
    let mut attempts = ids.map(|id| cluster.deliveries[&id].clone());
    attempts.sort_unstable();
    assert_eq!(attempts, [vec![1], vec![1, 2]], "the second one is a retry");
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn an_interrupted_delivery_is_not_moved_before_the_owner_of_its_shard_knows_of_it() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let [moved, cancelled] = [(); 2].map(|()| cluster.schedule(0, 0, due, None).0);
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.leave(0);
    cluster.settle();
    cluster.kill(0);
    assert_eq!(
        cluster.reschedule(0, moved, due + 500),
        Rescheduling::InProgress,
        "else its attempt has no next number"
    );
    assert_eq!(cluster.cancel(0, cancelled), Cancellation::InProgress, "it has reached its handler");
    cluster.run_dry();
    assert_eq!((&cluster.deliveries[&moved], &cluster.deliveries[&cancelled]), (&vec![1, 2], &vec![1]));
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn a_node_that_leaves_ends_its_deliveries_though_it_learned_of_others_when_the_shard_was_not_its_own() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let interrupted = cluster.schedule(0, 0, due, None).0;
    cluster.pass(20);
    cluster.deliver(0);
    cluster.start(true);
    cluster.leave(0);
    cluster.settle();
    let due = cluster.now + 10;
    let [ended, late] = [(); 2].map(|()| cluster.schedule(1, 0, due, None).0);
    cluster.pass(20);
    cluster.deliver(1);
    cluster.start(true);
    cluster.disk.reject_reads(u64::MAX);
    cluster.kill(0);
    cluster.pass(100);
    // The last one is at index 0 now.
    cluster.turn(1, vec![Request::Recheck]);
    cluster.disk.lose_give_ups(1);
    cluster.leave(1);
    cluster.disk.reject_reads(0);
    cluster.pass(5000);
    cluster.turn(1, vec![Request::Overrun]);
    cluster.end(1, 0, false);
    cluster.settle();
    cluster.end(1, 0, true);
    cluster.run_dry();
    let mut attempts = [ended, late].map(|id| cluster.deliveries[&id].clone());
    attempts.sort_unstable();
    assert_eq!(attempts, [vec![1], vec![1, 2]], "the second one is a retry");
    assert_eq!(cluster.deliveries[&interrupted], [1, 2]);
    assert_eq!(cluster.pending(), 0);
}

#[test]
fn a_node_that_gave_a_shard_up_ends_no_claim_of_another_with_the_same_number() {
    let mut cluster = Cluster::new(1, 1);
    let due = cluster.now + 10;
    let id = cluster.schedule(0, 0, due, None).0;
    cluster.pass(20);
    cluster.deliver(0);
    let mut other = cluster.disk.open();
    other.join(&Node::default()).unwrap();
    cluster.nodes += 1;
    let (right, changes) = (Right::Claimant { shard: 0 }, [Change::EndClaim { number: 0 }]);
    other.commit_groups(&[Group { right, changes: &changes }]).unwrap();
    cluster.kill(0);
    cluster.start(true);
    cluster.run_dry();
    assert_eq!(cluster.deliveries[&id], [1, 2]);
}

/// Names the seed of a test that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// Returns the seeds `0..N` for `N`, and `M..N` for `M..N`.
fn seeds(of: &str) -> Option<std::ops::Range<u64>> {
    let (first, end) = of.split_once("..").unwrap_or(("0", of));
    Some(first.parse().ok()?..end.parse().ok()?)
}

/// Random operations of several nodes, some of which die, leave or are stopped: nothing is lost or cancelled in vain, and
/// no attempt is made twice.
#[test]
fn nodes_that_come_and_go_lose_and_repeat_nothing() {
    let of_caller = std::env::var("ACTIX_TIMERS_SEEDS").ok().and_then(|of| seeds(&of));
    for seed in of_caller.unwrap_or(0..300) {
        let _named = Seed(seed);
        let mut random = Random(seed);
        let shards = 1 + random.below(5) as u16;
        let mut cluster = Cluster::new(shards, 1 + random.below(3) as usize);
        let mut ids = Vec::new();
        for _ in 0..120 {
            let running: Vec<_> =
                (0..cluster.processes.len()).filter(|index| !cluster.processes[*index].is_leaving).collect();
            let Some(index) = random.pick(&running) else {
                cluster.start(true);
                continue;
            };
            match random.below(20) {
                0..5 => {
                    let due = cluster.now + random.below(400);
                    let key = random.once_in(4).then(|| format!("key {}", random.below(3)));
                    let shard = random.below(shards.into()) as u16;
                    let (id, scheduled) = cluster.schedule(index, shard, due, key.as_deref());
                    ids.push(id);
                    match scheduled {
                        Scheduled::Replaced { id, in_progress: false } => _ = cluster.cancelled.insert(id),
                        Scheduled::Replaced { .. } | Scheduled::Created => {}
                        Scheduled::Exists(_) => panic!("keys are replaced"),
                    }
                }
                5..7 => {
                    if let Some(id) = random.pick(&ids) {
                        cluster.cancel(index, id);
                    }
                }
                7..9 => {
                    let due = cluster.now + random.below(400);
                    if let Some(id) = random.pick(&ids) {
                        cluster.reschedule(index, id, due);
                    }
                }
                9..13 => cluster.deliver(index),
                13..16 => {
                    let index = random.below(cluster.processes.len() as u64) as usize;
                    let count = cluster.processes[index].in_flight.len();
                    if count > 0 {
                        let fails = random.once_in(3);
                        cluster.end(index, random.below(count as u64) as usize, fails);
                    }
                }
                16 => cluster.start(!random.once_in(4)),
                17 if random.once_in(2) => {
                    cluster.kill(index);
                    // The heirs cannot read everything at once.
                    cluster.disk.reject_reads(random.below(6));
                    (0..cluster.processes.len()).for_each(|index| cluster.turn(index, vec![Request::Recheck]));
                    cluster.disk.reject_reads(0);
                }
                17 => {
                    cluster.disk.lose_give_ups(random.below(2));
                    cluster.disk.reject_reads(random.below(3));
                    match cluster.processes[index].in_flight.len() as u64 {
                        count @ 1.. if random.once_in(2) => {
                            let at_index = random.below(count) as usize;
                            cluster.leave_ending(index, at_index, random.once_in(2));
                        }
                        _ => cluster.leave(index),
                    }
                    cluster.disk.reject_reads(0);
                    cluster.disk.lose_give_ups(0);
                    if random.once_in(4) {
                        cluster.turn(index, vec![Request::Overrun]);
                    }
                }
                18 if random.once_in(3) => {
                    cluster.disk.end_lease(cluster.processes[index].node);
                    if let Some((cancelled, moved)) = random.pick(&ids).zip(random.pick(&ids)) {
                        let due = at(cluster.now + random.below(400));
                        cluster.change_both(index, cancelled, moved, due);
                    }
                    cluster.join_again(index);
                }
                _ => cluster.pass(random.below(120)),
            }
            if random.once_in(3) {
                let index = random.below(cluster.processes.len().max(1) as u64) as usize;
                if index < cluster.processes.len() {
                    cluster.disk.reject_reads(random.below(40).saturating_sub(30));
                    cluster.turn(index, vec![Request::Recheck]);
                    cluster.disk.reject_reads(0);
                }
            }
        }
        cluster.start(true);
        cluster.run_dry();
        (0..cluster.processes.len()).for_each(|index| _ = cluster.counters(index));
        assert_eq!(cluster.pending(), 0);
        assert!(ids.iter().all(|id| cluster.deliveries.contains_key(id) || cluster.cancelled.contains(id)));
    }
}

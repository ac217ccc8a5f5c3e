//! A store that rejects, fails, cannot be read, or has another owner.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::world::{World, coming, complete};
use crate::ledger::{Cancellation, Ledgers, Request, Rescheduling, Scheduled, Verdict};
use crate::store::{
    Change, ChangeOutcome, Counts, Fence, Found, FsyncOutcome, Lease, MemoryStore, Node, OnKey, Page, Part, Position,
    StoreError, TimerStore,
};
use crate::{DueTime, DurableId, Record};

#[test]
fn a_rejected_request_fails_changes_nothing_and_its_timer_is_still_delivered() {
    let mut world = World::new();
    let [first, second] = [10, 20].map(|due| world.schedule(due));
    world.pass(10);
    assert_eq!(world.due().len(), 1);
    world.disk.reject_commits(1);
    let record = Arc::new(world.record(5));
    let never = record.id;
    let (schedule, scheduled) = coming(|answer| Request::Schedule { record, on_key: OnKey::KeepExisting, answer });
    let (cancel, cancelled) = coming(|answer| Request::Cancel { id: first, answer });
    let (mov, moved) = coming(|answer| Request::Reschedule { id: second, due: super::world::at(1000), answer });
    // It depends on the outcome of the cancel.
    let (claim, claimed) = coming(|answer| Request::Claim { ids: vec![first], answer });
    world.turn(vec![schedule, cancel, mov, claim]);
    let is_rejected = |error: Arc<StoreError>| matches!(*error, StoreError::Rejected(_));
    assert!(is_rejected(scheduled.get().unwrap_err()));
    assert!(is_rejected(cancelled.get().unwrap_err()));
    assert!(is_rejected(moved.get().unwrap_err()));
    assert!(claimed.get().unwrap().is_empty());
    assert_eq!(world.run_to(1000), [(10, first, 1), (20, second, 1)]);
    assert_eq!(world.cancel(never).unwrap(), Cancellation::NotFound);
}

#[test]
fn with_a_full_disk_due_timers_are_delivered_and_their_end_is_written_later() {
    let mut world = World::new();
    let ids: Vec<_> = (0..20).map(|due| world.schedule(due)).collect();
    world.disk.reject_commits(u64::MAX);
    let delivered: Vec<_> = world.run_to(100).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(delivered, ids);
    assert_eq!(world.counts().pending, 20);
    let error = world.cancel(ids[0]).unwrap_err();
    assert!(matches!(*error, StoreError::Rejected(_)), "its end is not written, and it may be repeated");
    let record = world.record(50);
    assert!(matches!(*world.schedule_record(record, OnKey::Replace).unwrap_err(), StoreError::Rejected(_)));
    let pause = world.horizon.get().recheck_after.unwrap();
    assert!(pause > Duration::ZERO && pause <= Duration::from_secs(10));
    world.disk.reject_commits(0);
    world.pass(10_000);
    world.recheck();
    assert_eq!(world.counts().pending, 0);
    world.crash();
    assert_eq!(world.run_to(100_000), [], "no timer is delivered twice");
}

#[test]
fn pauses_between_attempts_are_counted_by_the_clock_that_does_not_go_back() {
    let mut world = World::new();
    world.pass(3_600_000);
    let id = world.schedule(0);
    let cleared = world.claim(&[id]);
    world.disk.reject_commits(1);
    world.turn(vec![complete(&cleared[0])]);
    world.set_wall(0);
    assert_eq!(world.counts().pending, 1);
    world.time += Duration::from_millis(100);
    world.recheck();
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn a_close_retries_failed_writes_once() {
    let mut world = World::new();
    let ids = [world.schedule(0), world.schedule(0)];
    let cleared = world.claim(&ids);
    world.disk.reject_commits(1);
    world.turn(cleared.iter().map(|record| complete(record)).collect());
    world.ask(|answer| Request::Close { answer }).unwrap();
    world.reopen();
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn a_close_that_could_not_write_everything_says_so() {
    let mut world = World::new();
    let id = world.schedule(0);
    let cleared = world.claim(&[id]);
    world.disk.reject_commits(u64::MAX);
    world.turn(vec![complete(&cleared[0])]);
    let error = world.ask(|answer| Request::Close { answer }).unwrap_err();
    assert!(matches!(*error, StoreError::Rejected(_)));
}

#[test]
fn a_retry_that_could_not_be_written_comes_when_it_could() {
    let mut world = World::new();
    let id = world.schedule(0);
    let cleared = world.claim(&[id]);
    world.disk.reject_commits(3);
    world.end(&cleared[0], Verdict::Retry { due: super::world::at(50) });
    assert!(matches!(*world.cancel(id).unwrap_err(), StoreError::Rejected(_)), "the cancel cannot be written");
    world.pass(10_000);
    for _ in 0..3 {
        world.recheck();
        world.pass(10_000);
    }
    let due = world.wall.as_millis();
    assert_eq!(world.run_to(due), [(due, id, 2)]);
}

#[test]
fn at_start_with_a_full_disk_interrupted_deliveries_still_have_the_next_attempt_number() {
    let mut world = World::new();
    let ids = [world.schedule(0), world.schedule(0)];
    assert_eq!(world.claim(&ids).len(), 2);
    world.disk.reject_commits(u64::MAX);
    world.crash();
    let due: Vec<_> = world.due().iter().map(|record| record.id).collect();
    let cleared = world.claim(&due);
    assert_eq!(cleared.iter().map(|record| record.progress.attempt).collect::<Vec<_>>(), [2, 2]);
    world.turn(cleared.iter().map(|record| complete(record)).collect());
    world.disk.reject_commits(0);
    world.pass(10_000);
    world.recheck();
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_and_loaded_timers_are_delivered() {
    for kept in [FsyncOutcome::All, FsyncOutcome::Nothing] {
        let mut world = World::new();
        let [now, soon] = [10, 20].map(|due| world.schedule(due));
        let far = world.schedule(100_000);
        assert_eq!(world.loaded(), 2);
        world.disk.fail_next_fsync(kept);
        let record = world.record(30);
        let unknown = record.id;
        let failed = |error: Arc<StoreError>| matches!(*error, StoreError::Failed(_));
        assert!(failed(world.schedule_record(record, OnKey::KeepExisting).unwrap_err()));
        let record = world.record(30);
        assert!(failed(world.schedule_record(record, OnKey::KeepExisting).unwrap_err()));
        assert!(failed(world.cancel(soon).unwrap_err()));
        assert!(failed(world.ask(|answer| Request::Requeue { id: soon, answer }).unwrap_err()));
        assert_eq!(world.run_to(200_000), [(10, now, 1), (20, soon, 1)], "no more, since none could be ended");
        assert!(world.ask(|answer| Request::Close { answer }).is_ok());
        world.reopen();
        let mut again: Vec<_> = world.run_to(300_000).into_iter().map(|(_, id, _)| id).collect();
        assert_eq!(again.pop(), Some(far));
        let expected = if kept == FsyncOutcome::All { vec![now, soon, unknown] } else { vec![now, soon] };
        assert_eq!(again, expected, "at least once");
    }
}

#[test]
fn an_owner_that_lost_its_shard_delivers_nothing() {
    let mut world = World::new();
    let [first, second] = [10, 20].map(|due| world.schedule(due));
    world.pass(30);
    assert_eq!(world.due().len(), 2);
    world.disk.fence(0);
    let error = world.ask(|answer| Request::Claim { ids: vec![first], answer }).unwrap_err();
    assert!(matches!(*error, StoreError::Fenced { shard: 0 }));
    assert!(world.ledger.end_reason().is_some());
    assert!(world.ask(|answer| Request::Claim { ids: vec![second], answer }).is_err());
    assert_eq!(world.loaded(), 0);
    world.reopen();
    let delivered: Vec<_> = world.run_to(30).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(delivered, [first, second]);
}

#[test]
fn an_unreadable_store_is_retried_and_loaded_timers_are_delivered() {
    let mut world = World::new();
    let id = world.schedule(10);
    world.disk.power_off();
    world.pass(100_000);
    world.recheck();
    assert!(world.horizon.get().recheck_after.is_some());
    assert_eq!(world.due().iter().map(|record| record.id).collect::<Vec<_>>(), [id]);
    assert_eq!(world.claim(&[id]).len(), 1);
}

#[test]
fn answers_of_a_commit_come_with_it_or_not_at_all() {
    let mut world = World::new();
    let id = world.schedule(1000);
    for rejected in [true, false] {
        world.disk.reject_commits(u64::from(rejected));
        let (cancel, cancelled) = coming(|answer| Request::Cancel { id, answer });
        let (mov, moved) = coming(|answer| Request::Reschedule { id, due: super::world::at(2000), answer });
        world.turn(vec![mov, cancel]);
        assert_eq!(moved.get().ok(), (!rejected).then_some(Rescheduling::Rescheduled));
        assert_eq!(cancelled.get().ok(), (!rejected).then_some(Cancellation::Cancelled));
    }
    let record = world.record(5);
    assert_eq!(world.schedule_record(record, OnKey::Replace).unwrap(), Scheduled::Created);
}

#[test]
fn an_interrupted_timer_has_its_next_attempt_number_though_moved_before_that_is_on_disk() {
    for is_rejected in [false, true] {
        let mut world = World::new();
        let id = world.schedule(0);
        assert_eq!(world.claim(&[id]).len(), 1);
        world.disk.power_off();
        world.reopen_quietly();
        if is_rejected {
            // It is left on disk, with its old number.
            world.disk.reject_commits(u64::MAX);
            world.turn(vec![Request::Pause { route: "route".into(), message_type: "type".into() }]);
            world.disk.reject_commits(0);
        }
        // The very first request of the new process.
        assert_eq!(world.reschedule(id, 50).unwrap(), Rescheduling::Rescheduled);
        world.turn(vec![Request::Resume { route: "route".into(), message_type: "type".into() }]);
        assert_eq!(world.run_to(50), [(50, id, 2)], "rejected: {is_rejected}");
    }
}

/// A disk that cannot read one of the records, or has no room for new ones.
struct Worn {
    store: MemoryStore,
    scratched: Option<DurableId>,
    is_nearly_full: bool,
}

impl Worn {
    /// Opens another ledger on the disk of the world.
    fn take_over(world: &mut World, scratched: Option<DurableId>, is_nearly_full: bool) {
        world.disk.power_off();
        world.reopen_quietly();
        let store = Box::new(Self { store: world.disk.open(), scratched, is_nearly_full });
        let (config, horizon) = (world.config.clone(), world.horizon.clone());
        let policy_of = Arc::new(|_: &str, _: &str| Some(Default::default()));
        world.ledger = Ledgers::open(store, Node::default(), config, policy_of, move || horizon.clone()).unwrap();
        world.recheck();
    }
}

impl TimerStore for Worn {
    fn admits(&self, _: &Record) -> Result<(), StoreError> {
        if self.is_nearly_full { Err(StoreError::Rejected(ErrorKind::StorageFull.into())) } else { Ok(()) }
    }

    fn acquire(&mut self, shard: u16) -> Result<Lease, StoreError> {
        self.store.acquire(shard)
    }

    fn commit(&mut self, fence: Fence, changes: &[Change]) -> Result<Vec<ChangeOutcome>, StoreError> {
        self.store.commit(fence, changes)
    }

    fn load(
        &mut self,
        part: Part,
        shard: u16,
        after: Option<Position>,
        until: DueTime,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.store.load(part, shard, after, until, limit)
    }

    fn get(&mut self, id: DurableId) -> Result<Option<Found>, StoreError> {
        if self.scratched == Some(id) {
            return Err(StoreError::Unreadable { path: "memory".into(), reason: "a scratch".to_owned() });
        }
        self.store.get(id)
    }

    fn find_key(&mut self, shard: u16, key: &str) -> Result<Option<DurableId>, StoreError> {
        self.store.find_key(shard, key)
    }

    fn counts(&mut self, shard: u16) -> Result<Counts, StoreError> {
        self.store.counts(shard)
    }
}

#[test]
fn one_record_that_cannot_be_read_does_not_cost_others_of_its_claim_their_numbers() {
    let mut world = World::new();
    let ids = [world.schedule(1), world.schedule(2), world.schedule(3)];
    world.pass(10);
    assert_eq!(world.claim(&ids).len(), 3);
    Worn::take_over(&mut world, Some(ids[1]), false);
    let mut delivered = world.run_to(10);
    delivered.retain(|(_, id, _)| *id != ids[1]);
    assert_eq!(delivered, [(10, ids[0], 2), (10, ids[2], 2)]);
    assert_eq!(world.disk.open().acquire(0).unwrap().claims.len(), 1, "the next life looks again");
}

#[test]
fn new_timers_that_there_is_no_room_for_do_not_keep_others_from_being_completed() {
    let mut world = World::new();
    let [done, cancelled] = [0, 1000].map(|due| world.schedule(due));
    Worn::take_over(&mut world, None, true);
    let cleared = world.claim(&[done]);
    // Each group contains one.
    let record = Arc::new(world.record(5));
    let (schedule, scheduled) = coming(|answer| Request::Schedule { record, on_key: OnKey::KeepExisting, answer });
    let (cancel, gone) = coming(|answer| Request::Cancel { id: cancelled, answer });
    world.turn(vec![schedule, complete(&cleared[0]), cancel]);
    assert!(matches!(*scheduled.get().unwrap_err(), StoreError::Rejected(_)));
    assert_eq!(gone.get().unwrap(), Cancellation::Cancelled);
    assert_eq!(world.counts().pending, 0);
}

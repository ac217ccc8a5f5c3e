//! Scenarios of durable timers that need no actors.

use std::time::Duration;

use super::world::{World, at};
use crate::ledger::{Cancellation, Request, Scheduled};
use crate::record::{Missed, RepeatMode, StoredRepeat};
use crate::store::OnKey;
use crate::{DurableId, Record};

/// Scenario O-58.
#[test]
fn timers_over_a_clean_restart_come_once_at_their_time_and_in_the_order_of_the_requests() {
    let mut world = World::new();
    let ids: Vec<_> = (0..250).map(|_| world.schedule(5000)).collect();
    assert_eq!(world.run_to(2000), []);
    world.restart();
    world.pass(1000);
    assert_eq!(world.counts().pending, 250);
    assert_eq!(world.run_to(4999), []);
    let expected: Vec<_> = ids.into_iter().map(|id| (5000, id, 1)).collect();
    assert_eq!(world.run_to(5000), expected);
    assert_eq!(world.run_to(20_000), []);
    assert_eq!(world.counts().pending, 0);
}

fn periodic(world: &mut World, first: u64, missed: Missed) -> DurableId {
    let mode = RepeatMode::FixedRate { period: Duration::from_millis(first), missed };
    let repeat = Some(StoredRepeat { mode, times: None, until: None });
    let record = Record { repeat, ..world.record(first) };
    let id = record.id;
    world.schedule_record(record, OnKey::KeepExisting).unwrap();
    id
}

/// Scenario O-59.
#[test]
fn overdue_timers_come_in_order_at_start_and_missed_repetitions_by_policy() {
    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        let mut world = World::new();
        let [nine, three, six, late] = [9000, 3000, 6000, 120_000].map(|due| world.schedule(due));
        let ticks = periodic(&mut world, 1000, missed);
        assert_eq!(world.run_to(2500), [(1000, ticks, 1), (2000, ticks, 1)]);
        world.restart();
        world.pass(57_500);
        world.reopen();
        let first = world.run_to(60_000);
        let at_start: Vec<_> = first.iter().filter(|(_, id, _)| *id != ticks).copied().collect();
        assert_eq!(at_start, [(60_000, three, 1), (60_000, six, 1), (60_000, nine, 1)]);
        let made_up = first.len() - 3;
        assert_eq!(made_up, if missed == Missed::Burst { 58 } else { 1 }, "{missed:?}");
        assert_eq!(world.run_to(61_000), [(61_000, ticks, 1)]);
        let rest = world.run_to(120_000);
        assert_eq!(rest.iter().filter(|(when, id, _)| *id == late && *when == 120_000).count(), 1);
        assert_eq!(rest.len(), 60);
    }
}

/// Scenario O-60.
#[test]
fn unacknowledged_deliveries_come_again_after_a_crash_with_the_next_number() {
    let mut world = World::new();
    let [a, b, c] = [100, 100, 100].map(|due| world.schedule(due));
    world.pass(100);
    assert_eq!(world.due().len(), 3);
    let cleared = world.claim(&[a, b]);
    world.end(&cleared[0], crate::ledger::Verdict::Complete);
    world.crash();
    world.pass(100);
    assert_eq!(world.run_to(250), [(200, b, 2), (200, c, 1)]);
    world.crash();
    assert_eq!(world.run_to(300), []);
    assert_eq!(world.counts().pending, 0);
}

/// Scenario O-60.
#[test]
fn a_crash_in_the_middle_of_recovery_does_not_count_twice() {
    let mut world = World::new();
    let id = world.schedule(100);
    world.pass(100);
    world.claim(&[id]);
    for _ in 0..3 {
        // Half of the recovery is written, and nothing is delivered.
        world.crash();
    }
    assert_eq!(world.run_to(100), [(100, id, 2)]);
}

/// Scenario O-61.
#[test]
fn a_cancel_survives_a_crash_and_hits_only_its_own() {
    let mut world = World::new();
    let ids: Vec<_> = (0..5).map(|_| world.schedule(1000)).collect();
    assert_eq!(world.cancel(ids[0]).unwrap(), Cancellation::Cancelled);
    let unknown = DurableId::from_parts(0, at(1000), 99);
    assert_eq!(world.cancel(unknown).unwrap(), Cancellation::NotFound);
    let of_another_shard = DurableId::from_parts(1, ids[1].first_due(), ids[1].random());
    assert_eq!(world.cancel(of_another_shard).unwrap(), Cancellation::NotFound);
    world.crash();
    world.pass(500);
    let delivered: Vec<_> = world.run_to(2000).into_iter().map(|(when, id, _)| (when, id)).collect();
    assert_eq!(delivered, ids[1..].iter().map(|id| (1000, *id)).collect::<Vec<_>>());
    assert_eq!(world.cancel(ids[2]).unwrap(), Cancellation::NotFound);
}

/// Scenario O-62.
#[test]
fn under_one_key_there_is_one_timer_and_the_key_is_free_after_its_delivery() {
    let mut world = World::new();
    let ask = |world: &mut World, due, on_key| {
        let record = Record { key: Some("order-7".into()), ..world.record(due) };
        let id = record.id;
        (id, world.schedule_record(record, on_key).unwrap())
    };
    let (first, answer) = ask(&mut world, 1000, OnKey::KeepExisting);
    assert_eq!(answer, Scheduled::Created);
    assert_eq!(ask(&mut world, 500, OnKey::KeepExisting).1, Scheduled::Exists(first));
    world.restart();
    assert_eq!(ask(&mut world, 700, OnKey::KeepExisting).1, Scheduled::Exists(first));
    let (last, answer) = ask(&mut world, 800, OnKey::Replace);
    assert_eq!(answer, Scheduled::Replaced { id: first, in_progress: false });
    assert_eq!(world.ask(|answer| Request::FindKey { key: "order-7".into(), answer }).unwrap(), Some(last));
    assert_eq!(world.run_to(2000), [(800, last, 1)]);
    let (again, answer) = ask(&mut world, 3000, OnKey::KeepExisting);
    assert_eq!(answer, Scheduled::Created);
    assert_eq!(world.run_to(3000), [(3000, again, 1)]);
    assert_eq!(world.counters().duplicates, 1, "in this process");
}

/// Scenario O-65.
#[test]
fn a_clock_that_was_set_back_while_nothing_ran_repeats_nothing_and_delays_nothing() {
    let mut world = World::new();
    let [nine, eleven, twenty] = [9000, 11_000, 20_000].map(|due| world.schedule(due));
    assert_eq!(world.run_to(10_000), [(9000, nine, 1)]);
    world.restart();
    world.set_wall(4000);
    world.reopen();
    assert_eq!(world.run_to(30_000), [(11_000, eleven, 1), (20_000, twenty, 1)]);
}

/// Scenario O-65.
#[test]
fn steps_of_the_clock_of_a_running_ledger_bring_nothing_early_and_nothing_twice() {
    let hour = 3_600_000;
    let mut world = World::new();
    world.pass(hour);
    let ids = [10_000, 20_000, 2 * hour, 3 * hour].map(|later| world.schedule(hour + later));
    assert_eq!(world.run_to(hour + 10_000), [(hour + 10_000, ids[0], 1)]);
    // Back: loaded timers wait for their wall-clock times.
    world.set_wall(10_000);
    assert_eq!(world.run_to(hour + 19_999), []);
    // Forward: passed timers are due at once, also if not loaded.
    world.set_wall(3 * hour + 1000);
    world.recheck();
    assert_eq!(world.run_to(3 * hour + 1000), [(3 * hour + 1000, ids[1], 1), (3 * hour + 1000, ids[2], 1)]);
    assert_eq!(world.run_to(5 * hour), [(4 * hour, ids[3], 1)]);
}

#[test]
fn one_that_rings_before_its_time_is_not_cleared_and_rings_again() {
    let mut world = World::new();
    let id = world.schedule(1000);
    world.pass(1000);
    assert_eq!(world.due().len(), 1);
    world.set_wall(900);
    assert!(world.claim(&[id]).is_empty());
    assert_eq!(world.run_to(1000), [(1000, id, 1)]);
}

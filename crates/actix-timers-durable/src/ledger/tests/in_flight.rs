//! Cancel, replace and requeue of a timer whose message is with its handler.

use std::sync::Arc;
use std::time::Duration;

use super::world::{World, at, coming, complete};
use crate::ledger::{Cancellation, Note, Request, Scheduled, Verdict};
use crate::record::{Missed, RepeatMode, StoredRepeat};
use crate::store::{OnKey, StoreError};
use crate::{DurableId, Record};

/// Schedules a timer for every second from 1 s on.
fn series(world: &mut World, missed: Missed) -> DurableId {
    let mode = RepeatMode::FixedRate { period: Duration::from_secs(1), missed };
    let repeat = Some(StoredRepeat { mode, times: None, until: None });
    let record = Record { repeat, key: Some("series".into()), ..world.record(1000) };
    let id = record.id;
    assert_eq!(world.schedule_record(record, OnKey::KeepExisting).unwrap(), Scheduled::Created);
    id
}

fn begin(world: &mut World) -> Arc<Record> {
    let due: Vec<_> = world.due().iter().map(|record| record.id).collect();
    world.claim(&due).remove(0)
}

fn verdicts() -> [Verdict; 5] {
    [
        Verdict::Complete,
        Verdict::Retry { due: at(1500) },
        Verdict::DeadLetter { reason: "it failed".into() },
        Verdict::Undelivered { again: at(1500) },
        Verdict::Park,
    ]
}

#[test]
fn after_a_cancel_in_flight_nothing_follows_any_outcome_of_the_delivery() {
    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        for verdict in verdicts() {
            let mut world = World::new();
            let id = series(&mut world, missed);
            world.pass(1000);
            let record = begin(&mut world);
            // Many repetitions are missed by then.
            world.pass(65_000);
            assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
            assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress, "its handler still runs");
            assert!(world.ask(|answer| Request::Get { id, answer }).unwrap().unwrap().in_progress);
            world.end(&record, verdict.clone());
            assert_eq!(world.cancel(id).unwrap(), Cancellation::NotFound);
            assert_eq!(world.ask(|answer| Request::Get { id, answer }).unwrap(), None);
            assert_eq!(world.run_to(1_000_000), [], "{missed:?} {verdict:?}");
            assert_eq!(world.counts(), Default::default(), "{verdict:?}");
            assert_eq!(world.counters().cancelled, 1);
        }
    }
}

#[test]
fn a_cancel_in_flight_lets_no_retry_of_a_single_message_follow() {
    for verdict in verdicts() {
        let mut world = World::new();
        let id = world.schedule(0);
        let record = begin(&mut world);
        assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
        world.end(&record, verdict);
        assert_eq!(world.run_to(1_000_000), []);
        assert_eq!(world.counts(), Default::default());
    }
}

#[test]
fn a_cancel_in_flight_and_the_end_in_one_group_let_nothing_follow_in_either_order() {
    for verdict in verdicts() {
        for end_first in [false, true] {
            let mut world = World::new();
            let id = series(&mut world, Missed::Burst);
            world.pass(1000);
            let record = begin(&mut world);
            let (cancel, cancelled) = coming(|answer| Request::Cancel { id, answer });
            let end = Request::Ended { id, progress: record.progress, verdict: verdict.clone() };
            world.turn(if end_first { vec![end, cancel] } else { vec![cancel, end] });
            let expected = if end_first { Cancellation::Cancelled } else { Cancellation::InProgress };
            assert_eq!(cancelled.get().unwrap(), expected, "{verdict:?}");
            assert_eq!(world.run_to(1_000_000), [], "{verdict:?}");
            assert_eq!(world.cancel(id).unwrap(), Cancellation::NotFound);
            assert_eq!((world.counts().pending, world.counts().parked), (0, 0), "{verdict:?}");
        }
    }
}

#[test]
fn a_failure_in_the_group_of_a_cancel_in_flight_before_it_leaves_no_dead_letter() {
    for repeats in [false, true] {
        for is_rejected in [false, true] {
            let mut world = World::new();
            let id = if repeats { series(&mut world, Missed::Burst) } else { world.schedule(1000) };
            world.pass(1000);
            let record = begin(&mut world);
            let (cancel, cancelled) = coming(|answer| Request::Cancel { id, answer });
            let verdict = Verdict::DeadLetter { reason: "it failed".into() };
            let end = Request::Ended { id, progress: record.progress, verdict };
            if is_rejected {
                world.disk.reject_commits(1);
            }
            world.turn(vec![cancel, end]);
            world.pass(10_000);
            let notes = world.notes();
            if is_rejected {
                assert!(matches!(*cancelled.get().unwrap_err(), StoreError::Rejected(_)));
                assert_eq!(world.counts().dead, 1, "it failed, and was not cancelled");
            } else {
                assert_eq!(cancelled.get().unwrap(), Cancellation::InProgress);
                assert_eq!(world.counts(), Default::default(), "repeats: {repeats}");
                assert_eq!(world.counters().cancelled, 1);
            }
            let is_noted = notes.iter().any(|note| matches!(note, Note::DeadLetter { .. }));
            assert_eq!(is_noted, is_rejected && cfg!(feature = "tracing"));
        }
    }
}

#[test]
fn a_cancel_in_flight_outlives_a_crash_at_each_point() {
    for verdict in verdicts() {
        for crash_after in ["the claim", "the cancel", "the end"] {
            let mut world = World::new();
            let id = series(&mut world, Missed::Burst);
            world.pass(1000);
            let record = begin(&mut world);
            if crash_after != "the claim" {
                assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
            }
            if crash_after == "the end" {
                world.end(&record, verdict.clone());
            }
            world.crash();
            let delivered = world.run_to(3000).len();
            // Without the cancel, the interrupted repetition and later ones follow.
            assert_eq!(delivered, if crash_after == "the claim" { 3 } else { 0 }, "{verdict:?} after {crash_after}");
        }
    }
}

#[test]
fn a_cancel_in_flight_that_the_store_rejects_changes_nothing_and_says_so() {
    for verdict in [Verdict::Complete, Verdict::Retry { due: at(1500) }] {
        let mut world = World::new();
        let id = series(&mut world, Missed::Burst);
        world.pass(1000);
        let record = begin(&mut world);
        world.disk.reject_commits(1);
        assert!(matches!(*world.cancel(id).unwrap_err(), StoreError::Rejected(_)));
        world.end(&record, verdict);
        world.pass(10_000);
        world.recheck();
        assert!(!world.run_to(20_000).is_empty());
        assert_eq!(world.cancel(id).unwrap(), Cancellation::Cancelled);
    }
}

#[test]
fn a_key_is_free_when_its_timer_is_cancelled_or_replaced_in_flight() {
    for on_key in [OnKey::KeepExisting, OnKey::Replace] {
        let mut world = World::new();
        let old = series(&mut world, Missed::Burst);
        world.pass(1000);
        let first = begin(&mut world);
        if on_key == OnKey::KeepExisting {
            assert_eq!(world.cancel(old).unwrap(), Cancellation::InProgress);
        }
        let record = Record { key: Some("series".into()), ..world.record(1500) };
        let new = record.id;
        let expected = match on_key {
            OnKey::KeepExisting => Scheduled::Created,
            OnKey::Replace => Scheduled::Replaced { id: old, in_progress: true },
        };
        assert_eq!(world.schedule_record(record, on_key).unwrap(), expected);
        assert_eq!(world.cancel(old).unwrap(), Cancellation::InProgress, "its handler still runs");
        assert!(world.ask(|answer| Request::Get { id: old, answer }).unwrap().unwrap().in_progress);
        world.turn(vec![complete(&first)]);
        assert_eq!(world.cancel(old).unwrap(), Cancellation::NotFound);
        assert_eq!(world.run_to(100_000), [(1500, new, 1)]);
    }
}

/// An earlier repetition of it is a dead letter.
#[test]
fn a_dead_letter_of_a_timer_that_was_cancelled_in_flight_is_requeued_when_the_handler_has_ended() {
    let mut world = World::new();
    let id = series(&mut world, Missed::Burst);
    world.pass(1000);
    let first = begin(&mut world);
    world.end(&first, Verdict::DeadLetter { reason: "it failed".into() });
    world.pass(1000);
    let second = begin(&mut world);
    assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
    let requeue = |world: &mut World| world.ask(|answer| Request::Requeue { id, answer }).unwrap();
    assert!(!requeue(&mut world), "the handler of its timer runs");
    world.turn(vec![complete(&second)]);
    assert!(requeue(&mut world));
    assert_eq!(world.run_to(100_000), [(2000, id, 1)]);
}

#[test]
fn the_claim_of_a_timer_that_was_cancelled_or_replaced_in_flight_is_open_until_its_handler_has_ended() {
    for is_replaced in [false, true] {
        let mut world = World::new();
        let id = series(&mut world, Missed::Burst);
        world.pass(1000);
        let record = begin(&mut world);
        if is_replaced {
            let new = Record { key: Some("series".into()), ..world.record(500_000) };
            world.schedule_record(new, OnKey::Replace).unwrap();
        } else {
            assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
        }
        assert_eq!(world.open_claims(), 1);
        world.turn(vec![complete(&record)]);
        assert_eq!(world.open_claims(), 0);
    }
}

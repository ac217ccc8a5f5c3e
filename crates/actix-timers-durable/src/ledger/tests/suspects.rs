//! Records whose attempts are used up by crashes.

use std::time::Duration;

use super::life::everything;
use super::world::{World, at, complete};
use crate::ledger::{Cancellation, Request, Rescheduling, Verdict};
use crate::record::{Missed, RepeatMode, StoredRepeat};
use crate::store::{FsyncOutcome, OnKey, Part};
use crate::{DurableId, Record, RetryPolicy};

/// Creates a world with two attempts for all, and one record that was with its handler in two crashes.
fn with_a_suspect() -> (World, DurableId) {
    let mut world = World::new();
    world.retry = RetryPolicy::default().max_attempts(2);
    world.restart();
    let id = world.schedule(0);
    for _ in 0..2 {
        claim(&mut world, &[id]);
        world.crash();
    }
    (world, id)
}

fn claim(world: &mut World, ids: &[DurableId]) {
    assert_eq!(world.claim(ids).len(), ids.len());
}

fn reasons(world: &mut World) -> Vec<(DurableId, String)> {
    let query = everything(Part::Dead, 1000);
    let dead = world.ask(|answer| Request::List { query, answer }).unwrap().seen;
    dead.iter().map(|seen| (seen.found.record.id, seen.found.dead_letter.as_ref().unwrap().0.to_string())).collect()
}

fn attempts(world: &mut World) -> Vec<(DurableId, u32)> {
    world.run_to(world.wall.as_millis()).into_iter().map(|(_, id, attempt)| (id, attempt)).collect()
}

#[test]
fn a_suspect_that_was_alone_when_the_process_died_becomes_a_dead_letter_with_that_reason() {
    let (mut world, id) = with_a_suspect();
    assert_eq!(reasons(&mut world), [], "it is delivered alone");
    claim(&mut world, &[id]);
    world.crash();
    assert_eq!(attempts(&mut world), []);
    let reason = "the process ended during attempt 3, with no other delivery under way (2 allowed)".to_owned();
    assert_eq!(reasons(&mut world), [(id, reason)]);
    assert_eq!(world.open_claims(), 0);
    assert!(world.ask(|answer| Request::Requeue { id, answer }).unwrap());
    assert_eq!(attempts(&mut world), [(id, 1)]);
}

#[test]
fn no_message_becomes_a_dead_letter_while_attempts_are_left_however_often_the_process_dies() {
    let mut world = World::new();
    let id = world.schedule(0);
    for attempt in 1..=10 {
        let cleared = world.claim(&[id]);
        assert_eq!(cleared[0].progress.attempt, attempt);
        world.crash();
    }
    assert_eq!(reasons(&mut world), []);
}

#[test]
fn no_message_becomes_a_dead_letter_if_another_delivery_was_under_way() {
    for in_one_claim in [false, true] {
        let (mut world, id) = with_a_suspect();
        let other = world.schedule(0);
        if in_one_claim {
            claim(&mut world, &[id, other]);
        } else {
            claim(&mut world, &[id]);
            claim(&mut world, &[other]);
        }
        world.crash();
        assert_eq!(attempts(&mut world), [(id, 4), (other, 2)]);
        assert_eq!(reasons(&mut world), []);
    }
}

#[test]
fn no_message_becomes_a_dead_letter_if_a_handler_may_be_running_whose_delivery_has_ended() {
    for ending in ["given up", "cancelled", "replaced", "ended"] {
        let (mut world, id) = with_a_suspect();
        let other = Record { key: Some("key".into()), ..world.record(0) };
        let other_id = other.id;
        world.schedule_record(other, OnKey::KeepExisting).unwrap();
        let cleared = world.claim(&[other_id]).remove(0);
        match ending {
            "given up" => {
                world.turn(vec![Request::Overrun]);
                world.end(&cleared, Verdict::DeadLetter { reason: "too slow".into() });
            }
            "cancelled" => assert_eq!(world.cancel(other_id).unwrap(), Cancellation::InProgress),
            "replaced" => {
                let new = Record { key: Some("key".into()), ..world.record(500_000) };
                world.schedule_record(new, OnKey::Replace).unwrap();
            }
            _ => world.turn(vec![complete(&cleared)]),
        }
        claim(&mut world, &[id]);
        world.crash();
        let becomes_a_dead_letter = reasons(&mut world).iter().any(|(dead, _)| *dead == id);
        assert_eq!(becomes_a_dead_letter, ending == "ended", "{ending}");
    }
}

#[test]
fn overruns_of_one_process_do_not_count_in_the_next() {
    let (mut world, id) = with_a_suspect();
    world.turn(vec![Request::Overrun, Request::Overrun]);
    assert_eq!(world.open_claims(), 1);
    world.crash();
    assert_eq!(world.open_claims(), 0);
    claim(&mut world, &[id]);
    world.crash();
    assert_eq!(reasons(&mut world).len(), 1);
}

#[test]
fn a_regular_end_of_the_process_makes_no_dead_letters_and_leaves_no_unneeded_claim() {
    let (mut world, id) = with_a_suspect();
    claim(&mut world, &[id]);
    world.restart();
    assert_eq!(reasons(&mut world), []);
    assert_eq!(world.counters().interrupted, 1);
    let cleared = world.claim(&[id]).remove(0);
    assert_eq!(cleared.progress.attempt, 4);
    world.turn(vec![Request::Overrun, complete(&cleared)]);
    world.ask(|answer| Request::Close { answer }).unwrap();
    world.reopen_quietly();
    assert_eq!(world.open_claims(), 0);
}

#[test]
fn a_crash_in_the_commit_that_buries_leaves_it_to_the_next_start() {
    for kept in [FsyncOutcome::Nothing, FsyncOutcome::All] {
        let (mut world, id) = with_a_suspect();
        claim(&mut world, &[id]);
        world.disk.power_off();
        world.reopen_quietly();
        world.disk.fail_next_fsync(kept);
        world.recheck();
        assert_eq!(attempts(&mut world), [], "no delivery before it is a dead letter: {kept:?}");
        world.crash();
        assert_eq!(reasons(&mut world).len(), 1, "{kept:?}");
        assert_eq!(attempts(&mut world), []);
    }
}

#[test]
fn while_the_store_rejects_to_write_its_dead_letter_nothing_is_delivered_of_it_and_requests_see_the_dead_letter() {
    for request in ["none", "cancel", "reschedule"] {
        let (mut world, id) = with_a_suspect();
        claim(&mut world, &[id]);
        world.disk.reject_commits(u64::MAX);
        world.crash();
        assert_eq!(attempts(&mut world), []);
        world.disk.reject_commits(0);
        match request {
            "cancel" => assert_eq!(world.cancel(id).unwrap(), Cancellation::NotFound),
            "reschedule" => assert_eq!(world.reschedule(id, 50).unwrap(), Rescheduling::NotFound),
            _ => {}
        }
        world.pass(10_000);
        world.recheck();
        assert_eq!(reasons(&mut world).len(), 1, "{request}");
        assert_eq!(world.run_to(100_000), []);
    }
}

/// Its note could stay in the store after the end of its delivery.
#[test]
fn a_suspect_that_is_delivered_while_the_store_rejects_is_not_noted() {
    for is_known in [false, true] {
        let (mut world, id) = with_a_suspect();
        if is_known {
            // The rejection is known when the suspect is claimed.
            world.disk.reject_commits(1);
            let other = world.schedule_record_rejected(0);
            assert!(world.ask(|answer| Request::Get { id: other, answer }).unwrap().is_none());
        }
        world.disk.reject_commits(1);
        let cleared = world.claim(&[id]).remove(0);
        world.disk.reject_commits(0);
        world.pass(10_000);
        world.recheck();
        assert_eq!(world.open_claims(), 0, "known: {is_known}");
        world.turn(vec![complete(&cleared)]);
        world.crash();
        assert_eq!((attempts(&mut world), reasons(&mut world)), (vec![], vec![]));
    }
}

#[test]
fn a_repetition_of_a_suspect_becomes_a_dead_letter_and_the_next_one_comes() {
    let mut world = World::new();
    world.retry = RetryPolicy::never();
    world.restart();
    let mode = RepeatMode::FixedRate { period: Duration::from_secs(1), missed: Missed::Burst };
    let repeat = Some(StoredRepeat { mode, times: Some(2), until: None });
    let record = Record { repeat, ..world.record(1000) };
    let id = record.id;
    world.schedule_record(record, OnKey::KeepExisting).unwrap();
    world.pass(1000);
    for _ in 0..2 {
        claim(&mut world, &[id]);
        world.crash();
    }
    assert_eq!(reasons(&mut world).len(), 1);
    assert_eq!(world.run_to(10_000), [(2000, id, 1)]);
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn one_of_a_route_that_this_build_does_not_know_is_no_dead_letter() {
    let (mut world, id) = with_a_suspect();
    claim(&mut world, &[id]);
    world.unknown = &["route"];
    world.crash();
    assert_eq!((reasons(&mut world), world.counts().parked), (vec![], 1));
    world.unknown = &[];
    world.crash();
    claim(&mut world, &[id]);
    world.crash();
    assert_eq!(reasons(&mut world).len(), 1);
    assert_eq!(world.reschedule(id, at(0).as_millis()).unwrap(), Rescheduling::NotFound);
}

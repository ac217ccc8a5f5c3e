//! Requests about a timer that is just being parked or unparked.

use super::world::{World, at, coming};
use crate::ledger::{Cancellation, Request, Rescheduling, Scheduled, Verdict};
use crate::store::{OnKey, Part};
use crate::{DurableId, Record};

/// Creates a world in which the next group parks this timer, which has a key.
fn about_to_be_parked(by_its_message: bool) -> (World, DurableId) {
    let mut world = World::new();
    let put = |world: &mut World, due| {
        let record = Record { route: "later".into(), key: Some("key".into()), ..world.record(due) };
        let id = record.id;
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
        id
    };
    if by_its_message {
        let id = put(&mut world, 0);
        // It cannot be decoded: that is reported in the same group.
        let record = world.due().remove(0);
        world.before_the_next_group(vec![Request::Ended { id, progress: record.progress, verdict: Verdict::Park }]);
        return (world, id);
    }
    // Loaded by a build that does not know its route, and not yet written.
    let id = put(&mut world, 1_000_000);
    world.unknown = &["later"];
    world.restart();
    world.pass(999_000);
    world.maintain();
    assert_eq!(world.ledger.only().internal_changes.len(), 1, "it is about to be parked");
    (world, id)
}

#[test]
fn a_timer_about_to_be_parked_can_be_moved() {
    for by_its_message in [false, true] {
        let (mut world, id) = about_to_be_parked(by_its_message);
        assert_eq!(world.reschedule(id, 2_000_000).unwrap(), Rescheduling::Rescheduled, "{by_its_message}");
        world.unknown = &[];
        world.crash();
        assert_eq!(world.run_to(3_000_000), [(2_000_000, id, 1)], "{by_its_message}");
    }
}

#[test]
fn a_timer_about_to_be_parked_can_be_moved_twice_and_cancelled() {
    for by_its_message in [false, true] {
        let (mut world, id) = about_to_be_parked(by_its_message);
        let moves = [2_000_000, 3_000_000];
        let (mut requests, moved): (Vec<_>, Vec<_>) =
            moves.map(|due| coming(|answer| Request::Reschedule { id, due: at(due), answer })).into_iter().unzip();
        let (cancel, cancelled) = coming(|answer| Request::Cancel { id, answer });
        requests.push(cancel);
        world.turn(requests);
        for moved in moved {
            assert_eq!(moved.get().unwrap(), Rescheduling::Rescheduled);
        }
        assert_eq!(cancelled.get().unwrap(), Cancellation::Cancelled);
        world.unknown = &[];
        world.crash();
        assert_eq!(world.run_to(4_000_000), []);
        assert_eq!(world.counts(), Default::default());
    }
}

#[test]
fn a_timer_about_to_be_parked_can_be_cancelled_read_and_replaced() {
    for by_its_message in [false, true] {
        let (mut world, id) = about_to_be_parked(by_its_message);
        let seen = world.ask(|answer| Request::Get { id, answer }).unwrap().unwrap();
        assert_eq!((seen.found.part, seen.in_progress), (Part::Parked, false), "{by_its_message}");

        let (mut world, id) = about_to_be_parked(by_its_message);
        assert_eq!(world.cancel(id).unwrap(), Cancellation::Cancelled, "{by_its_message}");
        assert_eq!(world.counts(), Default::default());

        for on_key in [OnKey::KeepExisting, OnKey::Replace] {
            let (mut world, id) = about_to_be_parked(by_its_message);
            let record = Record { key: Some("key".into()), ..world.record(2_000_000) };
            let new = record.id;
            let expected = match on_key {
                OnKey::KeepExisting => Scheduled::Exists(id),
                OnKey::Replace => Scheduled::Replaced { id, in_progress: false },
            };
            assert_eq!(world.schedule_record(record, on_key).unwrap(), expected);
            let kept = if on_key == OnKey::Replace { new } else { id };
            let holder = world.ask(|answer| Request::FindKey { key: "key".into(), answer }).unwrap();
            assert_eq!(holder, Some(kept));
        }
    }
}

#[test]
fn a_dead_letter_whose_timer_is_about_to_be_parked_is_not_requeued() {
    let (mut world, id) = about_to_be_parked(false);
    assert!(!world.ask(|answer| Request::Requeue { id, answer }).unwrap());
    assert_eq!(world.counts().parked, 1);
}

#[test]
fn a_requeued_timer_can_be_moved_in_the_same_group() {
    let mut world = World::new();
    let id = world.schedule(0);
    let record = world.claim(&[id]).remove(0);
    world.end(&record, Verdict::DeadLetter { reason: "it failed".into() });
    let (requeue, requeued) = coming(|answer| Request::Requeue { id, answer });
    let (mov, moved) = coming(|answer| Request::Reschedule { id, due: at(500), answer });
    world.turn(vec![requeue, mov]);
    assert!(requeued.get().unwrap());
    assert_eq!(moved.get().unwrap(), Rescheduling::Rescheduled);
    assert_eq!(world.run_to(1000), [(500, id, 1)]);
}

/// Starts a build that knows the parked timer.
fn about_to_be_taken_back() -> (World, DurableId) {
    let (mut world, id) = about_to_be_parked(false);
    world.recheck();
    assert_eq!(world.counts().parked, 1);
    world.unknown = &[];
    world.disk.power_off();
    world.reopen_quietly();
    world.maintain();
    assert_eq!(world.ledger.only().internal_changes.len(), 1, "it is about to be unparked");
    (world, id)
}

#[test]
fn a_timer_about_to_be_unparked_can_be_moved_cancelled_read_and_replaced() {
    let (mut world, id) = about_to_be_taken_back();
    assert_eq!(world.reschedule(id, 2_000_000).unwrap(), Rescheduling::Rescheduled);
    assert_eq!(world.run_to(3_000_000), [(2_000_000, id, 1)]);

    let (mut world, id) = about_to_be_taken_back();
    assert_eq!(world.cancel(id).unwrap(), Cancellation::Cancelled);
    assert_eq!(world.run_to(3_000_000), []);

    let (mut world, id) = about_to_be_taken_back();
    let seen = world.ask(|answer| Request::Get { id, answer }).unwrap().unwrap();
    assert_eq!((seen.found.part, seen.in_progress), (Part::Pending, false));

    let (mut world, id) = about_to_be_taken_back();
    let record = Record { key: Some("key".into()), ..world.record(2_000_000) };
    let new = record.id;
    let replaced = world.schedule_record(record, OnKey::Replace).unwrap();
    assert_eq!(replaced, Scheduled::Replaced { id, in_progress: false });
    assert_eq!(world.run_to(3_000_000), [(2_000_000, new, 1)]);
}

/// The store accepts callers' requests before all internal changes.
#[test]
fn a_timer_moved_or_cancelled_before_parking_is_not_parked_afterwards() {
    for is_cancelled in [false, true] {
        for by_its_message in [false, true] {
            let (mut world, id) = about_to_be_parked(by_its_message);
            world.settle_late();
            if is_cancelled {
                assert_eq!(world.cancel(id).unwrap(), Cancellation::Cancelled, "{by_its_message}");
            } else {
                assert_eq!(world.reschedule(id, 2_000_000).unwrap(), Rescheduling::Rescheduled, "{by_its_message}");
            }
            world.pass(100_000);
            world.recheck();
            world.recheck();
            if world.unknown.is_empty() {
                let expected = if is_cancelled { vec![] } else { vec![(2_000_000, id, 1)] };
                assert_eq!(world.run_to(3_000_000), expected, "{by_its_message}");
                assert_eq!(world.counts(), Default::default());
            } else {
                world.unknown = &[];
                world.crash();
                assert_eq!(world.run_to(3_000_000).len(), usize::from(!is_cancelled));
            }
        }
    }
}

//! The life of one timer, from its schedule to its end.

use std::sync::Arc;
use std::time::Duration;

use super::world::{World, at, coming, complete};
use crate::ledger::{Cancellation, Query, Request, Rescheduling, Scheduled, Verdict};
use crate::record::{Missed, RepeatMode, StoredRepeat};
use crate::store::{OnKey, Part, StoreError};
use crate::{DueTime, Record};

pub(super) fn everything(part: Part, limit: usize) -> Query {
    Query { part, route: None, from: DueTime::MIN, until: DueTime::MAX, after: None, limit }
}

#[test]
fn a_group_shares_one_commit_and_each_request_gets_its_own_answer() {
    let mut world = World::new();
    let known = world.schedule(100);
    let before = world.disk.commits();
    let record = Arc::new(world.record(50));
    let too_large = Arc::new(Record { payload: vec![0; 2 << 20].into(), ..world.record(50) });
    let elsewhere = crate::DurableId::from_parts(7, at(50), 1);
    let of_another_shard = Arc::new(Record { id: elsewhere, ..world.record(50) });
    let id = record.id;
    let schedule = |record| move |answer| Request::Schedule { record, on_key: OnKey::KeepExisting, answer };
    let (requests, answers): (Vec<_>, Vec<_>) =
        [record, too_large, of_another_shard].into_iter().map(|record| coming(schedule(record))).unzip();
    let (cancel, cancelled) = coming(|answer| Request::Cancel { id: known, answer });
    let (again, too_late) = coming(|answer| Request::Cancel { id: known, answer });
    let (mov, moved) = coming(|answer| Request::Reschedule { id, due: at(70), answer });
    let (get, got) = coming(|answer| Request::Get { id, answer });
    world.turn(requests.into_iter().chain([cancel, again, mov, get]).collect());
    assert_eq!(world.disk.commits(), before + 1);
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.get()).collect();
    assert_eq!(*answers[0].as_ref().unwrap(), Scheduled::Created);
    assert!(matches!(**answers[1].as_ref().unwrap_err(), StoreError::TooLarge { .. }));
    assert!(matches!(**answers[2].as_ref().unwrap_err(), StoreError::Fenced { shard: 7 }));
    assert_eq!(cancelled.get().unwrap(), Cancellation::Cancelled);
    assert_eq!(too_late.get().unwrap(), Cancellation::NotFound);
    assert_eq!(moved.get().unwrap(), Rescheduling::Rescheduled);
    assert_eq!(got.get().unwrap().unwrap().found.record.progress.due, at(70), "a query sees earlier requests");
    assert_eq!(world.run_to(1000), [(70, id, 1)]);
}

#[test]
fn one_that_was_put_inside_the_loaded_horizon_comes_on_time() {
    let mut world = World::new();
    world.pass(1_000_000);
    for later in [0, 1, 10, 59_999, 60_000, 60_001, 3_600_000] {
        let due = world.wall.as_millis() + later;
        let id = world.schedule(due);
        assert_eq!(world.run_to(due), [(due, id, 1)], "{later}");
    }
}

#[test]
fn cancelling_or_moving_a_timer_in_delivery_returns_in_progress() {
    let mut world = World::new();
    let id = world.schedule(0);
    assert_eq!(world.due().len(), 1);
    let cleared = world.claim(&[id, id]);
    assert_eq!(cleared.len(), 1, "a delivery is cleared once");
    assert!(world.claim(&[id]).is_empty());
    assert_eq!(world.cancel(id).unwrap(), Cancellation::InProgress);
    assert_eq!(world.reschedule(id, 5).unwrap(), Rescheduling::InProgress);
    assert!(world.ask(|answer| Request::Get { id, answer }).unwrap().unwrap().in_progress);
    world.turn(vec![complete(&cleared[0])]);
    assert_eq!(world.cancel(id).unwrap(), Cancellation::NotFound);
    assert_eq!(world.reschedule(id, 5).unwrap(), Rescheduling::NotFound);
    assert_eq!(world.ask(|answer| Request::Get { id, answer }).unwrap(), None);
}

#[test]
fn a_failure_comes_again_with_the_next_number_and_can_be_cancelled_in_between() {
    let mut world = World::new();
    let id = world.schedule(0);
    for attempt in 1..5 {
        let due: Vec<_> = world.due().iter().map(|record| record.id).collect();
        let cleared = world.claim(&due);
        assert_eq!((cleared[0].id, cleared[0].progress.attempt), (id, attempt));
        assert_eq!(cleared[0].progress.nominal, at(0));
        let due = world.wall.saturating_add(Duration::from_secs(100));
        world.end(&cleared[0], Verdict::Retry { due });
        world.end(&cleared[0], Verdict::Complete);
        world.pass(99_999);
        assert!(world.due().is_empty(), "never early, and the second ending did not count");
        world.pass(1);
    }
    assert_eq!(world.cancel(id).unwrap(), Cancellation::Cancelled);
    assert_eq!(world.run_to(10_000_000), []);
}

#[test]
fn a_permanent_failure_is_a_dead_letter_that_can_be_requeued_or_discarded() {
    let mut world = World::new();
    let ids = [world.schedule(0), world.schedule(0)];
    let cleared = world.claim(&ids);
    for record in &cleared {
        world.end(record, Verdict::DeadLetter { reason: "no such customer".into() });
    }
    assert_eq!(world.run_to(100_000), []);
    let dead = world.ask(|answer| Request::List { query: everything(Part::Dead, 100), answer }).unwrap();
    assert_eq!(dead.seen.len(), 2);
    assert_eq!(dead.seen[0].found.dead_letter.as_ref().unwrap().0.as_ref(), "no such customer");
    world.restart();
    assert!(world.ask(|answer| Request::Requeue { id: ids[0], answer }).unwrap());
    assert!(!world.ask(|answer| Request::Requeue { id: ids[0], answer }).unwrap());
    assert!(world.ask(|answer| Request::Discard { id: ids[1], answer }).unwrap());
    assert!(!world.ask(|answer| Request::Discard { id: ids[1], answer }).unwrap());
    assert_eq!(world.run_to(100_000), [(100_000, ids[0], 1)]);
    assert_eq!(world.counts().dead, 0);
}

#[test]
fn an_undelivered_message_uses_no_attempt() {
    let mut world = World::new();
    let id = world.schedule(0);
    let waiting = world.due();
    world.end(&waiting[0], Verdict::Undelivered { again: at(50) });
    assert_eq!(world.run_to(49), []);
    world.pass(1);
    let due: Vec<_> = world.due().iter().map(|record| record.id).collect();
    let cleared = world.claim(&due);
    world.end(&cleared[0], Verdict::Undelivered { again: at(90) });
    assert_eq!(world.run_to(1000), [(90, id, 1)]);
}

#[test]
fn a_verdict_on_an_earlier_delivery_is_ignored() {
    let mut world = World::new();
    let id = world.schedule(0);
    let first = world.claim(&[id]).remove(0);
    world.end(&first, Verdict::Retry { due: at(0) });
    let second = world.claim(&[id]).remove(0);
    assert_eq!(second.progress.attempt, 2);
    for verdict in [Verdict::Complete, Verdict::Park, Verdict::DeadLetter { reason: "late".into() }] {
        world.end(&first, verdict);
    }
    world.end(&second, Verdict::Retry { due: at(10) });
    // Moved just before a report that it cannot be decoded, or has no recipient.
    assert_eq!(world.reschedule(id, 50).unwrap(), Rescheduling::Rescheduled);
    for verdict in [Verdict::Park, Verdict::Undelivered { again: at(20) }] {
        world.end(&second, verdict);
    }
    assert_eq!(world.run_to(1000), [(50, id, 3)]);
    assert_eq!(world.counts(), Default::default());
}

#[test]
fn undelivered_messages_come_back_in_the_order_they_were_due() {
    let mut world = World::holding(16);
    let ids: Vec<_> = [30, 10, 20, 0, 50, 40].into_iter().map(|due| (due, world.schedule(due))).collect();
    world.pass(100);
    for _ in 0..6 {
        for record in world.due() {
            world.end(&record, Verdict::Undelivered { again: at(5000) });
        }
    }
    let mut expected = ids.clone();
    expected.sort();
    let delivered: Vec<_> = world.run_to(5000).into_iter().map(|(_, id, attempt)| (id, attempt)).collect();
    assert_eq!(delivered, expected.into_iter().map(|(_, id)| (id, 1)).collect::<Vec<_>>());
}

#[test]
fn timers_of_an_unknown_route_are_parked_and_delivered_by_a_build_that_knows_it() {
    let mut world = World::new();
    let put = |world: &mut World, due| {
        let record = Record { route: "later".into(), ..world.record(due) };
        let id = record.id;
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
        id
    };
    let ids: Vec<_> = (0..600).map(|due| put(&mut world, due)).collect();
    world.unknown = &["later"];
    world.restart();
    world.pass(10_000);
    assert_eq!(world.run_to(20_000), []);
    assert_eq!((world.counts().pending, world.counts().parked), (0, 600));
    assert_eq!(world.cancel(ids[0]).unwrap(), Cancellation::Cancelled);
    assert_eq!(world.reschedule(ids[1], 30_000).unwrap(), Rescheduling::Rescheduled);
    world.crash();
    assert_eq!(world.run_to(40_000), []);
    assert_eq!((world.counts().pending, world.counts().parked), (0, 599));
    let (seen, query) = (world.ask(|answer| Request::Get { id: ids[1], answer }), everything(Part::Parked, 100));
    assert_eq!(seen.unwrap().unwrap().found.part, Part::Parked);
    let page = world.ask(|answer| Request::List { query, answer }).unwrap();
    assert_eq!(page.seen.len(), 100);
    world.unknown = &[];
    world.restart();
    let mut delivered: Vec<_> = world.run_to(40_000).into_iter().map(|(_, id, attempt)| (id, attempt)).collect();
    delivered.sort();
    let mut expected: Vec<_> = ids[1..].iter().map(|id| (*id, 1)).collect();
    expected.sort();
    assert_eq!(delivered, expected);
    assert_eq!(world.counts().parked, 0);
}

#[test]
fn an_undecodable_payload_is_set_aside_before_or_after_the_claim() {
    let mut world = World::new();
    let ids = [world.schedule(0), world.schedule(0)];
    let due = world.due();
    world.end(&due[0], Verdict::Park);
    let cleared = world.claim(&ids);
    assert_eq!(cleared.len(), 1);
    world.end(&cleared[0], Verdict::Park);
    assert_eq!(world.run_to(1000), []);
    assert_eq!(world.counts().parked, 2);
}

fn repeating(world: &mut World, times: u64) -> Record {
    let mode = RepeatMode::FixedRate { period: Duration::from_secs(100), missed: Missed::Skip };
    Record { repeat: Some(StoredRepeat { mode, times: Some(times), until: None }), ..world.record(100_000) }
}

#[test]
fn each_repetition_counts_its_own_attempts_and_goes_on_after_a_dead_letter() {
    let mut world = World::new();
    let record = repeating(&mut world, 3);
    let id = record.id;
    world.schedule_record(record, OnKey::KeepExisting).unwrap();
    let mut seen = vec![];
    let ends = [Verdict::Retry { due: at(130_000) }, Verdict::Complete, Verdict::DeadLetter { reason: "".into() }];
    for (step, verdict) in ends.into_iter().enumerate() {
        world.pass([100_000, 30_000, 70_000][step]);
        let due: Vec<_> = world.due().iter().map(|record| record.id).collect();
        let cleared = world.claim(&due);
        seen.push((cleared[0].progress.repetition, cleared[0].progress.attempt));
        world.end(&cleared[0], verdict);
        world.restart();
    }
    assert_eq!(seen, [(1, 1), (1, 2), (2, 1)]);
    assert!(!world.ask(|answer| Request::Requeue { id, answer }).unwrap(), "its timer goes on");
    assert_eq!(world.run_to(1_000_000), [(300_000, id, 1)]);
    assert_eq!((world.counts().pending, world.counts().dead), (0, 1));
}

#[test]
fn a_rescheduled_repetition_moves_the_grid() {
    let mut world = World::new();
    let record = repeating(&mut world, 3);
    let id = record.id;
    world.schedule_record(record, OnKey::KeepExisting).unwrap();
    assert_eq!(world.reschedule(id, 110_000).unwrap(), Rescheduling::Rescheduled);
    let when: Vec<_> = world.run_to(1_000_000).into_iter().map(|(when, ..)| when).collect();
    assert_eq!(when, [110_000, 210_000, 310_000]);
}

#[test]
fn a_cron_expression_is_followed_where_it_is_known_and_set_aside_elsewhere() {
    let mut world = World::new();
    let put = |world: &mut World, expression: &str| {
        let mode = RepeatMode::Cron { expression: expression.into(), zone: "UTC".into() };
        let repeat = Some(StoredRepeat { mode, times: Some(3), until: None });
        let record = Record { repeat, ..world.record(3_600_000) };
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
    };
    put(&mut world, "0 * * * *");
    put(&mut world, "not one");
    let when: Vec<_> = world.run_to(90_000_000).into_iter().map(|(when, ..)| when / 3_600_000).collect();
    if cfg!(feature = "cron") {
        assert_eq!((when, world.counts().parked), (vec![1, 2, 3], 1));
    } else {
        assert_eq!((when, world.counts().parked), (vec![], 2));
    }
}

#[test]
fn one_whose_place_was_taken_while_it_was_delivered_is_not_tried_again() {
    let mut world = World::new();
    let put = |world: &mut World, due| {
        let record = Record { key: Some("key".into()), ..world.record(due) };
        let id = record.id;
        (id, world.schedule_record(record, OnKey::Replace).unwrap())
    };
    let (first, _) = put(&mut world, 0);
    let cleared = world.claim(&[first]);
    let (second, answer) = put(&mut world, 50);
    assert_eq!(answer, Scheduled::Replaced { id: first, in_progress: true });
    world.end(&cleared[0], Verdict::Retry { due: at(10) });
    world.crash();
    assert_eq!(world.run_to(1000), [(50, second, 1)]);
}

#[test]
fn lists_go_by_route_and_due_range_page_by_page() {
    let mut world = World::new();
    let routes = ["even", "odd"];
    for due in 0..1000_u64 {
        let record = Record { route: routes[(due % 2) as usize].into(), ..world.record(1_000_000 + due) };
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
    }
    for limit in [1, 7, 256, 400, 10_000] {
        let route = Some("odd".into());
        let (from, until) = (at(1_000_100), at(1_000_899));
        let mut query = Query { part: Part::Pending, route, from, until, after: None, limit };
        let mut dues = vec![];
        loop {
            let page = world.ask(|answer| Request::List { query: query.clone(), answer }).unwrap();
            assert!(page.seen.len() <= limit);
            dues.extend(page.seen.iter().map(|seen| seen.found.record.progress.due.as_millis() - 1_000_000));
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(dues, (100..900).filter(|due| due % 2 == 1).collect::<Vec<_>>(), "{limit}");
    }
}

#[test]
fn after_it_was_closed_everything_is_rejected() {
    let mut world = World::new();
    let id = world.schedule(50);
    world.ask(|answer| Request::Close { answer }).unwrap();
    assert!(world.ledger.end_reason().is_some());
    let closed = |error: Arc<StoreError>| matches!(*error, StoreError::Closed);
    assert!(closed(world.cancel(id).unwrap_err()));
    assert!(closed(world.ask(|answer| Request::Counts { exact: false, answer }).unwrap_err()));
    assert!(closed(world.ask(|answer| Request::Claim { ids: vec![id], answer }).unwrap_err()));
    assert!(closed(world.ask(|answer| Request::Close { answer }).unwrap_err()));
    world.pass(100);
    assert!(world.due().is_empty(), "no timer is reported any more");
    world.reopen();
    assert_eq!(world.run_to(100), [(100, id, 1)]);
}

//! Memory is bounded, regardless of the number of timers on disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::world::{Random, World, at, coming, complete};
use crate::ledger::{Answer, Cancellation, Request, Rescheduling};
use crate::store::{OnKey, Part};
use crate::{DurableId, Record};

/// Scales a count down in debug builds.
const fn scaled(count: u64) -> u64 {
    if cfg!(debug_assertions) { count / 50 } else { count }
}

/// `turn` asserts the limits of memory.
#[test]
fn a_million_overdue_at_start_come_in_order_with_bounded_memory_and_none_is_lost() {
    overdue_at_start(World::holding(1000));
}

#[test]
fn a_million_overdue_in_files_come_in_order_with_bounded_memory_and_none_is_lost() {
    overdue_at_start(World::in_files(1000));
}

fn overdue_at_start(mut world: World) {
    let count = scaled(1_000_000);
    let mut random = Random(3);
    let mut expected = vec![];
    for _ in 0..count / 500 {
        let requests = (0..500).map(|_| {
            // Some due times are crowded, more than fit into memory.
            let due = if random.once_in(4) { 70_000 } else { 65_000 + random.below(10_000) };
            let record = Arc::new(world.record(due));
            expected.push((due, expected.len(), record.id));
            Request::Schedule { record, on_key: OnKey::KeepExisting, answer: Answer::Nobody }
        });
        let requests = requests.collect();
        world.turn(requests);
    }
    expected.sort_unstable();
    world.crash();
    world.pass(100_000);
    world.reopen_quietly();
    world.recheck();
    let mut delivered = vec![];
    loop {
        let due = world.due();
        if due.is_empty() {
            break;
        }
        let ids: Vec<_> = due.iter().map(|record| record.id).collect();
        for ids in ids.chunks(256) {
            let cleared = world.claim(ids);
            delivered.extend(cleared.iter().map(|record| (record.progress.due.as_millis(), record.id)));
            world.turn(cleared.iter().map(|record| complete(record)).collect());
        }
    }
    let expected: Vec<_> = expected.into_iter().map(|(due, _, id)| (due, id)).collect();
    assert_eq!(delivered.len(), expected.len());
    assert!(delivered.is_sorted_by_key(|(due, _)| *due));
    // Within a millisecond that does not fit into memory the order is that of the pieces.
    let in_order = |all: &[(u64, DurableId)]| all.iter().filter(|(due, _)| *due != 70_000).copied().collect::<Vec<_>>();
    assert!(in_order(&delivered) == in_order(&expected));
    assert!(delivered.into_iter().collect::<BTreeSet<_>>() == expected.into_iter().collect());
    assert_eq!(world.counters().recovered, count);
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn timers_due_in_one_millisecond_come_in_the_order_of_requests_over_many_pages() {
    let mut world = World::new();
    let ids: Vec<_> = (0..5000).map(|_| world.schedule(120_000)).collect();
    assert_eq!(world.loaded(), 0, "beyond the horizon");
    let delivered: Vec<_> = world.run_to(120_000).into_iter().map(|(_, id, _)| id).collect();
    assert!(delivered == ids);
}

#[test]
fn timers_beyond_the_horizon_are_loaded_window_by_window() {
    let mut world = World::new();
    let expected: Vec<_> = (0..2000).map(|step| (step * 1000, world.schedule(step * 1000), 1)).collect();
    assert!(world.loaded() <= 61);
    let mut delivered = vec![];
    for step in 0..2000 {
        delivered.extend(world.run_to(step * 1000));
        assert!(world.loaded() <= 61, "{} at {step}", world.loaded());
    }
    assert_eq!(delivered, expected);
}

#[test]
fn earlier_timers_evict_the_latest_from_memory() {
    let mut world = World::holding(10);
    let late: Vec<_> = (0..10).map(|due| world.schedule(1000 + due)).collect();
    assert_eq!(world.loaded(), 10);
    let early: Vec<_> = (0..10).map(|due| world.schedule(500 + due)).collect();
    assert_eq!(world.loaded(), 10);
    assert_eq!(world.cancel(late[0]).unwrap(), Cancellation::Cancelled);
    assert_eq!(world.reschedule(late[9], 2).unwrap(), Rescheduling::Rescheduled);
    let delivered: Vec<_> = world.run_to(10_000).into_iter().map(|(when, id, _)| (when, id)).collect();
    let mut expected = vec![(2, late[9])];
    expected.extend(early.into_iter().enumerate().map(|(nth, id)| (500 + nth as u64, id)));
    expected.extend(late[1..9].iter().enumerate().map(|(nth, id)| (1001 + nth as u64, *id)));
    assert_eq!(delivered, expected);
}

#[test]
fn one_that_has_rung_and_was_driven_out_comes_again() {
    let mut world = World::holding(2);
    let [first, second] = [10, 20].map(|due| world.schedule(due));
    world.pass(30);
    assert_eq!(world.due().len(), 2);
    let third = world.schedule(5);
    assert_eq!(world.claim(&[second]).len(), 0, "it is not in memory");
    let delivered: Vec<_> = world.run_to(30).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(delivered, [third, second], "with room again");
    assert_eq!(world.claim(&[first]).len(), 1);
}

#[test]
fn over_many_crashes_every_timer_is_delivered_and_the_cursor_advances() {
    let mut world = World::new();
    let mut expected = BTreeSet::new();
    let mut random = Random(11);
    let mut delivered = BTreeSet::new();
    for _ in 0..300 {
        let now = world.wall.as_millis();
        for _ in 0..random.below(4) {
            expected.insert(world.schedule((now + random.below(200_000)).saturating_sub(20_000)));
        }
        delivered.extend(world.run_to(now + random.below(30_000)).into_iter().map(|(_, id, _)| id));
        if random.once_in(3) {
            world.crash();
        }
    }
    let end = world.wall.as_millis() + 200_000;
    delivered.extend(world.run_to(end).into_iter().map(|(_, id, _)| id));
    assert!(delivered == expected, "{} of {}", delivered.len(), expected.len());
    assert!(world.ledger.only().cursor > at(end - 300_000), "{} is far behind {end}", world.ledger.only().cursor);
}

#[test]
fn payloads_in_memory_are_bounded_in_bytes() {
    let mut world = World::new();
    world.config.loaded_bytes = 100_000;
    world.reopen();
    let mut expected = vec![];
    for nth in 0..300 {
        let payload = vec![7; 1 + (nth * 7919) % 10_000].into();
        let record = Record { payload, ..world.record(nth as u64 / 3) };
        expected.push(record.id);
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
        assert!(world.ledger.only().table.bytes() <= 100_000);
    }
    let mut delivered = vec![];
    for due in 0..100 {
        delivered.extend(world.run_to(due).into_iter().map(|(_, id, _)| id));
        assert!(world.ledger.only().table.bytes() <= 100_000);
    }
    assert!(delivered == expected);
    assert_eq!(world.ledger.only().table.bytes(), 0);
}

fn of_route(world: &mut World, route: &str, due: u64) -> DurableId {
    let record = Record { route: route.into(), ..world.record(due) };
    let id = record.id;
    world.schedule_record(record, OnKey::KeepExisting).unwrap();
    id
}

fn pause(route: &str) -> Request {
    Request::Pause { route: route.into(), message_type: "type".into() }
}

fn resume(route: &str) -> Request {
    Request::Resume { route: route.into(), message_type: "type".into() }
}

#[test]
fn a_route_without_a_recipient_does_not_keep_others_out_of_memory() {
    let mut world = World::holding(20);
    let deaf: Vec<_> = (0..200).map(|due| of_route(&mut world, "deaf", due)).collect();
    let other = of_route(&mut world, "other", 150);
    world.pass(1000);
    assert!(world.due().iter().all(|record| &*record.route == "deaf"), "it fills the memory");
    world.turn(vec![pause("deaf"), pause("deaf")]);
    assert_eq!(world.run_to(1000), [(1000, other, 1)]);
    assert_eq!(world.loaded(), 0);
    let late = of_route(&mut world, "deaf", 5);
    assert_eq!(world.reschedule(deaf[0], 500).unwrap(), Rescheduling::Rescheduled);
    assert_eq!(world.cancel(deaf[1]).unwrap(), Cancellation::Cancelled);
    assert_eq!(world.run_to(100_000), []);
    world.turn(vec![resume("deaf"), resume("deaf")]);
    let delivered: Vec<_> = world.run_to(100_000).into_iter().map(|(_, id, _)| id).collect();
    let mut expected = deaf[2..].to_vec();
    expected.insert(4, late);
    expected.push(deaf[0]);
    assert_eq!(delivered, expected);
}

#[test]
fn timers_left_on_disk_are_delivered_after_a_crash() {
    let mut world = World::new();
    let deaf: Vec<_> = (0..50).map(|due| of_route(&mut world, "deaf", due * 1000)).collect();
    world.turn(vec![pause("deaf")]);
    let mut others = vec![];
    for due in 0..100 {
        others.push(of_route(&mut world, "other", due * 1000));
        world.run_to(due * 1000);
    }
    world.crash();
    let delivered: Vec<_> = world.run_to(100_000).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(delivered, deaf);
}

#[test]
fn one_whose_change_was_rejected_while_its_route_stood_still_comes_when_that_goes_on() {
    let mut world = World::new();
    let ids = [of_route(&mut world, "deaf", 10), of_route(&mut world, "deaf", 10)];
    world.disk.reject_commits(1);
    let (cancel, cancelled) = coming(|answer| Request::Cancel { id: ids[0], answer });
    let (mov, moved) = coming(|answer| Request::Reschedule { id: ids[1], due: at(15), answer });
    world.turn(vec![cancel, mov, pause("deaf")]);
    assert!(cancelled.get().is_err() && moved.get().is_err());
    world.pass(20);
    assert_eq!(world.due(), [], "its route has no recipient");
    world.turn(vec![resume("deaf")]);
    assert_eq!(world.run_to(20), ids.map(|id| (20, id, 1)));
}

#[test]
fn a_page_of_a_list_is_bounded_in_bytes() {
    let mut world = World::new();
    for due in 0..40 {
        let record = Record { payload: vec![7; 1_000_000].into(), ..world.record(1_000_000 + due) };
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
    }
    let mut query = super::life::everything(Part::Pending, 10_000);
    let mut seen = vec![];
    loop {
        let page = world.ask(|answer| Request::List { query: query.clone(), answer }).unwrap();
        assert!(page.seen.len() <= 16, "{} records of a megabyte", page.seen.len());
        seen.extend(page.seen.iter().map(|seen| seen.found.record.progress.due.as_millis() - 1_000_000));
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(seen, Vec::from_iter(0..40));
}

#[test]
fn more_bytes_of_one_millisecond_than_fit_into_memory_are_all_delivered() {
    let mut world = World::new();
    world.config.loaded_bytes = 100_000;
    world.reopen();
    let mut expected = BTreeSet::new();
    for nth in 0..300 {
        let due = if nth < 290 { 70_000 } else { 70_000 + nth };
        let record = Record { payload: vec![7; 2000].into(), ..world.record(due) };
        expected.insert((due, record.id, 1));
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
    }
    assert!(BTreeSet::from_iter(world.run_to(71_000)) == expected);
}

#[test]
fn one_that_is_larger_than_all_that_may_be_in_memory_is_delivered_alone() {
    let mut world = World::new();
    world.config.loaded_bytes = 100;
    world.reopen();
    let mut expected = vec![];
    for due in 0..20 {
        let size = if due % 3 == 0 { 1000 } else { 40 };
        let record = Record { payload: vec![7; size].into(), ..world.record(due) };
        expected.push((due, record.id, 1));
        world.schedule_record(record, OnKey::KeepExisting).unwrap();
        assert!(world.loaded() <= 2);
    }
    assert_eq!(world.run_to(20), expected);
}

/// The memory is full after the first part of the millisecond 70 000.
#[test]
fn a_timer_moved_out_of_a_millisecond_that_is_partly_loaded_is_not_left_on_disk() {
    let mut world = World::holding(4096);
    let early: Vec<_> = (0..3000).map(|_| world.schedule(69_000)).collect();
    let crowded: Vec<_> = (0..2000).map(|_| world.schedule(70_000)).collect();
    let moved = *crowded.iter().min().unwrap();
    world.crash();
    world.pass(60_000);
    world.reopen_quietly();
    world.maintain();
    let due = world.wall.as_millis() + 100;
    assert!(due < 69_000);
    assert_eq!(world.reschedule(moved, due).unwrap(), Rescheduling::Rescheduled);
    let log = world.run_to(200_000);
    assert_eq!(log.iter().filter(|(_, id, _)| *id == moved).count(), 1);
    assert_eq!(log.len(), early.len() + crowded.len());
    assert_eq!(world.counts().pending, 0);
}

#[test]
fn overdue_timers_of_a_resumed_route_do_not_wait_for_later_ones() {
    let mut world = World::holding(20);
    let overdue: Vec<_> = (0..30).map(|due| of_route(&mut world, "deaf", due)).collect();
    world.pass(100);
    world.turn(vec![pause("deaf")]);
    let later: Vec<_> = (0..40).map(|nth| of_route(&mut world, "other", 20_000 + nth)).collect();
    assert_eq!(world.loaded(), 20, "they fill the memory");
    world.turn(vec![resume("deaf")]);
    assert_eq!(world.run_to(100), overdue.iter().map(|id| (100, *id, 1)).collect::<Vec<_>>());
    let delivered = world.run_to(30_000);
    assert_eq!(delivered, (20_000..).zip(&later).map(|(time, id)| (time, *id, 1)).collect::<Vec<_>>());
}

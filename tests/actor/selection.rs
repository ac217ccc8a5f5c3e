//! Operations on many timers at once: of an actor, of a group, of a filter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_timers::{
    ActorId, CancelAllFor, CancelGroup, ListTimers, ScheduleAt, ScheduleBatch, Target, TimerActor, TimerContext,
    TimerFilter, TimerId, TimerInfo, TimerOptions, TimerState,
};
use support::{Census, Counted, Log, Note, OnDrop, Probe, World, block, in_virtual_time, ms, paused, run, with_probe};

fn ids(infos: &[TimerInfo]) -> Vec<TimerId> {
    infos.iter().map(|info| info.id).collect()
}

fn of(group: &'static str) -> TimerOptions {
    TimerOptions::new().group(group)
}

/// Cancels exactly the actor's own timers, waiting or due; the messages are freed at once.
#[test]
fn an_actor_cancels_all_its_own_timers_including_due_ones() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let (addr, log): (_, Log<u64>) = world.probe_with(|probe: &mut Probe<u64>| {
            probe.hook = Box::new(|name, ctx| {
                if *name == 0 {
                    assert_eq!(ctx.actor_timers().cancel_all(), 1 + 100 + 1000);
                    assert_eq!(ctx.actor_timers().cancel_all(), 0);
                }
            });
        });
        assert_eq!(run(&addr, |_, ctx| ctx.actor_timers().cancel_all()).await, 0, "an actor without timers");
        let payloads = census.clone();
        run(&addr, move |_, ctx| {
            ctx.schedule_after(ms(10), Note(0));
            (1..=100).for_each(|name| _ = ctx.schedule_after(ms(10), Note(name)));
            ctx.timer(TimerOptions::new().key("k").group("g")).schedule(ms(20), Note(1));
            (0..1000).for_each(|_| _ = ctx.schedule_after(ms(1000), payloads.payload()));
        })
        .await;
        world.after(&addr, 10, 7777);
        let (other, others) = world.probe();
        run(&other, |_, ctx| ctx.schedule_after(ms(10), Note(5))).await;
        world.run_to(10).await;
        assert_eq!(census.live(), 0);
        assert!(run(&addr, |_, ctx| ctx.actor_timers().get("k").is_none()).await);
        assert_eq!(world.group_len("g"), 0);
        world.run_to(2000).await;
        let mut came = log.names();
        came.sort_unstable();
        assert_eq!((came, others.names()), (vec![0, 7777], vec![5]));
        assert_eq!(world.timers.snapshot().counters.cancelled, 1101);
    });
}

/// A message that schedules a timer when it is dropped: the cancel does not include that timer.
#[test]
fn timers_scheduled_meanwhile_are_not_cancelled() {
    with_probe::<u64>(async |world, addr, log| {
        for name in 0..10 {
            let (timers, target) = (world.timers.clone(), addr.clone());
            let again = move || _ = timers.timer(&target, of("g")).schedule(ms(5), Note(name));
            world.timers.timer(&addr, of("g")).schedule(ms(50), OnDrop::new(again));
        }
        assert_eq!(world.timers.cancel_group("g"), 10);
        assert_eq!(world.group_len("g"), 10);
        world.run_to(10).await;
        assert_eq!(log.names(), (0..10).collect::<Vec<_>>());
    });
}

/// Both have more timers besides; once the group is the shorter list, once the actor's timers are.
#[test]
fn an_actor_cancels_its_own_timers_of_a_group_and_no_others() {
    for others in [0, 20] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let (one, log) = world.probe::<u64>();
            let (two, log_of_two) = world.probe::<u64>();
            for addr in [&one, &two] {
                run(addr, move |_, ctx| {
                    for name in 0..3 {
                        ctx.timer(of("g")).schedule(ms(10), Note(name));
                        ctx.timer(of("other")).schedule(ms(10), Note(10 + name));
                    }
                    (0..others).for_each(|name| _ = ctx.schedule_after(ms(20), Note(100 + name)));
                })
                .await;
                world.timers.timer(addr, of("g")).schedule(ms(10), Note(5));
            }
            assert_eq!(run(&one, |_, ctx| [(); 2].map(|()| ctx.actor_timers().cancel_group("g"))).await, [3, 0]);
            assert_eq!(run(&one, |_, ctx| ctx.actor_timers().cancel_group("nobody's")).await, 0);
            world.run_to(10).await;
            assert_eq!(log.names(), [5, 10, 11, 12]);
            assert_eq!(log_of_two.names(), [5, 0, 10, 1, 11, 2, 12]);
            world.run_to(20).await;
            assert_eq!((log.len() as u64, log_of_two.len() as u64), (others, others));
        });
    }
}

#[test]
fn all_timers_of_an_actor_are_cancelled_from_outside() {
    for by_message in [false, true] {
        in_virtual_time(TimerActor::builder, |world| async move {
            let census = Census::default();
            let ((addr, log), (other, others)) = (world.probe::<u64>(), world.probe::<u64>());
            let target = Target::<Note<u64>>::from(&addr).strong();
            for name in 0..300 {
                world.after(&target, 10, name);
                world.after(&other, 10, name);
                world.timers.schedule_after(addr.clone().recipient::<Counted>(), ms(10), census.payload());
            }
            for addr in [&addr, &other] {
                run(addr, |_, ctx| (0..300).for_each(|name| _ = ctx.schedule_after(ms(10), Note(name)))).await;
            }
            let cancelled = if by_message {
                world.timers.addr().send(CancelAllFor::new(&addr)).await.unwrap()
            } else {
                world.timers.cancel_all_for(&addr)
            };
            assert_eq!((cancelled, census.live(), world.pending()), (900, 0, 600));
            assert_eq!(world.timers.cancel_all_for(&addr.downgrade()), 0);
            world.run_to(100).await;
            assert_eq!((log.len(), others.len()), (0, 600));
            drop(other);
            world.run_to(200).await;
            let gone = ActorId::from(&world.probe::<u64>().0.downgrade());
            world.settle().await;
            assert_eq!(world.timers.cancel_all_for(gone), 0);
        });
    }
}

#[test]
fn requests_after_a_cancel_of_many_are_not_affected_by_it() {
    with_probe::<u64>(async |world, addr, log| {
        let batch = |from: u64| {
            let mut batch = ScheduleBatch::new();
            batch.options(of("g"));
            (from..from + 500).for_each(|name| _ = batch.after(&addr, ms(10), Note(name)));
            batch
        };
        let timers = world.timers.addr();
        timers.do_send(batch(0));
        let group = timers.send(CancelGroup::new("g"));
        timers.do_send(batch(1000));
        let owner = timers.send(CancelAllFor::new(&addr));
        let last = timers.send(batch(2000));
        // The second begins before the first is done, and takes a part of its work.
        let (group, owner, answers) = futures_util::future::join3(group, owner, last).await;
        assert_eq!((group.unwrap() + owner.unwrap(), answers.unwrap().len()), (1000, 500));
        world.run_to(100).await;
        assert_eq!(log.names(), (2000..2500).collect::<Vec<_>>());
        assert_eq!(world.timers.snapshot().counters.cancelled, 1000);
    });
}

/// Counted, listed and cancelled together, whatever the way to schedule; freed with the timers.
#[test]
fn a_group_is_counted_listed_and_cancelled_together() {
    with_probe::<u64>(async |world, addr, log| {
        world.timers.timer(&addr, of("g")).schedule(ms(30), Note(1));
        run(&addr, |_, ctx| ctx.timer(of("g")).schedule(ms(20), Note(2))).await;
        let at = ScheduleAt::new(&addr, world.wall(10), Note(3)).options(of("g"));
        world.timers.addr().send(at).await.unwrap().unwrap();
        world.timers.timer(&addr, of("other")).schedule(ms(5), Note(4));
        assert_eq!((world.group_len("g"), world.group_len("other"), world.group_len("")), (3, 1, 0));
        let members = world.timers.list(&TimerFilter::new().group("g"));
        let remaining: Vec<_> = members.iter().map(|info| info.remaining).collect();
        assert_eq!(remaining, [ms(10), ms(20), ms(30)]);
        assert!(members.iter().all(|info| info.group == Some("g".into())));
        world.run_to(10).await;
        assert_eq!((log.names(), world.group_len("g")), (vec![4, 3], 2));
        assert_eq!(world.timers.addr().send(CancelGroup::new("g")).await, Ok(2));
        assert_eq!(world.timers.addr().send(CancelGroup::new("g")).await, Ok(0));
        assert_eq!((world.group_len("g"), world.group_len("other"), world.pending()), (0, 0, 0));
        world.run_to(100).await;
        assert_eq!(log.take(), []);
    });
}

#[test]
fn a_filter_selects_timers_that_meet_all_its_criteria() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let ((one, log), (other, _other)) = (world.probe::<u64>(), world.probe::<u64>());
        let census = Census::default();
        let keyed = |key: u64| TimerOptions::new().key(key);
        let a = world.timers.timer(&one, keyed(1).group("g")).schedule(ms(40), Note(1));
        let b = world.timers.timer(&other, keyed(1)).schedule(ms(30), Note(2));
        let c = run(&one, move |_, ctx| ctx.timer(keyed(1)).schedule(ms(20), Note(3))).await;
        let d = world.timers.schedule_after(&one, ms(10), census.payload());
        let list = |filter: TimerFilter| ids(&world.timers.list(&filter));
        let all = TimerFilter::new;
        assert_eq!(list(all()), [d, c, b, a]);
        assert_eq!(list(all().key(1)), [c, b, a]);
        assert_eq!(list(all().key("1")), []);
        assert_eq!(list(all().actor(&one)), [d, c, a]);
        assert_eq!(list(all().actor(&one).key(1)), [c, a]);
        assert_eq!(list(all().actor(&other).group("g")), []);
        assert_eq!(list(all().group("g")), [a]);
        assert_eq!(list(all().message_type::<Counted>()), [d]);
        assert_eq!(list(all().message_type::<Note<u64>>()), [c, b, a]);
        assert_eq!(list(all().due_within(ms(20))), [d, c]);
        assert_eq!(list(all().due_after(ms(20))), [b, a]);
        assert_eq!(list(all().due_after(ms(10)).due_within(ms(30)).limit(1)), [c]);
        assert_eq!(list(all().limit(0)), []);
        assert_eq!(list(all().state(TimerState::Due)), []);
        let listed = world.timers.addr().send(ListTimers(all().actor(&one).limit(2))).await.unwrap();
        assert_eq!(ids(&listed), [d, c]);
        assert_eq!(ids(&run(&one, |_, ctx| ctx.actor_timers().list()).await), [c]);
        assert_eq!(run(&other, |_, ctx| ctx.actor_timers().list()).await, []);

        // Due, but its actor waits.
        let unblock = block(&one).await;
        world.run_to(25).await;
        let due = world.timers.list(&all().state(TimerState::Due));
        assert_eq!((ids(&due), due[0].overdue), (vec![c], ms(5)));
        assert_eq!(list(all().due_within(ms(0))), [c], "an overdue timer is due within any time");
        unblock.send(()).unwrap();
        world.run_to(100).await;
        assert_eq!(log.names(), [3, 1]);
        assert_eq!(list(all()), []);
    });
}

/// More timers than one step examines, with gaps; a limit returns the earliest.
#[test]
fn a_list_of_many_timers_is_complete_and_sorted() {
    paused(async {
        let world = World::manual(TimerActor::builder());
        let (addr, _log) = world.probe::<u64>();
        let mut random = support::Random::new(9);
        let mut expected: Vec<(u64, TimerId)> = Vec::new();
        for name in 0..5000 {
            let delay = 1 + random.below(100_000);
            let id = world.timers.timer(&addr, of("g")).schedule(ms(delay), Note(name));
            if name % 3 == 0 {
                assert!(world.timers.cancel(id).is_cancelled());
            } else {
                expected.push((delay, id));
            }
        }
        expected.sort_by_key(|(delay, _)| *delay);
        for filter in [TimerFilter::new(), TimerFilter::new().group("g"), TimerFilter::new().actor(&addr)] {
            let list = world.timers.list(&filter);
            assert!(list.is_sorted_by_key(|info| info.remaining));
            let mut listed = ids(&list);
            listed.sort();
            let mut wanted: Vec<TimerId> = expected.iter().map(|(_, id)| *id).collect();
            wanted.sort();
            assert_eq!(listed, wanted);
            let first = world.timers.addr().send(ListTimers(filter.limit(700))).await.unwrap();
            let remaining: Vec<_> = first.iter().map(|info| info.remaining).collect();
            let earliest: Vec<_> = expected.iter().take(700).map(|(delay, _)| ms(*delay)).collect();
            assert_eq!(remaining, earliest);
        }
    });
}

#[test]
fn other_actors_go_on_while_many_timers_are_cancelled_or_listed() {
    with_probe::<u64>(async |world, addr, _log| {
        for _ in 0..5 {
            (0..2000).for_each(|name| _ = world.timers.timer(&addr, of("g")).schedule(ms(1000), Note(name)));
            let is_over = Arc::new(AtomicBool::new(false));
            let turns = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let (over, counted) = (Arc::clone(&is_over), Arc::clone(&turns));
            let bystander = actix::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            });
            let listed = world.timers.addr().send(ListTimers(TimerFilter::new())).await.unwrap().len();
            let after_list = turns.swap(0, Ordering::SeqCst);
            let cancelled = world.timers.addr().send(CancelGroup::new("g")).await.unwrap();
            let after_cancel = turns.load(Ordering::SeqCst);
            is_over.store(true, Ordering::SeqCst);
            bystander.await.unwrap();
            assert_eq!((listed, cancelled), (2000, 2000));
            assert!(after_list >= 6 && after_cancel >= 25, "{after_list} turns, {after_cancel} turns");
        }
    });
}

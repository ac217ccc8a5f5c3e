//! Repeating timers whose times a closure computes: on time and late, past and far times, ends, panics, cancels, moves,
//! steps of the wall clock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{
    CancelOutcome, DeadLetterReason, MailboxPolicy, Occurrence, Repeat, RepeatTimes, ScheduleAtFixedRate,
    ScheduleError, Target, TimerActor, TimerContext, TimerOptions,
};
use support::repeat::times;
use support::{
    Census, Log, Note, OnDrop, Probe, Way, World, block, count_panics, in_virtual_time, listen, ms, panic_on_purpose,
    run, with_probe,
};

const HOUR: u64 = 60 * 60 * 1000;

/// Runs a test in a world of its own for each way.
fn in_each_way(test: impl AsyncFn(Way, World, Addr<Probe<u64>>, Log<u64>)) {
    for way in Way::ALL {
        println!("{way:?}");
        with_probe(async |world, addr, log| test(way, world, addr, log).await);
    }
}

/// Returns a timer's times: `delay` after each other, a number of times. They hold `content`.
fn holding<T: Send + 'static>(content: T, delay: u64, times: usize) -> RepeatTimes {
    let mut left = times;
    Repeat::computed(move |last| {
        let _held = &content;
        left = left.checked_sub(1)?;
        Some(last.due + ms(delay))
    })
}

fn every(delay: u64, times: usize) -> RepeatTimes {
    holding((), delay, times)
}

/// Returns so many times, 10 ms after each other. The next computation panics.
fn panicking(start: SystemTime, times: u64) -> RepeatTimes {
    let mut run = 0;
    Repeat::computed(move |_| {
        run += 1;
        if run > times {
            panic_on_purpose();
        }
        Some(start + ms(10 * run))
    })
}

/// A list of the occurrences that a closure got, in milliseconds since the start of a world.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(u64, u64)>>>);

impl Seen {
    fn push(&self, world_start: SystemTime, last: Occurrence) {
        let [due, now] = [last.due, last.now].map(|time| time.duration_since(world_start).unwrap().as_millis() as u64);
        self.0.lock().unwrap().push((due, now));
    }

    fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Returns times computed by `next` from due time and present time, in milliseconds since the start of the world.
fn computed(world: &World, seen: &Seen, mut next: impl FnMut(u64, u64) -> Option<u64> + Send + 'static) -> RepeatTimes {
    let (start, seen) = (world.wall_start, seen.clone());
    Repeat::computed(move |last| {
        seen.push(start, last);
        let (due, now) = *seen.0.lock().unwrap().last()?;
        next(due, now).map(|at| start + ms(at))
    })
}

#[test]
fn each_time_comes_from_the_one_before_and_none_ends_the_timer() {
    in_each_way(async |way, world, addr, log| {
        let (seen, mut delays) = (Seen::default(), [10, 20, 40].into_iter());
        let doubled = computed(&world, &seen, move |due, _| Some(due + delays.next()?));
        let id = world.repeat_at(way, &addr, doubled, Note(1)).await.unwrap();
        assert_eq!(world.timers.get(id).unwrap().period, None);
        world.run_to(500).await;
        assert_eq!(times(&log), [10, 30, 70]);
        assert_eq!(seen.take(), [0, 10, 30, 70].map(|at| (at, at)));
        assert_eq!(world.timers.get(id), None);
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.accepted, counters.delivered, counters.pending), (3, 3, 0));
    });
}

#[test]
fn a_closure_runs_at_computed_times() {
    with_probe::<u64>(async |world, addr, log| {
        run(&addr, |_, ctx| {
            ctx.run_every(every(10, 3), |probe, _| probe.log.push(1, probe.watch.now()));
            ctx.timer(TimerOptions::new().key(1)).run_repeatedly(every(15, 1), |probe, _| probe.log.push(2, 0));
        })
        .await;
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 10), (2, 0), (1, 20), (1, 30)]);
        assert_eq!(world.pending(), 0);
    });
}

/// The wall clock is not in step with the ticks.
#[test]
fn times_from_due_times_do_not_drift_and_are_never_early() {
    let builder = || TimerActor::builder().tick(ms(10)).wheel_size(8);
    in_virtual_time(builder, async |world| {
        let (addr, log) = world.probe();
        world.timers.schedule_at_fixed_rate(&addr, every(25, 100), Note(1));
        world.run_to(3000).await;
        let runs = times(&log);
        assert_eq!(runs.len(), 100);
        assert!((1..).zip(&runs).all(|(run, at)| (25 * run..=25 * run + 10).contains(at)), "{runs:?}");
    });
}

/// The closure decides about missed times. A past time is due in the next tick.
#[test]
fn missed_times_come_one_in_a_tick_or_are_skipped() {
    in_each_way(async |way, world, each, each_log| {
        let (coming, coming_log) = world.probe();
        let seen = Seen::default();
        let all = computed(&world, &seen, |due, _| Some(due + 10));
        world.repeat_at(way, &each, all, Note(1)).await.unwrap();
        let skip = computed(&world, &Seen::default(), |due, now| Some(due + 10 * ((now - due) / 10 + 1)));
        world.repeat_at(way, &coming, skip, Note(1)).await.unwrap();
        world.run_to(10).await;
        world.jump_to(55).await;
        world.run_to(80).await;
        assert_eq!(times(&each_log), [10, 55, 56, 57, 58, 60, 70, 80]);
        assert_eq!(times(&coming_log), [10, 55, 60, 70, 80]);
        let late = [(0, 0), (10, 10), (20, 55), (30, 56), (40, 57), (50, 58), (60, 60), (70, 70), (80, 80)];
        assert_eq!(seen.take(), late);
    });
}

#[test]
fn a_past_first_time_is_due_at_once_and_others_in_the_next_tick() {
    in_each_way(async |way, world, addr, log| {
        for past in [world.wall_start - ms(HOUR), SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - ms(HOUR)] {
            let (start, mut left) = (world.now(), 4);
            let always = Repeat::computed(move |last| {
                left -= 1;
                assert!(last.due <= last.now);
                (left >= 0).then_some(past)
            });
            world.repeat_at(way, &addr, always, Note(1)).await.unwrap();
            world.run_to(start + 100).await;
            assert_eq!(times(&log), [0, 1, 2, 3].map(|at| start + at), "{past:?}");
        }
    });
}

#[test]
fn far_times_wait_and_can_be_cancelled() {
    let latest = (0..63)
        .rev()
        .fold(SystemTime::UNIX_EPOCH, |time, power| time.checked_add(Duration::from_secs(1 << power)).unwrap_or(time));
    in_each_way(async |way, world, addr, log| {
        for far in [latest, world.wall(1 << 52)] {
            let start = world.now();
            let mut near = Some(world.wall(start + 10));
            let id = world.repeat_at(way, &addr, Repeat::computed(move |_| near.take().or(Some(far))), Note(1)).await;
            world.run_to(start + 1_000_000).await;
            assert_eq!(times(&log), [start + 10], "{far:?}");
            assert_eq!(world.timers.cancel(id.unwrap()), CancelOutcome::Cancelled);
        }
        // Later than the latest time there is: no time.
        let jitter = TimerOptions::new().jitter(ms(HOUR));
        let rejected = world.timers.timer(&addr, jitter).try_repeat(Repeat::computed(move |_| Some(latest)), Note(1));
        assert!(rejected.is_ok() || matches!(rejected, Err(ScheduleError::NeverDue { .. })));
    });
}

#[test]
fn a_request_without_a_first_time_hands_its_message_back() {
    in_each_way(async |way, world, addr, log| {
        let before = count_panics();
        for never in [Repeat::computed(|_| None), panicking(world.wall_start, 0)] {
            let rejected = world.repeat_at(way, &addr, never, Note(7)).await.unwrap_err();
            assert!(matches!(rejected, ScheduleError::NeverDue { .. }));
            assert_eq!(rejected.into_message().next_message(), Note(7));
        }
        world.repeat_at(way, &addr, every(10, 1), Note(1)).await.unwrap();
        world.run_to(20).await;
        assert_eq!(times(&log), [10], "the timer actor goes on");
        assert_eq!(count_panics(), before + 1);
    });
}

#[test]
fn a_computation_that_panics_ends_only_its_own_timer() {
    in_each_way(async |way, world, addr, log| {
        let (_listener, receiver) = listen(&world.timers);
        let panics = count_panics();
        let bad = world.repeat_at(way, &addr, panicking(world.wall_start, 2), Note(1)).await.unwrap();
        let good = world.repeat_at(way, &addr, ms(10), Note(2)).await.unwrap();
        world.run_to(35).await;
        assert_eq!(log.names(), [1, 2, 2, 2]);
        assert!(world.timers.cancel(good).is_cancelled());
        assert_eq!(world.timers.cancel(bad), CancelOutcome::NotFound);
        let letters: Vec<_> =
            receiver.try_iter().map(|letter| (letter.id, letter.reason, letter.take::<Note<u64>>())).collect();
        assert_eq!(letters, [(bad, DeadLetterReason::SourcePanicked, Some(Note(1)))], "made before the panic");
        assert_eq!((world.timers.snapshot().counters.source_panicked, world.pending()), (1, 0));
        assert_eq!(count_panics(), panics + 1);
    });
}

/// A run that was moved keeps its computed time, so that the next does not come twice.
#[test]
fn after_a_move_the_next_time_is_computed_from_both_times() {
    for (delay, expected) in [(20, vec![20, 100]), (80, vec![80])] {
        in_each_way(async |way, world, addr, log| {
            let seen = Seen::default();
            let hourly = computed(&world, &seen, |due, now| Some(due.max(now) + 50));
            let id = world.repeat_at(way, &addr, hourly, Note(1)).await.unwrap();
            assert!(world.timers.reschedule_after(id, ms(delay)).is_rescheduled());
            world.run_to(120).await;
            assert_eq!(times(&log), expected);
            assert_eq!(seen.take()[..2], [(0, 0), (50, delay)]);
            world.run_to(130).await;
            assert_eq!(times(&log).is_empty(), delay == 20);
        });
    }
}

#[test]
fn steps_of_the_wall_clock_are_followed() {
    in_virtual_time(TimerActor::builder, async |world| {
        if !world.is_manual() {
            return;
        }
        let (addr, log) = world.probe();
        let seen = Seen::default();
        let hourly = computed(&world, &seen, |due, now| Some((due.max(now) / HOUR + 1) * HOUR));
        world.timers.schedule_at_fixed_rate(&addr, hourly, Note(1));
        world.run_to(HOUR / 2).await;
        // Forward over three times: one delivery for all.
        world.clock().hands.set_wall(world.wall(3 * HOUR + HOUR / 2));
        world.run_to(HOUR / 2).await;
        assert_eq!(times(&log), [HOUR / 2]);
        world.run_to(HOUR).await;
        assert_eq!(times(&log), [HOUR], "at 4:00");
        // Back: none repeats.
        world.clock().hands.set_wall(world.wall(3 * HOUR));
        world.run_to(3 * HOUR - 1).await;
        assert_eq!(log.len(), 0);
        world.run_to(3 * HOUR).await;
        assert_eq!(times(&log), [3 * HOUR], "at 5:00");
        let late = (HOUR, 3 * HOUR + HOUR / 2);
        assert_eq!(seen.take()[1..], [late, (4 * HOUR, 4 * HOUR), (5 * HOUR, 5 * HOUR)]);
    });
}

#[test]
fn jitter_postpones_all_times_alike_unseen_by_the_closure() {
    with_probe::<u64>(async |world, addr, log| {
        let (seen, mut offsets) = (Seen::default(), Vec::new());
        for _ in 0..4 {
            let start = world.now();
            let hourly = computed(&world, &seen, |due, _| Some(due + HOUR));
            let id = world.timers.timer(&addr, TimerOptions::new().jitter(ms(1000))).repeat(hourly, Note(1));
            world.run_to(start + 4 * HOUR - 1).await;
            let runs = times(&log);
            assert!(runs.len() == 3 && runs.windows(2).all(|pair| pair[1] - pair[0] == HOUR), "{runs:?}");
            offsets.push(runs[0] - start - HOUR);
            let dues: Vec<u64> = seen.take().into_iter().map(|(due, _)| due - start).collect();
            assert_eq!(dues, [0, 1, 2, 3].map(|hour| hour * HOUR));
            assert!(world.timers.cancel(id).is_cancelled());
        }
        assert!(offsets.iter().all(|at| *at <= 1000) && offsets.iter().any(|at| *at > 0), "{offsets:?}");
    });
}

#[test]
fn the_first_time_counts_from_the_request() {
    with_probe(async |world, addr, log| {
        let seen = Seen::default();
        let request = ScheduleAtFixedRate::new(&addr, computed(&world, &seen, |due, _| Some(due + 100)), Note(1));
        world.run_to(30).await;
        world.timers.addr().send(request).await.unwrap().unwrap();
        world.run_to(200).await;
        assert_eq!(times(&log), [100, 200]);
        assert_eq!(seen.take(), [(0, 30), (100, 100), (200, 200)]);
    });
}

#[test]
fn a_closure_is_freed_and_a_drain_returns_the_next_message() {
    in_each_way(async |way, world, addr, log| {
        let census = Census::default();
        let counted = |times| holding(census.payload(), 10, times);
        world.repeat_at(way, &addr, counted(2), Note(1)).await.unwrap();
        let cancelled = world.repeat_at(way, &addr, counted(100), Note(1)).await.unwrap();
        world.repeat_at(way, &addr, counted(0), Note(1)).await.unwrap_err();
        assert_eq!(census.live(), 2);
        world.run_to(30).await;
        assert_eq!(census.live(), 1);
        assert!(world.timers.cancel(cancelled).is_cancelled());
        assert_eq!(census.live(), 0);
        log.take();
        world.repeat_at(way, &addr, counted(100), Note(7)).await.unwrap();
        let returned = world.timers.drain();
        assert_eq!((returned.len(), census.live()), (1, 0));
        assert_eq!(returned[0].message(), Some(&Note(7_u64)));
        assert_eq!((log.take(), world.pending()), (vec![], 0));
    });
}

/// A value of the closure is user code, too.
#[test]
fn a_closure_whose_drop_panics_leaves_the_timer_actor_up() {
    let builder = || TimerActor::builder().capacity(3);
    in_virtual_time(builder, async |world| {
        let before = count_panics();
        let grenade = |times| holding(OnDrop::new(panic_on_purpose), 10, times);
        let (addr, log) = world.probe();
        let alive = world.timers.schedule_at_fixed_rate(&addr, every(10, 100), Note(1));
        let cancelled = world.repeat_at(Way::Message, &addr, grenade(100), Note(2)).await.unwrap();
        world.repeat_at(Way::Message, &addr, grenade(1), Note(3)).await.unwrap();
        // No room, by a request that waits for the answer and by one that does not; and no first time.
        for times in [100, 0] {
            let rejected = world.repeat_at(Way::Message, &addr, grenade(times), Note(4)).await;
            assert!(rejected.is_err());
            world.timers.addr().do_send(ScheduleAtFixedRate::new(&addr, grenade(times), Note(4)));
            world.timers.schedule_at_fixed_rate(&addr, grenade(times), Note(4));
        }
        world.run_to(15).await;
        assert!(world.timers.cancel(cancelled).is_cancelled());
        world.run_to(25).await;
        assert_eq!(log.take(), [(1, 10), (2, 10), (3, 10), (1, 20)]);
        assert!(world.timers.cancel(alive).is_cancelled());
        assert_eq!((world.pending(), count_panics()), (0, before + 8));
    });
}

/// A mailbox that is full makes a message wait, which was produced: its next time is computed once.
#[test]
fn a_message_without_room_has_its_next_time_computed_once() {
    for until in [399, 550] {
        in_virtual_time(TimerActor::builder, async |world| {
            let (addr, log) = world.probe_with(|probe| probe.on_start = Box::new(|ctx| ctx.set_mailbox_capacity(1)));
            let go = block(&addr).await;
            let target = Target::from(&addr).mailbox_policy(MailboxPolicy::Wait { window: 100 });
            let (seen, mut numbers) = (Seen::default(), 1..=7);
            let grid = computed(&world, &seen, move |_, _| Some(100 * numbers.next()?));
            world.timers.schedule_at_fixed_rate(&target, grid, Note(1));
            world.run_to(until).await;
            assert_eq!(world.pending(), 1, "it waits for room");
            go.send(()).unwrap();
            world.run_to(1000).await;
            let dues: Vec<u64> = seen.take().iter().map(|(due, _)| *due).collect();
            assert_eq!(dues, [0, 100, 200, 300, 400, 500, 600, 700]);
            let runs = times(&log);
            assert!(runs.len() == 7 && runs.ends_with(&[600, 700]), "{runs:?}");
            assert_eq!(world.pending(), 0);
        });
    }
}

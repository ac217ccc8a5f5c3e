//! Batches: many timers in one message to the timer actor.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Alarm, Clock, Drain, ScheduleAfter, ScheduleBatch, ScheduleError, Target, TimerActor};
use support::{
    Census, Log, Note, OnDrop, Probe, StopWatch, World, count_panics, in_virtual_time, ms, panic_on_purpose, paused,
};

fn note_target(world: &World) -> (Target<Note<u64>>, Log<u64>) {
    let (addr, log) = world.probe::<u64>();
    // A weak target would not keep the probe alive.
    (Target::from(&addr).strong(), log)
}

/// Ids are returned in the order of the entries, and each id cancels its own timer. The other messages arrive on time,
/// with equal deadlines in the order of the batch. The batch has more entries than one turn takes in.
#[test]
fn a_batch_answers_in_order_with_a_timer_for_each_entry() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (target, log) = note_target(&world);
        let mut batch = ScheduleBatch::with_capacity(200);
        for name in 0..200 {
            batch.after(target.clone(), ms(10 + name % 3), Note(name));
        }
        assert_eq!((batch.len(), batch.is_empty()), (200, false));
        let answers = world.timers.addr().send(batch).await.unwrap();
        let ids: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!((ids.len(), world.pending()), (200, 200));
        for id in ids.iter().skip(1).step_by(2) {
            assert!(world.timers.cancel(*id).is_cancelled());
        }
        world.run_to(100).await;
        let expected: Vec<(u64, u64)> = (0..3)
            .flat_map(|rest| {
                (0..200).filter(move |name| name % 2 == 0 && name % 3 == rest).map(move |name| (name, 10 + rest))
            })
            .collect();
        assert_eq!(log.take(), expected);
    });
}

/// Entries with a wall-clock time, and an empty batch.
#[test]
fn a_batch_may_be_empty_and_may_name_times_of_day() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let (target, log) = note_target(&world);
        assert!(world.timers.addr().send(ScheduleBatch::<Note<u64>>::new()).await.unwrap().is_empty());
        let mut batch = ScheduleBatch::default();
        batch.at(target.clone(), world.wall(30), Note(1)).after(target.clone(), ms(20), Note(2));
        batch.at(target, world.wall(0), Note(3));
        world.timers.addr().do_send(batch);
        world.run_to(100).await;
        assert_eq!(log.take(), [(3, 0), (2, 20), (1, 30)]);
    });
}

/// Each delay counts from the time at which its entry was added. (A `ManualClock` cannot know that time.)
#[test]
fn the_delays_of_a_batch_count_from_when_each_was_added() {
    paused(async {
        let world = World::paused(TimerActor::builder());
        let (target, log) = note_target(&world);
        world.settle().await;
        let mut batch = ScheduleBatch::new();
        batch.after(target.clone(), ms(100), Note(1));
        world.slip_to(30).await;
        batch.after(target.clone(), ms(100), Note(2));
        world.slip_to(40).await;
        world.timers.addr().do_send(batch);
        world.run_to(500).await;
        assert_eq!(log.take(), [(1, 100), (2, 130)]);
    });
}

/// Each entry has its own deadline, also the last ones of a batch larger than the request budget and the expiry budget.
#[test]
fn the_last_entries_of_a_large_batch_have_their_own_deadlines() {
    in_virtual_time(TimerActor::builder, |world| async move {
        const ENTRIES: u64 = 5000;
        let (target, log) = note_target(&world);
        world.run_to(7).await;
        let mut batch = ScheduleBatch::with_capacity(5000);
        // The later in the batch, the earlier the deadline; all deadlines are distinct.
        (0..ENTRIES).for_each(|name| _ = batch.after(target.clone(), ms(2 * (ENTRIES - name)), Note(name)));
        let answers = world.timers.addr().send(batch).await.unwrap();
        for (name, id) in (0..ENTRIES).zip(&answers) {
            let info = world.timers.get(*id.as_ref().unwrap()).unwrap();
            assert_eq!(info.remaining, ms(2 * (ENTRIES - name)), "entry {name}");
        }
        world.run_to(7 + 2 * ENTRIES).await;
        let expected: Vec<(u64, u64)> = (0..ENTRIES).rev().map(|name| (name, 7 + 2 * (ENTRIES - name))).collect();
        assert_eq!(log.take(), expected);
    });
}

/// A drained timer actor accepts nothing and keeps nothing.
#[test]
fn a_batch_for_a_drained_timer_actor_comes_back_whole() {
    in_virtual_time(TimerActor::builder, |world| async move {
        let census = Census::default();
        let (addr, _log) = world.probe::<u64>();
        assert!(world.timers.addr().send(Drain::now()).await.unwrap().is_empty());
        let mut batch = ScheduleBatch::new();
        (0..200).for_each(|_| _ = batch.after(&addr, ms(10), census.payload()));
        let answers = world.timers.addr().send(batch).await.unwrap();
        assert_eq!((answers.len(), census.live()), (200, 200));
        assert!(answers.iter().all(|answer| matches!(answer, Err(ScheduleError::Stopped { .. }))));
        drop(answers);
        world.run_to(20).await;
        assert_eq!((census.live(), world.pending()), (0, 0));
        assert_eq!(world.timers.snapshot().counters.accepted, 0);
    });
}

/// Entries over the capacity are returned with their messages and indices; none is dropped or kept twice.
#[test]
fn a_batch_that_does_not_fit_returns_the_rejected_entries() {
    let builder = || TimerActor::builder().capacity(70);
    in_virtual_time(builder, |world| async move {
        let census = Census::default();
        let (addr, _log) = world.probe::<u64>();
        let mut batch = ScheduleBatch::new();
        for _ in 0..100 {
            batch.after(&addr, ms(10), census.payload());
        }
        let answers = world.timers.addr().send(batch).await.unwrap();
        assert!(answers[..70].iter().all(Result::is_ok));
        assert!(answers[70..].iter().all(|answer| matches!(answer, Err(ScheduleError::CapacityReached { .. }))));
        assert_eq!(census.live(), 100);
        drop(answers);
        assert_eq!(census.live(), 70);
        world.run_to(20).await;
        assert_eq!((census.live(), world.pending()), (0, 0));
    });
}

/// Each entry of a batch counts as one request: due messages and other actors get their turn.
#[test]
fn batches_count_against_the_request_budget() {
    let builder = || TimerActor::builder().request_budget(8);
    in_virtual_time(builder, |world| async move {
        let (target, log) = note_target(&world);
        for name in 0..50 {
            let mut batch = ScheduleBatch::new();
            (0..10).for_each(|_| _ = batch.after(target.clone(), ms(5), Note(name)));
            world.timers.addr().do_send(batch);
        }
        world.run_to(10).await;
        let names: Vec<u64> = (0..50).flat_map(|name| [name; 10]).collect();
        assert_eq!(log.names(), names);
    });
}

/// Due messages do not wait until all requests are taken in, be it one batch or many requests; a later request is taken
/// in after the earlier ones.
#[test]
fn due_messages_do_not_wait_for_a_large_batch_or_many_requests() {
    for in_one_batch in [true, false] {
        paused(async {
            let world = World::manual(TimerActor::builder().request_budget(10));
            let accepted_before = Arc::new(Mutex::new(None));
            let (before, timers) = (Arc::clone(&accepted_before), world.timers.clone());
            let (addr, log) = world.probe_with(|probe| {
                probe.hook = Box::new(move |name, ctx| match *name {
                    // This one is due while the rest is taken in.
                    0 => _ = timers.schedule_after(ctx.address(), ms(0), Note(2000)),
                    2000 => *before.lock().unwrap() = Some(timers.snapshot().counters.accepted),
                    _ => (),
                });
            });
            world.after(&addr, 10, 0);
            world.run_to(5).await;
            world.slip_to(10).await;
            let mut batch = ScheduleBatch::new();
            for name in 1..=1000 {
                if in_one_batch {
                    batch.after(&addr, ms(10), Note(name));
                } else {
                    world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(10), Note(name)));
                }
            }
            let answers = world.timers.addr().send(batch);
            world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(10), Note(1001)));
            let ids = answers.await.unwrap();
            assert_eq!(ids.into_iter().filter(Result::is_ok).count(), if in_one_batch { 1000 } else { 0 });
            world.run_to(20).await;
            let accepted = accepted_before.lock().unwrap().unwrap();
            assert!(accepted < 100, "{accepted} taken in before it, in one batch: {in_one_batch}");
            let names = log.names();
            assert!(names.into_iter().filter(|name| *name != 2000).eq(0..=1001));
        });
    }
}

/// A user's clock that runs a hundred times as fast as real time.
struct Fast(tokio::time::Instant);

impl Clock for Fast {
    fn now(&self) -> Duration {
        self.0.elapsed() * 100
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, instant: tokio::time::Instant) -> Duration {
        instant.elapsed() * 100
    }

    fn alarm(&self, time: Duration) -> Alarm {
        Box::pin(tokio::time::sleep_until(self.0 + time / 100))
    }
}

/// The time before an entry was added is measured on the timer actor's clock, too.
#[test]
fn a_batch_on_a_fast_clock_is_never_early() {
    paused(async {
        let began = tokio::time::Instant::now();
        let timers = TimerActor::builder().clock(Fast(began)).start().unwrap();
        let probe = Probe::new(StopWatch::Paused(began));
        let log = probe.log.clone();
        let addr = probe.start();
        let mut batch = ScheduleBatch::new();
        batch.after(&addr, Duration::from_secs(20), Note(1));
        tokio::time::advance(ms(50)).await;
        batch.after(&addr, Duration::from_secs(10), Note(2));
        tokio::time::advance(ms(50)).await;
        timers.addr().do_send(batch);
        tokio::time::sleep(ms(1000)).await;
        // In real time: 10 s of the clock are 100 ms, counted from 50 ms; 20 s are 200 ms, counted from the start.
        assert_eq!(log.take(), [(2, 150), (1, 200)]);
    });
}

/// A clock on which a second passes at each call of `since`, which returns the time since the clock showed an hour.
#[derive(Default)]
struct Busy(std::sync::atomic::AtomicU64);

const HOUR: Duration = Duration::from_secs(3600);

impl Clock for Busy {
    fn now(&self) -> Duration {
        HOUR + Duration::from_secs(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, _: tokio::time::Instant) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1)
    }

    fn alarm(&self, _: Duration) -> Alarm {
        Box::pin(std::future::pending())
    }
}

/// Time passes while a batch is taken in. Entries may be late, never early.
#[test]
fn entries_are_not_early_when_taking_them_in_takes_time() {
    paused(async {
        let clock = Arc::new(Busy::default());
        let timers = TimerActor::builder().clock(Arc::clone(&clock)).start().unwrap();
        let probe = Probe::<u64>::new(StopWatch::Source(Arc::default())).start();
        let mut batch = ScheduleBatch::new();
        (0..200).for_each(|name| _ = batch.after(&probe, 2 * HOUR, Note(name)));
        for id in timers.addr().send(batch).await.unwrap() {
            let deadline = clock.now() + timers.get(id.unwrap()).unwrap().remaining;
            assert!(deadline >= 3 * HOUR, "two hours after an hour: {deadline:?}");
        }
    });
}

/// Its entries that are not yet taken in panic when they are dropped.
#[test]
fn a_system_may_end_in_the_middle_of_a_batch() {
    count_panics();
    let timers = paused(async {
        let timers = TimerActor::builder().request_budget(1).start().unwrap();
        let probe = Probe::<u64>::new(StopWatch::Source(Arc::default())).start();
        let mut batch = ScheduleBatch::new();
        (0..100).for_each(|_| _ = batch.after(&probe, ms(100), OnDrop::new(panic_on_purpose)));
        timers.addr().do_send(batch);
        while timers.snapshot().counters.accepted == 0 {
            tokio::task::yield_now().await;
        }
        timers
    });
    let counters = timers.snapshot().counters;
    assert!(counters.accepted < 100 && counters.balance() && counters.pending == 0, "{counters:?}");
}

#[test]
fn a_batch_prints_its_size() {
    let batch = ScheduleBatch::<Note<u64>>::with_capacity(3);
    assert_eq!(format!("{batch:?}"), "ScheduleBatch { len: 0, .. }");
}

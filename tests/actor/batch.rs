//! Batches: many timers in one message to the timer actor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use actix_timers::{Alarm, Clock, Drain, RequestTime, ScheduleAfter, ScheduleBatch, ScheduleError, Target, TimerActor};
use support::{Census, Log, Note, OnDrop, World, count_panics, in_virtual_time, ms, panic_on_purpose, paused, probe};

fn note_target(world: &World) -> (Target<Note<u64>>, Log<u64>) {
    let (addr, log) = world.probe::<u64>();
    // A weak target would not keep the probe alive.
    (Target::from(&addr).strong(), log)
}

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

/// Ids are returned in the order of the entries, and each id finds and cancels its own timer. The batch has more
/// entries than one turn takes in or delivers. The later in it, the earlier the deadline, which pairs of entries share.
#[test]
fn a_batch_answers_in_order_with_a_timer_for_each_entry() {
    in_virtual_time(TimerActor::builder, async |world| {
        const ENTRIES: u64 = 5000;
        let (target, log) = note_target(&world);
        world.run_to(7).await;
        let mut batch = ScheduleBatch::with_capacity(5000);
        assert_eq!(format!("{batch:?}"), "ScheduleBatch { len: 0, .. }");
        let delay = |name| 2 + ENTRIES - name / 2 * 2;
        (0..ENTRIES).for_each(|name| _ = batch.after(target.clone(), ms(delay(name)), Note(name)));
        assert_eq!((batch.len(), batch.is_empty()), (5000, false));
        let answers = world.timers.addr().send(batch).await.unwrap();
        assert_eq!((answers.len(), world.pending()), (5000, ENTRIES));
        for (name, id) in (0..ENTRIES).zip(answers) {
            let id = id.unwrap();
            assert_eq!(world.timers.get(id).unwrap().remaining, ms(delay(name)), "entry {name}");
            assert!(name % 3 > 0 || world.timers.cancel(id).is_cancelled());
        }
        world.run_to(10 + ENTRIES).await;
        let mut expected: Vec<(u64, u64)> =
            (0..ENTRIES).filter(|name| name % 3 > 0).map(|name| (name, 7 + delay(name))).collect();
        expected.sort_by_key(|(_, at)| *at);
        assert_eq!(log.take(), expected);
    });
}

/// Entries over the capacity, or after a drain, are returned with their messages and indices; none is dropped or kept
/// twice.
#[test]
fn a_batch_that_does_not_fit_returns_the_rejected_entries() {
    for (is_drained, room) in [(false, 70), (true, 0)] {
        in_virtual_time(
            || TimerActor::builder().capacity(70),
            async |world| {
                let census = Census::default();
                let (addr, _log) = world.probe::<u64>();
                if is_drained {
                    assert!(world.timers.addr().send(Drain::now()).await.unwrap().is_empty());
                }
                let mut batch = ScheduleBatch::new();
                (0..200).for_each(|_| _ = batch.after(&addr, ms(10), census.payload()));
                let answers = world.timers.addr().send(batch).await.unwrap();
                assert_eq!((answers.len(), census.live()), (200, 200));
                assert!(answers[..room].iter().all(Result::is_ok));
                assert!(answers[room..].iter().all(|answer| match answer {
                    Err(ScheduleError::Stopped { .. }) => is_drained,
                    Err(ScheduleError::CapacityReached { .. }) => !is_drained,
                    _ => false,
                }));
                drop(answers);
                assert_eq!(census.live(), room as i64);
                world.run_to(20).await;
                assert_eq!((census.live(), world.pending()), (0, 0));
                assert_eq!(world.timers.snapshot().counters.accepted, room as u64);
            },
        );
    }
}

/// Each entry of a batch counts as one request: due messages do not wait until all are taken in. A later request is
/// taken in after the earlier ones.
#[test]
fn due_messages_do_not_wait_for_a_large_batch() {
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
            batch.after(&addr, ms(10), Note(name));
        }
        let answers = world.timers.addr().send(batch);
        world.timers.addr().do_send(ScheduleAfter::new(&addr, ms(10), Note(1001)));
        let ids = answers.await.unwrap();
        assert!(ids.len() == 1000 && ids.iter().all(Result::is_ok));
        world.run_to(20).await;
        let accepted = accepted_before.lock().unwrap().unwrap();
        assert!(accepted < 100, "{accepted} taken in before it");
        let names = log.names();
        assert!(names.into_iter().filter(|name| *name != 2000).eq(0..=1001));
    });
}

/// A user's clock on which a second passes at each call of `since`, which returns the time since the clock showed an
/// hour: ten minutes at first.
#[derive(Default)]
struct Busy(AtomicU64);

const HOUR: Duration = Duration::from_secs(3600);

impl Busy {
    fn since_an_hour(&self) -> Duration {
        Duration::from_secs(600 + self.0.load(Ordering::SeqCst))
    }
}

impl Clock for Busy {
    fn now(&self) -> Duration {
        HOUR + self.since_an_hour()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.now()
    }

    fn since(&self, _: RequestTime) -> Duration {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.since_an_hour()
    }

    fn alarm(&self, _: Duration) -> Alarm {
        Box::pin(std::future::pending())
    }
}

/// The time before an entry was taken in is measured on the timer actor's clock. Time passes meanwhile: entries may be
/// late, never early.
#[test]
fn entries_are_not_early_when_taking_them_in_takes_time() {
    paused(async {
        let clock = Arc::new(Busy::default());
        let timers = TimerActor::builder().clock(Arc::clone(&clock)).start().unwrap();
        let (addr, _) = probe::<u64>();
        let mut batch = ScheduleBatch::new();
        (0..200).for_each(|name| _ = batch.after(&addr, 2 * HOUR, Note(name)));
        for id in timers.addr().send(batch).await.unwrap() {
            let deadline = clock.now() + timers.get(id.unwrap()).unwrap().remaining;
            let late = deadline.checked_sub(3 * HOUR).expect("two hours after an hour");
            assert!(late <= Duration::from_secs(200), "{late:?} after two hours");
        }
    });
}

/// Its entries that are not yet taken in panic when they are dropped.
#[test]
fn a_system_may_end_in_the_middle_of_a_batch() {
    count_panics();
    let timers = paused(async {
        let timers = TimerActor::builder().request_budget(1).start().unwrap();
        let (addr, _) = probe::<u64>();
        let mut batch = ScheduleBatch::new();
        (0..100).for_each(|_| _ = batch.after(&addr, ms(100), OnDrop::new(panic_on_purpose)));
        timers.addr().do_send(batch);
        while timers.snapshot().counters.accepted == 0 {
            tokio::task::yield_now().await;
        }
        timers
    });
    let counters = timers.snapshot().counters;
    assert!(counters.accepted < 100 && counters.balance() && counters.pending == 0, "{counters:?}");
}

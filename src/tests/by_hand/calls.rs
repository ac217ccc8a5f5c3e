//! The driver's wake-ups and turns.

use std::time::SystemTime;

use crate::tests::by_hand::*;
use crate::{RescheduleOutcome, ScheduleAfter};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// Asserts how often the driver has been woken, and polls it if it has.
    fn assert_calls(&mut self, calls: usize, what: &str) {
        assert_eq!(self.driver_called.take(), calls, "{what}");
        if calls > 0 {
            self.poll_driver();
            self.driver_called.take();
        }
    }

    /// Returns a world whose wall clock shows a time near the epoch.
    fn at(wall: SystemTime) -> Self {
        Self::with(TimerActorBuilder::default().jitter_seed(42), ManualClock::starting_at(wall))
    }

    fn remaining(&self, id: TimerId) -> Duration {
        self.timers.get(id).unwrap().remaining
    }

    /// Steps the wall clock by so many milliseconds.
    fn step(&mut self, by: i64) {
        let (wall, step) = (self.clock.wall(), ms(by.unsigned_abs()));
        self.clock.set_wall(if by < 0 { wall - step } else { wall + step });
        self.poll_driver();
    }
}

#[test]
fn a_timer_that_is_not_the_first_does_not_wake_the_driver() {
    let mut world = World::new();
    world.after(10, 0);
    world.assert_calls(1, "nothing was pending");
    let id = world.after(20, 0);
    world.poll_driver();
    world.driver_called.take();
    for (calls, delay, what) in [(0, 20, "later"), (0, 10, "at the same time"), (1, 9, "earlier")] {
        world.after(delay, 0);
        world.assert_calls(calls, what);
    }
    for (calls, delay, what) in [(0, 30, "later"), (0, 9, "to the same time"), (1, 8, "to an earlier time")] {
        assert_eq!(world.timers.reschedule_after(id, ms(delay)), RescheduleOutcome::Rescheduled);
        world.assert_calls(calls, what);
    }
    world.service.state().reports.published.ask_to_publish();
    world.driver_called.take();
    assert!(world.timers.cancel(id).is_cancelled());
    world.assert_calls(0, "cancelled");
}

#[test]
fn a_repetition_that_is_not_due_first_does_not_wake_the_driver() {
    let mut world = World::new();
    world.ear.run(|ctx| ctx.schedule_at_fixed_rate(Repeat::every(ms(10)), made(1, Hook::default())));
    world.after(15, 2);
    world.poll_driver();
    world.driver_at(10);
    world.driver_called.take();
    world.ear.poll();
    assert_eq!(world.ear.log(), [1]);
    assert_eq!(world.driver_called.take(), 0, "the next is due at 20 ms");
    world.driver_at(5);
    world.driver_at(5);
    world.driver_called.take();
    world.ear.poll();
    assert_eq!(world.ear.log(), [1, 2, 1]);
    assert_eq!(world.driver_called.take(), 1, "nothing else is pending");
}

/// The driver compares the clocks as soon as a timer follows the wall clock. Until then a step would go unnoticed.
#[test]
fn a_wall_clock_timer_has_the_clocks_compared_at_once() {
    let mut world = World::new();
    for _ in 0..2 {
        world.after(90_000, 2);
        world.poll_driver();
    }
    world.driver_called.take();
    let at = world.clock.wall() + 120 * SECOND;
    let id = world.timers.schedule_at(&world.ear.addr, at, number(1));
    assert_eq!(world.driver_called.take(), 1, "a timer");
    assert!(world.timers.cancel(id).is_cancelled());
    world.poll_driver();
    let id = world.after(100_000, 1);
    world.driver_called.take();
    assert_eq!(world.timers.reschedule_at(id, at), RescheduleOutcome::Rescheduled);
    assert_eq!(world.driver_called.take(), 1, "a timer that was moved");
}

/// The same for a repetition, which is moved to a wall-clock time while the previous handler runs.
#[test]
fn a_wall_clock_repetition_has_the_clocks_compared_at_once() {
    let mut world = World::new();
    let (timers, mine) = (world.timers.clone(), Arc::new(Mutex::new(None)));
    let (id, at) = (Arc::clone(&mine), world.clock.wall() + 120 * SECOND);
    let source = MessageSource::from_fn(move || {
        let (timers, id) = (timers.clone(), *id.lock().unwrap());
        Run(Box::new(move |_| {
            assert_eq!(timers.reschedule_at(id.unwrap(), at), RescheduleOutcome::InProgress);
        }))
    });
    let repeating = world.timers.schedule_at_fixed_rate(Target::tracked(&world.ear.addr), ms(10), source);
    *mine.lock().unwrap() = Some(repeating);
    world.after(90_000, 2);
    world.poll_driver();
    world.driver_at(10);
    assert!(world.service.state().driver.wall_offset.is_none());
    // Publication is requested already, so that no further event requests it.
    world.service.state().reports.published.ask_to_publish();
    world.driver_called.take();
    world.ear.poll();
    assert_eq!(world.remaining(repeating).as_secs(), 119);
    assert_eq!(world.driver_called.take(), 1);
}

#[test]
fn a_turn_in_between_leaves_the_alarm_to_the_driver() {
    let mut world = World::new();
    world.driver_called.take();
    world.service.take_turn_in_between();
    assert_eq!(world.driver_called.take(), 1);
    world.poll_driver();
    assert_eq!(world.driver_called.take(), 0);
}

#[test]
fn timers_of_an_ended_actor_are_left_to_the_driver() {
    let mut world = World::new();
    world.ear.own(10, number(1));
    world.service.end_owner(world.owner());
    world.watch_at(0);
    assert_eq!(world.service.state().lanes.ended.len(), 1);
    world.poll_driver();
    assert!(world.service.state().lanes.ended.is_empty() && world.service.state().lanes.own.is_empty());
}

/// New timers take the places of those of ended owners before the driver frees them, and pass each owner once.
#[test]
fn an_ended_owner_without_a_timer_is_not_looked_at_again() {
    let mut world = World::with(TimerActorBuilder::default().capacity(3), ManualClock::new());
    let mut ears = [(); 3].map(|()| Ear::new());
    ears.iter_mut().for_each(|ear| _ = ear.own(900, number(0)));
    drop(ears);
    for left in [3, 2, 1] {
        world.after(900, 1);
        assert_eq!(world.service.state().lanes.ended.len(), left);
    }
    assert_eq!(world.timers.snapshot().counters.rejected, 0);
    world.poll_driver();
    assert!(world.service.state().lanes.next_ended().is_none() && world.service.state().lanes.own.is_empty());
}

#[test]
fn letters_about_further_rejections_wait_for_a_time_that_is_known() {
    let mut world = World::with(TimerActorBuilder::default().capacity(1), ManualClock::new());
    let mut clerk = world.clerk();
    (0..3).for_each(|_| _ = world.after(90_000, 1));
    world.poll_driver();
    world.after(90_000, 1);
    world.poll_driver();
    clerk.poll();
    assert_eq!(clerk.log(), [LETTER; 2]);
    world.driver_called.take();
    for (by, calls) in [(249, 0), (1, 1)] {
        assert_eq!(clerk.log(), [LETTER; 2]);
        world.clock.jump(ms(by));
        assert_eq!(world.driver_called.take(), calls, "by the alarm of the publication");
    }
    world.poll_driver();
    clerk.poll();
    assert_eq!(clerk.log(), [LETTER; 3]);
}

/// The mailbox of the timer actor contains more requests than it may handle without giving others a turn.
#[test]
fn the_budget_bounds_the_requests_taken_in_a_row() {
    let mut world = World::with(TimerActorBuilder::default().request_budget(3), ManualClock::new());
    let request = |world: &World| world.timers.addr().do_send(ScheduleAfter::new(&world.ear.addr, ms(10), number(0)));
    (0..7).for_each(|_| request(&world));
    let mut taken_in = Vec::new();
    while world.driver_called.take() > 0 {
        world.poll_driver();
        taken_in.push(world.timers.snapshot().counters.accepted);
    }
    taken_in.dedup();
    assert_eq!(taken_in, [3, 6, 7]);
    // Each turn has its own budget.
    for accepted in [9, 11, 13] {
        (0..2).for_each(|_| request(&world));
        world.poll_driver();
        assert_eq!(world.timers.snapshot().counters.accepted, accepted);
    }
}

/// Steps up to 20 ms are left to the check of each timer at its expiration; several are as one. Without a timer that
/// follows the wall clock its steps are of no interest.
#[test]
fn a_step_of_the_wall_clock_is_followed_from_a_certain_size_on() {
    for (steps, remaining) in [
        (&[0][..], 1000),
        (&[10], 1000),
        (&[20], 1000),
        (&[-10], 1000),
        (&[-20], 1000),
        (&[21], 979),
        (&[-21], 1021),
        (&[15], 1000),
        (&[15, 15], 970),
    ] {
        let mut world = World::at(SystemTime::UNIX_EPOCH + 9 * SECOND);
        let id = world.timers.schedule_at(&world.ear.addr, world.clock.wall() + SECOND, number(1));
        world.poll_driver();
        steps.iter().for_each(|step| world.step(*step));
        assert_eq!(world.remaining(id), ms(remaining), "{steps:?} ms");
        assert!(world.timers.cancel(id).is_cancelled());
        world.poll_driver();
        assert!(world.service.state().driver.wall_offset.is_none());
    }
}

#[test]
fn jitter_stays_when_the_wall_clock_is_stepped() {
    let mut world = World::at(SystemTime::UNIX_EPOCH + SECOND);
    let jitter = TimerOptions::new().jitter(100 * SECOND);
    let id = world.timers.timer(&world.ear.addr, jitter).schedule(world.clock.wall() + 10 * SECOND, number(1));
    world.poll_driver();
    let remaining = world.remaining(id);
    assert!(remaining > 11 * SECOND);
    world.step(1000);
    assert_eq!(world.remaining(id), remaining - SECOND);
}

#[test]
fn on_a_wall_clock_before_1970_time_that_passes_is_no_step() {
    let mut world = World::at(SystemTime::UNIX_EPOCH - 3600 * SECOND);
    world.timers.schedule_at(&world.ear.addr, world.clock.wall() + 10_000 * SECOND, number(1));
    world.poll_driver();
    let apart = world.service.state().driver.wall_offset;
    assert!(apart.is_some_and(|apart| apart < 0));
    world.driver_at(1_800_000);
    assert_eq!(world.service.state().driver.wall_offset, apart);
}

/// An actor that lives on without an address is checked regularly: all such actors once per interval.
#[test]
fn strays_are_looked_after_once_in_five_seconds() {
    for detached in [1, 300] {
        let mut world = World::new();
        let mut ears: Vec<_> = (0..detached).map(|_| Ear::new()).collect();
        for ear in &mut ears {
            ear.between(&Hook::default());
            ear.own(3_600_000, number(1));
            ear.lose_address();
            ear.poll();
        }
        (0..4).for_each(|_| world.poll_driver());
        world.driver_at(1000);
        assert_eq!(world.service.state().lanes.detached.len(), detached);
        for (by, next) in [(3999, 5000), (1, 10_000)] {
            world.driver_at(by);
            // More than one turn looks after, one after the other.
            while world.driver_called.take() > 0 {
                world.poll_driver();
            }
            let times = world.service.state().lanes.detached.iter().map(|(at, _)| *at).collect::<Vec<_>>();
            assert_eq!(times, vec![ms(next); detached]);
        }
    }
}

/// Ten seconds after a burst its memory goes back, in turns of the driver, which then sleeps again.
#[test]
fn the_memory_of_a_burst_goes_back() {
    let mut world = World::new();
    let kept = world.after(60_000, 0);
    let burst: Vec<TimerId> = (1..=10_000).map(|name| world.after(50_000, name)).collect();
    world.poll_driver();
    let slots = |world: &World| world.service.state().engine.wheel().slots();
    assert!(slots(&world) > 10_000);
    burst.into_iter().for_each(|id| assert!(world.timers.cancel(id).is_cancelled()));
    world.driver_at(1_000);
    world.driver_called.take();
    world.driver_at(9_999);
    assert_eq!((slots(&world) > 10_000, world.driver_called.take()), (true, 0), "the next burst may be near");
    world.driver_at(1);
    let mut turns = 0;
    while world.driver_called.take() > 0 {
        world.poll_driver();
        turns += 1;
    }
    assert!((20..500).contains(&turns), "{turns}");
    assert!(slots(&world) < 100);
    world.after(50_000, 7);
    world.assert_calls(1, "the first");
    assert!(world.timers.get(kept).is_some());
}

/// Its recipient has stopped since the driver's turn.
#[test]
fn a_message_that_goes_with_its_bell_is_published() {
    let mut world = World::new();
    let mut clerk = world.clerk();
    world.after(3_600_000, 0);
    let ear = Ear::new();
    world.timers.schedule_after(Target::tracked(&ear.addr), ms(10), number(1));
    world.poll_driver();
    world.driver_at(1000);
    world.driver_at(1000);
    world.driver_called.take();
    drop(ear);
    assert_eq!(world.driver_called.take(), 1);
    world.driver_at(1000);
    // Also if a change were waiting already of which the driver does not know.
    world.driver_called.take();
    world.service.state().reports.published.ask_to_publish();
    world.service.state().engine.close();
    world.after(10, 2);
    assert_eq!(world.driver_called.take(), 1);
    world.driver_at(1000);
    clerk.poll();
    assert_eq!(clerk.log().len(), 2);
}

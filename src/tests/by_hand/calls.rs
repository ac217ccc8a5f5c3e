//! The driver's wake-ups and turns.

use crate::tests::by_hand::*;
use crate::{MessageSource, Repeat, RescheduleOutcome, ScheduleAfter};

impl World {
    fn alarms(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.alarms.lock().unwrap())
    }
}

#[test]
fn a_timer_that_is_not_the_first_does_not_wake_the_driver() {
    let mut world = World::new();
    let (target, timers) = (world.addr.clone(), world.timers.clone());
    let after = |delay| timers.schedule_after(&target, ms(delay), number(0));
    after(10);
    assert_eq!(world.driver_called.take(), 1, "nothing was pending");
    world.poll_driver();
    let id = after(20);
    world.poll_driver();
    world.driver_called.take();

    after(20);
    assert_eq!(world.driver_called.take(), 0, "later");
    after(10);
    assert_eq!(world.driver_called.take(), 0, "at the same time");
    assert_eq!(world.timers.reschedule_after(id, ms(30)), RescheduleOutcome::Rescheduled);
    assert_eq!(world.driver_called.take(), 0, "moved to a later time");
    assert_eq!(world.timers.reschedule_after(id, ms(10)), RescheduleOutcome::Rescheduled);
    assert_eq!(world.driver_called.take(), 0, "moved to the same time");
    after(9);
    assert_eq!(world.driver_called.take(), 1, "earlier");
    world.poll_driver();
    world.driver_called.take();
    assert_eq!(world.timers.reschedule_after(id, ms(8)), RescheduleOutcome::Rescheduled);
    assert_eq!(world.driver_called.take(), 1, "moved to an earlier time");
    world.poll_driver();
    world.service.state().reports.published.ask_to_publish();
    world.driver_called.take();
    assert!(world.timers.cancel(id).is_cancelled());
    assert_eq!(world.driver_called.take(), 0, "cancelled");
}

#[test]
fn a_repetition_that_is_not_due_first_does_not_wake_the_driver() {
    let mut world = World::new();
    world.run(|ctx| {
        let source = MessageSource::from_fn(|| number(1));
        ctx.schedule_at_fixed_rate(Repeat::every(ms(10)), source);
    });
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(15), number(2));
    world.poll_driver();
    world.clock.jump(ms(10));
    world.poll_driver();
    world.driver_called.take();
    world.poll_listener();
    assert_eq!(world.log(), [1]);
    assert_eq!(world.driver_called.take(), 0, "the next is due at 20 ms");
    world.clock.jump(ms(5));
    world.poll_driver();
    world.clock.jump(ms(5));
    world.poll_driver();
    world.driver_called.take();
    world.poll_listener();
    assert_eq!(world.log(), [1, 2, 1]);
    assert_eq!(world.driver_called.take(), 1, "nothing else is pending");
}

/// The driver compares the clocks as soon as a timer follows the wall clock. Until then a step would go unnoticed.
#[test]
fn a_wall_clock_timer_has_the_clocks_compared_at_once() {
    let minute = Duration::from_secs(60);
    let mut world = World::new();
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(90_000), number(2));
    world.poll_driver();
    world.timers.schedule_after(&target, ms(90_000), number(2));
    world.poll_driver();
    world.driver_called.take();
    let at = world.clock.wall() + 2 * minute;
    let id = world.timers.schedule_at(&target, at, number(1));
    assert_eq!(world.driver_called.take(), 1, "a timer");
    assert!(world.timers.cancel(id).is_cancelled());
    world.poll_driver();
    let id = world.timers.schedule_after(&target, ms(100_000), number(1));
    world.driver_called.take();
    assert_eq!(world.timers.reschedule_at(id, at), RescheduleOutcome::Rescheduled);
    assert_eq!(world.driver_called.take(), 1, "a timer that was moved");
}

/// The same for a repetition, which is moved to a wall-clock time while the previous handler runs.
#[test]
fn a_wall_clock_repetition_has_the_clocks_compared_at_once() {
    let mut world = World::new();
    let target = world.addr.clone();
    let (timers, mine) = (world.timers.clone(), Arc::new(Mutex::new(None)));
    let (id, at) = (Arc::clone(&mine), world.clock.wall() + Duration::from_secs(120));
    let source = MessageSource::from_fn(move || {
        let (timers, id) = (timers.clone(), *id.lock().unwrap());
        Run(Box::new(move |_| {
            assert_eq!(timers.reschedule_at(id.unwrap(), at), RescheduleOutcome::InProgress);
        }))
    });
    let repeating = world.timers.schedule_at_fixed_rate(Target::tracked(&target), ms(10), source);
    *mine.lock().unwrap() = Some(repeating);
    world.timers.schedule_after(&target, ms(90_000), number(2));
    world.poll_driver();
    world.clock.jump(ms(10));
    world.poll_driver();
    assert!(world.service.state().driver.wall_offset.is_none());
    // Publication is requested already, so that no further event requests it.
    world.service.state().reports.published.ask_to_publish();
    world.driver_called.take();
    world.poll_listener();
    assert_eq!(world.timers.get(repeating).map(|timer| timer.remaining.as_secs()), Some(119));
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
    world.own(10, number(1));
    world.service.end_owner(world.owner());
    assert!(matches!(world.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    assert_eq!(world.service.state().lanes.ended.len(), 1);
    world.poll_driver();
    assert!(world.service.state().lanes.ended.is_empty() && world.service.state().lanes.own.is_empty());
}

#[test]
fn letters_about_further_rejections_wait_for_a_time_that_is_known() {
    let mut world = World::with(TimerActorBuilder::default().capacity(1), ManualClock::new());
    let (target, letters) = (world.addr.clone(), world.letters());
    for _ in 0..3 {
        world.timers.schedule_after(&target, ms(90_000), number(1));
    }
    world.poll_driver();
    world.timers.schedule_after(&target, ms(90_000), number(1));
    world.poll_driver();
    assert_eq!(world.service.state().reports.rejected.due(), Some(ms(250)));
    assert_eq!(letters().len(), 2);
}

#[test]
fn an_alarm_is_set_once_for_one_time() {
    let mut world = World::new();
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(10), number(1));
    world.poll_driver();
    assert_eq!(world.alarms(), [ms(10)]);
    world.poll_driver();
    assert!(world.alarms().is_empty());
}

#[test]
fn a_look_that_finds_nothing_sets_no_alarm() {
    let mut world = World::new();
    for _ in 0..3 {
        world.poll_driver();
    }
    assert!(world.alarms().is_empty());
    assert_eq!(world.driver_called.take(), 0);
}

/// The mailbox of the timer actor contains more requests than it may handle without giving others a turn.
#[test]
fn the_budget_bounds_the_requests_taken_in_a_row() {
    let mut world = World::with(TimerActorBuilder::default().request_budget(3), ManualClock::new());
    for _ in 0..7 {
        world.timers.addr().do_send(ScheduleAfter::new(&world.addr, ms(10), number(0)));
    }
    let mut taken_in = Vec::new();
    while world.driver_called.take() > 0 {
        world.poll_driver();
        taken_in.push(world.timers.snapshot().counters.accepted);
    }
    taken_in.dedup();
    assert_eq!(taken_in, [3, 6, 7]);
    // Each turn has its own budget.
    for accepted in [9, 11, 13] {
        (0..2).for_each(|_| world.timers.addr().do_send(ScheduleAfter::new(&world.addr, ms(10), number(0))));
        world.poll_driver();
        assert_eq!(world.timers.snapshot().counters.accepted, accepted);
    }
}

/// Steps up to 20 ms are left to the check of each timer at its expiration.
#[test]
fn a_step_of_the_wall_clock_is_followed_from_a_certain_size_on() {
    let second = Duration::from_secs(1);
    let remaining_after = |step: i64| {
        let mut world =
            World::with(TimerActorBuilder::default(), ManualClock::starting_at(SystemTime::UNIX_EPOCH + 9 * second));
        let target = world.addr.clone();
        let id = world.timers.schedule_at(&target, world.clock.wall() + second, number(1));
        world.poll_driver();
        let (wall, by) = (world.clock.wall(), Duration::from_millis(step.unsigned_abs()));
        world.clock.set_wall(if step < 0 { wall - by } else { wall + by });
        world.poll_driver();
        world.timers.get(id).unwrap().remaining
    };
    for step in [0, 10, 20, -10, -20] {
        assert_eq!(remaining_after(step), second, "{step} ms");
    }
    assert_eq!(remaining_after(21), ms(979));
    assert_eq!(remaining_after(-21), ms(1021));
}

/// Without a timer that follows the wall clock its steps are of no interest. Several small steps are as one.
#[test]
fn the_clocks_are_compared_since_a_timer_follows_them() {
    let second = Duration::from_secs(1);
    let mut world =
        World::with(TimerActorBuilder::default(), ManualClock::starting_at(SystemTime::UNIX_EPOCH + 9 * second));
    let target = world.addr.clone();
    let id = world.timers.schedule_at(&target, world.clock.wall() + second, number(1));
    world.poll_driver();
    for remaining in [1000, 970] {
        world.clock.set_wall(world.clock.wall() + ms(15));
        world.poll_driver();
        assert_eq!(world.timers.get(id).unwrap().remaining, ms(remaining));
    }
    assert!(world.timers.cancel(id).is_cancelled());
    world.poll_driver();
    assert!(world.service.state().driver.wall_offset.is_none());
}

#[test]
fn jitter_stays_when_the_wall_clock_is_stepped() {
    let second = Duration::from_secs(1);
    let clock = ManualClock::starting_at(SystemTime::UNIX_EPOCH + second);
    let mut world = World::with(TimerActorBuilder::default().jitter_seed(42), clock);
    let jitter = TimerOptions::new().jitter(100 * second);
    let id = world.timers.timer(&world.addr, jitter).schedule(world.clock.wall() + 10 * second, number(1));
    world.poll_driver();
    let remaining = world.timers.get(id).unwrap().remaining;
    assert!(remaining > 11 * second);
    world.clock.set_wall(world.clock.wall() + second);
    world.poll_driver();
    assert_eq!(world.timers.get(id).unwrap().remaining, remaining - second);
}

#[test]
fn on_a_wall_clock_before_1970_time_that_passes_is_no_step() {
    let hour = Duration::from_secs(3600);
    let clock = ManualClock::starting_at(SystemTime::UNIX_EPOCH - hour);
    let mut world = World::with(TimerActorBuilder::default(), clock);
    let target = world.addr.clone();
    world.timers.schedule_at(&target, world.clock.wall() + 3 * hour, number(1));
    world.poll_driver();
    let apart = world.service.state().driver.wall_offset;
    assert!(apart.is_some_and(|apart| apart < 0));
    world.clock.jump(hour / 2);
    world.poll_driver();
    assert_eq!(world.service.state().driver.wall_offset, apart);
}

/// An actor that lives on without an address is checked regularly: all such actors once per interval.
#[test]
fn strays_are_looked_after_once_in_five_seconds() {
    for (detached, first_look) in [(1, 5000), (300, 2500)] {
        let mut world = World::new();
        let mut ears = Vec::new();
        for _ in 0..detached {
            let mut ear = Ear::new();
            ear.addr.do_send(Between(Hook::default()));
            ear.addr.do_send(After(3_600_000, number(1)));
            ear.poll();
            let Ear { addr, mut context, called, .. } = ear;
            drop(addr);
            poll(&mut context, &called);
            ears.push(context);
        }
        for _ in 0..4 {
            world.poll_driver();
        }
        world.clock.jump(ms(1000));
        world.poll_driver();
        assert_eq!(world.service.state().lanes.detached.len(), detached);
        assert_eq!(world.service.state().lanes.detached_check_at, ms(first_look), "{detached}");
    }
}

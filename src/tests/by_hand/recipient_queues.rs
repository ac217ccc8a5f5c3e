//! Messages that wait until their recipients keep up.

use crate::tests::by_hand::*;
use crate::{MessageSource, RescheduleOutcome};

impl World {
    fn place(&self, id: TimerId) -> Option<&'static str> {
        self.timers.get(id).map(|timer| timer.location.as_str())
    }

    /// Lets `by` pass, and polls the driver.
    fn driver_at(&mut self, by: u64) {
        self.clock.jump(ms(by));
        self.poll_driver();
    }

    /// Polls the driver until it is not woken any more.
    fn drive(&mut self) {
        while self.driver_called.take() > 0 {
            self.poll_driver();
        }
    }
}

#[test]
fn a_line_ends_when_all_of_it_has_been_handled() {
    let mut world = World::new();
    let target = Target::tracked(&world.addr);
    world.timers.schedule_after(&target, ms(10), number(1));
    world.driver_at(10);
    assert!(!world.service.state().lanes.targets.is_empty());
    world.poll_listener();
    assert_eq!(world.log(), [1]);
    assert!(world.service.state().lanes.targets.is_empty());
}

#[test]
fn the_oldest_of_several_messages_in_a_mailbox_is_known_to_wait() {
    let mut world = World::new();
    let target = Target::tracked(&world.addr);
    world.timers.schedule_after(&target, ms(10), number(1));
    let second = world.timers.schedule_after(&target, ms(12), number(2));
    world.driver_at(12);
    assert_eq!(world.timers.cancel(second), CancelOutcome::Cancelled);
    let now = ms(30);
    let mut state = world.service.state();
    assert_eq!(world.service.waited(&mut state, now), ms(20));
}

#[test]
fn the_oldest_message_is_found_behind_recipients_that_went_on() {
    let mut world = World::new();
    let mut ears = [(); 3].map(|()| Ear::new());
    for (ear, due) in ears.iter().zip(10..) {
        world.timers.schedule_after(Target::tracked(&ear.addr), ms(due), number(1));
    }
    world.driver_at(12);
    ears[0].poll();
    ears[1].poll();
    let mut state = world.service.state();
    assert_eq!(world.service.waited(&mut state, ms(32)), ms(20));
}

/// A turn sends a bounded number of messages from queues, and the next turn follows at once.
#[test]
fn one_turn_sends_no_more_from_lines_than_its_budget() {
    let mut world = World::with(TimerActorBuilder::default().expiry_budget(2), ManualClock::new());
    let mut ears = [(); 5].map(|()| Ear::new());
    let mut seconds = Vec::new();
    for ear in &ears {
        let target = Target::tracked(&ear.addr).window(1);
        world.timers.schedule_after(&target, ms(10), number(1));
        seconds.push(world.timers.schedule_after(&target, ms(10), number(2)));
    }
    world.clock.jump(ms(10));
    world.go_on();
    let sent = |world: &World| seconds.iter().filter(|id| world.place(**id) == Some("mailbox")).count();
    assert_eq!(sent(&world), 0);
    // All recipients answer before the driver's turn.
    ears.iter_mut().for_each(Ear::poll);
    world.driver_called.take();
    world.poll_driver();
    assert_eq!(sent(&world), 2);
    world.go_on();
    assert_eq!(sent(&world), 5, "the driver has woken itself");
    ears.iter_mut().for_each(Ear::poll);
    assert!(ears.iter().all(|ear| ear.log() == [1, 2]));
}

/// Windows of one recipient differ: once the message before them leaves the queue, others have room. At most 64 go in a
/// row.
#[test]
fn messages_with_larger_windows_go_once_the_one_before_them_has_left() {
    for is_moved in [false, true] {
        let mut world = World::with(TimerActorBuilder::default().expiry_budget(1), ManualClock::new());
        let [narrow, wide] = [1, 200].map(|window| Target::from(&world.addr).window(window));
        let schedule = |target, message| world.timers.schedule_after(target, ms(10), number(message));
        let [_, before] = [0, 1].map(|message| schedule(&narrow, message));
        let behind: Vec<_> = (2..102).map(|message| schedule(&wide, message)).collect();
        world.clock.jump(ms(10));
        world.drive();
        let waiting = |world: &World| behind.iter().filter(|id| world.place(**id) == Some("queue")).count();
        assert_eq!(waiting(&world), 100);
        assert_eq!(world.timers.snapshot().owners, 0, "a lane for targets is no owner");
        if is_moved {
            assert_eq!(world.timers.reschedule_after(before, ms(90)), RescheduleOutcome::Rescheduled);
        } else {
            assert_eq!(world.timers.cancel(before), CancelOutcome::Cancelled);
        }
        world.poll_driver();
        assert_eq!(waiting(&world), 36);
        world.drive();
        assert_eq!(waiting(&world), 0);
    }
}

/// The recipient stops after the timer actor has found it open, and before the message is in its mailbox.
#[test]
fn a_recipient_that_stops_before_the_send_makes_a_dead_letter() {
    let world = World::new();
    let letters = world.letters();
    let target = Target::from(&world.addr).window(1);
    let id = world.timers.schedule_after(&target, ms(10), number(1));
    world.when_in_flight(id, || drop(RESTARTS.take()));
    let World { clock, mut driver, driver_called, listener, timers, addr: _addr, log, .. } = world;
    RESTARTS.replace(Some(listener));
    clock.jump(ms(10));
    poll(&mut driver, &driver_called);
    assert!(RESTARTS.take().is_none());
    let counters = timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.recipient_stopped, counters.pending), (0, 1, 0), "{counters:?}");
    assert!(log.lock().unwrap().is_empty());
    assert_eq!(letters().len(), 1);
}

/// The recipient is woken by the message in its mailbox, handles it at once, and stops.
#[test]
fn a_message_whose_handler_stops_its_actor_is_delivered() {
    let world = World::new();
    let target = Target::from(&world.addr).window(1);
    world.timers.schedule_after(&target, ms(10), Run(Box::new(|ctx| ctx.terminate())));
    let World { clock, mut driver, driver_called, listener, listener_called, timers, addr: _addr, .. } = world;
    RESTARTS.replace(Some(listener));
    *listener_called.hook.lock().unwrap() = Some(Box::new(|| {
        let mut listener = RESTARTS.take().unwrap();
        assert!(Pin::new(&mut *listener).poll(&mut TaskContext::from_waker(Waker::noop())).is_ready());
    }));
    clock.jump(ms(10));
    poll(&mut driver, &driver_called);
    assert!(listener_called.hook.lock().unwrap().is_none());
    let counters = timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.recipient_stopped, counters.pending), (1, 0, 0), "{counters:?}");
}

/// While the message of a timer is produced, the timer is cancelled and another one takes its slot.
#[test]
fn a_timer_in_the_place_of_another_makes_messages_of_its_own() {
    let mut world = World::new();
    let target = Target::tracked(&world.addr);
    let (timers, mine) = (world.timers.clone(), Arc::new(Mutex::new(None)));
    let (other, id) = (target.clone(), Arc::clone(&mine));
    let source = MessageSource::from_fn(move || {
        assert_eq!(timers.cancel(id.lock().unwrap().unwrap()), CancelOutcome::Cancelled);
        timers.schedule_at_fixed_rate(&other, ms(10), MessageSource::from_fn(|| number(2)));
        number(1)
    });
    *mine.lock().unwrap() = Some(world.timers.schedule_at_fixed_rate(&target, ms(10), source));
    for _ in 0..3 {
        world.driver_at(10);
        world.go_on();
    }
    assert_eq!(world.log(), [2, 2]);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.cancelled, counters.delivered, counters.pending), (1, 2, 1));
}

//! Messages that wait until their recipients keep up.

use crate::RescheduleOutcome;
use crate::tests::by_hand::*;

impl World {
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
    world.timers.schedule_after(Target::tracked(&world.ear.addr), ms(10), number(1));
    world.driver_at(10);
    assert!(!world.service.state().lanes.targets.is_empty());
    world.ear.poll();
    assert_eq!(world.ear.log(), [1]);
    assert!(world.service.state().lanes.targets.is_empty());
}

/// Behind cancelled ones, and recipients that went on.
#[test]
fn the_oldest_of_several_messages_in_a_mailbox_is_known_to_wait() {
    let mut world = World::new();
    let mut ears = [(); 3].map(|()| Ear::new());
    for (ear, due) in ears.iter().zip(10..) {
        world.timers.schedule_after(Target::tracked(&ear.addr), ms(due), number(1));
    }
    let second = world.timers.schedule_after(Target::tracked(&ears[2].addr), ms(13), number(2));
    world.driver_at(13);
    assert_eq!(world.timers.cancel(second), CancelOutcome::Cancelled);
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
    let seconds = ears.each_ref().map(|ear| {
        let target = Target::tracked(&ear.addr).window(1);
        [1, 2].map(|name| world.timers.schedule_after(&target, ms(10), number(name)))[1]
    });
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
    for (is_moved, budget, left) in [(false, 64, 36), (true, 64, 36), (false, 1, 99)] {
        let mut world = World::with(TimerActorBuilder::default().expiry_budget(budget), ManualClock::new());
        let [narrow, wide] = [1, 200].map(|window| Target::from(&world.ear.addr).window(window));
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
        assert_eq!(waiting(&world), left);
        world.drive();
        assert_eq!(waiting(&world), 0);
    }
}

/// The recipient stops after the timer actor has found it open, and before the message is in its mailbox.
#[test]
fn a_recipient_that_stops_before_the_send_makes_a_dead_letter() {
    let mut world = World::new();
    let (mut clerk, making) = (world.clerk(), Hook::default());
    set_hook(&making, || drop(ELSEWHERE.take()));
    let target = Target::from(&world.ear.addr).window(1);
    world.timers.schedule_at_fixed_rate(target, Repeat::every(ms(10)).times(1), made(1, Arc::clone(&making)));
    world.clock.jump(ms(10));
    world.ear.elsewhere_during(|| poll(&mut world.driver, &world.driver_called));
    assert!(is_called(&making));
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.recipient_stopped, counters.pending), (0, 1, 0), "{counters:?}");
    assert!(world.ear.log().is_empty());
    clerk.poll();
    assert_eq!(clerk.log(), [LETTER]);
}

/// The recipient is woken by the message in its mailbox, handles it at once, and stops.
#[test]
fn a_message_whose_handler_stops_its_actor_is_delivered() {
    let mut world = World::new();
    let stop = Run(Box::new(|ctx| ctx.terminate()));
    world.timers.schedule_after(Target::from(&world.ear.addr).window(1), ms(10), stop);
    set_hook(&world.ear.called.hook, || {
        let mut listener = ELSEWHERE.take().unwrap();
        assert!(Pin::new(&mut *listener).poll(&mut TaskContext::from_waker(Waker::noop())).is_ready());
    });
    world.clock.jump(ms(10));
    world.ear.elsewhere_during(|| poll(&mut world.driver, &world.driver_called));
    assert!(is_called(&world.ear.called.hook));
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.recipient_stopped, counters.pending), (1, 0, 0), "{counters:?}");
}

/// While the message of a timer is produced, the timer is cancelled and another one takes its slot.
#[test]
fn a_timer_in_the_place_of_another_makes_messages_of_its_own() {
    let mut world = World::new();
    let target = Target::tracked(&world.ear.addr);
    let (timers, mine) = (world.timers.clone(), Arc::new(Mutex::new(None)));
    let (other, id) = (target.clone(), Arc::clone(&mine));
    let source = MessageSource::from_fn(move || {
        assert_eq!(timers.cancel(id.lock().unwrap().unwrap()), CancelOutcome::Cancelled);
        timers.schedule_at_fixed_rate(&other, ms(10), made(2, Hook::default()));
        number(1)
    });
    *mine.lock().unwrap() = Some(world.timers.schedule_at_fixed_rate(&target, ms(10), source));
    for _ in 0..3 {
        world.driver_at(10);
        world.go_on();
    }
    assert_eq!(world.ear.log(), [2, 2]);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.cancelled, counters.delivered, counters.pending), (1, 2, 1));
}

/// Two messages are due for a window of one. While a bell for the first is being sent, a drain gives it back, and the
/// second, which the driver is sending, is pulled.
#[test]
fn a_drain_leaves_a_bell_to_a_message_of_the_driver() {
    let mut world = World::new();
    let target = Target::tracked(&world.ear.addr).window(1);
    for name in [1, 2] {
        world.timers.schedule_after(&target, ms(10), number(name));
    }
    world.poll_driver();
    world.clock.jump(ms(10));
    let (service, drained) = (Arc::clone(&world.service), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&drained);
    set_hook(&world.ear.called.hook, move || count.store(service.drain().len(), Ordering::SeqCst));
    for _ in 0..4 {
        world.poll_driver();
        world.ear.poll();
    }
    assert_eq!((drained.load(Ordering::SeqCst), world.ear.log()), (1, vec![2]));
    assert_eq!(world.timers.snapshot().pending(), 0);
}

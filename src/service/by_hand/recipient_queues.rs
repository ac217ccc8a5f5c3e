//! Messages that wait until their recipients keep up.

use crate::service::by_hand::*;
use crate::{MailboxPolicy, MessageSource, TimerLocation};

/// Returns a world whose listener has a mailbox with room for one message, which is taken: our first message still fits
/// in.
fn narrow() -> World {
    let mut world = World::new();
    world.run(|ctx| ctx.set_mailbox_capacity(1));
    world.fill();
    world
}

impl World {
    /// Fills the room in the mailbox with a foreign message.
    fn fill(&self) {
        self.addr.do_send(Run(Box::new(|_| ())));
    }

    fn place(&self, id: TimerId) -> Option<&'static str> {
        self.timers.get(id).map(|timer| timer.location.as_str())
    }

    /// Lets `by` pass, and polls the driver.
    fn driver_at(&mut self, by: u64) {
        self.clock.jump(ms(by));
        self.poll_driver();
    }
}

/// A message whose token is withdrawn gives up the token's place, and not that of the next message, which has left its
/// queue already.
#[test]
fn a_message_that_waits_for_room_is_not_lost_when_one_in_the_mailbox_is_cancelled() {
    let mut world = narrow();
    let target = Target::tracked(&world.addr).window(10);
    let [first, second] = [1, 2].map(|n| world.timers.schedule_after(&target, ms(10), number(n)));
    world.driver_at(10);
    assert_eq!((world.place(first), world.place(second)), (Some("mailbox"), Some("queue")));
    assert_eq!(world.timers.cancel(first), CancelOutcome::Cancelled);
    world.go_on();
    world.driver_at(1);
    world.go_on();
    assert_eq!(world.log(), [2]);
    assert_eq!(world.timers.snapshot().pending(), 0);
}

#[test]
fn a_handler_that_goes_on_has_made_room_when_it_began() {
    let mut world = narrow();
    let target = Target::tracked(&world.addr).window(10);
    for n in [1, 2] {
        world.timers.schedule_after(&target, ms(10), Endless(n));
    }
    world.driver_at(10);
    world.go_on();
    assert_eq!(world.log(), [1, 2], "without waiting until it is tried again");
}

#[test]
fn a_mailbox_that_had_room_is_tried_again_soon_when_it_is_full_again() {
    let mut world = narrow();
    let target = Target::tracked(&world.addr).window(10);
    for n in [1, 2, 3] {
        world.timers.schedule_after(&target, ms(10), number(n));
    }
    world.driver_at(10);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let retry = world.service.state().queues.next_retry().unwrap();
        let pause = retry - world.clock.now();
        pauses.push(pause);
        world.clock.jump(pause);
        if pauses.len() == 3 {
            world.poll_listener();
            world.fill();
        }
        world.poll_driver();
    }
    assert_eq!(pauses, [ms(1), ms(2), ms(4)]);
    assert_eq!(world.log(), [1]);
    let retry = world.service.state().queues.next_retry();
    assert_eq!(retry, Some(world.clock.now() + ms(1)), "the second was sent, and there is no room for the third");
}

#[test]
fn nothing_is_tried_again_for_messages_that_were_cancelled() {
    let mut world = narrow();
    let target = Target::tracked(&world.addr).window(10);
    let ids = [1, 2].map(|n| world.timers.schedule_after(&target, ms(10), number(n)));
    world.driver_at(10);
    assert!(world.service.state().queues.next_retry().is_some());
    for id in ids {
        assert_eq!(world.timers.cancel(id), CancelOutcome::Cancelled);
    }
    world.poll_driver();
    assert_eq!(world.service.state().queues.next_retry(), None);
}

#[test]
fn the_counter_of_retries_is_published_also_if_there_is_still_no_room() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let mut world = metrics::with_local_recorder(&recorder, narrow);
    let target = Target::tracked(&world.addr).window(10);
    for n in [1, 2] {
        world.timers.schedule_after(&target, ms(10), number(n));
    }
    world.driver_at(10);
    // All events so far are published.
    world.service.publish();
    world.driver_at(500);
    let retries = || {
        let page = recorder.handle().render();
        let series = page.lines().find(|line| line.starts_with("actix_timers_retries_total")).map(str::to_owned);
        series.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    world.driver_at(500);
    assert_eq!(world.service.state().queues.retries(), 2);
    assert_eq!(retries(), Some(2));
}

#[test]
fn a_line_ends_when_all_of_it_has_been_handled() {
    let mut world = World::new();
    let target = Target::tracked(&world.addr);
    world.timers.schedule_after(&target, ms(10), number(1));
    world.driver_at(10);
    assert!(world.service.state().queues.get(target.mailbox().unwrap()).is_some());
    world.poll_listener();
    assert_eq!(world.log(), [1]);
    assert!(world.service.state().queues.get(target.mailbox().unwrap()).is_none());
}

/// Two plain messages for a window: the end of the second is known only when the next is answered. So its queue stays
/// until the recipient is known to be gone, which is found when other queues are created.
#[test]
fn a_line_that_waits_for_no_answer_stays_until_its_recipient_has_stopped() {
    let mut world = World::new();
    let mut gone = Ear::new();
    let target = Target::from(&gone.addr).window(5);
    for n in [1, 2] {
        world.timers.schedule_after(&target, ms(10), number(n));
    }
    world.driver_at(10);
    gone.poll();
    world.poll_driver();
    assert_eq!(gone.log(), [1, 2]);
    let under_way =
        |world: &World| world.service.state().queues.get(target.mailbox().unwrap()).map(|queue| queue.under_way());

    let others = [(); 4].map(|()| Ear::new());
    let mut visit = |other: usize| {
        world.timers.schedule_after(Target::from(&others[other].addr).window(1), ms(1), number(3));
        world.driver_at(1);
        under_way(&world)
    };
    assert_eq!(visit(0), Some(1), "the recipient is there");
    assert_eq!(visit(1), Some(1));
    let Ear { addr, context, .. } = gone;
    drop(context);
    visit(2);
    assert_eq!(visit(3), None, "it has stopped");
    drop(addr);
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
fn the_oldest_message_is_found_behind_recipients_that_have_gone_on() {
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

/// While a message is tried against a full mailbox, a drain gives back all others: waiting is no longer possible.
#[test]
fn a_message_without_room_is_lost_with_its_reason_if_the_timer_actor_is_drained_meanwhile() {
    for repeats in [false, true] {
        let mut world = narrow();
        let target = Target::from(&world.addr).window(10);
        world.timers.schedule_after(&target, ms(10), number(1));
        world.driver_at(10);
        let id = match repeats {
            false => world.timers.schedule_after(&target, ms(10), number(2)),
            true => {
                let source = MessageSource::from_fn(|| number(2));
                world.timers.schedule_at_fixed_rate(&target, ms(10), source)
            }
        };
        let service = Arc::clone(&world.service);
        let drained = Arc::new(AtomicUsize::new(usize::MAX));
        let count = Arc::clone(&drained);
        world.when_in_flight(id, move || count.store(service.drain().len(), Ordering::SeqCst));
        world.driver_at(10);
        assert_eq!(drained.load(Ordering::SeqCst), 0, "the drain cannot return the message");
        world.go_on();
        let counters = world.timers.snapshot().counters;
        assert_eq!((counters.delivered, counters.service_stopped), (1, 1), "repeats: {repeats}, {counters:?}");
        assert_eq!((counters.mailbox_full, counters.pending), (0, 0), "repeats: {repeats}, {counters:?}");
        assert!(counters.balance());
        assert_eq!(world.log(), [1]);
    }
}

/// The recipient stops after the timer actor has found it open, and before the message is in its mailbox.
#[test]
fn a_message_whose_recipient_stops_just_before_it_is_sent_is_a_dead_letter() {
    let world = World::new();
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

/// A plain message for an actor queues in its inbox behind earlier due messages, whatever its queue holds.
#[test]
fn a_message_in_an_inbox_is_found_there_although_its_recipient_has_a_line() {
    let mut world = World::new();
    let tracked = Target::tracked(&world.addr).mailbox_policy(MailboxPolicy::Wait { window: 1 });
    world.timers.schedule_after(&tracked, ms(5), number(1));
    world.own(10, number(2));
    world.driver_at(5);
    let plain = world.timers.schedule_after(&world.addr, ms(5), number(3));
    world.driver_at(5);
    assert!(world.service.state().queues.get(tracked.mailbox().unwrap()).is_some());
    let place = world.timers.get(plain).map(|timer| timer.location);
    assert_eq!(place, Some(TimerLocation::Inbox { length: 2, ahead: Some(1), by_mailbox: false }));
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

//! Own messages of actors, in inboxes and on their way through mailboxes, and the end of their owners.

use crate::service::lane::lanes::Item;
use crate::simulation::{self, Simulation};
use crate::sync;
use crate::tests::by_hand::*;
use crate::timing::Key;

impl World {
    /// Sends the first message of the inbox through the mailbox, as the watchdog does.
    fn post_own(&self) {
        post_own(&self.service, self.owner());
    }

    fn has_left(&self) -> bool {
        let owner = self.owner();
        self.service.state().engine.owner(owner).is_some_and(|lane_state| lane_state.item == Item::Left)
    }
}

/// A message whose handler answers with a future that never ends.
#[derive(Clone, Message)]
#[rtype(result = "()")]
struct Endless(u32);

impl Handler<Endless> for Listener {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Endless(number): Endless, _: &mut Context<Self>) -> Self::Result {
        self.0.lock().unwrap().push(number);
        Box::pin(actix::fut::wrap_future(std::future::pending()))
    }
}

/// The timer actor ends while a message is in its actor's mailbox: it was delivered, as one for a target.
#[test]
fn a_message_under_way_when_the_timer_actor_stops_arrives() {
    let mut world = World::new();
    let mut clerk = world.clerk();
    world.ear.own(10, number(1));
    world.watch_at(30);
    world.post_own();
    world.service.shut_down();
    world.ear.poll();
    assert_eq!(world.ear.log(), [1]);
    clerk.poll();
    assert!(clerk.log().is_empty());
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.service_stopped, counters.delivered, counters.pending), (0, 1, 0));
}

/// An actor that lives on after it has lost its last address gets its messages through the mailbox. Once it has an
/// address again and schedules, it gets them from its inbox, where a cancel is exact.
#[test]
fn the_inbox_of_an_actor_that_was_without_an_address_returns() {
    let mut world = World::new();
    world.ear.between(&Hook::default());
    world.ear.own(5, number(1));
    let weak = world.ear.addr.downgrade();
    world.ear.lose_address();
    world.clock.jump(ms(5));
    world.ear.poll();
    assert!(world.has_left());
    world.ear.addr = weak.upgrade().unwrap();
    let second = world.ear.own(5, number(2));
    // Only now does the driver notice that the inbox had left.
    world.driver_at(5);
    world.poll_driver();
    assert_eq!(world.place(second), Some("inbox"));
    assert!(world.service.state().lanes.posted.is_empty());
    assert_eq!(world.timers.cancel(second), CancelOutcome::Cancelled);
    world.ear.poll();
    assert_eq!(world.ear.log(), [1]);
}

/// The second poll of the inbox shows that the handler has been called: its answer may never come, and the next message
/// goes on. The state is then unlocked for a moment, in which the watchdog sends that one.
#[test]
fn an_inbox_does_not_overtake_a_message_sent_by_the_watchdog() {
    let mut world = World::new();
    let id = world.ear.run(|ctx| ctx.schedule_after(ms(10), Endless(1)));
    (2..=3).for_each(|name| _ = world.ear.own(10, number(name)));
    world.watch_at(30);
    world.post_own();
    assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
    world.poll_driver();
    // From now on each event wakes the driver at once. The first is the end of that message.
    world.service.state().reports.published.hurry();
    let (service, owner) = (Arc::clone(&world.service), world.owner());
    set_hook(&world.driver_called.hook, move || post_own(&service, owner));
    world.ear.poll();
    assert!(is_called(&world.driver_called.hook));
    (0..2).for_each(|_| world.ear.poll());
    assert_eq!(world.ear.log(), [1, 2, 3]);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.pending), (3, 0));
}

/// The watchdog's message is handled before the watchdog has noted the sending. It notes it while the inbox is polled,
/// after the inbox has read the wake flag and before it looks for messages. The inbox is woken for the later message.
#[test]
fn an_inbox_is_called_after_a_message_handled_while_sent() {
    let mut world = World::new();
    world.ear.own(10, number(1));
    world.ear.own(50, number(2));
    world.watch_at(30);
    let (to_actor, at_actor) = std::sync::mpsc::channel();
    let (to_watch, at_watch) = std::sync::mpsc::channel();
    let tell_actor = to_actor.clone();
    set_hook(&world.ear.called.hook, move || {
        tell_actor.send(()).unwrap();
        at_watch.recv().unwrap();
    });
    let (service, owner) = (Arc::clone(&world.service), world.owner());
    let watchdog = std::thread::spawn(move || {
        post_own(&service, owner);
        to_actor.send(()).unwrap();
    });
    at_actor.recv().unwrap();
    world.ear.called.take();
    let looks = Hook::default();
    world.ear.poll_with_last(&looks);
    set_hook(&looks, move || {
        to_watch.send(()).unwrap();
        at_actor.recv().unwrap();
    });
    world.ear.poll();
    assert!(is_called(&looks));
    watchdog.join().unwrap();
    assert_eq!(world.ear.log(), [1]);
    world.go_on();
    world.driver_at(30);
    world.go_on();
    assert_eq!(world.ear.log(), [1, 2]);
}

/// An actor without an address is woken for a message. Before its inbox looks for that, another thread cancels the
/// message and the last closure, and the watchdog's turn reports the end of the closure.
#[test]
fn an_inbox_leaves_when_the_last_closure_ends_during_its_poll() {
    let mut world = World::new();
    world.ear.between(&Hook::default());
    let ids = world.ear.run(|ctx| [ctx.run_after(ms(1000), |_, _| ()), ctx.schedule_after(ms(10), number(1))]);
    world.ear.lose_address();
    let looks = Hook::default();
    world.ear.poll_with_last(&looks);
    world.driver_at(10);
    let service = Arc::clone(&world.service);
    set_hook(&looks, move || {
        assert_eq!(ids.map(|id| service.cancel(id)), [CancelOutcome::Cancelled; 2]);
        assert!(matches!(service.turn(WakeupCause::Watchdog), TurnResult::Sleep(_)));
    });
    world.ear.poll();
    assert!(is_called(&looks), "during the poll");
    assert!(world.has_left());
}

/// The context is restarted during the sending of a message to it, by the waker that the message wakes. The sending
/// cannot end before the restart, so the restart does not wait for it without end.
#[test]
fn a_restart_takes_back_a_message_being_sent() {
    let mut world = World::new();
    world.ear.own(10, number(1));
    world.watch_at(30);
    set_hook(&world.ear.called.hook, || {
        assert!(ELSEWHERE.with_borrow_mut(|listener| listener.as_mut().unwrap().restart()));
    });
    let (service, owner) = (Arc::clone(&world.service), world.owner());
    world.ear.elsewhere_during(|| post_own(&service, owner));
    assert!(is_called(&world.ear.called.hook), "while the message was sent");
    world.ear.poll();
    assert!(world.ear.log().is_empty());
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.cancelled, counters.delivered), (0, 1));
}

/// Before a context runs, its address in memory is not final. Each item in it refers to the service: the inbox and its
/// spare.
#[test]
fn an_actor_has_one_inbox_for_all_timers_before_its_start() {
    let world = World::new();
    let before = Arc::strong_count(&world.service);
    let mut context = Context::<Listener>::new();
    for n in 0..5 {
        context.schedule_after(ms(10), number(n));
    }
    assert_eq!(Arc::strong_count(&world.service) - before, 2);
    assert_eq!(world.timers.snapshot().pending(), 5);
}

/// An actor is restarted while the watchdog is sending a message to it: the next incarnation does not handle the
/// message.
#[test]
fn a_restart_waits_for_a_message_that_another_thread_is_sending() {
    for seed in 0..20 {
        let mut world = World::new();
        world.ear.own(10, number(1));
        world.watch_at(30);
        let (began, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
        set_hook(&world.ear.called.hook, move || {
            begins.store(1, Ordering::SeqCst);
            (0..50).for_each(|_| sync::yield_now());
            ends.store(1, Ordering::SeqCst);
        });
        let (service, owner) = (Arc::clone(&world.service), world.owner());
        let World { ear: Ear { addr: _addr, mut context, called, log }, timers, .. } = world;
        let simulation = Simulation::new(seed);
        simulation::spawn("watch", move || post_own(&service, owner));
        simulation::spawn("arbiter", move || {
            while began.load(Ordering::SeqCst) == 0 {
                sync::yield_now();
            }
            assert!(context.restart());
            assert_eq!(ended.load(Ordering::SeqCst), 1, "seed {seed}");
            poll(&mut context, &called);
        });
        simulation.run(1_000_000_000, |_, _| Ok(())).unwrap();
        assert!(log.lock().unwrap().is_empty(), "it ends with its incarnation");
        assert_eq!(timers.snapshot().counters.delivered, 1);
    }
}

/// The watchdog does not cover a timer actor on a clock of its own.
#[test]
fn nothing_is_kept_for_a_watch_that_is_not_there() {
    let mut world = World::new();
    world.ear.own(10, number(1));
    world.driver_at(10);
    world.ear.poll();
    assert_eq!(world.ear.log(), [1]);
    assert!(world.service.state().driver.watched_inboxes.is_empty());
}

#[test]
fn virtual_time_waits_for_messages_to_actors_on_other_threads() {
    let mut world = World::new();
    let may_time_pass = |world: &World| {
        let service = Arc::clone(&world.service);
        std::thread::spawn(move || service.activity().may_last(false)).join().unwrap()
    };
    for place in ["inbox", "mailbox", "on its way from an inbox to a mailbox"] {
        if place == "mailbox" {
            world.timers.schedule_after(Target::tracked(&world.ear.addr), ms(10), number(1));
        } else {
            world.ear.own(10, number(1));
        }
        world.poll_driver();
        assert!(may_time_pass(&world));
        match place {
            "inbox" | "mailbox" => world.driver_at(10),
            _ => {
                world.watch_at(30);
                world.post_own();
                world.poll_driver();
            }
        }
        assert!(!may_time_pass(&world), "a message is in the {place}");
        for _ in 0..3 {
            world.ear.poll();
            world.poll_driver();
        }
        assert!(may_time_pass(&world));
    }
    assert_eq!(world.ear.log(), [1; 3]);
}

#[test]
fn ended_actors_are_forgotten_behind_a_stuck_one() {
    let mut world = World::new();
    world.ear.own(10, number(0));
    world.driver_at(10);
    for n in 1..=100 {
        let (mut other, queue) = (Ear::new(), Ear::new());
        other.own(10, number(n));
        world.timers.schedule_after(Target::from(&queue.addr).window(1), ms(10), number(n));
        world.poll_driver();
        world.driver_at(10);
        other.poll();
        assert_eq!(other.log(), [n]);
        drop((other, queue));
        world.poll_driver();
    }
    while world.driver_called.take() > 0 {
        world.poll_driver();
    }
    let mut state = world.service.state();
    let (listed, own) = (state.lanes.slow.listed(), state.lanes.own.len());
    assert!(listed <= 2 && own <= 2, "{listed} are listed, {own} have lanes");
    // A restarted actor has the lane of its next incarnation when the earlier one is freed.
    let (mailbox, next) = state.lanes.own.iter().next().map(|(mailbox, slot)| (*mailbox, *slot)).unwrap();
    let lane = |slot| OwnerId(Key::new(slot, 0));
    state.lanes.forget(mailbox, lane(next + 1));
    assert!(state.lanes.own.contains_key(&mailbox));
    state.lanes.forget(mailbox, lane(next));
    assert!(!state.lanes.own.contains_key(&mailbox));
}

/// The timer of an ended actor gives way to a new one although the capacity is used up. Its message is dropped later,
/// by the driver.
#[test]
fn a_message_is_dropped_after_a_new_timer_has_taken_its_place() {
    let mut world = World::with(TimerActorBuilder::default().capacity(1), ManualClock::new());
    let (mut other, dropped) = (Ear::new(), Hook::default());
    set_hook(&dropped, || ());
    other.own(10, Number(1, Arc::clone(&dropped)));
    drop(other);
    let id = world.after(10, 2);
    assert!(world.timers.get(id).is_some());
    assert!(!is_called(&dropped));
    world.poll_driver();
    assert!(is_called(&dropped));
}

/// The watchdog makes an own message for an actor whose inbox is polled meanwhile. The inbox waits until the message is
/// sent, without polling itself: user code may take any time.
#[test]
fn an_inbox_sleeps_while_the_watchdog_makes_its_message() {
    let (mut world, making) = (World::new(), Hook::default());
    let source = made(1, Arc::clone(&making));
    world.ear.run(move |ctx| ctx.schedule_at_fixed_rate(Repeat::every(ms(10)).times(1), source));
    world.ear.own(10, number(2));
    world.poll_driver();
    world.watch_at(40);
    let calls = Arc::new(AtomicUsize::new(usize::MAX));
    let (called, counted) = (Arc::clone(&world.ear.called), Arc::clone(&calls));
    set_hook(&making, move || {
        ELSEWHERE.with_borrow_mut(|listener| {
            let listener = listener.as_mut().unwrap();
            poll(listener, &called);
            called.take();
            poll(listener, &called);
            counted.store(called.take(), Ordering::SeqCst);
        });
    });
    let (service, owner) = (Arc::clone(&world.service), world.owner());
    world.ear.elsewhere_during(|| post_own(&service, owner));
    assert_eq!(calls.load(Ordering::SeqCst), 0, "wake-ups of itself");
    assert!(world.ear.called.take() > 0, "the inbox is woken");
    (0..3).for_each(|_| world.ear.poll());
    assert_eq!(world.ear.log(), [1, 2]);
}

/// A message behind one posted long ago follows at once, whatever another lane waits for.
#[test]
fn a_message_behind_an_old_one_waits_for_no_other_lane() {
    let mut world = World::new();
    let mut other = Ear::new();
    world.ear.between(&Hook::default());
    other.between(&Hook::default());
    world.ear.run(|ctx| ctx.schedule_after(ms(95), Endless(1)));
    world.ear.own(100, number(2));
    other.run(|ctx| ctx.schedule_after(ms(10), Endless(1)));
    other.own(101, number(2));
    world.ear.lose_address();
    other.lose_address();
    world.ear.poll();
    other.poll();
    world.poll_driver();
    let settle = |world: &mut World, other: &mut Ear| {
        for _ in 0..20 {
            world.poll_driver();
            world.ear.poll();
            other.poll();
        }
    };
    settle(&mut world, &mut other);
    for by in [10, 85, 5] {
        world.clock.jump(ms(by));
        settle(&mut world, &mut other);
    }
    assert_eq!((world.ear.log(), other.log()), (vec![1], vec![1]));
    let mut late = 0;
    world.clock.jump(ms(1));
    settle(&mut world, &mut other);
    while other.log().len() < 2 {
        late += 1;
        world.clock.jump(ms(1));
        settle(&mut world, &mut other);
    }
    assert_eq!(late, 0, "ms late; its predecessor was posted 91 ms before");
}

/// An actor without an address does not take its posted messages.
#[test]
fn an_actor_without_an_address_that_takes_nothing_is_slow() {
    for messages in 1..=2 {
        let mut world = World::new();
        world.ear.between(&Hook::default());
        (0..messages).for_each(|n| _ = world.ear.own(10 + 40 * u64::from(n), number(n)));
        world.ear.lose_address();
        world.ear.poll();
        assert!(world.has_left());
        world.poll_driver();
        // Its thread is busy from now on: the context is not polled.
        for by in [10, 40, 20, 20] {
            world.driver_at(by);
            (0..5).for_each(|_| world.poll_driver());
        }
        assert_eq!(world.timers.snapshot().counters.delivered, u64::from(messages), "all are in the mailbox");
        world.driver_at(100_000);
        let now = ms(100_090);
        let waited = world.service.waited(&mut world.service.state(), now);
        assert!(world.ear.log().is_empty());
        assert!(waited > ms(90_000), "{messages} in the mailbox: {waited:?}");
    }
}

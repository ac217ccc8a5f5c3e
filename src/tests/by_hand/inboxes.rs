//! Own messages of actors, in inboxes and on their way through mailboxes, and the end of their owners.

use crate::service::deliver::turns::TurnBy;
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

    /// Lets `by` pass, and the watchdog take a turn.
    fn watch_at(&self, by: u64) {
        self.clock.jump(ms(by));
        assert!(matches!(self.service.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    }
}

/// A message for one actor does not wait until another actor has handled its own.
#[test]
fn a_message_is_not_held_up_by_the_inbox_of_another_actor() {
    let mut world = World::new();
    let mut other = Ear::new();
    other.addr.do_send(After(1000, number(1)));
    other.poll();
    world.own(10, number(2));
    world.timers.schedule_after(&other.addr, ms(10), number(3));
    world.poll_driver();
    world.clock.jump(ms(10));
    world.poll_driver();
    assert_eq!(world.service.state().engine.in_inboxes(), 1);
    assert_eq!(world.timers.snapshot().counters.delivered, 1, "it is in the mailbox");
    other.poll();
    assert_eq!(other.log(), [3]);
}

/// The timer actor ends while a message is in its actor's mailbox: it was delivered, as one for a target.
#[test]
fn a_message_under_way_when_the_timer_actor_stops_arrives() {
    let mut world = World::new();
    let letters = world.letters();
    world.own(10, number(1));
    world.watch_at(30);
    world.post_own();
    world.service.shut_down();
    world.poll_listener();
    assert_eq!(world.log(), [1]);
    assert!(letters().is_empty());
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.service_stopped, counters.delivered, counters.pending), (0, 1, 0));
}

/// An actor that lives on after it has lost its last address gets its messages through the mailbox. Once it has an
/// address again and schedules, it gets them from its inbox, where a cancel is exact.
#[test]
fn the_inbox_of_an_actor_that_was_without_an_address_returns() {
    let World { clock, service, mut driver, driver_called, addr, mut listener, listener_called, log, timers, .. } =
        World::new();
    addr.do_send(Between(Hook::default()));
    addr.do_send(After(5, number(1)));
    poll(&mut listener, &listener_called);
    let weak = addr.downgrade();
    drop(addr);
    clock.jump(ms(5));
    poll(&mut listener, &listener_called);
    let owner = *service.state().lanes.own.values().next().unwrap();
    assert!(service.state().engine.owner(owner).is_some_and(|owner_state| owner_state.item == Item::Left));
    let addr = weak.upgrade().unwrap();
    addr.do_send(After(5, number(2)));
    poll(&mut listener, &listener_called);
    let second = LAST_OWN.take().unwrap();
    // Only now does the driver notice that the inbox had left.
    clock.jump(ms(5));
    for _ in 0..2 {
        poll(&mut driver, &driver_called);
    }
    assert_eq!(timers.get(second).map(|timer| timer.location.as_str()), Some("inbox"));
    assert!(service.state().lanes.posted.is_empty());
    assert_eq!(timers.cancel(second), CancelOutcome::Cancelled);
    poll(&mut listener, &listener_called);
    assert_eq!(*log.lock().unwrap(), [1]);
}

/// One more poll of the inbox shows that the handler has been called: its answer may never come, and the next message
/// goes on.
#[test]
fn a_handler_whose_answer_never_comes_holds_no_message_back() {
    let mut world = World::new();
    world.run(|ctx| LAST_OWN.set(Some(ctx.schedule_after(ms(10), Endless(1)))));
    let id = LAST_OWN.take().unwrap();
    world.watch_at(30);
    world.post_own();
    assert_eq!(world.timers.cancel(id), CancelOutcome::AlreadyDelivered);
    world.own(10, number(2));
    world.watch_at(30);
    world.poll_listener();
    world.poll_listener();
    assert_eq!(world.log(), [1, 2]);
    let counters = world.timers.snapshot().counters;
    assert_eq!((counters.delivered, counters.pending), (2, 0));
}

/// The inbox finds that a handler was called that has not answered yet. The state is then unlocked for a moment, in
/// which the watchdog sends the next message.
#[test]
fn an_inbox_does_not_overtake_a_message_sent_by_the_watchdog() {
    let mut world = World::new();
    world.run(|ctx| LAST_OWN.set(Some(ctx.schedule_after(ms(10), Endless(1)))));
    world.own(10, number(2));
    world.own(10, number(3));
    world.watch_at(30);
    world.post_own();
    world.poll_driver();
    // From now on each event wakes the driver at once. The first is the end of that message.
    world.service.state().reports.published.hurry();
    let (service, owner) = (Arc::clone(&world.service), world.owner());
    *world.driver_called.hook.lock().unwrap() = Some(Box::new(move || {
        post_own(&service, owner);
    }));
    world.poll_listener();
    assert!(world.driver_called.hook.lock().unwrap().is_none());
    world.poll_listener();
    world.poll_listener();
    assert_eq!(world.log(), [1, 2, 3]);
}

/// A waker that runs a hook when its last copy is dropped.
struct Last(Hook);

impl Wake for Last {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Last {
    fn drop(&mut self) {
        call(&self.0);
    }
}

/// The watchdog's message is handled before the watchdog has noted the sending. It notes it while the inbox is polled,
/// after the inbox has read the wake flag and before it looks for messages. The inbox is woken for the later message.
#[test]
fn an_inbox_is_called_after_a_message_handled_while_sent() {
    let mut world = World::new();
    world.own(10, number(1));
    world.own(50, number(2));
    world.watch_at(30);
    let owner = world.owner();
    let (to_actor, at_actor) = std::sync::mpsc::channel();
    let (to_watch, at_watch) = std::sync::mpsc::channel();
    let tell_actor = to_actor.clone();
    *world.listener_called.hook.lock().unwrap() = Some(Box::new(move || {
        tell_actor.send(()).unwrap();
        at_watch.recv().unwrap();
    }));
    let service = Arc::clone(&world.service);
    let watchdog = std::thread::spawn(move || {
        post_own(&service, owner);
        to_actor.send(()).unwrap();
    });
    at_actor.recv().unwrap();
    world.listener_called.take();
    let hook = Hook::default();
    let waker = Waker::from(Arc::new(Last(Arc::clone(&hook))));
    assert!(Pin::new(&mut *world.listener).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    drop(waker);
    *hook.lock().unwrap() = Some(Box::new(move || {
        to_watch.send(()).unwrap();
        at_actor.recv().unwrap();
    }));
    world.poll_listener();
    assert!(hook.lock().unwrap().is_none());
    watchdog.join().unwrap();
    assert_eq!(world.log(), [1]);
    world.go_on();
    world.clock.jump(ms(30));
    world.poll_driver();
    world.go_on();
    assert_eq!(world.log(), [1, 2]);
}

/// An actor without an address is woken for a message. Before its inbox looks for that, another thread cancels the
/// message and the last closure, and the watchdog's turn reports the end of the closure.
#[test]
fn an_inbox_leaves_when_the_last_closure_ends_during_its_poll() {
    let World { clock, service, mut driver, driver_called, addr, mut listener, listener_called, .. } = World::new();
    let ids = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&ids);
    addr.do_send(Between(Hook::default()));
    addr.do_send(Run(Box::new(move |ctx| {
        *known.lock().unwrap() = vec![ctx.run_after(ms(1000), |_, _| ()), ctx.schedule_after(ms(10), number(1))];
    })));
    poll(&mut listener, &listener_called);
    drop(addr);
    let hook = Hook::default();
    let waker = Waker::from(Arc::new(Last(Arc::clone(&hook))));
    assert!(Pin::new(&mut *listener).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    drop(waker);
    clock.jump(ms(10));
    poll(&mut driver, &driver_called);
    let elsewhere = Arc::clone(&service);
    *hook.lock().unwrap() = Some(Box::new(move || {
        for id in ids.lock().unwrap().drain(..) {
            assert_eq!(elsewhere.cancel(id), CancelOutcome::Cancelled);
        }
        assert!(matches!(elsewhere.turn(TurnBy::Watchdog), TurnResult::Sleep(_)));
    }));
    poll(&mut listener, &listener_called);
    assert!(hook.lock().unwrap().is_none(), "it was called during the poll");
    let owner = *service.state().lanes.own.values().next().unwrap();
    assert!(service.state().engine.owner(owner).is_some_and(|owner_state| owner_state.item == Item::Left));
}

/// The context is restarted during the sending of a message to it, by the waker that the message wakes. The sending
/// cannot end before the restart, so the restart does not wait for it without end.
#[test]
fn a_restart_takes_back_a_message_being_sent() {
    let mut world = World::new();
    world.own(10, number(1));
    world.watch_at(30);
    let World { service, listener, listener_called, log, timers, addr: _addr, .. } = world;
    RESTARTS.replace(Some(listener));
    *listener_called.hook.lock().unwrap() = Some(Box::new(|| {
        assert!(RESTARTS.with_borrow_mut(|listener| listener.as_mut().unwrap().restart()));
    }));
    let owner = *service.state().lanes.own.values().next().unwrap();
    post_own(&service, owner);
    let mut listener = RESTARTS.take().unwrap();
    assert!(listener_called.hook.lock().unwrap().is_none(), "it was restarted while the message was sent");
    poll(&mut listener, &listener_called);
    assert!(log.lock().unwrap().is_empty());
    let counters = timers.snapshot().counters;
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
        world.own(10, number(1));
        world.watch_at(30);
        let World { service, mut listener, listener_called, log, timers, addr: _addr, .. } = world;
        let (began, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
        *listener_called.hook.lock().unwrap() = Some(Box::new(move || {
            begins.store(1, Ordering::SeqCst);
            (0..50).for_each(|_| sync::yield_now());
            ends.store(1, Ordering::SeqCst);
        }));
        let simulation = Simulation::new(seed);
        simulation::spawn("watch", move || {
            let owner = *service.state().lanes.own.values().next().unwrap();
            post_own(&service, owner);
        });
        simulation::spawn("arbiter", move || {
            while began.load(Ordering::SeqCst) == 0 {
                sync::yield_now();
            }
            assert!(listener.restart());
            assert_eq!(ended.load(Ordering::SeqCst), 1, "seed {seed}");
            poll(&mut listener, &listener_called);
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
    world.own(10, number(1));
    world.clock.jump(ms(10));
    world.poll_driver();
    world.poll_listener();
    assert_eq!(world.log(), [1]);
    assert!(world.service.state().driver.watched_inboxes.is_empty());
}

/// Virtual time does not pass as long as a due message waits for an actor on another thread.
#[test]
fn virtual_time_waits_for_messages_to_actors_on_other_threads() {
    let mut world = World::new();
    let may_time_pass = |world: &World| {
        let service = Arc::clone(&world.service);
        std::thread::spawn(move || service.activity().may_last(false)).join().unwrap()
    };
    world.own(10, number(1));
    world.poll_driver();
    assert!(may_time_pass(&world));
    world.clock.jump(ms(10));
    world.poll_driver();
    assert!(!may_time_pass(&world), "a message in an inbox");
    world.poll_listener();
    world.poll_driver();
    assert!(may_time_pass(&world));

    let id = world.timers.schedule_after(Target::tracked(&world.addr), ms(10), number(2));
    world.poll_driver();
    world.clock.jump(ms(10));
    world.poll_driver();
    assert_eq!(world.timers.get(id).map(|timer| timer.location.as_str()), Some("mailbox"));
    assert!(!may_time_pass(&world), "a message in a mailbox");
    world.poll_listener();
    world.poll_driver();
    assert!(may_time_pass(&world));

    world.own(10, number(3));
    world.poll_driver();
    world.watch_at(30);
    world.post_own();
    world.poll_driver();
    assert!(!may_time_pass(&world), "a message on its way from an inbox to a mailbox");
    for _ in 0..3 {
        world.poll_listener();
        world.poll_driver();
    }
    assert!(may_time_pass(&world));
    assert_eq!(world.log(), [1, 2, 3]);
}

#[test]
fn a_drain_that_leaves_time_delivers_a_message_due_at_its_end() {
    let mut world = World::new();
    let target = world.addr.clone();
    world.timers.schedule_after(&target, ms(10), number(1));
    world.timers.schedule_after(&target, ms(11), number(2));
    world.poll_driver();
    let mut drained = Box::pin(Arc::clone(&world.service).drain_within(ms(10)));
    let mut look = || drained.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    assert!(look().is_pending());
    world.poll_driver();
    assert!(look().is_pending());
    world.clock.jump(ms(10));
    world.poll_driver();
    let Poll::Ready(returned) = look() else { panic!("the time is over") };
    world.poll_listener();
    assert_eq!((world.log(), returned.len()), (vec![1], 1));
}

/// While one recipient is stuck, nothing is kept of actors that have taken their messages and ended since.
#[test]
fn ended_actors_are_forgotten_behind_a_stuck_one() {
    let mut world = World::new();
    world.own(10, number(0));
    world.clock.jump(ms(10));
    world.poll_driver();
    for n in 1..=100 {
        let mut other = Ear::new();
        other.addr.do_send(After(10, number(n)));
        other.poll();
        let queue = Ear::new();
        world.timers.schedule_after(Target::from(&queue.addr).window(1), ms(10), number(n));
        world.poll_driver();
        world.clock.jump(ms(10));
        world.poll_driver();
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
    let (mailbox, next) = state.lanes.own.iter().next().map(|(mailbox, lane)| (*mailbox, *lane)).unwrap();
    let earlier = OwnerId(Key::new(next.0.index(), u64::MAX));
    state.lanes.forget(mailbox, earlier);
    assert!(state.lanes.own.contains_key(&mailbox));
    state.lanes.forget(mailbox, next);
    assert!(!state.lanes.own.contains_key(&mailbox));
}

/// The timer of an ended actor gives way to a new one although the capacity is used up. Its message is dropped later, by
/// the driver.
#[test]
fn a_message_is_dropped_after_a_new_timer_has_taken_its_place() {
    let mut world = World::with(TimerActorBuilder::default().capacity(1), ManualClock::new());
    let (dropped, hook) = (Arc::new(AtomicUsize::new(0)), Hook::default());
    let count = Arc::clone(&dropped);
    *hook.lock().unwrap() = Some(Box::new(move || _ = count.fetch_add(1, Ordering::SeqCst)));
    let mut other = Ear::new();
    other.addr.do_send(After(10, Number(1, hook)));
    other.poll();
    drop(other);
    let id = world.timers.schedule_after(&world.addr, ms(10), number(2));
    assert!(world.timers.get(id).is_some());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    world.poll_driver();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

//! Model checks of the state that threads share without a lock, in all interleavings: the wake flag of an inbox, the
//! next check of the watchdog, and the turns of driver, inbox and watchdog.

use std::task::{Wake, Waker};

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::service::deliver::next_check::{IDLE, NextCheck};
use crate::service::deliver::turns::Turns;
use crate::service::owner::wake_flag::WakeFlag;
use crate::simulation::model;

/// The state under the lock: an inbox, and the waker of its reader.
#[derive(Default)]
struct State {
    messages: usize,
    waker: Option<thread::Thread>,
}

/// Two senders, and a reader that sleeps when the wake flag is clear: it gets all messages, and never sleeps for ever
/// (a model in which all threads sleep is an error).
#[test]
fn nothing_that_is_put_into_an_inbox_is_slept_over() {
    model::check(None, || {
        let shared = Arc::new((WakeFlag::default(), Mutex::new(State::default())));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (wake_flag, state) = &*shared;
                    let mut state = state.lock().unwrap();
                    state.messages += 1;
                    let waker = if wake_flag.set() { state.waker.clone() } else { None };
                    drop(state);
                    if let Some(reader) = waker {
                        reader.unpark();
                    }
                })
            })
            .collect();

        let (wake_flag, state) = &*shared;
        let (mut taken, mut has_waker) = (0, false);
        while taken < 2 {
            if !wake_flag.is_set() && has_waker {
                thread::park();
                continue;
            }
            let mut state = state.lock().unwrap();
            wake_flag.clear();
            state.waker = Some(thread::current());
            has_waker = true;
            taken += std::mem::take(&mut state.messages);
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

/// A scheduler stores a deadline under the lock and announces it to the watchdog, which sleeps for ever only if it has
/// seen the deadline.
#[test]
fn the_watchdog_looks_whenever_something_was_scheduled() {
    model::check(None, || {
        let shared = Arc::new((NextCheck::default(), Mutex::new(IDLE)));
        let watchdog = thread::current();
        let scheduler = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (next_check, deadline) = &*shared;
                *deadline.lock().unwrap() = 5;
                if next_check.expect(5) {
                    watchdog.unpark();
                }
            })
        };

        let (next_check, deadline) = &*shared;
        // One announcement from outside, as at the start of a service.
        next_check.expect(0);
        let mut seen = IDLE;
        while seen == IDLE {
            // The time is 1. The watchdog sleeps until later times, and 5 never comes by itself.
            match next_check.next() {
                0 | 5 => {
                    next_check.begin();
                    seen = *deadline.lock().unwrap();
                    next_check.expect(seen);
                }
                _ => thread::park(),
            }
        }
        assert_eq!(seen, 5);
        scheduler.join().unwrap();
    });
}

/// A thread's sleep. (The checker's own `park` forgets a wake-up that comes while the thread waits for a lock.)
struct Sleep {
    is_marked_ready: Mutex<bool>,
    called: Condvar,
}

impl Sleep {
    fn sleep(&self) {
        let mut is_marked_ready = self.is_marked_ready.lock().unwrap();
        while !std::mem::take(&mut *is_marked_ready) {
            is_marked_ready = self.called.wait(is_marked_ready).unwrap();
        }
    }
}

impl Wake for Sleep {
    fn wake(self: std::sync::Arc<Self>) {
        *self.is_marked_ready.lock().unwrap() = true;
        self.called.notify_one();
    }
}

/// A driver's work: messages that are due now, and messages sent.
#[derive(Default)]
struct Due {
    now: usize,
    sent: usize,
}

/// The driver: looks at each wake-up, until one message was sent by any thread. It has no alarm.
fn drive(turns: &Turns, due: &Mutex<Due>) {
    let sleep = std::sync::Arc::new(Sleep { is_marked_ready: Mutex::new(false), called: Condvar::new() });
    let waker = Waker::from(std::sync::Arc::clone(&sleep));
    loop {
        turns.register_driver(&waker);
        if let Some(_claim) = turns.claim() {
            let mut due = due.lock().unwrap();
            due.sent += std::mem::take(&mut due.now);
            if due.sent == 1 {
                return;
            }
        }
        sleep.sleep();
    }
}

/// A thread schedules a message and wakes the driver, while this thread has the watchdog's turn: it has looked already,
/// or not yet. A driver that found the turn taken sleeps for ever unless it is woken afterwards.
#[test]
fn a_driver_that_found_the_turn_taken_looks_again() {
    model::check(Some(2), || {
        let shared = Arc::new((Turns::default(), Mutex::new(Due::default())));
        let (with_driver, with_scheduler) = (Arc::clone(&shared), Arc::clone(&shared));
        let driver = thread::spawn(move || drive(&with_driver.0, &with_driver.1));
        let scheduler = thread::spawn(move || {
            let (turns, due) = &*with_scheduler;
            due.lock().unwrap().now += 1;
            turns.wake_driver();
        });
        let (turns, due) = &*shared;
        turns.in_place_of_driver(|| {
            if let Some(_claim) = turns.claim() {
                let mut due = due.lock().unwrap();
                due.sent += std::mem::take(&mut due.now);
            }
        });
        driver.join().unwrap();
        scheduler.join().unwrap();
    });
}

/// The driver and the watchdog send due messages in order, although the state is unlocked in between. Neither waits for
/// the turn.
#[test]
fn the_holder_of_the_turn_sends_alone() {
    model::check(None, || {
        let shared = Arc::new((Turns::default(), Mutex::new(0), Mutex::new(Vec::new())));
        let watchdog = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (turns, next, mailbox) = &*shared;
                if let Some(_claim) = turns.claim() {
                    send_next(next, mailbox);
                }
            })
        };
        let (turns, next, mailbox) = &*shared;
        for _ in 0..2 {
            if let Some(_claim) = turns.claim() {
                send_next(next, mailbox);
            }
        }
        watchdog.join().unwrap();
        assert!(mailbox.lock().unwrap().is_sorted());
    });
}

/// Takes the next message, and then sends it.
fn send_next(next: &Mutex<u32>, mailbox: &Mutex<Vec<u32>>) {
    let message = {
        let mut next = next.lock().unwrap();
        *next += 1;
        *next
    };
    mailbox.lock().unwrap().push(message);
}

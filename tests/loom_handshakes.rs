//! What threads share without a lock, under a model checker that tries all interleavings: the bell of an inbox, and the
//! lookout of the watch. Both files are included here with the checker's atomics in place of the real ones.
#![allow(clippy::unwrap_used)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

#[allow(dead_code)]
#[path = "../src/actor/service/bell.rs"]
mod bell;
#[allow(dead_code)]
#[path = "../src/actor/service/lookout.rs"]
mod lookout;

use bell::Bell;
use lookout::{IDLE, Lookout};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// What the lock guards: an inbox, and whether its reader has left word how to wake it.
#[derive(Default)]
struct Core {
    messages: usize,
    waker: Option<thread::Thread>,
}

/// Two senders, one reader that sleeps when the bell is silent: it gets everything, and never sleeps for ever (a model
/// in which all threads sleep is an error).
#[test]
fn nothing_that_is_put_into_an_inbox_is_slept_over() {
    loom::model(|| {
        let shared = Arc::new((Bell::silent(), Mutex::new(Core::default())));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (bell, core) = &*shared;
                    let mut core = core.lock().unwrap();
                    core.messages += 1;
                    let waker = if bell.ring() { core.waker.clone() } else { None };
                    drop(core);
                    if let Some(reader) = waker {
                        reader.unpark();
                    }
                })
            })
            .collect();

        let (bell, core) = &*shared;
        let (mut taken, mut has_waker) = (0, false);
        while taken < 2 {
            if !bell.has_rung() && has_waker {
                thread::park();
                continue;
            }
            let mut core = core.lock().unwrap();
            bell.silence();
            core.waker = Some(thread::current());
            has_waker = true;
            taken += std::mem::take(&mut core.messages);
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

/// A scheduler puts a deadline under the lock and tells the watch. The watch sleeps for ever only if it has seen it.
#[test]
fn the_watch_looks_whenever_something_was_scheduled() {
    loom::model(|| {
        let shared = Arc::new((Lookout::idle(), Mutex::new(IDLE)));
        let watch = thread::current();
        let scheduler = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (lookout, deadline) = &*shared;
                *deadline.lock().unwrap() = 5;
                if lookout.expect(5) {
                    watch.unpark();
                }
            })
        };

        let (lookout, deadline) = &*shared;
        // Called once from outside, as when a service starts.
        lookout.expect(0);
        let mut seen = IDLE;
        while seen == IDLE {
            // 1 is now: what is to be looked at later than that is slept for, and 5 never comes by itself.
            match lookout.next() {
                0 => {
                    lookout.begin();
                    seen = *deadline.lock().unwrap();
                    lookout.expect(seen);
                }
                5 => {
                    lookout.begin();
                    seen = *deadline.lock().unwrap();
                }
                _ => thread::park(),
            }
        }
        assert_eq!(seen, 5);
        scheduler.join().unwrap();
    });
}

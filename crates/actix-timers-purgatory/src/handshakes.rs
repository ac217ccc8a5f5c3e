//! Model checks of an attempt in all interleavings of threads: checks, time-outs, cancels, and the task that waits.

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::attempt::{Attempt, End, Remains};
use crate::error::Outcome;

type Condition = Box<dyn FnMut() -> Option<u32> + Send>;

/// An attempt whose condition is a switch, and which holds a number.
type Request = Attempt<u32, Condition, u32>;

fn request(condition: impl FnMut() -> Option<u32> + Send + 'static) -> Arc<Request> {
    Arc::new(Attempt::new(Box::new(condition)))
}

fn switched(switch: &Arc<AtomicBool>) -> Arc<Request> {
    let switch = Arc::clone(switch);
    request(move || switch.load(SeqCst).then_some(7))
}

/// Lets a thread act on the request, and returns the end that this caused.
fn beside(
    request: &Arc<Request>,
    act: impl FnOnce(&Request) -> Option<Remains<Condition, u32>> + Send + 'static,
) -> thread::JoinHandle<Option<End>> {
    let request = Arc::clone(request);
    thread::spawn(move || act(&request).map(|remains| remains.end))
}

fn answer(request: &Request) -> Option<Result<Outcome<u32>, String>> {
    match request.poll(Waker::noop()) {
        Poll::Ready(answer) => Some(answer.map_err(|error| error.to_string())),
        Poll::Pending => None,
    }
}

/// A check after the change completes the request, although another check may be in the middle of its try.
#[test]
fn a_check_that_meets_a_running_try_is_not_lost() {
    loom::model(|| {
        let switch = Arc::new(AtomicBool::new(false));
        let request = switched(&switch);
        let other = beside(&request, Attempt::try_now);
        switch.store(true, SeqCst);
        let here = request.try_now().map(|remains| remains.end);
        let ends = [here, other.join().unwrap()];
        assert!(ends == [Some(End::Completed), None] || ends == [None, Some(End::Completed)], "{ends:?}");
        assert_eq!(answer(&request), Some(Ok(Outcome::Completed(7))));
        assert_eq!(answer(&request), None, "it is given once");
    });
}

#[test]
fn no_two_threads_try_a_condition_at_once() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (is_tried, overlaps) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&overlaps);
        let request = request(move || {
            seen.fetch_add(usize::from(is_tried.swap(true, SeqCst)), SeqCst);
            is_tried.store(false, SeqCst);
            None
        });
        let others = [beside(&request, Attempt::try_now), beside(&request, Attempt::try_now)];
        assert!(request.try_now().is_none());
        assert!(others.into_iter().all(|other| other.join().unwrap().is_none()));
        assert_eq!(overlaps.load(SeqCst), 0);
    });
}

/// A request ends once, and a value that the condition has returned is the answer, however close the time-out is.
#[test]
fn a_time_out_takes_no_value_away() {
    loom::model(|| {
        let tried = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tried);
        let request = request(move || {
            counted.fetch_add(1, SeqCst);
            Some(7)
        });
        let other = beside(&request, |request| request.end(End::Expired));
        let here = request.try_now().map(|remains| remains.end);
        let there = other.join().unwrap();
        match tried.load(SeqCst) {
            0 => assert_eq!((here, there, answer(&request)), (None, Some(End::Expired), Some(Ok(Outcome::Expired)))),
            1 => {
                assert_eq!((here, there), (Some(End::Completed), None));
                assert_eq!(answer(&request), Some(Ok(Outcome::Completed(7))));
            }
            more => panic!("tried {more} times"),
        }
    });
}

#[test]
fn a_time_out_during_a_vain_try_ends_the_request() {
    loom::model(|| {
        let request = request(|| None);
        let other = beside(&request, |request| request.end(End::Expired));
        let ends = [request.try_now().map(|remains| remains.end), other.join().unwrap()];
        assert!(ends == [Some(End::Expired), None] || ends == [None, Some(End::Expired)], "{ends:?}");
        assert_eq!(answer(&request), Some(Ok(Outcome::Expired)));
    });
}

/// Of two ends one wins; the value of a try that a cancel has overtaken is dropped.
#[test]
fn a_request_ends_once() {
    for end in [End::Cancelled, End::Closed, End::Dropped] {
        loom::model(move || {
            let request = request(|| Some(7));
            let other = beside(&request, move |request| request.end(end));
            let ends = [request.try_now().map(|remains| remains.end), other.join().unwrap()];
            let answer = answer(&request);
            match ends {
                [Some(End::Completed), None] if end == End::Dropped => assert_eq!(answer, None),
                [Some(End::Completed), None] => assert_eq!(answer, Some(Ok(Outcome::Completed(7)))),
                [None, Some(_)] if end == End::Dropped => assert_eq!(answer, None),
                [None, Some(_)] => assert!(answer.is_some_and(|answer| answer.is_err())),
                _ => panic!("{ends:?}"),
            }
        });
    }
}

/// Watchers and timer are freed once, whether the request ends before or after it has got them.
#[test]
fn the_end_frees_what_a_request_holds() {
    loom::model(|| {
        let request = request(|| Some(7));
        let other = {
            let request = Arc::clone(&request);
            thread::spawn(move || request.try_now().and_then(|remains| remains.held))
        };
        let back = request.hold(1);
        assert_eq!([back, other.join().unwrap()].iter().flatten().count(), 1);
    });
}

/// A task that sleeps until it is woken. (The checker's own `park` forgets a wake-up that comes while the thread waits
/// for a lock.)
#[derive(Default)]
struct Sleeper {
    is_woken: Mutex<bool>,
    called: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: StdArc<Self>) {
        *self.is_woken.lock().unwrap() = true;
        self.called.notify_one();
    }
}

#[test]
fn the_waiting_task_is_woken_for_its_answer() {
    loom::model(|| {
        let switch = Arc::new(AtomicBool::new(false));
        let request = switched(&switch);
        let other = {
            let request = Arc::clone(&request);
            thread::spawn(move || {
                switch.store(true, SeqCst);
                if let Some(waker) = request.try_now().and_then(|remains| remains.waker) {
                    waker.wake();
                }
            })
        };
        let sleeper = StdArc::new(Sleeper::default());
        let waker = Waker::from(StdArc::clone(&sleeper));
        while request.poll(&waker).is_pending() {
            let mut is_woken = sleeper.is_woken.lock().unwrap();
            while !std::mem::take(&mut *is_woken) {
                is_woken = sleeper.called.wait(is_woken).unwrap();
            }
        }
        other.join().unwrap();
    });
}

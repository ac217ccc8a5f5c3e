//! The state of one request: who tries its condition, and its one end.
//!
//! | phase | a check | a time-out | a cancel or close |
//! |---|---|---|---|
//! | idle | takes the condition out and tries it | ends it | ends it |
//! | tried | has the running try repeated, unless the time-out has come | ends it after the try, unless that has a value | ends it; the try's value is dropped |
//! | ended | nothing | nothing | nothing |
//!
//! The condition is out of the lock while it is tried: so no two threads try it, and no lock is held meanwhile. All
//! other code of the user, destructors and wakers, runs without the lock, too.

use std::mem;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use actix_timers::integration::contain;

use crate::error::{Outcome, WaitError};
use crate::sync::{Mutex, MutexGuard, ThreadMark, this_thread};

pub(crate) type Answer<V, C> = Result<Outcome<V>, WaitError<C>>;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Expired,
    Cancelled,
    Closed,
    Panicked,
    /// The future was dropped.
    Dropped,
    /// It was refused: the capacity is used up.
    Full,
}

/// The state of a request with the condition `C`, which holds `H` until it ends: its watchers and its timer.
pub(crate) struct Attempt<V, C, H> {
    state: Mutex<State<V, C, H>>,
}

struct State<V, C, H> {
    phase: Phase<V, C>,
    held: Option<H>,
    waker: Option<Waker>,
}

enum Phase<V, C> {
    Idle(C),
    Tried(Try),
    /// With the answer until the future takes it.
    Ended(Option<Answer<V, C>>),
}

struct Try {
    thread: ThreadMark,
    /// A check came meanwhile.
    again: bool,
    /// The condition itself caused this try by a check.
    is_echo: bool,
    /// The time-out came meanwhile.
    is_expired: bool,
}

/// The remains of a request that has ended, to be disposed of without the lock.
#[must_use]
pub(crate) struct Remains<C, H> {
    pub(crate) end: End,
    pub(crate) held: Option<H>,
    pub(crate) waker: Option<Waker>,
    pub(crate) condition: Option<C>,
}

impl<V, C: FnMut() -> Option<V>, H> Attempt<V, C, H> {
    pub(crate) fn new(condition: C) -> Self {
        Self { state: Mutex::new(State { phase: Phase::Idle(condition), held: None, waker: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<V, C, H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the request something to hold until its end; returns it if that has come already.
    pub(crate) fn hold(&self, held: H) -> Option<H> {
        let mut state = self.lock();
        match state.phase {
            Phase::Ended(_) => Some(held),
            _ => state.held.replace(held),
        }
    }

    /// Tries the condition, again for each check that comes meanwhile. Returns the remains if this call ends the
    /// request.
    ///
    /// If it is being tried, the running try is repeated instead. A check by the condition itself repeats a try once,
    /// and not if the try is such a repetition: a condition that always checks its own key comes to an end. After the
    /// time-out no check repeats it: at most one more try follows.
    pub(crate) fn try_now(&self) -> Option<Remains<C, H>> {
        let thread = this_thread();
        let mut state = self.lock();
        let begun = Phase::Tried(Try { thread, again: false, is_echo: false, is_expired: false });
        let mut condition = match mem::replace(&mut state.phase, begun) {
            Phase::Idle(condition) => condition,
            Phase::Tried(mut running) => {
                let is_echo = running.thread == thread;
                if !(running.is_expired || is_echo && running.is_echo) {
                    running.again = true;
                    running.is_echo = is_echo;
                }
                state.phase = Phase::Tried(running);
                return None;
            }
            ended @ Phase::Ended(_) => {
                state.phase = ended;
                return None;
            }
        };
        loop {
            drop(state);
            let tried = contain(&mut condition);
            state = self.lock();
            let Phase::Tried(running) = &mut state.phase else {
                drop(state);
                _ = contain(|| drop(tried));
                _ = contain(|| drop(condition));
                return None;
            };
            let (end, answer) = match tried {
                Ok(Some(value)) => (End::Completed, Ok(Outcome::Completed(value))),
                Err(message) => (End::Panicked, Err(WaitError::ConditionPanicked { message })),
                Ok(None) if mem::take(&mut running.again) => continue,
                Ok(None) if running.is_expired => (End::Expired, Ok(Outcome::Expired)),
                Ok(None) => {
                    state.phase = Phase::Idle(condition);
                    return None;
                }
            };
            let remains = finish(state, end, Some(answer));
            return Some(Remains { condition: Some(condition), ..remains });
        }
    }

    /// Ends the request for another reason than its condition, and returns the remains if it had not ended. A time-out
    /// leaves the end to a running try.
    pub(crate) fn end(&self, end: End) -> Option<Remains<C, H>> {
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Ended(answer) => {
                let unread = if end == End::Dropped { answer.take() } else { None };
                drop(state);
                drop(unread);
                return None;
            }
            Phase::Tried(running) if end == End::Expired => {
                running.is_expired = true;
                return None;
            }
            Phase::Tried(_) | Phase::Idle(_) => {}
        }
        let answer = match end {
            End::Expired => Some(Ok(Outcome::Expired)),
            End::Cancelled => Some(Err(WaitError::Cancelled)),
            End::Closed => Some(Err(WaitError::Closed { condition: None })),
            End::Completed | End::Panicked | End::Dropped | End::Full => None,
        };
        Some(finish(state, end, answer))
    }

    /// Returns the answer, once. Until it is there, the waker is kept.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Answer<V, C>> {
        let waker = waker.clone();
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Ended(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Phase::Idle(_) | Phase::Tried(_) => {
                let earlier = state.waker.replace(waker);
                drop(state);
                drop(earlier);
                Poll::Pending
            }
        }
    }
}

fn finish<V, C, H>(mut state: MutexGuard<'_, State<V, C, H>>, end: End, answer: Option<Answer<V, C>>) -> Remains<C, H> {
    let condition = match mem::replace(&mut state.phase, Phase::Ended(answer)) {
        Phase::Idle(condition) => Some(condition),
        Phase::Tried(_) | Phase::Ended(_) => None,
    };
    Remains { end, held: state.held.take(), waker: state.waker.take(), condition }
}

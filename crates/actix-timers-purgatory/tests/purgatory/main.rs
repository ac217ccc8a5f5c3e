//! Purgatories: requests and their ends, in virtual time; code of users; threads.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ends;
mod model;
mod published;
mod refused;
mod scale;
mod threads;
mod tries;
mod user_code;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use actix_timers::{ManualClock, TimerActor, TimerActorBuilder, Timers};
use actix_timers_purgatory::{Outcome, Purgatory, PurgatoryBuilder, Wait, WaitError};
use futures_util::FutureExt;

const SECOND: Duration = Duration::from_secs(1);

/// A purgatory in virtual time.
struct World {
    clock: ManualClock,
    timers: Timers,
    purgatory: Purgatory<u32>,
}

impl World {
    fn new() -> Self {
        Self::with(|timers| timers, |purgatory| purgatory)
    }

    fn with(
        timers: impl FnOnce(TimerActorBuilder) -> TimerActorBuilder,
        purgatory: impl FnOnce(PurgatoryBuilder<u32>) -> PurgatoryBuilder<u32>,
    ) -> Self {
        let clock = ManualClock::new();
        let timers = timers(TimerActor::builder().clock(clock.clone())).start().unwrap();
        let purgatory = purgatory(Purgatory::builder().timers(&timers)).start().unwrap();
        Self { clock, timers, purgatory }
    }

    /// Asserts that nothing is left of any request.
    fn assert_empty(&self) {
        assert_eq!((self.purgatory.delayed(), self.purgatory.watched()), (0, 0));
        assert_eq!(self.timers.snapshot().pending(), 0);
    }
}

/// A state that conditions wait for.
#[derive(Debug, Clone, Default)]
struct Level(Arc<AtomicU32>);

impl Level {
    fn set(&self, level: u32) {
        self.0.store(level, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns the condition that the level has been reached.
    fn reached(&self, level: u32) -> impl FnMut() -> Option<u32> + Send + use<> {
        let state = self.clone();
        move || Some(state.get()).filter(|now| *now >= level)
    }

    fn users(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// A condition that is never met.
fn never() -> Option<u32> {
    None
}

/// The answer of a request, without its condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Completed(u32),
    Expired,
    Cancelled,
    Closed,
    Full,
    Panicked(String),
}

impl Answer {
    fn of<C>(answer: Result<Outcome<u32>, WaitError<C>>) -> Self {
        match answer {
            Ok(Outcome::Completed(value)) => Self::Completed(value),
            Ok(Outcome::Expired) => Self::Expired,
            Err(WaitError::Cancelled) => Self::Cancelled,
            Err(WaitError::Closed { .. }) => Self::Closed,
            Err(WaitError::Full { .. }) => Self::Full,
            Err(WaitError::ConditionPanicked { message }) => Self::Panicked(message),
            Err(error) => panic!("an error of another kind: {error}"),
        }
    }
}

/// Returns the answer if it is there.
fn answer<C>(wait: &mut Wait<u32, C>) -> Option<Answer> {
    wait.now_or_never().map(Answer::of)
}

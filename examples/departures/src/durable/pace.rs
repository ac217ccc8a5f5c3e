//! When time goes on.

use std::time::Duration;

use actix_timers_durable::{DueTime, DurableFilter, DurableId, DurableTimers};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::clock::StepClock;
use super::logbook::Logbook;
use crate::clock::Speed;

/// Time goes on by so much at most before what has become due is done. A step is shorter than the time from the news of a delay
/// to the boarding call that it moves, however slow the disk is; and it is long, so that many messages share a commit.
const STEP: SignedDuration = SignedDuration::from_mins(14);
/// So long in real time nothing may get on.
const PATIENCE: Duration = Duration::from_secs(120);

/// How time passes: by the speed that was asked for, but not before what was due is done.
pub(super) struct Pace<'a> {
    clock: &'a StepClock,
    speed: Option<Speed>,
    began: Instant,
    /// The date when it began.
    origin: Timestamp,
}

impl<'a> Pace<'a> {
    pub(super) fn new(clock: &'a StepClock, speed: Option<Speed>) -> Self {
        Self { clock, speed, began: Instant::now(), origin: clock.date() }
    }

    /// Lets time pass until no timer is pending.
    ///
    /// # Errors
    /// The store does not answer, the log cannot be written, or nothing gets on any more.
    pub(super) async fn run(&self, timers: &DurableTimers, logbook: &Logbook) -> Result<(), String> {
        let mut first: Option<(DurableId, DueTime)> = None;
        let mut since = Instant::now();
        loop {
            if let Some(why) = logbook.broken() {
                return Err(why.to_owned());
            }
            // Nothing is ever scheduled before what is the first now.
            let from = first.map_or(DueTime::MIN, |(_, due)| due);
            let filter = DurableFilter::new().due(from.to_system_time()..).limit(1);
            // The answer comes after the commit that is under way.
            let page = timers.list(filter).await.map_err(|why| why.to_string())?;
            let Some(timer) = page.timers.first() else { return Ok(()) };
            if first.replace((timer.id, timer.due())) != first {
                since = Instant::now();
            }
            if DueTime::reached_at(self.clock.date().into()) < timer.due() {
                self.reach(timer.due()).await?;
                since = Instant::now();
            } else if since.elapsed() > PATIENCE {
                return Err(format!("timer {} was due at {}, and nothing has come of it", timer.id, self.clock.date()));
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Moves the clock on to when something is due, or a step further.
    async fn reach(&self, due: DueTime) -> Result<(), String> {
        let due = Timestamp::try_from(due.to_system_time()).map_err(|why| why.to_string())?;
        let step = due.checked_add(STEP).unwrap_or(due);
        let Some(speed) = self.speed else {
            self.clock.go_to(step);
            return Ok(());
        };
        let wait = speed.real(Duration::try_from(due.duration_since(self.origin)).unwrap_or_default());
        match self.began.checked_add(wait) {
            Some(time) => tokio::time::sleep_until(time).await,
            None => std::future::pending().await,
        }
        let passed = SignedDuration::try_from(speed.replayed(self.began.elapsed())).unwrap_or(SignedDuration::MAX);
        let date = self.origin.checked_add(passed).unwrap_or(Timestamp::MAX);
        self.clock.go_to(date.clamp(due, step));
        Ok(())
    }
}

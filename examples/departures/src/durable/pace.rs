//! The pace of the replayed time.

use std::time::Duration;

use actix_timers_durable::{DueTime, DurableFilter, DurableId, DurableTimers};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::clock::StepClock;
use super::logbook::Journal;
use crate::clock::Speed;

/// The maximum by which time advances beyond the deadline of an unfinished message. It is shorter than the time from
/// the news of a delay to the boarding call that it moves, however slow the disk is; and long, so that many messages
/// share a commit.
const STEP: SignedDuration = SignedDuration::from_mins(14);
/// The longest real time without progress.
const PATIENCE: Duration = Duration::from_secs(120);

/// Advances the clock: at the speed asked for, but not before all due messages are done.
pub(super) struct Pace<'a> {
    clock: &'a StepClock,
    speed: Option<Speed>,
    /// Where other nodes work, the pause between two looks.
    pause: Option<Duration>,
    began: Instant,
    /// The date at the beginning.
    origin: Timestamp,
}

impl<'a> Pace<'a> {
    pub(super) fn new(clock: &'a StepClock, speed: Option<Speed>, pause: Option<Duration>) -> Self {
        Self { clock, speed, pause, began: Instant::now(), origin: clock.date() }
    }

    /// Advances time until no timer is pending.
    ///
    /// # Errors
    /// The store fails, the log cannot be written, or there is no progress.
    pub(super) async fn run(&self, timers: &DurableTimers, logbook: &dyn Journal) -> Result<(), String> {
        let mut first: Option<(DurableId, DueTime)> = None;
        let mut since = Instant::now();
        loop {
            if let Some(why) = logbook.broken() {
                return Err(why);
            }
            // Nothing is scheduled before the timer that is first now, unless another node makes timers due.
            let from = first.filter(|_| self.pause.is_none()).map_or(DueTime::MIN, |(_, due)| due);
            let filter = DurableFilter::new().due(from.to_system_time()..).limit(1);
            // The reply comes after the commit in progress.
            let page = match timers.list(filter).await {
                Ok(page) => page,
                // The server may be back soon.
                Err(_) if self.pause.is_some() && since.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
                Err(why) => return Err(why.to_string()),
            };
            let Some(timer) = page.timers.first() else { return Ok(()) };
            if first.replace((timer.id, timer.due())) != first {
                since = Instant::now();
            }
            let date = self.clock.date_of(timer.due()).map_err(|why| why.to_string())?;
            if !self.clock.is_due(date) {
                let until = self.reach(date).await;
                let until = DueTime::at_or_after(self.clock.due_at(until).into()).map_err(|why| why.to_string())?;
                logbook.advance(timer.due(), until).await.map_err(|why| why.to_string())?;
                since = Instant::now();
            } else if since.elapsed() > PATIENCE {
                return Err(format!("timer {} was due at {}, and nothing has come of it", timer.id, self.clock.date()));
            } else if let Some(pause) = self.pause {
                tokio::time::sleep(pause).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Advances the clock to the deadline, or a step beyond it. Returns the date.
    async fn reach(&self, due: Timestamp) -> Timestamp {
        let step = due.checked_add(STEP).unwrap_or(due);
        let Some(speed) = self.speed else {
            self.clock.go_to(step, step);
            return step;
        };
        let wait = speed.real(Duration::try_from(due.duration_since(self.origin)).unwrap_or_default());
        match self.began.checked_add(wait) {
            Some(time) => tokio::time::sleep_until(time).await,
            None => std::future::pending().await,
        }
        let passed = SignedDuration::try_from(speed.replayed(self.began.elapsed())).unwrap_or(SignedDuration::MAX);
        let date = self.origin.checked_add(passed).unwrap_or(Timestamp::MAX);
        let date = date.clamp(due, step);
        self.clock.go_to(date, step);
        date
    }
}

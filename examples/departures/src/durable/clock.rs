//! The clock of a durable replay.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_timers::{Alarm, Clock, RequestTime};
use actix_timers_durable::DueTime;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// A clock that is advanced in steps. Between two steps it runs like any other, but its date does not pass the end of
/// the step.
///
/// Where nodes go by the clock of a server, which cannot be advanced, timers are due long after their dates.
#[derive(Clone)]
pub(super) struct StepClock(Arc<Works>);

struct Works {
    /// The time by which due times are ahead of dates.
    ahead: SignedDuration,
    origin: Timestamp,
    began: Instant,
    steps: watch::Sender<Steps>,
}

#[derive(Clone, Copy)]
struct Steps {
    /// The time skipped so far.
    skipped: Duration,
    /// The last date of the present step.
    end: Timestamp,
}

impl StepClock {
    /// Creates a clock that stands at a date until the first step.
    pub(super) fn at(date: Timestamp, ahead: SignedDuration) -> Self {
        let steps = watch::Sender::new(Steps { skipped: Duration::ZERO, end: date });
        Self(Arc::new(Works { ahead, origin: date, began: Instant::now(), steps }))
    }

    /// Returns the due time of a timer.
    pub(super) fn due_at(&self, date: Timestamp) -> Timestamp {
        date.checked_add(self.0.ahead).unwrap_or(Timestamp::MAX)
    }

    /// Returns the date of a due time.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn date_of(&self, due: DueTime) -> Result<Timestamp, jiff::Error> {
        Timestamp::try_from(due.to_system_time())?.checked_sub(self.0.ahead)
    }

    /// Returns the date that the clock shows.
    pub(super) fn date(&self) -> Timestamp {
        let steps = *self.0.steps.borrow();
        self.running(steps).min(steps.end)
    }

    /// Advances the clock to a date, from where it runs up to another one; never moves it back.
    pub(super) fn go_to(&self, date: Timestamp, end: Timestamp) {
        self.0.steps.send_modify(|steps| {
            let wait = Duration::try_from(date.duration_since(self.running(*steps))).unwrap_or_default();
            *steps = Steps { skipped: steps.skipped.saturating_add(wait), end: end.max(steps.end) };
        });
    }

    /// Returns whether a timer may be with its handler.
    pub(super) fn is_due(&self, date: Timestamp) -> bool {
        // On a server the timers of a step are due now, ages before the date of any flight.
        if self.0.ahead.is_zero() { date <= self.date() } else { date < Timestamp::UNIX_EPOCH }
    }

    fn running(&self, steps: Steps) -> Timestamp {
        let passed = self.0.began.elapsed().saturating_add(steps.skipped);
        self.0.origin.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

impl Clock for StepClock {
    fn now(&self) -> Duration {
        let skipped = self.0.steps.borrow().skipped;
        self.0.began.elapsed().saturating_add(skipped)
    }

    fn wall(&self) -> SystemTime {
        self.date().into()
    }

    fn since(&self, request: RequestTime) -> Duration {
        request.instant().map_or(Duration::ZERO, |instant| instant.elapsed()).min(self.now())
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let (clock, mut steps) = (self.clone(), self.0.steps.subscribe());
        Box::pin(async move {
            loop {
                let wait = time.saturating_sub(clock.now());
                if wait.is_zero() {
                    return;
                }
                // A step, or the time itself.
                let _ = timeout(wait, steps.changed()).await;
            }
        })
    }
}

//! The clock of the replay: it shows the dates of the input, and runs at the speed asked for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_timers::{Alarm, Clock, RequestTime};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

/// A speed in millionths of that of tokio's clock, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Speed(u64);

const MILLION: u64 = 1_000_000;

impl Speed {
    pub(crate) const REAL_TIME: Self = Self(MILLION);
    const SLOWEST: f64 = 0.001;
    const FASTEST: f64 = 1e9;

    /// Returns the replayed time that passes in a span of real time.
    pub(crate) fn replayed(self, real: Duration) -> Duration {
        from_nanos(real.as_nanos().saturating_mul(self.0.into()) / u128::from(MILLION))
    }

    /// Returns the shortest span of real time in which `replayed` passes.
    pub(crate) fn real(self, replayed: Duration) -> Duration {
        from_nanos(replayed.as_nanos().saturating_mul(MILLION.into()).div_ceil(self.0.into()))
    }
}

fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    u64::try_from(nanos / SECOND).map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % SECOND) as u32))
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
        if (Self::SLOWEST..=Self::FASTEST).contains(&times) {
            Ok(Self((times * MILLION as f64).round() as u64))
        } else {
            Err(format!("must be from {} to {}", Self::SLOWEST, Self::FASTEST))
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / MILLION as f64)
    }
}

/// A clock that stands at a past date until it is started, and then runs at a [`Speed`].
///
/// While it stands, all timers can be scheduled before any becomes due. On a paused tokio runtime the same clock shows
/// virtual time.
#[derive(Clone)]
pub(crate) struct ReplayClock(Arc<Works>);

struct Works {
    first: Timestamp,
    speed: Speed,
    started: watch::Sender<Option<Instant>>,
}

impl ReplayClock {
    pub(crate) fn new(first: Timestamp, speed: Speed) -> Self {
        Self(Arc::new(Works { first, speed, started: watch::Sender::new(None) }))
    }

    pub(crate) fn start(&self) {
        self.0.started.send_replace(Some(Instant::now()));
    }

    /// Returns the date that the clock shows.
    pub(crate) fn date(&self) -> Timestamp {
        Timestamp::try_from(self.wall()).unwrap_or(Timestamp::MAX)
    }

    /// Waits until the clock shows a date.
    pub(crate) async fn reaches(&self, date: Timestamp) {
        let time = Duration::try_from(date.duration_since(self.0.first)).unwrap_or_default();
        self.alarm(time).await;
    }
}

impl Clock for ReplayClock {
    fn now(&self) -> Duration {
        self.0.started.borrow().map_or(Duration::ZERO, |started| self.0.speed.replayed(started.elapsed()))
    }

    fn wall(&self) -> SystemTime {
        let first = SystemTime::from(self.0.first);
        first.checked_add(self.now()).unwrap_or_else(|| Timestamp::MAX.into())
    }

    fn since(&self, request: RequestTime) -> Duration {
        let waited = request.instant().map_or(Duration::ZERO, |instant| instant.elapsed());
        self.0.speed.replayed(waited).min(self.now())
    }

    fn alarm(&self, time: Duration) -> Alarm {
        let (mut started, wait) = (self.0.started.subscribe(), self.0.speed.real(time));
        Box::pin(async move {
            let started = started.wait_for(Option::is_some).await.ok().and_then(|started| *started);
            match started.and_then(|started| started.checked_add(wait)) {
                Some(rings) => tokio::time::sleep_until(rings).await,
                None => std::future::pending().await,
            }
        })
    }
}

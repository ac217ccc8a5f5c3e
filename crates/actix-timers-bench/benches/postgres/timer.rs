//! The timers of the bench: their due times and their records.

use std::time::{Duration, SystemTime};

use actix_timers_durable::store::Record;
use actix_timers_durable::{DueTime, DurableId};
use bench::durable::{self, PAYLOAD};
use bench::random::Random;

pub(crate) const ROUTE: &str = "office";

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// The time after which pending timers are due: after the bench has ended.
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    pub(crate) due: DueTime,
}

impl Timer {
    pub(crate) fn id(self) -> DurableId {
        durable::id(self.due, self.number)
    }

    /// Returns the due time in milliseconds, as a column of a table.
    pub(crate) const fn millis(self) -> i64 {
        self.due.as_millis().cast_signed()
    }

    /// Returns the encoded message.
    pub(crate) fn payload(self) -> Vec<u8> {
        let mut payload = format!("{{\"number\":{},\"text\":\"", self.number).into_bytes();
        payload.resize(PAYLOAD - 2, b'x');
        payload.extend_from_slice(b"\"}");
        payload
    }

    pub(crate) fn record(self) -> Record {
        durable::record(self.id(), self.due, ROUTE, self.payload())
    }
}

/// Returns the time of the server, which is this machine's, and a delay.
pub(crate) fn due_in(delay: Duration) -> DueTime {
    DueTime::reached_at(SystemTime::now()).saturating_add(delay)
}

/// Returns timers that are due at random within `within`, after `delay`.
pub(crate) fn spread(numbers: std::ops::Range<u64>, delay: Duration, within: Duration) -> Vec<Timer> {
    let begin = due_in(delay);
    let timer = |number| {
        let place = Random::new(number).below(within.as_millis().max(1) as u64);
        Timer { number, due: begin.saturating_add(Duration::from_millis(place)) }
    };
    numbers.map(timer).collect()
}

/// Returns timers that stay pending, with numbers of their own.
pub(crate) fn pending(count: u64) -> Vec<Timer> {
    const FIRST: u64 = 1 << 40;
    spread(FIRST..FIRST + count, DAY, HOUR)
}

//! The timers of the bench: their due times and their records.

use std::time::{Duration, SystemTime};

use actix_timers_durable::store::{Progress, Record};
use actix_timers_durable::{DueTime, DurableId};
use bench::random::Random;

/// Bytes of each timer's message.
pub(crate) const PAYLOAD: usize = 96;
pub(crate) const ROUTE: &str = "office";
pub(crate) const MESSAGE_TYPE: &str = "Remind";

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// The time after which pending timers are due: after the bench has ended.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Mixes the bits of numbers.
const MIXED: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    pub(crate) due: DueTime,
}

impl Timer {
    pub(crate) fn id(self) -> DurableId {
        // Consecutive numbers are poor random bits, so they are mixed.
        DurableId::from_parts(self.due, self.number, self.number.wrapping_mul(MIXED))
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
        Record {
            id: self.id(),
            progress: Progress::first(self.due),
            route: ROUTE.into(),
            message_type: MESSAGE_TYPE.into(),
            message_version: 1,
            key: None,
            repeat: None,
            keep_key: None,
            max_attempts: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: self.payload().into(),
        }
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

/// Returns timers that stay pending, numbered from `first` on.
pub(crate) fn pending(first: u64, count: u64) -> Vec<Timer> {
    spread(first..first + count, DAY, HOUR)
}

//! The timers of the bench: their due times, their records, and which of them are pending.

use std::time::{Duration, SystemTime};

use actix_timers_durable::store::codec;
use actix_timers_durable::{DueTime, DurableId, Record, RecordState};
use bench::random::Random;
use uuid::Uuid;

/// Bytes of each timer's message. With the names of route and type a record takes some 120 bytes.
pub(crate) const PAYLOAD: usize = 96;
/// The shards of the store.
pub(crate) const SHARDS: u16 = 64;
pub(crate) const ROUTE: &str = "office";
pub(crate) const MESSAGE_TYPE: &str = "Remind";

/// Begin and end of a message.
const NUMBER: &str = "{\"number\":";
const END: &str = "\"}";

/// The longest delay. Delays are uniform, as in the other benches.
const DELAY_MILLIS: u64 = 3_600_000;

/// A timer of the bench.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    pub(crate) number: u64,
    pub(crate) due: DueTime,
}

impl Timer {
    pub(crate) const fn shard(self) -> u16 {
        (self.number % SHARDS as u64) as u16
    }

    pub(crate) fn id(self) -> DurableId {
        // Consecutive numbers are poor random bits, so they are mixed.
        DurableId::from_parts(self.shard(), self.due, self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn uuid(self) -> Uuid {
        *self.id().as_uuid()
    }

    /// Returns the due time in milliseconds, as a column of a table.
    pub(crate) fn millis(self) -> i64 {
        millis(self.due)
    }

    /// Returns the encoded message.
    pub(crate) fn payload(self) -> Vec<u8> {
        let mut payload = format!("{NUMBER}{},\"text\":\"", self.number).into_bytes();
        payload.resize(PAYLOAD - END.len(), b'x');
        payload.extend_from_slice(END.as_bytes());
        payload
    }

    pub(crate) fn record(self) -> Record {
        Record {
            id: self.id(),
            progress: RecordState::first(self.due),
            sequence: self.number + 1,
            route: ROUTE.into(),
            message_type: MESSAGE_TYPE.into(),
            message_version: 1,
            key: None,
            repeat: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: self.payload().into(),
        }
    }

    /// Returns the encoded record, for a column of a table.
    pub(crate) fn encoded(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        codec::encode(&self.record(), &mut bytes);
        bytes
    }
}

pub(crate) fn millis(due: DueTime) -> i64 {
    // Due times have 46 bits.
    due.as_millis() as i64
}

/// Returns the number of a timer from its message.
pub(crate) fn number_in(payload: &[u8]) -> u64 {
    let digits = payload[NUMBER.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| 10 * number + u64::from(digit - b'0'))
}

/// Returns the number of a timer from its encoded record, which ends with the message.
pub(crate) fn number_in_record(record: &[u8]) -> u64 {
    number_in(&record[record.len() - PAYLOAD..])
}

/// The timers of one table, numbered from 0 on: which were scheduled, and which were delivered.
pub(crate) struct Book {
    /// The time at which the first of them were scheduled.
    begin: DueTime,
    /// How many are pending at any time.
    usual: u64,
    is_delivered: Vec<bool>,
    delivered: u64,
}

impl Book {
    /// Creates the book of a table with about `usual` pending timers. None of them is due before the bench has ended.
    pub(crate) fn new(usual: u64) -> Self {
        let begin = DueTime::reached_at(SystemTime::now()).saturating_add(Duration::from_secs(24 * 3600));
        Self { begin, usual, is_delivered: Vec::new(), delivered: 0 }
    }

    /// Adds timers. The first ones are due within an hour; later ones within an hour from the time at which so many are
    /// delivered that the usual number is left.
    pub(crate) fn schedule(&mut self, count: usize) -> Vec<Timer> {
        let first = self.is_delivered.len() as u64;
        self.is_delivered.resize(self.is_delivered.len() + count, false);
        (first..first + count as u64).map(|number| self.timer(number)).collect()
    }

    fn timer(&self, number: u64) -> Timer {
        let now = u128::from(number.saturating_sub(self.usual)) * u128::from(DELAY_MILLIS) / u128::from(self.usual);
        let delay = Random::new(number).below(DELAY_MILLIS);
        let due = self.begin.saturating_add(Duration::from_millis(now as u64 + delay));
        Timer { number, due }
    }

    /// Notes deliveries, each of a timer that was pending.
    pub(crate) fn deliver(&mut self, numbers: &[u64]) {
        for number in numbers {
            let is_delivered = &mut self.is_delivered[*number as usize];
            assert!(!*is_delivered, "{number} was delivered twice");
            *is_delivered = true;
        }
        self.delivered += numbers.len() as u64;
    }

    pub(crate) fn pending(&self) -> u64 {
        self.is_delivered.len() as u64 - self.delivered
    }

    pub(crate) const fn usual(&self) -> u64 {
        self.usual
    }
}

//! The clock of the server, which the clock of the store follows.

use std::time::{Duration, Instant, SystemTime};

use actix_timers_durable::store::StoreClock;

/// Reads the clock of the server, in microseconds since 1970.
pub(crate) const SQL: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";

/// Sets the clock of the store to a reading that has just arrived. The time is that before the reply, so that nothing is
/// early.
pub(crate) fn follow(clock: &StoreClock, micros: i64) {
    let since_epoch = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    clock.set(Instant::now(), SystemTime::UNIX_EPOCH + since_epoch);
}

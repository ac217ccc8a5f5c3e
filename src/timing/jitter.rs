//! Jitter: deadlines that would coincide are spread over a span.

use std::time::Duration;

use crate::timing::tick::duration_of;

/// Returns an addition to a deadline, from zero to `span`, in proportion to `random`. If `random` is uniformly
/// distributed, deadlines spread evenly over `span`.
pub(crate) const fn jitter(span: Duration, random: u64) -> Duration {
    // `random / 2^64` of the number of values, which are zero to `span`: one more than its nanoseconds.
    let values = span.as_nanos() + 1;
    let (high, low) = (values >> 64, values & u64::MAX as u128);
    let random = random as u128;
    duration_of(random * high + ((random * low) >> 64))
}

#[cfg(test)]
mod tests;

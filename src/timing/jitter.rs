//! Jitter: deadlines that would coincide are spread over a span.

use std::time::Duration;

/// Returns an addition to a deadline, from zero to `span`, in proportion to `random`. If `random` is uniformly
/// distributed, deadlines spread evenly over `span`.
pub(crate) const fn jitter(span: Duration, random: u64) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    // `random / 2^64` of the number of values, which are zero to `span`: one more than its nanoseconds.
    let values = span.as_nanos() + 1;
    let (high, low) = (values >> 64, values & u64::MAX as u128);
    let random = random as u128;
    let nanos = random * high + ((random * low) >> 64);
    Duration::new((nanos / NANOS_PER_SEC) as u64, (nanos % NANOS_PER_SEC) as u32)
}

#[cfg(test)]
mod tests;

//! Figures of measured times.

use std::time::Duration;

/// Returns the smallest of `values` that at least this share of them does not exceed; sorts them.
pub fn quantile<T: Copy + Ord>(values: &mut [T], share: f64) -> T {
    values.sort_unstable();
    let rank = (values.len() as f64 * share).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Returns the nanoseconds of each of some operations.
pub fn each(took: Duration, operations: usize) -> f64 {
    took.as_nanos() as f64 / operations as f64
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

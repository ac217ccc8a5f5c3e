//! Single operations, each timed alone.
//!
//! The clock is the counter of the CPU, where it has a steady one. Its own cost, the median of readings without anything
//! in between, is subtracted. An operation of a few nanoseconds is no longer than that cost, and partly overlaps with
//! it: its median is a rough figure, while p99 and p99.9 are those of cache misses, growth and interrupts.

use bench::times::quantile;

pub(crate) const UNITS: [(&str, f64); 3] = [("p50 ns", 0.5), ("p99 ns", 0.99), ("p99.9 ns", 0.999)];

const READINGS: usize = 100_000;
/// Ticks are converted a thousand at a time, because the conversion is to whole nanoseconds.
const THOUSAND: u64 = 1_000;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    counter: quanta::Clock,
    cost: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let mut empty = Singles::new(Self { counter: quanta::Clock::new(), cost: 0 }, READINGS);
        (0..READINGS).for_each(|_| empty.time(|| ()));
        Self { cost: quantile(&mut empty.ticks, 0.5), ..empty.clock }
    }

    /// Returns the nanoseconds that are subtracted from each operation.
    pub(crate) fn cost(&self) -> f64 {
        self.nanoseconds(self.cost)
    }

    fn nanoseconds(&self, ticks: u64) -> f64 {
        self.counter.delta_as_nanos(0, ticks * THOUSAND) as f64 / THOUSAND as f64
    }
}

/// The times of single operations.
#[derive(Debug)]
pub(crate) struct Singles {
    clock: Clock,
    ticks: Vec<u64>,
}

impl Singles {
    pub(crate) fn new(clock: Clock, operations: usize) -> Self {
        Self { clock, ticks: Vec::with_capacity(operations) }
    }

    #[inline]
    pub(crate) fn time(&mut self, operation: impl FnOnce()) {
        let before = self.clock.counter.raw();
        operation();
        let after = self.clock.counter.raw();
        self.ticks.push(after.saturating_sub(before).saturating_sub(self.clock.cost));
    }

    /// Returns the percentiles of [`UNITS`] of this many operations.
    pub(crate) fn percentiles(mut self, operations: usize) -> [f64; UNITS.len()] {
        assert_eq!(self.ticks.len(), operations, "all were timed");
        UNITS.map(|(_, part)| self.clock.nanoseconds(quantile(&mut self.ticks, part)))
    }
}

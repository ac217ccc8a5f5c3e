//! Counters that follow those of the engine: brought up to what the engine has counted, and balanced like it.

use metrics::{Counter, Gauge};

/// One counter.
pub struct Tally {
    counter: Counter,
    shown: u64,
    /// By how much it was ahead of the engine in all, whenever something that it showed was taken back.
    ahead: u64,
}

impl Tally {
    /// Counts nothing yet.
    pub const fn new(counter: Counter) -> Self {
        Self { counter, shown: 0, ahead: 0 }
    }

    /// Brings it up to what was counted. What was shown stays, since a counter only grows: returns by how much more than
    /// before it is ahead of what was counted.
    ///
    /// It is counted up rather than set, so that a timer actor of the same name before this one, or beside it, is not lost.
    pub fn show(&mut self, counted: u64) -> u64 {
        let value = counted + self.ahead;
        let taken_back = self.shown.saturating_sub(value);
        self.ahead += taken_back;
        self.counter.increment(value.saturating_sub(self.shown));
        self.shown = self.shown.max(value);
        taken_back
    }
}

/// A gauge: several timer actors of one name add up.
pub struct Level {
    gauge: Gauge,
    shown: u64,
}

impl Level {
    /// Shows 0.
    pub const fn new(gauge: Gauge) -> Self {
        Self { gauge, shown: 0 }
    }

    /// Changes the gauge by what the value has changed since the last call.
    pub fn show(&mut self, value: u64) {
        match value.checked_sub(self.shown) {
            Some(more) => self.gauge.increment(more as f64),
            None => self.gauge.decrement((self.shown - value) as f64),
        }
        self.shown = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn what_was_taken_back_stays_shown_and_is_told() {
        let shown = Arc::new(AtomicU64::new(0));
        let mut tally = Tally::new(Counter::from_arc(Arc::clone(&shown)));
        let mut show = |counted| (tally.show(counted), shown.load(Ordering::Relaxed));
        assert_eq!(show(5), (0, 5));
        assert_eq!(show(3), (2, 5), "two were taken back");
        assert_eq!(show(3), (0, 5), "which is told once");
        assert_eq!(show(4), (0, 6), "and what comes after that is counted");
    }

    #[test]
    fn two_of_one_name_add_up() {
        let shown = Arc::new(AtomicU64::new(0));
        let [mut one, mut two] = [(); 2].map(|()| Tally::new(Counter::from_arc(Arc::clone(&shown))));
        one.show(5);
        two.show(3);
        one.show(6);
        assert_eq!(shown.load(Ordering::Relaxed), 9);
    }
}

//! Counters that follow those of the engine, and add up like them.

use metrics::{Counter, Gauge};

/// A counter that follows one of the engine.
pub struct Tally {
    counter: Counter,
    shown: u64,
    /// The sum by which it has exceeded the engine's counter, whenever the engine took counts back.
    ahead: u64,
}

impl Tally {
    /// Returns a tally at zero.
    pub const fn new(counter: Counter) -> Self {
        Self { counter, shown: 0, ahead: 0 }
    }

    /// Raises the counter to `counted`. A counter cannot decrease: if counts were taken back, returns the additional
    /// excess over `counted`.
    ///
    /// Increments rather than sets, so that the counts of another timer actor of the same name, earlier or present, are
    /// kept.
    pub fn show(&mut self, counted: u64) -> u64 {
        let value = counted + self.ahead;
        let taken_back = self.shown.saturating_sub(value);
        self.ahead += taken_back;
        self.counter.increment(value.saturating_sub(self.shown));
        self.shown = self.shown.max(value);
        taken_back
    }
}

/// A gauge that several timer actors of one name share: their values add up.
pub struct Level {
    gauge: Gauge,
    shown: u64,
}

impl Level {
    /// Returns a level at 0.
    pub const fn new(gauge: Gauge) -> Self {
        Self { gauge, shown: 0 }
    }

    /// Changes the gauge by the difference to the value of the last call.
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
    fn a_decrease_is_reported_and_does_not_lower_the_counter() {
        let shown = Arc::new(AtomicU64::new(0));
        let mut tally = Tally::new(Counter::from_arc(Arc::clone(&shown)));
        let mut show = |counted| (tally.show(counted), shown.load(Ordering::Relaxed));
        assert_eq!(show(5), (0, 5));
        assert_eq!(show(3), (2, 5), "two were taken back");
        assert_eq!(show(3), (0, 5), "the excess is reported once");
        assert_eq!(show(4), (0, 6), "and later counts are added");
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

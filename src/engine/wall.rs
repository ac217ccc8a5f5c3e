//! Timers with a wall-clock time. Each also has a deadline in ticks, an estimate that holds as long as the wall clock
//! and the monotonic clock run at the same rate. Its exact time is kept here and checked again when the estimate is
//! reached, or when the wall clock was stepped.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::timing::{MAX_TICK, Tick, TickLength};

/// The wall-clock times, by slot of the timer. A time is a duration since the Unix epoch.
#[derive(Debug, Default)]
pub(crate) struct WallTimes {
    by_slot: BTreeMap<u32, WallTime>,
    /// Times set since the start.
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct WallTime {
    at: Duration,
    /// Its position in the order of setting.
    number: u64,
}

impl WallTimes {
    pub(crate) fn len(&self) -> usize {
        self.by_slot.len()
    }

    pub(crate) fn set(&mut self, slot: u32, at: Duration) {
        self.count += 1;
        self.by_slot.insert(slot, WallTime { at, number: self.count });
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.by_slot.remove(&slot);
    }

    pub(crate) fn get(&self, slot: u32) -> Option<Duration> {
        self.by_slot.get(&slot).map(|time| time.at)
    }

    /// Returns deadlines and slots of all timers, if the wall clock shows `wall` now, in the order of delivery: by
    /// tick, and within one tick in the order of setting.
    pub(crate) fn in_order(&self, tick: TickLength, now: Tick, wall: Duration) -> Vec<(Tick, u32)> {
        let place = |(slot, time): (&u32, &WallTime)| {
            let overdue = if time.at <= wall { tick.round_up(time.at) } else { Tick::MAX };
            (estimate(tick, now, wall, time.at), overdue, time.number, *slot)
        };
        let mut all: Vec<_> = self.by_slot.iter().map(place).collect();
        all.sort_unstable();
        all.into_iter().map(|(deadline, _, _, slot)| (deadline, slot)).collect()
    }
}

/// Returns the tick at which the wall clock will show `at`, if it shows `wall` now and is not stepped; at most
/// [`MAX_TICK`].
pub(crate) fn estimate(tick: TickLength, now: Tick, wall: Duration, at: Duration) -> Tick {
    now.saturating_add(tick.round_up(at.saturating_sub(wall))).min(MAX_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: TickLength = TickLength::MILLISECOND;

    fn set(micros: &[u64]) -> WallTimes {
        let mut times = WallTimes::default();
        (0..).zip(micros).for_each(|(slot, at)| times.set(slot, Duration::from_micros(*at)));
        times
    }

    #[test]
    fn overdue_timers_come_by_tick_and_then_in_order_of_setting() {
        let overdue = set(&[4000, 2900, 2100, 3000]);
        let order = overdue.in_order(TICK, 10, Duration::from_micros(4000));
        assert_eq!(order, [(10, 1), (10, 2), (10, 3), (10, 0)]);
    }

    /// The clocks' ticks are offset: two times in one tick may be in two ticks of the wall clock.
    #[test]
    fn timers_that_come_due_in_one_tick_keep_the_order_of_setting() {
        let coming = set(&[1200, 900, 1700]);
        let order = coming.in_order(TICK, 10, Duration::from_micros(500));
        assert_eq!(order, [(11, 0), (11, 1), (12, 2)]);
    }
}

//! The memory of a burst goes back, in small steps.

use std::time::Duration;

use crate::service::deliver::driver_state::Trim;
use crate::service::state::State;
use crate::timing::Advance;

/// As long as most slots have to be free first: the next burst may be near.
const AFTER: Duration = Duration::from_secs(10);

/// Slots that one turn looks at, beside the rest of a page that it frees: some tens of microseconds, and a tenth of a
/// millisecond if each is a cache miss.
const AT_ONCE: usize = 1024;

impl State {
    /// Takes the next step of a trim of the stores, if there is one now.
    pub(crate) fn trim(&mut self, now: Duration) -> Trim {
        let has_surplus = self.engine.has_surplus();
        self.driver.trim = match self.driver.trim {
            Trim::NotNeeded if has_surplus => Trim::At(now.saturating_add(AFTER)),
            Trim::At(_) if !has_surplus => Trim::NotNeeded,
            Trim::At(time) if time <= now => self.trim_step(),
            Trim::Running => self.trim_step(),
            unchanged => unchanged,
        };
        self.driver.trim
    }

    fn trim_step(&mut self) -> Trim {
        let mut budget = AT_ONCE;
        let has_finished = self.stores.trim(&mut budget) && self.engine.trim(&mut budget) == Advance::Done;
        if has_finished { Trim::NotNeeded } else { Trim::Running }
    }
}

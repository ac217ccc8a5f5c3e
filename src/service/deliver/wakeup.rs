//! Wake-ups that are due after unlocking.

use crate::timing::Tick;

/// The wake-ups that a change under the lock requires once it is released: see `State::expect_deadline` and
/// `Service::notify` in `driver`.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// Wakes the driver.
    pub(crate) poke: bool,
    /// The tick of a timer that is due before all known ones.
    pub(crate) first_deadline: Option<Tick>,
}

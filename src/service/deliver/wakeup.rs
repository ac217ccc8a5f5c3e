//! Wake-ups that are owed once the lock is given up.

use crate::timing::Tick;

/// What others have to be told of once the lock is given up.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// The driver has to look.
    pub(crate) poke: bool,
    /// The tick of a timer that is due before all that was known.
    pub(crate) first_deadline: Option<Tick>,
}

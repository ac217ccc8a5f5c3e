//! New timers with the same key, one after the other, of which at most one remains: one row for the server.

use actix_timers_durable::DurableId;
use actix_timers_durable::store::{ChangeOutcome, OnKey};

/// The new timers of a key, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Number of the change, id and action.
    pub(crate) members: Vec<(usize, DurableId, OnKey)>,
}

/// The outcome of the row of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOutcome {
    /// No other timer had the key.
    Free,
    /// This one has it, and nothing was changed.
    Exists(DurableId),
    /// This one had it.
    Replaced(DurableId),
    /// This one had it, and another node has claimed it.
    ReplacedInFlight(DurableId),
}

impl Chain {
    /// Returns the index of the timer that remains: the last one that replaces, else the first.
    pub(crate) fn remaining(&self) -> usize {
        self.members.iter().rposition(|(_, _, on_key)| *on_key == OnKey::Replace).unwrap_or(0)
    }

    /// Returns whether the row replaces.
    pub(crate) fn replaces(&self) -> bool {
        self.members.iter().any(|(_, _, on_key)| *on_key == OnKey::Replace)
    }

    /// Returns the outcome of each change, given that of the row.
    pub(crate) fn outcomes(&self, row: KeyOutcome) -> impl Iterator<Item = (usize, ChangeOutcome)> {
        // The timer that has the key, as each change finds it.
        let mut holder = match row {
            KeyOutcome::Free => None,
            KeyOutcome::Exists(id) | KeyOutcome::Replaced(id) | KeyOutcome::ReplacedInFlight(id) => Some(id),
        };
        let mut is_in_flight = matches!(row, KeyOutcome::ReplacedInFlight(_));
        self.members.iter().map(move |&(ord, id, on_key)| {
            let outcome = match (holder, on_key) {
                (Some(holder), OnKey::KeepExisting) => return (ord, ChangeOutcome::Exists(holder)),
                (Some(holder), OnKey::Replace) if is_in_flight => ChangeOutcome::ReplacedInFlight(holder),
                (Some(holder), OnKey::Replace) => ChangeOutcome::Replaced(holder),
                (None, _) => ChangeOutcome::Created,
            };
            (holder, is_in_flight) = (Some(id), false);
            (ord, outcome)
        })
    }
}

//! Rows of pending timers that were written lately and are due soon: they are the next to be removed, and then need not be
//! looked up in the engine. The claims tell the time.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use fjall::Slice;
use rustc_hash::FxHasher;

use super::engine::Rows;
use super::layout::{Space, is_due_by};
use crate::DueTime;
use crate::store::Change;

/// Rows due within this time after the last claimed one.
const SOON: Duration = Duration::from_secs(10);
/// Maximum number of rows.
const MAX_ROWS: usize = 4096;
/// Maximum length of a row.
const MAX_LENGTH: usize = 1024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Recent {
    rows: HashMap<Slice, Slice, BuildHasherDefault<FxHasher>>,
    /// The latest due time in the last claim.
    claimed: Option<DueTime>,
}

impl Recent {
    /// Returns the present row of a key, if it is here.
    pub(super) fn row(&self, space: Space, key: &Slice) -> Option<Slice> {
        if space == Space::Pending { self.rows.get(key).cloned() } else { None }
    }

    /// Follows a commit.
    pub(super) fn follow(&mut self, changes: &[Change], rows: &Rows) {
        for change in changes {
            if let Change::Claim(claim) = change {
                self.claimed = claim.members.iter().map(|(_, due, _)| *due).max().or(self.claimed);
            }
        }
        let Some(until) = self.claimed.map(|claimed| claimed.saturating_add(SOON)) else { return };
        for ((_, key), row) in rows.iter().filter(|((space, _), _)| *space == Space::Pending) {
            match row {
                Some(row) if row.len() <= MAX_LENGTH && is_due_by(key, until) => {
                    if self.rows.len() >= MAX_ROWS {
                        self.rows.clear();
                    }
                    self.rows.insert(key.clone(), row.clone());
                }
                _ if self.rows.is_empty() => {}
                _ => _ = self.rows.remove(key),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

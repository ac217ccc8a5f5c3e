//! Rows of pending timers that were written lately and are due soon: they are the next to be removed, and then need not be
//! looked up in the engine.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use fjall::Slice;
use rustc_hash::FxHasher;

use super::engine::Rows;
use super::layout::{Space, is_due_by};
use crate::DueTime;

/// Maximum number of rows.
const MAX_ROWS: usize = 4096;
/// Maximum length of a row.
const MAX_LENGTH: usize = 1024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Recent(HashMap<Slice, Slice, BuildHasherDefault<FxHasher>>);

impl Recent {
    /// Returns the present row of a key, if it is here.
    pub(super) fn row(&self, space: Space, key: &Slice) -> Option<Slice> {
        if space == Space::Pending { self.0.get(key).cloned() } else { None }
    }

    /// Follows a commit; rows due after `until` are left out.
    pub(super) fn follow(&mut self, rows: &Rows, until: DueTime) {
        for ((_, key), row) in rows.iter().filter(|((space, _), _)| *space == Space::Pending) {
            match row {
                Some(row) if row.len() <= MAX_LENGTH && is_due_by(key, until) => {
                    if self.0.len() >= MAX_ROWS {
                        self.0.clear();
                    }
                    self.0.insert(key.clone(), row.clone());
                }
                _ if self.0.is_empty() => {}
                _ => _ = self.0.remove(key),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

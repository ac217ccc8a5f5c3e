//! Rows of pending timers that were written lately and are due soon: they are the next to be removed, and then need not be
//! looked up in the engine. The reference time is the latest due time of the last claim.

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::DurableId;
    use crate::store::embedded::layout::Region;
    use crate::store::{Claim, Part, Position};

    fn key(due: u64) -> Slice {
        let due = DueTime::from_millis(due).unwrap();
        Region::new(Part::Pending, 0).key(Position { due, id: DurableId::from_parts(0, due, 1) })
    }

    fn claim(due: u64) -> Change {
        let due = DueTime::from_millis(due).unwrap();
        Change::Claim(Claim { number: 1, members: vec![(DurableId::from_parts(0, due, 1), due, 1)] })
    }

    fn row(key: Slice, row: Option<&[u8]>) -> Rows {
        std::iter::once(((Space::Pending, key), row.map(Slice::new))).collect()
    }

    #[test]
    fn rows_due_soon_after_the_last_claim_are_kept_until_they_are_removed() {
        let mut recent = Recent::default();
        let is_kept = |recent: &Recent, due| recent.row(Space::Pending, &key(due)).is_some();
        recent.follow(&[], &row(key(1000), Some(&[1])));
        assert!(!is_kept(&recent, 1000), "nothing was claimed");
        recent.follow(&[claim(1000)], &Rows::default());
        for due in [11_000, 11_001] {
            recent.follow(&[], &row(key(due), Some(&[1])));
        }
        assert_eq!([11_000, 11_001].map(|due| is_kept(&recent, due)), [true, false]);
        assert_eq!(recent.row(Space::Pieces, &key(11_000)), None, "another space");
        recent.follow(&[], &row(key(11_000), Some(&[2])));
        assert_eq!(recent.row(Space::Pending, &key(11_000)).as_deref(), Some(&[2][..]), "the present one");
        recent.follow(&[], &row(key(11_000), Some(&[3; MAX_LENGTH + 1])));
        assert!(!is_kept(&recent, 11_000), "it has grown too long");
        recent.follow(&[], &row(key(10_000), Some(&[1])));
        recent.follow(&[], &row(key(10_000), None));
        assert!(!is_kept(&recent, 10_000));
    }

    #[test]
    fn the_number_of_rows_is_bounded() {
        let mut recent = Recent::default();
        recent.follow(&[claim(10_000)], &Rows::default());
        for due in 0..=MAX_ROWS as u64 {
            recent.follow(&[], &row(key(due), Some(&[1])));
        }
        assert_eq!(recent.rows.len(), 1);
        recent.clear();
        assert!(recent.rows.is_empty());
    }
}

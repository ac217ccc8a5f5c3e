//! Passes over the timers that a node has claimed. No index names the node, so a pass reads all rows that are due, a page at
//! a time, and goes on at the next beat if it takes long: a statement without a bound would hold up the commits, or never end
//! in time.

use std::collections::VecDeque;
use std::time::Instant;

use actix_timers_durable::store::{Delivery, Position};

use super::reads::bounds;
use super::row::{due, id};
use super::session::{Session, params};
use crate::error::Failure;

/// The rows of a page, of timers that were moved and of others each.
const PAGE: i64 = 10_000;

const CLAIMED: &str = "
    SELECT c.id, c.repetition, c.attempt, c.alone, c.due, c.is_end FROM @schema@.claimed_by($1, $2, $3, $4, $5) c";

/// A pass under way.
#[derive(Debug, Default)]
pub(super) struct Pass {
    after: Option<Position>,
    /// Whether it has left something that another pass has to find.
    pub(super) has_left: bool,
    /// Whether the server has refused to change some: another pass can wait.
    pub(super) has_refused: bool,
    /// Claims of the last page that are still to be visited, and whether no other can be left.
    parts: VecDeque<(Vec<Claimed>, bool)>,
    /// The last page was read.
    is_read: bool,
}

/// A claimed timer, and whether it was claimed alone.
pub(super) type Claimed = (Delivery, bool);

impl Pass {
    /// Visits the pages of the claims of a node to their end, or at least one until this time. A visit learns whether no other
    /// claim can be left, and returns whether it has left none. Returns whether the pass has come to the end.
    ///
    /// # Errors
    /// A page cannot be read, or its visit fails, otherwise than by a row that the server refuses to change; the pass can go on.
    pub(super) async fn go_on(
        &mut self,
        session: &mut Session,
        node: i64,
        until: Instant,
        mut visit: impl AsyncFnMut(&mut Session, Vec<Claimed>, bool) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        loop {
            while let Some((part, are_last)) = self.parts.pop_front() {
                match visit(session, part.clone(), are_last).await {
                    // One that the server refuses to change must not keep the others.
                    Err(failure) if failure.is_refusal() => {
                        (self.has_left, self.has_refused) = (true, true);
                        let (first, second) = part.split_at(part.len() / 2);
                        if part.len() > 1 {
                            self.parts.extend([first, second].map(|half| (half.to_vec(), false)));
                        }
                    }
                    Err(failure) => {
                        self.parts.push_front((part, are_last));
                        return Err(failure);
                    }
                    Ok(is_none) => self.has_left |= !is_none,
                }
                if Instant::now() > until {
                    return Ok(self.is_read && self.parts.is_empty());
                }
            }
            if self.is_read {
                return Ok(true);
            }
            let (from, after_due, after_id) = bounds(self.after);
            let rows = session.query(CLAIMED, params![node, from, after_due, after_id, PAGE]).await?;
            let (mut claimed, mut rest) = (Vec::new(), None::<Position>);
            for row in &rows {
                let (Some(id), repetition, attempt) = (id(row, 0), row.get::<_, i64>(1), row.get::<_, i32>(2)) else {
                    // The table refuses such ids.
                    self.has_left = true;
                    continue;
                };
                if row.get(5) {
                    rest = rest.into_iter().chain([Position { due: due(row.get(4)), id }]).min();
                } else {
                    let (repetition, attempt) = (repetition.cast_unsigned(), attempt.cast_unsigned());
                    claimed.push((Delivery { id, repetition, attempt }, row.get(3)));
                }
            }
            let are_last = rest.is_none() && !self.has_left;
            if !claimed.is_empty() || are_last {
                self.parts.push_back((claimed, are_last));
            }
            self.is_read = rest.is_none();
            self.after = rest;
            // A page without claims.
            if self.parts.is_empty() && Instant::now() > until {
                return Ok(self.is_read);
            }
        }
    }
}

//! All timers from one store to another.

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use actix_timers_durable::DueTime;
use actix_timers_durable::store::{Found, Op, Outcome, Part, Placed, Query, Store};

use crate::{Problem, Shown};

/// The number of timers in one transaction, at most.
const GROUP: usize = 1000;
/// The bytes of messages in one transaction, apart from its first: a database has seconds to answer.
const GROUP_BYTES: usize = 4 << 20;

/// Splits timers into those of one transaction each.
pub(crate) fn groups(found: &[Found]) -> impl Iterator<Item = &[Found]> {
    let mut bytes = 0;
    found.chunk_by(move |_, next| {
        bytes += next.record.size();
        let fits = bytes <= GROUP_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

/// Copies all rows, and writes their numbers.
///
/// # Errors
/// A store failed; or some timers could not be stored, each of which has its line.
pub(crate) fn copy(from: &mut dyn Store, to: &mut dyn Store, out: &mut dyn Write) -> Result<(), Problem> {
    let mut missing = 0;
    for (part, name) in [(Part::Pending, "pending"), (Part::Parked, "parked"), (Part::Dead, "dead letters")] {
        let [mut copied, mut known] = [0_u64; 2];
        let mut query = Query { limit: GROUP, ..Query::of(part) };
        loop {
            let page = from.list(&query)?;
            missing += page.damaged;
            if page.damaged > 0 {
                writeln!(out, "{} rows cannot be read", page.damaged)?;
            }
            for group in groups(&page.found) {
                let ops: Vec<Op> = group.iter().map(|found| Op::Restore(Arc::new(found.clone()))).collect();
                let outcomes = to.apply(&ops, DueTime::reached_at(SystemTime::now()))?;
                for (found, outcome) in group.iter().zip(outcomes) {
                    match outcome {
                        Ok(Outcome::Put(placed)) if matches!(placed[..], [Placed::Created { .. }]) => copied += 1,
                        Ok(_) => known += 1,
                        Err(error) => {
                            missing += 1;
                            writeln!(out, "{} is not stored: {}", found.record.id, Shown(&error.to_string()))?;
                        }
                    }
                }
            }
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        writeln!(out, "{name}: {copied} copied, {known} were there")?;
    }
    if missing == 0 { Ok(()) } else { Err(Problem::Other(format!("{missing} timers are missing"))) }
}

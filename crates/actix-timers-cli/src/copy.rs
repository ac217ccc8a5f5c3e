//! All timers from one store to another.

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use actix_timers_durable::DueTime;
use actix_timers_durable::store::{Op, Outcome, Part, Placed, Query, Store};

use crate::{Problem, Shown};

/// The number of timers in one transaction.
const GROUP: usize = 1000;

/// Copies all rows, and writes their numbers.
///
/// # Errors
/// A store failed; or some timers could not be stored, each of which has its line.
pub(crate) fn copy(from: &mut dyn Store, to: &mut dyn Store, out: &mut dyn Write) -> Result<(), Problem> {
    let mut missing = 0;
    for (part, name) in [(Part::Pending, "pending"), (Part::Parked, "parked"), (Part::Dead, "dead letters")] {
        let [mut copied, mut known] = [0_u64; 2];
        let mut query = Query {
            part,
            route: None,
            key: None,
            id: None,
            from: DueTime::MIN,
            until: DueTime::MAX,
            after: None,
            limit: GROUP,
        };
        loop {
            let page = from.list(&query)?;
            missing += page.damaged;
            if page.damaged > 0 {
                writeln!(out, "{} rows cannot be read", page.damaged)?;
            }
            let ops: Vec<Op> = page.found.into_iter().map(|found| Op::Restore(Arc::new(found))).collect();
            let outcomes = to.apply(&ops, DueTime::reached_at(SystemTime::now()))?;
            for (op, outcome) in ops.iter().zip(outcomes) {
                match (outcome, op) {
                    (Ok(Outcome::Put(placed)), _) if matches!(placed[..], [Placed::Created { .. }]) => copied += 1,
                    (Ok(_), _) => known += 1,
                    (Err(error), Op::Restore(found)) => {
                        missing += 1;
                        writeln!(out, "{} is not stored: {}", found.record.id, Shown(&error.to_string()))?;
                    }
                    (Err(error), _) => return Err(error.into()),
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

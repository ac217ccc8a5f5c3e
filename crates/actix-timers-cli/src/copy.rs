//! All timers from one store to another.

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use actix_timers_durable::store::{Found, Op, Outcome, Part, Placed, Query, Store};
use actix_timers_durable::{DueTime, Pause, StoreError};

use crate::{Problem, Shown, time};

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
/// A store failed; or some timers could not be stored, each of which has its line; or routes or nodes are paused.
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
                let mut parts =
                    vec![group.iter().map(|found| Op::Restore(Arc::new(found.clone()))).collect::<Vec<_>>()];
                while let Some(ops) = parts.pop() {
                    let outcomes = to.apply(&ops, DueTime::reached_at(SystemTime::now()))?;
                    let is_alone = ops.len() == 1;
                    let mut locked = Vec::new();
                    for (op, outcome) in ops.into_iter().zip(outcomes) {
                        match (&op, outcome) {
                            (_, Ok(Outcome::Put(placed))) if matches!(placed[..], [Placed::Created { .. }]) => {
                                copied += 1
                            }
                            (_, Ok(_)) => known += 1,
                            // Its turn did not come beside others that are refused.
                            (_, Err(StoreError::Locked)) if !is_alone => locked.push(op),
                            (Op::Restore(found), Err(error)) => {
                                missing += 1;
                                writeln!(out, "{} is not stored: {}", found.record.id, Shown(&error.to_string()))?;
                            }
                            _ => {}
                        }
                    }
                    let rest = locked.split_off(locked.len() / 2);
                    parts.extend([rest, locked].into_iter().filter(|part| !part.is_empty()));
                }
            }
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        writeln!(out, "{name}: {copied} copied, {known} were there")?;
    }
    let mut problems: Vec<String> = from.pauses()?.iter().filter_map(held).collect();
    if missing > 0 {
        problems.insert(0, format!("{missing} timers are missing"));
    }
    if problems.is_empty() { Ok(()) } else { Err(Problem::Other(problems.join("; "))) }
}

/// Returns the advice about a pause that has not ended. It is not copied: a store takes those of its own services only.
fn held(pause: &Pause) -> Option<String> {
    let (kind, name) = pause.target.row().ok()?;
    if pause.until.is_some_and(|until| until.to_system_time() <= SystemTime::now()) {
        return None;
    }
    let until = pause.until.map(|until| format!(", until {}", time(until))).unwrap_or_default();
    Some(format!("{kind} {name} is {}{until}: pause it again before recipients are connected", pause.reason()))
}

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
        let [mut copied, mut known] = [0_usize; 2];
        let mut query = Query { limit: GROUP, ..Query::of(part) };
        loop {
            let page = from.list(&query)?;
            missing += page.damaged;
            if page.damaged > 0 {
                writeln!(out, "{} rows cannot be read", page.damaged)?;
            }
            for group in groups(&page.found) {
                let [stored, there, refused] = restore(group, to, out)?;
                (copied, known, missing) = (copied + stored, known + there, missing + refused);
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

/// Stores timers. Returns the numbers of the stored ones, of ones that were there, and of refused ones, each of which has its line.
///
/// Beside refused timers others count as locked, since their turn does not come: they are divided until each is alone.
fn restore(group: &[Found], to: &mut dyn Store, out: &mut dyn Write) -> Result<[usize; 3], Problem> {
    let [mut stored, mut there, mut refused] = [0; 3];
    let mut parts = vec![group.to_vec()];
    while let Some(part) = parts.pop() {
        let ops: Vec<Op> = part.iter().map(|found| Op::Restore(Arc::new(found.clone()))).collect();
        let outcomes = to.apply(&ops, DueTime::reached_at(SystemTime::now()))?;
        let is_alone = part.len() == 1;
        let mut locked = Vec::new();
        for (found, outcome) in part.into_iter().zip(outcomes) {
            match outcome {
                Ok(Outcome::Put(placed)) if matches!(placed[..], [Placed::Created { .. }]) => stored += 1,
                Ok(_) => there += 1,
                Err(StoreError::Locked) if !is_alone => locked.push(found),
                Err(error) => {
                    refused += 1;
                    writeln!(out, "{} is not stored: {}", found.record.id, Shown(&error.to_string()))?;
                }
            }
        }
        let rest = locked.split_off(locked.len() / 2);
        parts.extend([rest, locked].into_iter().filter(|part| !part.is_empty()));
    }
    Ok([stored, there, refused])
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

//! The check of a store: that all rows can be read, and redundant data agree.

use std::fmt;

use fjall::Slice;

use super::engine::{Engine, ReadError, join};
use super::layout::{
    Region, ShardState, Space, key_of_dead_letter, key_of_holder, key_of_position, key_of_record, read_claim,
    read_first_piece, read_id, read_key_of_claim, read_key_of_holder, read_key_of_state, read_position_value,
    read_tagged_id,
};
use super::{EmbeddedStore, scan};
use crate::store::{Counts, Found, Part, Position, StoreError, codec};
use crate::{DueTime, DurableId};

/// An inconsistency of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckIssue {
    /// A row cannot be read: its checksum does not match, or a piece is missing.
    Damaged {
        /// The kind of the row.
        what: &'static str,
        /// The timer, if known.
        id: Option<DurableId>,
    },
    /// A newer version of this crate has written the record of a timer. It is sound, and kept for a build that knows
    /// it.
    Newer {
        /// The id of the timer.
        id: DurableId,
        /// The version of the record.
        version: u8,
    },
    /// An index entry of a timer is missing or wrong.
    Lost {
        /// The kind of the entry.
        what: &'static str,
        /// The id of the timer.
        id: DurableId,
    },
    /// An entry refers to a missing timer.
    Stale {
        /// The kind of the entry.
        what: &'static str,
        /// The id of the timer.
        id: DurableId,
    },
    /// The stored counts of a shard are wrong.
    Miscounted {
        /// The shard.
        shard: u16,
        /// The stored counts.
        kept: Counts,
        /// The true counts.
        counted: Counts,
    },
    /// A pending timer is due before its shard's cursor: it would not be delivered.
    Overlooked {
        /// The id of the timer.
        id: DurableId,
    },
}

impl fmt::Display for CheckIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { id: Some(id), .. } => write!(f, "damaged: the timer {id} cannot be read"),
            Self::Damaged { what, id: None } => write!(f, "damaged: some {what} cannot be read"),
            Self::Newer { id, version } => {
                write!(f, "newer: the timer {id} has a record of a newer version ({version}), and is kept")
            }
            Self::Lost { what, id } => write!(f, "lost: {what} does not lead to {id}"),
            Self::Stale { what, id } => write!(f, "stale: {what} leads to {id}, which is not there or cannot be read"),
            Self::Miscounted { shard, kept, counted } => write!(
                f,
                "miscounted: shard {shard} says {} pending, {} parked, {} dead, and has {}, {}, {}",
                kept.pending, kept.parked, kept.dead, counted.pending, counted.parked, counted.dead
            ),
            Self::Overlooked { id } => {
                write!(f, "overlooked: {id} is due before the cursor, and would not be delivered")
            }
        }
    }
}

/// Number of rows read at a time.
const STEP: usize = 1000;
const RECORD: &str = "timers";
const INDEX: &str = "the index";
const KEY: &str = "its key";

impl EmbeddedStore {
    /// Reads the whole store and returns its inconsistencies. Takes time in proportion to its size, and little memory.
    ///
    /// # Errors
    /// The disk cannot be read. Damage is reported as an issue, not as an error.
    pub fn check(&mut self) -> Result<Vec<CheckIssue>, StoreError> {
        let engine = self.engine()?.clone();
        let mut issues = Vec::new();
        self.check_all(&engine, &mut issues).map_err(|error| self.unreadable(error))?;
        Ok(issues)
    }

    fn check_all(&mut self, engine: &Engine, issues: &mut Vec<CheckIssue>) -> Result<(), ReadError> {
        let mut shards = Vec::new();
        each_row(engine, Space::State, issues, |key, row, issues| {
            if let Some(shard) = read_key_of_state(&key) {
                match ShardState::read(&row) {
                    Ok(state) => shards.push((shard, state)),
                    Err(_) => issues.push(CheckIssue::Damaged { what: "states of shards", id: None }),
                }
                return Ok(());
            }
            let claim = match read_key_of_claim(&key) {
                Some((_, number)) => {
                    whole(engine, Space::State, &key, row).and_then(|value| Ok(read_claim(number, &value)?))
                }
                None => Err(ReadError::Damaged),
            };
            match claim {
                Ok(_) => Ok(()),
                // Claims have no version.
                Err(ReadError::Damaged | ReadError::Newer(_)) => {
                    issues.push(CheckIssue::Damaged { what: "claims", id: None });
                    Ok(())
                }
                Err(error) => Err(error),
            }
        })?;
        for (shard, state) in shards {
            let mut counted = Counts::default();
            for part in [Part::Pending, Part::Parked, Part::Dead] {
                let count = self.check_part(engine, (part, shard), &state, issues)?;
                match part {
                    Part::Pending => counted.pending = count,
                    Part::Parked => counted.parked = count,
                    Part::Dead => counted.dead = count,
                }
            }
            if counted != state.counts {
                issues.push(CheckIssue::Miscounted { shard, kept: state.counts, counted });
            }
        }
        self.check_index(engine, issues)?;
        check_pieces(engine, issues)
    }

    /// Checks the records of a part, and the entries that refer to them.
    fn check_part(
        &mut self,
        engine: &Engine,
        (part, shard): (Part, u16),
        state: &ShardState,
        issues: &mut Vec<CheckIssue>,
    ) -> Result<u64, ReadError> {
        let region = Region::new(part, shard);
        let mut lower = region.from(0);
        let mut count = 0;
        loop {
            let page = scan::page(engine, &mut self.names, (part, shard), lower, DueTime::MAX, STEP)?;
            issues.extend(page.damaged.iter().map(|id| CheckIssue::Damaged { what: RECORD, id: *id }));
            let newer = page.newer.iter().map(|newer| CheckIssue::Newer { id: newer.at.id, version: newer.version });
            issues.extend(newer);
            count += (page.found.len() + page.newer.len()) as u64;
            for found in &page.found {
                check_record(engine, found, state, issues)?;
            }
            match page.next {
                Some(next) => lower = scan::successor(&region.key(next)),
                None => return Ok(count),
            }
        }
    }

    /// Checks that each index entry refers to a timer.
    fn check_index(&mut self, engine: &Engine, issues: &mut Vec<CheckIssue>) -> Result<(), ReadError> {
        each_row(engine, Space::Index, issues, |key, row, issues| {
            if let Some((_, text)) = read_key_of_holder(&key) {
                let Some(id) = read_id(&row) else {
                    issues.push(CheckIssue::Damaged { what: "entries of the index", id: None });
                    return Ok(());
                };
                match has_key(engine, id, text) {
                    Ok(true) => {}
                    Err(ReadError::Io(error)) => return Err(ReadError::Io(error)),
                    _ => issues.push(CheckIssue::Stale { what: "a key", id }),
                }
                return Ok(());
            }
            let (Some((tag, id)), Some((part, due))) = (read_tagged_id(&key), read_position_value(&row)) else {
                issues.push(CheckIssue::Damaged { what: "entries of the index", id: None });
                return Ok(());
            };
            let part = if tag == b'G' { Part::Dead } else { part };
            let region = Region::new(part, id.shard());
            if !is_there(engine, region.space, &region.key(Position { due, id }))? {
                issues.push(CheckIssue::Stale { what: INDEX, id });
            }
            Ok(())
        })
    }
}

fn check_record(
    engine: &Engine,
    found: &Found,
    state: &ShardState,
    issues: &mut Vec<CheckIssue>,
) -> Result<(), ReadError> {
    let record = &found.record;
    let (id, due) = (record.id, record.progress.due);
    let index = |key: Slice| -> Result<Option<Slice>, ReadError> {
        match engine.space(Space::Index).get(key).map_err(ReadError::from) {
            Err(ReadError::Io(error)) => Err(ReadError::Io(error)),
            found => Ok(found.ok().flatten()),
        }
    };
    let position = match found.part {
        Part::Dead => {
            index(key_of_dead_letter(id))?.and_then(|row| read_position_value(&row)).map(|(_, due)| (Part::Dead, due))
        }
        Part::Pending | Part::Parked => match index(key_of_position(id))? {
            Some(row) => read_position_value(&row),
            None => Some((Part::Pending, id.first_due())),
        },
    };
    if position != Some((found.part, due)) {
        issues.push(CheckIssue::Lost { what: INDEX, id });
    }
    if let (Some(key), true) = (&record.key, found.part != Part::Dead)
        && index(key_of_holder(id.shard(), key))?.and_then(|row| read_id(&row)) != Some(id)
    {
        issues.push(CheckIssue::Lost { what: KEY, id });
    }
    if found.part == Part::Pending && due < state.cursor {
        issues.push(CheckIssue::Overlooked { id });
    }
    Ok(())
}

/// Returns whether a pending or parked timer has this key. Reads no more of it. The key of a record of a newer version
/// is unknown, and taken to be this one.
fn has_key(engine: &Engine, id: DurableId, key: &str) -> Result<bool, ReadError> {
    let position = engine.space(Space::Index).get(key_of_position(id))?.and_then(|row| read_position_value(&row));
    let (part, due) = position.unwrap_or((Part::Pending, id.first_due()));
    let region = Region::new(part, id.shard());
    let Some(row) = engine.space(region.space).get(region.key(Position { due, id }))? else { return Ok(false) };
    let (_, head) = read_first_piece(&row)?;
    Ok(codec::unknown_version(head).is_some() || key_of_record(head) == Some(key))
}

/// Checks that each piece belongs to a value.
fn check_pieces(engine: &Engine, issues: &mut Vec<CheckIssue>) -> Result<(), ReadError> {
    each_row(engine, Space::Pieces, issues, |key, _, issues| {
        let owner = key.split_first().and_then(|(space, rest)| {
            let (owner, number) = rest.split_last_chunk()?;
            let space = Space::ALL.get(usize::from(*space))?.0;
            Some((space, Slice::new(owner), u16::from_be_bytes(*number)))
        });
        let is_owned = match owner {
            Some((space, owner, number)) => match engine.space(space).get(owner).map_err(ReadError::from) {
                Ok(Some(row)) => read_first_piece(&row).is_ok_and(|(pieces, _)| number < pieces),
                Ok(None) => false,
                // Its damage is already reported.
                Err(ReadError::Damaged | ReadError::Newer(_)) => true,
                Err(error) => return Err(error),
            },
            None => false,
        };
        if !is_owned {
            issues.push(CheckIssue::Damaged { what: "pieces of long values", id: None });
        }
        Ok(())
    })
}

fn is_there(engine: &Engine, space: Space, key: &[u8]) -> Result<bool, ReadError> {
    match engine.space(space).contains_key(key).map_err(ReadError::from) {
        // Its damage is already reported.
        Err(ReadError::Damaged | ReadError::Newer(_)) => Ok(true),
        other => other,
    }
}

fn whole(engine: &Engine, space: Space, key: &[u8], row: Slice) -> Result<Vec<u8>, ReadError> {
    let value = join((space, key), row, |piece| Ok(engine.space(Space::Pieces).get(piece)?))?;
    Ok(value.bytes.to_vec())
}

/// Calls `look` with each readable row of a space.
fn each_row(
    engine: &Engine,
    space: Space,
    issues: &mut Vec<CheckIssue>,
    mut look: impl FnMut(Slice, Slice, &mut Vec<CheckIssue>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut lower = Vec::new();
    loop {
        let mut damaged = 0;
        // No key begins with 32 of these.
        let rows = scan::rows(engine, space, lower, &[0xFF; 32], STEP, &mut damaged)?;
        issues.extend((0..damaged).map(|_| CheckIssue::Damaged { what: "rows", id: None }));
        let Some((last, _)) = rows.last() else { return Ok(()) };
        lower = scan::successor(last);
        for (key, row) in rows {
            look(key, row, issues)?;
        }
    }
}

//! The format of the embedded store: keys and values. See also `docs/internals/store-format.md`.
//!
//! Five key spaces, each in the order of its keys:
//!
//! | space | key | value |
//! |---|---|---|
//! | `pending` | shard, [location](push_position) | the record ([`codec`]) |
//! | `aside` | `P` (parked) or `D` (dead letter), shard, location | the record; before that of a dead letter: time and reason |
//! | `index` | `K`, shard, idempotency key | id of the timer that has it |
//! | `index` | `M`, id | part and due time of a timer that is not pending at the time in its id |
//! | `index` | `G`, id | due time of its dead letter |
//! | `state` | `S`, shard | epoch, cursor, counts and number of the last commit |
//! | `state` | `C`, shard, number of a claim | its members |
//! | `pieces` | number of the space, key there, number of the piece | the next bytes of a value longer than 2 KiB |
//!
//! Numbers in keys are big-endian, so that keys are in the order of positions.

use std::sync::Arc;

use fjall::Slice;

use crate::store::codec::{self, DecodeError, Input, put_number, put_text};
use crate::store::{Claim, Counts, Found, MAX_KEY_LEN, Part, Position};
use crate::{DueTime, DurableId};

/// The format that this version writes, and the newest it reads.
pub(super) const FORMAT: u32 = 1;

/// Size in bytes of the pieces of a value. fjall recovers from a torn group if each page of the journal (4 KiB) holds
/// the beginning of an entry; with larger entries it fails to open.
pub(super) const PIECE: usize = 2048;

/// The key spaces, with their numbers in `pieces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Pending = 0,
    Aside = 1,
    Index = 2,
    State = 3,
    Pieces = 4,
}

impl Space {
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Pending, "pending"),
        (Self::Aside, "aside"),
        (Self::Index, "index"),
        (Self::State, "state"),
        (Self::Pieces, "pieces"),
    ];
}

/// The range of records of a part, with their keys.
pub(super) struct Region {
    pub(super) space: Space,
    /// The prefix of each key: the tag of the part in its space, and the shard.
    prefix: [u8; 3],
    has_tag: bool,
}

impl Region {
    pub(super) fn new(part: Part, shard: u16) -> Self {
        let (space, tag) = match part {
            Part::Pending => (Space::Pending, 0),
            Part::Parked => (Space::Aside, PARKED),
            Part::Dead => (Space::Aside, DEAD),
        };
        let [high, low] = shard.to_be_bytes();
        Self { space, prefix: [tag, high, low], has_tag: part != Part::Pending }
    }

    fn prefix(&self) -> &[u8] {
        &self.prefix[usize::from(!self.has_tag)..]
    }

    /// Returns the key of the record at a position.
    pub(super) fn key(&self, at: Position) -> Slice {
        let mut key = KeyBuffer::default();
        key.extend(self.prefix());
        key.push_position(at);
        key.bytes[..key.length].into()
    }

    /// Returns the lower bound on keys of records due at `due` or later.
    pub(super) fn from(&self, due: u64) -> Vec<u8> {
        let mut key = self.prefix().to_vec();
        key.extend_from_slice(&due.to_be_bytes()[2..]);
        key
    }

    /// Returns the position of the record with this key, if it belongs to this region.
    pub(super) fn position(&self, key: &[u8]) -> Option<Position> {
        let shard = u16::from_be_bytes(*self.prefix.last_chunk()?);
        read_position(shard, key.strip_prefix(self.prefix())?)
    }
}

const PARKED: u8 = b'P';
const DEAD: u8 = b'D';

/// A key that is being assembled: of 3 + 6 + 1 + 6 + 8 bytes at most.
#[derive(Default)]
struct KeyBuffer {
    bytes: [u8; 24],
    length: usize,
}

impl KeyBuffer {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends a position without its shard: due time (6 bytes), its difference from the time of the id, random bits (8
    /// bytes).
    ///
    /// The difference is one byte, `0x80`, for timers that were never moved. Otherwise the number of following bytes is
    /// added to it or subtracted from it; those bytes are the difference, complemented if the id's time is the earlier
    /// one: so keys are in the order of positions.
    fn push_position(&mut self, Position { due, id }: Position) {
        self.extend(&due.as_millis().to_be_bytes()[2..]);
        let first = id.first_due().as_millis();
        let magnitude = first.abs_diff(due.as_millis());
        let length = (71 - magnitude.leading_zeros()) as usize / 8;
        if first >= due.as_millis() {
            self.extend(&[0x80 + length as u8]);
            self.extend(&magnitude.to_be_bytes()[8 - length..]);
        } else {
            self.extend(&[0x80 - length as u8]);
            self.extend(&(!magnitude).to_be_bytes()[8 - length..]);
        }
        self.extend(&id.random().to_be_bytes());
    }
}

/// Returns whether the pending record with this key is due at `until` or earlier.
pub(super) fn is_due_by(key: &[u8], until: DueTime) -> bool {
    key.get(2..8).is_some_and(|due| due <= &until.as_millis().to_be_bytes()[2..])
}

fn read_position(shard: u16, bytes: &[u8]) -> Option<Position> {
    let (due, bytes) = bytes.split_at_checked(6)?;
    let (&tag, bytes) = bytes.split_first()?;
    let (difference, random) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    if difference.len() != usize::from(tag.abs_diff(0x80)) || difference.len() > 6 {
        return None;
    }
    let due = number(due);
    let first = if tag >= 0x80 {
        due.checked_add(number(difference))?
    } else {
        let complement = difference.iter().fold(0, |sum, byte| sum << 8 | u64::from(!byte));
        due.checked_sub(complement)?
    };
    let random = u64::from_be_bytes(*random.first_chunk()?);
    let id = DurableId::from_parts(shard, DueTime::from_millis(first).ok()?, random);
    Some(Position { due: DueTime::from_millis(due).ok()?, id })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Returns the key for the holder of an idempotency key.
pub(super) fn key_of_holder(shard: u16, key: &str) -> Slice {
    [b"K", &shard.to_be_bytes()[..], key.as_bytes()].concat().into()
}

/// Returns the shard and idempotency key of such a key.
pub(super) fn read_key_of_holder(key: &[u8]) -> Option<(u16, &str)> {
    let (shard, key) = key.strip_prefix(b"K")?.split_first_chunk()?;
    Some((u16::from_be_bytes(*shard), str::from_utf8(key).ok()?))
}

/// Returns the key for the location of a timer that is not pending at the time in its id.
pub(super) fn key_of_position(id: DurableId) -> Slice {
    tagged_id(b'M', id)
}

/// Returns the key for the location of a timer's dead letter.
pub(super) fn key_of_dead_letter(id: DurableId) -> Slice {
    tagged_id(b'G', id)
}

fn tagged_id(tag: u8, id: DurableId) -> Slice {
    let mut key = [tag; 17];
    key[1..].copy_from_slice(id.as_uuid().as_bytes());
    Slice::new(&key)
}

/// Returns tag and id of a key from [`key_of_position`] or [`key_of_dead_letter`].
pub(super) fn read_tagged_id(key: &[u8]) -> Option<(u8, DurableId)> {
    let (&tag, id) = key.split_first()?;
    Some((tag, read_id(id)?))
}

pub(super) fn id_value(id: DurableId) -> Slice {
    Slice::new(id.as_uuid().as_bytes())
}

pub(super) fn read_id(bytes: &[u8]) -> Option<DurableId> {
    DurableId::from_uuid(uuid::Uuid::from_slice(bytes).ok()?).ok()
}

pub(super) fn position_value(part: Part, due: DueTime) -> Slice {
    let mut value = due.as_millis().to_be_bytes();
    // A due time leaves the first two bytes empty.
    value[0] = if part == Part::Parked { PARKED } else { 0 };
    Slice::new(&value)
}

pub(super) fn read_position_value(value: &[u8]) -> Option<(Part, DueTime)> {
    let (&tag, due) = value.split_first()?;
    let part = if tag == PARKED { Part::Parked } else { Part::Pending };
    if due.len() == 7 { Some((part, DueTime::from_millis(number(due)).ok()?)) } else { None }
}

pub(super) fn key_of_claim(shard: u16, claim: u64) -> Slice {
    [b"C", &shard.to_be_bytes()[..], &claim.to_be_bytes()].concat().into()
}

/// Returns the prefix of the keys of all claims of a shard.
pub(super) fn claims_of(shard: u16) -> Vec<u8> {
    [b"C", &shard.to_be_bytes()[..]].concat()
}

pub(super) fn read_key_of_claim(key: &[u8]) -> Option<(u16, u64)> {
    let (shard, claim) = key.strip_prefix(b"C")?.split_first_chunk()?;
    Some((u16::from_be_bytes(*shard), u64::from_be_bytes(claim.try_into().ok()?)))
}

/// Appends the members of a claim, each with id (16 bytes), due time and attempt.
pub(super) fn put_claim(claim: &Claim, out: &mut Vec<u8>) {
    for (id, due, attempt) in &claim.members {
        out.extend_from_slice(id.as_uuid().as_bytes());
        put_number(due.as_millis(), out);
        put_number((*attempt).into(), out);
    }
}

pub(super) fn read_claim(number: u64, value: &[u8]) -> Result<Claim, DecodeError> {
    let mut input = Input(value);
    let mut members = Vec::new();
    while !input.0.is_empty() {
        let id = read_id(input.bytes(16)?).ok_or(DecodeError::Impossible("id"))?;
        members.push((id, input.time()?, input.number_32("attempt")?));
    }
    Ok(Claim { number, members })
}

pub(super) fn key_of_state(shard: u16) -> Slice {
    [b"S", &shard.to_be_bytes()[..]].concat().into()
}

pub(super) fn read_key_of_state(key: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(key.strip_prefix(b"S")?.try_into().ok()?))
}

/// The state of a shard as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ShardState {
    /// The epoch of the present owner.
    pub(super) epoch: u64,
    /// Lower bound on due times of pending timers.
    pub(super) cursor: DueTime,
    pub(super) counts: Counts,
    /// Number of commits, which shows whether the last one is on disk.
    pub(super) commits: u64,
}

impl ShardState {
    pub(super) fn value(&self) -> Slice {
        let mut value = Vec::with_capacity(32);
        let Counts { pending, parked, dead } = self.counts;
        for number in [self.epoch, self.cursor.as_millis(), pending, parked, dead, self.commits] {
            put_number(number, &mut value);
        }
        value.into()
    }

    pub(super) fn read(value: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input(value);
        Ok(Self {
            epoch: input.number()?,
            cursor: input.time()?,
            counts: Counts { pending: input.number()?, parked: input.number()?, dead: input.number()? },
            commits: input.number()?,
        })
    }
}

/// Appends time and reason of a dead letter, before its record.
pub(super) fn put_dead_letter(reason: &str, dead_at: DueTime, out: &mut Vec<u8>) {
    put_number(dead_at.as_millis(), out);
    put_text(reason, out);
}

/// Reads the output of [`put_dead_letter`], and returns also the rest.
pub(super) fn read_dead_letter(value: &[u8]) -> Result<(Arc<str>, DueTime, &[u8]), DecodeError> {
    let mut input = Input(value);
    let dead_at = input.time()?;
    let reason = input.text()?.into();
    Ok((reason, dead_at, input.0))
}

/// Decodes the record at a position of a part from its value.
pub(super) fn read_record(
    part: Part,
    at: Position,
    value: &[u8],
    name: &mut dyn FnMut(&str) -> Arc<str>,
) -> Result<Found, DecodeError> {
    let (dead_letter, body) = if part == Part::Dead {
        let (reason, dead_at, body) = read_dead_letter(value)?;
        (Some((reason, dead_at)), body)
    } else {
        (None, value)
    };
    let record = codec::decode_named(at.id, at.due, body, name)?;
    // The index has no longer ones, and the database panics over a much longer one.
    if record.key.as_ref().is_some_and(|key| key.len() > MAX_KEY_LEN) {
        return Err(DecodeError::Impossible("key"));
    }
    Ok(Found { record: record.into(), part, dead_letter, is_claimed: false })
}

/// Returns the idempotency key in the value, or its first piece, of a pending or parked timer. None if a newer version
/// has written the record.
pub(super) fn key_of_record(value: &[u8]) -> Option<&str> {
    codec::key_of(value).ok().flatten().filter(|key| key.len() <= MAX_KEY_LEN)
}

/// Returns the key of a piece of a long value.
pub(super) fn key_of_piece(space: Space, key: &[u8], piece: u16) -> Slice {
    [&[space as u8], key, &piece.to_be_bytes()].concat().into()
}

/// Returns the row of a value: the number of further pieces, then the first bytes. `value` begins with another byte, which
/// is overwritten.
pub(super) fn first_piece_after_byte(value: &mut [u8]) -> Slice {
    let length = value.len().saturating_sub(1);
    let pieces = length.saturating_sub(PIECE).div_ceil(PIECE);
    match (value.first_mut(), u8::try_from(pieces)) {
        (Some(head), Ok(pieces)) if pieces < 0x80 => {
            *head = pieces;
            value[..=length.min(PIECE)].into()
        }
        _ => first_piece(value.get(1..).unwrap_or_default()),
    }
}

/// Returns the row of a value: the number of further pieces, then the first bytes.
pub(super) fn first_piece(value: &[u8]) -> Slice {
    let (head, rest) = value.split_at(value.len().min(PIECE));
    let pieces = rest.len().div_ceil(PIECE) as u64;
    let mut row = Vec::with_capacity(head.len() + 2);
    put_number(pieces, &mut row);
    row.extend_from_slice(head);
    row.into()
}

/// Returns the number of further pieces, and the first bytes.
pub(super) fn read_first_piece(row: &[u8]) -> Result<(u16, &[u8]), DecodeError> {
    let mut input = Input(row);
    let pieces = input.number()?.try_into().map_err(|_| DecodeError::Impossible("number of pieces"))?;
    Ok((pieces, input.0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn position(due: u64, first: u64, random: u64) -> Position {
        let time = |millis| DueTime::from_millis(millis).unwrap();
        Position { due: time(due), id: DurableId::from_parts(7, time(first), random) }
    }

    #[test]
    fn keys_are_in_the_order_of_positions_and_tell_them() {
        let times = [0, 1, 255, 256, 257, 65_535, 65_536, 1_700_000_000_000, DueTime::MAX.as_millis()];
        let mut positions = Vec::new();
        for due in times {
            for first in times {
                for random in [0, 1, u64::MAX] {
                    positions.push(position(due, first, random));
                }
            }
        }
        for part in [Part::Pending, Part::Parked, Part::Dead] {
            let region = Region::new(part, 7);
            let mut keys: Vec<_> = positions.iter().map(|at| (region.key(*at), *at)).collect();
            keys.sort_by(|a, b| a.0.cmp(&b.0));
            assert!(keys.is_sorted_by_key(|(_, at)| *at));
            for (key, at) in keys {
                assert_eq!(region.position(&key), Some(at));
                let before = DueTime::from_millis(at.due.as_millis().saturating_sub(1)).unwrap();
                assert!(
                    part != Part::Pending || is_due_by(&key, at.due) && (before == at.due || !is_due_by(&key, before))
                );
                assert!(*key >= *region.from(at.due.as_millis()) && *key < *region.from(at.due.as_millis() + 1));
                for length in 0..key.len() {
                    let _ = region.position(&key[..length]);
                }
            }
        }
    }

    #[test]
    fn the_key_of_a_timer_that_was_never_moved_fits_into_a_slice_without_a_heap() {
        let due = 1_700_000_000_000;
        assert!(Region::new(Part::Pending, 1).key(position(due, due, u64::MAX)).len() <= 20);
    }

    #[test]
    fn garbage_is_told_from_values() {
        assert_eq!(read_position_value(&[0; 7]), None);
        assert_eq!(read_position_value(&[0xFF; 8]), None);
        assert!(ShardState::read(&[1, 2]).is_err());
        assert!(read_claim(1, &[0; 17]).is_err());
        assert!(read_first_piece(&[0xFF, 0xFF, 0xFF, 1]).is_err());
        assert!(read_dead_letter(&[1, 5, b'x']).is_err());
        assert_eq!(Region::new(Part::Dead, 1).position(&[b'P'; 18]), None);
    }

    #[test]
    fn values_come_back() {
        let due = DueTime::from_millis(1_700_000_000_000).unwrap();
        for part in [Part::Pending, Part::Parked] {
            assert_eq!(read_position_value(&position_value(part, due)), Some((part, due)));
        }
        let state = ShardState {
            epoch: 3,
            cursor: due,
            counts: Counts { pending: 1 << 40, parked: 2, dead: 3 },
            commits: u64::MAX,
        };
        assert_eq!(ShardState::read(&state.value()), Ok(state));
        let claim = Claim { number: 5, members: vec![(DurableId::from_parts(9, due, 1), DueTime::MAX, u32::MAX)] };
        let mut value = Vec::new();
        put_claim(&claim, &mut value);
        assert_eq!(read_claim(5, &value), Ok(claim));
        assert_eq!(read_key_of_claim(&key_of_claim(9, 77)), Some((9, 77)));
        assert_eq!(read_key_of_holder(&key_of_holder(9, "ä")), Some((9, "ä")));
        assert_eq!(read_key_of_state(&key_of_state(9)), Some(9));
    }
}

//! Cursors of lists of durable timers, encrypted and authenticated.
//!
//! A cursor is the position of a timer, which contains its id, and a whole id is enough to cancel. A list begins after
//! any accepted position, so positions made up by a visitor would reveal ids bit by bit. Therefore a cursor has a tag,
//! a keyed hash of the position, and the mask over the secret bits of the id depends on that tag (a synthetic
//! initialization vector): no two positions share a mask, as timers with the same first due time otherwise would.

use std::fmt;

use actix_timers::integration::unguessable;
use actix_timers_durable::DueTime;
use actix_timers_durable::store::Position;
use siphasher::sip::SipHasher24;

/// The key of an inspector for its cursors.
#[derive(Clone)]
pub(super) struct CursorKey([u64; 2]);

/// Prints no key.
impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(..)")
    }
}

impl Default for CursorKey {
    fn default() -> Self {
        Self([unguessable(), unguessable()])
    }
}

impl CursorKey {
    /// Writes a cursor: due time, masked id and tag.
    pub(super) fn text_of(&self, Position { due, id }: Position) -> String {
        let (due, id) = (due.as_millis(), id.as_uuid().as_u128());
        let tag = self.tag(due, id);
        format!("{due:x}-{:032x}-{tag:016x}", self.masked(id, due, tag))
    }

    /// Reads a cursor; none if [`text_of`](Self::text_of) with this key has not written exactly this text.
    pub(super) fn cursor_of(&self, text: &str) -> Option<Position> {
        let (due, rest) = text.split_once('-')?;
        let (id, tag) = rest.split_once('-')?;
        let (due, tag) = (u64::from_str_radix(due, 16).ok()?, u64::from_str_radix(tag, 16).ok()?);
        let id = self.masked(u128::from_str_radix(id, 16).ok()?, due, tag);
        let position = Position { due: DueTime::from_millis(due).ok()?, id: format!("{id:032x}").parse().ok()? };
        (self.text_of(position) == text).then_some(position)
    }

    fn tag(&self, due: u64, id: u128) -> u64 {
        let mut position = [0; 24];
        position[..8].copy_from_slice(&due.to_le_bytes());
        position[8..].copy_from_slice(&id.to_le_bytes());
        self.hash(&position)
    }

    /// Exchanges the last 62 bits of an id, which are random, for others, and back. The other two random bits stay: a
    /// visitor sees them in a short id, too.
    fn masked(&self, id: u128, due: u64, tag: u64) -> u128 {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&due.to_le_bytes());
        seed[8..].copy_from_slice(&tag.to_le_bytes());
        id ^ u128::from(self.hash(&seed) >> 2)
    }

    /// Returns the SipHash-2-4. Messages of different lengths are different, so tags and masks need no more separation.
    fn hash(&self, message: &[u8]) -> u64 {
        let [k0, k1] = self.0;
        SipHasher24::new_with_keys(k0, k1).hash(message)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_timers_durable::DurableId;

    use super::*;

    fn cursor(random: u64) -> Position {
        let due = DueTime::from_millis(1_700_000_000_000).unwrap();
        Position { due, id: DurableId::from_parts(due, 7, random) }
    }

    #[test]
    fn a_cursor_is_read_by_its_key_only() {
        let (key, other) = (CursorKey::default(), CursorKey::default());
        let text = key.text_of(cursor(0x0123_4567_89AB_CDEF));
        assert_eq!(key.cursor_of(&text), Some(cursor(0x0123_4567_89AB_CDEF)));
        assert_eq!(key.clone().cursor_of(&text), key.cursor_of(&text), "each worker has a clone");
        assert_eq!(other.cursor_of(&text), None);
    }

    #[test]
    fn a_cursor_with_any_bit_changed_is_rejected() {
        let key = CursorKey::default();
        let text = key.text_of(cursor(u64::MAX));
        let parts: Vec<u128> = text.split('-').map(|part| u128::from_str_radix(part, 16).unwrap()).collect();
        for (part, bits) in [(0, 64), (1, 128), (2, 64)] {
            for bit in 0..bits {
                let mut parts = parts.clone();
                parts[part] ^= 1 << bit;
                let changed = format!("{:x}-{:032x}-{:016x}", parts[0], parts[1], parts[2]);
                assert_eq!(key.cursor_of(&changed), None, "bit {bit} of part {part}");
            }
        }
        for (at, bit) in (0..text.len()).flat_map(|at| (0..7).map(move |bit| (at, bit))) {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1 << bit;
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.cursor_of(&changed), None, "{changed}");
        }
        for other in [format!("+{text}"), format!("0{text}"), format!("{text}-"), text.replacen('-', "-+", 1)] {
            assert_eq!(key.cursor_of(&other), None, "{other}");
        }
    }

    /// With the same mask, the difference of two cursors would be that of two ids.
    #[test]
    fn the_masks_of_ids_with_the_same_first_half_differ() {
        let key = CursorKey::default();
        let masked = |random| u128::from_str_radix(key.text_of(cursor(random)).split('-').nth(1).unwrap(), 16).unwrap();
        assert_eq!(masked(1) >> 62, masked(2) >> 62);
        assert_ne!(masked(1) ^ masked(2), 1 ^ 2);
    }
}

//! Timer ids: UUIDs that locate their timer without a table, and that cannot be guessed.
//!
//! An id is an RFC 9562 UUID of version 8. Its first half is a location: the number of the timer actor (28 bits) and a
//! slot in it (32 bits). Its second half is a tag of 62 bits, the keyed hash (SipHash-2-4) of slot and generation. A
//! cancel goes straight to the slot, computes the tag of the slot's present timer and compares; no table is kept or
//! searched. The key comes from the operating system and never leaves the process, so an id reveals nothing about
//! another one. A generation is never reused, so neither is an id.
//!
//! An id that is created before its timer actor is known (for a message still to be sent) has actor number 0 and is a
//! keyed hash of a counter in both halves. The timer actor that accepts the timer stores it.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::model::secret::{Secret, unguessable};
use crate::model::shown::Shown;
use crate::timing::Key;

/// The id of a timer, unique in this process for all time. A UUID (RFC 9562, version 8); it prints and parses as one.
///
/// ```
/// use actix_timers::TimerId;
///
/// let id = TimerId::new();
/// let text = id.to_string();
/// assert_eq!(text.parse::<TimerId>()?, id);
/// assert_eq!(id.as_uuid().get_version_num(), 8);
/// assert!("boarding call".parse::<TimerId>().is_err());
/// # Ok::<(), actix_timers::ParseTimerIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(Uuid);

/// The error of parsing a text that is not a UUID of version 8.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTimerIdError {
    /// The text is not a UUID.
    #[error("not a timer id: {}", Shown(.0))]
    NotAUuid(#[from] uuid::Error),
    /// The UUID has another version, so it cannot come from this crate.
    #[error("not a timer id: {0} is a UUID of another version, timer ids are of version 8")]
    OtherVersion(Uuid),
}

const VERSION_8: u64 = 8 << 12;
const VARIANT: u64 = 0b10 << 62;
const TAG: u64 = u64::MAX >> 2;
/// The largest number of a timer actor: 28 bits.
pub(crate) const MAX_ACTOR_NUMBER: u32 = (1 << 28) - 1;

impl TimerId {
    /// Returns a new id that no timer has yet, for a request still to be sent.
    #[expect(clippy::new_without_default, reason = "each call returns another id")]
    pub fn new() -> Self {
        Self::from_parts(unguessable() & u64::from(u32::MAX), unguessable())
    }

    /// Returns the id as a UUID.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }

    /// Converts a UUID to an id.
    ///
    /// # Errors
    /// [`ParseTimerIdError::OtherVersion`] if it is not of version 8.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, ParseTimerIdError> {
        let is_ours = uuid.get_version_num() == 8 && uuid.get_variant() == uuid::Variant::RFC4122;
        if is_ours { Ok(Self(uuid)) } else { Err(ParseTimerIdError::OtherVersion(uuid)) }
    }

    /// Returns the number of the timer actor; `None` if the id was created before the actor was known.
    pub(crate) fn actor_number(self) -> Option<u32> {
        let number = (self.position() >> 32) as u32;
        (number != 0).then_some(number)
    }

    /// Returns the slot in that timer actor.
    pub(crate) fn slot(self) -> u32 {
        self.position() as u32
    }

    fn tag(self) -> u64 {
        self.0.as_u64_pair().1 & TAG
    }

    fn position(self) -> u64 {
        let high = self.0.as_u64_pair().0;
        (high >> 16) << 12 | high & 0xFFF
    }

    fn from_parts(position: u64, tag: u64) -> Self {
        let high = (position >> 12) << 16 | VERSION_8 | position & 0xFFF;
        Self(Uuid::from_u64_pair(high, VARIANT | tag & TAG))
    }
}

/// A timer id without its last 48 bits: enough to distinguish timers, not enough to cancel one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortId(TimerId);

impl ShortId {
    pub(crate) const HIDDEN_BITS: u32 = 48;
    /// The first four of the five groups of a UUID, and the hyphens between them.
    const LEN: usize = 23;

    /// Returns the beginning of an id.
    pub fn of(id: TimerId) -> Self {
        let shown = id.0.as_u128() >> Self::HIDDEN_BITS << Self::HIDDEN_BITS;
        Self(TimerId(Uuid::from_u128(shown)))
    }

    /// Parses an id with or without its last group; `None` if the text is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let id = format!("{}-000000000000", text.get(..Self::LEN)?).parse().ok()?;
        (text.len() == Self::LEN).then_some(Self(id))
    }

    /// Returns the number of the timer actor and the slot, if the whole id names them.
    pub(crate) fn position(self) -> Option<(u32, u32)> {
        Some((self.0.actor_number()?, self.0.slot()))
    }

    /// Returns the visible bits.
    pub(crate) fn beginning(self) -> u128 {
        self.0.0.as_u128() >> Self::HIDDEN_BITS
    }
}

impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Uuid::encode_buffer();
        f.write_str(&self.0.0.hyphenated().encode_lower(&mut text)[..Self::LEN])
    }
}

/// Creates and verifies the ids of one timer actor.
#[derive(Debug)]
pub(crate) struct IdMaker {
    actor_number: u32,
    secret: Secret,
}

impl IdMaker {
    pub(crate) const fn new(actor_number: u32, secret: Secret) -> Self {
        Self { actor_number: actor_number & MAX_ACTOR_NUMBER, secret }
    }

    #[inline]
    pub(crate) fn id_of(&self, key: Key) -> TimerId {
        TimerId::from_parts(u64::from(self.actor_number) << 32 | u64::from(key.index()), self.tag_of(key))
    }

    /// Returns true if `id`, which names a slot of this actor, is the id of `key`.
    pub(crate) fn is_id_of(&self, id: TimerId, key: Key) -> bool {
        id.tag() == self.tag_of(key) & TAG
    }

    fn tag_of(&self, key: Key) -> u64 {
        self.secret.hash(u64::from(key.index()) << 32 | u64::from(key.generation()))
    }
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerId({})", self.0)
    }
}

impl FromStr for TimerId {
    type Err = ParseTimerIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_uuid(Uuid::parse_str(text)?)
    }
}

impl TryFrom<Uuid> for TimerId {
    type Error = ParseTimerIdError;

    fn try_from(uuid: Uuid) -> Result<Self, Self::Error> {
        Self::from_uuid(uuid)
    }
}

impl From<TimerId> for Uuid {
    fn from(id: TimerId) -> Self {
        id.0
    }
}

/// Serializes as text in readable formats, as 16 bytes in others.
#[cfg(feature = "serde")]
impl serde::Serialize for TimerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for TimerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_uuid(Uuid::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_id_is_a_valid_uuid_and_names_its_slot() {
        for number in [1, 2, MAX_ACTOR_NUMBER] {
            let maker = IdMaker::new(number, Secret::new());
            for index in [0, 1, 0xFFF, 0x1000, u32::MAX] {
                let key = Key::new(index, 7);
                let id = maker.id_of(key);
                assert_eq!((id.actor_number(), id.slot()), (Some(number), index));
                assert_eq!(id.as_uuid().get_version_num(), 8);
                assert_eq!(id.as_uuid().get_variant(), uuid::Variant::RFC4122);
                assert_eq!(id.to_string().parse(), Ok(id));
                assert!(maker.is_id_of(id, key));
                assert!(!maker.is_id_of(id, Key::new(index, 8)));
                assert!(!maker.is_id_of(id, Key::new(index ^ 1, 7)));
            }
        }
    }

    #[test]
    fn ids_of_different_makers_differ_in_their_tags() {
        let (one, other) = (IdMaker::new(1, Secret::new()), IdMaker::new(1, Secret::new()));
        let key = Key::new(3, 4);
        assert_ne!(one.id_of(key), other.id_of(key));
        assert!(!one.is_id_of(other.id_of(key), key));
    }

    /// The tag is SipHash-2-4 of slot and generation under the key of the reference implementation.
    #[test]
    fn the_id_of_a_known_key_is_known() {
        let maker = IdMaker::new(0x0abc_def1, Secret::known(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908));
        let id = maker.id_of(Key::new(0x0706_0504, 0x0302_0100));
        assert_eq!(id.to_string(), "abcdef10-7060-8504-93f5-f5799a932462");
    }

    /// For each bit of slot and generation.
    #[test]
    fn a_change_of_one_bit_of_slot_or_generation_changes_half_of_the_tag() {
        let maker = IdMaker::new(1, Secret::new());
        for bit in 0..32 {
            for (slot, generation) in [(1 << bit, 0), (0, 1 << bit)] {
                let changed = (0..2000).map(|n| {
                    let (one, other) = (Key::new(n, n), Key::new(n ^ slot, n ^ generation));
                    (maker.id_of(one).tag() ^ maker.id_of(other).tag()).count_ones()
                });
                let mean = f64::from(changed.sum::<u32>()) / 2000.0;
                assert!((30.4..31.6).contains(&mean), "{slot} {generation}: {mean}");
            }
        }
    }

    #[test]
    fn neighbouring_timers_have_unrelated_tags() {
        let maker = IdMaker::new(1, Secret::new());
        let tags: Vec<u64> = (0..1000).map(|index| maker.id_of(Key::new(index, 0)).tag()).collect();
        let flipped: u32 = tags.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        let mean = f64::from(flipped) / 999.0;
        assert!((30.0..32.0).contains(&mean), "about half of 62 bits change: {mean}");
    }

    #[test]
    fn fresh_ids_never_repeat_and_name_no_actor() {
        let mut seen = HashSet::new();
        for _ in 0..100_000 {
            let id = TimerId::new();
            assert_eq!(id.actor_number(), None);
            assert!(seen.insert(id));
        }
        let elsewhere = std::thread::spawn(|| (0..1000).map(|_| TimerId::new()).collect::<Vec<_>>()).join().unwrap();
        assert!(elsewhere.into_iter().all(|id| seen.insert(id)));
    }

    #[test]
    fn only_uuids_of_version_8_are_taken() {
        for text in ["", "x", "123e4567-e89b-12d3-a456-42661417400", "123e4567-e89b-12d3-a456-4266141740000"] {
            assert!(matches!(text.parse::<TimerId>(), Err(ParseTimerIdError::NotAUuid(_))), "{text}");
        }
        let version_1 = "123e4567-e89b-12d3-a456-426614174000";
        assert!(matches!(version_1.parse::<TimerId>(), Err(ParseTimerIdError::OtherVersion(_))));
        assert!(matches!(TimerId::from_uuid(Uuid::nil()), Err(ParseTimerIdError::OtherVersion(_))));
        assert!(matches!(TimerId::from_uuid(Uuid::max()), Err(ParseTimerIdError::OtherVersion(_))));
    }
}

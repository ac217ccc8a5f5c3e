//! Timer ids: UUIDs that locate their timer without a table, and that cannot be guessed.
//!
//! An id is an RFC 9562 UUID of version 8. Its first half is a location: the number of the timer actor (28 bits) and a
//! slot in it (32 bits). Its second half is the tag of the timer, a random number of 62 bits. Slot and tag are the key
//! of the timer in the engine: a cancel goes straight to the slot and compares the tag kept there; no table is kept or
//! searched. The tags of a timer actor come from a cipher with a key of the operating system that never leaves the
//! process, so an id reveals nothing about another one.
//!
//! An id that is created before its timer actor is known (for a message still to be sent) has actor number 0 and is a
//! keyed hash of a counter in both halves. The timer actor that accepts the timer stores it.

use std::fmt;
use std::str::FromStr;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use uuid::Uuid;

use crate::model::secret::{Secret, unguessable};
use crate::model::shown::Shown;
use crate::timing::Key;

/// The id of a timer, unique in this process for all time. A UUID (RFC 9562, version 8); it prints and parses as one.
/// With the feature `serde` it serializes as text in readable formats, as 16 bytes in others.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Uuid", into = "Uuid"))]
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

    /// Returns the id of the timer with this key in the timer actor with this number.
    #[inline]
    pub(crate) fn of_timer(actor_number: u32, key: Key) -> Self {
        Self::from_parts(u64::from(actor_number & MAX_ACTOR_NUMBER) << 32 | u64::from(key.index()), key.tag())
    }

    /// Returns the number of the timer actor; `None` if the id was created before the actor was known.
    pub(crate) fn actor_number(self) -> Option<u32> {
        let number = (self.position() >> 32) as u32;
        (number != 0).then_some(number)
    }

    /// Returns the key of the timer in that timer actor.
    pub(crate) fn key(self) -> Key {
        Key::new(self.position() as u32, self.0.as_u64_pair().1 & TAG)
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

    /// Parses an id without its last group; `None` if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let id = format!("{}-000000000000", text.get(..Self::LEN)?).parse().ok()?;
        (text.len() == Self::LEN).then_some(Self(id))
    }

    /// Returns the number of the timer actor and the slot, if the whole id names them.
    pub(crate) fn position(self) -> Option<(u32, u32)> {
        Some((self.0.actor_number()?, self.0.key().index()))
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

/// An endless series of tags for the timers of one timer actor: the key stream of ChaCha12. Without the secret no tag
/// reveals anything about another one.
#[derive(Debug)]
pub(crate) struct Tags(ChaCha12Rng);

impl Tags {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self(ChaCha12Rng::from_seed(secret.seed()))
    }

    /// Returns a random number of 62 bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64() & TAG
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

#[cfg(test)]
mod tests;

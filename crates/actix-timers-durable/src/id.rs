//! Ids of durable timers: unguessable UUIDs that begin with the first due time.
//!
//! An id is an RFC 9562 UUID of version 8: 48 bits of milliseconds, the version, 10 bits of a counter that orders the timers
//! of one thread due together, and 64 random bits around the variant. So the primary key of the rows is the index of due
//! times.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use actix_timers::integration::{Shown, unguessable};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::due_time::DueTime;

/// The id of a durable timer, unique across processes and time: a UUID (RFC 9562, version 8) that is printed and parsed
/// as one.
///
/// It stays the same over retries, reschedules, repetitions and restarts. It serializes as text in human-readable formats, as 16
/// bytes in others.
///
/// ```
/// use actix_timers_durable::{DueTime, DurableId};
///
/// let id = DurableId::new(DueTime::from_millis(1_700_000_000_000)?);
/// assert_eq!(id.to_string().parse::<DurableId>()?, id);
/// assert_eq!(id.first_due().as_millis(), 1_700_000_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Uuid", into = "Uuid")]
pub struct DurableId(Uuid);

/// The error of a text that is not the id of a durable timer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDurableIdError {
    /// The text is not a UUID.
    #[error("not the id of a durable timer: {}", Shown(.0))]
    NotAUuid(#[from] uuid::Error),
    /// The text is a UUID of another version, so not made by this crate.
    #[error("not the id of a durable timer: {0} is a UUID of another version, such ids are of version 8")]
    OtherVersion(Uuid),
}

const VERSION_8: u64 = 8 << 12;
const VARIANT: u64 = 0b10 << 62;
const LOW: u64 = u64::MAX >> 2;

const COUNTER: u64 = (1 << 10) - 1;

impl DurableId {
    /// Creates an id for a timer that is first due at `due`.
    ///
    /// Of the ids that one thread creates for the same millisecond each is larger than the previous ones, up to 1024 of
    /// them, unless it creates some for a time that differs by a multiple of 257 ms in between.
    pub fn new(due: DueTime) -> Self {
        Self::from_parts(due, next_count(due), unguessable())
    }

    /// Creates an id from its parts; of `counter` the lower 10 bits.
    pub fn from_parts(due: DueTime, counter: u64, random: u64) -> Self {
        let high = due.as_millis() << 16 | VERSION_8 | (counter & COUNTER) << 2 | random >> 62;
        Self(Uuid::from_u64_pair(high, VARIANT | random & LOW))
    }

    /// Returns the due time at scheduling. A timer that repeats, was retried or moved is due at another time.
    pub fn first_due(self) -> DueTime {
        DueTime::from_millis(self.0.as_u64_pair().0 >> 16).unwrap_or(DueTime::MAX)
    }

    /// Returns the random bits.
    pub fn random(self) -> u64 {
        let (high, low) = self.0.as_u64_pair();
        high << 62 | low & LOW
    }

    /// The last id in order.
    pub(crate) const MAX: Self = Self(Uuid::max());

    /// Returns the id before it in order; `None` if that has another due time or version.
    pub(crate) fn before(self) -> Option<Self> {
        let before = Self::from_uuid(Uuid::from_u128(self.0.as_u128().checked_sub(1)?)).ok()?;
        (before.first_due() == self.first_due()).then_some(before)
    }

    /// Returns the id as a UUID.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }

    /// Converts a UUID to an id.
    ///
    /// # Errors
    /// [`ParseDurableIdError::OtherVersion`] if it is not of version 8.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, ParseDurableIdError> {
        let is_ours = uuid.get_version_num() == 8 && uuid.get_variant() == uuid::Variant::RFC4122;
        if is_ours { Ok(Self(uuid)) } else { Err(ParseDurableIdError::OtherVersion(uuid)) }
    }
}

/// Places of counts. Milliseconds that differ by a multiple of it share one: few periods and times of day do.
const PLACES: u64 = 257;

/// Returns the number of ids that this thread has created for this millisecond, until it creates one for another that shares its place.
fn next_count(due: DueTime) -> u64 {
    thread_local! {
        /// The last of the milliseconds that share a place, with its count.
        static COUNTS: [Cell<(u64, u64)>; PLACES as usize] = const { [const { Cell::new((0, 0)) }; PLACES as usize] };
    }
    let millis = due.as_millis();
    let count = COUNTS.try_with(|counts| {
        let place = &counts[(millis % PLACES) as usize];
        let (last, count) = place.get();
        let count = if last == millis { count + 1 } else { 0 };
        place.set((millis, count));
        count
    });
    // At the end of the thread any order will do.
    count.unwrap_or(0)
}

impl fmt::Display for DurableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for DurableId {
    type Err = ParseDurableIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_uuid(Uuid::parse_str(text)?)
    }
}

impl TryFrom<Uuid> for DurableId {
    type Error = ParseDurableIdError;

    fn try_from(uuid: Uuid) -> Result<Self, Self::Error> {
        Self::from_uuid(uuid)
    }
}

impl From<DurableId> for Uuid {
    fn from(id: DurableId) -> Self {
        id.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_id_is_a_valid_uuid_and_carries_its_parts() {
        for millis in [0, 1, 1_700_000_000_123, DueTime::MAX.as_millis()] {
            for counter in [0, 1, COUNTER, COUNTER + 1, u64::MAX] {
                for random in [0, 1, LOW, 1 << 62, u64::MAX] {
                    let due = DueTime::from_millis(millis).unwrap();
                    let id = DurableId::from_parts(due, counter, random);
                    assert_eq!((id.first_due(), id.random()), (due, random));
                    assert_eq!(id.as_uuid().get_version_num(), 8);
                    assert_eq!(id.as_uuid().get_variant(), uuid::Variant::RFC4122);
                    assert_eq!(id.to_string().parse(), Ok(id));
                }
            }
        }
    }

    #[test]
    fn ids_are_in_the_order_of_due_times_and_then_of_the_counter() {
        let at = |millis| DueTime::from_millis(millis).unwrap();
        let ids = [(0, 0, u64::MAX), (0, 1, 0), (0, COUNTER, 9), (1, 0, 0), (1, 0, 1), (1 << 40, 5, 0)];
        let ids = ids.map(|(due, counter, random)| DurableId::from_parts(at(due), counter, random));
        assert!(ids.is_sorted() && ids[5] < DurableId::MAX);
    }

    #[test]
    fn ids_of_a_millisecond_keep_their_order_beside_others_an_hour_or_days_later() {
        for (number, seconds) in (0..).zip([64, 256, 60, 3600, 24 * 3600, 7 * 24 * 3600]) {
            let (now, later) = (DueTime::from_millis(number).unwrap(), Duration::from_secs(seconds));
            let new = |_| (DurableId::new(now), DurableId::new(now.saturating_add(later))).0;
            assert!((0..1000).map(new).collect::<Vec<_>>().is_sorted(), "{later:?}");
        }
    }

    #[test]
    fn ids_do_not_repeat_on_one_thread_or_several() {
        let make = || (0..50_000).map(|_| DurableId::new(DueTime::MIN)).collect::<Vec<_>>();
        let elsewhere = std::thread::spawn(make).join().unwrap();
        let all: HashSet<_> = make().into_iter().chain(elsewhere).collect();
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn an_error_about_an_id_shows_its_characters_escaped() {
        let error = "\u{1b}23e4567-e89b-12d3-a456-426614174000".parse::<DurableId>().unwrap_err().to_string();
        assert!(error.contains(r"`\u{1b}`"), "{error}");
    }

    #[test]
    fn only_uuids_of_version_8_are_taken() {
        assert!(matches!("x".parse::<DurableId>(), Err(ParseDurableIdError::NotAUuid(_))));
        let version_1 = "123e4567-e89b-12d3-a456-426614174000";
        assert!(matches!(version_1.parse::<DurableId>(), Err(ParseDurableIdError::OtherVersion(_))));
        assert!(matches!(DurableId::from_uuid(Uuid::max()), Err(ParseDurableIdError::OtherVersion(_))));
    }
}

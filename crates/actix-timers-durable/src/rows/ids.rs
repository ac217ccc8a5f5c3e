//! Ids that begin with the first due time: the primary key of the rows is the index of due times.
//!
//! An id is an RFC 9562 UUID of version 8: 48 bits of milliseconds, the version, 10 bits of a counter that orders the
//! timers of one process due together, and 64 random bits around the variant.

use uuid::Uuid;

use crate::due_time::DueTime;
use crate::id::DurableId;

const COUNTER: u64 = (1 << 10) - 1;
const VERSION_8: u64 = 8 << 12;
const VARIANT: u64 = 0b10 << 62;
const LOW: u64 = u64::MAX >> 2;

/// Returns the id of a timer that is first due then, with the lower 10 bits of a counter.
pub fn id_of(due: DueTime, counter: u64, random: u64) -> DurableId {
    let high = due.as_millis() << 16 | VERSION_8 | (counter & COUNTER) << 2 | random >> 62;
    DurableId::of_uuid(Uuid::from_u64_pair(high, VARIANT | random & LOW))
}

/// Returns the smallest id of a timer that is first due then.
pub fn first_id(due: DueTime) -> DurableId {
    id_of(due, 0, 0)
}

/// Returns the first due time of a timer.
pub fn due_of(id: DurableId) -> DueTime {
    DueTime::from_millis(id.as_uuid().as_u64_pair().0 >> 16).unwrap_or(DueTime::MAX)
}

/// Returns the random bits.
pub(crate) fn random_of(id: DurableId) -> u64 {
    let (high, low) = id.as_uuid().as_u64_pair();
    high << 62 | low & LOW
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_8_and_carries_its_parts() {
        for millis in [0, 1, 1_700_000_000_123, DueTime::MAX.as_millis()] {
            for counter in [0, 1, COUNTER, COUNTER + 1, u64::MAX] {
                for random in [0, 1, LOW, 1 << 62, u64::MAX] {
                    let due = DueTime::from_millis(millis).unwrap();
                    let id = id_of(due, counter, random);
                    assert_eq!((due_of(id), random_of(id)), (due, random));
                    assert_eq!(DurableId::from_uuid(*id.as_uuid()), Ok(id));
                }
            }
        }
    }

    #[test]
    fn ids_are_in_the_order_of_due_times_and_then_of_the_counter() {
        let at = |millis| DueTime::from_millis(millis).unwrap();
        let ids = [(0, 0, u64::MAX), (0, 1, 0), (0, COUNTER, 9), (1, 0, 0), (1, 0, 1), (1 << 40, 5, 0)];
        let ids = ids.map(|(due, counter, random)| id_of(at(due), counter, random));
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| *id >= first_id(due_of(*id))));
    }
}

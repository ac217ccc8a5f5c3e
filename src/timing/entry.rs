//! The record of an entry in the arena.

use crate::timing::arena::Packed;
use crate::timing::list::{MEMBERS, Spot};
use crate::timing::tick::Tick;

/// An entry: its deadline, its location and the caller's value.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    deadline: Packed,
    /// Its chunk in its list, which is a bucket or a list of the caller.
    chunk: u32,
    place: Place,
    pub(crate) value: T,
}

/// The bucket of an entry, and below it the position in the chunk.
#[derive(Debug, Clone, Copy)]
struct Place(u32);

/// The number of a bucket, counted through all levels; none if the entry is detached: expired, and kept by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketNumber(pub(crate) u32);

impl BucketNumber {
    /// Expired: out of the wheel, still in the arena.
    pub(crate) const DETACHED: Self = Self(u32::MAX / MEMBERS);
}

impl Place {
    const fn new(bucket: BucketNumber, position: u8) -> Self {
        Self((bucket.0 * MEMBERS) | position as u32)
    }

    const fn bucket(self) -> BucketNumber {
        BucketNumber(self.0 / MEMBERS)
    }

    const fn position(self) -> u8 {
        (self.0 % MEMBERS) as u8
    }
}

impl<T> Entry<T> {
    pub(crate) const fn new(deadline: Tick, bucket: BucketNumber, spot: Spot, value: T) -> Self {
        Self { deadline: Packed(deadline), chunk: spot.chunk, place: Place::new(bucket, spot.position), value }
    }

    pub(crate) const fn deadline(&self) -> Tick {
        self.deadline.0
    }

    /// Returns the bucket, or [`BucketNumber::DETACHED`].
    pub(crate) const fn bucket(&self) -> BucketNumber {
        self.place.bucket()
    }

    /// Returns whether the entry is in the wheel.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.place.0 < Place::new(BucketNumber::DETACHED, 0).0
    }

    /// Returns its location in its list.
    pub(crate) const fn spot(&self) -> Spot {
        Spot { chunk: self.chunk, position: self.place.position() }
    }

    pub(crate) const fn set_deadline(&mut self, deadline: Tick) {
        self.deadline = Packed(deadline);
    }

    /// Puts the entry into a bucket at `spot`, or with [`BucketNumber::DETACHED`] into a list of the caller.
    pub(crate) const fn set_place(&mut self, bucket: BucketNumber, spot: Spot) {
        self.chunk = spot.chunk;
        self.place = Place::new(bucket, spot.position);
    }

    /// Takes the entry out of its bucket.
    pub(crate) const fn detach(&mut self) {
        self.place = Place::new(BucketNumber::DETACHED, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::WheelSize;
    use crate::timing::tick::MAX_TICK;

    #[test]
    fn bucket_and_position_are_kept_apart() {
        let mut entry = Entry::new(MAX_TICK, BucketNumber(7), Spot { chunk: 3, position: 31 }, ());
        assert_eq!((entry.deadline(), entry.bucket(), entry.is_waiting()), (MAX_TICK, BucketNumber(7), true));
        assert_eq!(entry.spot(), Spot { chunk: 3, position: 31 });
        entry.set_place(BucketNumber::DETACHED, Spot { chunk: u32::MAX, position: 31 });
        assert_eq!((entry.bucket(), entry.is_waiting()), (BucketNumber::DETACHED, false));
        assert_eq!(entry.spot(), Spot { chunk: u32::MAX, position: 31 });
        entry.set_deadline(1);
        entry.set_place(BucketNumber(BucketNumber::DETACHED.0 - 1), Spot { chunk: 0, position: 0 });
        assert_eq!((entry.deadline(), entry.is_waiting()), (1, true));
        entry.detach();
        assert!(!entry.is_waiting());
    }

    /// The number of levels falls with the logarithm of the wheel size.
    #[test]
    fn every_bucket_of_every_wheel_has_a_number() {
        for size in 2..=crate::timing::MAX_WHEEL_SIZE {
            let ring = WheelSize::new(size).unwrap().ring();
            let levels = MAX_TICK.ilog(size as u64) as usize + 2;
            assert!(levels * ring < BucketNumber::DETACHED.0 as usize, "{size}");
        }
    }

    #[test]
    fn a_record_has_no_padding_beside_a_value_of_four_bytes() {
        assert_eq!(size_of::<Entry<[u32; 5]>>(), 36);
    }
}

//! The record of an entry in the arena.

use crate::timing::list::{MEMBERS, Spot};
use crate::timing::tick::Tick;

/// An entry: its deadline, its location and the caller's value.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    deadline: Deadline,
    /// Its chunk in its list, which is a bucket or a list of the caller.
    chunk: u32,
    place: Place,
    pub(crate) value: T,
}

/// A tick aligned to four bytes, as the rest of the record is: no byte of it is padding.
#[derive(Debug, Clone, Copy)]
#[repr(packed(4))]
struct Deadline(Tick);

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
        Self(bucket.0 * MEMBERS | position as u32)
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
        Self { deadline: Deadline(deadline), chunk: spot.chunk, place: Place::new(bucket, spot.position), value }
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
        self.deadline = Deadline(deadline);
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

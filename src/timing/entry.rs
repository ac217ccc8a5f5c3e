//! The record of an entry in the arena.

use crate::timing::list::Spot;
use crate::timing::tick::Tick;

/// An entry: its deadline, its location and the caller's value.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) deadline: Tick,
    /// Location in its list, which is a bucket or a list of the caller: the chunk, and below the position in it.
    chunk: u32,
    pub(crate) bucket: BucketNumber,
    pub(crate) value: T,
    position: u8,
}

/// The bucket of an entry, by level and slot; none if it is detached: expired, and kept by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketNumber(u32);

impl BucketNumber {
    /// Expired: out of the wheel, still in the arena.
    pub(crate) const DETACHED: Self = Self(u32::MAX);

    pub(crate) fn new(level: usize, slot: usize, ring: usize) -> Self {
        Self((level * ring + slot) as u32)
    }

    /// Returns level and slot, if the entry is in the wheel.
    pub(crate) fn level_and_slot(self, ring: usize) -> Option<(usize, usize)> {
        (self != Self::DETACHED).then_some((self.0 as usize / ring, self.0 as usize % ring))
    }
}

impl<T> Entry<T> {
    pub(crate) fn new(deadline: Tick, value: T) -> Self {
        let Spot { chunk, position } = Spot::NOWHERE;
        Self { deadline, chunk, bucket: BucketNumber::DETACHED, value, position }
    }

    pub(crate) const fn spot(&self) -> Spot {
        Spot { chunk: self.chunk, position: self.position }
    }

    pub(crate) const fn set_spot(&mut self, spot: Spot) {
        self.chunk = spot.chunk;
        self.position = spot.position;
    }
}

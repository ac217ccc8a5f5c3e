//! What the arena stores for each entry of a wheel.

use super::list::Spot;
use super::tick::Tick;

/// The deadline, where the entry is, and the caller's value.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) deadline: Tick,
    /// Where in its list it is: that of a bucket, or of the caller.
    chunk: u32,
    pub(crate) place: Place,
    pub(crate) value: T,
    spot_place: u8,
}

/// Where an entry is: in a bucket of the wheel, or detached from it (expired, and in the caller's hands).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// Expired: out of the wheel, still in the arena.
    pub(crate) const DETACHED: Self = Self(u32::MAX);

    pub(crate) fn bucket(level: usize, slot: usize, ring: usize) -> Self {
        Self((level * ring + slot) as u32)
    }

    /// Level and slot, if the entry is in the wheel.
    pub(crate) fn level_and_slot(self, ring: usize) -> Option<(usize, usize)> {
        (self != Self::DETACHED).then_some((self.0 as usize / ring, self.0 as usize % ring))
    }
}

impl<T> Entry<T> {
    pub(crate) fn new(deadline: Tick, value: T) -> Self {
        let Spot { chunk, place } = Spot::NOWHERE;
        Self { deadline, chunk, place: Place::DETACHED, value, spot_place: place }
    }

    pub(crate) const fn spot(&self) -> Spot {
        Spot { chunk: self.chunk, place: self.spot_place }
    }

    pub(crate) const fn set_spot(&mut self, spot: Spot) {
        self.chunk = spot.chunk;
        self.spot_place = spot.place;
    }
}

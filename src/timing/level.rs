//! One level of the wheel: a ring of buckets, and the arithmetic that finds a bucket for a tick.
//!
//! The *width* of a level is the number of ticks per bucket, its *span* the number of ticks per turn: the span of a
//! level is the width of the level above. The ring holds two turns, not one: the clock's current turn and the next, so
//! that a bucket of the level above can cascade before its time.

use super::entry::BucketNumber;
use super::tick::{Tick, TimingError};

/// The largest wheel size.
pub const MAX_WHEEL_SIZE: usize = 65_536;

/// The number of buckets per turn of a level.
///
/// ```
/// use actix_timers::timing::WheelSize;
///
/// assert_eq!(WheelSize::default().get(), 256);
/// assert!(WheelSize::new(20).is_ok(), "any size will do, not only a power of two");
/// assert!(WheelSize::new(1).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WheelSize(u32);

impl WheelSize {
    /// Returns a wheel size of `buckets`, if it is in range.
    ///
    /// # Errors
    /// [`TimingError::WheelSize`] outside of `2..=`[`MAX_WHEEL_SIZE`].
    pub const fn new(buckets: usize) -> Result<Self, TimingError> {
        if buckets < 2 || buckets > MAX_WHEEL_SIZE {
            return Err(TimingError::WheelSize(buckets));
        }
        Ok(Self(buckets as u32))
    }

    /// Returns the number of buckets.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of buckets in the ring of a level: two turns.
    pub(crate) const fn ring(self) -> usize {
        2 * self.0 as usize
    }
}

impl Default for WheelSize {
    /// 256 buckets: with ticks of a millisecond the levels turn in 256 ms, 65 s, 4.6 h and 49 days.
    fn default() -> Self {
        Self(256)
    }
}

/// Returns the ticks that one turn covers; saturates.
pub(crate) fn span_of(width: u64, size: WheelSize) -> u64 {
    width.saturating_mul(size.get() as u64)
}

/// The division of a tick into a slot: by the width of a bucket, and then by the number of buckets in the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    width: u64,
    ring: u32,
    /// The number of the bucket in slot 0.
    first: u32,
    /// If both are powers of two: the mask that divides by the ring, else 0; and the shift that divides by the width.
    mask: u32,
    shift: u32,
}

impl Grid {
    pub(crate) const fn new(level: usize, width: u64, ring: usize) -> Self {
        let mask = if width.is_power_of_two() && ring.is_power_of_two() { ring as u32 - 1 } else { 0 };
        Self { width, ring: ring as u32, first: (level * ring) as u32, mask, shift: width.trailing_zeros() }
    }

    /// Returns the slot of the bucket that covers `tick`.
    #[inline]
    pub(crate) const fn slot(&self, tick: Tick) -> usize {
        if self.mask == 0 {
            return ((tick / self.width) % self.ring as u64) as usize;
        }
        (tick >> (self.shift % u64::BITS)) as usize & self.mask as usize
    }

    /// Returns the bucket that covers `tick`.
    #[inline]
    pub(crate) const fn bucket(&self, tick: Tick) -> BucketNumber {
        BucketNumber(self.first + self.slot(tick) as u32)
    }

    /// Returns the bucket in a slot.
    #[inline]
    pub(crate) const fn bucket_in(&self, slot: usize) -> BucketNumber {
        BucketNumber(self.first + slot as u32)
    }

    /// Returns the first tick of the bucket that is `distance` buckets after the one that covers `tick`; saturates.
    #[inline]
    pub(crate) const fn start(&self, tick: Tick, distance: usize) -> Tick {
        let bucket = if self.mask == 0 { tick / self.width } else { tick >> (self.shift % u64::BITS) };
        (bucket + distance as u64).saturating_mul(self.width)
    }

    /// Returns the slot with this number of slots after the first one, at most two turns.
    #[inline]
    pub(crate) const fn wrap(&self, slot: usize) -> usize {
        if slot >= self.ring as usize { slot - self.ring as usize } else { slot }
    }
}

/// Returns the first tick after the turn of `span` ticks that contains `tick`; saturates.
pub(crate) fn turn_end(tick: Tick, span: u64) -> Tick {
    (tick / span + 1).saturating_mul(span)
}

/// Returns the first tick not before `tick` at which a turn of `span` ticks begins; saturates.
pub(crate) fn turn_start_from(tick: Tick, span: u64) -> Tick {
    tick.div_ceil(span).saturating_mul(span)
}

/// A ring of buckets with a common width.
#[derive(Debug)]
pub(crate) struct Level {
    /// Ticks per bucket.
    pub(crate) width: u64,
    /// Ticks per turn.
    pub(crate) span: u64,
    pub(crate) grid: Grid,
    /// Entries due before this tick are on this level or below, later ones above: see [`Wheel`](super::Wheel).
    pub(crate) frontier: Tick,
    /// The first tick of the bucket whose cascade has begun and not ended.
    pub(crate) cascading: Option<Tick>,
    /// Buckets of this level that have cascaded, and the entries that were in them.
    pub(crate) cascades: u64,
    pub(crate) cascaded: u64,
}

impl Level {
    pub(crate) fn new(level: usize, width: u64, size: WheelSize, not_before: Tick) -> Self {
        let span = span_of(width, size);
        Self {
            width,
            span,
            grid: Grid::new(level, width, size.ring()),
            frontier: turn_start_from(not_before, span),
            cascading: None,
            cascades: 0,
            cascaded: 0,
        }
    }
}

#[cfg(test)]
mod tests;

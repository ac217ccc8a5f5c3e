//! Snapshots of a wheel: counts per level and per bucket.

use crate::timing::level::Level;
use crate::timing::tick::Tick;
use crate::timing::wheel::Wheel;

/// The counts of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelStats {
    /// The level; 0 has the finest buckets.
    pub level: usize,
    /// Ticks that one bucket covers.
    pub bucket_ticks: u64,
    /// Buckets in one turn: the wheel size.
    pub buckets: usize,
    /// Non-empty buckets. While a bucket of the level above cascades into the next turn, this can exceed `buckets`.
    pub occupied: usize,
    /// Entries on this level.
    pub entries: usize,
    /// Entries in the fullest bucket.
    pub fullest: usize,
    /// Buckets of this level that have cascaded, since the start.
    pub cascades: u64,
    /// Entries that were in these buckets.
    pub cascaded: u64,
}

/// One non-empty bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketSnapshot {
    /// The first tick it covers, which is when it expires.
    pub start: Tick,
    /// Entries in it.
    pub entries: usize,
}

/// One level with its non-empty buckets in the order of their expiration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSnapshot {
    /// The counts of the level.
    pub stats: LevelStats,
    /// Its non-empty buckets.
    pub buckets: Vec<BucketSnapshot>,
}

/// A snapshot of a whole wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelSnapshot {
    /// The tick up to which all entries have expired.
    pub clock: Tick,
    /// All entries, including expired ones that the caller still holds.
    pub entries: usize,
    /// Buckets in the delay queue.
    pub queued_buckets: usize,
    /// Expiration of the head of the delay queue.
    pub next_expiration: Option<Tick>,
    /// The levels, finest first.
    pub levels: Vec<LevelSnapshot>,
}

impl<T> Wheel<T> {
    /// Returns the counts of each level, without a look at each entry.
    pub fn level_stats(&self) -> impl Iterator<Item = LevelStats> {
        self.levels.iter().enumerate().map(|(level, ring)| self.stats_of(level, ring))
    }

    /// Returns the counts of one level.
    pub(crate) fn stats_of_level(&self, level: usize) -> Option<LevelStats> {
        Some(self.stats_of(level, self.levels.get(level)?))
    }

    fn stats_of(&self, level: usize, ring: &Level) -> LevelStats {
        // Only the occupied buckets: they are few when little is pending.
        let lengths = self.queue.slots(level).map(|slot| self.bucket(level, slot).len());
        let (entries, fullest) = lengths.fold((0, 0), |(sum, most), len| (sum + len, len.max(most)));
        LevelStats {
            level,
            bucket_ticks: ring.width,
            buckets: self.size.get(),
            occupied: self.queue.occupied(level),
            entries,
            fullest,
            cascades: ring.cascades,
            cascaded: ring.cascaded,
        }
    }

    /// Returns the number of ticks that one bucket of a level covers.
    #[doc(hidden)]
    pub fn bucket_ticks(&self, level: usize) -> Option<u64> {
        self.levels.get(level).map(|ring| ring.width)
    }

    /// Returns a snapshot of the whole wheel, bucket by bucket.
    pub fn snapshot(&self) -> WheelSnapshot {
        let levels = self.level_stats().map(|stats| self.level_snapshot(stats)).collect();
        WheelSnapshot {
            clock: self.clock,
            entries: self.len(),
            queued_buckets: self.queued_buckets(),
            next_expiration: self.next_expiration(),
            levels,
        }
    }

    fn level_snapshot(&self, stats: LevelStats) -> LevelSnapshot {
        LevelSnapshot { stats, buckets: self.buckets_from(stats.level, 0).collect() }
    }

    /// Returns the non-empty buckets of a level that begin at `start` or later, in the order of their expiration. A
    /// caller that reads a large wheel in several steps continues with the tick after the last start.
    ///
    /// All buckets of a level expire before the buckets of the levels above.
    pub(crate) fn buckets_from(&self, level: usize, start: Tick) -> impl Iterator<Item = BucketSnapshot> {
        let after = move |bucket: &BucketSnapshot| self.bucket_from(level, bucket.start.checked_add(1)?);
        std::iter::successors(self.bucket_from(level, start), after)
    }

    fn bucket_from(&self, level: usize, start: Tick) -> Option<BucketSnapshot> {
        let ring = self.levels.get(level)?;
        let (slots, first) = (self.size.ring(), self.first_tick(level) / ring.width);
        let from = start.div_ceil(ring.width).max(first);
        let passed = usize::try_from(from - first).ok().filter(|passed| *passed < slots)?;
        let slot = (from % slots as u64) as usize;
        let distance = self.queue.distance(level, slot)?;
        // The search wraps around the ring: beyond its end are buckets before `start`.
        (passed + distance < slots).then(|| BucketSnapshot {
            start: (from + distance as u64).saturating_mul(ring.width),
            entries: self.bucket(level, ring.grid.wrap(slot + distance)).len(),
        })
    }

    /// Returns whether an entry in the wheel is due by `until`. Any entry of a bucket that ends by then is: of each
    /// level only the bucket in which `until` lies is searched beyond its first entry.
    pub(crate) fn has_due_by(&self, until: Tick) -> bool {
        (0..self.depth()).any(|level| {
            let buckets = self.buckets_from(level, 0).take_while(|bucket| bucket.start <= until);
            let mut keys = buckets.flat_map(|bucket| self.entries_of_bucket(level, bucket.start));
            keys.any(|key| self.deadline(key).is_some_and(|deadline| deadline <= until))
        })
    }

    /// Returns the entries of the bucket of `level` that begins at `start`, in the order of insertion.
    pub(crate) fn entries_of_bucket(&self, level: usize, start: Tick) -> impl Iterator<Item = crate::timing::Key> {
        let is_there = self.buckets_from(level, start).next().is_some_and(|bucket| bucket.start == start);
        let ring = self.levels.get(level).filter(|_| is_there);
        let bucket = ring.map(|ring| *self.bucket(level, ring.grid.slot(start)));
        bucket.into_iter().flat_map(|bucket| bucket.iter(&self.chunks)).filter_map(|index| self.entries.key_at(index))
    }
}

#[cfg(test)]
mod tests;

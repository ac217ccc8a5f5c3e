//! What a wheel looks like inside: counts per level and per bucket.

use super::tick::Tick;

/// One level in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelStats {
    /// The level; 0 has the finest buckets.
    pub level: usize,
    /// Ticks that one bucket covers.
    pub bucket_ticks: u64,
    /// Buckets in one turn: the wheel size.
    pub buckets: usize,
    /// Buckets that are not empty. While a bucket of the level above is being spread over the next turn, this can
    /// exceed `buckets`.
    pub occupied: usize,
    /// Entries on this level.
    pub entries: usize,
    /// Entries in the fullest bucket.
    pub fullest: usize,
    /// Buckets of this level that have been spread over the level below, since the start.
    pub cascades: u64,
    /// Entries that were in those.
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
    /// The level in numbers.
    pub stats: LevelStats,
    /// Its non-empty buckets.
    pub buckets: Vec<BucketSnapshot>,
}

/// A whole wheel at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelSnapshot {
    /// The tick up to which everything has expired.
    pub clock: Tick,
    /// All entries, those included that have expired and are still held by the caller.
    pub entries: usize,
    /// Buckets in the delay queue.
    pub queued_buckets: usize,
    /// When its head expires.
    pub next_expiration: Option<Tick>,
    /// The levels, finest first.
    pub levels: Vec<LevelSnapshot>,
}

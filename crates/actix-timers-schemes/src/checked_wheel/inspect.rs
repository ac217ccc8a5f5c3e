//! Invariants of the wheel, checked from outside.

use actix_timers::timing::{LevelStats, Tick};

use super::CheckedWheel;

impl CheckedWheel {
    /// Returns the number of entries cascaded so far.
    pub(super) fn cascaded(&self) -> u64 {
        self.wheel.level_stats().map(|level| level.cascaded).sum()
    }

    /// Checks the counts, without a look into the buckets.
    pub(super) fn inspect(&mut self) {
        let wheel = &self.wheel;
        assert_eq!(wheel.len(), self.waiting.len() + self.detached);
        assert_eq!(wheel.is_empty(), self.waiting.is_empty() && self.detached == 0);
        assert_eq!(self.held.len(), self.held_model.len());
        let first_held = self.held_model.front().map(|number| self.issued[*number].key);
        assert_eq!(wheel.first_held(&self.held), first_held, "a list keeps its order");

        let (mut entries, mut occupied, mut levels) = (0, 0, 0);
        for (level, stats) in wheel.level_stats().enumerate() {
            self.inspect_level(level, stats);
            entries += stats.entries;
            occupied += stats.occupied;
            levels += 1;
        }
        assert_eq!((entries, occupied), (self.waiting.len(), wheel.queued_buckets()), "each waiting entry has a level");
        assert_eq!(levels, wheel.depth());

        let next = wheel.next_expiration();
        match (next, self.earliest()) {
            (None, None) => {}
            (Some(next), Some(earliest)) => assert!(next <= earliest, "{next} is after the deadline {earliest}"),
            (next, earliest) => panic!("next expiration {next:?}, earliest deadline {earliest:?}"),
        }
        for pace in [1, 16, usize::MAX] {
            let wake = wheel.next_wake(pace);
            assert!(wake <= next && wake.is_some() == next.is_some(), "the driver wakes up in time");
        }
    }

    fn inspect_level(&self, level: usize, stats: LevelStats) {
        let LevelStats { bucket_ticks, buckets, occupied, entries, fullest, .. } = stats;
        let size = self.size as u64;
        assert_eq!((stats.level, buckets), (level, self.size));
        assert_eq!(bucket_ticks, size.saturating_pow(level as u32), "an upper tick is the lower interval");
        assert!(occupied <= 2 * buckets && occupied <= entries, "no more buckets than there are, or entries");
        assert!(fullest <= entries && entries <= occupied * fullest, "{entries} entries in {occupied} buckets");
    }

    /// Checks the whole snapshot, and each entry in its bucket. Costs a look at everything.
    pub fn inspect_buckets(&self) {
        let snapshot = self.wheel.snapshot();
        assert_eq!((snapshot.entries, snapshot.queued_buckets), (self.wheel.len(), self.wheel.queued_buckets()));
        assert_eq!(snapshot.next_expiration, self.wheel.next_expiration());
        assert!(snapshot.clock >= self.clock && snapshot.clock <= self.latest, "the clock follows time");
        let reach = self.wheel.horizon();
        assert_eq!(reach, (self.size as u64).saturating_pow(snapshot.levels.len() as u32));

        let mut first: Option<Tick> = None;
        for level in &snapshot.levels {
            assert_eq!(level.buckets.len(), level.stats.occupied);
            assert_eq!(level.buckets.iter().map(|bucket| bucket.entries).sum::<usize>(), level.stats.entries);
            assert_eq!(level.buckets.iter().map(|bucket| bucket.entries).max().unwrap_or(0), level.stats.fullest);
            assert!(level.buckets.is_sorted_by(|left, right| left.start < right.start));
            assert!(level.buckets.iter().all(|bucket| bucket.start % level.stats.bucket_ticks == 0));
            let start = level.buckets.first().map(|bucket| bucket.start);
            first = first.into_iter().chain(start).min();
        }
        assert_eq!(first, snapshot.next_expiration, "the bucket that begins first expires first");

        let mut alive = 0;
        for (key, deadline, number) in self.wheel.iter() {
            alive += 1;
            assert_eq!(self.issued[*number].key, key);
            assert_eq!((self.wheel.deadline(key), self.wheel.key_at(key.index())), (Some(deadline), Some(key)));
            if let Some((level, start)) = self.wheel.bucket_of(key) {
                let in_snapshot = &snapshot.levels[level];
                assert!(in_snapshot.buckets.iter().any(|bucket| bucket.start == start), "its bucket is listed");
                assert!(start <= deadline && deadline - start < in_snapshot.stats.bucket_ticks);
            }
        }
        assert_eq!(alive, self.wheel.len());
    }
}

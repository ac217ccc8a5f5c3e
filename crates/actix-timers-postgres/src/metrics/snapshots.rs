//! The age of the oldest snapshot of the database.
//!
//! A snapshot is known by the first transaction that it does not see as ended; replication slots have no time, and that
//! of other users' transactions is hidden. So the keeper remembers which transaction was the next one at its looks.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of looks from which some are forgotten: those closer to the previous one than this part of their age.
const REMEMBERED: usize = 1024;
const PRECISION: u32 = 32;

/// Returns the next transaction, the distance of the oldest one that a snapshot needs, and the age of the oldest
/// transaction whose time is visible. Sessions of other databases do not hold back vacuum, nor does autovacuum, which has
/// no user.
pub(crate) const SQL: &str = "
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, max(s.behind)::bigint, max(s.seconds)::float8 FROM (
        SELECT greatest(age(a.backend_xmin), age(a.backend_xid)) AS behind,
            extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds
        FROM pg_stat_activity a
        WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.pid <> pg_backend_pid()
            AND (a.datname = current_database() OR a.datname IS NULL) AND a.usesysid IS NOT NULL
        UNION ALL
        SELECT age(p.transaction), extract(epoch FROM clock_timestamp() - p.prepared)
        FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT age(r.xmin), NULL FROM pg_replication_slots r WHERE r.xmin IS NOT NULL
    ) s";

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Times, and the next transactions then, both ascending.
    looks: VecDeque<(Duration, i64)>,
}

impl Snapshots {
    /// Returns the age of the oldest snapshot, whose transaction is `behind` the next one. Of snapshots from before the
    /// first look it is the time since that.
    pub(crate) fn age(&mut self, now: Duration, next: i64, behind: Option<i64>) -> Duration {
        if self.looks.back().is_some_and(|(_, last)| next < *last) {
            // Another server has lost some transactions.
            self.looks.clear();
        }
        self.looks.push_back((now, next));
        if self.looks.len() > REMEMBERED {
            let mut previous = None;
            self.looks.retain(|(time, _)| {
                let gap = now.saturating_sub(*time) / PRECISION;
                let is_kept = previous.is_none_or(|previous| time.saturating_sub(previous) >= gap);
                if is_kept {
                    previous = Some(*time);
                }
                is_kept
            });
        }
        let Some(behind) = behind else { return Duration::ZERO };
        let oldest = next.saturating_sub(behind);
        let first_later = self.looks.partition_point(|(_, next)| *next <= oldest);
        self.looks.get(first_later).map_or(Duration::ZERO, |(time, _)| now.saturating_sub(*time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_age_is_the_time_since_the_transaction_was_the_next_one() {
        let mut snapshots = Snapshots::default();
        assert_eq!(snapshots.age(seconds(100), 5000, None), Duration::ZERO);
        assert_eq!(snapshots.age(seconds(102), 5100, Some(0)), Duration::ZERO);
        // Transaction 5100 is still needed, which had not begun at 102 s.
        assert_eq!(snapshots.age(seconds(104), 5200, Some(100)), seconds(0));
        assert_eq!(snapshots.age(seconds(106), 5300, Some(200)), seconds(2));
        assert_eq!(snapshots.age(seconds(200), 9000, Some(3900)), seconds(96));
        assert_eq!(snapshots.age(seconds(202), 9100, Some(4001)), seconds(100), "5099, which began before 102 s");
        assert_eq!(snapshots.age(seconds(202), 9100, Some(9000)), seconds(102), "at least since the first look");
        assert_eq!(snapshots.age(seconds(204), 9200, Some(10)), Duration::ZERO, "it has ended");
    }

    #[test]
    fn a_server_that_has_lost_transactions_begins_again() {
        let mut snapshots = Snapshots::default();
        _ = snapshots.age(seconds(1), 5000, None);
        assert_eq!(snapshots.age(seconds(9), 4000, Some(3000)), Duration::ZERO);
        assert_eq!(snapshots.age(seconds(12), 4100, Some(3000)), seconds(3));
    }

    #[test]
    fn a_long_run_needs_no_more_memory_and_ages_stay_right() {
        let mut snapshots = Snapshots::default();
        for look in 0..100_000_u64 {
            let behind = (look * 10).cast_signed();
            // A snapshot of the beginning.
            let age = snapshots.age(seconds(look * 2), behind + 500, Some(behind));
            let whole = seconds(look * 2);
            assert!(age <= whole && age + seconds(2) >= whole * 9 / 10, "{age:?} of {whole:?}");
            assert!(snapshots.looks.len() <= REMEMBERED);
        }
    }
}

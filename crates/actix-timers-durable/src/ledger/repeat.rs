//! The change after a delivery, and the next time of a repetition.

use std::sync::Arc;
use std::time::Duration;

use actix_timers::integration::next_on_grid;

use super::request::Verdict;
use crate::calendar;
use crate::due_time::DueTime;
use crate::record::{Record, RecordState, RepeatMode};
use crate::store::Change;

/// Maximum stored bytes of a reason, which is the text of an arbitrary error.
const MAX_REASON_LEN: usize = 1024;

/// Returns the change to write after this verdict on the delivery of `record`.
pub(super) fn change_after(record: &Record, verdict: Verdict, now: DueTime) -> Change {
    let (id, progress) = (record.id, record.progress);
    let at = Some(progress.due);
    match verdict {
        Verdict::Complete => match next(record, now) {
            Some(to) => Change::Move { id, at, to },
            None => Change::Remove { id, at },
        },
        Verdict::Retry { due } => {
            Change::Move { id, at, to: RecordState { due, attempt: progress.attempt.saturating_add(1), ..progress } }
        }
        Verdict::DeadLetter { reason } => {
            Change::DeadLetter { id, at, reason: shortened(reason), dead_at: now, then: next(record, now) }
        }
        Verdict::Undelivered { again } => Change::Move { id, at, to: RecordState { due: again, ..progress } },
        Verdict::Park => Change::Park { id, at },
    }
}

/// Returns whether this build can compute the times of the timer's repetition, if any.
pub(super) fn can_follow(record: &Record) -> bool {
    match record.repeat.as_ref().map(|repeat| &repeat.mode) {
        Some(RepeatMode::Cron { expression, zone }) => calendar::is_known(expression, zone),
        Some(RepeatMode::FixedRate { .. }) | None => true,
    }
}

/// Returns the repetition after the one that has ended now; none if that was the last.
fn next(record: &Record, now: DueTime) -> Option<RecordState> {
    let repeat = record.repeat.as_ref()?;
    let RecordState { nominal, repetition, .. } = record.progress;
    if repeat.times.is_some_and(|times| repetition >= times) {
        return None;
    }
    let due = match &repeat.mode {
        RepeatMode::FixedRate { period, missed } => {
            let period =
                Duration::from_millis(period.as_nanos().div_ceil(1_000_000).clamp(1, MAX_PERIOD_MS).try_into().ok()?);
            let time = |due: DueTime| Duration::from_millis(due.as_millis());
            let due = next_on_grid(time(nominal), period, *missed, time(now));
            DueTime::from_millis(due.as_millis().try_into().ok()?).ok()?
        }
        // Passed times are skipped, and after a step back of the clock none is repeated.
        RepeatMode::Cron { expression, zone } => calendar::next_after(expression, zone, now.max(nominal))?,
    };
    let is_in_time = repeat.until.is_none_or(|until| due <= until);
    is_in_time.then_some(RecordState { due, nominal: due, attempt: 1, repetition: repetition.saturating_add(1) })
}

const MAX_PERIOD_MS: u128 = DueTime::MAX.as_millis() as u128;

fn shortened(reason: Arc<str>) -> Arc<str> {
    if reason.len() <= MAX_REASON_LEN {
        return reason;
    }
    let end = (0..=MAX_REASON_LEN).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    Arc::from(&reason[..end])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::record::{Missed, StoredRepeat};
    use crate::{DurableId, RetryPolicy};

    fn at(millis: u64) -> DueTime {
        DueTime::from_millis(millis).unwrap()
    }

    fn every(period: Duration, missed: Missed, times: Option<u64>, until: Option<u64>) -> Record {
        let repeat = StoredRepeat { mode: RepeatMode::FixedRate { period, missed }, times, until: until.map(at) };
        Record {
            id: DurableId::from_parts(0, at(1000), 7),
            progress: RecordState { due: at(1200), nominal: at(1000), attempt: 3, repetition: 1 },
            sequence: 0,
            route: "route".into(),
            message_type: "type".into(),
            message_version: 1,
            key: None,
            repeat: Some(repeat),
            retry: None::<RetryPolicy>,
            headers: Default::default(),
            payload_codec: None,
            payload: Arc::new([]),
        }
    }

    fn due_after(record: &Record, now: u64) -> Option<u64> {
        next(record, at(now)).map(|progress| {
            assert_eq!(
                (progress.nominal, progress.attempt, progress.repetition),
                (progress.due, 1, record.progress.repetition + 1)
            );
            progress.due.as_millis()
        })
    }

    #[test]
    fn the_grid_goes_on_from_the_nominal_time_and_missed_points_are_as_the_policy_says() {
        let second = Duration::from_secs(1);
        for (missed, next) in [(Missed::Skip, 61_000), (Missed::Burst, 2000), (Missed::Delay, 61_000)] {
            assert_eq!(due_after(&every(second, missed, None, None), 60_000), Some(next));
            assert_eq!(due_after(&every(second, missed, None, None), 1700), Some(2000), "none was missed");
            assert_eq!(due_after(&every(second, missed, None, None), 400), Some(2000), "the clock went back");
        }
        assert_eq!(due_after(&every(second, Missed::Delay, None, None), 60_300), Some(61_300));
    }

    #[test]
    fn it_ends_after_so_many_times_or_at_its_end() {
        let second = Duration::from_secs(1);
        assert_eq!(due_after(&every(second, Missed::Skip, Some(1), None), 1300), None);
        assert_eq!(due_after(&every(second, Missed::Skip, Some(2), None), 1300), Some(2000));
        assert_eq!(due_after(&every(second, Missed::Skip, None, Some(1999)), 1300), None);
        assert_eq!(due_after(&every(second, Missed::Skip, None, Some(2000)), 1300), Some(2000));
    }

    #[test]
    fn no_period_is_shorter_than_a_millisecond_or_beyond_the_range() {
        assert_eq!(due_after(&every(Duration::ZERO, Missed::Burst, None, None), 1300), Some(1001));
        assert_eq!(due_after(&every(Duration::from_nanos(1_000_001), Missed::Burst, None, None), 1300), Some(1002));
        assert_eq!(due_after(&every(Duration::MAX, Missed::Burst, None, None), 1300), None);
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let reason = shortened("ä".repeat(MAX_REASON_LEN).into());
        assert_eq!(&*reason, "ä".repeat(MAX_REASON_LEN / 2));
        let odd = shortened(format!("x{}", "ä".repeat(MAX_REASON_LEN)).into());
        assert_eq!(odd.len(), MAX_REASON_LEN - 1);
    }
}

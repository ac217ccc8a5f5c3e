//! The end of a delivery: from the answer of its handler to the next state of its row.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use actix_timers::integration::next_on_grid;

use super::calendar;
use super::due_time::DueTime;
use super::envelope::{Then, UnderWay};
use super::record::{RepeatMode, RetryPolicy};
use super::reply::Answer;
use super::store::{Again, Next, Note, Record};

/// The maximum length of a stored reason, which is the text of an arbitrary error.
const MAX_REASON_LEN: usize = 1024;

/// Returns the state after a delivery whose handler has answered, or exceeded its time-out, with a note if its route keeps a
/// past.
pub(super) fn after_delivery(under_way: &UnderWay, retry: &RetryPolicy, answer: Answer, now: DueTime) -> Next {
    let record = &under_way.record;
    let Some(began) = under_way.noted_since else { return after_answer(record, retry, answer, now) };
    let error = match &answer {
        Ok(answer) => answer.as_ref().err().map(ToString::to_string),
        Err(missing) => Some(missing.to_string()),
    };
    let result = under_way.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let took = now.saturating_since(began);
    noted(record, after_answer(record, retry, answer, now), error.as_deref(), took, result)
}

/// Adds a note for the past.
pub(super) fn noted(
    record: &Record,
    next: Next,
    error: Option<&str>,
    took: Duration,
    result: Option<Arc<str>>,
) -> Next {
    let (outcome, error) = match &next {
        Next::Snooze(_) | Next::Park { .. } => return next,
        Next::Dead { reason, .. } => (Some("dead"), Some(Arc::clone(reason))),
        Next::Again(again) if again.repetition == record.progress.repetition => (None, error.map(shortened)),
        _ => (Some("complete"), None),
    };
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Next::Noted(Box::new(next), Box::new(Note { took_ms, outcome, error, result }))
}

fn after_answer(record: &Record, retry: &RetryPolicy, answer: Answer, now: DueTime) -> Next {
    let (reason, is_permanent) = match answer {
        Ok(Ok(())) => {
            let complete = || record.keep_key.map_or(Next::Delete, Next::KeepKey);
            return next_repetition(record, now).map_or_else(complete, Next::Again);
        }
        Ok(Err(error)) => match error.then() {
            Then::SnoozeAfter(delay) => return Next::Snooze(now.saturating_add(delay)),
            Then::SnoozeUntil(at) => return Next::Snooze(DueTime::at_or_after(at).unwrap_or(DueTime::MAX)),
            then => (error.to_string(), then == Then::Dead),
        },
        Err(missing) => (missing.to_string(), false),
    };
    let progress = record.progress;
    if is_permanent || progress.used >= retry.attempts {
        return dead(record, &reason, now);
    }
    let random = mixed(record.id.random() ^ u64::from(progress.attempt) ^ progress.repetition << 32);
    let due = now.saturating_add(retry.delay_after(progress.used, random));
    Next::Again(Again { due, nominal: progress.nominal, repetition: progress.repetition })
}

/// Returns the state after the death of a process that delivered nothing but this timer.
pub(super) fn after_blame(record: &Record, retry: &RetryPolicy, now: DueTime) -> Next {
    let reason = format!(
        "the process ended during attempt {}, with no other delivery under way ({} allowed)",
        record.progress.attempt, retry.attempts
    );
    dead(record, &reason, now)
}

/// Returns the reason why this build cannot follow a timer's repetition, if so.
pub(super) fn unknown_repetition(record: &Record) -> Option<Arc<str>> {
    match record.repeat.as_ref().map(|repeat| &repeat.mode) {
        Some(RepeatMode::Cron { expression, zone }) if !calendar::is_known(expression, zone) => {
            Some(format!("this build does not know the times of the cron expression {expression:?} in {zone:?}").into())
        }
        _ => None,
    }
}

/// Returns the state of a timer that is parked.
pub(super) fn parked(reason: &str) -> Next {
    Next::Park { reason: shortened(reason) }
}

fn dead(record: &Record, reason: &str, now: DueTime) -> Next {
    Next::Dead { reason: shortened(reason), then: next_repetition(record, now) }
}

/// Returns the repetition after the one that has ended now; none if that was the last.
fn next_repetition(record: &Record, now: DueTime) -> Option<Again> {
    let repeat = record.repeat.as_ref()?;
    let (nominal, repetition) = (record.progress.nominal, record.progress.repetition);
    if repeat.times.is_some_and(|times| repetition >= times) {
        return None;
    }
    let due = match &repeat.mode {
        RepeatMode::FixedRate { period, missed } => {
            let period = period.as_nanos().div_ceil(1_000_000).clamp(1, MAX_PERIOD_MS).try_into().ok()?;
            let time = |due: DueTime| Duration::from_millis(due.as_millis());
            let due = next_on_grid(time(nominal), Duration::from_millis(period), *missed, time(now));
            DueTime::from_millis(due.as_millis().try_into().ok()?).ok()?
        }
        // Passed times are skipped, and after a step back of the clock none is repeated.
        RepeatMode::Cron { expression, zone } => calendar::next_after(expression, zone, now.max(nominal))?,
    };
    let is_in_time = repeat.until.is_none_or(|until| due <= until);
    is_in_time.then_some(Again { due, nominal: due, repetition: repetition.saturating_add(1) })
}

const MAX_PERIOD_MS: u128 = DueTime::MAX.as_millis() as u128;

/// Returns a text of bounded length that all stores can keep.
pub(super) fn shortened(reason: &str) -> Arc<str> {
    let end = (0..=MAX_REASON_LEN.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    reason[..end].replace('\0', "\u{fffd}").into()
}

/// Mixes `bits` so that each bit of the result depends on all of them (the finalizer of SplitMix64): stateless jitter
/// that differs by timer and attempt.
const fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// Returns the due time of the next message, retries aside, if one follows.
pub(super) fn nominal_after(next: &Next) -> Option<DueTime> {
    match next.split().0 {
        Next::Again(again) | Next::Dead { then: Some(again), .. } => Some(again.nominal),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::record::{Missed, StoredRepeat};
    use crate::reply::NoReply;
    use crate::store::Progress;
    use crate::{DurableId, HandlerError};

    fn at(millis: u64) -> DueTime {
        DueTime::from_millis(millis).unwrap()
    }

    fn repeating(mode: RepeatMode, times: Option<u64>, until: Option<u64>) -> Record {
        Record {
            id: DurableId::from_parts(at(1000), 0, 7),
            progress: Progress { due: at(1200), nominal: at(1000), repetition: 1, attempt: 3, used: 2 },
            route: "route".into(),
            message_type: "type".into(),
            message_version: 1,
            key: None,
            keep_key: None,
            repeat: Some(StoredRepeat { mode, times, until: until.map(at) }),
            max_attempts: None,
            retry: None,
            headers: Default::default(),
            payload_codec: None,
            payload: Arc::new([]),
        }
    }

    fn every(period: Duration, missed: Missed, times: Option<u64>, until: Option<u64>) -> Record {
        repeating(RepeatMode::FixedRate { period, missed }, times, until)
    }

    fn once() -> Record {
        Record { repeat: None, ..every(Duration::ZERO, Missed::Skip, None, None) }
    }

    fn after(record: &Record, answer: Answer, now: u64) -> Next {
        let retry = RetryPolicy::default().max_attempts(3).jitter_percent(0);
        after_answer(record, &retry, answer, at(now))
    }

    fn failed(reason: &str) -> Answer {
        Ok(Err(HandlerError::new(reason)))
    }

    fn due_after(record: &Record, now: u64) -> Option<u64> {
        match after(record, Ok(Ok(())), now) {
            Next::Delete => None,
            Next::Again(again) => {
                assert_eq!((again.nominal, again.repetition), (again.due, 2));
                Some(again.due.as_millis())
            }
            other => panic!("{other:?}"),
        }
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
    fn a_failure_is_retried_while_the_budget_lasts_and_then_the_series_goes_on_without_it() {
        let record = every(Duration::from_secs(1), Missed::Skip, None, None);
        let retried = Next::Again(Again { due: at(3300), nominal: at(1000), repetition: 1 });
        assert_eq!(after(&record, failed("no"), 1300), retried, "the second delay");
        assert_eq!(after(&record, Err(NoReply::Overdue(Duration::from_secs(30))), 1300), retried);
        assert_eq!(after(&record, Err(NoReply::Lost(None)), 1300), retried);
        let next = Some(Again { due: at(2000), nominal: at(2000), repetition: 2 });
        let permanent = Ok(Err(HandlerError::permanent("never")));
        assert_eq!(after(&record, permanent, 1300), Next::Dead { reason: "never".into(), then: next });
        let mut used_up = once();
        used_up.progress.used = 3;
        assert_eq!(after(&used_up, failed("no"), 1300), Next::Dead { reason: "no".into(), then: None });
        let late = Err(NoReply::Overdue(Duration::from_secs(30)));
        let Next::Dead { reason, .. } = after(&used_up, late, 1300) else { panic!("it is dead") };
        assert_eq!(&*reason, "the handler had not ended after 30s");
        let Next::Dead { reason, then } = after_blame(&record, &RetryPolicy::default(), at(1300)) else {
            panic!("it is dead")
        };
        assert!(reason.contains("during attempt 3") && then == next, "{reason} {then:?}");
    }

    #[test]
    fn jitter_differs_by_timer_attempt_and_repetition_and_only_shortens() {
        let retry = RetryPolicy::default();
        let due = |change: fn(&mut Record)| {
            let mut record = once();
            change(&mut record);
            let Next::Again(again) = after_answer(&record, &retry, failed("no"), at(0)) else { panic!("a retry") };
            again.due.as_millis()
        };
        let dues = [
            due(|_| {}),
            due(|record| record.progress.attempt += 1),
            due(|record| record.progress.repetition += 1),
            due(|record| record.id = DurableId::from_parts(at(1000), 0, 8)),
        ];
        assert!(dues.iter().all(|due| (1600..=2000).contains(due)), "{dues:?}");
        assert!((1..4).all(|other| !dues[..other].contains(&dues[other])), "{dues:?}");
    }

    #[test]
    fn an_expression_that_this_build_does_not_know_is_a_reason_to_park() {
        let cron = |expression: &str| RepeatMode::Cron { expression: expression.into(), zone: "Etc/UTC".into() };
        let reason = unknown_repetition(&repeating(cron("no times"), None, None)).unwrap();
        assert!(reason.contains("\"no times\""), "{reason}");
        assert_eq!(unknown_repetition(&repeating(cron("0 9 * * *"), None, None)).is_none(), cfg!(feature = "cron"));
        assert_eq!(unknown_repetition(&once()), None);
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let reason = shortened(&"ä".repeat(MAX_REASON_LEN));
        assert_eq!(&*reason, "ä".repeat(MAX_REASON_LEN / 2));
        let odd = shortened(&format!("x{}", "ä".repeat(MAX_REASON_LEN)));
        assert_eq!(odd.len(), MAX_REASON_LEN - 1);
        assert_eq!(parked("a\0b"), Next::Park { reason: "a\u{fffd}b".into() });
    }
}

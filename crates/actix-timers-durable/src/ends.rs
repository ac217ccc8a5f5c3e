//! The end of a delivery: from the answer of its handler to the next state of its row.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use actix_timers::integration::next_on_grid;

use super::calendar;
use super::due_time::DueTime;
use super::envelope::{Said, Then, UnderWay};
use super::pause::PAUSED;
use super::record::{Missed, RepeatMode, RetryPolicy};
use super::reply::Answer;
use super::spread::{jittered, mixed, whole_period};
use super::store::{Again, NO_END, Next, Note, Progress, Record};

/// The maximum length of a stored reason, which is the text of an arbitrary error.
const MAX_REASON_LEN: usize = 1024;

/// From this on a delivery is late: after a time without a process, a pause, or under too much load.
const LATE: Duration = Duration::from_secs(1);

/// The course of a delivery, as far as the next repetition depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub(super) begun: DueTime,
    pub(super) follow: Follow,
}

/// The time of the next repetition if the handler succeeds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Follow {
    #[default]
    BySchedule,
    At(DueTime),
    Never,
}

impl Course {
    pub(super) const fn begun(begun: DueTime) -> Self {
        Self { begun, follow: Follow::BySchedule }
    }
}

/// The present time: the millisecond that contains it, and the first one that is not before it, from which delays count.
#[derive(Debug, Clone, Copy)]
struct Now {
    reached: DueTime,
    passed: DueTime,
}

/// Returns the state after a delivery whose handler has answered, or exceeded its time-out, with a note if its route keeps a
/// past.
pub(super) fn after_delivery(under_way: &UnderWay, retry: &RetryPolicy, answer: Answer, now: SystemTime) -> Next {
    let record = &under_way.record;
    let Said { follow, ref result, .. } = *under_way.said();
    let course = Course { begun: under_way.begun, follow };
    let now = Now { reached: DueTime::reached_at(now), passed: DueTime::at_or_after(now).unwrap_or(DueTime::MAX) };
    if !under_way.is_noted {
        return after_answer(record, retry, answer, course, now);
    }
    let error = failure(&answer);
    let took = now.reached.saturating_since(course.begun);
    noted(record, after_answer(record, retry, answer, course, now), error.as_deref(), took, result.clone())
}

/// Returns the text of a failed delivery.
pub(super) fn failure(answer: &Answer) -> Option<String> {
    match answer {
        Ok(answer) => answer.as_ref().err().map(ToString::to_string),
        Err(missing) => Some(missing.to_string()),
    }
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

fn after_answer(record: &Record, retry: &RetryPolicy, answer: Answer, course: Course, now: Now) -> Next {
    let (reason, is_permanent) = match answer {
        Ok(Ok(())) => {
            let complete = || record.keep_key.map_or(Next::Delete, Next::KeepKey);
            return next_repetition(record, course, now).map_or_else(complete, Next::Again);
        }
        Ok(Err(error)) => match error.then() {
            Then::SnoozeAfter(delay) => return Next::Snooze(now.passed.saturating_add(delay)),
            Then::SnoozeUntil(at) => return Next::Snooze(DueTime::at_or_after(at).unwrap_or(DueTime::MAX)),
            then => (error.to_string(), then == Then::Dead),
        },
        Err(missing) => (missing.to_string(), false),
    };
    let progress = record.progress;
    if is_permanent || progress.used >= retry.attempts {
        return dead(record, &reason, course.begun, now);
    }
    let random = mixed(record.id.random() ^ u64::from(progress.attempt) ^ progress.repetition << 32);
    // The failures are not counted in a budget without an end.
    let (failures, returned) =
        if retry.attempts >= NO_END { (progress.attempt, progress.used) } else { (progress.used, 0) };
    let due = now.passed.saturating_add(retry.delay_after(failures, random));
    Next::Again(Again { due, nominal: progress.nominal, repetition: progress.repetition, returned })
}

/// Returns the state after the death of a process that delivered nothing but this timer.
pub(super) fn after_blame(record: &Record, retry: &RetryPolicy, now: DueTime) -> Next {
    let reason = format!(
        "the process ended during attempt {}, with no other delivery under way ({} allowed)",
        record.progress.attempt, retry.attempts
    );
    dead(record, &reason, now, Now { reached: now, passed: now })
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
    // A start makes it pending, unlike a paused one.
    let mark = if reason.starts_with(PAUSED) { "undecodable: " } else { "" };
    Next::Park { reason: shortened(&format!("{mark}{reason}")) }
}

fn dead(record: &Record, reason: &str, begun: DueTime, now: Now) -> Next {
    Next::Dead { reason: shortened(reason), then: next_repetition(record, Course::begun(begun), now) }
}

/// Returns the repetition after the one that has ended now; none if that was the last.
fn next_repetition(record: &Record, Course { begun, follow }: Course, now: Now) -> Option<Again> {
    let Progress { due, nominal, repetition, attempt, .. } = record.progress;
    let repeat = record.repeat.as_ref();
    if repeat.and_then(|repeat| repeat.times).is_some_and(|times| repetition >= times) {
        return None;
    }
    let on_grid = |period, missed, now: Duration| {
        let next = next_on_grid(millis(nominal), period, missed, now);
        DueTime::from_millis(next.as_millis().try_into().ok()?).ok()
    };
    let mut jitter = repeat.and_then(|repeat| repeat.jitter).unwrap_or_default();
    let random = mixed(record.id.random() ^ repetition.saturating_add(1) << 32);
    // A time is missed when its jitter has passed, too.
    let reached = now.reached.saturating_sub(jittered(DueTime::MIN, jitter, random).saturating_since(DueTime::MIN));
    let nominal = match (follow, repeat.map(|repeat| &repeat.mode)) {
        (Follow::At(at), _) => {
            jitter = Duration::ZERO;
            at
        }
        (Follow::Never, _) | (Follow::BySchedule, None) => return None,
        (_, Some(RepeatMode::FixedRate { period, missed })) => {
            // Times that are delayed together keep their jitter: they count from now.
            let period = Duration::from_millis(whole_period(*period));
            let is_missed = nominal.saturating_add(period) <= reached;
            let from = if *missed == Missed::Delay && is_missed { now.reached } else { reached };
            on_grid(period, *missed, millis(from))?
        }
        (_, Some(RepeatMode::FixedDelay { delay, spread })) => {
            let delay = Duration::from_millis(whole_period(*delay));
            let after_delay = millis(now.passed) + delay;
            // A retry is on time, and all that failed together come together.
            let expected = if attempt > 1 { nominal } else { due };
            if *spread && begun.saturating_since(expected) >= LATE {
                // Timers that were late together are due at different times again.
                on_grid(delay, Missed::Skip, after_delay - Duration::from_millis(1))?
            } else {
                DueTime::from_millis(after_delay.as_millis().try_into().ok()?).ok()?
            }
        }
        // Passed times are skipped, and after a step back of the clock none is repeated.
        (_, Some(RepeatMode::Cron { expression, zone })) => {
            calendar::next_after(expression, zone, reached.max(nominal))?
        }
    };
    if repeat.and_then(|repeat| repeat.until).is_some_and(|until| nominal > until) {
        return None;
    }
    let repetition = repetition.saturating_add(1);
    let due = jittered(nominal, jitter, random);
    Some(Again { due, nominal, repetition, returned: 0 })
}

const fn millis(due: DueTime) -> Duration {
    Duration::from_millis(due.as_millis())
}

/// Returns a text of bounded length that all stores can keep.
pub(super) fn shortened(reason: &str) -> Arc<str> {
    let end = (0..=MAX_REASON_LEN.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    reason[..end].replace('\0', "\u{fffd}").into()
}

/// Returns the reason of a dead letter.
pub(super) fn reason_of_death(next: &Next) -> Option<Arc<str>> {
    match next.split().0 {
        Next::Dead { reason, .. } => Some(Arc::clone(reason)),
        _ => None,
    }
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
    use crate::record::StoredRepeat;
    use crate::reply::NoReply;
    use crate::spread::in_phase;
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
            repeat: Some(StoredRepeat { mode, times, until: until.map(at), jitter: None }),
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

    fn on_time(record: &Record) -> Course {
        Course::begun(record.progress.due)
    }

    fn whole(millis: u64) -> Now {
        Now { reached: at(millis), passed: at(millis) }
    }

    fn after(record: &Record, answer: Answer, now: u64) -> Next {
        let retry = RetryPolicy::default().max_attempts(3).jitter_percent(0);
        after_answer(record, &retry, answer, on_time(record), whole(now))
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
    fn the_grid_goes_on_and_the_policy_decides_missed_points() {
        let second = Duration::from_secs(1);
        for (missed, next) in [(Missed::Skip, 61_000), (Missed::Burst, 2000), (Missed::Delay, 61_000)] {
            assert_eq!(due_after(&every(second, missed, None, None), 60_000), Some(next));
            assert_eq!(due_after(&every(second, missed, None, None), 1700), Some(2000), "none was missed");
            assert_eq!(due_after(&every(second, missed, None, None), 400), Some(2000), "the clock went back");
        }
        assert_eq!(due_after(&every(second, Missed::Delay, None, None), 60_300), Some(61_300));
    }

    #[test]
    fn a_time_is_missed_only_if_its_jitter_has_passed_too() {
        let mut record = every(Duration::from_secs(1), Missed::Skip, None, None);
        record.repeat.as_mut().unwrap().jitter = Some(Duration::from_millis(999));
        for now in 1200..6000 {
            let Next::Again(next) = after(&record, Ok(Ok(())), now) else { panic!("it goes on") };
            assert!(next.due > at(now), "{now}");
            let is_earliest = next.nominal == at(2000) || next.due.as_millis() - 1000 <= now;
            assert!(is_earliest, "{now}: {next:?}");
        }
        // Timers that were late together are due at different times.
        let mut delayed = every(Duration::from_secs(1), Missed::Delay, None, None);
        delayed.repeat.as_mut().unwrap().jitter = Some(Duration::from_millis(999));
        let due = |random| {
            delayed.id = DurableId::from_parts(at(1000), 0, random);
            let Next::Again(next) = after(&delayed, Ok(Ok(())), 60_300) else { panic!("it goes on") };
            assert_eq!(next.nominal, at(61_300));
            next.due
        };
        assert!((0..50).map(due).collect::<std::collections::BTreeSet<_>>().len() > 40);
    }

    #[test]
    fn no_period_is_shorter_than_a_millisecond_or_beyond_the_range() {
        assert_eq!(due_after(&every(Duration::ZERO, Missed::Burst, None, None), 1300), Some(1001));
        assert_eq!(due_after(&every(Duration::from_nanos(1_000_001), Missed::Burst, None, None), 1300), Some(1002));
        assert_eq!(due_after(&every(Duration::MAX, Missed::Burst, None, None), 1300), None);
    }

    #[test]
    fn a_series_goes_on_without_a_failure_beyond_the_budget() {
        let record = every(Duration::from_secs(1), Missed::Skip, None, None);
        let retried = Next::Again(Again { due: at(3300), nominal: at(1000), repetition: 1, returned: 0 });
        assert_eq!(after(&record, failed("no"), 1300), retried, "the second delay");
        assert_eq!(after(&record, Err(NoReply::Overdue(Duration::from_secs(30))), 1300), retried);
        assert_eq!(after(&record, Err(NoReply::Lost), 1300), retried);
        let next = Some(Again { due: at(2000), nominal: at(2000), repetition: 2, returned: 0 });
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

    /// As of claims, which take the budget from the row, or else from the route.
    #[test]
    fn a_retry_policy_without_a_budget_has_that_of_the_route() {
        let mut record = Record { retry: Some(RetryPolicy::default().jitter_percent(7)), ..once() };
        let of_route = RetryPolicy::never().max_attempts(3);
        assert_eq!(record.retry_policy(of_route), RetryPolicy::default().jitter_percent(7).max_attempts(3));
        record.max_attempts = Some(4);
        assert_eq!(record.retry_policy(of_route), RetryPolicy::default().jitter_percent(7).max_attempts(4));
    }

    /// Its failures are not counted.
    #[test]
    fn delays_of_a_timer_without_an_end_double_too() {
        let mut record = once();
        record.max_attempts = Some(NO_END);
        let retry = record.retry_policy(RetryPolicy::default().jitter_percent(0));
        for (attempt, delay) in [(1, 1000), (2, 2000), (5, 16_000), (50, 300_000)] {
            record.progress = Progress { attempt, used: 1, ..record.progress };
            let next = after_answer(&record, &retry, failed("no"), on_time(&record), whole(0));
            assert_eq!(
                next,
                Next::Again(Again { due: at(delay), nominal: at(1000), repetition: 1, returned: record.progress.used })
            );
        }
    }

    #[test]
    fn jitter_differs_by_timer_attempt_and_repetition_and_shortens() {
        let retry = RetryPolicy::default();
        let due = |change: fn(&mut Record)| {
            let mut record = once();
            change(&mut record);
            let Next::Again(again) = after_answer(&record, &retry, failed("no"), on_time(&record), whole(0)) else {
                panic!("a retry")
            };
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

    fn with_delay(millis: u64, spread: bool) -> Record {
        let mut record = repeating(RepeatMode::FixedDelay { delay: Duration::from_millis(millis), spread }, None, None);
        record.progress.attempt = 1;
        record
    }

    /// Returns nominal and due time of the repetition after a success.
    fn next_times(record: &Record, course: Course, now: u64) -> Option<(u64, u64)> {
        match after_answer(record, &RetryPolicy::default(), Ok(Ok(())), course, whole(now)) {
            Next::Again(again) => Some((again.nominal.as_millis(), again.due.as_millis())),
            _ => None,
        }
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_handler() {
        for now in [1200, 1700, 60_000, 400] {
            assert_eq!(due_after(&with_delay(1000, false), now), Some(now + 1000));
            assert_eq!(due_after(&with_delay(1000, true), now), Some(now + 1000), "it began on time");
        }
        let permanent = Ok(Err(HandlerError::permanent("never")));
        let then = Some(Again { due: at(6000), nominal: at(6000), repetition: 2, returned: 0 });
        assert_eq!(after(&with_delay(1000, false), permanent, 5000), Next::Dead { reason: "never".into(), then });
        let limited = |times, until| Record {
            repeat: Some(StoredRepeat { times, until, ..with_delay(1000, false).repeat.unwrap() }),
            ..once()
        };
        assert_eq!(due_after(&limited(Some(1), None), 1300), None);
        assert_eq!(due_after(&limited(None, Some(at(2299))), 1300), None);
        assert_eq!(due_after(&limited(None, Some(at(2300))), 1300), Some(2300));
        let beyond = repeating(RepeatMode::FixedDelay { delay: Duration::MAX, spread: true }, None, None);
        assert_eq!((due_after(&beyond, 1300), due_after(&with_delay(0, false), 1300)), (None, Some(1301)));
    }

    #[test]
    fn a_late_delivery_that_is_spread_keeps_its_phase() {
        // It was due at 1200, on a grid through 1000.
        let (spread, plain) = (with_delay(1000, true), with_delay(1000, false));
        for (begun, now, next) in [(2199, 5300, 6300), (2200, 5300, 7000), (5000, 5000, 6000), (5000, 5001, 7000)] {
            assert_eq!(next_times(&spread, Course::begun(at(begun)), now), Some((next, next)), "{begun} {now}");
            assert_eq!(next_times(&plain, Course::begun(at(begun)), now), Some((now + 1000, now + 1000)));
        }
        // Its retries are on time, and those of others that failed with it, too.
        for (retried, next) in [(1900, 3200), (2000, 4000), (9000, 11_000)] {
            let mut record = spread.clone();
            record.progress = Progress { due: at(retried), attempt: 2, ..record.progress };
            assert_eq!(next_times(&record, on_time(&record), retried + 300), Some((next, next)), "{retried}");
        }
    }

    #[test]
    fn jitter_makes_a_repetition_later_and_the_grid_stays() {
        let mut record = every(Duration::from_secs(10), Missed::Skip, None, Some(1_001_000));
        record.repeat = record.repeat.map(|repeat| StoredRepeat { jitter: Some(Duration::from_secs(1)), ..repeat });
        let mut jitters = Vec::new();
        while let Next::Again(again) = after(&record, Ok(Ok(())), record.progress.due.as_millis() + 5) {
            assert_eq!(again.nominal.as_millis(), record.progress.nominal.as_millis() + 10_000);
            jitters.push(again.due.as_millis() - again.nominal.as_millis());
            let Again { due, nominal, repetition, .. } = again;
            record.progress = Progress { due, nominal, repetition, ..record.progress };
        }
        assert_eq!((record.progress.nominal, jitters.len()), (at(1_001_000), 100), "the end counts without jitter");
        assert!(jitters.iter().all(|jitter| *jitter <= 1000) && jitters.iter().sum::<u64>().abs_diff(50_000) < 10_000);
        jitters.dedup();
        assert!(jitters.len() > 95, "{jitters:?}");
    }

    #[test]
    fn the_handler_says_when_a_timer_goes_on_if_it_succeeds() {
        let course = |record: &Record, follow| Course { follow, ..on_time(record) };
        let mut repeating = every(Duration::from_secs(1), Missed::Skip, Some(2), Some(9000));
        repeating.repeat.as_mut().unwrap().jitter = Some(Duration::from_millis(900));
        for record in [&once(), &repeating] {
            let at_5000 = course(record, Follow::At(at(5000)));
            assert_eq!(next_times(record, at_5000, 1300), Some((5000, 5000)));
            assert_eq!(next_times(record, course(record, Follow::Never), 1300), None);
            let retry = RetryPolicy::default();
            let failed = |course| after_answer(record, &retry, failed("no"), course, whole(1300));
            assert_eq!(failed(at_5000), failed(on_time(record)), "it has failed");
            let dead =
                |course| after_answer(record, &retry, Ok(Err(HandlerError::permanent("no"))), course, whole(1300));
            assert_eq!(dead(at_5000), dead(on_time(record)));
            assert_eq!(dead(course(record, Follow::Never)), dead(on_time(record)));
        }
        let after_until = course(&repeating, Follow::At(at(9001)));
        assert_eq!(next_times(&repeating, after_until, 1300), None);
        repeating.progress.repetition = 2;
        assert_eq!(next_times(&repeating, course(&repeating, Follow::At(at(5000))), 1300), None, "two times");
    }

    const HOUR: u64 = 3_600_000;

    #[test]
    fn hourly_timers_restarted_at_once_stay_spread() {
        restart_hourly(150_000);
    }

    #[test]
    #[ignore = "takes long; `.ci/run` runs it"]
    fn a_million_hourly_timers_restarted_at_once_in_full_size() {
        restart_hourly(1_000_000);
    }

    /// The timers are scheduled at once. After a few hours no process runs for a while, and then all that are overdue run within two
    /// minutes. From then on the rate of each minute is at most 1.1 of the mean.
    fn restart_hourly(timers: u64) {
        let hour = Duration::from_millis(HOUR);
        let (scheduled, down) = (1_700_000_123_456, 1_700_000_123_456 + 5 * HOUR);
        let [skip, burst] = [Missed::Skip, Missed::Burst].map(|missed| RepeatMode::FixedRate { period: hour, missed });
        let delay = RepeatMode::FixedDelay { delay: hour, spread: true };
        for (mode, outage) in [(&skip, 20), (&burst, 90), (&delay, 20), (&delay, 600)] {
            let up = down + outage * 60_000;
            let mut record = repeating(mode.clone(), None, None);
            // From the first hour of the timers, and from the first full hour after the restart.
            let (mut first_hour, mut minutes) = ([0u32; 60], [0u32; 240]);
            for number in 0..timers {
                record.id = DurableId::from_parts(at(scheduled + HOUR), number, mixed(number));
                let first = in_phase(at(scheduled + HOUR), hour, mixed(record.id.random())).unwrap().as_millis();
                first_hour[((first - scheduled - HOUR) / 60_000) as usize] += 1;
                // The first of its times that nothing has delivered, perhaps after the restart.
                let mut due = first + (down - first).div_ceil(HOUR) * HOUR;
                let mut now = due.max(up + number * 120_000 / timers);
                while now < up + 3 * HOUR {
                    record.progress = Progress { due: at(due), nominal: at(due), ..record.progress };
                    due = next_times(&record, Course::begun(at(now)), now).unwrap().1;
                    now = now.max(due);
                    if due >= up + HOUR {
                        minutes[((due - up - HOUR) / 60_000) as usize] += 1;
                    }
                }
            }
            let peak = |minutes: &[u32]| f64::from(*minutes.iter().max().unwrap()) / (timers as f64 / 60.0);
            let peaks = [peak(&first_hour), peak(&minutes[..60]), peak(&minutes[60..120])];
            assert!(peaks.iter().all(|peak| *peak <= 1.1), "{mode:?} after {outage} minutes: {peaks:?}");
        }
    }

    #[test]
    fn an_expression_unknown_to_this_build_is_a_reason_to_park() {
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
        assert_eq!(parked("paused?"), Next::Park { reason: "undecodable: paused?".into() }, "nobody has paused it");
    }

    #[test]
    fn delays_count_from_the_end_of_the_millisecond() {
        let now = Now { reached: at(1300), passed: at(1301) };
        let snoozed = Ok(Err(HandlerError::snooze_for(Duration::from_millis(1))));
        let retry = RetryPolicy::default().initial_delay(Duration::from_millis(1)).jitter_percent(0);
        assert_eq!(after_answer(&once(), &retry, snoozed, on_time(&once()), now), Next::Snooze(at(1302)));
        let delay = RepeatMode::FixedDelay { delay: Duration::from_millis(1), spread: false };
        let mut first = once();
        first.progress.used = 1;
        for (record, answer) in [(first, failed("no")), (repeating(delay, None, None), Ok(Ok(())))] {
            let Next::Again(again) = after_answer(&record, &retry, answer, on_time(&record), now) else {
                panic!("it goes on")
            };
            assert_eq!(again.due, at(1302));
        }
        let grid = every(Duration::from_millis(1), Missed::Skip, None, None);
        let Next::Again(again) = after_answer(&grid, &retry, Ok(Ok(())), on_time(&grid), now) else {
            panic!("it goes on")
        };
        assert_eq!(again.due, at(1301), "its time has not come");
    }
}

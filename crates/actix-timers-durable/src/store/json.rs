//! The columns that are JSON, the same in all stores: headers, repetition and retry policy.
//!
//! ```text
//! headers  {"tenant": "8", "traceparent": "00-4bf9-00f0-01"}
//! repeat   {"every_ms": 60000, "missed": "skip", "times": 5, "until_ms": 1767225600000}
//!          {"delay_ms": 60000, "spread": true, "jitter_ms": 5000}
//!          {"cron": "0 12 * * *", "zone": "Europe/Berlin"}
//! retry    {"initial_ms": 1000, "max_ms": 300000, "jitter_percent": 20, "timeout_ms": 30000}
//! ```
//!
//! Durations are rounded up to whole milliseconds. The number of attempts is a column of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Finished, Note};
use crate::due_time::{DueTime, ceil_millis};
use crate::headers::Headers;
use crate::record::{Missed, RepeatMode, RetryPolicy, StoredRepeat};

/// The column `repeat`.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepeatColumn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    missed: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    spread: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
}

const MISSED: [Missed; 3] = [Missed::Burst, Missed::Delay, Missed::Skip];

const fn name_of(missed: Missed) -> &'static str {
    match missed {
        Missed::Burst => "burst",
        Missed::Delay => "delay",
        Missed::Skip => "skip",
    }
}

/// The column `retry`. Fields that it leaves out are those of the default policy.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryColumn {
    initial_ms: Option<u64>,
    max_ms: Option<u64>,
    jitter_percent: Option<u8>,
    timeout_ms: Option<u64>,
}

/// Returns the milliseconds of a duration, rounded up: at most those of the last due time, which are as good as no end.
fn millis(duration: Duration) -> u64 {
    ceil_millis(duration).min(DueTime::MAX.as_millis())
}

/// Returns the column of the headers; `None` if there are none.
pub fn headers_to_json(headers: &Headers) -> Option<String> {
    (!headers.is_empty()).then(|| text(headers.kept()))
}

/// Returns the headers of a column; `None` if it cannot be read.
pub fn headers_from_json(json: Option<&str>) -> Option<Headers> {
    let map: BTreeMap<String, String> = json.map_or(Ok(BTreeMap::new()), serde_json::from_str).ok()?;
    Headers::of(map).ok()
}

/// Returns the column of a repetition.
pub fn repeat_to_json(repeat: &StoredRepeat) -> String {
    let times = repeat.times.map(|times| times.min(i64::MAX.cast_unsigned()));
    let until_ms = repeat.until.map(DueTime::as_millis);
    let none = RepeatColumn { times, until_ms, jitter_ms: repeat.jitter.map(millis), ..RepeatColumn::default() };
    text(&match &repeat.mode {
        RepeatMode::FixedRate { period, missed } => {
            let missed = Some(name_of(*missed).into());
            RepeatColumn { every_ms: Some(millis(*period)), missed, ..none }
        }
        RepeatMode::FixedDelay { delay, spread } => {
            RepeatColumn { delay_ms: Some(millis(*delay)), spread: *spread, ..none }
        }
        RepeatMode::Cron { expression, zone } => {
            RepeatColumn { cron: Some(expression.clone()), zone: Some(zone.clone()), ..none }
        }
    })
}

/// Returns the repetition of a column; `None` if it cannot be read.
pub fn repeat_from_json(json: &str) -> Option<StoredRepeat> {
    let column: RepeatColumn = serde_json::from_str(json).ok()?;
    let RepeatColumn { every_ms, missed, delay_ms, spread, cron, zone, times, until_ms, jitter_ms } = column;
    let mode = match (every_ms, delay_ms, cron, zone) {
        (Some(period), None, None, None) if !spread => {
            let missed = match missed {
                None => Missed::Skip,
                Some(name) => MISSED.into_iter().find(|missed| name_of(*missed) == name)?,
            };
            RepeatMode::FixedRate { period: Duration::from_millis(period.max(1)), missed }
        }
        (None, Some(delay), None, None) if missed.is_none() => {
            RepeatMode::FixedDelay { delay: Duration::from_millis(delay.max(1)), spread }
        }
        (None, None, Some(expression), Some(zone)) if missed.is_none() && !spread => {
            RepeatMode::Cron { expression, zone }
        }
        _ => return None,
    };
    let until = until_ms.map(DueTime::from_millis).transpose().ok()?;
    Some(StoredRepeat { mode, times, until, jitter: jitter_ms.map(Duration::from_millis) })
}

/// Returns the column of a retry policy, without its number of attempts.
pub fn retry_to_json(retry: &RetryPolicy) -> String {
    text(&RetryColumn {
        initial_ms: Some(millis(retry.initial_delay)),
        max_ms: Some(millis(retry.max_delay)),
        jitter_percent: Some(retry.jitter_percent),
        timeout_ms: Some(millis(retry.timeout)),
    })
}

/// Returns the retry policy of its two columns; `None` if they cannot be read.
pub fn retry_from_json(json: &str, max_attempts: Option<u32>) -> Option<RetryPolicy> {
    let RetryColumn { initial_ms, max_ms, jitter_percent, timeout_ms } = serde_json::from_str(json).ok()?;
    let default = RetryPolicy::default();
    let or = |millis: Option<u64>, default| millis.map_or(default, Duration::from_millis);
    Some(
        RetryPolicy::default()
            .max_attempts(max_attempts.unwrap_or(default.attempts))
            .initial_delay(or(initial_ms, default.initial_delay))
            .max_delay(or(max_ms, default.max_delay))
            .jitter_percent(jitter_percent.unwrap_or(default.jitter_percent))
            .timeout(or(timeout_ms, default.timeout)),
    )
}

/// Returns a note as an object.
pub fn note_to_json(Note { took_ms, outcome, error, result }: &Note) -> String {
    let (error, result) = (error.as_deref(), result.as_deref());
    text(&serde_json::json!({ "took_ms": took_ms, "outcome": outcome, "error": error, "result": result }))
}

/// Returns the end in an object `{"at_ms", "took_ms", "is_dead", "errors", "result"}` of the columns of the past; `None` if it
/// cannot be read.
pub fn finished_from_json(json: &str) -> Option<Finished> {
    serde_json::from_str(json).ok()
}

/// Writes JSON. Only a map with keys that are no texts, or a failing writer, could fail.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_documented_and_come_back() {
        let headers = Headers::of([("traceparent", "00-4bf9-00f0-01"), ("tenant", "8\"\u{1f}é")]).unwrap();
        let json = headers_to_json(&headers).unwrap();
        assert_eq!(json, r#"{"tenant":"8\"\u001fé","traceparent":"00-4bf9-00f0-01"}"#);
        assert_eq!(headers_from_json(Some(&json)), Some(headers));
        assert_eq!((headers_to_json(&Headers::new()), headers_from_json(None)), (None, Some(Headers::new())));

        let until = Some(DueTime::from_millis(1_767_225_600_000).unwrap());
        let mode = RepeatMode::FixedRate { period: Duration::from_secs(60), missed: Missed::Burst };
        let repeat = StoredRepeat { mode, times: Some(5), until, jitter: None };
        let json = repeat_to_json(&repeat);
        assert_eq!(json, r#"{"every_ms":60000,"missed":"burst","times":5,"until_ms":1767225600000}"#);
        assert_eq!(repeat_from_json(&json), Some(repeat));

        let mode = RepeatMode::Cron { expression: "0 12 * * *".to_owned(), zone: "Europe/Berlin".to_owned() };
        let repeat = StoredRepeat { mode, times: None, until: None, jitter: Some(Duration::from_secs(5)) };
        let json = repeat_to_json(&repeat);
        assert_eq!(json, r#"{"cron":"0 12 * * *","zone":"Europe/Berlin","jitter_ms":5000}"#);
        assert_eq!(repeat_from_json(&json), Some(repeat));

        for (spread, expected) in [(true, r#"{"delay_ms":60000,"spread":true}"#), (false, r#"{"delay_ms":60000}"#)] {
            let mode = RepeatMode::FixedDelay { delay: Duration::from_secs(60), spread };
            let repeat = StoredRepeat { mode, times: None, until: None, jitter: None };
            assert_eq!(repeat_to_json(&repeat), expected);
            assert_eq!(repeat_from_json(expected), Some(repeat));
        }

        let retry = RetryPolicy::default().max_attempts(3).initial_delay(Duration::from_nanos(1));
        let json = retry_to_json(&retry);
        assert_eq!(json, r#"{"initial_ms":1,"max_ms":300000,"jitter_percent":20,"timeout_ms":30000}"#);
        assert_eq!(retry_from_json(&json, Some(3)), Some(retry.initial_delay(Duration::from_millis(1))));
        assert_eq!(retry_from_json("{}", None), Some(RetryPolicy::default()));
    }

    /// PostgreSQL refuses larger numbers.
    #[test]
    fn durations_beyond_the_last_due_time_are_those_until_then() {
        let retry = RetryPolicy::default().max_delay(Duration::MAX).timeout(Duration::MAX);
        let last = DueTime::MAX.as_millis();
        let json = retry_to_json(&retry);
        assert!(json.contains(&format!(r#""max_ms":{last}"#)) && json.contains(&format!(r#""timeout_ms":{last}"#)));
        let mode = RepeatMode::FixedDelay { delay: Duration::MAX, spread: false };
        let json = repeat_to_json(&StoredRepeat { mode, times: Some(u64::MAX), until: None, jitter: None });
        assert_eq!(json, format!(r#"{{"delay_ms":{last},"times":{}}}"#, i64::MAX));
    }

    #[test]
    fn columns_of_unknown_form_are_not_read_as_something_else() {
        for json in [
            "",
            "null",
            "{}",
            r#"{"every_ms":1,"cron":"* * * * *"}"#,
            r#"{"every_ms":-1}"#,
            r#"{"every_ms":1,"x":2}"#,
            r#"{"every_ms":1,"delay_ms":1}"#,
            r#"{"every_ms":1,"spread":true}"#,
            r#"{"delay_ms":1,"missed":"skip"}"#,
            r#"{"delay_ms":1,"spread":1}"#,
            r#"{"delay_ms":1,"jitter_ms":-1}"#,
            r#"{"cron":"* * * * *","zone":"UTC","spread":true}"#,
        ] {
            assert_eq!(repeat_from_json(json), None, "{json}");
        }
        for json in ["", "[]", r#"{"a":1}"#, r#"{"":"no name"}"#] {
            assert_eq!(headers_from_json(Some(json)), None, "{json}");
        }
        assert_eq!(retry_from_json(r#"{"jitter_percent":300}"#, Some(1)), None);
    }
}

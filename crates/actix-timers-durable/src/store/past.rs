//! The past: finished timers and repetitions of routes that keep them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::due_time::DueTime;

/// The facts about a delivery that ends, for the past of its route. An error is added to the errors of the row, of which the
/// last 20 stay. An outcome makes a row of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The duration of the attempt, in milliseconds.
    pub took_ms: u64,
    /// `complete` or `dead`, if the timer or its repetition finishes.
    pub outcome: Option<&'static str>,
    /// The reason of its failure.
    pub error: Option<Arc<str>>,
    /// The result that its handler noted.
    pub result: Option<Arc<str>>,
}

/// The end of a timer, or of one of its repetitions, in the [past](crate::RouteOptions::keep_past) of its route.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Finished {
    /// The time of the end.
    #[serde(rename = "at_ms", deserialize_with = "due")]
    pub at: DueTime,
    /// The duration of the last attempt, in whole milliseconds.
    #[serde(rename = "took_ms", deserialize_with = "duration")]
    pub took: Duration,
    /// Whether it became a dead letter; else it is complete.
    pub is_dead: bool,
    /// The errors of the last 20 attempts that failed, the oldest first. Attempts whose process died have none.
    pub errors: Vec<AttemptError>,
    /// The result that the handler [noted](crate::Durable::note_result).
    pub result: Option<String>,
}

/// The failure of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct AttemptError {
    /// The time of the failure.
    #[serde(rename = "at_ms", deserialize_with = "due")]
    pub at: DueTime,
    /// The number of the attempt.
    pub attempt: u32,
    /// The reason.
    pub reason: String,
}

fn due<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DueTime, D::Error> {
    DueTime::from_millis(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

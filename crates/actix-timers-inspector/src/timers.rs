//! Timers in the JSON.

use std::time::Duration;

use actix_timers::integration::{ShortId, TIMERS_OF_A_BUCKET, TimerWalk};
use actix_timers::timing::Tick;
use actix_timers::{ActorTag, TimerFilter, TimerInfo, TimerLocation};
use serde::{Serialize, Serializer};

use super::Inspected;
use super::error::Rejection;
use super::query::name_of;
use super::turns::Look;
use super::wheel::unix_seconds;

/// Maximum number of a bucket's timers in one answer.
pub(super) const MAX_OF_A_BUCKET: usize = TIMERS_OF_A_BUCKET;

/// The form of ids. A full id is sufficient to cancel its timer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ids {
    Full,
    Short,
}

/// A pending timer.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    id: String,
    state: &'static str,
    due_in_seconds: f64,
    location: Location,
    explanation: String,
    clock: &'static str,
    wall_seconds: Option<f64>,
    repeats: bool,
    period_seconds: Option<f64>,
    message_type: String,
    key: Option<String>,
    group: Option<String>,
    actor: Option<ActorTag>,
    actor_type: Option<String>,
}

/// The location of a timer. Fields that do not apply to its kind are omitted.
#[derive(Debug, Default, Serialize)]
struct Location {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    start_tick: Option<Tick>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_mailbox: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    under_way: Option<u64>,
}

fn as_text<S: Serializer>(tick: &Option<Tick>, serializer: S) -> Result<S::Ok, S::Error> {
    tick.map(|tick| tick.to_string()).serialize(serializer)
}

impl From<&TimerLocation> for Location {
    fn from(location: &TimerLocation) -> Self {
        let kind = location.as_str();
        match *location {
            TimerLocation::Wheel { level, bucket, width, expires_in } => Self {
                kind,
                level: Some(level),
                start_tick: Some(bucket),
                width_seconds: Some(width.as_secs_f64()),
                expires_in_seconds: Some(expires_in.as_secs_f64()),
                ..Self::default()
            },
            TimerLocation::Inbox { length, ahead, by_mailbox } => {
                Self { kind, length: Some(length), ahead, by_mailbox: Some(by_mailbox), ..Self::default() }
            }
            TimerLocation::Queue { length, ahead, under_way } => {
                Self { kind, length: Some(length), ahead, under_way: Some(under_way), ..Self::default() }
            }
            TimerLocation::Mailbox { under_way } => Self { kind, under_way: Some(under_way), ..Self::default() },
            // Source, flight and handler have no further fields.
            _ => Self { kind, ..Self::default() },
        }
    }
}

impl Row {
    fn new(info: TimerInfo, ids: Ids) -> Self {
        Self {
            id: match ids {
                Ids::Full => info.id.to_string(),
                Ids::Short => ShortId::of(info.id).to_string(),
            },
            state: name_of(info.state),
            due_in_seconds: info.remaining.as_secs_f64() - info.overdue.as_secs_f64(),
            location: Location::from(&info.location),
            explanation: info.explain(),
            clock: if info.wall_time.is_some() { "wall" } else { "monotonic" },
            wall_seconds: info.wall_time.map(unix_seconds),
            repeats: info.repeats,
            period_seconds: info.period.as_ref().map(Duration::as_secs_f64),
            message_type: info.message_type.into_owned(),
            key: info.key.map(|key| key.to_string()),
            group: info.group.map(|group| group.as_str().to_owned()),
            actor: info.actor,
            actor_type: info.actor_type.map(Into::into),
        }
    }
}

/// A part of a list.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    timers: Vec<Row>,
    /// The cursor of the next part; none after the last.
    next: Option<String>,
    looked_at: u64,
    of: u64,
}

/// Timers by deadline.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    timers: Vec<Row>,
    sampled: bool,
}

/// Timers of several timer actors by deadline.
#[derive(Debug, Serialize)]
pub(super) struct SampleOfAll {
    timers: Vec<Found>,
    sampled: bool,
}

/// A timer with the name of its timer actor.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    timer: String,
    #[serde(flatten)]
    row: Row,
}

impl Inspected {
    /// Returns the next part of the timers that match a filter.
    pub(super) async fn list(
        &self,
        look: &Look,
        filter: TimerFilter,
        cursor: u64,
        limit: usize,
        ids: Ids,
    ) -> Result<Part, Rejection> {
        let survey = &self.survey;
        let mut listing = look.step(|| survey.begin_list(filter, cursor, limit)).await?;
        let mut steps = 0;
        while look.step(|| survey.continue_list(&mut listing)).await? && !listing.is_full() {
            steps += 1;
            if steps >= look.max_steps() {
                break;
            }
        }
        let (next, of) = listing.cursor();
        let next_part = (next < of).then(|| next.to_string());
        Ok(Part { timers: rows(listing.finish(), ids), next: next_part, looked_at: next.min(of), of })
    }

    /// Returns the timers of a walk.
    pub(super) async fn walk(&self, look: &Look, mut walk: TimerWalk, ids: Ids) -> Result<Sample, Rejection> {
        while look.step(|| self.survey.continue_walk(&mut walk)).await? {}
        let sampled = walk.sampled;
        Ok(Sample { timers: rows(walk.finish(), ids), sampled })
    }

    pub(super) fn found(&self, info: TimerInfo, ids: Ids) -> Found {
        Found { timer: self.name.clone(), row: Row::new(info, ids) }
    }
}

/// Returns the timers due next in these timer actors together.
pub(super) async fn next_of(all: &[Inspected], look: &Look, limit: usize, ids: Ids) -> Result<SampleOfAll, Rejection> {
    let (mut timers, mut sampled) = (Vec::new(), false);
    for inspected in all {
        let sample = inspected.walk(look, TimerWalk::to_the_next(limit), ids).await?;
        sampled |= sample.sampled;
        timers.extend(sample.timers.into_iter().map(|row| Found { timer: inspected.name.clone(), row }));
        // Few are kept, however many timer actors there are.
        timers.sort_by(|one: &Found, other| one.row.due_in_seconds.total_cmp(&other.row.due_in_seconds));
        timers.truncate(limit);
    }
    Ok(SampleOfAll { timers, sampled })
}

fn rows(infos: Vec<TimerInfo>, ids: Ids) -> Vec<Row> {
    infos.into_iter().map(|info| Row::new(info, ids)).collect()
}

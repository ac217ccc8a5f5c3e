//! The wheel and the counters in the JSON.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use actix_timers::Counters;
use actix_timers::integration::Outline;
use actix_timers::timing::{BucketSnapshot, LevelStats, Tick};
use serde::{Serialize, Serializer};

use super::Inspected;
use super::error::Rejection;
use super::turns::Look;

/// Maximum number of segments of a ring: finer ones could not be distinguished.
const SEGMENTS: usize = 512;

/// Number of listed buckets at the head of the delay queue.
const HEAD: usize = 12;

/// A nearly consistent snapshot of a timer actor: levels and buckets are read one after the other.
#[derive(Debug, Serialize)]
pub(super) struct Wheel {
    timer: String,
    state: &'static str,
    now_seconds: f64,
    wall_seconds: f64,
    tick_seconds: f64,
    wheel_size: usize,
    capacity: usize,
    pending: u64,
    in_wheel: u64,
    due: u64,
    in_inboxes: usize,
    actors: usize,
    repeating: usize,
    wall_clock: usize,
    labelled: usize,
    depth: usize,
    horizon_seconds: f64,
    #[serde(serialize_with = "as_text")]
    clock_tick: Tick,
    queued_buckets: usize,
    next_expiration_in_seconds: Option<f64>,
    overdue_seconds: f64,
    counters: Counters,
    delay_queue: Vec<Head>,
    levels: Vec<Level>,
}

/// One of the buckets that expire next.
#[derive(Debug, Serialize)]
struct Head {
    level: usize,
    #[serde(serialize_with = "as_text")]
    start_tick: Tick,
    expires_in_seconds: f64,
    width_seconds: f64,
    entries: usize,
}

#[derive(Debug, Serialize)]
struct Level {
    level: usize,
    bucket_seconds: f64,
    turn_seconds: f64,
    entries: usize,
    occupied: usize,
    fullest: usize,
    cascades: u64,
    cascaded: u64,
    buckets_per_segment: usize,
    segments: Vec<Segment>,
}

/// Adjacent buckets of a level, of which at least one is not empty.
#[derive(Debug, Serialize)]
struct Segment {
    at: usize,
    #[serde(serialize_with = "as_text")]
    start_tick: Tick,
    expires_in_seconds: f64,
    buckets: usize,
    entries: usize,
    fullest: usize,
}

/// Serializes as text: ticks go up to 2⁶⁴, and numbers in JavaScript only to 2⁵³.
fn as_text<S: Serializer>(tick: &Tick, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(tick)
}

/// A timer actor in a list.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    timer: String,
    state: &'static str,
    pending: u64,
    next_expiration_in_seconds: Option<f64>,
    overdue_seconds: f64,
}

const fn state_of(is_closed: bool, is_stopped: bool, pending: u64) -> &'static str {
    match (is_stopped, is_closed, pending) {
        (true, ..) => "stopped",
        (false, true, 0) => "drained",
        (false, true, _) => "draining",
        (false, false, _) => "running",
    }
}

impl Inspected {
    pub(super) fn summary(&self) -> Summary {
        let outline = self.survey.outline();
        let pending = outline.counters.pending;
        let state = state_of(outline.is_closed, outline.is_stopped, pending);
        let (next_expiration_in_seconds, overdue_seconds) = self.next_expiration(&outline);
        Summary { timer: self.name.clone(), state, pending, next_expiration_in_seconds, overdue_seconds }
    }

    /// Returns the seconds until the next bucket expires, if there is one, and since it should have.
    fn next_expiration(&self, outline: &Outline) -> (Option<f64>, f64) {
        let next = outline.next_expiration.map(|tick| self.survey.time_of(tick));
        let until = next.map(|next| next.saturating_sub(outline.now).as_secs_f64());
        (until, next.map_or(0.0, |next| outline.now.saturating_sub(next).as_secs_f64()))
    }

    /// Reads the wheel, a few hundred buckets at a time.
    pub(super) async fn wheel(&self, look: &Look) -> Result<Wheel, Rejection> {
        let survey = &self.survey;
        let outline = look.step(|| survey.outline()).await?;
        let now = outline.now;
        let until = |tick| survey.time_of(tick).saturating_sub(now);
        let (mut levels, mut delay_queue) = (Vec::new(), Vec::new());
        for number in 0..outline.depth {
            let Some(stats) = look.step(|| survey.level(number)).await? else { break };
            let mut ring = Ring::new(&stats);
            let mut from = Some(0);
            while let Some(start) = from {
                let (buckets, next) = look.step(|| survey.buckets(number, start)).await?;
                delay_queue.extend(buckets.iter().take(HEAD - delay_queue.len()).map(|bucket| Head {
                    level: number,
                    start_tick: bucket.start,
                    expires_in_seconds: until(bucket.start).as_secs_f64(),
                    width_seconds: survey.time_of(stats.bucket_ticks).as_secs_f64(),
                    entries: bucket.entries,
                }));
                buckets.into_iter().for_each(|bucket| ring.add(bucket, until(bucket.start)));
                from = next;
            }
            levels.push(ring.into_level(stats, |ticks| survey.time_of(ticks)));
        }
        let in_wheel = levels.iter().map(|level| level.entries as u64).sum();
        let pending = outline.counters.pending;
        let (next_expiration_in_seconds, overdue_seconds) = self.next_expiration(&outline);
        Ok(Wheel {
            timer: self.name.clone(),
            state: state_of(outline.is_closed, outline.is_stopped, pending),
            now_seconds: now.as_secs_f64(),
            wall_seconds: unix_seconds(outline.wall),
            tick_seconds: outline.tick.as_secs_f64(),
            wheel_size: outline.wheel_size,
            capacity: outline.capacity,
            pending,
            in_wheel,
            due: pending.saturating_sub(in_wheel),
            in_inboxes: outline.in_inboxes,
            actors: outline.actors,
            repeating: outline.repeating,
            wall_clock: outline.wall_clock,
            labelled: outline.labelled,
            depth: outline.depth,
            horizon_seconds: outline.horizon.as_secs_f64(),
            clock_tick: outline.clock,
            queued_buckets: outline.queued_buckets,
            next_expiration_in_seconds,
            overdue_seconds,
            counters: outline.counters,
            delay_queue,
            levels,
        })
    }
}

/// Returns the seconds since the Unix epoch; negative before it.
pub(super) fn unix_seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// The buckets of a level, combined into segments.
struct Ring {
    bucket_ticks: u64,
    buckets: usize,
    per_segment: usize,
    segments: BTreeMap<usize, Segment>,
}

impl Ring {
    const fn new(stats: &LevelStats) -> Self {
        let per_segment = stats.buckets.div_ceil(SEGMENTS);
        Self { bucket_ticks: stats.bucket_ticks, buckets: stats.buckets, per_segment, segments: BTreeMap::new() }
    }

    /// Adds a bucket. Buckets of the next turn share the positions of this one's.
    fn add(&mut self, bucket: BucketSnapshot, expires_in: Duration) {
        let place = (bucket.start / self.bucket_ticks) % self.buckets as u64;
        let at = place as usize / self.per_segment;
        let segment = self.segments.entry(at).or_insert_with(|| Segment {
            at,
            start_tick: bucket.start,
            expires_in_seconds: expires_in.as_secs_f64(),
            buckets: 0,
            entries: 0,
            fullest: 0,
        });
        segment.buckets += 1;
        segment.entries += bucket.entries;
        segment.fullest = segment.fullest.max(bucket.entries);
    }

    fn into_level(self, stats: LevelStats, time_of: impl Fn(u64) -> Duration) -> Level {
        Level {
            level: stats.level,
            bucket_seconds: time_of(stats.bucket_ticks).as_secs_f64(),
            turn_seconds: time_of(stats.bucket_ticks.saturating_mul(stats.buckets as u64)).as_secs_f64(),
            entries: stats.entries,
            occupied: stats.occupied,
            fullest: stats.fullest,
            cascades: stats.cascades,
            cascaded: stats.cascaded,
            buckets_per_segment: self.per_segment,
            segments: self.segments.into_values().collect(),
        }
    }
}

//! The public view of durable timers.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

use super::due_time::DueTime;
use super::headers::Headers;
use super::id::DurableId;
use super::message::{DecodeError, DurableMessage};
use super::payload_codec::Codec;
use super::record::{RecordState, StoredRepeat};
use super::store::{Finished, Found, Part, Position, Query};

/// The state of a durable timer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableState {
    /// The timer waits for its due time, for room in the window or for another attempt.
    Pending,
    /// The message is with its handler.
    InFlight,
    /// The message cannot be decoded, or its row is damaged: a node that starts with its message type tries again. Or it is
    /// [paused](super::DurableTimers::pause): then the reason begins so.
    Parked {
        /// The reason.
        reason: Arc<str>,
    },
    /// The timer failed for good, and waits to be [requeued](super::DurableTimers::requeue) or
    /// [discarded](super::DurableTimers::discard).
    Dead {
        /// The last error of the handler.
        reason: Arc<str>,
        /// The time at which the timer became a dead letter.
        since: DueTime,
    },
    /// The timer, or this repetition of it, is in the [past](super::RouteOptions::keep_past) of its route. Its message is not
    /// kept, and its [due time](DurableInfo::due) is the time of the end.
    Finished(Arc<Finished>),
}

/// The data of a durable timer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DurableInfo {
    /// The id of the timer.
    pub id: DurableId,
    /// The state of the timer.
    pub state: DurableState,
    /// The route of the message.
    pub route: Arc<str>,
    /// The name of the message type.
    pub message_type: Arc<str>,
    /// The version in which the message is encoded.
    pub message_version: u32,
    /// The idempotency key.
    pub key: Option<String>,
    /// The next due time, the due time without retries, and the numbers of attempt and repetition.
    pub progress: RecordState,
    /// The repetition, if any.
    pub repeat: Option<StoredRepeat>,
    /// The headers.
    pub headers: Headers,
    /// The id of the [codec](super::PayloadCodec) that has encoded the payload, if any.
    pub payload_codec: Option<Arc<str>>,
    /// The encoded message, as stored.
    pub payload: Arc<[u8]>,
    codec: Codec,
}

impl DurableInfo {
    /// Creates the data from a row.
    pub(super) fn of_found(found: &Found, codec: &Codec) -> Self {
        let Found { record, state } = found;
        let row = record.progress;
        let is_begun = matches!(state, DurableState::InFlight | DurableState::Dead { .. } | DurableState::Finished(_));
        let attempt = if is_begun { row.attempt } else { row.attempt.saturating_add(1) };
        Self {
            id: record.id,
            state: state.clone(),
            route: Arc::clone(&record.route),
            message_type: Arc::clone(&record.message_type),
            message_version: record.message_version,
            key: record.key.as_deref().map(str::to_owned),
            progress: RecordState { due: row.due, nominal: row.nominal, attempt, repetition: row.repetition },
            repeat: record.repeat.clone(),
            headers: record.headers.clone(),
            payload_codec: record.payload_codec.clone(),
            payload: Arc::clone(&record.payload),
            codec: codec.clone(),
        }
    }

    /// Returns its next due time.
    pub const fn due(&self) -> DueTime {
        self.progress.due
    }

    /// Decodes its message, of the name of `M` or one of its [aliases](DurableMessage::ALIASES).
    ///
    /// # Errors
    /// [`DecodeError`] if it is not an `M` or cannot be decoded.
    pub fn message<M: DurableMessage>(&self) -> Result<M, DecodeError> {
        if *self.message_type != *M::NAME && !M::ALIASES.contains(&&*self.message_type) {
            return Err(DecodeError::OtherType { found: self.message_type.to_string(), wanted: M::NAME });
        }
        let payload = self.codec.decode(self.payload_codec.as_deref(), &self.payload)?;
        M::decode(self.message_version, &payload)
    }
}

/// A filter of durable timers. An empty one matches all that are pending.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers_durable::DurableFilter;
///
/// let now = SystemTime::now();
/// let soon = DurableFilter::new().route("reminders").due(now..now + Duration::from_secs(3600)).limit(50);
/// let failed = DurableFilter::dead().route("reminders");
/// # let _ = (soon, failed);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a filter does nothing until timers are listed with it"]
pub struct DurableFilter {
    pub(super) query: Query,
    /// The maximum number of timers that a bulk call changes.
    pub(super) most: usize,
}

impl DurableFilter {
    const fn of(part: Part) -> Self {
        Self { query: Query::of(part), most: usize::MAX }
    }

    /// Creates a filter for timers pending or in flight.
    pub const fn new() -> Self {
        Self::of(Part::Pending)
    }

    /// Creates a filter for dead letters.
    pub const fn dead() -> Self {
        Self::of(Part::Dead)
    }

    /// Creates a filter for parked timers.
    pub const fn parked() -> Self {
        Self::of(Part::Parked)
    }

    /// Creates a filter for the [past](super::RouteOptions::keep_past): finished timers and repetitions, by the time of the end.
    pub const fn past() -> Self {
        Self::of(Part::Past)
    }

    /// Creates a filter for the past of one timer: its repetitions that have finished.
    pub const fn past_of(id: DurableId) -> Self {
        let mut past = Self::past();
        past.query.id = Some(id);
        past
    }

    /// Matches timers of one route.
    pub fn route(self, name: impl Into<String>) -> Self {
        Self { query: Query { route: Some(name.into().into()), ..self.query }, ..self }
    }

    /// Matches timers with this key; at most one is pending in each route. (Dead letters, and the past, keep their keys.)
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { query: Query { key: Some(key.into().into()), ..self.query }, ..self }
    }

    /// Matches timers whose keys begin with this text, compared byte by byte: `order-7` begins the key `order-71`, too.
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        Self { query: Query { key_prefix: Some(prefix.into().into()), ..self.query }, ..self }
    }

    /// Matches timers of one message type, by its [name](DurableMessage::NAME).
    pub fn message_type(self, name: impl Into<String>) -> Self {
        Self { query: Query { message_type: Some(name.into().into()), ..self.query }, ..self }
    }

    /// Matches timers that have a header of this name with exactly this value. Of several headers the last one counts.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { query: Query { header: Some((name.into().into(), value.into().into())), ..self.query }, ..self }
    }

    /// Matches timers due in this range; dead letters by their last due time, and the past by the time of the end.
    pub fn due<T: Into<SystemTime> + Clone>(self, range: impl RangeBounds<T>) -> Self {
        let at = |time: &T| DueTime::at_or_after(time.clone().into()).unwrap_or(DueTime::MAX);
        let reached = |time: &T| DueTime::reached_at(time.clone().into());
        let from = match range.start_bound() {
            Bound::Included(time) => at(time),
            Bound::Excluded(time) => reached(time).saturating_add(std::time::Duration::from_millis(1)),
            Bound::Unbounded => DueTime::MIN,
        };
        let until = match range.end_bound() {
            Bound::Included(time) => Some(reached(time)),
            // The last millisecond before it, if any.
            Bound::Excluded(time) => at(time).as_millis().checked_sub(1).and_then(|ms| DueTime::from_millis(ms).ok()),
            Bound::Unbounded => Some(DueTime::MAX),
        };
        let (from, until) = until.map_or((DueTime::MAX, DueTime::MIN), |until| (from, until));
        Self { query: Query { from, until, ..self.query }, ..self }
    }

    /// Limits the timers of a page, default 100, 1 to 10 000. Repetitions of one timer that finished in the same millisecond
    /// share a page of the past, which may be larger.
    pub fn limit(self, timers: usize) -> Self {
        Self { query: Query { limit: timers.clamp(1, 10_000), ..self.query }, ..self }
    }

    /// Bounds the timers that [`cancel_all`](super::DurableTimers::cancel_all), `requeue_all` and `discard_all` change:
    /// the first ones by due time. Lists and counts ignore it.
    pub const fn at_most(mut self, timers: usize) -> Self {
        self.most = timers;
        self
    }

    /// Continues after an earlier page: with its [`next`](DurablePage::next).
    pub const fn after(mut self, page: Position) -> Self {
        self.query.after = Some(page);
        self
    }
}

impl Default for DurableFilter {
    fn default() -> Self {
        Self::new()
    }
}

/// The numbers of timers by the outcomes of [`cancel_all`](super::DurableTimers::cancel_all).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CancelledAll {
    /// Timers that were cancelled before a handler had their message: it will not run with that (again).
    pub cancelled: u64,
    /// Timers that were cancelled while their message was with its handler: this delivery is their last.
    pub in_progress: u64,
    /// Timers that stay: a transaction of somebody else kept their rows locked, over several tries within a second.
    pub busy: u64,
}

/// A page of matching timers, by due time.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct DurablePage {
    /// The timers. There may be fewer than the limit, or none, although more follow: a page examines a bounded number
    /// of timers, whether or not they match.
    pub timers: Vec<DurableInfo>,
    /// The end of the page, for [`DurableFilter::after`]. It contains the id of a timer. None after the last page.
    pub next: Option<Position>,
    /// Timers in damaged locations of the store, which cannot be read.
    pub damaged: usize,
}

/// Writes the number of timers; there may be many.
impl fmt::Display for DurablePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.next.is_some() { ", and more" } else { "" };
        write!(f, "{} timers{end}", self.timers.len())
    }
}

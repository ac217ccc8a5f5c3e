//! From a request to the record of a new timer: the one way, for durable timers and for transactions of users.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_timers::Clock;

use super::contain::contain;
use super::due_time::DueTime;
use super::error::{DurableError, ScheduleError};
use super::headers::Headers;
use super::id::DurableId;
use super::key;
use super::message::{DurableMessage, EncodeError};
use super::options::DurableOptions;
use super::payload_codec::{Codec, PayloadCodec};
use super::record::{Record, RecordState};
use super::request::Schedule;
use super::store::{self, OnKey, StoreClock};
use super::store_wall::StoreWall;

/// The route and the shard of a new timer.
pub(super) struct Destination {
    pub(super) route: Arc<str>,
    pub(super) message_type: Arc<str>,
    pub(super) shard: u16,
}

impl<M: DurableMessage> Schedule<M> {
    /// Creates the record of the request, with the action for its key. The sequence number is 0.
    pub(super) fn record(
        &self,
        clock: &dyn Clock,
        codec: &Codec,
        destination: impl FnOnce() -> Result<Destination, DurableError>,
    ) -> Result<(Record, OnKey), DurableError> {
        let Self { when, options, message, .. } = self;
        let (due, repeat) = when.resolve(clock)?;
        let Destination { route, message_type, shard } = destination()?;
        let (key, on_key) = match &options.key {
            None => (None, OnKey::KeepExisting),
            Some((key, _)) if key.len() > DurableOptions::MAX_KEY_LEN => {
                return Err(DurableError::KeyTooLong { size: key.len() });
            }
            Some((key, on_key)) => (Some(key::kept(&route, key).into()), *on_key),
        };
        let headers = Headers::of(options.headers.iter().map(|(name, value)| (name, value)))?;
        // User code, which may run in the actor of the durable timers.
        let encoded = contain(|| message.encode().and_then(|payload| codec.encode(payload)));
        let panicked = |text| Err(EncodeError::new(format_args!("the encoder panicked: {text}")));
        let encoded = encoded.unwrap_or_else(panicked);
        let (payload_codec, payload) =
            encoded.map_err(|error| DurableError::Encode { message_type: M::NAME, error })?;
        let record = Record {
            id: DurableId::new(shard, due),
            progress: RecordState::first(due),
            sequence: 0,
            route,
            message_type,
            message_version: M::VERSION,
            key,
            repeat,
            retry: options.retry,
            headers,
            payload_codec,
            payload: payload.into(),
        };
        Ok((record, on_key))
    }

    /// Returns the message in an error.
    pub(super) fn rejected(self, reason: DurableError) -> ScheduleError<M> {
        ScheduleError::new(self.message, reason)
    }
}

/// A number larger than all earlier ones, also if the clock goes back; across processes only if it does not.
pub(super) const fn next_sequence(last: u64, wall: DueTime) -> u64 {
    let of_now = wall.as_millis() << (u64::BITS - DueTime::BITS);
    let next = last.saturating_add(1);
    if next > of_now { next } else { of_now }
}

/// Makes the records of requests for a shared store that schedules in transactions of its users, without durable
/// timers: the same records as [`DurableTimers::schedule`](crate::DurableTimers::schedule).
///
/// ```
/// use std::time::Duration;
/// use actix_timers_durable::store::{RecordBuilder, StoreClock};
/// use actix_timers_durable::{DurableMessage, Schedule};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
///
/// let builder = RecordBuilder::new(StoreClock::default());
/// let (record, _) = builder.record(&Schedule::after("reminders", Duration::from_secs(3600), Remind(7)), 5)?;
/// assert_eq!((&*record.route, record.id.shard()), ("reminders", 5));
/// # Ok::<(), actix_timers_durable::DurableError>(())
/// ```
#[derive(Clone)]
pub struct RecordBuilder {
    clock: Arc<StoreWall>,
    codec: Codec,
    sequence: Arc<AtomicU64>,
}

impl RecordBuilder {
    /// Creates a builder that follows the clock of a store.
    pub fn new(clock: StoreClock) -> Self {
        Self { clock: Arc::new(StoreWall::new(clock)), codec: Codec::default(), sequence: Arc::default() }
    }

    /// Sets the codec of all messages, as
    /// [`DurableTimersBuilder::payload_codec`](crate::DurableTimersBuilder::payload_codec) does.
    #[must_use]
    pub fn payload_codec(self, codec: impl PayloadCodec) -> Self {
        Self { codec: Codec::new(codec), ..self }
    }

    /// Creates the record of a request in a shard, with the action for its key. No route need be registered.
    ///
    /// # Errors
    /// No route can have this name, the due time is out of range, the message cannot be encoded or is too large.
    pub fn record<M: DurableMessage>(
        &self,
        request: &Schedule<M>,
        shard: u16,
    ) -> Result<(Record, OnKey), DurableError> {
        let (mut record, on_key) = request.record(&*self.clock, &self.codec, || {
            if !key::is_route_name(&request.route) {
                return Err(DurableError::RouteName(request.route.clone()));
            }
            Ok(Destination { route: request.route.as_str().into(), message_type: M::NAME.into(), shard })
        })?;
        store::check_lengths(&record).map_err(|error| DurableError::Store(Arc::new(error)))?;
        let wall = DueTime::reached_at(self.clock.wall());
        let next = |last| Some(next_sequence(last, wall));
        let last = self.sequence.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        record.sequence = next_sequence(last.unwrap_or_else(|last| last), wall);
        Ok((record, on_key))
    }
}

impl fmt::Debug for RecordBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBuilder").field("codec", &self.codec).finish_non_exhaustive()
    }
}

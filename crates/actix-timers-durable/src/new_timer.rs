//! From a request to the record of a new timer: the one way, for durable timers and for transactions of users.

use std::sync::Arc;

use actix_timers::integration::{contain, unguessable};
use actix_timers::{Clock, SystemClock};

use super::error::DurableError;
use super::headers::Headers;
use super::id::DurableId;
use super::message::{DurableMessage, EncodeError};
use super::options::DurableOptions;
use super::payload_codec::{Codec, PayloadCodec};
use super::request::Schedule;
use super::routes::is_route_name;
use super::spread::jittered;
use super::store::{NewTimer, OnKey, Progress, Record, StoreClock};

impl<M: DurableMessage> Schedule<M> {
    /// Creates the row of the request, with the action for its key, given its route and message type.
    pub(super) fn new_timer(
        &self,
        clock: &dyn Clock,
        codec: &Codec,
        names: impl FnOnce() -> Result<(Arc<str>, Arc<str>), DurableError>,
    ) -> Result<NewTimer, DurableError> {
        let Self { route, when, options, message } = self;
        let (nominal, repeat) = when.resolve(clock, route, options)?;
        let jitter = repeat.as_ref().and_then(|repeat| repeat.jitter).unwrap_or_default();
        let due = jittered(nominal, jitter, unguessable());
        let (route, message_type) = names()?;
        let (key, on_key) = match &options.key {
            None => (None, OnKey::KeepExisting),
            Some((key, _)) if key.len() > DurableOptions::MAX_KEY_LEN => {
                return Err(DurableError::KeyTooLong { size: key.len() });
            }
            Some((key, on_key)) => (Some(key.as_str().into()), *on_key),
        };
        let headers = Headers::of(options.headers.iter().map(|(name, value)| (name, value)))?;
        // User code, which may run in the actor of the durable timers.
        let encoded = contain(|| message.encode().and_then(|payload| codec.encode(payload)));
        let panicked = |text| Err(EncodeError::new(format_args!("the encoder panicked: {text}")));
        let encoded = encoded.unwrap_or_else(panicked);
        let (payload_codec, payload) =
            encoded.map_err(|error| DurableError::Encode { message_type: M::NAME, error })?;
        let record = Record {
            id: DurableId::new(due),
            progress: Progress { nominal, ..Progress::first(due) },
            route,
            message_type,
            message_version: M::VERSION,
            keep_key: options.keep_key.filter(|_| key.is_some()),
            key,
            repeat,
            max_attempts: options.retry.map(|retry| retry.attempts),
            retry: options.retry,
            headers,
            payload_codec,
            payload: payload.into(),
        };
        record.check_lengths().map_err(|error| DurableError::Store(Arc::new(error)))?;
        Ok(NewTimer { record: Arc::new(record), on_key })
    }
}

/// Makes the rows of requests for a shared store that schedules in transactions of its users, without durable
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
/// let timer = builder.new_timer(&Schedule::after("reminders", Duration::from_secs(3600), Remind(7)))?;
/// assert_eq!(&*timer.record.route, "reminders");
/// # Ok::<(), actix_timers_durable::DurableError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecordBuilder {
    clock: Arc<SystemClock>,
    codec: Codec,
}

impl RecordBuilder {
    /// Creates a builder that follows the clock of a store.
    pub fn new(clock: StoreClock) -> Self {
        Self { clock: Arc::new(clock.system_clock()), codec: Codec::default() }
    }

    /// Sets the codec of all messages, as
    /// [`DurableTimersBuilder::payload_codec`](crate::DurableTimersBuilder::payload_codec) does.
    #[must_use]
    pub fn payload_codec(self, codec: impl PayloadCodec) -> Self {
        Self { codec: Codec::new(codec), ..self }
    }

    /// Creates the row of a request, with the action for its key. No route need be registered.
    ///
    /// # Errors
    /// No route can have this name, the due time is out of range, the message cannot be encoded or is too large.
    pub fn new_timer<M: DurableMessage>(&self, request: &Schedule<M>) -> Result<NewTimer, DurableError> {
        request.new_timer(&*self.clock, &self.codec, || {
            if !is_route_name(&request.route) {
                return Err(DurableError::RouteName(request.route.clone().into_owned()));
            }
            Ok(((*request.route).into(), M::NAME.into()))
        })
    }
}

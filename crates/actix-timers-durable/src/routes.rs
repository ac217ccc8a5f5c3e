//! Routes: from the names in a record to a live actor and a message type.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use actix::Recipient;
use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::contain::{contain, drop_contained};
use super::envelope::{Durable, UnderWay};
use super::error::{DurableBuildError, DurableError};
use super::message::{DecodeError, DurableMessage};
use super::payload_codec::Codec;
use super::record::RetryPolicy;
use super::reply::{Answering, answering};
use super::route::Route;
use super::store::{Filter, NodeInfo, Record, Served};

/// Returns whether a route can have this name: 1 to 255 bytes without control characters.
pub(super) fn is_route_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Options of a route: how its messages are delivered.
///
/// ```
/// use actix_timers_durable::{RetryPolicy, RouteOptions};
///
/// let one_by_one = RouteOptions::new().window(1).retry(RetryPolicy::default().max_attempts(100));
/// # let _ = one_by_one;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "options do nothing until a route is registered with them"]
pub struct RouteOptions {
    pub(super) window: usize,
    pub(super) retry: RetryPolicy,
    pub(super) aliases: Vec<Arc<str>>,
    /// 0: never.
    pub(super) pause_after: u32,
    pub(super) keep_past: Option<Duration>,
}

impl RouteOptions {
    /// Creates the default options: 256 deliveries in flight, and the default [`RetryPolicy`].
    pub fn new() -> Self {
        Self { window: 256, retry: RetryPolicy::default(), aliases: Vec::new(), pause_after: 0, keep_past: None }
    }

    /// Limits the messages with the handler and not answered; others wait in the order of their due times. With 1 a
    /// message is delivered only when the handler of the previous one has ended. 0 counts as 1.
    pub const fn window(mut self, messages: usize) -> Self {
        self.window = if messages == 0 { 1 } else { messages };
        self
    }

    /// Sets the retry policy for timers without their own.
    pub const fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// [Pauses](super::DurableTimers::pause) the route on all nodes after this number of failures, without a success between
    /// them, on one node: retried ones and dead letters, whatever their timers. It stays paused until it is
    /// [resumed](super::DurableTimers::resume). With 0, the default, it is never paused.
    pub const fn pause_after_failures(mut self, failures: u32) -> Self {
        self.pause_after = failures;
        self
    }

    /// Keeps a past of the route: each timer and repetition that completes or becomes a dead letter leaves a row, in the same
    /// transaction, with its attempts, their errors, its times and the [result](Durable::note_result) that its handler noted,
    /// but without its message. [`DurableFilter::past`](super::DurableFilter::past) finds it. By default there is none. A
    /// cancel leaves no row.
    ///
    /// Rows older than `time` are discarded as those of
    /// [`keep_dead_letters`](super::DurableTimersBuilder::keep_dead_letters) are. Those of a route that keeps a past no more
    /// stay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers::ManualClock;
    /// # use actix_timers_durable::{Durable, DurableFilter, DurableMessage, DurableState, DurableTimers, HandlerError, MemoryStore, RouteOptions};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Export { files: u32 }
    /// # impl DurableMessage for Export { const NAME: &'static str = "export"; }
    /// # struct Archive;
    /// # impl Actor for Archive { type Context = Context<Self>; }
    /// impl Handler<Durable<Export>> for Archive {
    ///     type Result = Result<(), HandlerError>;
    ///
    ///     fn handle(&mut self, export: Durable<Export>, _: &mut Self::Context) -> Self::Result {
    ///         if export.attempt == 1 {
    ///             return Err(HandlerError::new("the archive is closed"));
    ///         }
    ///         export.note_result(format!("{} files", export.files));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # System::new().block_on(async {
    /// # let clock = ManualClock::new();
    /// let week = RouteOptions::new().keep_past(Duration::from_secs(7 * 86_400));
    /// let timers = DurableTimers::builder(MemoryStore::new())
    ///     .route_with::<Export>("archive", Archive.start(), week)
    ///     .clock(clock.clone())
    ///     .start()?;
    /// let id = timers.schedule_after("archive", Duration::from_secs(60), Export { files: 3 }).await?.id();
    /// clock.advance(Duration::from_secs(120)).await;
    ///
    /// let page = timers.list(DurableFilter::past_of(id)).await?;
    /// let DurableState::Finished(end) = &page.timers[0].state else { unreachable!() };
    /// assert_eq!(end.result.as_deref(), Some("3 files"));
    /// assert_eq!(&*end.errors[0].reason, "the archive is closed");
    /// # timers.stop().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub const fn keep_past(mut self, time: Duration) -> Self {
        self.keep_past = Some(time);
        self
    }

    /// Delivers timers that name the route by this former name, too.
    pub fn alias(mut self, former: &str) -> Self {
        self.aliases.push(former.into());
        self
    }
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts a decoded message into the mailbox of its recipient. None if that is closed.
pub(super) type Sending = Box<dyn FnOnce() -> Option<Answering>>;

/// The recipient of a route for one message type.
trait End: Any + Send + Sync {
    fn is_connected(&self) -> bool;
    /// Decodes the message of a delivery. None without a recipient.
    fn unpack(&self, under_way: &Arc<UnderWay>, codec: &Codec) -> Result<Option<Sending>, DecodeError>;
}

struct TypedEnd<M: DurableMessage>(RwLock<Option<Recipient<Durable<M>>>>);

impl<M: DurableMessage> TypedEnd<M> {
    fn recipient(&self) -> Option<Recipient<Durable<M>>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .filter(|recipient| recipient.connected())
            .cloned()
    }
}

impl<M: DurableMessage> End for TypedEnd<M> {
    fn is_connected(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Recipient::connected)
    }

    fn unpack(&self, under_way: &Arc<UnderWay>, codec: &Codec) -> Result<Option<Sending>, DecodeError> {
        let (record, Some(recipient)) = (&under_way.record, self.recipient()) else { return Ok(None) };
        // User code.
        let decoded = contain(|| {
            let payload = codec.decode(record.payload_codec.as_deref(), &record.payload)?;
            M::decode(record.message_version, &payload)
        });
        let panicked = |text| Err(DecodeError::malformed(format_args!("the decoder panicked: {text}")));
        let message = decoded.unwrap_or_else(panicked)?;
        let progress = record.progress;
        let durable = Durable {
            id: record.id,
            attempt: progress.attempt,
            due: progress.nominal,
            repetition: progress.repetition,
            headers: record.headers.clone(),
            message,
            under_way: Arc::clone(under_way),
        };
        Ok(Some(Box::new(move || send(&recipient, durable))))
    }
}

fn send<M: DurableMessage>(recipient: &Recipient<Durable<M>>, durable: Durable<M>) -> Option<Answering> {
    if !recipient.connected() {
        return None;
    }
    let mut request = answering(Box::pin(unconstrained(recipient.send(durable))));
    // A full mailbox accepts a request that is polled for its reply. Polling here keeps the order of sending.
    match (&mut request).now_or_never() {
        Some(answer) => Some(Box::pin(std::future::ready(answer))),
        None => Some(Box::pin(request)),
    }
}

/// A route for one name and one message type.
pub(super) struct Registered {
    pub(super) name: Arc<str>,
    pub(super) message_type: Arc<str>,
    pub(super) options: RouteOptions,
    rust_type: TypeId,
    /// The newest version of the message type that this build decodes.
    version: u32,
    /// Whether this node delivers it.
    delivers: bool,
    end: Box<dyn End>,
}

/// The relation of a node to a route.
pub(super) enum Role<M: DurableMessage> {
    /// The node delivers it, to this recipient or one that is connected later.
    Delivers(Option<Recipient<Durable<M>>>),
    /// Other nodes deliver it.
    Declares,
}

impl Registered {
    /// Returns whether the route has a recipient.
    pub(super) fn is_connected(&self) -> bool {
        self.end.is_connected()
    }
}

/// All routes of one store, fixed when the durable timers start. Only their recipients can change.
#[derive(Default)]
pub(super) struct Routes {
    all: Vec<Registered>,
    codec: Codec,
    indices: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
}

impl Routes {
    /// Adds a route.
    pub(super) fn register<M: DurableMessage>(
        &mut self,
        name: &Route<M>,
        options: RouteOptions,
        role: Role<M>,
    ) -> Result<(), DurableBuildError> {
        let name = name.name();
        let names = || std::iter::once(name).chain(options.aliases.iter().map(AsRef::as_ref));
        if let Some(impossible) = names().find(|name| !is_route_name(name)) {
            return Err(DurableBuildError::RouteName(impossible.to_owned()));
        }
        let types = || std::iter::once(M::NAME).chain(M::ALIASES.iter().copied());
        let all: Vec<_> = names().flat_map(|name| types().map(move |of| (name, of))).collect();
        for (name, message_type) in all {
            let types = self.indices.entry(name.into()).or_default();
            if types.insert(message_type.into(), self.all.len()).is_some() {
                return Err(DurableBuildError::RouteTwice { route: name.to_owned(), message_type });
            }
        }
        let (name, message_type) = (name.into(), M::NAME.into());
        let (delivers, recipient) = match role {
            Role::Delivers(recipient) => (true, recipient),
            Role::Declares => (false, None),
        };
        let end = Box::new(TypedEnd(RwLock::new(recipient)));
        self.all.push(Registered {
            name,
            message_type,
            options,
            rust_type: TypeId::of::<M>(),
            version: M::VERSION,
            delivers,
            end,
        });
        Ok(())
    }

    /// Returns the index of a route.
    pub(super) fn route_index(&self, name: &str, message_type: &str) -> Option<usize> {
        self.indices.get(name)?.get(message_type).copied()
    }

    /// Leaves the delivery of all routes to other nodes.
    pub(super) fn only_declare(&mut self) {
        self.all.iter_mut().for_each(|route| route.delivers = false);
    }

    /// Returns whether other nodes must deliver a route.
    pub(super) fn are_declared(&self, only_schedules: bool) -> bool {
        only_schedules || self.all.iter().any(|route| !route.delivers)
    }

    /// Returns a route that this node delivers.
    pub(super) fn delivered(&self, name: &str, message_type: &str) -> Option<&Registered> {
        self.route_index(name, message_type).map(|index| &self.all[index]).filter(|route| route.delivers)
    }

    /// Returns the names of the delivered routes that keep a past, with the longest time of their message types.
    pub(super) fn pasts(&self) -> impl Iterator<Item = (&Arc<str>, Duration)> {
        self.indices.iter().filter_map(|(name, types)| {
            let routes = types.values().map(|index| &self.all[*index]).filter(|route| route.delivers);
            Some((name, routes.filter_map(|route| route.options.keep_past).max()?))
        })
    }

    /// Returns the node that delivers these routes.
    pub(super) fn node(&self, name: &str) -> NodeInfo {
        NodeInfo { name: name.to_owned(), serves: (*self.filter(|_| true)).clone() }
    }

    /// Returns the windows of the routes, by index; none for those of other nodes.
    pub(super) fn windows(&self) -> impl Iterator<Item = Option<usize>> {
        self.all.iter().map(|route| route.delivers.then_some(route.options.window))
    }

    /// Returns the number of the route of a timer, if this node delivers it.
    pub(super) fn number_of(&self, record: &Record) -> Option<u16> {
        let index = self.route_index(&record.route, &record.message_type)?;
        let route = &self.all[index];
        let is_served = route.delivers && record.message_version <= route.version;
        u16::try_from(index).ok().filter(|_| is_served)
    }

    /// Returns a filter of the delivered routes for which this holds.
    pub(super) fn filter(&self, is_wanted: impl Fn(u16) -> bool) -> Arc<Filter> {
        let number = |index: &usize| u16::try_from(*index).ok().filter(|number| is_wanted(*number));
        let names =
            self.indices.iter().flat_map(|(name, types)| types.iter().map(move |(of, index)| (name, of, index)));
        let served = names.filter_map(|(name, message_type, at)| {
            let (index, route) = (number(at)?, &self.all[*at]);
            route.delivers.then(|| Served {
                index,
                route: Arc::clone(name),
                message_type: Arc::clone(message_type),
                version: route.version,
                max_attempts: route.options.retry.attempts,
            })
        });
        let mut served: Vec<_> = served.collect();
        served.sort_by_key(|served| served.index);
        Arc::new(Filter { served })
    }

    /// Returns the names that stand for the same routes as this one, with itself.
    pub(super) fn names_of(&self, name: &Arc<str>) -> Vec<Arc<str>> {
        let Some(types) = self.indices.get(name) else { return vec![Arc::clone(name)] };
        let is_same =
            |other: &BTreeMap<Arc<str>, usize>| other.values().any(|index| types.values().any(|it| it == index));
        self.indices.iter().filter(|(_, other)| is_same(other)).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Returns the routes, by index.
    pub(super) fn all(&self) -> &[Registered] {
        &self.all
    }

    /// Sets the codec of all messages.
    pub(super) fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    /// Returns the codec of all messages.
    pub(super) const fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Decodes the message of a delivery for its route. None without a recipient.
    pub(super) fn unpack(&self, route: usize, under_way: &Arc<UnderWay>) -> Result<Option<Sending>, DecodeError> {
        self.all[route].end.unpack(under_way, &self.codec)
    }

    /// Returns the route for a message type.
    pub(super) fn of<M: DurableMessage>(&self, name: &str) -> Result<(usize, &Registered), DurableError> {
        let types = self.indices.get(name).ok_or_else(|| DurableError::UnknownRoute { route: name.to_owned() })?;
        let index = types.get(M::NAME).copied();
        index
            .and_then(|index| Some((index, self.all.get(index)?)))
            .filter(|(_, route)| route.rust_type == TypeId::of::<M>())
            .ok_or_else(|| DurableError::UnknownMessage { route: name.to_owned(), message_type: M::NAME })
    }

    /// Connects a route to another recipient, and returns the index of the route.
    pub(super) fn connect<M: DurableMessage>(
        &self,
        name: &Route<M>,
        recipient: Recipient<Durable<M>>,
    ) -> Result<usize, DurableError> {
        let (index, route) = self.of::<M>(name.name())?;
        let end: &dyn Any = &*route.end;
        if let Some(TypedEnd(there)) = end.downcast_ref::<TypedEnd<M>>() {
            let before = there.write().unwrap_or_else(PoisonError::into_inner).replace(recipient);
            // It may contain the last address of an actor.
            drop_contained(before);
        }
        Ok(index)
    }
}

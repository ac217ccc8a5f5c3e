//! Routes: from the names in a record to a live actor and a message type.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use actix::Recipient;
use actix_timers::integration::{contain, drop_contained};
use futures_util::FutureExt;
use tokio::task::unconstrained;

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

/// The recipient of a route for one message type.
trait End: Any + Send + Sync {
    fn is_connected(&self) -> bool;
    /// Decodes the message of a delivery, and puts it into the mailbox of its recipient. None without one, or if it is closed.
    fn deliver(&self, under_way: &Arc<UnderWay>, codec: &Codec) -> Result<Option<Answering>, DecodeError>;
}

pub(super) struct TypedEnd<M: DurableMessage>(RwLock<Option<Recipient<Durable<M>>>>);

impl<M: DurableMessage> TypedEnd<M> {
    fn recipient(&self) -> RwLockReadGuard<'_, Option<Recipient<Durable<M>>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: DurableMessage> End for TypedEnd<M> {
    fn is_connected(&self) -> bool {
        self.recipient().as_ref().is_some_and(Recipient::connected)
    }

    fn deliver(&self, under_way: &Arc<UnderWay>, codec: &Codec) -> Result<Option<Answering>, DecodeError> {
        let connected = self.recipient().clone().filter(Recipient::connected);
        let (record, Some(recipient)) = (&under_way.record, connected) else { return Ok(None) };
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
        // The destructor of a message that is not accepted is user code.
        Ok(contain(|| send(&recipient, durable)).unwrap_or_default())
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
    /// Whether this node delivers it.
    pub(super) delivers: bool,
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
    /// By number.
    pub(super) all: Vec<Registered>,
    /// All names of the routes with all names of their message types, in the order of their numbers.
    names: Filter,
    /// The codec of all messages.
    pub(super) codec: Codec,
}

impl Routes {
    /// Adds a route.
    pub(super) fn register<M: DurableMessage>(
        &mut self,
        name: &Route<M>,
        options: RouteOptions,
        role: Role<M>,
    ) -> Result<(), DurableBuildError> {
        for name in std::iter::once(name.name()).chain(options.aliases.iter().map(|alias| &**alias)) {
            if !is_route_name(name) {
                return Err(DurableBuildError::RouteName(name.to_owned()));
            }
            for message_type in std::iter::once(M::NAME).chain(M::ALIASES.iter().copied()) {
                if self.names.find(name, message_type, 0).is_some() {
                    return Err(DurableBuildError::RouteTwice { route: name.to_owned(), message_type });
                }
                // Nobody has more.
                let Ok(index) = u16::try_from(self.all.len()) else { continue };
                self.names.served.push(Served {
                    index,
                    route: name.into(),
                    message_type: message_type.into(),
                    version: M::VERSION,
                    max_attempts: options.retry.attempts,
                });
            }
        }
        let (delivers, recipient) = match role {
            Role::Delivers(recipient) => (true, recipient),
            Role::Declares => (false, None),
        };
        self.all.push(Registered {
            name: name.name().into(),
            message_type: M::NAME.into(),
            options,
            delivers,
            end: Box::new(TypedEnd(RwLock::new(recipient))),
        });
        Ok(())
    }

    /// Returns the route with this number.
    pub(super) fn get(&self, number: u16) -> &Registered {
        &self.all[usize::from(number)]
    }

    /// Returns a route that this node delivers.
    pub(super) fn delivered(&self, name: &str, message_type: &str) -> Option<&Registered> {
        let served = self.names.find(name, message_type, 0)?;
        Some(self.get(served.index)).filter(|route| route.delivers)
    }

    /// Returns the names of the delivered routes that keep a past, with the longest time of their message types.
    pub(super) fn pasts(&self) -> BTreeMap<Arc<str>, Duration> {
        let mut pasts = BTreeMap::new();
        for served in &self.filter(|_| true).served {
            if let Some(keep) = self.get(served.index).options.keep_past {
                let longest = pasts.entry(Arc::clone(&served.route)).or_insert(keep);
                *longest = keep.max(*longest);
            }
        }
        pasts
    }

    /// Returns the node that delivers these routes.
    pub(super) fn node(&self, name: &str) -> NodeInfo {
        NodeInfo { name: name.to_owned(), serves: (*self.filter(|_| true)).clone() }
    }

    /// Returns the windows of the routes, by number; none for those of other nodes.
    pub(super) fn windows(&self) -> impl Iterator<Item = Option<usize>> {
        self.all.iter().map(|route| route.delivers.then_some(route.options.window))
    }

    /// Returns the number of the route of a timer, if this node delivers it.
    pub(super) fn number_of(&self, record: &Record) -> Option<u16> {
        let served = self.names.find(&record.route, &record.message_type, record.message_version)?;
        self.get(served.index).delivers.then_some(served.index)
    }

    /// Returns a filter of the delivered routes for which this holds.
    pub(super) fn filter(&self, is_wanted: impl Fn(u16) -> bool) -> Arc<Filter> {
        let is_wanted = |served: &&Served| self.get(served.index).delivers && is_wanted(served.index);
        Arc::new(Filter { served: self.names.served.iter().filter(is_wanted).cloned().collect() })
    }

    /// Returns the names that stand for the same routes as this one, with itself.
    pub(super) fn names_of(&self, name: &Arc<str>) -> BTreeSet<Arc<str>> {
        let of_name = |index| self.names.served.iter().any(|served| served.index == index && served.route == *name);
        let same = self.names.served.iter().filter(|served| of_name(served.index));
        same.map(|served| Arc::clone(&served.route)).chain([Arc::clone(name)]).collect()
    }

    /// Decodes the message of a delivery, and sends it to the recipient of its route. None if that accepts none.
    pub(super) fn deliver(&self, route: u16, under_way: &Arc<UnderWay>) -> Result<Option<Answering>, DecodeError> {
        self.get(route).end.deliver(under_way, &self.codec)
    }

    /// Returns the number of the route for a message type, and its end.
    pub(super) fn of<M: DurableMessage>(&self, name: &str) -> Result<(u16, &TypedEnd<M>), DurableError> {
        let mut of_name = self.names.served.iter().filter(|served| *served.route == *name).peekable();
        of_name.peek().ok_or_else(|| DurableError::UnknownRoute { route: name.to_owned() })?;
        of_name
            .find(|served| *served.message_type == *M::NAME)
            .and_then(|served| {
                let end: &dyn Any = &*self.get(served.index).end;
                Some((served.index, end.downcast_ref()?))
            })
            .ok_or_else(|| DurableError::UnknownMessage { route: name.to_owned(), message_type: M::NAME })
    }

    /// Connects a route to another recipient, and returns its number.
    pub(super) fn connect<M: DurableMessage>(
        &self,
        name: &Route<M>,
        recipient: Recipient<Durable<M>>,
    ) -> Result<u16, DurableError> {
        let (number, TypedEnd(end)) = self.of::<M>(name.name())?;
        if !self.get(number).delivers {
            return Err(DurableError::OnlyDeclared { route: name.name().to_owned() });
        }
        let before = end.write().unwrap_or_else(PoisonError::into_inner).replace(recipient);
        // It may contain the last address of an actor.
        drop_contained(before);
        Ok(number)
    }
}

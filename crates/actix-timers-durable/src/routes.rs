//! Routes: from the names in a record to a live actor and a message type.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use actix::Recipient;
use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::contain::{contain, drop_contained};
use super::envelope::{Delivery, Durable, Extend};
use super::error::{DurableBuildError, DurableError};
use super::key;
use super::message::{DecodeError, DurableMessage};
use super::payload_codec::Codec;
use super::record::{Record, RetryPolicy};
use super::reply::{Answering, Reply};
use super::store::Node;

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
    /// The pool of shards; none for the default pool.
    pub(super) pool: Option<Arc<str>>,
}

/// The pool of routes without their own.
pub(super) const DEFAULT_POOL: &str = "default";

impl RouteOptions {
    /// Creates the default options: 256 deliveries in flight, and the default [`RetryPolicy`].
    pub fn new() -> Self {
        Self { window: 256, retry: RetryPolicy::default(), pool: None }
    }

    /// Sets the pool of a shared store whose shards keep the timers of this route, default `default`. Only nodes that
    /// deliver a route of the pool own its shards. In a store for one process it has no effect.
    pub fn pool(self, name: &str) -> Self {
        Self { pool: Some(name.into()), ..self }
    }

    /// Returns the name of the pool.
    pub(super) fn pool_name(&self) -> &str {
        self.pool.as_deref().unwrap_or(DEFAULT_POOL)
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
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A decoded message with its recipient.
pub(super) trait Addressed: Send {
    /// Puts the message into the mailbox. None if that is closed.
    fn send(self: Box<Self>) -> Option<Answering>;
}

/// The recipient of a route for one message type.
trait End: Any + Send + Sync {
    fn is_connected(&self) -> bool;
    /// Decodes the message of a record. None without a recipient.
    fn unpack(
        &self,
        record: &Record,
        codec: &Codec,
        extensions: &Arc<Recipient<Extend>>,
    ) -> Result<Option<Box<dyn Addressed>>, DecodeError>;
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

    fn unpack(
        &self,
        record: &Record,
        codec: &Codec,
        extensions: &Arc<Recipient<Extend>>,
    ) -> Result<Option<Box<dyn Addressed>>, DecodeError> {
        let Some(recipient) = self.recipient() else { return Ok(None) };
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
            delivery: Delivery { progress, extensions: Arc::clone(extensions) },
        };
        Ok(Some(Box::new((recipient, durable))))
    }
}

impl<M: DurableMessage> Addressed for (Recipient<Durable<M>>, Durable<M>) {
    fn send(self: Box<Self>) -> Option<Answering> {
        let (recipient, durable) = *self;
        if !recipient.connected() {
            return None;
        }
        let mut request = Box::pin(Reply::to(Box::pin(unconstrained(recipient.send(durable)))));
        // A full mailbox accepts a request that is polled for its reply. Polling here keeps the order of sending.
        match (&mut request).now_or_never() {
            Some(answer) => Some(Box::pin(std::future::ready(answer))),
            None => Some(request),
        }
    }
}

/// A route for one name and one message type.
pub(super) struct Route {
    pub(super) name: Arc<str>,
    pub(super) message_type: Arc<str>,
    pub(super) options: RouteOptions,
    rust_type: TypeId,
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

impl Route {
    /// Returns whether the route has a recipient.
    pub(super) fn is_connected(&self) -> bool {
        self.end.is_connected()
    }
}

/// All routes of one store, fixed when the durable timers start. Only their recipients can change.
#[derive(Default)]
pub(super) struct Routes {
    all: Vec<Route>,
    codec: Codec,
    indices: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
}

impl Routes {
    /// Adds a route.
    pub(super) fn register<M: DurableMessage>(
        &mut self,
        name: &str,
        options: RouteOptions,
        role: Role<M>,
    ) -> Result<(), DurableBuildError> {
        if !key::is_route_name(name) {
            return Err(DurableBuildError::RouteName(name.to_owned()));
        }
        if self.route_index(name, M::NAME).is_some() {
            return Err(DurableBuildError::RouteTwice { route: name.to_owned(), message_type: M::NAME });
        }
        let name: Arc<str> = self.indices.get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let message_type: Arc<str> = M::NAME.into();
        self.indices.entry(Arc::clone(&name)).or_default().insert(Arc::clone(&message_type), self.all.len());
        let (delivers, recipient) = match role {
            Role::Delivers(recipient) => (true, recipient),
            Role::Declares => (false, None),
        };
        let end = Box::new(TypedEnd(RwLock::new(recipient)));
        self.all.push(Route { name, message_type, options, rust_type: TypeId::of::<M>(), delivers, end });
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
    pub(super) fn delivered(&self, name: &str, message_type: &str) -> Option<&Route> {
        self.route_index(name, message_type).map(|index| &self.all[index]).filter(|route| route.delivers)
    }

    /// Returns the node that delivers these routes.
    pub(super) fn node(&self, name: &str) -> Node {
        let mut node = Node { name: name.to_owned(), ..Node::default() };
        for Route { name, message_type, options, delivers, .. } in &self.all {
            if *delivers {
                node.routes.push((Arc::clone(name), Arc::clone(message_type)));
            }
            let pools = if *delivers { &mut node.pools } else { &mut node.declared };
            if !pools.iter().any(|pool| **pool == *options.pool_name()) {
                pools.push(options.pool_name().into());
            }
        }
        node
    }

    /// Returns the routes, by index.
    pub(super) fn all(&self) -> &[Route] {
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

    /// Decodes the message of a record for its route. None without a recipient.
    pub(super) fn unpack(
        &self,
        route: usize,
        record: &Record,
        extensions: &Arc<Recipient<Extend>>,
    ) -> Result<Option<Box<dyn Addressed>>, DecodeError> {
        self.all[route].end.unpack(record, &self.codec, extensions)
    }

    /// Returns the route for a message type.
    pub(super) fn of<M: DurableMessage>(&self, name: &str) -> Result<(usize, &Route), DurableError> {
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
        name: &str,
        recipient: Recipient<Durable<M>>,
    ) -> Result<usize, DurableError> {
        let (index, route) = self.of::<M>(name)?;
        let end: &dyn Any = &*route.end;
        if let Some(TypedEnd(there)) = end.downcast_ref::<TypedEnd<M>>() {
            let before = there.write().unwrap_or_else(PoisonError::into_inner).replace(recipient);
            // It may contain the last address of an actor.
            drop_contained(before);
        }
        Ok(index)
    }
}

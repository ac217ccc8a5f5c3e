//! Routes: from the names in a record to an actor that lives now and a type that it understands.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Poll, Waker};

use actix::{MailboxError, Recipient};
use futures_util::FutureExt;
use tokio::task::unconstrained;

use super::envelope::{Durable, HandlerError};
use super::error::{DurableBuildError, DurableError};
use super::key;
use super::message::{DecodeError, DurableMessage};
use super::record::{Record, RetryPolicy};

/// How messages of a route are delivered.
///
/// ```
/// use actix_timers_durable::{RetryPolicy, RouteOptions};
///
/// let one_by_one = RouteOptions::new().window(1).retry(RetryPolicy::default().max_attempts(100));
/// # let _ = one_by_one;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "options do nothing until a route is registered with them"]
pub struct RouteOptions {
    pub(super) window: usize,
    pub(super) retry: RetryPolicy,
}

impl RouteOptions {
    /// 256 deliveries in flight, and the default [`RetryPolicy`].
    pub fn new() -> Self {
        Self { window: 256, retry: RetryPolicy::default() }
    }

    /// So many messages may be with the handler and not answered; the others wait their turn, in the order in which they are
    /// due. With 1 a message comes only when the handler of the one before has ended. 0 counts as 1.
    pub const fn window(mut self, messages: usize) -> Self {
        self.window = if messages == 0 { 1 } else { messages };
        self
    }

    /// What happens when the handler fails, for timers that do not say it themselves.
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

/// What a handler answered, or why it did not.
pub(super) type Answer = Result<Result<(), HandlerError>, MailboxError>;
/// An answer to come. Dropped before that, the message is withdrawn if its handler has not begun.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Takes back a message whose handler has not begun.
pub(super) struct Withdrawal(Rc<Cell<Waiting>>);

#[derive(Default)]
enum Waiting {
    /// Nobody waits: it was answered, or withdrawn.
    #[default]
    Over,
    ForAnswer(Answering, Option<Waker>),
}

impl Withdrawal {
    /// From now on its handler does not begin. (That of a task which is aborted could, until the task is looked at.)
    pub(super) fn withdraw(self) {
        if let Waiting::ForAnswer(answering, waker) = self.0.take() {
            drop(answering);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Waits for an answer; for none when the message is withdrawn.
pub(super) fn withdrawable(answering: Answering) -> (impl Future<Output = Option<Answer>>, Withdrawal) {
    let waiting = Rc::new(Cell::new(Waiting::ForAnswer(answering, None)));
    let withdrawal = Withdrawal(Rc::clone(&waiting));
    let answer = poll_fn(move |cx| match waiting.take() {
        Waiting::Over => Poll::Ready(None),
        Waiting::ForAnswer(mut answering, _) => match answering.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => {
                waiting.set(Waiting::ForAnswer(answering, Some(cx.waker().clone())));
                Poll::Pending
            }
        },
    });
    (answer, withdrawal)
}

/// A message that was read, on its way to its recipient.
pub(super) trait Addressed: Send {
    /// Puts it into the mailbox. Nothing if that is closed.
    fn send(self: Box<Self>) -> Option<Answering>;
}

/// The end of a route for one type of message.
trait End: Any + Send + Sync {
    fn is_connected(&self) -> bool;
    /// Reads the message of a record. Nothing if nobody is there to get it.
    fn unpack(&self, record: &Record) -> Result<Option<Box<dyn Addressed>>, DecodeError>;
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

    fn unpack(&self, record: &Record) -> Result<Option<Box<dyn Addressed>>, DecodeError> {
        let Some(recipient) = self.recipient() else { return Ok(None) };
        // Code of the user.
        let decode = AssertUnwindSafe(|| M::decode(record.message_version, &record.payload));
        let message = catch_unwind(decode).unwrap_or_else(|_| Err(DecodeError::malformed("the decoder panicked")))?;
        let progress = record.progress;
        let durable = Durable {
            id: record.id,
            attempt: progress.attempt,
            due: progress.nominal,
            repetition: progress.repetition,
            message,
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
        let mut request = Box::pin(unconstrained(recipient.send(durable)));
        // A full mailbox takes a request that is asked for its answer. Asked here, what was sent first is in it first.
        match (&mut request).now_or_never() {
            Some(answer) => Some(Box::pin(std::future::ready(answer))),
            None => Some(request),
        }
    }
}

/// One name and one type of message.
pub(super) struct Route {
    pub(super) name: Arc<str>,
    pub(super) message_type: Arc<str>,
    pub(super) options: RouteOptions,
    rust_type: TypeId,
    end: Box<dyn End>,
}

impl Route {
    /// Whether anybody is there to get its messages.
    pub(super) fn is_connected(&self) -> bool {
        self.end.is_connected()
    }

    /// Reads the message of a record. Nothing if nobody is there to get it.
    pub(super) fn unpack(&self, record: &Record) -> Result<Option<Box<dyn Addressed>>, DecodeError> {
        self.end.unpack(record)
    }
}

/// All routes of one store, fixed when the durable timers start. Only their recipients can change.
#[derive(Default)]
pub(super) struct Routes {
    all: Vec<Route>,
    places: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
}

impl Routes {
    /// Adds a route.
    pub(super) fn register<M: DurableMessage>(
        &mut self,
        name: &str,
        options: RouteOptions,
        recipient: Option<Recipient<Durable<M>>>,
    ) -> Result<(), DurableBuildError> {
        if !key::is_route_name(name) {
            return Err(DurableBuildError::RouteName(name.to_owned()));
        }
        if self.place(name, M::NAME).is_some() {
            return Err(DurableBuildError::RouteTwice { route: name.to_owned(), message_type: M::NAME });
        }
        let name: Arc<str> = self.places.get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let message_type: Arc<str> = M::NAME.into();
        self.places.entry(Arc::clone(&name)).or_default().insert(Arc::clone(&message_type), self.all.len());
        let end = Box::new(TypedEnd(RwLock::new(recipient)));
        self.all.push(Route { name, message_type, options, rust_type: TypeId::of::<M>(), end });
        Ok(())
    }

    /// Where a route stands.
    pub(super) fn place(&self, name: &str, message_type: &str) -> Option<usize> {
        self.places.get(name)?.get(message_type).copied()
    }

    /// The routes, by place.
    pub(super) fn all(&self) -> &[Route] {
        &self.all
    }

    /// The route for messages of a type.
    pub(super) fn of<M: DurableMessage>(&self, name: &str) -> Result<(usize, &Route), DurableError> {
        let types = self.places.get(name).ok_or_else(|| DurableError::UnknownRoute { route: name.to_owned() })?;
        let place = types.get(M::NAME).copied();
        place
            .and_then(|place| Some((place, self.all.get(place)?)))
            .filter(|(_, route)| route.rust_type == TypeId::of::<M>())
            .ok_or_else(|| DurableError::UnknownMessage { route: name.to_owned(), message_type: M::NAME })
    }

    /// Gives a route another recipient, and tells which route it was.
    pub(super) fn connect<M: DurableMessage>(
        &self,
        name: &str,
        recipient: Recipient<Durable<M>>,
    ) -> Result<usize, DurableError> {
        let (place, route) = self.of::<M>(name)?;
        let end: &dyn Any = &*route.end;
        if let Some(TypedEnd(there)) = end.downcast_ref::<TypedEnd<M>>() {
            let before = there.write().unwrap_or_else(PoisonError::into_inner).replace(recipient);
            // The last address of an actor may be in it.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(before)));
        }
        Ok(place)
    }
}

//! Sources of the messages of repeating timers.

use std::fmt;

use crate::model::timer_message::TimerMessage;

/// The source of the messages of a repeating timer: copies of one message, or the results of a closure.
///
/// A `Clone` message converts into a source. A message is produced when it is due, on the thread that delivers it
/// (under tracked delivery the recipient's), and must not take long. If the producing code panics, only this timer
/// ends: the message counts as a dead letter with the reason `source_panicked`.
///
/// ```
/// use actix::prelude::*;
/// use actix_timers::MessageSource;
///
/// #[derive(Clone, Debug, PartialEq, Message)]
/// #[rtype(result = "()")]
/// struct Ping(u32);
///
/// let mut copies = MessageSource::from(Ping(7));
/// assert_eq!((copies.next_message(), copies.next_message()), (Ping(7), Ping(7)));
///
/// let mut number = 0;
/// let mut made = MessageSource::from_fn(move || {
///     number += 1;
///     Ping(number)
/// });
/// assert_eq!((made.next_message(), made.next_message()), (Ping(1), Ping(2)));
/// ```
pub struct MessageSource<M>(Kind<M>);

enum Kind<M> {
    Copies { message: M, copy: fn(&M) -> M },
    Computed(Box<dyn FnMut() -> M + Send>),
}

impl<M: TimerMessage> MessageSource<M> {
    /// Returns a source that calls `make` for each message.
    pub fn from_fn(make: impl FnMut() -> M + Send + 'static) -> Self {
        Self(Kind::Computed(Box::new(make)))
    }
}

impl<M> MessageSource<M> {
    /// Returns the message that is copied, if the source copies one.
    pub(crate) fn into_original(self) -> Option<M> {
        match self.0 {
            Kind::Copies { message, .. } => Some(message),
            Kind::Computed(_) => None,
        }
    }

    /// Produces a message, as for a delivery.
    ///
    /// # Panics
    /// If the `Clone` of the message, or the closure, panics.
    pub fn next_message(&mut self) -> M {
        match &mut self.0 {
            Kind::Copies { message, copy } => copy(message),
            Kind::Computed(make) => make(),
        }
    }
}

impl<M: Clone + TimerMessage> From<M> for MessageSource<M> {
    fn from(message: M) -> Self {
        Self(Kind::Copies { message, copy: M::clone })
    }
}

impl<M> fmt::Debug for MessageSource<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Copies { .. } => "copies",
            Kind::Computed(_) => "computed",
        };
        write!(f, "MessageSource<{}>({kind})", std::any::type_name::<M>())
    }
}

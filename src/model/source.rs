//! Where the messages of a repeating timer come from.

use std::fmt;

use actix::Message;

/// Where the messages of a repeating timer come from: copies of one, or what a closure makes.
///
/// A message that is `Clone` can be given as it is. A message is made when it is due, on the thread that delivers it (under
/// tracked delivery that of the recipient), and must not take long. If the code for it panics its timer ends, and nothing else: the message counts as a dead letter with
/// the reason `source_panicked`.
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
    Made(Box<dyn FnMut() -> M + Send>),
}

impl<M> MessageSource<M>
where
    M: Message + Send + 'static,
{
    /// Messages that `make` makes, one each time.
    pub fn from_fn(make: impl FnMut() -> M + Send + 'static) -> Self {
        Self(Kind::Made(Box::new(make)))
    }
}

impl<M> MessageSource<M> {
    /// Makes a message, as is done when one is due.
    ///
    /// # Panics
    /// If the `Clone` of the message, or the closure, does.
    pub fn next_message(&mut self) -> M {
        match &mut self.0 {
            Kind::Copies { message, copy } => copy(message),
            Kind::Made(make) => make(),
        }
    }
}

impl<M> From<M> for MessageSource<M>
where
    M: Clone + Message + Send + 'static,
{
    fn from(message: M) -> Self {
        Self(Kind::Copies { message, copy: M::clone })
    }
}

impl<M> fmt::Debug for MessageSource<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Copies { .. } => "copies",
            Kind::Made(_) => "made",
        };
        write!(f, "MessageSource<{}>({kind})", std::any::type_name::<M>())
    }
}

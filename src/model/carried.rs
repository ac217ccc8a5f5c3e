//! The form of a message on its path from the schedule call to its handler: the message itself or, if large, a box.
//!
//! Each step of the path moves the message, and without optimization each move is a copy on the stack. A large message
//! is boxed on entry, and unboxed when it is passed to actix. The size is known at compile time.

use std::any::Any;

use actix::Recipient;
use actix::prelude::SendError;

use crate::model::source::MessageSource;
use crate::model::timer_message::TimerMessage;

/// The size in bytes above which messages are boxed.
const LARGE: usize = 1024;

/// Returns true if messages of this type are carried as [`Boxed`].
pub(crate) const fn is_large<M>() -> bool {
    size_of::<M>() > LARGE
}

/// A message on its path: the message itself, or [`Boxed`].
pub(crate) trait Carried: Send + Sized + 'static {
    type Message: TimerMessage;
    /// The source of messages in this form.
    type Source: Send + 'static;

    fn pack(message: Self::Message) -> Self;

    fn unpack(self) -> Self::Message;

    /// Returns the message in a box.
    fn into_any(self) -> Box<dyn Any + Send>;

    fn pack_source(source: MessageSource<Self::Message>) -> Self::Source;

    fn unpack_source(source: Self::Source) -> MessageSource<Self::Message>;

    fn next_of(source: &mut Self::Source) -> Self;
}

impl<M> Carried for M
where
    M: TimerMessage,
{
    type Message = M;
    type Source = MessageSource<M>;

    #[inline(always)]
    fn pack(message: M) -> Self {
        message
    }

    #[inline(always)]
    fn unpack(self) -> M {
        self
    }

    #[inline(always)]
    fn into_any(self) -> Box<dyn Any + Send> {
        Box::new(self)
    }

    #[inline(always)]
    fn pack_source(source: MessageSource<M>) -> Self::Source {
        source
    }

    #[inline(always)]
    fn unpack_source(source: Self::Source) -> MessageSource<M> {
        source
    }

    #[inline(always)]
    fn next_of(source: &mut Self::Source) -> Self {
        source.next_message()
    }
}

/// A large message.
pub(crate) struct Boxed<M>(Box<M>);

impl<M> Carried for Boxed<M>
where
    M: TimerMessage,
{
    type Message = M;
    type Source = Box<MessageSource<M>>;

    fn pack(message: M) -> Self {
        Self(Box::new(message))
    }

    fn unpack(self) -> M {
        *self.0
    }

    fn into_any(self) -> Box<dyn Any + Send> {
        self.0
    }

    fn pack_source(source: MessageSource<M>) -> Self::Source {
        Box::new(source)
    }

    fn unpack_source(source: Self::Source) -> MessageSource<M> {
        *source
    }

    fn next_of(source: &mut Self::Source) -> Self {
        Self(Box::new(source.next_message()))
    }
}

/// Sends a message to a mailbox if there is room for it.
pub(crate) fn try_send<C: Carried>(recipient: &Recipient<C::Message>, message: C) -> Result<(), SendError<C>> {
    pack_again(recipient.try_send(message.unpack()))
}

/// A separate function, so that its copies of a large message are not on the stack during actix's own.
fn pack_again<C: Carried>(sent: Result<(), SendError<C::Message>>) -> Result<(), SendError<C>> {
    match sent {
        Ok(()) => Ok(()),
        Err(SendError::Full(message)) => Err(SendError::Full(C::pack(message))),
        Err(SendError::Closed(message)) => Err(SendError::Closed(C::pack(message))),
    }
}

/// Sends a message to a mailbox, past its capacity if necessary. Returns the message if the mailbox is closed.
///
/// Every sender has its own slot in a mailbox. This one has just been [opened](crate::model::target::Target::open), so
/// its slot is free, and the mailbox is never full for it; unlike `do_send`, this detects a closed mailbox.
pub(crate) fn send<C: Carried>(recipient: &Recipient<C::Message>, message: C) -> Result<(), C> {
    try_send(recipient, message).map_err(SendError::into_inner)
}

//! The reply of a handler.

use std::any::Any;
use std::pin::Pin;

/// The reply of a handler, once it has run; `None` if it never will.
pub(crate) type Reply = dyn Future<Output = Option<BoxedReply>> + Send;
pub(crate) type ReplyFuture = Pin<Box<Reply>>;
/// Kept only to be dropped where user code may run.
pub(crate) type BoxedReply = Box<dyn Any + Send>;

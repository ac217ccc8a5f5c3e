//! The answer of a handler, on its way back.

use std::any::Any;
use std::pin::Pin;

/// What the handler answered, once it has run; `None` if it never will.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;
/// Kept only to be dropped where code of the user may run.
pub(crate) type Answer = Box<dyn Any + Send>;

//! Panics of user code: caught, with their text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code, and returns the text of its panic. The panic's payload is the user's, too: its destructor may panic
/// again.
pub(crate) fn contain<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(|panic| {
        let text = text_of(&*panic);
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        text
    })
}

/// Returns the text of a panic, as `panic!` has formatted it.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text").to_owned()
}

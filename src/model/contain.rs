//! Panics of user code: caught, with their text.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum length of a panic's text, in characters.
const MAX_TEXT: usize = 400;

/// Runs user code, and returns the text of its panic.
///
/// # Errors
/// The code has panicked.
pub fn contain<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(|panic| {
        let text = text_of(&*panic);
        drop_panic(panic);
        text
    })
}

/// Drops a value of the user, and catches a panic.
pub fn drop_contained<T>(value: T) {
    let _ = contain(|| drop(value));
}

/// Drops the payload of a panic. It is the user's, too: its destructor may panic again.
pub(crate) fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Returns the text of a panic, as `panic!` has formatted it; its beginning, if it is long.
pub fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_with_its_text() {
        assert_eq!(contain(|| 1), Ok(1));
        assert_eq!(contain(|| panic!("text")), Err::<(), _>("text".to_owned()));
        assert_eq!(contain(|| panic!("number {}", 1)), Err::<(), _>("number 1".to_owned()));
        assert_eq!(contain(|| std::panic::panic_any(1)), Err::<(), _>("no text".to_owned()));
        let long = contain(|| panic!("{}", "ä".repeat(10_000)));
        assert_eq!(long, Err::<(), _>("ä".repeat(MAX_TEXT)));
    }

    #[test]
    fn a_panic_in_the_destructor_of_a_panic_is_caught() {
        struct Bomb(u32);
        impl Drop for Bomb {
            fn drop(&mut self) {
                if self.0 > 0 {
                    std::panic::panic_any(Self(self.0 - 1));
                }
            }
        }
        assert_eq!(contain(|| std::panic::panic_any(Bomb(3))), Err::<(), _>("no text".to_owned()));
    }
}

//! Paths, as they may be shown on a terminal or in a queue of a log.

use std::path::Path;

use actix_timers::integration::Shown;

/// A path of which nothing moves a cursor, ends a queue or turns the direction of writing.
pub(crate) fn shown(path: &Path) -> Shown<String> {
    Shown(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_with_escapes() {
        assert_eq!(shown(Path::new("a\u{1b}b")).to_string(), r"a\u{1b}b");
    }
}

//! Paths for a terminal or a line of a log.

use std::path::Path;

use actix_timers::integration::Shown;

/// Returns a path without characters that move a cursor, end a line or change the direction of writing.
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

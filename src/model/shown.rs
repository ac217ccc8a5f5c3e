//! External text, escaped for terminals and log lines.

use std::fmt::{self, Write};

/// A text that is displayed with an escape for each unprintable character and each backslash.
pub struct Shown<T>(
    /// The unescaped text.
    pub T,
);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '"' | '\'' => self.0.write_char(character),
            _ => write!(self.0, "{}", character.escape_debug()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_moves_a_cursor_or_ends_a_line() {
        let text = "it's \"Zürich\"\u{1b}[2J\r\n\0\u{7f}\u{9b}\u{202e}\u{2028}\\";
        let shown = Shown(text).to_string();
        assert_eq!(shown, r#"it's "Zürich"\u{1b}[2J\r\n\0\u{7f}\u{9b}\u{202e}\u{2028}\\"#);
    }

    #[test]
    fn an_error_about_an_id_shows_its_characters_escaped() {
        let text = "\u{1b}23e4567-e89b-12d3-a456-426614174000";
        let error = text.parse::<crate::TimerId>().map_err(|error| error.to_string()).err();
        assert!(error.as_ref().is_some_and(|error| error.contains(r"`\u{1b}`")), "{error:?}");
    }
}

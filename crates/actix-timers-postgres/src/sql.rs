//! SQL texts for a schema.

/// A schema, quoted for SQL.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) name: String,
    quoted: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) }
    }

    /// Puts the schema into a text in place of `@schema@`.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("@schema@", &self.quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_it_contains() {
        let schema = Schema::new("a\"; DROP TABLE x; --");
        assert_eq!(schema.sql("SELECT FROM @schema@.t"), "SELECT FROM \"a\"\"; DROP TABLE x; --\".t");
    }
}

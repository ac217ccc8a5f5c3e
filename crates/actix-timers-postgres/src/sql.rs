//! SQL texts for a schema. `sql/*.sql` are the definitions.

/// The format of the tables.
pub(crate) const FORMAT: i32 = 1;

/// All definitions, in the order in which they depend on each other.
const DEFINITIONS: [&str; 7] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/ids.sql"),
    include_str!("sql/operations.sql"),
    include_str!("sql/puts.sql"),
    include_str!("sql/commit.sql"),
    include_str!("sql/nodes.sql"),
    include_str!("sql/schedule.sql"),
];

/// The tables, for checks of rights.
pub(crate) const TABLES: [&str; 11] = [
    "meta",
    "nodes",
    "shards",
    "progress",
    "timers",
    "parked",
    "dead_letters",
    "wanted_routes",
    "keys",
    "claims",
    "outcomes",
];

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

    /// Returns the statements that create all tables and functions.
    pub(crate) fn definitions(&self) -> String {
        self.sql(&DEFINITIONS.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_it_contains() {
        let schema = Schema::new("a\"; DROP TABLE x; --");
        assert_eq!(schema.sql("SELECT FROM @schema@.t"), "SELECT FROM \"a\"\"; DROP TABLE x; --\".t");
        assert!(!schema.definitions().contains("@schema@"));
    }
}

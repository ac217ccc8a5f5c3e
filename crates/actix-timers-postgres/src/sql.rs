//! SQL texts for a schema. `sql/*.sql` are the definitions.

/// The format of the tables.
pub(crate) const FORMAT: i32 = 1;

/// The revision of the functions: to be increased with each change after a release. Nodes replace older ones, which
/// must suit the nodes that run: parameters and results stay as they are, or the function has a new name.
pub(crate) const REVISION: i32 = 1;

const TABLE_DEFINITIONS: &str = include_str!("sql/tables.sql");

/// The functions, in the order in which they depend on each other.
const FUNCTIONS: [&str; 6] = [
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

    /// Returns the statements that create the tables.
    pub(crate) fn tables(&self) -> String {
        self.sql(TABLE_DEFINITIONS)
    }

    /// Returns the statements that create or replace the functions.
    pub(crate) fn functions(&self) -> String {
        self.sql(&FUNCTIONS.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_it_contains() {
        let schema = Schema::new("a\"; DROP TABLE x; --");
        assert_eq!(schema.sql("SELECT FROM @schema@.t"), "SELECT FROM \"a\"\"; DROP TABLE x; --\".t");
        assert!(!(schema.tables() + &schema.functions()).contains("@schema@"));
    }

    #[test]
    fn changed_functions_have_another_revision() {
        // FNV-1a, 64 bits.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let functions = FUNCTIONS.concat().bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        let why =
            "nodes replace functions of an older revision only: increase REVISION after a release, and copy the hash";
        assert_eq!((REVISION, format!("{functions:016x}")), (1, "6201dd8a2167a29d".to_owned()), "{why}");
    }
}

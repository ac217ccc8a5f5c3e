//! Unique names: a name that is taken gets a number.

use std::collections::{HashMap, HashSet};

/// The names given so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The number tried last for a name. All up to it are taken, so none is tried twice: the work is proportional to the
    /// number of names, even if all are the same.
    numbers: HashMap<String, u64>,
}

impl Names {
    /// Takes this name, followed by a number if it is taken.
    pub(super) fn take(&mut self, name: &str) -> String {
        let mut unused = name.to_owned();
        while self.taken.contains(&unused) {
            let number = self.numbers.entry(name.to_owned()).or_insert(1);
            *number += 1;
            unused = format!("{name} ({number})");
        }
        self.taken.insert(unused.clone());
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken_get_the_next_free_number() {
        let mut names = Names::default();
        let given = ["shop", "shop", "shop (3)", "shop", "shop (3)", "", ""].map(|name| names.take(name));
        assert_eq!(given, ["shop", "shop (2)", "shop (3)", "shop (4)", "shop (3) (2)", "", " (2)"]);
    }

    /// A server with a timer actor in each of many arbiters has a thousand of one name.
    #[test]
    fn no_number_is_tried_twice() {
        let mut names = Names::default();
        let given: HashSet<String> = (0..1000).map(|_| names.take("shop")).collect();
        assert_eq!(given.len(), 1000);
        assert_eq!(names.numbers["shop"], 1000, "999 attempts for 999 further names");
    }
}

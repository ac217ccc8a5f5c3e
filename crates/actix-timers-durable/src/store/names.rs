//! Names of routes and message types, shared by records since there are few.

use std::collections::HashSet;
use std::sync::Arc;

/// The names seen so far.
#[derive(Debug, Default)]
pub struct Names(HashSet<Arc<str>>);

/// Maximum length of a route's name; longer message types are rare.
const MAX_NAME_LEN: usize = 255;
/// Maximum number of names. An application has some dozens; above this they are generated, and forgotten.
const MAX_NAMES: usize = 4096;

impl Names {
    /// Returns the name, shared if it was seen before.
    pub fn get(&mut self, name: &str) -> Arc<str> {
        if name.len() > MAX_NAME_LEN {
            return name.into();
        }
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        if self.0.len() >= MAX_NAMES {
            self.0.clear();
        }
        let name: Arc<str> = name.into();
        self.0.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_names_are_bounded_in_number_and_length() {
        let mut names = Names::default();
        for number in 0..2 * MAX_NAMES {
            names.get(&number.to_string());
            names.get(&format!("{number:300}"));
        }
        assert!(names.0.len() <= MAX_NAMES && names.0.iter().all(|name| name.len() <= MAX_NAME_LEN));
        assert!(Arc::ptr_eq(&names.get("route"), &names.get("route")));
    }
}

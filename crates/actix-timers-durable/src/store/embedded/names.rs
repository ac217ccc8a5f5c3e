//! Names of routes and message types: the same few over and over, so records share them.

use std::collections::HashSet;
use std::sync::Arc;

/// Names that were seen.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<Arc<str>>);

/// Routes have no longer names, and message types hardly.
const LONGEST: usize = 255;
/// An application has some dozens. More than so many, and they are made up by somebody: forget them.
const MOST: usize = 4096;

impl Names {
    /// What equals `name`, shared if it was seen before.
    pub(super) fn get(&mut self, name: &str) -> Arc<str> {
        if name.len() > LONGEST {
            return name.into();
        }
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        if self.0.len() >= MOST {
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
    fn what_is_kept_of_names_is_bounded_however_many_and_long_they_are() {
        let mut names = Names::default();
        for number in 0..2 * MOST {
            names.get(&number.to_string());
            names.get(&format!("{number:300}"));
        }
        assert!(names.0.len() <= MOST && names.0.iter().all(|name| name.len() <= LONGEST));
        assert!(Arc::ptr_eq(&names.get("route"), &names.get("route")));
    }
}

//! Names of routes and message types: the same few over and over, so records share them.

use std::collections::HashSet;
use std::sync::Arc;

/// Names that were seen.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<Arc<str>>);

/// An application has some dozens. More than so many, and they are made up by somebody: forget them.
const MOST: usize = 4096;

impl Names {
    /// What equals `name`, shared if it was seen before.
    pub(super) fn get(&mut self, name: &str) -> Arc<str> {
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

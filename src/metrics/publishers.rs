//! Publishers of metrics beside timer actors, as in companion crates.

use std::sync::{Mutex, PoisonError, Weak};

use crate::metrics::gate::{self, Pass};

static PUBLISHERS: Mutex<Vec<Weak<dyn Publisher>>> = Mutex::new(Vec::new());

/// A publisher of metrics, for [`scrape`](crate::scrape).
pub trait Publisher: Send + Sync {
    /// Updates its metrics, within a scrape and on its thread.
    fn publish(&self, pass: &Pass);
}

/// Adds a publisher to all later scrapes, until it is dropped.
pub fn register_publisher(publisher: Weak<dyn Publisher>) {
    let mut publishers = PUBLISHERS.lock().unwrap_or_else(PoisonError::into_inner);
    publishers.retain(|known| known.strong_count() > 0);
    publishers.push(publisher);
}

/// Updates the metrics of all publishers, for a scrape.
pub(crate) fn publish_all() {
    // Cloned, so that the list is not locked while they publish.
    let publishers = PUBLISHERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    publishers.iter().filter_map(Weak::upgrade).for_each(|publisher| publisher.publish(&gate::enter()));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Publisher for Counting {
        fn publish(&self, _: &Pass) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_scrape_publishes_before_the_page_is_rendered() {
        let publisher = Arc::new(Counting::default());
        let weak: Weak<Counting> = Arc::downgrade(&publisher);
        register_publisher(weak);
        let seen = || publisher.0.load(Ordering::Relaxed);
        // Other tests of this process may scrape as well.
        let before = seen();
        assert!(crate::api::scrape::scrape(seen) > before);
        let between = seen();
        assert!(crate::api::scrape::scrape(seen) > between);
    }
}

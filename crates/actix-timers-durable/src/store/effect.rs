//! Effects of handlers, in the transactions that end their deliveries.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use actix_timers::integration::drop_contained;
use rusqlite::Connection;

type Make = Box<dyn FnOnce(&Connection) -> bool + Send>;

/// A closure that writes into tables of the application. A store calls it at most once, also if it repeats a transaction.
#[derive(Clone)]
pub struct Effect(Arc<Once>);

struct Once(Mutex<Option<Make>>);

impl Effect {
    /// Creates an effect. The closure must not panic, and returns whether anything of it is to be kept.
    pub fn new(make: impl FnOnce(&Connection) -> bool + Send + 'static) -> Self {
        Self(Arc::new(Once(Mutex::new(Some(Box::new(make))))))
    }

    /// Makes the effect. Returns false if nothing of it is to be kept, or it was made before.
    pub(super) fn make(&self, connection: &Connection) -> bool {
        let make = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        make.is_some_and(|make| make(connection))
    }
}

/// The values that an effect has captured are the user's, and so are their destructors, also if it was not made.
impl Drop for Once {
    fn drop(&mut self) {
        drop_contained(self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl PartialEq for Effect {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effect").finish_non_exhaustive()
    }
}

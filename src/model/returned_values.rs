//! Values that come back to their thread to be dropped there.

use std::mem::ManuallyDrop;
use std::sync::PoisonError;
use std::task::Waker;

use fragile::Fragile;

use crate::sync::{AtomicWaker, Mutex};

/// Values that were dropped on other threads than their own, and the driver that drops them.
///
/// Without a driver on their thread, after its end, they are leaked.
#[derive(Default)]
pub(crate) struct ReturnedValues {
    /// Each as a call that drops it. A value that is not dropped so is leaked.
    values: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    driver: AtomicWaker,
}

impl ReturnedValues {
    /// Has a value dropped on its thread.
    pub(crate) fn receive<T: 'static>(&self, value: Fragile<T>) {
        let value = ManuallyDrop::new(value);
        let drop_here = Box::new(move || {
            if value.is_valid() {
                drop(ManuallyDrop::into_inner(value));
            }
        });
        self.values.lock().unwrap_or_else(PoisonError::into_inner).push(drop_here);
        self.driver.wake();
    }

    /// Has `driver` woken for each value that returns.
    pub(crate) fn register(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Drops one of them, which is user code. Returns false if there is none. To be called on the thread of the values.
    pub(crate) fn drop_one(&self) -> bool {
        let drop_here = self.values.lock().unwrap_or_else(PoisonError::into_inner).pop();
        drop_here.map(|drop_here| drop_here()).is_some()
    }
}

//! Values of one thread in the state of a service, which all threads share.
//!
//! A timer can be cancelled on any thread, but a closure, with all that it captures, may be used and dropped only on
//! the thread that created it. A [`ThreadBound`] moves freely; dropped elsewhere, it returns its value to that thread,
//! among the [`ReturnedValues`], which the driver drops.

use std::mem::{ManuallyDrop, needs_drop};
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use fragile::Fragile;

use crate::sync::{AtomicWaker, Mutex};

/// A value that is used and dropped only on the thread that created it.
pub(crate) struct ThreadBound<T: 'static> {
    /// `None` once taken, and in a clone made on another thread.
    value: Option<Fragile<T>>,
    returned_values: Arc<ReturnedValues>,
}

impl<T: 'static> ThreadBound<T> {
    /// Binds `value` to this thread, which drops these `returned_values`.
    pub(crate) fn new(value: T, returned_values: Arc<ReturnedValues>) -> Self {
        Self { value: Some(Fragile::new(value)), returned_values }
    }

    /// Returns the value; `None` on another thread, from where this returns it.
    #[inline(always)]
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    #[inline(always)]
    fn take(&mut self) -> Option<T> {
        match self.value.take()?.try_into_inner() {
            Ok(value) => Some(value),
            Err(value) => {
                self.returned_values.receive(value);
                None
            }
        }
    }
}

impl<T: Clone + 'static> Clone for ThreadBound<T> {
    /// Clones the value; without one on another thread.
    fn clone(&self) -> Self {
        let value = self.value.as_ref().and_then(|value| value.try_get().ok());
        Self { value: value.cloned().map(Fragile::new), returned_values: Arc::clone(&self.returned_values) }
    }
}

impl<T: 'static> Drop for ThreadBound<T> {
    fn drop(&mut self) {
        // A value without a destructor may end on any thread.
        if needs_drop::<T>() {
            drop(self.take());
        }
    }
}

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
    fn receive<T: 'static>(&self, value: Fragile<T>) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::rc::Rc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    #[test]
    fn a_value_is_used_on_its_own_thread() {
        let bound = ThreadBound::new(Rc::new(7), Arc::default());
        assert_eq!(bound.clone().into_inner().map(|value| *value), Some(7));
        assert_eq!(bound.into_inner().map(|value| *value), Some(7));
    }

    #[test]
    fn a_value_dropped_or_taken_elsewhere_is_dropped_at_home() {
        let returned_values = Arc::new(ReturnedValues::default());
        let value = Rc::new(());
        let [dropped, taken] = [(); 2].map(|()| ThreadBound::new(Rc::clone(&value), Arc::clone(&returned_values)));
        let elsewhere = std::thread::spawn(move || {
            assert!(dropped.clone().into_inner().is_none());
            drop(dropped);
            taken.into_inner().is_none()
        });
        assert!(elsewhere.join().unwrap());
        assert_eq!(Rc::strong_count(&value), 3);
        assert!(returned_values.drop_one() && returned_values.drop_one() && !returned_values.drop_one());
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn a_value_without_a_destructor_ends_on_any_thread() {
        let returned_values = Arc::new(ReturnedValues::default());
        let bound = ThreadBound::new(7, Arc::clone(&returned_values));
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert!(!returned_values.drop_one());
    }

    #[test]
    fn a_value_that_no_driver_drops_is_leaked_not_dropped_elsewhere() {
        let value = Rc::new(());
        let bound = ThreadBound::new(Rc::clone(&value), Arc::default());
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert_eq!(Rc::strong_count(&value), 2);
    }

    #[test]
    fn the_driver_is_woken_for_a_value_that_comes_home() {
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (returned_values, woken) = (Arc::new(ReturnedValues::default()), Arc::new(Woken(AtomicBool::new(false))));
        returned_values.register(&Waker::from(Arc::clone(&woken)));
        let bound = ThreadBound::new(Rc::new(()), returned_values);
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert!(woken.0.load(Ordering::Relaxed));
    }
}

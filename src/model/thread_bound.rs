//! Values of one thread in the state of a service, which all threads share.
//!
//! A timer can be cancelled on any thread, but a closure, with all that it captures, may be used and dropped only on
//! the thread that created it. A [`ThreadBound`] moves freely; dropped elsewhere, it sends its value back
//! [`Home`], where the driver drops it.

use std::mem::ManuallyDrop;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use fragile::Fragile;

use crate::sync::{AtomicWaker, Mutex};

/// A value that is used and dropped only on the thread that created it.
pub(crate) struct ThreadBound<T: 'static> {
    /// `None` once taken, and in a clone made on another thread.
    value: Option<Fragile<T>>,
    home: Arc<Home>,
}

impl<T: 'static> ThreadBound<T> {
    /// Binds `value` to this thread, whose service has this `home`.
    pub(crate) fn new(value: T, home: Arc<Home>) -> Self {
        Self { value: Some(Fragile::new(value)), home }
    }

    /// Returns the value; `None` on another thread, where this sends it home.
    #[inline(always)]
    pub(crate) fn into_inner(mut self) -> Option<T> {
        match self.value.take()?.try_into_inner() {
            Ok(value) => Some(value),
            Err(value) => {
                self.home.receive(value);
                None
            }
        }
    }
}

impl<T: Clone + 'static> Clone for ThreadBound<T> {
    /// Clones the value; without one on another thread.
    fn clone(&self) -> Self {
        let value = self.value.as_ref().and_then(|value| value.try_get().ok());
        Self { value: value.cloned().map(Fragile::new), home: Arc::clone(&self.home) }
    }
}

impl<T: 'static> Drop for ThreadBound<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        match value.try_into_inner() {
            Ok(value) => drop(value),
            Err(value) => self.home.receive(value),
        }
    }
}

/// Values that were dropped on other threads than their own, and the driver that drops them.
///
/// Without a driver on their thread, after its end, they are leaked.
#[derive(Default)]
pub(crate) struct Home {
    values: Mutex<Vec<Box<dyn Stray>>>,
    driver: AtomicWaker,
}

/// A value on its way home. It is leaked unless it is dropped explicitly.
trait Stray: Send {
    /// Drops the value, if this is its thread.
    fn drop_at_home(self: Box<Self>);
}

impl<T: 'static> Stray for ManuallyDrop<Fragile<T>> {
    fn drop_at_home(self: Box<Self>) {
        if self.is_valid() {
            drop(ManuallyDrop::into_inner(*self));
        }
    }
}

impl Home {
    fn receive<T: 'static>(&self, value: Fragile<T>) {
        let stray = Box::new(ManuallyDrop::new(value));
        self.values.lock().unwrap_or_else(PoisonError::into_inner).push(stray);
        self.driver.wake();
    }

    /// Has `driver` woken for each value that comes home.
    pub(crate) fn register(&self, driver: &Waker) {
        self.driver.register(driver);
    }

    /// Drops one value that came home, which is user code. Returns false if there is none. To be called on the thread
    /// of the values.
    pub(crate) fn drop_one(&self) -> bool {
        let stray = self.values.lock().unwrap_or_else(PoisonError::into_inner).pop();
        stray.map(|stray| stray.drop_at_home()).is_some()
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
    fn a_value_that_another_thread_drops_or_takes_is_dropped_at_home() {
        let home = Arc::new(Home::default());
        let value = Rc::new(());
        let [dropped, taken] = [(); 2].map(|()| ThreadBound::new(Rc::clone(&value), Arc::clone(&home)));
        let elsewhere = std::thread::spawn(move || {
            assert!(dropped.clone().into_inner().is_none());
            drop(dropped);
            taken.into_inner().is_none()
        });
        assert!(elsewhere.join().unwrap());
        assert_eq!(Rc::strong_count(&value), 3);
        assert!(home.drop_one() && home.drop_one() && !home.drop_one());
        assert_eq!(Rc::strong_count(&value), 1);
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
        let (home, woken) = (Arc::new(Home::default()), Arc::new(Woken(AtomicBool::new(false))));
        home.register(&Waker::from(Arc::clone(&woken)));
        let bound = ThreadBound::new(Rc::new(()), home);
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert!(woken.0.load(Ordering::Relaxed));
    }
}

//! Closures of an actor for itself.
//!
//! They take the path of a message: a [`Closure`] is one, and its handler runs it. A timer can be cancelled on any
//! thread, but a closure, with all that it captures, may be used and dropped only on the thread that created it.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::needs_drop;
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use actix::{Actor, Message};
use fragile::Fragile;

use crate::model::returned_values::ReturnedValues;

/// The place of a call in the program.
pub(crate) type Place = &'static Location<'static>;

/// Returns the name of a type; of a closure, whose type has no name of its own, the place of the call and the function
/// around the closure. It is kept for ever, but once only: their number is that of closures in the program.
#[cold]
#[inline(never)]
pub(crate) fn name_at<R>(place: Place) -> &'static str {
    const REPEATED: &str = concat!(module_path!(), "::Repeated<");
    let name = type_name::<R>();
    let name = name.strip_prefix(REPEATED).and_then(|name| name.strip_suffix('>')).unwrap_or(name);
    const CLOSURE: &str = "::{{closure}}";
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if !name.trim_end_matches('>').ends_with(CLOSURE) {
        return name;
    }
    let name = format!("closure at {}:{} in {}", place.file(), place.line(), name.replace(CLOSURE, ""));
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

/// Code that runs in an actor.
pub(crate) trait Run<A: Actor>: 'static {
    fn run(self, actor: &mut A, ctx: &mut A::Context);
}

/// All closures, whose keys are not distinguished by their types: a closure in one place replaces that of another.
pub(crate) struct AnyClosure;

impl<A: Actor, F: FnOnce(&mut A, &mut A::Context) + 'static> Run<A> for F {
    fn run(self, actor: &mut A, ctx: &mut A::Context) {
        self(actor, ctx);
    }
}

/// A closure that runs many times, one after the other.
pub(crate) struct Repeated<F>(Rc<RefCell<F>>);

impl<F> Repeated<F> {
    pub(crate) fn new(run: F) -> Self {
        Self(Rc::new(RefCell::new(run)))
    }

    /// Returns the closure, unless there is another repetition.
    pub(crate) fn into_closure(self) -> Option<F> {
        Rc::try_unwrap(self.0).ok().map(RefCell::into_inner)
    }
}

impl<A: Actor, F: FnMut(&mut A, &mut A::Context) + 'static> Run<A> for Repeated<F> {
    fn run(self, actor: &mut A, ctx: &mut A::Context) {
        // It is not running: its actor runs one handler at a time.
        if let Ok(mut run) = self.0.try_borrow_mut() {
            run(actor, ctx);
        }
    }
}

impl<F> Clone for Repeated<F> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// A closure, or one repetition of it, on its way to its actor.
///
/// It moves freely. Taken or dropped on another thread than its own, it returns there, among the [`ReturnedValues`].
pub(crate) struct Closure<R: 'static> {
    /// `None` once taken, and in a clone made on another thread.
    value: Option<Fragile<R>>,
    returned_values: Arc<ReturnedValues>,
}

impl<R: 'static> Closure<R> {
    /// Binds a closure to this thread, which drops these `returned_values`.
    pub(crate) fn new(value: R, returned_values: Arc<ReturnedValues>) -> Self {
        Self { value: Some(Fragile::new(value)), returned_values }
    }

    /// Returns the closure; `None` on another thread, from where it returns to its own.
    #[inline(always)]
    pub(crate) fn into_inner(mut self) -> Option<R> {
        self.take()
    }

    /// Runs the closure. Does nothing on another thread than its own.
    #[inline(always)]
    pub(crate) fn run<A: Actor>(self, actor: &mut A, ctx: &mut A::Context)
    where
        R: Run<A>,
    {
        if let Some(run) = self.into_inner() {
            run.run(actor, ctx);
        }
    }

    #[inline(always)]
    fn take(&mut self) -> Option<R> {
        match self.value.take()?.try_into_inner() {
            Ok(value) => Some(value),
            Err(value) => {
                self.returned_values.receive(value);
                None
            }
        }
    }
}

impl<R: 'static> Message for Closure<R> {
    type Result = ();
}

impl<R: Clone + 'static> Clone for Closure<R> {
    /// Clones the closure; without one on another thread.
    fn clone(&self) -> Self {
        let value = self.value.as_ref().and_then(|value| value.try_get().ok());
        Self { value: value.cloned().map(Fragile::new), returned_values: Arc::clone(&self.returned_values) }
    }
}

impl<R: 'static> Drop for Closure<R> {
    fn drop(&mut self) {
        // One without a destructor may end on any thread.
        if needs_drop::<R>() {
            drop(self.take());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    #[test]
    fn a_value_is_used_on_its_own_thread() {
        let bound = Closure::new(Rc::new(7), Arc::default());
        assert_eq!(bound.clone().into_inner().map(|value| *value), Some(7));
        assert_eq!(bound.into_inner().map(|value| *value), Some(7));
    }

    #[test]
    fn a_value_dropped_or_taken_elsewhere_is_dropped_at_home() {
        let returned_values = Arc::new(ReturnedValues::default());
        let value = Rc::new(());
        let [dropped, taken] = [(); 2].map(|()| Closure::new(Rc::clone(&value), Arc::clone(&returned_values)));
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
        let bound = Closure::new(7, Arc::clone(&returned_values));
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert!(!returned_values.drop_one());
    }

    #[test]
    fn a_value_that_no_driver_drops_is_leaked_not_dropped_elsewhere() {
        let value = Rc::new(());
        let bound = Closure::new(Rc::clone(&value), Arc::default());
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
        let bound = Closure::new(Rc::new(()), returned_values);
        std::thread::spawn(move || drop(bound)).join().unwrap();
        assert!(woken.0.load(Ordering::Relaxed));
    }
}

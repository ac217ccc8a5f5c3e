//! Closures of an actor for itself.
//!
//! They are bound to the thread of their actor, and take the path of a message: [`Closure`] is one, and its handler
//! runs it.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use actix::{Actor, Message};

use crate::model::thread_bound::ThreadBound;

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
pub(crate) type Closure<R> = ThreadBound<R>;

impl<R: 'static> Message for Closure<R> {
    type Result = ();
}

impl<R: 'static> Closure<R> {
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
}

//! Closures of an actor for itself.
//!
//! They are bound to the thread of their actor, and take the path of a message: [`Closure`] is one, and its handler
//! runs it.

use std::any::type_name;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Message};

use crate::model::thread_bound::{Home, ThreadBound};

/// Code that runs in an actor.
pub(crate) trait Run<A: Actor>: 'static {
    fn run(self, actor: &mut A, ctx: &mut A::Context);

    /// Returns the name of the type of the closure.
    fn type_name() -> &'static str;
}

/// All closures, whose keys are not distinguished by their types: a closure in one place replaces that of another.
pub(crate) struct AnyClosure;

/// A closure that runs once.
pub(crate) struct Single<F>(pub(crate) F);

impl<A, F> Run<A> for Single<F>
where
    A: Actor,
    F: FnOnce(&mut A, &mut A::Context) + 'static,
{
    fn run(self, actor: &mut A, ctx: &mut A::Context) {
        (self.0)(actor, ctx);
    }

    fn type_name() -> &'static str {
        type_name::<F>()
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

impl<A, F> Run<A> for Repeated<F>
where
    A: Actor,
    F: FnMut(&mut A, &mut A::Context) + 'static,
{
    fn run(self, actor: &mut A, ctx: &mut A::Context) {
        // It is not running: its actor runs one handler at a time.
        if let Ok(mut run) = self.0.try_borrow_mut() {
            run(actor, ctx);
        }
    }

    fn type_name() -> &'static str {
        type_name::<F>()
    }
}

impl<F> Clone for Repeated<F> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// A closure, or one repetition of it, on its way to its actor.
pub(crate) struct Closure<R: 'static>(ThreadBound<R>);

impl<R: 'static> Message for Closure<R> {
    type Result = ();
}

impl<R: 'static> Closure<R> {
    pub(crate) fn new(run: R, home: Arc<Home>) -> Self {
        Self(ThreadBound::new(run, home))
    }

    /// Returns the content; `None` on another thread than its own.
    pub(crate) fn into_inner(self) -> Option<R> {
        self.0.into_inner()
    }

    /// Runs the closure. Does nothing on another thread than its own.
    #[inline(always)]
    pub(crate) fn run<A: Actor>(self, actor: &mut A, ctx: &mut A::Context)
    where
        R: Run<A>,
    {
        if let Some(run) = self.0.into_inner() {
            run.run(actor, ctx);
        }
    }
}

impl<R: Clone + 'static> Clone for Closure<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

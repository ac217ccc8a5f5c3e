//! Closures as an actor's messages to itself.
//!
//! A closure is bound to the thread of its actor, so it and its captures need not be `Send`. It takes the path of a
//! message: [`Closure`] is one, and its handler runs it.

use std::any::type_name;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Actor, Message};

use crate::model::thread_bound::{Home, ThreadBound};

/// Code that runs in an actor.
pub(crate) trait Run<A: Actor>: 'static {
    fn run(self, actor: &mut A, ctx: &mut A::Context);

    /// Returns the name of the closure's type.
    fn type_name() -> &'static str;
}

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
    /// Runs the closure. Does nothing on another thread than its own.
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

impl<F: 'static> Closure<Single<F>> {
    pub(crate) fn once(run: F, home: Arc<Home>) -> Self {
        Self(ThreadBound::new(Single(run), home))
    }

    /// Returns the closure, on its own thread.
    pub(crate) fn into_closure(self) -> Option<F> {
        self.0.into_inner().map(|Single(run)| run)
    }
}

impl<F: 'static> Closure<Repeated<F>> {
    pub(crate) fn repeated(run: F, home: Arc<Home>) -> Self {
        Self(ThreadBound::new(Repeated(Rc::new(RefCell::new(run))), home))
    }

    /// Returns the closure, on its own thread and without other repetitions.
    pub(crate) fn into_closure(self) -> Option<F> {
        let Repeated(run) = self.0.into_inner()?;
        Rc::try_unwrap(run).ok().map(RefCell::into_inner)
    }
}

//! Loom's model checker, which tries all interleavings of a few threads: within [`check`], the atomics, wakers and
//! default mutexes of [`sync`](super::sync) are loom's.

use std::cell::Cell;

thread_local! {
    /// Whether a model runs. A thread-local, as loom's threads are coroutines on the thread of the test.
    static IS_MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether an object created now belongs to a model.
pub(super) fn is_modelled() -> bool {
    IS_MODELLED.get()
}

/// Runs `body` in every interleaving, or in all with at most `preemptions` preemptions.
pub fn check(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions.or(model.preemption_bound);
    IS_MODELLED.set(true);
    model.check(body);
    IS_MODELLED.set(false);
}

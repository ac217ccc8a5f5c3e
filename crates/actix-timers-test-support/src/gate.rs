//! A gate, at which one thread is held by another.

use std::sync::{Arc, Condvar, Mutex};

/// A gate that is open. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    is_shut: bool,
    waiting: usize,
}

/// Keeps a gate shut until it is dropped.
#[derive(Debug)]
#[must_use = "the gate opens when this is dropped"]
pub struct Shut(Gate);

impl Gate {
    pub fn shut(&self) -> Shut {
        self.0.0.lock().unwrap().is_shut = true;
        Shut(self.clone())
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        let (state, opened) = &*self.0;
        let mut state = state.lock().unwrap();
        state.waiting += 1;
        state = opened.wait_while(state, |state| state.is_shut).unwrap();
        state.waiting -= 1;
    }

    /// Returns the number of threads that wait.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        let (state, opened) = &*self.0.0;
        state.lock().unwrap().is_shut = false;
        opened.notify_all();
    }
}

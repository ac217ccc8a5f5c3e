//! Pages: arrays of a known length on the heap.
//!
//! A number masked to the length of such an array needs no bounds check. `Box::new([..])` would build the page on the
//! stack first, and every caller it is inlined into would probe the stack for it: the functions that add a page to
//! something are out of line, and use [`boxed`]. The bench `instructions` fails if a function has a large frame.

/// Returns the items as an array on the heap, without a copy on the stack.
pub(crate) fn boxed<V, const N: usize>(items: Vec<V>) -> Box<[V; N]> {
    let Ok(items) = items.into_boxed_slice().try_into() else { unreachable!("a page of another length") };
    items
}

//! A bare structure, and the life of its entries: each structure does the same work in the same loop.

use std::mem;

use crate::rounds::Life;
use bench::random::Random;

/// A store of values until their deadline, without a clock.
pub(crate) trait Structure {
    /// The handle of an entry.
    type Key;

    /// Stores entry `number` until `deadline`, in milliseconds from the beginning. No two entries have the same number.
    fn insert(&mut self, deadline: u64, number: u64) -> Self::Key;

    /// Removes an entry; fails if it is not there.
    fn remove(&mut self, key: Self::Key);

    fn len(&self) -> usize;
}

/// The operations of `workloads/life.rs`.
pub(crate) fn live(life: &mut Life, size: usize, structure: &mut impl Structure) {
    let mut random = Random::new(1);
    let mut keys = Vec::with_capacity(size);
    let mut numbers = 0..u64::MAX;
    let mut next = move || numbers.next().unwrap_or_default();
    life.each("start", size, || keys.push(structure.insert(random.delay_ms(), next())));
    if life.wants("churn") {
        life.each("churn", size, || {
            let fresh = structure.insert(random.delay_ms(), next());
            structure.remove(mem::replace(&mut keys[random.index(size)], fresh));
        });
    }
    if life.wants("steady-start") {
        random.shuffle(&mut keys);
        keys.drain(size / 2..).for_each(|key| structure.remove(key));
        life.each("steady-start", size - size / 2, || keys.push(structure.insert(random.delay_ms(), next())));
    }
    assert_eq!(structure.len(), size);
    random.shuffle(&mut keys);
    let mut keys = keys.into_iter();
    life.each("stop", size, || keys.by_ref().take(1).for_each(|key| structure.remove(key)));
    assert_eq!(structure.len(), 0);
}

//! Lists of the caller: entries that were detached from their buckets and wait in lists of the engine.
//!
//! No part of the public API: the three operations are hidden but reachable, since the model and the fuzz target, which
//! live in other packages, exercise them.

use crate::timing::arena::Key;
use crate::timing::entry::BucketNumber;
use crate::timing::list::List;
use crate::timing::tick::Tick;
use crate::timing::wheel::Wheel;

impl<T> Wheel<T> {
    /// Appends a detached entry to a list of the caller.
    #[doc(hidden)]
    pub fn hold(&mut self, list: &mut List, key: Key) {
        debug_assert!(self.entries.get(key).is_some() && !self.is_waiting(key));
        if let Some(entry) = self.entries.get_mut(key) {
            entry.set_place(BucketNumber::DETACHED, list.push_back(&mut self.chunks, key.index));
        }
    }

    /// Removes an entry from the list it is [held](Self::hold) in.
    #[doc(hidden)]
    pub fn release(&mut self, list: &mut List, key: Key) {
        debug_assert!(self.entries.get(key).is_some() && !self.is_waiting(key));
        if let Some(entry) = self.entries.get(key) {
            list.remove(&mut self.chunks, entry.spot());
        }
    }

    /// Returns the first entry of a list of the caller.
    #[doc(hidden)]
    pub fn first_held(&self, list: &List) -> Option<Key> {
        self.key_at(list.first(&self.chunks)?)
    }

    /// Returns the last entry of a list of the caller.
    pub(crate) fn last_held(&self, list: &List) -> Option<Key> {
        self.key_at(list.last(&self.chunks)?)
    }

    /// Returns the first entry of a list of the caller, with its deadline.
    #[inline]
    pub(crate) fn front_held(&mut self, list: &List) -> Option<(Key, Tick, &mut T)> {
        let (key, entry) = self.entries.at_mut(list.first(&self.chunks)?)?;
        Some((key, entry.deadline(), &mut entry.value))
    }

    /// Removes the first entry from a list of the caller.
    #[inline]
    pub(crate) fn release_front(&mut self, list: &mut List) {
        list.pop_front(&mut self.chunks);
    }

    /// Returns slots and values of the first few entries in a list of the caller, for prefetching.
    pub(crate) fn next_held(&self, list: &List) -> impl Iterator<Item = (u32, &T)> {
        list.next_few(&self.chunks).filter_map(|index| Some((index, &self.entries.at(index)?.value)))
    }

    /// Returns the entries of a list of the caller, in their order, with their deadlines.
    pub(crate) fn held(&self, list: &List) -> impl Iterator<Item = (Key, Tick, &T)> {
        list.iter(&self.chunks).filter_map(|index| {
            let key = self.key_at(index)?;
            self.entries.get(key).map(|entry| (key, entry.deadline(), &entry.value))
        })
    }

    /// Returns the number of entries before this one in the list of the caller that holds it; `None` if it is at least
    /// `most`, or the entry is not in the list.
    pub(crate) fn position_held(&self, list: &List, key: Key, most: usize) -> Option<usize> {
        list.iter(&self.chunks).take(most).position(|index| index == key.index)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::timing::{Key, List, Wheel, WheelSize};

    #[test]
    fn a_list_keeps_its_order_and_can_be_left_from_anywhere() {
        let mut wheel = Wheel::new(WheelSize::new(4).unwrap());
        let keys: Vec<Key> = (0..5).map(|value| wheel.insert(0, 1, value).unwrap()).collect();
        let mut list = List::new();
        for key in &keys {
            assert!(wheel.detach(*key));
            wheel.hold(&mut list, *key);
        }
        for leaving in [2, 0, 4] {
            wheel.release(&mut list, keys[leaving]);
            assert_eq!(wheel.remove(keys[leaving]), Some(leaving));
        }
        assert_eq!((list.len(), wheel.first_held(&list)), (2, Some(keys[1])));
        wheel.release(&mut list, keys[1]);
        assert_eq!(wheel.first_held(&list), Some(keys[3]));
        wheel.release(&mut list, keys[3]);
        assert_eq!((list.is_empty(), wheel.first_held(&list)), (true, None));
    }
}

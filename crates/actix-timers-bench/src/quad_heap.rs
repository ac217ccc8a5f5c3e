//! A heap with four children a node, and handles by which entries are removed: a classic peer of timing wheels.
//!
//! The four children of a node share one or two cache lines, and the heap is half as deep as a binary one. A node holds
//! its deadline, so comparisons do not leave the heap; the values stay in their slots. Entries of one deadline leave in
//! no particular order.

/// The number of children of a node.
const CHILDREN: usize = 4;
/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

/// A queue of values by deadline.
#[derive(Debug)]
pub struct QuadHeap<T> {
    nodes: Vec<Node>,
    slots: Vec<Slot<T>>,
    free: u32,
}

/// The handle of an entry. It is stale once the entry has left, even if another one has its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    deadline: u64,
    slot: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// The index of the node; of a free slot, the next free one.
    place: u32,
    value: Option<T>,
}

impl<T> Default for QuadHeap<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), slots: Vec::new(), free: NONE }
    }
}

impl<T> QuadHeap<T> {
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> Handle {
        let slot = self.occupy(value);
        let node = Node { deadline, slot };
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, node);
        Handle { slot, generation: self.slots[slot as usize].generation }
    }

    /// Removes an entry. Returns `None` if the handle is stale.
    #[inline]
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let slot = self.slots.get(handle.slot as usize)?;
        if slot.generation != handle.generation || slot.value.is_none() {
            return None;
        }
        Some(self.remove_at(slot.place as usize)?.1)
    }

    /// Removes an entry with the first deadline.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.remove_at(0)
    }

    fn occupy(&mut self, value: T) -> u32 {
        match self.slots.get_mut(self.free as usize) {
            Some(slot) => {
                let index = self.free;
                self.free = slot.place;
                slot.value = Some(value);
                index
            }
            None => {
                self.slots.push(Slot { generation: 0, place: NONE, value: Some(value) });
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Removes a node; the last one takes its place and moves to where it belongs.
    fn remove_at(&mut self, place: usize) -> Option<(u64, T)> {
        let last = self.nodes.pop()?;
        let removed = self.nodes.get(place).copied().unwrap_or(last);
        if place < self.nodes.len() {
            if last.deadline < removed.deadline {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
        let slot = &mut self.slots[removed.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.place = self.free;
        self.free = removed.slot;
        Some((removed.deadline, slot.value.take()?))
    }

    /// Moves `node` up from a place that is free for it.
    fn rise(&mut self, mut place: usize, node: Node) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent].deadline <= node.deadline {
                break;
            }
            self.put(place, self.nodes[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    /// Moves `node` down from a place that is free for it.
    fn sink(&mut self, mut place: usize, node: Node) {
        loop {
            let first = place * CHILDREN + 1;
            let children = first..self.nodes.len().min(first + CHILDREN);
            let Some(least) = children.min_by_key(|child| self.nodes[*child].deadline) else { break };
            if self.nodes[least].deadline >= node.deadline {
                break;
            }
            self.put(place, self.nodes[least]);
            place = least;
        }
        self.put(place, node);
    }

    #[inline]
    fn put(&mut self, place: usize, node: Node) {
        self.nodes[place] = node;
        self.slots[node.slot as usize].place = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::QuadHeap;
    use crate::random::Random;

    #[test]
    fn a_heap_agrees_with_an_ordered_map() {
        let (mut random, mut heap) = (Random::new(1), QuadHeap::default());
        // By deadline and number: the values are numbers.
        let mut model = BTreeMap::new();
        for number in 0..20_000_u64 {
            if random.index(3) > 0 {
                let deadline = random.below(500);
                model.insert((deadline, number), heap.insert(deadline, number));
            } else if let Some((&key, &handle)) = model.iter().nth(random.index(model.len().max(1))) {
                model.remove(&key);
                assert_eq!([heap.remove(handle), heap.remove(handle)], [Some(key.1), None]);
            }
            assert_eq!(heap.len(), model.len());
        }
        while let Some((deadline, number)) = heap.pop() {
            assert_eq!(model.first_key_value().map(|((first, _), _)| *first), Some(deadline));
            assert!(model.remove(&(deadline, number)).is_some());
        }
        assert!(model.is_empty());
    }
}

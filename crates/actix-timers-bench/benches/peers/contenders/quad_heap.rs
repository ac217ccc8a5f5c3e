//! A heap with four children a node, whose entries know their place: cancelled ones are removed at once.

use std::hint::black_box;

use crate::contenders::structure::{self, Structure};
use crate::rounds::Life;
use bench::quad_heap::{Handle, QuadHeap};
use bench::random::Random;

type Payload = [u64; 2];

impl Structure for QuadHeap<Payload> {
    type Key = Handle;

    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> Handle {
        self.insert(deadline, [number; 2])
    }

    #[inline]
    fn remove(&mut self, handle: Handle) {
        black_box(self.remove(handle).unwrap());
    }

    fn len(&self) -> usize {
        self.len()
    }
}

pub(crate) fn live(life: &mut Life, size: usize) {
    structure::live(life, size, &mut QuadHeap::<Payload>::default());
}

pub(crate) fn expire(life: &mut Life, size: usize) {
    let mut random = Random::new(1);
    let mut heap: QuadHeap<Payload> = QuadHeap::default();
    for n in 0..size as u64 {
        heap.insert(random.delay_ms(), [n; 2]);
    }
    let expired = life.time("expire", size, || {
        let (mut expired, mut before) = (0, 0);
        while let Some((deadline, value)) = heap.pop() {
            assert!(before <= deadline, "in order");
            before = deadline;
            black_box(value);
            expired += 1;
        }
        expired
    });
    assert_eq!(expired, size);
}

//! The delay queue: the non-empty buckets of all levels in the order of their expiration. It alone drives time.
//!
//! Kafka keeps its buckets in a binary heap. Here the order is there already. On one level, buckets expire in ring
//! order. Between levels, every bucket of a lower level expires before every bucket of a higher one: entries due before
//! a level's frontier live on that level or below, later ones above (see [`Wheel`](super::Wheel)). So the queue is one
//! bit per bucket: the head is the first set bit of the lowest level that has one. A bucket enters with its first entry
//! and leaves with its last, each in a few instructions, and no wake-up is spent on an empty bucket.

/// The set of non-empty buckets.
#[derive(Debug)]
pub(crate) struct DelayQueue {
    levels: Vec<Ring>,
    /// Buckets per ring.
    ring: usize,
    len: usize,
}

/// One bit per bucket of a level.
#[derive(Debug)]
struct Ring {
    words: Box<[u64]>,
    occupied: usize,
}

const BITS: usize = u64::BITS as usize;

impl DelayQueue {
    pub(crate) const fn new(ring: usize) -> Self {
        Self { levels: Vec::new(), ring, len: 0 }
    }

    pub(crate) fn add_level(&mut self) {
        let words = vec![0; self.ring.div_ceil(BITS)].into_boxed_slice();
        self.levels.push(Ring { words, occupied: 0 });
    }

    /// Returns the number of buckets in the queue.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of buckets of `level` in the queue.
    pub(crate) fn occupied(&self, level: usize) -> usize {
        self.levels[level].occupied
    }

    /// Returns the slots of the buckets of `level` in the queue.
    pub(crate) fn slots(&self, level: usize) -> impl Iterator<Item = usize> {
        let words = self.levels[level].words.iter().enumerate().filter(|(_, bits)| **bits != 0);
        words.flat_map(|(word, bits)| {
            let above = |bits: &u64| Some(bits & (bits - 1)).filter(|above| *above != 0);
            std::iter::successors(Some(*bits), above).map(move |bits| word * BITS + bits.trailing_zeros() as usize)
        })
    }

    /// Adds a bucket with its first entry.
    pub(crate) fn enter(&mut self, level: usize, slot: usize) {
        let ring = &mut self.levels[level];
        debug_assert_eq!(ring.words[slot / BITS] >> (slot % BITS) & 1, 0, "a bucket is queued once");
        ring.words[slot / BITS] |= 1 << (slot % BITS);
        ring.occupied += 1;
        self.len += 1;
    }

    /// Removes a bucket after its last entry.
    pub(crate) fn leave(&mut self, level: usize, slot: usize) {
        let ring = &mut self.levels[level];
        debug_assert_eq!(ring.words[slot / BITS] >> (slot % BITS) & 1, 1, "only a queued bucket leaves");
        ring.words[slot / BITS] &= !(1 << (slot % BITS));
        ring.occupied -= 1;
        self.len -= 1;
    }

    /// Returns the number of slots from `from` to the first occupied slot of `level`, around the ring.
    #[inline(always)]
    pub(crate) fn distance(&self, level: usize, from: usize) -> Option<usize> {
        let ring = &self.levels[level];
        if ring.occupied == 0 {
            return None;
        }
        let (word, bit) = (from / BITS, from % BITS);
        let ahead = ring.words[word] >> bit;
        if ahead != 0 {
            return Some(ahead.trailing_zeros() as usize);
        }
        let found = (word + 1..ring.words.len()).chain(0..=word).find(|word| ring.words[*word] != 0)?;
        let slot = found * BITS + ring.words[found].trailing_zeros() as usize;
        Some(if slot >= from { slot - from } else { slot + self.ring - from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bucket_is_found_from_everywhere_in_the_ring() {
        for ring in [4, 6, 40, 64, 66, 128, 130, 512] {
            let mut queue = DelayQueue::new(ring);
            queue.add_level();
            for from in 0..ring {
                assert_eq!(queue.distance(0, from), None);
            }
            for slot in 0..ring {
                queue.enter(0, slot);
                for from in 0..ring {
                    assert_eq!(queue.distance(0, from), Some((slot + ring - from) % ring), "{ring} {slot} {from}");
                }
                let other = (slot + ring / 2) % ring;
                queue.enter(0, other);
                for from in 0..ring {
                    let nearest = ((slot + ring - from) % ring).min((other + ring - from) % ring);
                    assert_eq!(queue.distance(0, from), Some(nearest));
                }
                assert_eq!((queue.len(), queue.occupied(0)), (2, 2));
                assert!(queue.slots(0).eq([slot.min(other), slot.max(other)]));
                queue.leave(0, slot);
                queue.leave(0, other);
                assert_eq!(queue.len(), 0);
            }
        }
    }

    #[test]
    fn each_level_has_its_own_buckets() {
        let mut queue = DelayQueue::new(8);
        queue.add_level();
        queue.add_level();
        queue.enter(1, 0);
        assert_eq!((queue.distance(0, 0), queue.distance(1, 0)), (None, Some(0)));
        queue.enter(0, 7);
        assert_eq!((queue.distance(0, 0), queue.distance(1, 0)), (Some(7), Some(0)));
        assert!(queue.slots(0).eq([7]) && queue.slots(1).eq([0]));
        queue.leave(0, 7);
        assert_eq!((queue.distance(0, 0), queue.distance(1, 0)), (None, Some(0)));
        assert_eq!((queue.occupied(0), queue.occupied(1)), (0, 1));
    }
}

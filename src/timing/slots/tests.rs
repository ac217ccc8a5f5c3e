//! Tests of the slots.

use std::collections::BTreeSet;

use super::*;

/// Takes a slot of a store without pages.
fn take(slots: &mut Slots) -> Option<u32> {
    slots.take(&mut Vec::<()>::new(), PAGE, || ())
}

#[test]
fn the_slot_freed_last_is_taken_first() {
    let mut slots = Slots::new();
    for round in 0..3 {
        let count = 2 * PAGE as u32 + round;
        let taken: Vec<u32> = (0..count).filter_map(|_| take(&mut slots)).collect();
        assert_eq!((taken.len(), slots.taken()), (count as usize, count));
        taken.iter().for_each(|slot| slots.free(*slot));
        assert!(taken.iter().rev().all(|slot| take(&mut slots) == Some(*slot)));
        taken.iter().for_each(|slot| slots.free(*slot));
        assert_eq!(slots.taken(), 0);
    }
}

/// Free slots take four bytes each, with at most one page on top.
#[test]
fn free_slots_take_whole_pages_of_memory() {
    let mut slots = Slots::new();
    let count = 3 * PAGE as u32;
    (0..count).for_each(|slot| assert_eq!(take(&mut slots), Some(slot)));
    for slot in 0..count {
        slots.free(slot);
        assert_eq!(slots.stack.pages.len(), slot as usize / PAGE + 1);
    }
}

#[test]
fn nothing_is_left_of_slots_that_all_are_free() {
    for count in [0, 1, 63, 64, 65, 255, 256, 257, 1000] {
        let mut slots = Slots::new();
        (0..count).for_each(|slot| assert_eq!(take(&mut slots), Some(slot)));
        (0..count).for_each(|slot| slots.free(slot));
        slots.cut_off(256, &mut { usize::MAX });
        assert_eq!((slots.end(), slots.taken()), (0, 0));
        assert_eq!(slots.stack.pages.capacity(), 0);
        assert!(take(&mut slots) == Some(0) && slots.marks.is_none());
    }
}

/// The pages before a taken slot stay, and their slots are taken again from the lowest on.
#[test]
fn a_taken_slot_keeps_the_pages_before_it() {
    let mut slots = Slots::new();
    (0..1000).for_each(|slot| assert_eq!(take(&mut slots), Some(slot)));
    (0..1000).filter(|slot| *slot != 300).for_each(|slot| slots.free(slot));
    slots.cut_off(128, &mut { usize::MAX });
    assert_eq!((slots.end(), slots.taken()), (384, 1));
    assert!((0..100).all(|slot| take(&mut slots) == Some(slot)));
    // Slots of the same word come first, then those before it, then later ones.
    slots.free(7);
    assert!((100..128).all(|slot| take(&mut slots) == Some(slot)));
    assert_eq!((take(&mut slots), take(&mut slots)), (Some(7), Some(128)));
    (100..129).for_each(|slot| slots.free(slot));
    slots.free(300);
    slots.cut_off(128, &mut { usize::MAX });
    assert_eq!((slots.end(), slots.taken()), (128, 100));
    assert_eq!((take(&mut slots), take(&mut slots)), (Some(100), Some(101)));
}

/// Against a set: a slot is taken by one at a time, whatever is trimmed in between, with any budget, and after a whole
/// trim the last page has a taken slot.
#[test]
fn a_slot_belongs_to_one_at_a_time() {
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    for round in 0..30 {
        let (mut slots, mut taken) = (Slots::new(), BTreeSet::new());
        let (mut most, page) = (0, [64, 128, 256][round % 3]);
        for _ in 0..2000 {
            match below(8) {
                0 => most = below(1500) as usize,
                1..=3 => {
                    for _ in 0..below(200) {
                        if taken.len() < most {
                            assert!(taken.insert(take(&mut slots).unwrap()), "taken once");
                        }
                    }
                }
                4..=6 => {
                    for _ in 0..below(200) {
                        let from = below(u64::from(slots.end() + 1)) as u32;
                        if taken.len() > most
                            && let Some(slot) = taken.range(from..).next().copied()
                        {
                            taken.remove(&slot);
                            slots.free(slot);
                        }
                    }
                }
                _ => {
                    let mut budget = below(500) as usize;
                    slots.cut_off(page, &mut budget);
                    if budget > 0 {
                        let last = taken.last().map_or(0, |last| last / page + 1);
                        assert_eq!(slots.end().div_ceil(page), last, "no page is left behind");
                    }
                }
            }
            assert_eq!(slots.taken() as usize, taken.len());
            assert!(taken.last() < Some(&slots.end()) || taken.is_empty());
        }
    }
}

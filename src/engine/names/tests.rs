//! Tests of names: search by name and by slot, hashes.

use std::collections::HashSet;
use std::hash::BuildHasher;

use super::*;

fn key(slot: u32) -> Key {
    Key::new(slot, 0)
}

fn len(names: &Names) -> usize {
    names.shards.iter().map(HashMap::len).sum()
}

fn hash_of(value: impl std::hash::Hash) -> u64 {
    BuildHasherDefault::<Folded>::default().hash_one(value)
}

#[test]
fn a_name_finds_its_timer_until_the_slot_is_used_again() {
    let mut names = Names::new();
    assert_eq!((names.find(7), names.of_slot(0)), (None, None));
    names.forget(0);
    names.set(7, key(3));
    assert_eq!((names.find(7), names.of_slot(3)), (Some(key(3)), Some(7)));
    names.forget(4);
    assert_eq!(names.find(7), Some(key(3)));
    names.forget(3);
    assert_eq!((names.find(7), names.of_slot(3), len(&names)), (None, None, 0));
}

#[test]
fn a_name_and_a_slot_have_each_other_alone() {
    let mut names = Names::new();
    names.set(7, key(3));
    names.set(7, key(1000));
    assert_eq!((names.find(7), names.of_slot(3), names.of_slot(1000)), (Some(key(1000)), None, Some(7)));
    names.set(8, key(1000));
    assert_eq!((names.find(7), names.find(8), names.of_slot(1000)), (None, Some(key(1000)), Some(8)));
    assert_eq!(len(&names), 1);
    names.set(9, key(3));
    assert_eq!((names.of_slot(1000), names.of_slot(3)), (Some(8), Some(9)));
}

#[test]
fn many_names_of_any_kind() {
    for spread in [1u128, 1 << 64, u128::MAX / 5000] {
        let mut names = Names::new();
        (0..5000u32).for_each(|slot| names.set(u128::from(slot) * spread, key(slot)));
        for slot in 0..5000u32 {
            assert_eq!(names.find(u128::from(slot) * spread), Some(key(slot)));
            assert_eq!(names.of_slot(slot), Some(u128::from(slot) * spread));
        }
        (0..5000).for_each(|slot| names.forget(slot));
        assert_eq!(len(&names), 0);
    }
}

#[test]
fn upper_halves_that_differ_spread_names_over_the_tables() {
    let mut names = Names::new();
    (0..10_000).for_each(|slot| names.set(u128::from(slot) << 64 | 7, key(slot)));
    let fullest = names.shards.iter().map(HashMap::len).max();
    assert_eq!(fullest, Some(3), "10 000 names in 4096 tables");
}

/// The low bits of a hash choose a place in the table, whose control byte holds the top seven.
#[test]
fn lower_halves_that_differ_spread_names_within_a_table() {
    const UUID_VARIANT: u128 = 1 << 63;
    let hashes: Vec<u64> = (0..128).map(|name| hash_of(UUID_VARIANT | name)).collect();
    let distinct = |part: fn(&u64) -> u64| hashes.iter().map(part).collect::<HashSet<u64>>().len();
    assert_eq!(distinct(|hash| hash % 128), 128);
    assert!(distinct(|hash| hash >> 57) > 64);
}

#[test]
fn a_hash_of_bytes_depends_on_every_bit() {
    let ones = [u8::MAX; 16];
    for bit in 0..128 {
        let mut bytes = ones;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(hash_of(bytes), hash_of(ones), "bit {bit}");
    }
}

#[test]
fn names_are_found_by_their_beginning() {
    let mut names = Names::new();
    let name = |upper: u128, lower: u128| upper << 64 | lower;
    for (slot, name) in (0..).zip([name(1, 0x17), name(1, 0x18), name(1, 0x27), name(2, 0x17)]) {
        names.set(name, key(slot));
    }
    let mut found: Vec<_> = names.beginning_with(name(1, 0x17) >> 4, 4).collect();
    found.sort_unstable();
    assert_eq!(found, [(name(1, 0x17), key(0)), (name(1, 0x18), key(1))]);
}

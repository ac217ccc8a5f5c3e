//! Tests of the arena.

use super::*;

#[test]
fn a_key_dies_with_its_entry() {
    let mut arena = Arena::new();
    let key = arena.insert(|_| 1).unwrap();
    assert_eq!(arena.get(key), Some(&1));
    assert_eq!(arena.remove(key), Some(1));
    assert_eq!(arena.remove(key), None);
    assert_eq!(arena.get(key), None);
    assert_eq!(arena.get_mut(key), None);
    let next = arena.insert(|_| 2).unwrap();
    assert_eq!((next.index(), next.tag()), (key.index(), key.tag() + 1));
    assert_eq!(arena.get(key), None);
    assert_eq!(arena.len(), 1);
}

#[test]
fn a_key_that_was_never_issued_finds_nothing() {
    let mut arena = Arena::new();
    let key = arena.insert(|_| ()).unwrap();
    for foreign in [Key::new(1, 0), Key::new(u32::MAX, 0), Key::new(key.index(), 1), Key::new(PAGE as u32, 0)] {
        assert_eq!(arena.get(foreign), None);
        assert_eq!(arena.remove(foreign), None);
    }
}

#[test]
fn a_tag_is_not_padded() {
    assert_eq!(size_of::<Slot<(std::num::NonZeroU32, [u32; 8])>>(), 44);
}

#[test]
fn an_entry_is_found_under_the_tag_of_the_caller() {
    let mut arena = Arena::new();
    let index = arena.reserve().unwrap();
    let key = arena.occupy(index, u64::MAX, 'a');
    assert_eq!(key, Key::new(index, u64::MAX));
    assert_eq!((arena.get(key), arena.get(Key::new(index, 0))), (Some(&'a'), None));
    assert_eq!((arena.key_at(index), arena.remove(key), arena.key_at(index)), (Some(key), Some('a'), None));
    assert_eq!(arena.get(key), None);
}

#[test]
fn entries_stay_where_they_are_while_the_arena_grows() {
    let mut arena = Arena::new();
    let keys: Vec<Key> = (0..3 * PAGE + 1).map(|i| arena.insert(|_| i).unwrap()).collect();
    let address = std::ptr::from_ref(arena.get(keys[0]).unwrap());
    for extra in 0..PAGE {
        arena.insert(|_| extra).unwrap();
    }
    assert_eq!(address, std::ptr::from_ref(arena.get(keys[0]).unwrap()));
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(arena.get(*key), Some(&i));
    }
    assert_eq!(arena.iter().count(), arena.len());
    assert_eq!(arena.key_at(5), Some(keys[5]));
}

#[test]
fn the_slot_freed_last_is_used_first_through_all_pages() {
    let mut arena = Arena::new();
    let mut keys: Vec<Key> = (0..3 * PAGE + 1).map(|i| arena.insert(|_| i).unwrap()).collect();
    for _ in 1..3 {
        for key in &keys {
            assert!(arena.remove(*key).is_some());
        }
        for key in keys.iter_mut().rev() {
            let index = key.index();
            *key = arena.insert(|_| 0).unwrap();
            assert_eq!(key.index(), index);
        }
    }
    assert_eq!((arena.len(), arena.iter().count()), (keys.len(), keys.len()));
}

#[test]
fn an_entry_is_removed_only_with_the_property() {
    let mut arena = Arena::new();
    let key = arena.insert(|_| 1).unwrap();
    assert_eq!((arena.remove_if(key, |value| *value == 2), arena.len()), (None, 1));
    assert_eq!((arena.remove_if(key, |value| *value == 1), arena.len()), (Some(1), 0));
    assert_eq!(arena.remove_at(key.index()), None);
}

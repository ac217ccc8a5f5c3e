//! Tests of labels.

use super::*;

const ANY: KeyScope = KeyScope::Recipient(1);

fn timer(slot: u32) -> Key {
    Key::new(slot, 0)
}

fn scoped(scope: KeyScope, kind: u32, key: impl Into<TimerKey>) -> ScopedKey {
    ScopedKey { scope, kind: MessageKind(kind), key: key.into() }
}

fn sizes(labels: &Labels) -> (usize, usize, usize) {
    (labels.by_slot.len(), labels.keys.len(), labels.groups.len())
}

#[test]
fn nothing_is_left_of_timers_that_have_ended() {
    let mut labels = Labels::new();
    for slot in 0..100u32 {
        let key = (slot % 2 == 0).then(|| scoped(ANY, 0, slot % 10));
        let group = (slot % 3 == 0).then(|| TimerGroup::from(format!("group {}", slot % 4)));
        assert!(labels.set(timer(slot), key, group));
    }
    assert_eq!(sizes(&labels), (100, 5, 4));
    (0..100).for_each(|slot| labels.forget(slot));
    assert_eq!(sizes(&labels), (0, 0, 0));
    labels.forget(7);
}

#[test]
fn timers_of_different_kinds_have_equal_keys() {
    let mut labels = Labels::new();
    for (slot, kind) in [(1, 2), (2, 0), (3, 2), (4, 1)] {
        labels.set(timer(slot), Some(scoped(ANY, kind, "k")), None);
    }
    labels.set(timer(5), Some(scoped(ANY, 1, "other")), None);
    let holders = |labels: &Labels, kinds| -> Vec<(u32, u32)> {
        labels.holders(ANY, &"k".into(), kinds).map(|(kind, timer)| (kind.0, timer.index())).collect()
    };
    assert_eq!(holders(&labels, 0..9), [(0, 2), (1, 4), (2, 3)]);
    assert_eq!((holders(&labels, 1..2), holders(&labels, 3..9)), (vec![(1, 4)], vec![]));
    labels.forget(4);
    assert_eq!((holders(&labels, 0..3), labels.holder(&scoped(ANY, 1, "k"))), (vec![(0, 2), (2, 3)], None));
    assert_eq!(labels.holder(&scoped(ANY, 2, "k")), Some(timer(3)));
}

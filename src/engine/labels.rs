//! Labels: the key of a timer, and the members of each group. An entry is removed with its timer.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::engine::group::TimerGroup;
use crate::engine::key::TimerKey;
use crate::engine::owners::OwnerId;
use crate::engine::shards::Shards;
use crate::engine::side_table::SideTable;
use crate::timing::Key;

/// The set of timers in which a key is unique for each kind of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum KeyScope {
    /// The timers of one owner.
    Owner(OwnerId),
    /// The timers for one recipient, which the caller identifies by a number.
    Recipient(u64),
}

impl KeyScope {
    /// Returns the owner; `None` for a recipient.
    #[inline(always)]
    pub(crate) const fn owner(self) -> Option<OwnerId> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::Recipient(_) => None,
        }
    }
}

/// The kind of a timer's message. In one scope timers of different kinds may have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MessageKind(pub(crate) u32);

impl MessageKind {
    /// The kind of all timers whose keys are shared by kinds.
    pub(crate) const SHARED: Self = Self(0);
}

/// A key, unique for a kind of messages in a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ScopedKey {
    pub(crate) scope: KeyScope,
    pub(crate) kind: MessageKind,
    pub(crate) key: TimerKey,
}

/// The labels of one timer.
#[derive(Debug)]
struct Label {
    key: Option<ScopedKey>,
    /// Its group, and its number in the order of joining any.
    group: Option<(TimerGroup, u64)>,
}

#[derive(Debug)]
pub(crate) struct Labels {
    by_slot: SideTable<Label>,
    keys: Shards<ScopedKey, Key>,
    /// The number of kinds of messages that have had keys so far: one more than the greatest.
    kinds: u32,
    /// The members of each group in the order in which they joined.
    groups: Shards<TimerGroup, BTreeMap<u64, Key>>,
    /// Number of timers that have joined groups since the start.
    joined: u64,
}

impl Labels {
    pub(crate) const fn new() -> Self {
        Self { by_slot: SideTable::new(), keys: Shards::new(), kinds: 0, groups: Shards::new(), joined: 0 }
    }

    /// Returns the number of timers with labels.
    pub(crate) fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// Returns the timer with this key.
    pub(crate) fn holder(&self, key: &ScopedKey) -> Option<Key> {
        self.keys.get(key).copied()
    }

    /// Returns the timers with this key whose messages are of these kinds, in their order.
    pub(crate) fn holders(
        &self,
        scope: KeyScope,
        key: &TimerKey,
        kinds: Range<u32>,
    ) -> impl Iterator<Item = (MessageKind, Key)> {
        let mut scoped = ScopedKey { scope, kind: MessageKind::SHARED, key: key.clone() };
        (kinds.start..kinds.end.min(self.kinds)).filter_map(move |kind| {
            scoped.kind = MessageKind(kind);
            Some((scoped.kind, self.holder(&scoped)?))
        })
    }

    /// Labels a timer without labels; another timer with the key loses it. Returns false if no more labels fit in.
    pub(crate) fn set(&mut self, timer: Key, key: Option<ScopedKey>, group: Option<TimerGroup>) -> bool {
        let number = self.joined;
        let label = Label { key: key.clone(), group: group.clone().map(|group| (group, number)) };
        if !self.by_slot.set(timer.index(), label) {
            return false;
        }
        if let Some(key) = key
            && let Some(earlier) = self.put_key(key, timer)
            && let Some(label) = self.by_slot.get_mut(earlier.index())
        {
            label.key = None;
        }
        if let Some(group) = group {
            self.joined += 1;
            self.groups.entry(group).or_default().insert(number, timer);
        }
        true
    }

    /// Gives the key to a timer, and returns its previous holder.
    fn put_key(&mut self, key: ScopedKey, timer: Key) -> Option<Key> {
        self.kinds = self.kinds.max(key.kind.0.saturating_add(1));
        match self.keys.entry(key) {
            Entry::Occupied(mut holder) => Some(holder.insert(timer)),
            Entry::Vacant(place) => {
                place.insert(timer);
                None
            }
        }
    }

    /// Removes the labels of the timer in `slot`, which has ended.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(Label { key, group }) = self.by_slot.remove(slot) else { return };
        if let Some(key) = key
            && let Entry::Occupied(holder) = self.keys.entry(key)
        {
            holder.remove();
        }
        if let Some((group, number)) = group
            && let Entry::Occupied(mut members) = self.groups.entry(group)
        {
            members.get_mut().remove(&number);
            if members.get().is_empty() {
                members.remove();
            }
        }
    }

    pub(crate) fn key_of(&self, slot: u32) -> Option<&TimerKey> {
        self.by_slot.get(slot)?.key.as_ref().map(|scoped| &scoped.key)
    }

    pub(crate) fn group_of(&self, slot: u32) -> Option<&TimerGroup> {
        self.by_slot.get(slot)?.group.as_ref().map(|(group, _)| group)
    }

    pub(crate) fn group_len(&self, group: &TimerGroup) -> usize {
        self.groups.get(group).map_or(0, BTreeMap::len)
    }

    /// Returns the members of a group in the order of joining, with their numbers, from `number` on.
    pub(crate) fn members(&self, group: &TimerGroup, number: u64) -> impl Iterator<Item = (u64, Key)> {
        let members = self.groups.get(group);
        members.into_iter().flat_map(move |members| members.range(number..)).map(|(number, timer)| (*number, *timer))
    }

    /// Returns the number that the next timer to join a group will have.
    pub(crate) const fn joined(&self) -> u64 {
        self.joined
    }
}

#[cfg(test)]
mod tests {
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
    fn a_key_belongs_to_the_last_that_got_it_in_its_scope() {
        let mut labels = Labels::new();
        let other = KeyScope::Recipient(2);
        labels.set(timer(1), Some(scoped(ANY, 1, "k")), None);
        labels.set(timer(2), Some(scoped(other, 1, "k")), None);
        labels.set(timer(3), Some(scoped(ANY, 1, "k")), None);
        assert_eq!(labels.holder(&scoped(ANY, 1, "k")), Some(timer(3)));
        assert_eq!((labels.key_of(1), labels.key_of(3)), (None, Some(&"k".into())));
        labels.forget(1);
        assert_eq!(labels.holder(&scoped(ANY, 1, "k")), Some(timer(3)), "it had lost the key before");
        labels.forget(3);
        let holders = [ANY, other].map(|scope| labels.holder(&scoped(scope, 1, "k")));
        assert_eq!(holders, [None, Some(timer(2))]);
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
        assert_eq!(holders(&labels, 0..u32::MAX), [(0, 2), (1, 4), (2, 3)]);
        assert_eq!((holders(&labels, 1..2), holders(&labels, 3..9)), (vec![(1, 4)], vec![]));
        labels.forget(4);
        assert_eq!((holders(&labels, 0..3), labels.holder(&scoped(ANY, 1, "k"))), (vec![(0, 2), (2, 3)], None));
        assert_eq!(labels.holder(&scoped(ANY, 2, "k")), Some(timer(3)));
    }

    #[test]
    fn members_of_a_group_keep_the_order_in_which_they_joined() {
        let mut labels = Labels::new();
        let group = TimerGroup::from("campaign");
        for slot in [5, 3, 9] {
            labels.set(timer(slot), None, Some(group.clone()));
        }
        labels.set(timer(4), None, Some("other".into()));
        let slots = |labels: &Labels, from| -> Vec<u32> {
            labels.members(&group, from).map(|(_, timer)| timer.index()).collect()
        };
        assert_eq!((slots(&labels, 0), slots(&labels, 1), labels.joined()), (vec![5, 3, 9], vec![3, 9], 4));
        labels.forget(3);
        assert_eq!((slots(&labels, 0), labels.group_len(&group)), (vec![5, 9], 2));
        assert_eq!((labels.group_of(5), labels.group_of(3)), (Some(&group), None));
    }
}

//! Labels: the key of a timer, and the members of each group. An entry is removed with its timer.

use std::collections::BTreeMap;
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
    /// The members of each group in the order in which they joined.
    groups: Shards<TimerGroup, BTreeMap<u64, Key>>,
    /// Number of timers that have joined groups since the start.
    joined: u64,
}

impl Labels {
    pub(crate) const fn new() -> Self {
        Self { by_slot: SideTable::new(), keys: Shards::new(), groups: Shards::new(), joined: 0 }
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
        kinds.filter_map(move |kind| {
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
        if let Some(key) = key {
            let earlier = std::mem::replace(self.keys.entry(key).or_insert(timer), timer);
            if earlier != timer
                && let Some(label) = self.by_slot.get_mut(earlier.index())
            {
                label.key = None;
            }
        }
        if let Some(group) = group {
            self.joined += 1;
            self.groups.entry(group).or_default().insert(number, timer);
        }
        true
    }

    /// Removes the labels of the timer in `slot`, which has ended.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(Label { key, group }) = self.by_slot.remove(slot) else { return };
        if let Some(key) = key {
            self.keys.remove(&key);
        }
        if let Some((group, number)) = group
            && let Some(members) = self.groups.get_mut(&group)
        {
            members.remove(&number);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// Frees storage that no slot before `end` needs. Looks at most at `budget` labels, counted down. Returns whether it
    /// has finished.
    pub(crate) fn trim(&mut self, end: u32, budget: &mut usize) -> bool {
        self.by_slot.trim(end, budget)
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
mod tests;

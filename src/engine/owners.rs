//! Owners: an owner's timers end with it, and wait in its inbox once they are due.

use crate::engine::own_timers::OwnTimers;
use crate::engine::timer::{Mark, Stage, Timer};
use crate::timing::{Arena, Chunks, Key, List};

/// The id of an owner, never used again after the owner has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub(crate) Key);

/// An owner: its timers, and its inbox.
#[derive(Debug)]
pub(crate) struct Owner<O> {
    /// The slots of its own timers.
    timers: OwnTimers,
    /// Its due timers, first in, first out.
    pub(crate) inbox: List,
    /// The caller's data.
    pub(crate) data: O,
}

/// All owners.
#[derive(Debug)]
pub(crate) struct Owners<O> {
    arena: Arena<Owner<O>>,
    /// The chunks of the lists of their timers.
    chunks: Chunks,
}

/// The list of one owner's own timers, with its chunks.
pub(crate) struct OwnList<'o> {
    owner: u32,
    timers: &'o mut OwnTimers,
    chunks: &'o mut Chunks,
}

impl OwnList<'_> {
    /// Adds the timer in `slot`, which notes its owner and its location in the list.
    #[inline]
    pub(crate) fn add<P>(self, slot: u32, timer: &mut Timer<P>) {
        timer.belong(self.owner, self.timers.push_back(self.chunks, slot));
        self.timers.keeping += u32::from(timer.marks.has(Mark::KeepsAlive));
    }
}

impl<O> Owners<O> {
    pub(crate) const fn new() -> Self {
        Self { arena: Arena::new(), chunks: Chunks::new() }
    }

    pub(crate) fn insert(&mut self, data: impl FnOnce(OwnerId) -> O) -> Option<OwnerId> {
        let owner = |key| Owner { timers: OwnTimers::new(), inbox: List::new(), data: data(OwnerId(key)) };
        self.arena.insert(owner).map(OwnerId)
    }

    pub(crate) fn get(&self, id: OwnerId) -> Option<&Owner<O>> {
        self.arena.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: OwnerId) -> Option<&mut Owner<O>> {
        self.arena.get_mut(id.0)
    }

    pub(crate) fn remove(&mut self, id: OwnerId) -> Option<Owner<O>> {
        self.arena.remove(id.0)
    }

    pub(crate) fn id_at(&self, slot: u32) -> Option<OwnerId> {
        self.arena.key_at(slot).map(OwnerId)
    }

    /// Returns the owner in a slot.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<(OwnerId, &mut Owner<O>)> {
        self.arena.at_mut(slot).map(|(key, owner)| (OwnerId(key), owner))
    }

    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }

    /// Frees storage at the end that no owner needs. Looks at most at `budget` slots, counted down. Returns whether it
    /// has finished.
    pub(crate) fn trim(&mut self, budget: &mut usize) -> bool {
        self.arena.trim(budget) && self.chunks.trim(budget)
    }

    /// Returns the number of an owner's timers, without the messages in a queue.
    pub(crate) fn own(&self, id: OwnerId) -> usize {
        self.get(id).map_or(0, |owner| owner.timers.len())
    }

    /// Returns the slot of one of its own timers.
    pub(crate) fn any(&self, id: OwnerId) -> Option<u32> {
        self.get(id)?.timers.first(&self.chunks)
    }

    /// Returns the slots of its own timers, oldest first.
    pub(crate) fn own_slots(&self, id: OwnerId) -> impl Iterator<Item = u32> {
        self.get(id).into_iter().flat_map(|owner| owner.timers.iter(&self.chunks))
    }

    /// Returns the list of an owner's own timers, to add one.
    #[inline]
    pub(crate) fn own_list(&mut self, id: OwnerId) -> Option<OwnList<'_>> {
        let owner = self.arena.get_mut(id.0)?;
        Some(OwnList { owner: id.0.index(), timers: &mut owner.timers, chunks: &mut self.chunks })
    }

    /// Returns whether timers keep the owner's actor alive; if so, the end of the last one will be reported.
    pub(crate) fn hold(&mut self, owner: OwnerId) -> bool {
        let Some(Owner { timers, .. }) = self.arena.get_mut(owner.0) else { return false };
        timers.is_held = timers.keeping > 0;
        timers.is_held
    }

    /// Prefetches the place of a timer in its owner's list.
    #[inline]
    pub(crate) fn fetch<P>(&self, timer: &Timer<P>) {
        self.chunks.fetch(timer.owner_spot());
    }

    /// Removes a timer from its owner's own. Returns whether it was the last timer that kept its owner's actor alive, and
    /// that is to be reported.
    #[inline]
    pub(crate) fn leave<P>(&mut self, timer: &Timer<P>) -> bool {
        // The owner is a queue, which has none.
        if timer.stage == Stage::Queued {
            return false;
        }
        let Some((_, Owner { timers, .. })) = self.arena.at_mut(timer.owner) else { return false };
        timers.remove(&mut self.chunks, timer.owner_spot());
        if !timer.marks.has(Mark::KeepsAlive) {
            return false;
        }
        timers.keeping = timers.keeping.saturating_sub(1);
        timers.keeping == 0 && std::mem::take(&mut timers.is_held)
    }
}

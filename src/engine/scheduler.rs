//! The engine: accepts timers, returns due ones, and counts the outcome of each.

use std::time::Duration;

use crate::engine::by_slot::BySlot;
use crate::engine::counters::{Counters, DeadLetterReason, Outcome};
use crate::engine::labels::Labels;
use crate::engine::names::Names;
use crate::engine::own_timers::OwnTimers;
use crate::engine::owners::{Owner, OwnerId};
use crate::engine::recurrence::{NextRun, Recurrence};
use crate::engine::side_table::SideTable;
use crate::engine::timer::{Mark, Marks, NO_OWNER, NotPending, Stage, Timer};
use crate::engine::wall::{WallTimes, estimate};
use crate::timing::{Advance, Arena, Chunks, Key, List, Tick, TickLength, Wheel, WheelSize};

/// The configuration of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineConfig {
    /// The length of a tick.
    pub tick: TickLength,
    /// Buckets per turn of a level.
    pub wheel_size: WheelSize,
    /// The greatest number of pending timers.
    pub capacity: usize,
    /// Entries per tick that a bucket is cascaded ahead of its time; see [`Wheel::prepare`].
    pub cascade_batch: usize,
}

/// The upper limit of the capacity: one less than the wheel has slots, for a timer that replaces another.
pub(crate) const MAX_CAPACITY: usize = u32::MAX as usize - 1;

/// The tag of no timer.
const NO_TAG: u64 = u64::MAX;

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            tick: TickLength::default(),
            wheel_size: WheelSize::default(),
            capacity: MAX_CAPACITY,
            cascade_batch: 4096,
        }
    }
}

/// The reason why a timer was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// As many timers are pending as the capacity allows.
    Capacity,
    /// The engine is closed, or the owner has ended.
    Closed,
}

/// A due timer with its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueTimer<P> {
    /// Its key.
    pub key: Key,
    /// Its deadline.
    pub deadline: Tick,
    /// Its payload.
    pub payload: P,
}

/// The result of one call of [`Engine::expire`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due<P> {
    /// A timer went into the inbox of its owner.
    Inbox(OwnerId),
    /// A timer for a recipient is due. It is in flight until [`Engine::finish`].
    Recipient(DueTimer<P>),
}

/// The engine: schedules, owners, capacity and accounting around one wheel.
///
/// `P` is the location of a message, `O` the caller's data of an owner. Times are ticks of one clock that never goes
/// back; a `now` before an earlier one counts as that.
#[derive(Debug)]
pub(crate) struct Engine<P, O> {
    pub(super) config: EngineConfig,
    pub(super) wheel: Wheel<Timer<P>>,
    pub(super) owners: Arena<Owner<O>>,
    /// The chunks of the lists of their timers.
    pub(super) owner_chunks: Chunks,
    pub(super) wall_times: WallTimes,
    /// Names given by callers.
    pub(super) names: Names,
    /// Keys and groups.
    pub(super) labels: Labels,
    /// Recurrences of the repeating timers.
    pub(super) recurrences: SideTable<Recurrence>,
    /// The tags of the timers delivered last, by slot: a late cancel gets a correct answer, until the memory of a burst
    /// goes back. A cancel does not touch it.
    pub(super) delivered: BySlot<u64>,
    pub(super) counters: Counters,
    /// Number of timers in inboxes.
    pub(super) in_inboxes: usize,
    /// Ended timers whose end is to be reported.
    ended: Vec<Key>,
    /// Owners whose last timer that [kept them alive](Self::keeps_alive) has ended, and queues that a timer has left
    /// before its turn.
    released: Vec<OwnerId>,
    /// The timers that the last trim of the storage left, and the number of all that had ended by then.
    pub(super) trimmed: Option<(u64, u64)>,
    pub(super) now: Tick,
    pub(super) closed: bool,
}

impl<P: Copy, O> Engine<P, O> {
    /// Returns an engine at tick 0.
    pub(crate) fn new(config: EngineConfig) -> Self {
        Self {
            wheel: Wheel::new(config.wheel_size),
            config: EngineConfig { capacity: config.capacity.min(MAX_CAPACITY), ..config },
            owners: Arena::new(),
            owner_chunks: Chunks::new(),
            wall_times: WallTimes::default(),
            names: Names::new(),
            labels: Labels::new(),
            recurrences: SideTable::new(),
            delivered: BySlot::new(),
            counters: Counters::default(),
            in_inboxes: 0,
            ended: Vec::new(),
            released: Vec::new(),
            trimmed: None,
            now: 0,
            closed: false,
        }
    }

    /// Accepts a timer: for `owner`, or for a recipient that the payload identifies. Its key is its slot and `tag`, which
    /// no other timer may have. If the caller can and will [cancel](Self::cancel) the timer that it replaces, the place
    /// of that one in the capacity counts as free already. Of all marks it may have only [`Mark::KeepsAlive`] at first.
    ///
    /// # Errors
    /// The capacity is used up, the engine is closed, or the owner has ended.
    #[inline(always)]
    pub(crate) fn schedule(
        &mut self,
        tag: u64,
        now: Tick,
        deadline: Tick,
        owner: Option<OwnerId>,
        timer: Timer<P>,
        replaces: Option<Key>,
    ) -> Result<Key, RejectReason> {
        let more = u64::from(replaces.is_some_and(|old| self.stoppable(old).is_ok()));
        self.pass(now);
        if self.closed {
            return Err(self.reject(RejectReason::Closed));
        }
        if self.counters.pending >= self.config.capacity as u64 + more {
            return Err(self.reject(RejectReason::Capacity));
        }
        let mut own = None;
        if let Some(OwnerId(owner)) = owner {
            let Some(Owner { timers, .. }) = self.owners.get_mut(owner) else {
                return Err(self.reject(RejectReason::Closed));
            };
            own = Some((owner.index(), timers));
        }
        let key = self.wheel.insert_with(self.now, deadline, tag, |slot| {
            let mut timer = timer;
            if let Some((owner, timers)) = own {
                timers.add(&mut self.owner_chunks, owner, slot, &mut timer);
            }
            timer
        });
        let Some(key) = key else { return Err(self.reject(RejectReason::Capacity)) };
        self.names.forget(key.index());
        self.counters.accept();
        Ok(key)
    }

    /// Returns whether the capacity is used up.
    pub(crate) const fn is_full(&self) -> bool {
        self.counters.pending >= self.config.capacity as u64
    }

    /// Counts a rejected timer, and returns the reason.
    #[cold]
    pub(crate) fn reject(&mut self, reason: RejectReason) -> RejectReason {
        match reason {
            RejectReason::Capacity => self.counters.rejected_capacity += 1,
            RejectReason::Closed => self.counters.rejected_closed += 1,
        }
        reason
    }

    /// Counts the message of a rejected timer, which could not be handed back, as a dead letter.
    pub(crate) fn lose_rejected(&mut self) {
        self.counters.lose_rejected();
    }

    /// Binds a pending timer to a wall-clock time, a duration since the Unix epoch.
    pub(crate) fn set_wall_time(&mut self, key: Key, at: Duration) {
        if let Some(timer) = self.wheel.get_mut(key) {
            timer.marks.set(Mark::WallTime);
            self.wall_times.set(key.index(), at);
        }
    }

    /// Gives a pending timer a name, which no pending timer has.
    pub(crate) fn set_name(&mut self, key: Key, name: u128) {
        if self.wheel.get(key).is_some() {
            self.names.set(name, key);
        }
    }

    /// Returns whether timers keep an owner's actor alive. If so, the owner is [reported](Self::released) when the last
    /// of them has ended.
    pub(crate) fn keeps_alive(&mut self, owner: OwnerId) -> bool {
        self.owners.get_mut(owner.0).is_some_and(|owner| owner.timers.hold())
    }

    /// Returns the owners whose last timer that kept them alive has ended, and the queues that a timer has left before its
    /// turn: another message may be the next.
    pub(crate) fn released(&self) -> &[OwnerId] {
        &self.released
    }

    /// Takes the [released](Self::released) owners and queues.
    pub(crate) fn take_released(&mut self) -> Vec<OwnerId> {
        std::mem::take(&mut self.released)
    }

    /// Cancels a timer before its message is handed over, and returns its payload.
    ///
    /// # Errors
    /// Returns the reason why the timer cannot be cancelled any more. A repeating timer in flight stops repeating
    /// nevertheless.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, key: Key) -> Result<P, NotPending> {
        match self.wheel.cancel(key) {
            Some(timer) => {
                self.counters.end(Outcome::Cancelled);
                Ok(self.clear_away(key, timer))
            }
            None => self.cancel_detached(key),
        }
    }

    /// Cancels a timer that is not in the wheel.
    fn cancel_detached(&mut self, key: Key) -> Result<P, NotPending> {
        self.stoppable(key).inspect_err(|_| self.ask_next(key, NextRun::Never))?;
        self.take_out(key);
        self.end(key, Outcome::Cancelled).ok_or(NotPending::Unknown)
    }

    /// Moves a timer to another deadline, on the monotonic clock; a due timer waits again.
    ///
    /// # Errors
    /// Returns the reason why the timer cannot be moved, now or any more.
    pub(crate) fn reschedule(&mut self, now: Tick, key: Key, deadline: Tick) -> Result<(), NotPending> {
        self.stoppable(key)?;
        if self.is_making(key) {
            return Err(NotPending::InFlight);
        }
        self.pass(now);
        self.take_out(key);
        if self.is_queued(key) {
            self.leave_owner(key);
        }
        self.wheel.reschedule(self.now, key, deadline);
        self.leave_wall_clock(key, Stage::Waiting);
        self.counters.rescheduled += 1;
        Ok(())
    }

    /// Takes the next timer due by `now` out of the wheel.
    ///
    /// `wall` is the wall-clock time, needed while [timers follow it](Self::wall_timers): a timer whose wall-clock time
    /// has not come yet is put back. `budget` counts down by one for every entry moved.
    pub(crate) fn expire(&mut self, now: Tick, wall: Option<Duration>, budget: &mut usize) -> Result<Due<P>, Advance> {
        self.pass(now);
        loop {
            let key = match self.wheel.expire(self.now, budget) {
                Ok(key) => key,
                Err(Advance::Done) => break,
                Err(exhausted) => return Err(exhausted),
            };
            if self.put_back_if_early(key, wall) {
                continue;
            }
            // The clock stands at the deadline of the entry that has just expired.
            let deadline = self.wheel.clock();
            let Some(timer) = self.wheel.get_mut(key) else { continue };
            let (slot, payload) = (timer.owner, timer.payload);
            match self.owners.at_mut(slot) {
                Some((owner_key, owner)) => {
                    timer.stage = Stage::Due;
                    self.wheel.hold(&mut owner.inbox, key);
                    self.in_inboxes += 1;
                    return Ok(Due::Inbox(OwnerId(owner_key)));
                }
                None => {
                    timer.stage = if timer.marks.has(Mark::Recurrence) { Stage::Making } else { Stage::InFlight };
                    return Ok(Due::Recipient(DueTimer { key, deadline, payload }));
                }
            }
        }
        let end = self.wheel.prepare(self.now, self.config.cascade_batch, *budget);
        if end == Advance::Exhausted {
            *budget = 0;
        }
        Err(end)
    }

    /// Appends a message for a recipient to its queue, an owner without timers of its own, under a number. Only for a
    /// message that [`expire`](Self::expire) has just returned.
    pub(crate) fn enqueue(&mut self, key: Key, queue: OwnerId, number: u32) {
        let under_way = |timer: &&mut Timer<P>| matches!(timer.stage, Stage::InFlight | Stage::Making);
        let Some(timer) = self.wheel.get_mut(key).filter(under_way) else { return };
        let Some(queue_owner) = self.owners.get_mut(queue.0) else { return };
        timer.queue(queue.0.index(), number);
        self.wheel.hold(&mut queue_owner.inbox, key);
        self.in_inboxes += 1;
    }

    /// Takes the first message out of an owner's inbox and counts it as delivered; a repetition only with
    /// [`repeat`](Self::repeat).
    #[inline]
    pub(crate) fn take_due(&mut self, owner: OwnerId) -> Option<DueTimer<P>> {
        let inbox = &mut self.owners.get_mut(owner.0)?.inbox;
        let (key, deadline, timer) = self.wheel.front_held(inbox)?;
        let due = DueTimer { key, deadline, payload: timer.payload };
        let repeats = timer.marks.has(Mark::Recurrence);
        if repeats {
            timer.stage = Stage::Making;
        }
        self.wheel.release_front(inbox);
        self.in_inboxes -= 1;
        if !repeats {
            self.end(key, Outcome::Delivered);
        }
        Some(due)
    }

    /// Returns the deadline of the first message in an owner's inbox.
    pub(crate) fn oldest_due(&self, owner: OwnerId) -> Option<Tick> {
        self.wheel.deadline(self.first_due(owner)?)
    }

    /// Ends a timer that is in flight, or whose message was in production.
    pub(crate) fn finish(&mut self, key: Key, outcome: Outcome) -> Option<P> {
        let under_way = |stage| matches!(stage, Stage::Making | Stage::InFlight);
        self.wheel.get(key).filter(|timer| under_way(timer.stage))?;
        self.end(key, outcome)
    }

    /// Counts a message that came back, its timer [finished](Self::finish) as delivered, as a dead letter. To be called
    /// once for it.
    pub(crate) fn bounce(&mut self, key: Key, reason: DeadLetterReason) {
        if self.was_delivered(key) {
            self.delivered.set(key.index(), NO_TAG, NO_TAG);
        }
        self.counters.bounce(reason);
    }

    /// Counts an owner's timers, which end with it, as abandoned. Returns their number.
    pub(crate) fn abandon(&mut self, id: OwnerId) -> usize {
        let timers = self.owned(id);
        self.counters.abandoned += timers as u64;
        timers
    }

    /// Registers an owner, or a queue for [due messages](Self::enqueue) of one recipient, with its data. `None` if
    /// 2³² − 1 owners exist.
    pub(crate) fn add_owner(&mut self, data: impl FnOnce(OwnerId) -> O) -> Option<OwnerId> {
        let owner = |key| Owner { timers: OwnTimers::new(), inbox: List::new(), data: data(OwnerId(key)) };
        self.owners.insert(owner).map(OwnerId)
    }

    /// Returns the caller's data of an owner.
    pub(crate) fn owner_mut(&mut self, id: OwnerId) -> Option<&mut O> {
        self.owners.get_mut(id.0).map(|owner| &mut owner.data)
    }

    /// Cancels any one of an owner's own timers, and returns its payload; `None` when no cancellable timer is left. To
    /// end an owner call this until `None`, in any number of turns, then [`remove_owner`](Self::remove_owner).
    pub(crate) fn cancel_one_of(&mut self, id: OwnerId) -> Option<P> {
        loop {
            let slot = self.owners.get(id.0)?.timers.first(&self.owner_chunks)?;
            let key = self.wheel.key_at(slot)?;
            match self.cancel(key) {
                Ok(payload) => return Some(payload),
                // In flight by another way than the inbox: it ends by itself, without an owner from now on.
                Err(_) => self.leave_owner(key),
            }
        }
    }

    /// Removes an owner without timers, or an empty queue.
    pub(crate) fn remove_owner(&mut self, id: OwnerId) -> Option<O> {
        if self.owned(id) > 0 || self.inbox_len(id) > 0 {
            return None;
        }
        self.owners.remove(id.0).map(|owner| owner.data)
    }

    /// Makes the end of a pending timer [reported](Self::ended). Returns false if there is no such timer.
    pub(crate) fn report_end(&mut self, key: Key) -> bool {
        let timer = self.wheel.get_mut(key);
        let is_pending = timer.is_some();
        if let Some(timer) = timer {
            timer.marks.set(Mark::ReportEnd);
        }
        is_pending
    }

    /// Returns the timers that have ended since the last call, as far as [requested](Self::report_end).
    pub(crate) fn ended(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.ended)
    }

    /// Closes the engine: all later timers are rejected.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Ends a timer whose message has not been handed over: by a drain, or because the service stops.
    pub(crate) fn give_up(&mut self, key: Key, outcome: Outcome) -> Option<DueTimer<P>> {
        self.stoppable(key).ok()?;
        let deadline = self.wheel.deadline(key)?;
        self.take_out(key);
        let payload = self.end(key, outcome)?;
        Some(DueTimer { key, deadline, payload })
    }

    /// Moves all timers that follow the wall clock, after it was stepped or time was lost in suspend.
    pub(crate) fn follow_wall_clock(&mut self, now: Tick, wall: Duration) {
        self.pass(now);
        let mut moved_into = None;
        for (deadline, slot) in self.wall_times.in_order(self.config.tick, self.now, wall) {
            let Some(key) = self.wheel.key_at(slot).filter(|key| self.wheel.is_waiting(*key)) else { continue };
            // A timer that stays in its tick must still follow those moved into it before.
            if self.wheel.deadline(key) != Some(deadline) || moved_into == Some(deadline) {
                self.wheel.reschedule(self.now, key, deadline);
                moved_into = Some(deadline);
            }
        }
    }

    pub(super) fn pass(&mut self, now: Tick) {
        self.now = self.now.max(now);
    }

    pub(super) fn stoppable(&self, key: Key) -> Result<(), NotPending> {
        match self.wheel.get(key) {
            Some(timer) if timer.stage == Stage::InFlight => Err(NotPending::InFlight),
            Some(_) => Ok(()),
            None if self.was_delivered(key) => Err(NotPending::Delivered),
            None => Err(NotPending::Unknown),
        }
    }

    /// Returns the first message in an owner's inbox.
    pub(crate) fn first_due(&self, owner: OwnerId) -> Option<Key> {
        self.wheel.first_held(&self.owners.get(owner.0)?.inbox)
    }

    /// Returns the last message in a queue.
    pub(crate) fn last_due(&self, queue: OwnerId) -> Option<Key> {
        self.wheel.last_held(&self.owners.get(queue.0)?.inbox)
    }

    /// Takes a timer out of the wheel or, before its turn, its inbox; it stays in the arena.
    fn take_out(&mut self, key: Key) {
        if let Some(queued) = self.wheel.get(key).filter(|timer| timer.stage == Stage::Queued) {
            self.report_release(queued.owner);
        }
        self.take_off_inbox(key);
        self.wheel.detach(key);
    }

    /// Takes a message out of its inbox and puts it in flight, until [`finish`](Self::finish) or, if its timer repeats,
    /// [`repeat`](Self::repeat).
    pub(crate) fn send_off(&mut self, key: Key) -> Option<DueTimer<P>> {
        let deadline = self.wheel.deadline(key)?;
        self.take_off_inbox(key);
        if self.is_queued(key) {
            self.leave_owner(key);
        }
        let timer = self.wheel.get_mut(key)?;
        timer.stage = if timer.marks.has(Mark::Recurrence) { Stage::Making } else { Stage::InFlight };
        Some(DueTimer { key, deadline, payload: timer.payload })
    }

    /// Takes a timer out of its inbox, if it is in one.
    fn take_off_inbox(&mut self, key: Key) {
        let Some(timer) = self.wheel.get(key).filter(|timer| timer.stage.is_in_inbox()) else { return };
        let Some((_, owner)) = self.owners.at_mut(timer.owner) else { return };
        self.wheel.release(&mut owner.inbox, key);
        self.in_inboxes -= 1;
    }

    /// Frees a detached timer and counts its outcome.
    pub(super) fn end(&mut self, key: Key, outcome: Outcome) -> Option<P> {
        let timer = self.wheel.remove(key)?;
        if outcome == Outcome::Delivered {
            self.delivered.set(key.index(), key.tag(), NO_TAG);
        }
        let payload = self.clear_away(key, timer);
        self.counters.end(outcome);
        Some(payload)
    }

    /// Removes a freed timer from its owner's list and from the side tables.
    #[inline]
    fn clear_away(&mut self, key: Key, timer: Timer<P>) -> P {
        if leave(&mut self.owners, &mut self.owner_chunks, &timer) {
            self.report_release(timer.owner);
        }
        if timer.marks.are_aside() {
            self.clear_aside(key, timer.marks);
        }
        timer.payload
    }

    /// Makes the owner in `slot` one of the [released](Self::released).
    #[cold]
    fn report_release(&mut self, slot: u32) {
        self.released.extend(self.owner_at(slot));
    }

    /// Removes the traces of the rare properties of an ended timer.
    #[cold]
    fn clear_aside(&mut self, key: Key, marks: Marks) {
        let slot = key.index();
        if marks.has(Mark::ReportEnd) {
            self.ended.push(key);
        }
        if marks.has(Mark::WallTime) {
            self.wall_times.remove(slot);
        }
        if marks.has(Mark::Recurrence) {
            self.recurrences.remove(slot);
        }
        if marks.has(Mark::Labels) {
            self.labels.forget(slot);
        }
    }

    fn is_queued(&self, key: Key) -> bool {
        self.wheel.get(key).is_some_and(|timer| timer.stage == Stage::Queued)
    }

    pub(super) fn leave_owner(&mut self, key: Key) {
        let Some(timer) = self.wheel.get_mut(key) else { return };
        let is_released = leave(&mut self.owners, &mut self.owner_chunks, timer);
        timer.marks.clear(Mark::KeepsAlive);
        let owner = std::mem::replace(&mut timer.owner, NO_OWNER);
        if is_released {
            self.report_release(owner);
        }
    }

    /// Returns a timer to the wheel if it follows the wall clock and its wall-clock time has not come yet.
    fn put_back_if_early(&mut self, key: Key, wall: Option<Duration>) -> bool {
        let Some(wall) = wall else { return false };
        if !self.wheel.get(key).is_some_and(|timer| timer.marks.has(Mark::WallTime)) {
            return false;
        }
        let Some(at) = self.wall_times.get(key.index()) else { return false };
        let deadline = estimate(self.config.tick, self.now, wall, at);
        // Equal to now once the wall-clock time has come, and at the last tick, after which there is none to wait for.
        deadline > self.now && self.wheel.reschedule(self.now, key, deadline)
    }
}

/// Removes a timer from its owner's own; a queue has none. Returns whether it was the last one that kept its owner's actor alive,
/// and that is to be reported.
#[inline]
fn leave<P, O>(owners: &mut Arena<Owner<O>>, chunks: &mut Chunks, timer: &Timer<P>) -> bool {
    let owner = owners.at_mut(timer.owner).filter(|_| timer.stage != Stage::Queued);
    owner.is_some_and(|(_, owner)| owner.timers.leave(chunks, timer))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

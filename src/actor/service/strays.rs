//! Owners that have ended, and those without an inbox in their context: in each turn of the driver some of them are seen to.

use std::sync::Arc;
use std::time::Duration;

use super::escort::Hand;
use super::inbox::Door;
use super::lanes::Guard;
use super::{Core, Service, places};
use crate::engine::OwnerId;

/// How often is looked whether an actor has stopped that nothing else tells of; see `Service::look_after_strays`.
const STRAYS_EVERY: Duration = Duration::from_secs(5);

/// How many of them in one turn.
const STRAYS_PER_TURN: usize = 256;

impl Service {
    /// Frees the timers of owners that have ended: as many as the turn has left, and some in any case.
    pub(super) fn free_ended<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, left: usize) -> Guard<'a> {
        let share = self.settings.expiry_budget.div_ceil(8);
        for _ in 0..left.max(share) {
            let Some(owner) = guard.ended.last().copied() else { break };
            guard.published.ask_to_publish();
            match guard.engine.cancel_one_of(owner) {
                Some(payload) => {
                    let discard = guard.lanes.lane(payload.lane).map(|lane| lane.discard);
                    if let Some(discard) = discard {
                        self.contain(|| discard(self, guard, payload));
                        guard = self.core();
                    }
                }
                // Its guests are still to be sent.
                None if guard.engine.owned(owner) > 0 => break,
                None => {
                    guard.ended.pop();
                    let card = guard.engine.remove_owner(owner);
                    if let Some(card) = &card
                        && guard.mailboxes.get(&card.mailbox) == Some(&owner)
                    {
                        guard.mailboxes.remove(&card.mailbox);
                    }
                    drop(guard);
                    drop(card);
                    guard = self.core();
                }
            }
        }
        guard
    }

    /// Owners without an inbox in their context: ends those that have stopped, and sends the others their messages
    /// through the mailbox.
    pub(super) fn see_to_away<'a>(self: &'a Arc<Self>, mut guard: Guard<'a>, hand: Hand) -> Guard<'a> {
        let mut for_the_driver = Vec::new();
        while let Some(owner) = guard.away.pop() {
            let card = guard.engine.owner(owner).filter(|card| card.away && !card.ended);
            let Some(door) = card.and_then(|card| card.door.clone()) else { continue };
            if guard.escorts.contains_key(&owner) {
                continue;
            }
            let is_open;
            (guard, is_open) = self.ask_at(&*door, guard);
            if is_open {
                guard.note_stray(owner);
                guard = self.escort(guard, owner, hand);
            } else if hand == Hand::Driver {
                self.end_stray(&mut guard, owner);
            } else {
                // What is known of it is known to the driver's thread.
                for_the_driver.push(owner);
            }
        }
        guard.away.append(&mut for_the_driver);
        guard
    }

    /// Ends owners without an inbox in their context whose actors have stopped: nothing tells when they do.
    pub(super) fn look_after_strays<'a>(&'a self, mut guard: Guard<'a>, now: Duration) -> Guard<'a> {
        if guard.strays.is_empty() || now < guard.strays_at {
            return guard;
        }
        let look_at = guard.strays.len().min(STRAYS_PER_TURN);
        for _ in 0..look_at {
            let Some(owner) = guard.strays.pop_front() else { break };
            let Some(card) = guard.engine.owner_mut(owner).filter(|card| !card.ended) else { continue };
            if !card.away {
                card.stray = false;
                continue;
            }
            let Some(door) = card.door.clone() else { continue };
            let is_open;
            (guard, is_open) = self.ask_at(&*door, guard);
            if is_open {
                guard.strays.push_back(owner);
            } else {
                self.end_stray(&mut guard, owner);
            }
        }
        // All of them are looked at once in the time.
        let rounds = (guard.strays.len() / STRAYS_PER_TURN) as u32 + 1;
        guard.strays_at = now.saturating_add(STRAYS_EVERY / rounds);
        guard
    }

    /// Whether an actor is still there. The address that is made for that may be its last, so it is not made under the lock.
    fn ask_at<'a>(&'a self, door: &dyn Door, guard: Guard<'a>) -> (Guard<'a>, bool) {
        drop(guard);
        let is_open = door.is_open();
        (self.core(), is_open)
    }

    fn end_stray(&self, core: &mut Core, owner: OwnerId) {
        if let Some(card) = core.engine.owner(owner).filter(|card| !card.ended) {
            places::leave_mailbox(card.mailbox, self.number(), owner);
            core.end(owner);
        }
    }
}

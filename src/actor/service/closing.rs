//! The end: of an owner, by a drain, or because the driver has stopped.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::lanes::{Contents, Unloaded};
use super::subscribers::Lost;
use super::{Core, Service};
use crate::actor::view::Returned;
use crate::engine::{DeadLetterReason, Ending, OwnerId};
use crate::timing::{Key, Tick};

impl Service {
    /// Refuses everything from now on and gives back what was never handed over, by deadline.
    pub(crate) fn drain(&self) -> Vec<Returned> {
        let now = self.clock.now();
        let wall = self.clock.wall();
        let returned = self.empty(Ending::Returned, |core, key, deadline| {
            let due = self.tick.time_of(deadline);
            let overdue = now.checked_sub(due);
            let at = match (core.engine.wall_time(key), overdue) {
                (Some(at), _) => SystemTime::UNIX_EPOCH.checked_add(at),
                (None, Some(overdue)) => wall.checked_sub(overdue),
                (None, None) => wall.checked_add(due.saturating_sub(now)),
            };
            (self.id_of(core, key), at, due.saturating_sub(now), overdue.is_some(), deadline)
        });
        returned
            .into_iter()
            .filter_map(|((id, at, remaining, overdue, deadline), message_type, unloaded)| {
                let Unloaded { contents, target } = unloaded;
                self.contain(|| drop(target));
                let Some(message) = self.open(contents) else {
                    let reason = DeadLetterReason::SourcePanicked;
                    self.core().engine.lose_returned(reason);
                    if self.has_subscribers() {
                        self.bury(Lost { id, deadline, reason, message_type, message: None });
                    }
                    return None;
                };
                Some(Returned { id, deadline: at, remaining, overdue, message, message_type })
            })
            .collect()
    }

    /// The message of a timer that never ran; none if the code that makes it panics.
    pub(super) fn open(&self, contents: Contents) -> Option<Box<dyn Any + Send>> {
        match contents {
            Contents::Message(message) => Some(message),
            Contents::Source(mut source) => {
                let made = self.contain(&mut source);
                self.contain(|| drop(source));
                made
            }
        }
    }

    /// The driver has stopped: what is still pending can never be delivered.
    pub(crate) fn shut_down(&self) {
        self.ask_who_traces();
        self.stopped.store(true, Ordering::Release);
        if let Some(watched) = self.watched.get() {
            watched.leave();
        }
        // The records behind internal timers are on disk: nothing is lost with them.
        let ending = match self.settings.internal {
            true => Ending::Cancelled,
            false => Ending::DeadLettered(DeadLetterReason::ServiceStopped),
        };
        let lost = self.empty(ending, |core, key, deadline| (self.id_for_letter(core, key), deadline));
        let withdrawn = self.withdraw_all(ending);
        self.publish();
        let reason = DeadLetterReason::ServiceStopped;
        for ((id, deadline), message_type, unloaded) in lost {
            let Unloaded { contents, target } = unloaded;
            match id {
                Some(id) => self.bury(Lost { id, deadline, reason, message_type, message: self.open(contents) }),
                None => drop(self.contain(|| drop(contents))),
            }
            self.contain(|| drop(target));
        }
        withdrawn.into_iter().for_each(|lost| self.bury(lost));
        self.warn_for_the_last_time();
    }

    /// Takes back all messages that are under way through the mailboxes of their owners. The messages are gone with that;
    /// the rest of the letters about them is returned, if anybody wants to read it.
    fn withdraw_all(&self, ending: Ending) -> Vec<Lost> {
        let mut letters = Vec::new();
        let mut guard = self.core();
        while let Some((owner, key)) = guard.escorts.iter().next().map(|(owner, escort)| (*owner, escort.key)) {
            let letter = self.letter_about(&guard, key);
            guard = self.withdraw(guard, owner, ending);
            if guard.engine.ending(key) == Some(ending) {
                letters.extend(letter);
            }
        }
        letters
    }

    fn letter_about(&self, core: &Core, key: Key) -> Option<Lost> {
        let id = self.id_for_letter(core, key)?;
        let deadline = core.engine.view(key)?.deadline;
        let message_type = core.lanes.lane(core.engine.payload(key)?.lane)?.message_type;
        Some(Lost { id, deadline, reason: DeadLetterReason::ServiceStopped, message_type, message: None })
    }

    /// Closes and takes out all that is pending.
    fn empty<D>(&self, ending: Ending, describe: impl Fn(&Core, Key, Tick) -> D) -> Vec<(D, &'static str, Unloaded)> {
        let mut guard = self.core();
        let core = &mut *guard;
        core.engine.close();
        let mut emptied = Vec::new();
        for (deadline, key) in core.engine.unfinished() {
            let description = describe(core, key, deadline);
            if core.engine.is_posted(key) {
                // Its token is of no use any more; what the driver has in its hands may go in its place.
                core.recall(key);
            }
            let Some(handover) = core.engine.give_up(key, ending) else { continue };
            let lane = core.lanes.lane(handover.payload.lane).map(|lane| (lane.unload, lane.message_type));
            if let Some((unload, message_type)) = lane {
                let unloaded = unload(&mut core.lanes, handover.payload);
                emptied.extend(unloaded.map(|unloaded| (description, message_type, unloaded)));
            }
        }
        core.published.ask_to_publish();
        let senders = core.lines.close();
        // Nothing is left to wait for.
        let over = std::mem::take(&mut core.wind_downs);
        drop(guard);
        drop(over);
        self.contain(|| drop(senders));
        self.end_all_trails();
        // There is something to publish, and lines have become empty.
        self.driver.wake();
        emptied
    }

    /// Ends an owner: its timers are cancelled by the driver, in its next turn or, if they are many, its next turns.
    pub(crate) fn end_owner(&self, owner: OwnerId) {
        let mut core = self.core();
        core.end(owner);
        drop(self.withdraw(core, owner, Ending::Cancelled));
        self.driver.wake();
    }
}

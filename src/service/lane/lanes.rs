//! Lanes: due messages of one recipient, first in, first out.
//!
//! A mailbox has up to two: the own messages of its current incarnation, and those for targets. An own lane exists as
//! long as its owner. A lane for targets exists while a message waits in it or is under way from it. Messages that must
//! wait, wait in their lane: neither the driver nor another lane waits for them.
//!
//! The end of a message that was posted as a request, or pulled by a bell, is reported, so the number under way is exact,
//! and ends with the mailbox if that is closed.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use actix::{Recipient, WeakAddr};
use rustc_hash::FxHashMap;

use crate::engine::OwnerId;
use crate::model::due_timers::DueTimers;
use crate::model::handled_by::AcceptsDueTimers;
use crate::model::mailbox_id::MailboxId;
use crate::model::mailbox_policy::MailboxPolicy;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::message_stores::Ways;
use crate::service::lane::posted::Posted;
use crate::service::lane::reply_waiter::Sent;
use crate::service::lane::slow_recipients::SlowRecipients;
use crate::service::lane::step::Lane;
use crate::service::owner::actor_link::OwnerLink;
use crate::service::state::State;
use crate::timing::{Key, Tick};

/// Closures that a message passes at most: the search for it holds the lock.
const MAX_PASSED: usize = 256;

/// "Not listed among the slow recipients".
pub(crate) const NOT_SLOW: Tick = Tick::MAX;

const _: () = assert!(size_of::<LaneState>() <= 56, "each actor with a timer has one");

/// The state of one lane, without its messages: the engine holds their timers in the inbox of the same id.
pub(crate) struct LaneState {
    pub(crate) mailbox: MailboxId,
    pub(crate) of: LaneOf,
    /// The deadline by which it is listed among the slow recipients; [`NOT_SLOW`] if it is not.
    pub(crate) slow_since: Tick,
    /// Bells in the mailbox, and those whose handlers run.
    pub(crate) bells: u32,
    is_marked_ready: bool,
    pub(crate) item: Item,
    pub(crate) progress: Progress,
    /// Whether it is listed in `Lanes::detached` while the item is away.
    pub(crate) is_detached: bool,
}

/// The messages of a lane.
pub(crate) enum LaneOf {
    /// An actor's own.
    Own {
        link: OwnerLink,
        /// Wakes the actor's context; `None` until its item has been polled, and from a wake to the next poll.
        waker: Option<Waker>,
    },
    /// Those for targets.
    Targets(Box<Targets>),
}

/// The part of a lane for targets that others do not have: the state of actors with a timer stays small.
pub(crate) struct Targets {
    /// Messages in the mailbox or in a handler, and one that is being sent.
    pub(crate) under_way: u32,
    /// Whether the last message that joined is to be discarded beyond the window.
    pub(crate) discards: bool,
    /// The number of messages that have joined so far.
    joined: u64,
    /// The value of `joined` in the newest bell.
    rung: u64,
    /// Keeps the address of the mailbox from being reused. It is user code: not to be dropped under the lock.
    _pin: Arc<dyn Any + Send + Sync>,
}

/// The item in an actor's context that pulls own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// There, or about to be.
    Present,
    /// Dropped. The spare restores it, unless the lane ends.
    Dropped,
    /// It has left with the last address of the actor.
    Left,
    /// The lane has ended: its actor has stopped or was restarted.
    Ended,
}

/// The item's progress, as the watchdog sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The watchdog does not check it.
    Unwatched,
    /// It has pulled a message since the last check, or found none.
    Moved,
    Waits,
    /// It has pulled nothing for the watchdog's grace period.
    Starved,
}

impl LaneState {
    pub(crate) fn new(mailbox: MailboxId, of: LaneOf) -> Self {
        Self {
            mailbox,
            of,
            slow_since: NOT_SLOW,
            bells: 0,
            is_marked_ready: false,
            item: Item::Present,
            progress: Progress::Unwatched,
            is_detached: false,
        }
    }

    /// Returns the link to its actor, if the messages are the actor's own.
    pub(crate) fn link(&self) -> Option<&OwnerLink> {
        match &self.of {
            LaneOf::Own { link, .. } => Some(link),
            LaneOf::Targets(_) => None,
        }
    }

    /// Returns the part of a lane for targets.
    pub(crate) fn targets_mut(&mut self) -> Option<&mut Targets> {
        match &mut self.of {
            LaneOf::Own { .. } => None,
            LaneOf::Targets(targets) => Some(targets),
        }
    }

    /// Whether it has ended, and its timers only wait to be freed.
    pub(crate) fn has_ended(&self) -> bool {
        self.item == Item::Ended
    }

    /// Notes that the item has pulled a message, or found none.
    #[inline]
    pub(crate) fn note_progress(&mut self) {
        if self.progress != Progress::Unwatched {
            self.progress = Progress::Moved;
        }
    }

    /// Whether no item will pull its messages soon.
    pub(crate) fn lacks_item(&self) -> bool {
        self.item == Item::Left || self.progress == Progress::Starved
    }

    /// Notes that a message is due, or may be. Returns the waker of the item if it does not know yet.
    pub(crate) fn signal(&mut self) -> Option<Waker> {
        match &mut self.of {
            LaneOf::Own { link, waker } if link.wake_flag().set() => waker.take(),
            _ => None,
        }
    }

    /// Returns the number of messages for targets and of bells that the recipient has not handled.
    pub(crate) fn under_way(&self) -> u64 {
        let messages = match &self.of {
            LaneOf::Own { .. } => 0,
            LaneOf::Targets(targets) => targets.under_way,
        };
        u64::from(messages) + u64::from(self.bells)
    }

    /// Counts a bell that is put into the mailbox. Returns the number of messages that have joined.
    pub(crate) fn ring(&mut self) -> u64 {
        self.bells += 1;
        self.targets_mut().map_or(0, |targets| {
            targets.rung = targets.joined;
            targets.joined
        })
    }

    /// Whether nothing is on its way to the recipient.
    fn is_idle(&self) -> bool {
        self.under_way() == 0
    }
}

/// The message of a lane that would leave next.
pub(crate) struct Next {
    pub(crate) key: Key,
    pub(crate) payload: MessageRef,
    pub(crate) ways: &'static Ways,
    /// The type of the actor that pulls it; `None` if it is an own message, or posted.
    pub(crate) actor: Option<TypeId>,
}

/// Returns the recipient of bells behind a `WeakAddr`, unless it is closed.
pub(crate) type BellsFn = fn(&dyn Any) -> Option<Recipient<DueTimers>>;

/// All lanes of one timer actor.
#[derive(Default)]
pub(crate) struct Lanes {
    /// The slots of the lanes of own messages. Some may have ended.
    pub(crate) own: FxHashMap<MailboxId, u32>,
    /// Those for targets.
    pub(crate) targets: FxHashMap<MailboxId, OwnerId>,
    /// Lanes that may be able to move; lanes removed since are skipped.
    ready: VecDeque<OwnerId>,
    /// Since when the list has had an entry.
    pub(crate) ready_since: Option<Duration>,
    /// Recipients that let a message wait.
    pub(crate) slow: SlowRecipients,
    /// Own messages on their way through the mailbox, the oldest of each lane first. All but the newest need not end before the
    /// next one is sent.
    pub(crate) posted: FxHashMap<OwnerId, VecDeque<Posted>>,
    /// The times at which another message may follow the posted one of this number, if it is still the newest.
    pub(crate) follows: VecDeque<(Duration, OwnerId, u64)>,
    /// The number of the message that was posted last, of all lanes.
    pub(crate) posts: u64,
    /// The types of actors that accept bells for own messages.
    pub(crate) accepting: FxHashMap<TypeId, BellsFn>,
    /// Lanes of own messages that have ended, with timers still to be freed.
    pub(crate) ended: Vec<OwnerId>,
    /// Those that were found without a timer left: nobody looks for one there again.
    pub(crate) emptied: Vec<OwnerId>,
    /// Messages of timers of ended lanes whose places new ones have taken: the driver's next turn drops them.
    pub(crate) freed: Vec<MessageRef>,
    /// The times at which lanes whose item has left are checked.
    pub(crate) detached: VecDeque<(Duration, OwnerId)>,
}

impl Lanes {
    /// Lets the actors of type `A` pull own messages for bells.
    pub(crate) fn accept_bells<A: AcceptsDueTimers>(&mut self) {
        let bells: BellsFn = |addr| Some(addr.downcast_ref::<WeakAddr<A>>()?.upgrade()?.recipient());
        self.accepting.insert(TypeId::of::<WeakAddr<A>>(), bells);
    }

    /// Returns the recipient of an actor's bells, if it accepts them.
    pub(super) fn bells_of(&self, link: &OwnerLink) -> Option<BellsFn> {
        self.accepting.get(&link.addr().type_id()).copied()
    }

    /// Returns the lane of own messages that is freed next.
    pub(crate) fn next_ended(&self) -> Option<OwnerId> {
        self.ended.last().or(self.emptied.last()).copied()
    }

    /// Removes a freed lane of own messages, unless its mailbox belongs to the next incarnation already.
    pub(crate) fn forget(&mut self, mailbox: MailboxId, lane: OwnerId) {
        if self.own.get(&mailbox) == Some(&lane.0.index()) {
            self.own.remove(&mailbox);
        }
    }
}

impl State {
    /// Returns the lane of own messages of a mailbox, which may have ended.
    pub(crate) fn own_lane(&self, mailbox: MailboxId) -> Option<OwnerId> {
        self.engine.owner_at(*self.lanes.own.get(&mailbox)?)
    }

    /// Counts actors with timers of their own.
    pub(crate) fn actors(&self) -> usize {
        self.engine.owners() - self.lanes.targets.len()
    }

    /// Counts lanes that expect an answer.
    pub(crate) fn expecting(&self) -> usize {
        let is_idle = |lane: &OwnerId| self.engine.owner(*lane).is_none_or(LaneState::is_idle);
        let targets = self.lanes.targets.values().filter(|lane| !is_idle(lane));
        targets.count() + self.lanes.posted.values().map(VecDeque::len).sum::<usize>()
    }

    /// Marks a lane that may be able to move. Returns false if there is none.
    pub(crate) fn mark_ready(&mut self, lane: OwnerId) -> bool {
        let Some(lane_state) = self.engine.owner_mut(lane) else { return false };
        if !std::mem::replace(&mut lane_state.is_marked_ready, true) {
            self.lanes.ready.push_back(lane);
        }
        true
    }

    pub(crate) fn is_for_targets(&self, lane: OwnerId) -> bool {
        self.engine.owner(lane).is_some_and(|lane_state| lane_state.link().is_none())
    }

    /// Whether a turn has lanes to look at.
    pub(crate) fn has_ready(&self) -> bool {
        let is_marked = |lane| self.engine.owner(lane).is_some_and(|lane_state| lane_state.is_marked_ready);
        self.engine.released().iter().any(|lane| self.is_for_targets(*lane))
            || self.lanes.ready.iter().any(|lane| is_marked(*lane))
    }

    /// Takes the lane that was marked first.
    pub(crate) fn take_ready(&mut self) -> Option<OwnerId> {
        while let Some(lane) = self.lanes.ready.pop_front() {
            if let Some(lane_state) = self.engine.owner_mut(lane)
                && std::mem::take(&mut lane_state.is_marked_ready)
            {
                return Some(lane);
            }
        }
        None
    }

    /// Uncounts a message or a bell that was under way.
    pub(crate) fn uncount(&mut self, lane: OwnerId, sent: Sent) {
        if let Some(lane_state) = self.engine.owner_mut(lane) {
            let (messages, bells) = match sent {
                Sent::Own(_) => (0, 0),
                Sent::Request => (1, 0),
                Sent::Pulled { by_bell, .. } => (1, u32::from(by_bell)),
                Sent::Bell => (0, 1),
            };
            lane_state.bells = lane_state.bells.saturating_sub(bells);
            if let Some(targets) = lane_state.targets_mut() {
                targets.under_way = targets.under_way.saturating_sub(messages);
            }
        }
    }

    /// Counts a message that joins the lane of a mailbox for targets, created if necessary. Returns the lane and the
    /// number of the message; `None` if there is no room for a lane.
    pub(crate) fn join(
        &mut self,
        mailbox: MailboxId,
        discards: bool,
        pin: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> Option<(OwnerId, u64)> {
        let known = self.lanes.targets.get(&mailbox).copied();
        if let Some(lane) = known
            && let Some(targets) = self.engine.owner_mut(lane).and_then(LaneState::targets_mut)
        {
            targets.joined += 1;
            targets.discards = discards;
            return Some((lane, targets.joined));
        }
        let of = LaneOf::Targets(Box::new(Targets { under_way: 0, discards, joined: 1, rung: 0, _pin: pin() }));
        let lane = self.engine.add_owner(|_| LaneState::new(mailbox, of))?;
        self.lanes.targets.insert(mailbox, lane);
        Some((lane, 1))
    }

    /// Returns the facts that decide the next step of a lane, and its next message; `None` if it is empty.
    pub(crate) fn lane(&self, lane: OwnerId, default: MailboxPolicy) -> Option<(Lane, Next)> {
        let lane_state = self.engine.owner(lane)?;
        let key = self.engine.first_due(lane)?;
        let payload = self.engine.payload(key)?;
        let mut facts = Lane {
            due: self.engine.inbox_len(lane) as u32,
            first: 0,
            joined: 0,
            rung: 0,
            bells: lane_state.bells,
            under_way: 0,
            window: 1,
            discards: false,
            can_be_pulled: false,
            can_be_posted: false,
            has_item: false,
            is_gone: lane_state.has_ended(),
        };
        let mut next = Next { key, payload, ways: self.stores.ways(payload)?, actor: None };
        match &lane_state.of {
            LaneOf::Own { link, .. } => {
                facts.under_way = u32::from(self.lanes.under_way(lane).is_some());
                facts.has_item = !lane_state.lacks_item();
                facts.can_be_pulled = self.lanes.bells_of(link).is_some();
                // A message on the way through the mailbox passes closures, which cannot go this way.
                let is_free = |payload| self.stores.ways(payload).is_some_and(|ways| ways.post.is_some());
                let free = lane_state.lacks_item().then(|| self.engine.find_due(lane, MAX_PASSED + 1, is_free));
                if let Some(free) = free.flatten() {
                    facts.can_be_posted = true;
                    next = Next { key: free.key, payload: free.payload, ways: self.stores.ways(free.payload)?, ..next };
                }
            }
            LaneOf::Targets(targets) => {
                let target = self.stores.target_of(payload)?;
                // The engine keeps half of the number. The whole is at most that of the last message.
                let behind = (targets.joined as u32).wrapping_sub(self.engine.number_in_queue(key)?);
                facts.first = targets.joined.saturating_sub(behind.into());
                (facts.joined, facts.rung) = (targets.joined, targets.rung);
                (facts.under_way, facts.discards) = (targets.under_way, targets.discards);
                facts.window = target.policy.unwrap_or(default).window();
                next.actor = target.puller.as_ref().map(|(actor, _)| *actor);
                facts.can_be_pulled = next.actor.is_some();
                facts.can_be_posted = next.actor.is_none();
            }
        }
        Some((facts, next))
    }

    /// Removes a lane for targets that is empty and has nothing under way.
    pub(crate) fn remove_lane(&mut self, lane: OwnerId) -> Option<LaneState> {
        let lane_state = self.engine.owner(lane)?;
        if lane_state.link().is_some() || !lane_state.is_idle() || self.engine.inbox_len(lane) > 0 {
            return None;
        }
        self.lanes.targets.remove(&lane_state.mailbox);
        self.unlist_slow(lane);
        self.engine.remove_owner(lane)
    }
}

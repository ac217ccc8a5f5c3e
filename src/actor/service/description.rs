//! What is known of a pending timer.

use std::time::{Duration, SystemTime};

use super::lanes::Payload;
use super::{Core, Service};
use crate::actor::actor_id::ActorTag;
use crate::actor::place::TimerPlace;
use crate::actor::view::TimerInfo;
use crate::engine::{Hold, OwnerId, Recurrence, TimerView};
use crate::timing::Key;

/// How many messages before a timer in its inbox or line are counted, when one is asked for: some microseconds' worth.
pub(super) const COUNTED_ALONE: usize = 4096;

/// And when it is one of many.
pub(super) const COUNTED_IN_LISTS: usize = 32;

impl Core {
    /// The mailbox of the actor that a timer is for. `host` is the owner that the engine knows of.
    fn mailbox_for(&self, payload: Payload, host: Option<OwnerId>) -> Option<u64> {
        let recipient = self.lanes.mailbox_of(payload);
        let mailbox = recipient.or_else(|| Some(self.engine.owner(host?)?.mailbox))?;
        (mailbox != 0).then_some(mailbox)
    }

    /// The tag of the actor that a timer is for.
    pub(super) fn tag_for(&self, timer: Key) -> Option<ActorTag> {
        let host = self.engine.view(timer)?.owner;
        self.mailbox_for(self.engine.payload(timer)?, host).map(ActorTag::of)
    }

    /// The type of the actor that a timer is for, if that has timers of its own here.
    pub(super) fn actor_type_for(&self, timer: Key) -> Option<&'static str> {
        let host = self.engine.view(timer)?.owner;
        self.actor_type_at(self.mailbox_for(self.engine.payload(timer)?, host)?)
    }

    fn actor_type_at(&self, mailbox: u64) -> Option<&'static str> {
        let owner = *self.mailboxes.get(&mailbox)?;
        Some(self.engine.owner(owner)?.door.as_ref()?.actor_type())
    }

    fn place_of(&self, key: Key, view: &TimerView, service: &Service, now: Duration, most: usize) -> TimerPlace {
        let line = || self.lines.at(self.lanes.mailbox_of(self.engine.payload(key)?)?);
        let in_line = |ahead: Option<usize>| {
            let line = line()?;
            // The one that is held is the first, and not in the queue any more.
            let held = usize::from(line.held.is_some());
            Some(TimerPlace::Line {
                length: self.engine.inbox_len(line.queue) + held,
                ahead,
                under_way: line.under_way(),
                mailbox_full: line.is_full(),
            })
        };
        let in_inbox = |owner| TimerPlace::Inbox {
            length: self.engine.inbox_len(owner),
            ahead: self.engine.place_in_inbox(owner, key, most),
            escorted: self.escorts.contains_key(&owner),
        };
        match view.hold {
            Hold::Wheel => {
                let (level, bucket) = view.bucket.unwrap_or((0, view.deadline));
                let ticks = self.engine.bucket_ticks(level).unwrap_or(1);
                let expires_in = service.tick.time_of(bucket).saturating_sub(now);
                TimerPlace::Wheel { level, bucket, width: service.tick.time_of(ticks), expires_in }
            }
            Hold::Inbox(owner) => in_inbox(owner),
            Hold::Queue(host) => match line() {
                Some(line) if line.queue == host => {
                    let held = usize::from(line.held.is_some());
                    let ahead = self.engine.place_in_inbox(host, key, most).map(|ahead| ahead + held);
                    in_line(ahead).unwrap_or(TimerPlace::Flight)
                }
                _ => in_inbox(host),
            },
            Hold::Token => match line() {
                Some(line) if line.held.is_some_and(|(held, _)| held == key) => {
                    in_line(Some(0)).unwrap_or(TimerPlace::Flight)
                }
                line => TimerPlace::Mailbox { under_way: line.map_or(1, |line| line.under_way()) },
            },
            Hold::Source => TimerPlace::Source,
            Hold::Flight => TimerPlace::Flight,
            Hold::Handler => TimerPlace::Handler,
        }
    }
}

impl Service {
    /// What is known of a pending timer. Messages before it in an inbox or a line are counted up to `most`.
    pub(super) fn info(&self, core: &Core, key: Key, now: Duration, most: usize) -> Option<TimerInfo> {
        let view = core.engine.view(key)?;
        let payload = core.engine.payload(key)?;
        let lane = core.lanes.lane(payload.lane);
        let deadline = self.tick.time_of(view.deadline);
        let recurrence = core.engine.recurrence(key);
        let mailbox = core.mailbox_for(payload, view.owner);
        Some(TimerInfo {
            id: self.id_of(core, key),
            state: view.state,
            remaining: deadline.saturating_sub(now),
            overdue: now.saturating_sub(deadline),
            level: view.bucket.map(|(level, _)| level),
            place: core.place_of(key, &view, self, now, most),
            wall_time: core.engine.wall_time(key).and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at)),
            repeats: recurrence.is_some(),
            period: recurrence.and_then(Recurrence::period),
            message_type: lane.map_or("", |lane| lane.message_type).into(),
            actor: mailbox.map(ActorTag::of),
            actor_type: mailbox.and_then(|mailbox| core.actor_type_at(mailbox)).map(Into::into),
            key: core.engine.key_of(key).cloned(),
            group: core.engine.group_of(key).cloned(),
        })
    }
}

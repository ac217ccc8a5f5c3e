//! Descriptions of pending timers.

use std::time::{Duration, SystemTime};

use crate::engine::{Recurrence, Stage};
use crate::model::actor_id::ActorTag;
use crate::model::location::TimerLocation;
use crate::model::mailbox_id::MailboxId;
use crate::model::target::TargetFacts;
use crate::model::view::TimerInfo;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::state::{Service, State};
use crate::timing::Key;

/// The number of preceding messages in a lane that are counted for a single timer: some microseconds' worth.
pub(crate) const COUNTED_ALONE: usize = 4096;

/// The same for each timer of a list.
pub(crate) const COUNTED_IN_LISTS: usize = 32;

impl State {
    /// Returns the type of a message, as shown to users.
    pub(crate) fn message_type(&self, payload: Option<MessageRef>) -> &'static str {
        payload.and_then(|payload| self.stores.store(payload.store)).map_or("", |store| store.message_type)
    }

    /// Returns the mailbox of the actor that a timer is for.
    fn mailbox_of(&self, timer: Key) -> Option<MailboxId> {
        let of_lane = || Some(self.engine.owner(self.engine.owner_of(timer)?)?.mailbox);
        let target = self.stores.target_of(self.engine.payload(timer)?);
        target.and_then(|target| target.mailbox).or_else(of_lane)
    }

    /// Returns the tag of the actor that a timer is for.
    pub(crate) fn tag_for(&self, timer: Key) -> Option<ActorTag> {
        self.mailbox_of(timer).map(ActorTag::of)
    }

    /// Returns the type of the actor that a timer is for, if its target knows it, or if the actor has own timers here.
    pub(crate) fn actor_type_for(&self, timer: Key) -> Option<&'static str> {
        let of_owner = || self.actor_type_at(self.mailbox_of(timer)?);
        self.stores.target_of(self.engine.payload(timer)?).and_then(TargetFacts::actor_type).or_else(of_owner)
    }

    fn actor_type_at(&self, mailbox: MailboxId) -> Option<&'static str> {
        let owner = self.own_lane(mailbox)?;
        Some(self.engine.owner(owner)?.link()?.actor_type())
    }

    fn location_of(&self, key: Key, stage: Stage, service: &Service, now: Duration, most: usize) -> TimerLocation {
        let wheel = self.engine.wheel();
        let in_inbox = |owner| TimerLocation::Inbox {
            length: self.engine.inbox_len(owner),
            ahead: self.engine.position_in_inbox(owner, key, most),
            by_mailbox: self.lanes.posted.contains_key(&owner),
        };
        match (stage, self.engine.owner_of(key)) {
            (Stage::Waiting, _) => {
                let (level, bucket) = wheel.bucket_of(key).unwrap_or_default();
                let ticks = wheel.bucket_ticks(level).unwrap_or(1);
                let expires_in = service.tick.time_of(bucket).saturating_sub(now);
                TimerLocation::Wheel { level, bucket, width: service.tick.time_of(ticks), expires_in }
            }
            (Stage::Due, Some(owner)) => in_inbox(owner),
            (Stage::Queued, Some(lane)) => {
                let ahead = self.engine.position_in_inbox(lane, key, most);
                let lane_state = self.engine.owner(lane);
                let (under_way, bells) = lane_state.map_or((0, 0), |state| (state.under_way(), state.bells as usize));
                match ahead {
                    Some(ahead) if ahead < bells => TimerLocation::Mailbox { under_way },
                    _ => TimerLocation::Queue { length: self.engine.inbox_len(lane), ahead, under_way },
                }
            }
            (Stage::Making, _) => TimerLocation::Source,
            // A timer in a lane always has an owner.
            (Stage::InFlight | Stage::Due | Stage::Queued, _) => TimerLocation::Flight,
            (Stage::Between, _) => TimerLocation::Handler,
        }
    }
}

impl Service {
    /// Describes a pending timer. Counts preceding messages in a lane up to `most`.
    pub(crate) fn info(&self, state: &State, key: Key, now: Duration, most: usize) -> Option<TimerInfo> {
        let (wheel, timer) = (state.engine.wheel(), state.engine.timer(key).filter(|_| !state.has_ended(key))?);
        let deadline = self.tick.time_of(wheel.deadline(key)?);
        let recurrence = state.engine.recurrence(key);
        Some(TimerInfo {
            id: self.id_of(state, key),
            state: timer.stage.into(),
            remaining: deadline.saturating_sub(now),
            overdue: now.saturating_sub(deadline),
            level: wheel.bucket_of(key).map(|(level, _)| level),
            location: state.location_of(key, timer.stage, self, now, most),
            wall_time: state.engine.wall_time(key).and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at)),
            repeats: recurrence.is_some(),
            period: recurrence.and_then(Recurrence::period),
            message_type: state.message_type(Some(timer.payload)).into(),
            actor: state.tag_for(key),
            actor_type: state.actor_type_for(key).map(Into::into),
            key: state.engine.key_of(key).cloned(),
            group: state.engine.group_of(key).cloned(),
        })
    }
}

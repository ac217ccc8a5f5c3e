//! Admission: under the lock, the engine accepts a timer and the message moves into its store; or the timer is rejected
//! and the message handed back.

use crate::engine::{KeyScope, OwnerId, Recurrence, RejectReason};
use crate::model::carried::Carried;
use crate::model::id::TimerId;
use crate::model::options::TimerOptions;
use crate::model::target::Target;
use crate::model::timer_message::TimerMessage;
use crate::service::deliver::job::Job;
use crate::service::deliver::message_ref::MessageRef;
use crate::service::deliver::once::Once;
use crate::service::deliver::wakeup::Wakeup;
use crate::service::schedule::deadline::Deadline;
use crate::service::state::State;
use crate::timing::Key;

/// The driver is woken after this many admissions, even if none is due earlier than its alarm: a bucket far away may
/// have become so full that its cascade has to begin early.
const POKE_EVERY: u64 = 4096;

/// A timer to be admitted, apart from its message.
pub(crate) struct NewTimer<'o> {
    pub(crate) deadline: Deadline,
    pub(crate) recurrence: Option<Recurrence>,
    pub(crate) key_owner: KeyOwner,
    /// The caller's id.
    pub(crate) id: Option<TimerId>,
    pub(crate) options: Option<&'o TimerOptions>,
}

/// The owner of a timer, and the scope of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyOwner {
    owner: Option<OwnerId>,
    /// The timers among which its key is unique; `None` if its target had gone before it was named.
    scope: Option<KeyScope>,
}

impl KeyOwner {
    pub(crate) const fn own(owner: OwnerId) -> Self {
        Self { owner: Some(owner), scope: Some(KeyScope::Owner(owner)) }
    }

    pub(crate) const fn owner(self) -> Option<OwnerId> {
        self.owner
    }

    pub(crate) const fn scope(self) -> Option<KeyScope> {
        self.scope
    }

    #[inline(always)]
    pub(crate) fn recipient<M>(target: &Target<M>) -> Self
    where
        M: TimerMessage,
    {
        Self { owner: None, scope: target.mailbox().map(KeyScope::from) }
    }
}

/// An admitted timer.
pub(crate) struct Admitted {
    pub(crate) key: Key,
    /// The message of the timer that had its key, to be dropped after unlocking.
    pub(crate) replaced: Option<MessageRef>,
}

/// A rejected timer, and the reason.
pub(crate) struct NotAdmitted<J> {
    pub(crate) reason: NotAdmittedReason,
    pub(crate) job: J,
}

impl<C: Carried, D> NotAdmitted<Once<C, D>> {
    /// Reduces the rejected job to its message.
    pub(crate) fn message(self) -> NotAdmitted<C> {
        NotAdmitted { reason: self.reason, job: self.job.message }
    }
}

pub(crate) type Admission<J> = Result<Admitted, NotAdmitted<J>>;

pub(crate) enum NotAdmittedReason {
    Duplicate(TimerId),
    Engine(RejectReason),
}

impl State {
    /// Admits a timer with its message and labels, in place of the one that had its key. The exchange is atomic: no one
    /// sees both, or neither.
    #[inline(always)]
    pub(crate) fn admit<J: Job>(
        &mut self,
        timer: &NewTimer<'_>,
        store: u32,
        job: J,
        wakeup: &mut Wakeup,
    ) -> Admission<J> {
        let NewTimer { deadline, recurrence, key_owner, id, options } = timer;
        let name = id.map(|id| id.as_uuid().as_u128());
        if let Some((id, name)) = id.zip(name)
            && self.engine.named(name).is_some_and(|key| self.engine.view(key).is_some())
        {
            return Err(NotAdmitted { reason: NotAdmittedReason::Duplicate(id), job });
        }
        // Admission and rejection both change the counters to publish.
        wakeup.poke |= self.reports.published.ask_to_publish();
        let label = options.and_then(|options| key_owner.scope().zip(options.key.clone()));
        let old = label.as_ref().and_then(|(scope, key)| self.engine.keyed(*scope, key));
        let unset = MessageRef { store, slot: u32::MAX };
        let scheduled = self.engine.schedule(deadline.now, deadline.tick, key_owner.owner(), unset, old);
        let key = match scheduled {
            Ok(key) => key,
            Err(refused) => return Err(NotAdmitted { reason: NotAdmittedReason::Engine(refused.reason), job }),
        };
        match self.stores.put(store, job) {
            Ok(payload) => self.engine.set_payload(key, payload),
            Err(job) => {
                let _ = self.engine.cancel(key);
                return Err(NotAdmitted { reason: NotAdmittedReason::Engine(RejectReason::Capacity), job });
            }
        }
        if let Some(recurrence) = recurrence {
            // There is room for as many recurrences as timers.
            self.engine.set_recurrence(key, *recurrence);
        }
        if let Some(wall) = deadline.wall {
            self.engine.set_wall_time(key, wall);
        }
        if let Some(name) = name {
            self.engine.set_name(key, name);
        }
        // A message that is under way already continues without the key.
        let replaced = old.and_then(|old| self.engine.cancel(old).ok());
        if let Some(options) = options {
            self.engine.label(key, label, options.group.clone());
        }
        if self.driver.is_first(deadline.tick) {
            wakeup.first_deadline = Some(deadline.tick);
        }
        wakeup.poke |= wakeup.first_deadline.is_some()
            || self.engine.counters().accepted.is_multiple_of(POKE_EVERY)
            || (deadline.wall.is_some() && self.driver.wall_offset.is_none());
        Ok(Admitted { key, replaced })
    }
}

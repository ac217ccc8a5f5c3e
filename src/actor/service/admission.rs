//! How a timer is taken in, under the lock: by the engine, with its message in its lane; or refused, with the message given
//! back.

use super::Core;
use super::carried::Carried;
use super::dispatch::Lined;
use super::inbox::OwnerCard;
use super::lanes::{Lanes, Parcel, Payload};
use super::moment::Moment;
use super::options::Whose;
use crate::actor::id::TimerId;
use crate::actor::options::TimerOptions;
use crate::engine::{Engine, OwnerId, Refusal, Refused};
use crate::timing::{Key, Tick};

/// The driver looks after this many timers taken in, even if none is due earlier than it expects: a bucket far away may
/// have become so full that its cascade has to begin early.
const LOOK_EVERY: u64 = 4096;

/// What others have to be told of once the lock is given up.
#[derive(Default)]
pub(super) struct News {
    /// The driver has to look.
    pub(super) look: bool,
    /// The tick of a timer that is due before all that was known.
    pub(super) first: Option<Tick>,
}

/// What was not taken in, and why.
pub(super) struct Rejected<S> {
    pub(super) reason: Rejection,
    pub(super) stored: S,
}

pub(super) type Admission<S> = Result<Key, Rejected<S>>;

pub(super) enum Rejection {
    Duplicate(TimerId),
    Refused(Refusal),
}

impl Core {
    /// Takes a timer in with its message.
    pub(super) fn admit<S: Send + 'static>(
        &mut self,
        moment: &Moment,
        owner: Option<OwnerId>,
        id: Option<TimerId>,
        lane: u32,
        stored: S,
        news: &mut News,
    ) -> Admission<S> {
        self.admit_by(moment, id, lane, stored, news, |engine, payload| {
            engine.schedule(moment.now, moment.deadline, owner, payload)
        })
    }

    /// Takes a timer in with its message, in the way given.
    #[inline(always)]
    pub(super) fn admit_by<S: Send + 'static>(
        &mut self,
        moment: &Moment,
        id: Option<TimerId>,
        lane: u32,
        stored: S,
        news: &mut News,
        schedule: impl FnOnce(&mut Engine<Payload, OwnerCard>, Payload) -> Result<Key, Refused<Payload>>,
    ) -> Admission<S> {
        let name = id.map(|id| id.as_uuid().as_u128());
        if let Some((id, name)) = id.zip(name)
            && self.engine.named(name).is_some_and(|key| self.engine.view(key).is_some())
        {
            return Err(Rejected { reason: Rejection::Duplicate(id), stored });
        }
        // Whether it is taken in or refused, there is something new to publish.
        news.look |= self.published.ask_to_publish();
        let unset = Payload { lane, slot: u32::MAX };
        let key = match schedule(&mut self.engine, unset) {
            Ok(key) => key,
            Err(refused) => return Err(Rejected { reason: Rejection::Refused(refused.refusal), stored }),
        };
        match self.lanes.put(lane, stored) {
            Ok(payload) => self.engine.set_payload(key, payload),
            Err(stored) => {
                let _ = self.engine.cancel(key);
                return Err(Rejected { reason: Rejection::Refused(Refusal::Capacity), stored });
            }
        }
        if let Some(wall) = moment.wall {
            self.engine.set_wall_time(key, wall);
        }
        if let Some(name) = name {
            self.engine.set_name(key, name);
        }
        if self.is_first(moment.deadline) {
            news.first = Some(moment.deadline);
        }
        news.look |= news.first.is_some()
            || self.engine.accounts().accepted.is_multiple_of(LOOK_EVERY)
            || (moment.wall.is_some() && self.wall_offset.is_none());
        Ok(key)
    }
}

impl Core {
    /// Takes a timer in whose message takes its way through a line.
    pub(super) fn admit_lined<C: Carried>(
        &mut self,
        moment: &Moment,
        options: Option<&TimerOptions>,
        parcel: Parcel<C>,
        news: &mut News,
        replaced: &mut Vec<Payload>,
    ) -> Admission<Parcel<C>> {
        let lane = Lanes::of_lines::<C>(&mut self.lanes);
        let whose = Whose::recipient(&parcel.target);
        let Parcel { target, message } = parcel;
        let lined = Lined { target, message, posting: None };
        let admitted = match options {
            Some(options) => self.admit_with(moment, whose, options, None, lane, lined, news, replaced),
            None => self.admit(moment, None, None, lane, lined, news),
        };
        admitted.map_err(|rejected| {
            let Rejected { reason, stored: Lined { target, message, .. } } = rejected;
            Rejected { reason, stored: Parcel { target, message } }
        })
    }
}

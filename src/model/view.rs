//! Descriptions of timers and timer actors, and the results of a drain.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::{Counters, TimerGroup, TimerKey, TimerState};
use crate::model::actor_id::ActorTag;
#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::id::TimerId;
use crate::model::location::TimerLocation;
use crate::timing::WheelSnapshot;

/// The description of a pending timer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TimerInfo {
    /// Its id.
    pub id: TimerId,
    /// Its state.
    pub state: TimerState,
    /// Time until its deadline; zero if that has passed.
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub remaining: Duration,
    /// Time since its deadline; zero if that is in the future.
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub overdue: Duration,
    /// Its level in the wheel; `None` once it is due.
    pub level: Option<usize>,
    /// Its location; [`explain`](Self::explain) derives why its message has not been delivered yet. Messages before it
    /// in an inbox or a queue are counted up to 4096 for a single timer, and up to 32 in a list.
    pub location: TimerLocation,
    /// Its wall-clock time, if it follows the wall clock.
    pub wall_time: Option<SystemTime>,
    /// Whether it repeats.
    pub repeats: bool,
    /// The time between two repetitions; `None` if it does not repeat, or follows a calendar.
    #[cfg_attr(feature = "serde", serde(with = "duration_text::option"))]
    pub period: Option<Duration>,
    /// The type of its message. Of a closure: the place of the call that scheduled the first one of its type, and the
    /// function around it, as `closure at src/session.rs:42 in shop::Session::open`.
    pub message_type: Cow<'static, str>,
    /// Its actor: the owner, or the recipient.
    pub actor: Option<ActorTag>,
    /// The type of that actor, if the target was created from an address, or if the actor has own timers here.
    pub actor_type: Option<Cow<'static, str>>,
    /// Its key, if it has one.
    pub key: Option<TimerKey>,
    /// Its group, if it has one.
    pub group: Option<TimerGroup>,
}

/// A snapshot of a timer actor at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name of the timer actor, as in the label `timer` of its metrics.
    pub name: String,
    /// The length of a tick.
    pub tick: Duration,
    /// The time of its clock.
    pub now: Duration,
    /// The numbers of accepted timers and of their ends.
    pub counters: Counters,
    /// The number of actors that have had timers of their own here since their start or restart.
    pub owners: usize,
    /// The wheel, level by level and bucket by bucket, in ticks.
    pub wheel: WheelSnapshot,
}

impl Snapshot {
    /// Returns the number of pending timers.
    pub const fn pending(&self) -> u64 {
        self.counters.pending
    }

    /// Returns the number of levels of the wheel.
    pub fn wheel_depth(&self) -> usize {
        self.wheel.levels.len()
    }
}

/// A timer that was never delivered, returned by a drain.
#[non_exhaustive]
pub struct Returned {
    /// Its id. It no longer names a pending timer.
    pub id: TimerId,
    /// Its deadline by the wall clock; `None` if that is beyond the range of `SystemTime`. To deliver the message after
    /// all, perhaps in another process, schedule it at this time.
    pub deadline: Option<SystemTime>,
    /// Time left until its deadline; zero if that had passed.
    pub remaining: Duration,
    /// Whether it was due, but not yet delivered.
    pub overdue: bool,
    /// The type of the message; of a closure its place, as in [`TimerInfo`].
    pub message_type: &'static str,
    pub(crate) message: Box<dyn Any + Send>,
}

impl Returned {
    /// Returns the message, if it is of type `M`.
    ///
    /// # Errors
    /// Returns everything unchanged if it is of another type.
    pub fn into_message<M: 'static>(self) -> Result<M, Self> {
        match self.message.downcast() {
            Ok(message) => Ok(*message),
            Err(message) => Err(Self { message, ..self }),
        }
    }

    /// Returns the message, if it is of type `M`.
    pub fn message<M: 'static>(&self) -> Option<&M> {
        self.message.downcast_ref()
    }
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("id", &self.id)
            .field("deadline", &self.deadline)
            .field("remaining", &self.remaining)
            .field("message_type", &self.message_type)
            .finish_non_exhaustive()
    }
}

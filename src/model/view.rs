//! What can be seen of timers from outside, and what a drain gives back.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use crate::engine::{Counters, Engine, TimerGroup, TimerKey, TimerState};
use crate::model::actor_id::ActorTag;
#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::id::TimerId;
use crate::model::location::TimerLocation;
use crate::timing::{TickLength, WheelSnapshot};

/// One pending timer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TimerInfo {
    /// Its id.
    pub id: TimerId,
    /// Where it is in its life.
    pub state: TimerState,
    /// Time until its deadline; zero if that has passed.
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub remaining: Duration,
    /// Time since its deadline; zero if that is still to come.
    #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
    pub overdue: Duration,
    /// The level of the wheel it waits on; `None` once it is due.
    pub level: Option<usize>,
    /// Where it is; [`explain`](Self::explain) says why its message has not been handed over yet. How many messages are
    /// before it in an inbox or a queue is counted up to 4096 for a single timer, and up to 32 in a list.
    #[cfg_attr(feature = "serde", serde(rename = "place"))]
    pub location: TimerLocation,
    /// The time of day that it is set to, if it follows the wall clock.
    pub wall_time: Option<SystemTime>,
    /// Whether it repeats.
    pub repeats: bool,
    /// From one repetition to the next; `None` if it does not repeat, or follows a calendar.
    #[cfg_attr(feature = "serde", serde(with = "duration_text::option"))]
    pub period: Option<Duration>,
    /// The type of its message.
    pub message_type: Cow<'static, str>,
    /// Which actor it is for: its own, or its recipient.
    pub actor: Option<ActorTag>,
    /// The type of that actor, if it has timers of its own here.
    pub actor_type: Option<Cow<'static, str>>,
    /// Its key, if it has one.
    pub key: Option<TimerKey>,
    /// Its group, if it has one.
    pub group: Option<TimerGroup>,
}

/// A timer actor at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name of the timer actor, as in the label `timer` of its metrics.
    pub name: String,
    /// The length of a tick.
    pub tick: Duration,
    /// The time of its clock.
    pub now: Duration,
    /// How many timers were accepted, and how they ended.
    pub counters: Counters,
    /// How many actors have timers of their own here.
    pub owners: usize,
    /// The wheel, level by level and bucket by bucket, in ticks.
    pub wheel: WheelSnapshot,
}

impl Snapshot {
    pub(crate) fn new<P: Copy, O>(name: &str, tick: TickLength, now: Duration, engine: &Engine<P, O>) -> Self {
        Self {
            name: name.to_owned(),
            tick: tick.length(),
            now,
            counters: engine.counters(),
            owners: engine.owners(),
            wheel: engine.snapshot(),
        }
    }

    /// How many timers are pending.
    pub const fn pending(&self) -> u64 {
        self.counters.pending
    }

    /// How many levels the wheel has.
    pub fn wheel_depth(&self) -> usize {
        self.wheel.levels.len()
    }
}

/// A timer that never ran, given back by a drain.
#[non_exhaustive]
pub struct Returned {
    /// Its id. It names no pending timer any more.
    pub id: TimerId,
    /// When it was due, by the wall clock; `None` if that is later than a `SystemTime` can say. Who wants it delivered after
    /// all, by another process perhaps, schedules it at that time.
    pub deadline: Option<SystemTime>,
    /// Time that was left until its deadline; zero if that had passed.
    pub remaining: Duration,
    /// Whether it was due, and only had not been handed over yet.
    pub overdue: bool,
    /// The type of the message.
    pub message_type: &'static str,
    pub(crate) message: Box<dyn Any + Send>,
}

impl Returned {
    /// The message, if it is of type `M`.
    ///
    /// # Errors
    /// Gives everything back unchanged if it is of another type.
    pub fn into_message<M: 'static>(self) -> Result<M, Self> {
        match self.message.downcast() {
            Ok(message) => Ok(*message),
            Err(message) => Err(Self { message, ..self }),
        }
    }

    /// The message, if it is of type `M`.
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

//! Which timers are wanted in a list.

use std::any::type_name;
use std::time::Duration;

use super::actor_id::ActorId;
use crate::engine::{TimerGroup, TimerKey, TimerState};

/// Which timers are wanted in a list: all that fit everything that was said. See [`Timers::list`](crate::Timers::list).
///
/// ```
/// use std::time::Duration;
/// use actix_timers::TimerFilter;
///
/// // The ten that come next of a campaign, if they come within a minute.
/// let next = TimerFilter::new().group("campaign-7").due_within(Duration::from_secs(60)).limit(10);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing until a list is asked for with it"]
pub struct TimerFilter {
    pub(crate) actor: Option<ActorId>,
    pub(crate) key: Option<TimerKey>,
    pub(crate) group: Option<TimerGroup>,
    pub(crate) message_type: Option<&'static str>,
    pub(crate) state: Option<TimerState>,
    pub(crate) due_within: Option<Duration>,
    pub(crate) due_after: Option<Duration>,
    pub(crate) limit: Option<usize>,
}

impl TimerFilter {
    /// All pending timers.
    pub const fn new() -> Self {
        Self {
            actor: None,
            key: None,
            group: None,
            message_type: None,
            state: None,
            due_within: None,
            due_after: None,
            limit: None,
        }
    }

    /// Those of one actor: its own, and those that others scheduled for it.
    pub fn actor(mut self, actor: impl Into<ActorId>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Those with this key, whoever they belong to.
    pub fn key(mut self, key: impl Into<TimerKey>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Those of one group.
    pub fn group(mut self, group: impl Into<TimerGroup>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Those whose message has this type. Types are compared by their [name](std::any::type_name).
    pub fn message_type<M: 'static>(mut self) -> Self {
        self.message_type = Some(type_name::<M>());
        self
    }

    /// Those in this state.
    pub const fn state(mut self, state: TimerState) -> Self {
        self.state = Some(state);
        self
    }

    /// Those whose deadline has passed, or comes in this time from the call at the latest.
    pub const fn due_within(mut self, time: Duration) -> Self {
        self.due_within = Some(time);
        self
    }

    /// Those whose deadline comes later than in this time from the call.
    pub const fn due_after(mut self, time: Duration) -> Self {
        self.due_after = Some(time);
        self
    }

    /// No more than so many: those with the earliest deadlines.
    pub const fn limit(mut self, most: usize) -> Self {
        self.limit = Some(most);
        self
    }
}

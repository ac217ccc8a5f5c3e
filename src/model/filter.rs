//! Filters for lists of timers.

use std::any::type_name;
use std::time::Duration;

use uuid::Uuid;

use crate::engine::{TimerGroup, TimerKey, TimerState};
use crate::model::actor_id::{ActorId, ActorTag};

/// A filter for lists of timers: it selects the timers that meet all its conditions. See
/// [`Timers::list`](crate::Timers::list).
///
/// ```
/// use std::time::Duration;
/// use actix_timers::{TimerFilter, Timers};
///
/// # fn list(timers: &Timers) {
/// // The ten that come next of a campaign, if they come within a minute.
/// let next = TimerFilter::new().group("campaign-7").due_within(Duration::from_secs(60)).limit(10);
/// for timer in timers.list(&next) {
///     println!("{}", timer.id);
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a filter does nothing until timers are listed with it"]
pub struct TimerFilter {
    pub(crate) actor: Option<ActorId>,
    pub(crate) actor_tag: Option<ActorTag>,
    /// A substring of the type's name.
    pub(crate) actor_type: Option<String>,
    /// Any of these keys.
    pub(crate) keys: Vec<TimerKey>,
    pub(crate) group: Option<TimerGroup>,
    pub(crate) message_type: Option<TypeText>,
    pub(crate) state: Option<TimerState>,
    pub(crate) level: Option<usize>,
    pub(crate) due_within: Option<Duration>,
    pub(crate) due_after: Option<Duration>,
    pub(crate) limit: Option<usize>,
}

/// The name of a type, whole or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypeText {
    Whole(&'static str),
    Part(String),
}

impl TypeText {
    pub(crate) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Whole(wanted) => name == *wanted,
            Self::Part(part) => name.contains(part.as_str()),
        }
    }
}

/// The number of tuples that one text may be.
const MOST_TUPLES: usize = 64;

impl TimerFilter {
    /// Returns a filter that selects all pending timers.
    pub const fn new() -> Self {
        Self {
            actor: None,
            actor_tag: None,
            actor_type: None,
            keys: Vec::new(),
            group: None,
            message_type: None,
            state: None,
            level: None,
            due_within: None,
            due_after: None,
            limit: None,
        }
    }

    /// Selects timers of one actor: its own, and timers that others scheduled for it.
    pub fn actor(mut self, actor: impl Into<ActorId>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Selects timers of the actor with this tag: its own, and timers that others scheduled for it.
    #[doc(hidden)]
    pub const fn actor_tag(mut self, tag: ActorTag) -> Self {
        self.actor_tag = Some(tag);
        self
    }

    /// Selects timers of actors whose type is known, and its name contains this text.
    #[doc(hidden)]
    pub fn actor_type_containing(mut self, part: impl Into<String>) -> Self {
        self.actor_type = Some(part.into());
        self
    }

    /// Selects timers with this key, whatever their owner.
    pub fn key(mut self, key: impl Into<TimerKey>) -> Self {
        self.keys = vec![key.into()];
        self
    }

    /// Selects timers whose key is this text, the number or UUID that the text prints, or a tuple of such parts with `/`
    /// in between. After six parts that print a value, further ones are not taken for texts.
    ///
    /// ```
    /// use actix_timers::TimerFilter;
    ///
    /// // What an operator has typed does not say which of the two the application uses.
    /// let wanted = TimerFilter::new().key_written_as("4711");
    /// # drop(wanted);
    /// ```
    #[doc(hidden)]
    pub fn key_written_as(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut tuples = vec![Vec::new()];
        for part in text.split('/') {
            let value = value_written_as(part);
            // Of the last ones of many only the value.
            let is_either = value.is_some() && tuples.len() < MOST_TUPLES;
            let mut others = if is_either { tuples.clone() } else { Vec::new() };
            others.iter_mut().for_each(|tuple: &mut Vec<TimerKey>| tuple.push(part.into()));
            let first = value.unwrap_or_else(|| part.into());
            tuples.iter_mut().for_each(|tuple| tuple.push(first.clone()));
            tuples.append(&mut others);
        }
        self.keys = value_written_as(&text).into_iter().chain([text.as_str().into()]).collect();
        if text.contains('/') {
            self.keys.extend(tuples.into_iter().map(TimerKey::tuple));
        }
        self
    }

    /// Selects timers of one group.
    pub fn group(mut self, group: impl Into<TimerGroup>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Selects timers whose message has this type. Types are compared by their [name](std::any::type_name).
    pub fn message_type<M: 'static>(mut self) -> Self {
        self.message_type = Some(TypeText::Whole(type_name::<M>()));
        self
    }

    /// Selects timers whose message type has this text in its [name](std::any::type_name).
    #[doc(hidden)]
    pub fn message_type_containing(mut self, part: impl Into<String>) -> Self {
        self.message_type = Some(TypeText::Part(part.into()));
        self
    }

    /// Selects timers in this state.
    pub const fn state(mut self, state: TimerState) -> Self {
        self.state = Some(state);
        self
    }

    /// Selects timers on this level of the wheel.
    pub const fn level(mut self, level: usize) -> Self {
        self.level = Some(level);
        self
    }

    /// Selects timers whose deadline has passed, or is at most `time` after the call.
    pub const fn due_within(mut self, time: Duration) -> Self {
        self.due_within = Some(time);
        self
    }

    /// Selects timers whose deadline is more than `time` after the call.
    pub const fn due_after(mut self, time: Duration) -> Self {
        self.due_after = Some(time);
        self
    }

    /// Selects at most `most` timers: those with the earliest deadlines.
    pub const fn limit(mut self, most: usize) -> Self {
        self.limit = Some(most);
        self
    }
}

/// Returns the number or UUID that a text prints. Only in the form in which they are printed: `007` is a text.
fn value_written_as(text: &str) -> Option<TimerKey> {
    let number = TimerKey::of_number(text).ok();
    number.or_else(|| Some(Uuid::parse_str(text).ok()?.into())).filter(|key| key.to_string() == text)
}

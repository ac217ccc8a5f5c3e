//! Pauses: a route, a node or a timer of which nothing is delivered for a while.

use std::sync::Arc;
use std::time::SystemTime;

use super::due_time::DueTime;
use super::ends::shortened;
use super::id::DurableId;

/// The beginning of the reason for which a paused timer is parked.
pub(super) const PAUSED: &str = "paused";

/// The subject of a [pause](super::DurableTimers::pause), and of its [end](super::DurableTimers::resume).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PauseTarget {
    /// All timers of a route, of all message types, on all nodes.
    Route(Arc<str>),
    /// All deliveries of the nodes with this name: of a store for one process that of its
    /// [builder](super::DurableTimersBuilder::name), of a shared one as its table of nodes has it.
    Node(Arc<str>),
    /// One timer, in all its repetitions.
    Timer(DurableId),
}

/// A pause: nothing of its target is delivered until it is [resumed](super::DurableTimers::resume), or until its end.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use actix_timers_durable::Pause;
///
/// let tonight = SystemTime::now() + Duration::from_secs(8 * 3600);
/// let pause = Pause::route("reminders").until(tonight).by("ops").because("the mail server is down");
/// assert_eq!(pause.who.as_deref(), Some("ops"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "nothing is paused until it is passed to `DurableTimers::pause`"]
pub struct Pause {
    /// The subject.
    pub target: PauseTarget,
    /// The time at which it ends by itself, if it does. That of a timer does not.
    pub until: Option<DueTime>,
    /// The person or program that pauses.
    pub who: Option<Arc<str>>,
    /// The reason.
    pub why: Option<Arc<str>>,
}

impl Pause {
    /// Pauses a route, by its name.
    pub fn route(name: impl Into<Arc<str>>) -> Self {
        Self::of(PauseTarget::Route(name.into()))
    }

    /// Pauses the nodes of this [name](PauseTarget::Node).
    pub fn node(name: impl Into<Arc<str>>) -> Self {
        Self::of(PauseTarget::Node(name.into()))
    }

    /// Pauses a timer.
    pub const fn timer(id: DurableId) -> Self {
        Self::of(PauseTarget::Timer(id))
    }

    const fn of(target: PauseTarget) -> Self {
        Self { target, until: None, who: None, why: None }
    }

    /// Ends the pause at this wall-clock time.
    pub fn until(self, time: impl Into<SystemTime>) -> Self {
        Self { until: DueTime::at_or_after(time.into()).ok(), ..self }
    }

    /// Notes the person or program that pauses. Up to 1024 bytes are kept.
    pub fn by(self, who: impl AsRef<str>) -> Self {
        Self { who: Some(shortened(who.as_ref())), ..self }
    }

    /// Notes the reason. Up to 1024 bytes are kept.
    pub fn because(self, why: impl AsRef<str>) -> Self {
        Self { why: Some(shortened(why.as_ref())), ..self }
    }

    /// Returns whether it has not ended by itself.
    pub(crate) fn holds(&self, now: DueTime) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    /// Returns whether it concerns a route, if it concerns the node.
    pub(crate) fn is_of(&self, route: &str) -> bool {
        !matches!(&self.target, PauseTarget::Route(other) if **other != *route)
    }

    /// Returns whether it concerns a node.
    pub(crate) fn concerns(&self, node: &str) -> bool {
        !matches!(&self.target, PauseTarget::Node(name) if **name != *node)
    }

    /// Returns the reason for which a timer is parked.
    #[doc(hidden)]
    pub fn reason(&self) -> String {
        let part = |joint: &str, text: &Option<Arc<str>>| text.iter().map(|text| format!("{joint}{text}")).collect();
        [PAUSED.to_owned(), part(" by ", &self.who), part(": ", &self.why)].concat()
    }

    /// Reads the row of a route or node.
    #[doc(hidden)]
    pub fn of_row(kind: &str, name: &str, until: Option<DueTime>, [who, why]: [Option<String>; 2]) -> Self {
        let pause = if kind == "node" { Self::node(name) } else { Self::route(name) };
        Self { until, who: who.map(Arc::from), why: why.map(Arc::from), ..pause }
    }
}

impl PauseTarget {
    /// Returns kind and name in the table of pauses; the id of a timer, which has no row there.
    #[doc(hidden)]
    pub fn row(&self) -> Result<(&'static str, &str), DurableId> {
        match self {
            Self::Route(name) => Ok(("route", name)),
            Self::Node(name) => Ok(("node", name)),
            Self::Timer(id) => Err(*id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_timer_tells_who_and_why() {
        let pause = Pause::timer(DurableId::new(DueTime::MIN));
        assert_eq!(pause.reason(), "paused");
        assert_eq!(pause.clone().by("ops").reason(), "paused by ops");
        assert_eq!(pause.clone().because("a\0b").reason(), "paused: a\u{fffd}b");
        assert_eq!(pause.by("ops").because("no mail").reason(), "paused by ops: no mail");
    }

    #[test]
    fn a_time_after_all_times_is_no_end() {
        let beyond = DueTime::MAX.to_system_time() + std::time::Duration::from_secs(1);
        assert_eq!(Pause::route("a").until(beyond).until, None);
    }
}

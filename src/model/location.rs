//! Locations of pending timers, and explanations for people.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "serde")]
use crate::model::duration_text;
use crate::model::view::TimerInfo;
use crate::timing::Tick;

/// The location of a pending timer. Part of a [`TimerInfo`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TimerLocation {
    /// In the wheel, before its deadline.
    Wheel {
        /// The level; 0 has the finest buckets.
        level: usize,
        /// The first tick of its bucket.
        bucket: Tick,
        /// The time that its bucket covers.
        #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
        width: Duration,
        /// Time until its bucket expires: the timer is due then, or moves to the level below.
        #[cfg_attr(feature = "serde", serde(with = "duration_text"))]
        expires_in: Duration,
    },
    /// Due, in the inbox of its actor, which takes one message at a time.
    Inbox {
        /// Messages in that inbox, this one included.
        length: usize,
        /// Messages before this one, if counted: see [`TimerInfo::location`].
        ahead: Option<usize>,
        /// The message before them is on its way through the mailbox of the actor, which is flooded or has no inbox at
        /// present.
        by_mailbox: bool,
    },
    /// Due, in the queue of a recipient with a mailbox policy or tracked delivery.
    Queue {
        /// Messages in that queue, this one included.
        length: usize,
        /// Messages before this one, if counted: see [`TimerInfo::location`].
        ahead: Option<usize>,
        /// Messages in the mailbox or the handler of the recipient.
        under_way: u64,
    },
    /// Due, in the mailbox of its recipient, represented there by a request of tracked delivery.
    Mailbox {
        /// Messages in the mailbox or the handler of the recipient, this one included.
        under_way: u64,
    },
    /// Due; application code is producing its message.
    Source,
    /// In flight: its message is in the mailbox of its recipient, or being handled, or about to be.
    Flight,
    /// It repeats with a fixed delay, and the handler of its last message has not ended: its next deadline counts from
    /// that end.
    Handler,
}

impl TimerLocation {
    /// Returns the name of the variant in lower case.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Wheel { .. } => "wheel",
            Self::Inbox { .. } => "inbox",
            Self::Queue { .. } => "queue",
            Self::Mailbox { .. } => "mailbox",
            Self::Source => "source",
            Self::Flight => "flight",
            Self::Handler => "handler",
        }
    }
}

impl TimerInfo {
    /// Explains in a sentence or two why the message has not been delivered yet.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use actix::prelude::*;
    /// # use actix_timers::TimerActor;
    /// # #[derive(Message)]
    /// # #[rtype(result = "()")]
    /// # struct Remind;
    /// # struct Customer;
    /// # impl Actor for Customer { type Context = Context<Self>; }
    /// # impl Handler<Remind> for Customer { type Result = (); fn handle(&mut self, _: Remind, _: &mut Context<Self>) {} }
    /// # System::new().block_on(async {
    /// # let timers = TimerActor::builder().start()?;
    /// # let customer = Customer.start();
    /// let id = timers.schedule_after(&customer, Duration::from_secs(90_000), Remind);
    /// let why = timers.get(id).unwrap().explain();
    /// assert!(why.starts_with("Not due yet: 1d "), "{why}");
    /// # Ok::<(), actix_timers::BuildError>(())
    /// # }).unwrap();
    /// ```
    pub fn explain(&self) -> String {
        let mut why = match &self.location {
            TimerLocation::Wheel { .. } if !self.overdue.is_zero() || self.remaining.is_zero() => {
                format!("Due since {}, and the timer actor has not reached it yet.", Rough(self.overdue))
            }
            TimerLocation::Wheel { level: 0, .. } => {
                format!("Not due yet: {} left. It waits on level 0, and comes out when its bucket expires.", Rough(self.remaining))
            }
            TimerLocation::Wheel { level, expires_in, .. } => format!(
                "Not due yet: {} left. It waits on level {level}, and goes down a level when its bucket expires, in {}.",
                Rough(self.remaining),
                Rough(*expires_in)
            ),
            TimerLocation::Inbox { length, ahead, by_mailbox } => {
                let way = if *by_mailbox {
                    " Its inbox is being emptied through its mailbox, one message at a time."
                } else {
                    ""
                };
                let position = position(*ahead, *length);
                format!("Due, in the inbox of its actor, {position}. The actor, or the thread it runs on, is busy.{way}")
            }
            TimerLocation::Queue { length, ahead, under_way } => {
                let position = position(*ahead, *length);
                format!(
                    "Due, in the queue of its recipient, {position}. Messages under way to it, which it has not handled: \
                     {under_way}."
                )
            }
            TimerLocation::Mailbox { under_way } => {
                format!("Due, and in the mailbox of its recipient, which has not handled it yet. Messages there: {under_way}.")
            }
            TimerLocation::Source => "Due: its message is being produced.".to_owned(),
            TimerLocation::Flight => {
                "In flight: its message is in the mailbox of its recipient, or is being handled.".to_owned()
            }
            TimerLocation::Handler => {
                "It repeats, and its last message is still being handled: the next deadline counts from the end of that."
                    .to_owned()
            }
        };
        if self.wall_time.is_some() && matches!(self.location, TimerLocation::Wheel { .. }) {
            why += " It follows the wall clock.";
        }
        why
    }
}

/// Returns a position in a queue as text.
fn position(ahead: Option<usize>, length: usize) -> String {
    match ahead {
        Some(0) => format!("as the next of {length}"),
        Some(ahead) => format!("behind {ahead} of {length}"),
        None => format!("behind many of {length}"),
    }
}

/// A duration as readable text, to two units.
struct Rough(Duration);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs();
        match secs {
            _ if self.0 == Duration::MAX => f.write_str("forever"),
            0 if self.0 < Duration::from_millis(1) => write!(f, "{}µs", self.0.as_micros()),
            0 => write!(f, "{}ms", self.0.as_millis()),
            1..60 => write!(f, "{}.{}s", secs, self.0.subsec_millis() / 100),
            60..3600 => write!(f, "{}m {}s", secs / 60, secs % 60),
            3600..86_400 => write!(f, "{}h {}m", secs / 3600, secs / 60 % 60),
            _ => write!(f, "{}d {}h", secs / 86_400, secs / 3600 % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_to_two_units() {
        let said = |millis| Rough(Duration::from_millis(millis)).to_string();
        let times = [0, 1, 999, 1000, 59_999, 61_000, 3_661_000, 90_000_000].map(said);
        assert_eq!(times, ["0µs", "1ms", "999ms", "1.0s", "59.9s", "1m 1s", "1h 1m", "1d 1h"]);
        assert_eq!(Rough(Duration::MAX).to_string(), "forever");
    }
}
